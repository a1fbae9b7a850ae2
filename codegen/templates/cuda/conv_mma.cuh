// SPDX-License-Identifier: Apache-2.0
//
// Convolution on the tensor cores of every GPU since sm_80, over up to three spatial dimensions, of any strides, padding,
// dilation and groups: an implicit product whose one side are filters and whose other side are windows of the input, which
// are never written down. 16-bit values, fp32 accumulation, one rounding.
//
//   out[n, o, p] = bias[o] + Σ_{w, c} in[n, g·C + c, p·step + w·dilation - padding] · filter[o, c, w],   g = o / O
//
// Channels are neighbours in memory, of the input as of the filters (channels_last.cuh makes them so). A piece of 16 bytes
// is then eight channels of one pixel, and starts on 16 bytes whatever tap of the window it is for: every piece is one
// asynchronous copy, and those that fall into the padding are zeros without being read.
//
//                       pixels of all images                    steps over k, C a multiple of BLOCK_K: all taps of some channels,
//                      ┌───────┬───────┐                          then the next channels. Taps see nearly the same pixels, which
//                      └───────┴───────┘ BLOCK_K of k             the level 1 cache then still has.
//   filters ┌──────┐  ┌───────┬───────┐                               c 0 … 31             c 32 … 63
//   [O][k]  │      │  │ warp 0│ warp 1│ fp32 in registers         tap 0  tap 1  tap 2 …  tap 0  tap 1  …
//           ├──────┤  ├───────┼───────┤                           Any other C: tap by tap, all channels of each. A step may hold
//           │      │  │ warp 2│ warp 3│                           several taps, and a tap may end inside of one: a piece lies in
//           └──────┘  └───────┴───────┘                           one tap. The loop over steps is gemm_mma_loop.cuh's.
//
//   A row of sums is an output channel and its columns are neighbouring pixels, so that results leave as 16 bytes of an
//   image as it lies in memory. Where the output has channels as neighbours, pixels are the rows and channels the columns.
//
//   Config         allowed                      meaning
//   Input          [N, G·C, z, y, x]            Tensor of rank 5, missing spatial dimensions of size 1 in front; channels one
//                                               element apart, C and all other strides multiples of 8
//   Filter         [G·O, C, window z y x]       channels one element apart, then taps without gaps
//   Bias           [G·O], void
//   Output         [N, G·O, z, y, x]            any strides
//   Step, Padding, Dilation                     Dims of 3
//   GROUPS         1 …
//   CHANNEL_ROWS   bool                         output channels are rows, else columns
//   STORE          1, 2, 4, 8                   neighbouring columns that are neighbours in memory, aligned to as much
//   BLOCK_M … WARPS_N                           as in gemm_mma.cuh; WARPS_N divides BLOCK_N into multiples of 32
//
//   shared memory  STAGES · 2 · BLOCK_K · (BLOCK_M + BLOCK_N) bytes
//   registers      BLOCK_M · BLOCK_N / THREADS accumulators, WARP_M / 2 + 8 for the operands, about 70
#pragma once

#include "conv_store.cuh"
#include "gemm_mma_loop.cuh"

namespace ditc::conv_mma {

using conv::biasOf;
using conv::Pixel;
using conv::Place;
using conv::placeOf;

/// What gemm_mma's loop asks of a Config beside the tiles.
template <class Config>
struct OneProduct : Config {
  using Operand = typename Config::Element;
  static constexpr bool GATED = false;
};

template <class Config>
struct Layout : gemm_mma::Layout<OneProduct<Config>> {
  using Base = gemm_mma::Layout<OneProduct<Config>>;
  using Input = typename Config::Input;
  using Filter = typename Config::Filter;
  using Output = typename Config::Output;
  static constexpr int CHANNELS = Filter::size(1), OUT_CHANNELS = Filter::size(0) / Config::GROUPS;  // of a group
  static constexpr int DEPTH = CHANNELS * Filter::size(2) * Filter::size(3) * Filter::size(4);
  static constexpr int STEPS = divideUp(DEPTH, Base::BLOCK_K);
  static constexpr bool BY_CHANNELS = CHANNELS % Base::BLOCK_K == 0;  // steps: all taps of some channels
  static constexpr int POSITIONS = Output::size(2) * Output::size(3) * Output::size(4);
  static constexpr int PIXELS = Output::size(0) * POSITIONS;
  static constexpr int CHANNEL_TILE = Config::CHANNEL_ROWS ? Base::BLOCK_M : Base::BLOCK_N;
  static constexpr int PIXEL_TILE = Config::CHANNEL_ROWS ? Base::BLOCK_N : Base::BLOCK_M;
  static constexpr int FILTERS_AT = Config::CHANNEL_ROWS ? 0 : Base::B_AT, PIXELS_AT = Config::CHANNEL_ROWS ? Base::B_AT : 0;
  static constexpr int CHANNEL_TILES = divideUp(OUT_CHANNELS, CHANNEL_TILE), PIXEL_TILES = divideUp(PIXELS, PIXEL_TILE);

