// SPDX-License-Identifier: Apache-2.0
//
// Depthwise convolution (one filter for each channel) of stride 1 and dilation 1 in up to three spatial dimensions. It is
// bound by memory: a row of input is loaded by whoever computes some rows of output, (ROWS + window - 1) / ROWS times, of which
// caches hold all but the first. Sums are in fp32 in the order of taps z, y, x, as in conv.cuh: both give the same bits.
//
//   out[n, c, p] = bias[c] + Σ_w in[n, c, p + w - padding] · filter[c, w]
//
//   rows       positions along x are neighbours in the input. A thread: STRIP positions along x in ROWS rows of y, of one
//              channel. An input row is read once for all output rows that see it:
//
//                in   ▒░░░░░░░░▒   ROWS + window - 1 rows, each ░ its own STRIP elements in loads of READ, and ▒ what its
//                     ▒░░░░░░░░▒   neighbours in x have: by shuffles where the threads of a row lie in one warp, else by
//                     ▒░░░░░░░░▒   narrower loads
//                out   ▓▓▓▓▓▓▓▓    ROWS rows
//
//   channels   channels are neighbours in the input. A thread: CHANNELS channels, which it loads at once, at STRIP positions
//              along x in ROWS rows of y; what threads of neighbouring positions read as well comes from L1. A block: LANES
//              groups of channels at kThreads / LANES strips. It holds its taps in shared memory, since in the filter those
//              of one channel are neighbours, not those of neighbouring channels
//
//   Config     Input [N, C, z, y, x], Filter [C, 1, window z y x], Output [N, C, z, y, x]: Tensors of rank 5, whose dimensions
//              with a window of 1 may have been swapped or joined; Bias [C] or void; Padding: Dims of 3, in front;
//              BY_CHANNELS; STRIP, ROWS; CHANNELS, LANES: 1 in rows; READ: in rows, elements of x in a load; STORE_X, STORE_C:
//              elements of x or channels in a store, one of them 1. Rows start aligned to READ and STORE_X and end at
//              multiples of them; channels likewise
//
//   registers: input rows as they lie in memory, the taps of one z, the sums of rows under way; 72 for 3 x 3 in rows of 16 bits,
//              145 in channels
//   shared memory: in channels, taps in fp32, static
#pragma once

#include "conv_place.cuh"

namespace ditc::conv_depthwise {

constexpr int kThreads = 128, kWarp = 32;

template <class Config>
struct Layout : Config {
  using Input = typename Config::Input;
  using Filter = typename Config::Filter;
  using Output = typename Config::Output;
  using Element = typename Input::Element;
  static constexpr int STRIP = Config::STRIP, ROWS = Config::ROWS, CHANNELS = Config::CHANNELS, LANES = Config::LANES;
  static constexpr int WINDOW_Z = Filter::size(2), WINDOW_Y = Filter::size(3), WINDOW_X = Filter::size(4);
  static constexpr int WINDOW = WINDOW_Z * WINDOW_Y * WINDOW_X;
  static constexpr int LEFT = Config::Padding::at(2), RIGHT = WINDOW_X - 1 - LEFT;  // what a strip sees beside itself
  static constexpr int SPAN = STRIP + WINDOW_X - 1, IN_ROWS = ROWS + WINDOW_Y - 1;
  static constexpr unsigned STRIPS = divideUp(Output::size(4), STRIP), ROW_GROUPS = divideUp(Output::size(3), ROWS);
  /// Of one image and channel.
  static constexpr unsigned TILES = STRIPS * ROW_GROUPS * unsigned(Output::size(2));

  /// Neighbours have all that a thread needs beside its strip: lanes of one warp, from the row's first strip to its last.
  static constexpr bool SHUFFLES = !Config::BY_CHANNELS && kWarp % STRIPS == 0 && LEFT >= 0 && LEFT <= STRIP && RIGHT >= 0 &&
                                   RIGHT <= STRIP && Input::size(4) <= i64(STRIPS) * STRIP;
};

/// The first output position of a thread's tile.
template <class L>
__device__ inline conv::Place placeOfTile(unsigned tile) {
  return {int(tile / L::STRIPS / L::ROW_GROUPS % unsigned(L::Output::size(2))), int(tile / L::STRIPS % L::ROW_GROUPS) * L::ROWS,
          int(tile % L::STRIPS) * L::STRIP};
}

template <class T>
__device__ inline i64 offsetOf(conv::Place p) {
  return p.z * T::stride(2) + p.y * T::stride(3) + p.x * T::stride(4);
}

// ---- what both layouts share --------------------------------------------------------------------------------------

/// COUNT neighbouring elements as one access moves them; pairs of 16 bits stay words.
template <class Element, int COUNT, bool PAIRS = sizeof(Element) == 2 && COUNT % 2 == 0>
struct Piece {
  Pack<Element, COUNT> pack = {};

