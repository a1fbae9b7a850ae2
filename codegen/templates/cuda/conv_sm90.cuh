// SPDX-License-Identifier: Apache-2.0
//
// Convolution for Hopper (sm_90a) over up to three spatial dimensions, of any strides, padding and dilation: the matrix
// product of conv_mma.cuh, whose operands the copy engine brings and wgmma multiplies. 16-bit values, fp32 accumulation, one
// rounding.
//
//   out[n, o, p] = bias[o] + Σ_{w, c} in[n, c, p·step + w·dilation - padding] · filter[o, c, w]
//
// A tile's pixels are a box of BOX_X x BOX_Y x BOX_Z neighbours of one image. For one tap of the window and 64 channels, what
// they need is the same box, moved by the tap: one copy, of which the engine fills with zeros what lies in the padding. It
// lands as 64 channels of a pixel in each row of 128 bytes, which is how wgmma wants an operand of a product.
//
//                            a step of k: 64 channels of one tap            steps: all taps of 64 channels, then the next channels,
//    image, [n][z][y][x][c]  ┌──────────────┐                               so that a box is read again while the L2 cache has it
//    ┌──────────────┐        │ 64 channels  │  BOX_X · BOX_Y · BOX_Z rows
//    │  ┌─────┐     │   ──▶  │ of a pixel   │  of a tile, the others keep what they hold: sums of pixels that do not exist
//    │  │ box │+tap │        └──────────────┘
//    │  └─────┘     │        ┌──────────────┐
//    └──────────────┘        │ of a filter  │  BLOCK_N or BLOCK_M rows
//                            └──────────────┘
//
// With steps, a tap sees every step-th pixel from where it begins: an image of its own, of which there are as many as pixels in
// a step. Each has a map, and w·dilation - padding = step · (pixels that the box moves by) + (which image).
//
// Two consumers take tiles in turn, so that the tensor cores never wait for results to be stored (gemm_sm90.cuh, PINGPONG).
//
//   Config         allowed                      meaning
//   Input          [N, C, z, y, x]              Tensor of rank 5, missing spatial dimensions of size 1 in front; channels one
//                                               element apart, C and all other strides multiples of 8
//   Filter         [O, C, window z y x]         channels one element apart, then taps without gaps
//   Bias           [O], void
//   Output         [N, O, z, y, x]              any strides
//   Step, Padding, Dilation                     Dims of 3
//   CHANNEL_ROWS   bool                         output channels are rows of a tile, else columns
//   STORE          1, 2, 4, 8                   neighbouring columns that are neighbours in memory, aligned to as much
//   BLOCK_M        64, 128, 192                 rows of a tile
//   BLOCK_N        32 …, multiple of 32         columns; up to 224, 160 and 96
//   BOX_X, Y, Z    1 … 256                      product at most BLOCK_M, or with CHANNEL_ROWS BLOCK_N
//   STAGES         2 …
//
//   boxes of the maps: inputs (c, x, y, z, n) {64, BOX_X, BOX_Y, BOX_Z, 1}, filter (c, tap, o) {64, 1, channels of a tile}, both with
//   the 128-byte swizzle
//   shared memory  STAGES · 128 · (BLOCK_M + BLOCK_N) bytes, + 2 KB
//   registers      BLOCK_M · BLOCK_N / 128 accumulators a thread, + about 50; of 232
//
//   measured (one NVIDIA H200, bf16, random data, beside the better of cuDNN's layouts in the same run; the kernel alone)
//     2 x 1920 x 64², 640 filters of 3x3: 801 TFLOP/s, 559    512 x 256², 512 of 3x3: 756, 577    128 x 1024², 128 of 3x3: 708, 386
//     2 x 2240 x 21 x 1260, 2240 of 3x1: 683, 612             192 x 9 x 120 x 208, 192 of 3x3x3: 770, 478; by tiles of 128 x 128 353
//     2 x 2560 x 32², 1280 of 3x3: 565, 657 (1.7 waves)       strides of 2, 2 x 640 x 64²: 582, 388; 2 x 320 x 128²: 391, 363
#pragma once

#include "conv_store.cuh"
#include "gemm_sm90_loop.cuh"