  static_assert(CHANNELS % 8 == 0 && Input::stride(1) == 1, "eight channels are one piece");
  static_assert(CHANNEL_TILE % Base::ROWS_APART == 0 && PIXEL_TILE % Base::ROWS_APART == 0, "rows are copied evenly");
  static_assert(Base::GROUPS % 4 == 0, "a warp has whole chunks of 32 columns");

  /// May a tap lie outside of the input in this spatial dimension?
  __host__ __device__ static constexpr bool leaves(int d) {
    return Config::Padding::at(d) > 0 || (Output::size(2 + d) - 1) * Config::Step::at(d) - Config::Padding::at(d) +
                                                 (Filter::size(2 + d) - 1) * Config::Dilation::at(d) >=
                                             Input::size(2 + d);
  }
};

/// The tile of a block. Those of all channels of some pixels come one after the other: filters stay in the cache anyway.
struct Tile {
  int group, channel, pixel;  // the first ones
  template <class L>
  __device__ Pixel pixelAt(int index) const {
    int i = pixel + index;
    return {i < L::PIXELS, i / L::POSITIONS, placeOf<typename L::Output>(i % L::POSITIONS)};
  }
};

template <class L>
__device__ Tile tileOf(unsigned index) {
  int channel = index % L::CHANNEL_TILES * L::CHANNEL_TILE;
  index /= L::CHANNEL_TILES;
  return {int(index / L::PIXEL_TILES), channel, int(index % L::PIXEL_TILES) * L::PIXEL_TILE};
}

// ---- copies -------------------------------------------------------------------------------------------------------

/// Which piece of k a thread copies in the step that comes next.
template <class L>
struct Cursor {
  using Filter = typename L::Filter;
  int channel, k;
  Place tap = {0, 0, 0};

  __device__ explicit Cursor(int piece) : channel(8 * piece), k(8 * piece) { settle(); }
  __device__ bool exists() const { return L::BY_CHANNELS || k < L::DEPTH; }
  __device__ void advance() {
    if constexpr (L::BY_CHANNELS) {
      nextTap();
      k += L::CHANNELS;
      if (tap.z == Filter::size(2))
        tap.z = 0, channel += L::BLOCK_K, k += L::BLOCK_K - L::DEPTH;
    } else {
      channel += L::BLOCK_K, k += L::BLOCK_K;
      settle();
    }
  }

private:
  __device__ void nextTap() {
    if (++tap.x == Filter::size(4))
      tap.x = 0, ++tap.y;
    if (tap.y == Filter::size(3))
      tap.y = 0, ++tap.z;
  }
  /// Channels behind the last are those of the next taps.
  __device__ void settle() {
    if constexpr (!L::BY_CHANNELS) {
#pragma unroll
      for (int i = 0; i < divideUp(L::BLOCK_K, L::CHANNELS); ++i)
        if (channel >= L::CHANNELS)
          channel -= L::CHANNELS, nextTap();
    }
  }
};

/// Rows of filters. A thread copies one piece of every ROWS_APART-th.
template <class L>
struct Filters {
  using Element = typename L::Element;
  const Element *from;
  int exist;  // rows of this thread

  __device__ Filters(const Element *filter, const Tile &tile, int row) {
    exist = gemm_mma::ceilDiv(L::OUT_CHANNELS - tile.channel - row, L::ROWS_APART);
    from = filter + i64(tile.group * L::OUT_CHANNELS + tile.channel + row) * L::Filter::stride(0);
  }
  __device__ void start(Element *stage, const Cursor<L> &at) const {
#pragma unroll
    for (int i = 0; i < L::CHANNEL_TILE / L::ROWS_APART; ++i)
      copyAsync<16>(stage + i * L::ROWS_APART * L::BLOCK_K, from + i * L::ROWS_APART * L::Filter::stride(0) + at.k,
                    at.exists() && i < exist);
  }
};

/// Windows of pixels, of which a thread copies one piece of every ROWS_APART-th in each step.
template <class L>
struct Windows {
  using Element = typename L::Element;
  using Input = typename L::Input;
  static constexpr bool IS_READ_AGAIN = L::DEPTH > L::CHANNELS;  // by another tap
  static constexpr int ROWS = L::PIXEL_TILE / L::ROWS_APART;
  const Element *from;
  int offset[ROWS];   // of a window's first element, which may lie in the padding
  Place first[ROWS];  // the same as coordinates

  __device__ Windows(const Element *input, const Tile &tile, int row) {
    from = input + tile.group * L::CHANNELS;
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
      int pixel = tile.pixel + row + i * L::ROWS_APART, image = pixel / L::POSITIONS;
      Place p = placeOf<typename L::Output>(pixel % L::POSITIONS);
      first[i] = {p.z * int(L::Step::at(0)) - int(L::Padding::at(0)), p.y * int(L::Step::at(1)) - int(L::Padding::at(1)),
                  p.x * int(L::Step::at(2)) - int(L::Padding::at(2))};
      offset[i] = image * int(Input::stride(0)) + offsetOf(first[i]);
      if (pixel >= L::PIXELS)
        first[i].x = kNowhere;
    }
  }