  __device__ void load(const Element *from) { pack = loadPack<COUNT>(from); }
  __device__ void store(Element *to) const { storePack(to, pack); }
  __device__ void widenTo(float *values) const {
#pragma unroll
    for (int i = 0; i < COUNT; ++i)
      values[i] = widen(pack.at[i]);
  }
  __device__ void round(const float *values) {
#pragma unroll
    for (int i = 0; i < COUNT; ++i)
      pack.at[i] = narrow<Element>(values[i]);
  }
};
template <class Element, int COUNT>
struct Piece<Element, COUNT, true> {
  Pack<unsigned, COUNT / 2> words = {};

  __device__ void load(const Element *from) { words = loadPack<COUNT / 2>(reinterpret_cast<const unsigned *>(from)); }
  __device__ void store(Element *to) const { storePack(reinterpret_cast<unsigned *>(to), words); }
  __device__ void widenTo(float *values) const {
#pragma unroll
    for (int i = 0; i < COUNT / 2; ++i) {
      values[2 * i] = Pair<Element>::low(words.at[i]);
      values[2 * i + 1] = Pair<Element>::high(words.at[i]);
    }
  }
  __device__ void round(const float *values) {
#pragma unroll
    for (int i = 0; i < COUNT / 2; ++i)
      words.at[i] = Pair<Element>::pack(values[2 * i], values[2 * i + 1]);
  }
};

// ---- windows over rows in fp32 ------------------------------------------------------------------------------------

/// An input row in front of, in and behind a strip.
template <class L>
struct Row {
  float at[L::SPAN][L::CHANNELS];
};
template <class L>
struct Taps {
  float at[L::WINDOW_Y][L::WINDOW_X][L::CHANNELS];
};
template <class L>
struct Sums {
  float at[L::ROWS][L::STRIP][L::CHANNELS] = {};

  /// What input row `r` of a tile gives to the output rows that see it.
  __device__ void add(const Row<L> &row, const Taps<L> &taps, int r) {
#pragma unroll
    for (int o = 0; o < L::ROWS; ++o) {
      int wy = r - o;
      if (wy < 0 || wy >= L::WINDOW_Y)
        continue;
#pragma unroll
      for (int wx = 0; wx < L::WINDOW_X; ++wx)
#pragma unroll
        for (int s = 0; s < L::STRIP; ++s)
#pragma unroll
          for (int c = 0; c < L::CHANNELS; ++c)
            at[o][s][c] += row.at[s + wx][c] * taps.at[wy][wx][c];
    }
  }
};

/// The sums of the tile at `place`. `tapsOf(z)` is the window of one z; `Reader` knows how rows lie: its constructor gets a
/// row's pointer at the tile's x, and whether there is such a row.
template <class L, class Reader, class TapsOf>
__device__ inline Sums<L> convolve(const typename L::Element *input, conv::Place place, TapsOf tapsOf) {
  using Input = typename L::Input;
  Sums<L> sums;
  int firstZ = place.z - int(L::Padding::at(0)), firstY = place.y - int(L::Padding::at(1));
  input += offsetOf<Input>({firstZ, firstY, place.x});
#pragma unroll 1
  for (int wz = 0; wz < L::WINDOW_Z; ++wz, input += Input::stride(2)) {
    bool isPlane = firstZ + wz >= 0 && firstZ + wz < Input::size(2);
    Taps<L> taps = tapsOf(wz);
    Reader readers[L::IN_ROWS];
#pragma unroll
    for (int r = 0; r < L::IN_ROWS; ++r)
      readers[r].load(input + r * Input::stride(3), place.x, isPlane && firstY + r >= 0 && firstY + r < Input::size(3));
#pragma unroll
    for (int r = 0; r < L::IN_ROWS; ++r)
      sums.add(readers[r].row(place.x), taps, r);
  }
  return sums;
}

/// Adds the bias of channel `first` and those behind it.
template <class L>
__device__ inline void addBias(Sums<L> &sums, const ElementOf<typename L::Bias> *bias, int first) {
  if constexpr (Operand<typename L::Bias>::PRESENT) {
#pragma unroll
    for (int c = 0; c < L::CHANNELS; ++c) {
      float value = widen(bias[(first + c) * L::Bias::stride(0)]);
#pragma unroll
      for (int o = 0; o < L::ROWS; ++o)
#pragma unroll
        for (int s = 0; s < L::STRIP; ++s)
          sums.at[o][s][c] += value;
    }
  }
}

/// `out` points at the tile's first position and channel.
template <class L>
__device__ inline void store(ElementOf<typename L::Output> *out, conv::Place place, const Sums<L> &sums) {
  using Output = typename L::Output;
  constexpr int COUNT = L::STORE_X * L::STORE_C;
#pragma unroll
  for (int o = 0; o < L::ROWS; ++o)
#pragma unroll
    for (int s = 0; s < L::STRIP; s += L::STORE_X)
#pragma unroll
      for (int c = 0; c < L::CHANNELS; c += L::STORE_C) {
        float values[COUNT];
#pragma unroll
        for (int i = 0; i < COUNT; ++i)
          values[i] = L::STORE_C > 1 ? sums.at[o][s][c + i % L::STORE_C] : sums.at[o][s + i % L::STORE_X][c];
        Piece<typename L::Element, COUNT> piece;
        piece.round(values);
        if (place.y + o < Output::size(3) && place.x + s < Output::size(4))
          piece.store(out + o * Output::stride(3) + s * Output::stride(4) + c * Output::stride(1));
      }
}

// ---- rows ---------------------------------------------------------------------------------------------------------

/// The widest access at element `first` of a row that is aligned and does not pass `end`.
__host__ __device__ constexpr int pieceAt(int first, int end, int widest) {
  int width = widest;
  while (width > 1 && (first % width != 0 || first + width > end))
    width /= 2;
  return width;
}

/// Elements [FIRST, END) of a row, counted from x, a multiple of STRIP; zeros outside of the row. No piece lies half outside,
/// since READ divides the row's length.
template <class L, int FIRST, int END>
struct Pieces {
  static constexpr int WIDTH = pieceAt(FIRST, END, L::READ);
  Piece<typename L::Element, WIDTH> first;
  Pieces<L, FIRST + WIDTH, END> rest;