namespace ditc::conv_sm90 {

using conv::biasOf;
using conv::Pixel;
using conv::Place;

/// The images that steps along z, y and x make of the input, x innermost.
template <int IMAGES>
struct Params {
  TensorMap filter, input[IMAGES];
};

/// What the loop over k asks of a Config beside the tiles.
template <class Config>
struct OneProduct : Config {
  using Operand = typename Config::Element;
  static constexpr int CONSUMERS = 2, CLUSTER_M = 1, CLUSTER_N = 1, SPLIT = 1, BOX = 8, BOXES = 0;
  static constexpr bool PINGPONG = true, GATED = false;
};

template <class Config>
struct Layout : gemm_sm90::Layout<OneProduct<Config>> {
  using Base = gemm_sm90::Layout<OneProduct<Config>>;
  using Output = typename Config::Output;
  using Filter = typename Config::Filter;
  static constexpr int CHANNELS = Filter::size(1), OUT_CHANNELS = Filter::size(0);
  static constexpr int TAPS = Filter::size(2) * Filter::size(3) * Filter::size(4);
  static constexpr int STEPS = TAPS * ceilDiv(CHANNELS, Base::BLOCK_K);
  static constexpr int CHANNEL_TILE = Config::CHANNEL_ROWS ? Base::BLOCK_M : Base::BLOCK_N;
  static constexpr int BOX_PIXELS = Config::BOX_X * Config::BOX_Y * Config::BOX_Z;
  static constexpr int CHANNEL_TILES = ceilDiv(OUT_CHANNELS, CHANNEL_TILE);
  static constexpr int TILES_X = ceilDiv(Output::size(4), Config::BOX_X), TILES_Y = ceilDiv(Output::size(3), Config::BOX_Y),
                       TILES_Z = ceilDiv(Output::size(2), Config::BOX_Z);
  static constexpr int TILES = CHANNEL_TILES * TILES_X * TILES_Y * TILES_Z * static_cast<int>(Output::size(0));
  static constexpr int STEP_COPIES = gemm_sm90::STEP_BYTES * (BOX_PIXELS + CHANNEL_TILE);  // bytes
  static constexpr int PRODUCER_REGISTERS = 40, CONSUMER_REGISTERS = 232;

  static_assert(BOX_PIXELS <= (Config::CHANNEL_ROWS ? Base::BLOCK_N : Base::BLOCK_M), "a tile's pixels are the rows or columns that it has");
  static_assert(Base::BLOCK_N % 32 == 0, "columns leave in groups of 32");

  __device__ static u32 pixelsAt(const gemm_sm90::Shared<Layout> &shared, int stage) { return Config::CHANNEL_ROWS ? shared.b(stage) : shared.a(stage); }
  __device__ static u32 filtersAt(const gemm_sm90::Shared<Layout> &shared, int stage) { return Config::CHANNEL_ROWS ? shared.a(stage) : shared.b(stage); }
};

/// A tile by its first channel and pixel. Those of all channels of some pixels come one after the other.
struct Tile {
  static constexpr int group = 0;
  int channel, image;
  Place first;

  template <class L>
  __device__ static Tile of(unsigned index) {
    Tile tile;
    tile.channel = index % L::CHANNEL_TILES * L::CHANNEL_TILE, index /= L::CHANNEL_TILES;
    tile.first.x = index % L::TILES_X * L::BOX_X, index /= L::TILES_X;
    tile.first.y = index % L::TILES_Y * L::BOX_Y, index /= L::TILES_Y;
    tile.first.z = index % L::TILES_Z * L::BOX_Z, tile.image = index / L::TILES_Z;
    return tile;
  }

