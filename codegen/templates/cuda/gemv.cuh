// SPDX-License-Identifier: Apache-2.0
//
// Products of few rows with many weights in one launch, such as the modulations of all blocks of a transformer: bound by
// reading the weights once.
//
//   out_p[m, n] = finish(Σ_k prepare(x_p[m, k]) · W_p[n, k] + bias_p[n])        p: problems of one shape, m < 16
//
//   weights stored along k                            weights stored along n (or not densely at all)
//     a warp: COLUMNS rows of W (columns n), lanes      a block: 32 · VECTOR columns n, warps share out k
//     along k
//     ┌ 32 lanes × 16 bytes ┐→ → → K                    ┌ 32 lanes × VECTOR ┐ columns
//     │ n                   │                           │ k = warp          │  warp 0
//     │ n + 1               │  DEPTH steps of loads      │ k = warp + 8      │  …
//     │ …                   │  in flight, the first      ↓                   ↓
//     └ n + COLUMNS - 1     ┘  before x is made         partial sums meet in shared memory
//
//   Config
//   Input    Tensor [..., K], M rows in its leading dimensions         Output   Tensor [..., N]
//   Second   the same, or void: x is prepare(Input, Second)
//   Weight   Tensor [N, K] with ALONG_K, else [K, N]                   Bias     Tensor [N], or void
//   K_CHUNK  columns of x in shared memory at a time, a multiple of 256
//   COLUMNS  with ALONG_K: of a warp. Few, where few rows make x cheap to read: more warps have loads under way
//   PASSES   with ALONG_K: groups of 8 · COLUMNS columns that a block computes with one x, one after the other
//
//   shared memory  M·K_CHUNK compute elements (x is widened once per block); along n also 8·32·VECTOR·M
//   registers      COLUMNS·M sums + 16 to 40 of weights + about 30
//
//   measured (H200, where a kernel that only reads does 4.5 TB/s): 168 products of 2 x 1152 x 1152 in 114 us (145 with four
//     columns a warp, x made anew by each block, and before weights were asked for); 120 of 2 x 2432 x 2432 335 us (385); 120
//     of 1 x 3072 x 3072 492 us (500); 60 of 4, 8 and 16 x 3072 x 3072 294, 462 and 1242 us (347, 672, 1863). Rings of weights
//     in shared memory filled by cp.async: 118 and 347 us of the first two.
#pragma once

#include "common/scalars.cuh"
#include "common/tensor.cuh"

namespace ditc::gemv {

constexpr int kWarps = 8, kThreads = 32 * kWarps;

/// One product: addresses of element 0. Only some launches have problems of two inputs.
template <int INPUTS>
struct Problem {
  const void *input, *weight, *bias;
  void *output;
};
template <>
struct Problem<2> {
  const void *input, *weight, *bias;
  void *output;
  const void *second;
};

template <int COUNT, int INPUTS = 1>
struct Params {
  Problem<INPUTS> problems[COUNT];
};

template <class Config>
struct Layout : Config {
  using Input = typename Config::Input;
  using Weight = typename Config::Weight;
  using Element = typename Weight::Element;
  using Compute = ComputeOf<Element>;
  static constexpr int LAST = Input::RANK - 1;
  static constexpr int M = int(Input::template count<LAST>()), K = int(Input::size(LAST));
  static constexpr int COLUMNS = Config::COLUMNS;
  static constexpr int N = int(Config::ALONG_K ? Weight::size(0) : Weight::size(1));
  // Along k: elements of one load; a step is one load of each lane.
  static constexpr int VECTOR = Config::ALONG_K ? commonPower(Weight::VECTOR, K) : 1, STEP = 32 * VECTOR;
  static constexpr int PLANE = commonPower(VECTOR, 16 / sizeof(Compute));
  // Steps whose loads are in flight: all of a short row. Many rows need the registers.
  static constexpr int STEPS = int(divideUp(K, STEP)), DEPTH = M > 8 ? 1 : COLUMNS == 2 && STEPS <= 5 ? STEPS : 2;
  // Along n: columns of a lane.
  static constexpr int LANE_COLUMNS =
      commonPower(commonPower(Weight::VECTOR, N), M <= 2 ? 16 : M <= 4 ? 8 : M <= 8 ? 4 : 2);
  static constexpr int BLOCK_COLUMNS = Config::ALONG_K ? Config::PASSES * kWarps * COLUMNS : 32 * LANE_COLUMNS;
  static constexpr int BLOCKS = int(divideUp(N, BLOCK_COLUMNS));