  __device__ void start(Element *stage, const Cursor<L> &at) const {
    Place moved = {at.tap.z * int(L::Dilation::at(0)), at.tap.y * int(L::Dilation::at(1)), at.tap.x * int(L::Dilation::at(2))};
    int away = offsetOf(moved) + at.channel;
#pragma unroll
    for (int i = 0; i < ROWS; ++i)
      copyAsync<16, IS_READ_AGAIN>(stage + i * L::ROWS_APART * L::BLOCK_K, from + (offset[i] + away),
                                   at.exists() && isInside(first[i], moved));
  }

private:
  static constexpr int kNowhere = -(1 << 30);

  __device__ static int offsetOf(Place p) {
    return p.z * int(Input::stride(2)) + p.y * int(Input::stride(3)) + p.x * int(Input::stride(4));
  }
  __device__ static bool isInside(Place p, Place moved) {
    bool inside = static_cast<unsigned>(p.x + moved.x) < static_cast<unsigned>(Input::size(4));
    if constexpr (L::leaves(1))
      inside = inside && static_cast<unsigned>(p.y + moved.y) < static_cast<unsigned>(Input::size(3));
    if constexpr (L::leaves(0))
      inside = inside && static_cast<unsigned>(p.z + moved.z) < static_cast<unsigned>(Input::size(2));
    return inside;
  }
};

/// Fills stages with both.
template <class L>
struct Loader {
  using Element = typename L::Element;
  static constexpr int steps = L::STEPS;
  Filters<L> filters;
  Windows<L> windows;
  Cursor<L> cursor;
  int at;  // in a stage, of either

  __device__ Loader(const Element *input, const Element *filter, const Tile &tile, int row, int piece)
      : filters(filter, tile, row), windows(input, tile, row), cursor(piece), at(row * L::BLOCK_K + L::swizzled(row, piece)) {}

  __device__ void start(Element *shared, int step) {
    if (step < steps) {
      Element *stage = shared + step % L::STAGES * L::STAGE + at;
      filters.start(stage + L::FILTERS_AT, cursor);
      windows.start(stage + L::PIXELS_AT, cursor);
      cursor.advance();
    }
    copyCommit();
  }
};

// ---- results ------------------------------------------------------------------------------------------------------

/// Adds the bias, rounds, and stores what a warp has summed up; the four threads of a quad exchange what they hold of four
/// groups of eight columns.
template <class L>
__device__ void finish(typename L::Element *out, const ElementOf<typename L::Bias> *bias, const Tile &tile, int warpRow,
                       int warpColumn, const gemm_mma::Accumulators<L> &acc) {
  int lane = threadIdx.x % 32, quad = lane % 4;
#pragma unroll
  for (int band = 0; band < L::BANDS; ++band)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      int row = warpRow + 16 * band + 8 * half + lane / 4;
      float ofRow = L::CHANNEL_ROWS ? biasOf<L>(bias, tile, row) : 0.0f;
#pragma unroll
      for (int group = 0; group < L::GROUPS; group += 4) {
        MmaWord word[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          int column = warpColumn + 8 * (group + i) + 2 * quad;
          float low = L::CHANNEL_ROWS ? ofRow : biasOf<L>(bias, tile, column);
          float high = L::CHANNEL_ROWS ? ofRow : biasOf<L>(bias, tile, column + 1);
          const float *x = &acc[band][group + i][2 * half];
          word[i] = Pair<typename L::Element>::pack(x[0] + low, x[1] + high);
        }
        transposeInQuad(word);
        conv::storePiece<L>(out, tile, row, warpColumn + 8 * (group + quad), word);
      }
    }
}

// ---- run ----------------------------------------------------------------------------------------------------------

/// Launch: one block a tile of channels, of pixels and a group, L::THREADS threads, L::SHARED_BYTES of shared memory.
template <class Config>
__device__ void run(const ElementOf<typename Config::Input> *input, const ElementOf<typename Config::Filter> *filter,
                    const ElementOf<typename Config::Bias> *bias, ElementOf<typename Config::Output> *out) {
  using L = Layout<Config>;
  extern __shared__ SharedChunk sharedMemory[];
  auto *shared = reinterpret_cast<typename L::Element *>(sharedMemory);
  Tile tile = tileOf<L>(blockIdx.x);
  int warp = threadIdx.x / 32, warpRow = warp / L::WARPS_N * L::WARP_M, warpColumn = warp % L::WARPS_N * L::WARP_WIDTH;
  followPreviousKernel();

  gemm_mma::Accumulators<L> acc;
  Loader<L> loader(input, filter, tile, threadIdx.x / L::PIECES, threadIdx.x % L::PIECES);
  gemm_mma::accumulate<L>(loader, shared, warpRow, warpColumn, acc);
  finish<L>(out, bias, tile, warpRow, warpColumn, acc);
}

}  // namespace ditc::conv_mma