  template <class L>
  __device__ Pixel pixelAt(int index) const {
    Place p = {first.z + index / (L::BOX_X * L::BOX_Y), first.y + index / L::BOX_X % L::BOX_Y, first.x + index % L::BOX_X};
    bool exists = index < L::BOX_PIXELS && p.z < L::Output::size(2) && p.y < L::Output::size(3) && p.x < L::Output::size(4);
    return {exists, image, p};
  }
};

/// Where a tap looks along one spatial dimension: in which image of the step, and how far the box moves there.
template <class L, int DIM>
struct Moved {
  static constexpr int STEP = L::Step::at(DIM), PADDING = L::Padding::at(DIM), WHOLE = ceilDiv(PADDING, STEP);
  int by, image;
  __device__ explicit Moved(int tap) {
    int from = tap * int(L::Dilation::at(DIM)) + (WHOLE * STEP - PADDING);  // not negative
    by = from / STEP - WHOLE, image = from % STEP;
  }
};

/// The producer: one thread keeps the ring of stages full.
template <class L, class Params>
__device__ void load(const gemm_sm90::Shared<L> &shared, const Params &params) {
  using Filter = typename L::Filter;
  gemm_sm90::Cursor<L::STAGES> cursor;
  waitForPreviousKernel();
  for (int index = blockIdx.x; index < L::TILES; index += gridDim.x) {
    Tile tile = Tile::of<L>(index);
    for (int channel = 0; channel < L::CHANNELS; channel += L::BLOCK_K)
      for (int tapZ = 0, tap = 0; tapZ < Filter::size(2); ++tapZ)
        for (int tapY = 0; tapY < Filter::size(3); ++tapY)
          for (int tapX = 0; tapX < Filter::size(4); ++tapX, ++tap, cursor.advance()) {
            u32 full = shared.full(cursor.stage);
            barrierWait(shared.empty(cursor.stage), cursor.parity ^ 1);
            barrierExpect(full, L::STEP_COPIES);
            copyBox(L::filtersAt(shared, cursor.stage), params.filter, full, channel, tap, tile.channel);
            Moved<L, 0> z(tapZ);
            Moved<L, 1> y(tapY);
            Moved<L, 2> x(tapX);
            int image = (z.image * int(L::Step::at(1)) + y.image) * int(L::Step::at(2)) + x.image;
            copyBox(L::pixelsAt(shared, cursor.stage), params.input[image], full, channel, tile.first.x + x.by, tile.first.y + y.by,
                    tile.first.z + z.by, tile.image);
          }
  }
  allowNextKernel();
}

/// Adds the bias, rounds, and stores a warp's 16 rows of every band; the four threads of a quad exchange what they hold of
/// four groups of eight columns.
template <class L>
__device__ void store(ElementOf<typename L::Output> *out, const ElementOf<typename L::Bias> *bias, const Tile &tile, int warp,
                      const gemm_sm90::Accumulators<L> &acc) {
  int lane = threadIdx.x % 32, quad = lane % 4;
#pragma unroll
  for (int group = 0; group < L::BLOCK_N / 8; group += 4) {
    float ofColumn[8];
#pragma unroll
    for (int i = 0; i < 8; ++i)
      ofColumn[i] = L::CHANNEL_ROWS ? 0.0f : biasOf<L>(bias, tile, 8 * (group + i / 2) + 2 * quad + i % 2);
#pragma unroll
    for (int band = 0; band < L::BANDS; ++band)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        int row = 64 * band + 16 * warp + 8 * half + lane / 4;
        float ofRow = L::CHANNEL_ROWS ? biasOf<L>(bias, tile, row) : 0.0f;
        MmaWord word[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float *x = &acc[band][4 * (group + i) + 2 * half];
          word[i] = Pair<typename L::Element>::pack(x[0] + (ofRow + ofColumn[2 * i]), x[1] + (ofRow + ofColumn[2 * i + 1]));
        }
        transposeInQuad(word);
        conv::storePiece<L>(out, tile, row, 8 * (group + quad), word);
      }
  }
}

/// One consumer: every second tile of the block.
template <class L>
__device__ void consume(const gemm_sm90::Shared<L> &shared, const ElementOf<typename L::Bias> *bias, ElementOf<typename L::Output> *out,
                        int consumer) {
  gemm_sm90::Accumulators<L> acc;
  gemm_sm90::Cursor<L::STAGES> cursor;
  int warp = uniform(threadIdx.x / 32 % 4);
  if (consumer == 1)
    namedArrive(gemm_sm90::turnBarrier(0), 256);  // consumer 0 begins
  int turn = 0;
  for (int index = blockIdx.x; index < L::TILES; index += gridDim.x, turn ^= 1) {
    if (turn != consumer) {
      cursor.advance(L::STEPS);
      continue;
    }
    gemm_sm90::multiply(shared, cursor, consumer, L::STEPS, acc);
    store<L>(out, bias, Tile::of<L>(index), warp, acc);
  }
}

template <class L, class Params>
__device__ gemm_sm90::Shared<L> setup(const Params &params) {
  extern __shared__ SharedChunk sharedMemory[];
  gemm_sm90::Shared<L> shared{(sharedAddress(sharedMemory) + 1023) & ~1023u};
  if (threadIdx.x == 32)
    prefetchTensorMap(params.filter), prefetchTensorMap(params.input[0]);
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < L::STAGES; ++stage) {
      barrierInit(shared.full(stage), 1);
      barrierInit(shared.empty(stage), 4);  // the warps of a consumer
    }
    barrierInitFence();
  }
  __syncthreads();
  return shared;
}

/// Launch: up to one block per multiprocessor and at most L::TILES, L::THREADS threads, L::SHARED_BYTES of shared memory.
template <class Config, int IMAGES>
__device__ void run(const Params<IMAGES> &params, const ElementOf<typename Config::Bias> *bias, ElementOf<typename Config::Output> *out) {
  using L = Layout<Config>;
  gemm_sm90::Shared<L> shared = setup<L>(params);
  int warpgroup = uniform(threadIdx.x / 128);
  if (warpgroup == 0) {
    shrinkRegisters<L::PRODUCER_REGISTERS>();
    if (uniform(threadIdx.x / 32) == 0 && isElected())
      load(shared, params);
  } else {
    growRegisters<L::CONSUMER_REGISTERS>();
    waitForPreviousKernel();
    consume(shared, bias, out, warpgroup - 1);
  }
}

}  // namespace ditc::conv_sm90