  /// Where x of column k lies in shared memory: the 16-byte parts of a lane's values in planes, so that the lanes of a
  /// load do not meet in a bank.
  __device__ static int place(int k) {
    int inside = k % STEP, lane = inside / VECTOR, e = inside % VECTOR;
    return k - inside + e / PLANE * 32 * PLANE + lane * PLANE + e % PLANE;
  }
};

/// WIDTH columns of a row of an input.
template <class Input, int WIDTH>
__device__ Pack<typename Input::Element, WIDTH> loadColumns(const void *input, int row, int k) {
  constexpr int LAST = Input::RANK - 1;
  i64 offset = Input::template offset<LAST>(row) + k * Input::stride(LAST);
  return loadPack<WIDTH>(static_cast<const typename Input::Element *>(input) + offset);
}

/// Columns first … first + K_CHUNK - 1 of x, zeros behind K.
template <class L, class P>
__device__ void loadInput(typename L::Compute *shared, const P &problem, int first) {
  using Second = typename Operand<typename L::Second>::template Or<typename L::Input>;
  constexpr int WIDTH = commonPower(commonPower(L::Input::VECTOR, Second::VECTOR), commonPower(L::K, 4)), PER_ROW = L::K_CHUNK / WIDTH;
#pragma unroll 1  // as WIDTH is at most 4: weights are on their way to most registers
  for (int i = threadIdx.x; i < L::M * PER_ROW; i += kThreads) {
    int row = i / PER_ROW, k = i % PER_ROW * WIDTH;
    typename L::Compute x[WIDTH] = {};
    if (first + k < L::K) {
      auto a = loadColumns<typename L::Input, WIDTH>(problem.input, row, first + k);
      if constexpr (Operand<typename L::Second>::PRESENT) {
        auto b = loadColumns<Second, WIDTH>(problem.second, row, first + k);
#pragma unroll
        for (int e = 0; e < WIDTH; ++e)
          x[e] = L::prepare(widen(a.at[e]), widen(b.at[e]));
      } else {
#pragma unroll
        for (int e = 0; e < WIDTH; ++e)
          x[e] = L::prepare(widen(a.at[e]));
      }
    }
#pragma unroll
    for (int e = 0; e < WIDTH; ++e)
      shared[row * L::K_CHUNK + L::place(k + e)] = x[e];
  }
}

template <class L, class P>
__device__ void storeOutput(const P &problem, int row, int column, typename L::Compute value) {
  using Output = typename L::Output;
  using Element = typename Output::Element;
  if constexpr (Operand<typename L::Bias>::PRESENT) {
    using Bias = typename L::Bias;
    value += widen(static_cast<const typename Bias::Element *>(problem.bias)[column * Bias::stride(0)]);
  }
  i64 offset = Output::template offset<Output::RANK - 1>(row) + column * Output::stride(Output::RANK - 1);
  static_cast<Element *>(problem.output)[offset] = narrow<Element>(L::finish(value));
}

/// The type in which a load of BYTES is held: taken apart into 16-bit values, it would take twice the registers.
template <class Element, int BYTES, bool IN_WORDS = BYTES % 4 == 0>
struct Held {
  using Type = Pack<unsigned, BYTES / 4>;
};
template <class Element, int BYTES>
struct Held<Element, BYTES, false> {
  using Type = Pack<Element, BYTES / int(sizeof(Element))>;
};

/// What a lane holds of a warp's columns: a load of each in DEPTH steps.
template <class L>
struct Round {
  using Element = typename L::Element;
  using Load = typename Held<Element, L::VECTOR * int(sizeof(Element))>::Type;
  Load at[L::DEPTH][L::COLUMNS];

  /// From column `first` of the weight's rows on, up to `end`; zeros behind it.
  __device__ void load(const Element *weight, int column, int first, int end) {
#pragma unroll
    for (int d = 0; d < L::DEPTH; ++d)
#pragma unroll
      for (int c = 0; c < L::COLUMNS; ++c) {
        int k = first + d * L::STEP + threadIdx.x % 32 * L::VECTOR;
        i64 row = min(column + c, L::N - 1) * L::Weight::stride(0);
        at[d][c] = Load{};
        if (k < end)
          at[d][c] = *reinterpret_cast<const Load *>(weight + row + k);
      }
  }