  __device__ void load(const typename L::Element *row, int x, bool exists) {
    if (exists && x + FIRST >= 0 && x + FIRST < L::Input::size(4))
      first.load(row + FIRST);
    rest.load(row, x, exists);
  }
  __device__ void widenTo(float *values) const {
    first.widenTo(values);
    rest.widenTo(values + WIDTH);
  }
};
template <class L, int END>
struct Pieces<L, END, END> {
  __device__ void load(const typename L::Element *, int, bool) {}
  __device__ void widenTo(float *) const {}
};

/// A row as it lies in memory: the strip alone if neighbours have the rest.
template <class L>
struct RowReader {
  static constexpr int FIRST = L::SHUFFLES ? 0 : -L::LEFT, END = L::SHUFFLES ? L::STRIP : L::SPAN - L::LEFT;
  Pieces<L, FIRST, END> pieces;

  __device__ void load(const typename L::Element *row, int x, bool exists) { pieces.load(row, x, exists); }
  __device__ Row<L> row(int x) const {
    Row<L> row;
    pieces.widenTo(row.at[L::LEFT + FIRST]);
    if constexpr (L::SHUFFLES)
      askNeighbours(row, x);
    return row;
  }

private:
  __device__ static void askNeighbours(Row<L> &row, int x) {
#pragma unroll
    for (int i = 0; i < L::LEFT; ++i) {
      float value = __shfl_up_sync(~0u, row.at[L::STRIP + i][0], 1);
      row.at[i][0] = x == 0 ? 0.0f : value;
    }
#pragma unroll
    for (int i = 0; i < L::RIGHT; ++i) {
      float value = __shfl_down_sync(~0u, row.at[L::LEFT + i][0], 1);
      row.at[L::LEFT + L::STRIP + i][0] = x == int(L::STRIPS - 1) * L::STRIP ? 0.0f : value;
    }
  }
};

template <class L>
__device__ inline void runRows(const ElementOf<typename L::Input> *input, const ElementOf<typename L::Filter> *filter,
                               const ElementOf<typename L::Bias> *bias, ElementOf<typename L::Output> *out) {
  using Input = typename L::Input;
  using Filter = typename L::Filter;
  using Output = typename L::Output;
  constexpr unsigned CHANNELS = Output::size(1), ALL = Output::size(0) * CHANNELS * L::TILES;
  unsigned index = blockIdx.x * kThreads + threadIdx.x;
  unsigned tile = min(index, ALL - 1);  // threads behind the last work as well: all of a warp shuffle
  conv::Place place = placeOfTile<L>(tile);
  int channel = tile / L::TILES % CHANNELS, image = tile / L::TILES / CHANNELS;
  auto tapsOf = [&](int wz) {
    Taps<L> taps;
#pragma unroll
    for (int wy = 0; wy < L::WINDOW_Y; ++wy)
#pragma unroll
      for (int wx = 0; wx < L::WINDOW_X; ++wx)
        taps.at[wy][wx][0] = widen(filter[channel * Filter::stride(0) + offsetOf<Filter>({wz, wy, wx})]);
    return taps;
  };
  Sums<L> sums = convolve<L, RowReader<L>>(input + image * Input::stride(0) + channel * Input::stride(1), place, tapsOf);
  addBias<L>(sums, bias, channel);
  out += image * Output::stride(0) + channel * Output::stride(1);
  if (index < ALL)
    store<L>(out + offsetOf<Output>(place), place, sums);
}

// ---- channels -----------------------------------------------------------------------------------------------------

/// A row of SPAN positions, each CHANNELS neighbours in memory.
template <class L>
struct ChannelReader {
  Piece<typename L::Element, L::CHANNELS> pieces[L::SPAN];

