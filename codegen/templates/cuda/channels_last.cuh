// SPDX-License-Identifier: Apache-2.0
//
// 16-bit tensors with channels as the innermost dimension, for conv_mma.cuh: of images in every step, of filters (whose
// positions are the taps of a window) once.
//
//   out[n, p, c] = in[n, c, p],   0 for channels behind the last
//
//   a block: 64 channels × 64 positions of one image, 256 threads
//
//        in   ──▶ rows of positions ──▶  shared [64 channels][64 positions]  ──▶ columns of 8 channels ──▶   out
//             READ positions a load        pieces of 8 positions, swizzled            16 bytes a store
//                                          by c / 8: no bank conflicts
//
//   Config    Input [N, C, z, y, x], a Tensor of rank 5, missing spatial dimensions of size 1 in front, any strides;
//             OUT_CHANNELS: of the output, which is dense, a multiple of 8;
//             READ: 1, 2, 4 or 8 neighbouring positions that are neighbours in memory, aligned to as much
//
//   shared memory: 8 KB, static
#pragma once

#include "conv_place.cuh"

namespace ditc::channels_last {

constexpr int kTile = 64, kThreads = 256;

/// Where position p of channel c lies in shared memory.
__device__ inline int placeInTile(int c, int p) { return c * kTile + ((p / 8 ^ c / 8) * 8 | p % 8); }

/// A tile into shared memory, zeros where there is nothing.
template <class Config>
__device__ void fetch(const ElementOf<typename Config::Input> *image, int firstChannel, int firstPosition,
                      ElementOf<typename Config::Input> *shared) {
  using Input = typename Config::Input;
  using Element = typename Input::Element;
  constexpr int READ = Config::READ, POSITIONS = Input::size(2) * Input::size(3) * Input::size(4);
#pragma unroll
  for (int i = 0; i < kTile * kTile / READ / kThreads; ++i) {
    int index = i * kThreads + threadIdx.x, c = index / (kTile / READ), p = index % (kTile / READ) * READ;
    Pack<Element, READ> pack = {};
    if (firstChannel + c < Input::size(1) && firstPosition + p < POSITIONS) {
      conv::Place at = conv::placeOf<Input>(firstPosition + p);
      pack = loadPack<READ>(image + (firstChannel + c) * Input::stride(1) + at.z * Input::stride(2) +
                            at.y * Input::stride(3) + at.x * Input::stride(4));
    }
    storePack(shared + placeInTile(c, p), pack);
  }
}

template <class Config>
__device__ void run(const ElementOf<typename Config::Input> *input, ElementOf<typename Config::Input> *out) {
  using Input = typename Config::Input;
  using Element = typename Input::Element;
  constexpr int POSITIONS = Input::size(2) * Input::size(3) * Input::size(4);
  constexpr int CHANNEL_TILES = divideUp(Config::OUT_CHANNELS, kTile), POSITION_TILES = divideUp(POSITIONS, kTile);
  __shared__ Pack<Element, 8> pieces[kTile * kTile / 8];
  Element *shared = pieces[0].at;
  int firstChannel = blockIdx.x % CHANNEL_TILES * kTile;
  int firstPosition = blockIdx.x / CHANNEL_TILES % POSITION_TILES * kTile;
  i64 image = blockIdx.x / CHANNEL_TILES / POSITION_TILES;
  followPreviousKernel();
  fetch<Config>(input + image * Input::stride(0), firstChannel, firstPosition, shared);
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kTile * kTile / 8 / kThreads; ++i) {
    int index = i * kThreads + threadIdx.x, c = index % (kTile / 8) * 8, p = index / (kTile / 8);
    Pack<Element, 8> piece;
#pragma unroll
    for (int k = 0; k < 8; ++k)
      piece.at[k] = shared[placeInTile(c + k, p)];
    if (firstChannel + c < Config::OUT_CHANNELS && firstPosition + p < POSITIONS)
      storePack(out + (image * POSITIONS + firstPosition + p) * Config::OUT_CHANNELS + firstChannel + c, piece);
  }
}

}  // namespace ditc::channels_last