  /// sums += x · W for the same columns, of which x in shared memory has `length`.
  template <class Compute>
  __device__ void accumulate(Compute (&sums)[L::M][L::COLUMNS], const Compute *x, int length) const {
#pragma unroll
    for (int d = 0; d < L::DEPTH; ++d) {
      if (d * L::STEP >= length)
        break;
      Pack<Element, L::VECTOR> w[L::COLUMNS];
#pragma unroll
      for (int c = 0; c < L::COLUMNS; ++c)
        w[c] = __builtin_bit_cast(Pack<Element, L::VECTOR>, at[d][c]);
#pragma unroll
      for (int plane = 0; plane < L::VECTOR; plane += L::PLANE)
#pragma unroll
        for (int m = 0; m < L::M; ++m) {
          int place = m * L::K_CHUNK + d * L::STEP + plane * 32 + threadIdx.x % 32 * L::PLANE;
          auto values = loadPack<L::PLANE>(x + place);
#pragma unroll
          for (int e = 0; e < L::PLANE; ++e)
#pragma unroll
            for (int c = 0; c < L::COLUMNS; ++c)
              sums[m][c] += values.at[e] * widen(w[c].at[plane + e]);
        }
    }
  }
};

/// Sums over the lanes, in a fixed order; each sum is stored by another lane.
template <class L, class P, class Compute = typename L::Compute>
__device__ void finish(const P &problem, Compute (&sums)[L::M][L::COLUMNS], int column) {
  int lane = threadIdx.x % 32;
#pragma unroll
  for (int m = 0; m < L::M; ++m)
#pragma unroll
    for (int c = 0; c < L::COLUMNS; ++c) {
#pragma unroll
      for (int lanes = 16; lanes > 0; lanes /= 2)
        sums[m][c] += __shfl_xor_sync(0xffffffffu, sums[m][c], lanes);
      if (lane == (m * L::COLUMNS + c) % 32 && column + c < L::N)
        storeOutput<L>(problem, m, column + c, sums[m][c]);
    }
}

template <class L, class P>
__device__ void runAlongK(const P &problem, int block, typename L::Compute *shared) {
  constexpr bool WHOLE = L::K <= L::K_CHUNK;  // x stays in shared memory
  const auto *weight = static_cast<const typename L::Element *>(problem.weight);
  int column = (block * L::PASSES * kWarps + int(threadIdx.x / 32)) * L::COLUMNS;
  Round<L> round;
  round.load(weight, column, 0, min(L::K_CHUNK, L::K));  // under way while x is made
  if (WHOLE) {
    loadInput<L>(shared, problem, 0);
    __syncthreads();
  }
#pragma unroll 1
  for (int pass = 0; pass < L::PASSES; ++pass, column += kWarps * L::COLUMNS) {
    typename L::Compute sums[L::M][L::COLUMNS] = {};
    for (int first = 0; first < L::K; first += L::K_CHUNK) {
      if (!WHOLE) {
        __syncthreads();  // what was there has been read
        loadInput<L>(shared, problem, first);
        __syncthreads();
      }
      int end = min(first + L::K_CHUNK, L::K);
#pragma unroll 1
      for (int k = first; k < end; k += L::DEPTH * L::STEP) {
        if (pass > 0 || k > 0)
          round.load(weight, column, k, end);
        round.accumulate(sums, shared + (k - first), end - k);
      }
    }
    finish<L>(problem, sums, column);
  }
}

template <class L, class P>
__device__ void runAlongN(const P &problem, int block, typename L::Compute *shared) {
  using Compute = typename L::Compute;
  using Weight = typename L::Weight;
  constexpr int EACH = L::LANE_COLUMNS;
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, column = (block * 32 + lane) * EACH;
  const auto *weight = static_cast<const typename L::Element *>(problem.weight);
  Compute sums[L::M][EACH] = {};
  for (int first = 0; first < L::K; first += L::K_CHUNK) {
    if (first > 0)
      __syncthreads();
    loadInput<L>(shared, problem, first);
    __syncthreads();
    int end = min(L::K_CHUNK, L::K - first);
#pragma unroll 4
    for (int k = warp; k < end; k += kWarps) {
      Pack<typename L::Element, EACH> w{};
      if (column < L::N)
        w = loadPack<EACH>(weight + (first + k) * Weight::stride(0) + column * Weight::stride(1));
#pragma unroll
      for (int m = 0; m < L::M; ++m)
#pragma unroll
        for (int c = 0; c < EACH; ++c)
          sums[m][c] += shared[m * L::K_CHUNK + L::place(k)] * widen(w.at[c]);
    }
  }
  __syncthreads();
#pragma unroll
  for (int m = 0; m < L::M; ++m)
#pragma unroll
    for (int c = 0; c < EACH; ++c)
      shared[(warp * L::M + m) * L::BLOCK_COLUMNS + lane * EACH + c] = sums[m][c];
  __syncthreads();
  for (int i = threadIdx.x; i < L::M * L::BLOCK_COLUMNS; i += kThreads) {
    Compute sum = 0;
    for (int w = 0; w < kWarps; ++w)
      sum += shared[w * L::M * L::BLOCK_COLUMNS + i];
    int n = block * L::BLOCK_COLUMNS + i % L::BLOCK_COLUMNS;
    if (n < L::N)
      storeOutput<L>(problem, i / L::BLOCK_COLUMNS, n, sum);
  }
}

/// Block `block` of those that serve `problems`, all of one Config.
template <class Config, int INPUTS>
__device__ void run(const Problem<INPUTS> *problems, int block) {
  using L = Layout<Config>;
  extern __shared__ SharedChunk sharedMemory[];
  auto *shared = reinterpret_cast<typename L::Compute *>(sharedMemory);
  const Problem<INPUTS> &problem = problems[block / L::BLOCKS];
  if constexpr (Config::ALONG_K)
    runAlongK<L>(problem, block % L::BLOCKS, shared);
  else
    runAlongN<L>(problem, block % L::BLOCKS, shared);
}

}  // namespace ditc::gemv
