// SPDX-License-Identifier: Apache-2.0
//
// The last step of convolutions on tensor cores: the bias of a channel, and eight neighbouring columns of a tile to where they
// lie in the output. Tiles have channels as rows and pixels as columns (L::CHANNEL_ROWS) or the other way round; `tile.channel`
// is the first channel in its group, and `tile.pixelAt<L>(i)` finds its pixel i.
#pragma once

#include "common/mma.cuh"
#include "conv_place.cuh"

namespace ditc::conv {

/// A pixel of the output, if it is one.
struct Pixel {
  bool exists;
  int image;
  Place place;
};

template <class L, class Tile>
__device__ inline float biasOf(const ElementOf<typename L::Bias> *bias, const Tile &tile, int channel) {
  if constexpr (Operand<typename L::Bias>::PRESENT) {
    channel += tile.channel;
    return channel < L::OUT_CHANNELS ? widen(bias[(tile.group * L::OUT_CHANNELS + channel) * L::Bias::stride(0)]) : 0.0f;
  }
  return 0.0f;
}

/// Eight columns of a row, two in a word; those that exist.
template <class L, class Tile>
__device__ inline void storePiece(typename L::Element *out, const Tile &tile, int row, int column, const MmaWord (&word)[4]) {
  using Output = typename L::Output;
#pragma unroll
  for (int part = 0; part < 8; part += L::STORE) {
    int channel = tile.channel + (L::CHANNEL_ROWS ? row : column + part);
    Pixel pixel = tile.template pixelAt<L>(L::CHANNEL_ROWS ? column + part : row);
    if (channel >= L::OUT_CHANNELS || !pixel.exists)
      continue;
    Place p = pixel.place;
    auto *to = out + pixel.image * Output::stride(0) + (tile.group * L::OUT_CHANNELS + channel) * Output::stride(1) +
               p.z * Output::stride(2) + p.y * Output::stride(3) + p.x * Output::stride(4);
    if constexpr (L::STORE == 1) {
      to->bits = static_cast<unsigned short>(word[part / 2] >> 16 * (part % 2));
    } else {
      Pack<MmaWord, L::STORE / 2> pack;
#pragma unroll
      for (int i = 0; i < L::STORE / 2; ++i)
        pack.at[i] = word[part / 2 + i];
      storePack(reinterpret_cast<MmaWord *>(to), pack);
    }
  }
}

}  // namespace ditc::conv
