// SPDX-License-Identifier: Apache-2.0
//
// Convolution over up to three spatial dimensions, of any strides, groups, padding and dilation, summed in fp32 (fp64 for
// double) by scalar arithmetic: what conv_mma.cuh and conv_depthwise.cuh do not take.
//
//   out[n, o, p] = bias[o] + Σ_{c, w} in[n, g·C + c, p·step + w·dilation - padding] · filter[o, c, w],   g = o / O
//
//   tiled: per image and group a product of the filter [O, C·window] with patches [C·window, positions] that are never
//   written down: a block computes 64 channels × 64 positions (common/tile_product.cuh)
//   direct: one thread per output, for groups of few channels
//
//   Config   Input [N, G·C, z, y, x], Filter [G·O, C, window z y x], Output [N, G·O, z, y, x]: Tensors of rank 5, missing
//            spatial dimensions of size 1 in front; Bias [G·O] or void; Step, Padding, Dilation: Dims of 3; GROUPS;
//            DIRECT
#pragma once

#include "common/tile_product.cuh"
#include "conv_place.cuh"

namespace ditc::conv {

template <class Config>
struct Layout : Config {
  using Input = typename Config::Input;
  using Filter = typename Config::Filter;
  using Output = typename Config::Output;
  using Compute = ComputeOf<typename Input::Element>;
  static constexpr int CHANNELS = Filter::size(1), OUT_CHANNELS = Filter::size(0) / Config::GROUPS;  // of a group
  static constexpr int WINDOW = Filter::size(2) * Filter::size(3) * Filter::size(4);
  static constexpr int POSITIONS = Output::size(2) * Output::size(3) * Output::size(4);

  /// The input that tap `w` sees at output position `p`; 0 in the padding. `channel` points at the channel's plane.
  __device__ static Compute inputAt(const typename Input::Element *channel, Place p, Place w) {
    int z = p.z * int(Config::Step::at(0)) + w.z * int(Config::Dilation::at(0)) - int(Config::Padding::at(0));
    int y = p.y * int(Config::Step::at(1)) + w.y * int(Config::Dilation::at(1)) - int(Config::Padding::at(1));
    int x = p.x * int(Config::Step::at(2)) + w.x * int(Config::Dilation::at(2)) - int(Config::Padding::at(2));
    bool inside = z >= 0 && y >= 0 && x >= 0 && z < Input::size(2) && y < Input::size(3) && x < Input::size(4);
    return inside ? widen(channel[z * Input::stride(2) + y * Input::stride(3) + x * Input::stride(4)]) : Compute(0);
  }
  __device__ static i64 filterOffset(int out, int channel, Place w) {
    return out * Filter::stride(0) + channel * Filter::stride(1) + w.z * Filter::stride(2) + w.y * Filter::stride(3) +
           w.x * Filter::stride(4);
  }
  __device__ static void store(typename Output::Element *out, const ElementOf<typename Config::Bias> *bias, i64 image,
                               int channel, int position, Compute value) {
    Place p = placeOf<Output>(position);
    if constexpr (Operand<typename Config::Bias>::PRESENT)
      value += widen(bias[channel * Config::Bias::stride(0)]);
    out[image * Output::stride(0) + channel * Output::stride(1) + p.z * Output::stride(2) + p.y * Output::stride(3) +
        p.x * Output::stride(4)] = narrow<typename Output::Element>(value);
  }
};

template <class L>
__device__ void runTiled(const ElementOf<typename L::Input> *input, const ElementOf<typename L::Filter> *filter,
                         const ElementOf<typename L::Bias> *bias, ElementOf<typename L::Output> *out) {
  using Compute = typename L::Compute;
  constexpr int DEPTH = L::CHANNELS * L::WINDOW;
  constexpr int POSITION_TILES = divideUp(L::POSITIONS, kTileColumns);
  constexpr int CHANNEL_TILES = divideUp(L::OUT_CHANNELS, kTileRows);
  extern __shared__ SharedChunk sharedMemory[];
  int firstPosition = int(blockIdx.x % POSITION_TILES) * kTileColumns;
  int firstChannel = int(blockIdx.x / POSITION_TILES % CHANNEL_TILES) * kTileRows;
  unsigned slice = blockIdx.x / POSITION_TILES / CHANNEL_TILES;
  int group = slice % L::GROUPS;
  i64 image = slice / L::GROUPS;
  input += image * L::Input::stride(0) + i64(group) * L::CHANNELS * L::Input::stride(1);

  auto a = [&](int m, int k) {
    bool exists = firstChannel + m < L::OUT_CHANNELS && k < DEPTH;
    int channel = group * L::OUT_CHANNELS + firstChannel + m;
    Place tap = placeOf<typename L::Filter>(k % L::WINDOW);
    return exists ? Compute(widen(filter[L::filterOffset(channel, k / L::WINDOW, tap)])) : Compute(0);
  };
  auto b = [&](int k, int n) {
    bool exists = k < DEPTH && firstPosition + n < L::POSITIONS;
    const auto *channel = input + k / L::WINDOW * L::Input::stride(1);
    return exists ? L::inputAt(channel, placeOf<typename L::Output>(firstPosition + n),
                               placeOf<typename L::Filter>(k % L::WINDOW))
                  : Compute(0);
  };
  TileProduct<Compute> tile;
  tile.template accumulate<true, false>(sharedMemory, DEPTH, a, b);
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      int channel = firstChannel + tile.row() + i, position = firstPosition + tile.column() + j;
      if (channel < L::OUT_CHANNELS && position < L::POSITIONS)
        L::store(out, bias, image, group * L::OUT_CHANNELS + channel, position, tile.sums[i][j]);
    }
}

template <class L>
__device__ void runDirect(const ElementOf<typename L::Input> *input, const ElementOf<typename L::Filter> *filter,
                          const ElementOf<typename L::Bias> *bias, ElementOf<typename L::Output> *out) {
  i64 index = i64(blockIdx.x) * kTileThreads + threadIdx.x;
  if (index >= L::Output::count())
    return;
  int position = index % L::POSITIONS, channel = index / L::POSITIONS % L::Output::size(1);
  i64 image = index / L::POSITIONS / L::Output::size(1);
  Place place = placeOf<typename L::Output>(position);
  input += image * L::Input::stride(0) + i64(channel / L::OUT_CHANNELS) * L::CHANNELS * L::Input::stride(1);
  typename L::Compute sum = 0;
  for (int c = 0; c < L::CHANNELS; ++c)
#pragma unroll
    for (int w = 0; w < L::WINDOW; ++w) {
      Place tap = placeOf<typename L::Filter>(w);
      sum += L::inputAt(input + c * L::Input::stride(1), place, tap) * widen(filter[L::filterOffset(channel, c, tap)]);
    }
  L::store(out, bias, image, channel, position, sum);
}

template <class Config>
__device__ void run(const ElementOf<typename Config::Input> *input, const ElementOf<typename Config::Filter> *filter,
                    const ElementOf<typename Config::Bias> *bias, ElementOf<typename Config::Output> *out) {
  followPreviousKernel();
  if constexpr (Config::DIRECT)
    runDirect<Layout<Config>>(input, filter, bias, out);
  else
    runTiled<Layout<Config>>(input, filter, bias, out);
}

}  // namespace ditc::conv