  __device__ void load(const typename L::Element *row, int x, bool exists) {
#pragma unroll
    for (int i = 0; i < L::SPAN; ++i) {
      int beside = i - L::LEFT;
      if (exists && x + beside >= 0 && x + beside < L::Input::size(4))
        pieces[i].load(row + beside * L::Input::stride(4));
    }
  }
  __device__ Row<L> row(int) const {
    Row<L> row;
#pragma unroll
    for (int i = 0; i < L::SPAN; ++i)
      pieces[i].widenTo(row.at[i]);
    return row;
  }
};

/// The taps of a block's channels in fp32. Rows of taps lie 4 banks apart.
template <class L>
struct SharedTaps {
  static constexpr int BLOCK_CHANNELS = L::LANES * L::CHANNELS;
  alignas(16) float at[L::WINDOW][BLOCK_CHANNELS + 4];

  /// In the order of the filter's memory, if it is dense.
  __device__ void fetch(const ElementOf<typename L::Filter> *filter, int firstChannel) {
    using Filter = typename L::Filter;
    for (int i = threadIdx.x; i < L::WINDOW * BLOCK_CHANNELS; i += kThreads) {
      int channel = i / L::WINDOW, tap = i % L::WINDOW;
      conv::Place w = conv::placeOf<Filter>(tap);
      if (firstChannel + channel < Filter::size(0))
        at[tap][channel] = widen(filter[(firstChannel + channel) * Filter::stride(0) + offsetOf<Filter>(w)]);
    }
  }
  /// `channel` counts from the block's first.
  __device__ Taps<L> ofPlane(int wz, int channel) const {
    Taps<L> taps;
#pragma unroll
    for (int wy = 0; wy < L::WINDOW_Y; ++wy)
#pragma unroll
      for (int wx = 0; wx < L::WINDOW_X; ++wx) {
        auto pack = loadPack<L::CHANNELS>(&at[(wz * L::WINDOW_Y + wy) * L::WINDOW_X + wx][channel]);
#pragma unroll
        for (int c = 0; c < L::CHANNELS; ++c)
          taps.at[wy][wx][c] = pack.at[c];
      }
    return taps;
  }
};

template <class L>
__device__ inline void runChannels(const ElementOf<typename L::Input> *input, const ElementOf<typename L::Filter> *filter,
                                   const ElementOf<typename L::Bias> *bias, ElementOf<typename L::Output> *out) {
  using Input = typename L::Input;
  using Output = typename L::Output;
  constexpr int BLOCK_CHANNELS = L::LANES * L::CHANNELS, BLOCK_TILES = kThreads / L::LANES;
  constexpr unsigned SLICES = divideUp(Output::size(1), BLOCK_CHANNELS), ALL = Output::size(0) * L::TILES;
  __shared__ SharedTaps<L> shared;
  int firstChannel = int(blockIdx.x % SLICES) * BLOCK_CHANNELS, lane = threadIdx.x % L::LANES * L::CHANNELS;
  unsigned index = blockIdx.x / SLICES * BLOCK_TILES + threadIdx.x / L::LANES;
  shared.fetch(filter, firstChannel);
  __syncthreads();
  int channel = firstChannel + lane;
  if (index >= ALL || channel >= Output::size(1))
    return;
  conv::Place place = placeOfTile<L>(index);
  int image = index / L::TILES;
  auto tapsOf = [&](int wz) { return shared.ofPlane(wz, lane); };
  Sums<L> sums = convolve<L, ChannelReader<L>>(input + image * Input::stride(0) + channel, place, tapsOf);
  addBias<L>(sums, bias, channel);
  out += image * Output::stride(0) + channel * Output::stride(1);
  store<L>(out + offsetOf<Output>(place), place, sums);
}

template <class Config>
__device__ void run(const ElementOf<typename Config::Input> *input, const ElementOf<typename Config::Filter> *filter,
                    const ElementOf<typename Config::Bias> *bias, ElementOf<typename Config::Output> *out) {
  followPreviousKernel();
  if constexpr (Config::BY_CHANNELS)
    runChannels<Layout<Config>>(input, filter, bias, out);
  else
    runRows<Layout<Config>>(input, filter, bias, out);
}

}  // namespace ditc::conv_depthwise
