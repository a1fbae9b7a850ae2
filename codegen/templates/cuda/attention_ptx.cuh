// SPDX-License-Identifier: Apache-2.0
//
// What the attention templates need of PTX beyond common/ptx.cuh: a voting named barrier, wgmma operands of every panel
// width in both directions, and the number conversions of the softmax.
#pragma once

#include "common/elements.cuh"
#include "common/ptx.cuh"
#include "common/special_functions.cuh"

namespace ditc {

__device__ constexpr int roundUp(int a, int b) { return ceilDiv(a, b) * b; }

/// barrierWait with its loop inside the statement. The compiler then sees straight code and keeps what is the same for a
/// whole warp in uniform registers; with a loop in C++ the d 72 kernel spills 112 bytes.
__device__ inline void phaseWait(u32 barrier, u32 parity) {
  asm volatile(
      "{ .reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra finished;\n"
      "bra again;\n"
      "finished: }\n" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

/// A named barrier that also says whether the predicate held in any of its threads.
__device__ inline bool namedAny(int name, int threads, bool predicate) {
  u32 any;
  asm volatile(
      "{ .reg .pred in, out;\n"
      "setp.ne.u32 in, %3, 0;\n"
      "barrier.red.or.pred out, %1, %2, in;\n"
      "selp.u32 %0, 1, 0, out; }"
      : "=r"(any)
      : "r"(name), "r"(threads), "r"(u32(predicate))
      : "memory");
  return any != 0;
}

/// An operand in shared memory as wgmma sees it. The low word holds the address, so moving by `bytes` is one addition.
struct Operand {
  u32 low, high;
  __device__ u64 at(u32 bytes) const { return u64(high) << 32 | (low + (bytes >> 4)); }
};

/// The swizzle of a panel whose rows hold COLUMNS 16-bit elements: 64, 32 or 16 columns are 128, 64 or 32 bytes. Of 8-bit
/// elements a row holds twice as many.
template <int COLUMNS>
struct Panel {
  static_assert(COLUMNS == 16 || COLUMNS == 32 || COLUMNS == 64, "a panel row is 32, 64 or 128 bytes");
  static constexpr int ROW_BYTES = COLUMNS * 2;
  static constexpr int GROUP_BYTES = 8 * ROW_BYTES;  // 8 rows: one repeat of the swizzle pattern
  static constexpr u32 LAYOUT = COLUMNS == 64 ? 1 : COLUMNS == 32 ? 2 : 3;
  static constexpr int STEPS = COLUMNS / 16;  // k-steps of one wgmma in a panel
  static constexpr u32 HIGH = GROUP_BYTES >> 4 | LAYOUT << 30;

  /// k along the columns (Q and K in QKᵀ); one panel spans all k of an instruction.
  __device__ static Operand alongK(u32 address) { return {(address & 0x3FFFF) >> 4 | 1u << 16, HIGH}; }

  /// k along the rows (V in PV); neighbouring panels lie `panelBytes` apart.
  __device__ static Operand alongN(u32 address, u32 panelBytes) {
    return {(address & 0x3FFFF) >> 4 | panelBytes >> 4 << 16, HIGH};
  }
};

/// Keeps the compiler from moving uses of registers that a wgmma writes across the wait before this.
template <int COUNT>
__device__ inline void pinRegisters(float (&values)[COUNT]) {
#pragma unroll
  for (int i = 0; i < COUNT; ++i)
    asm volatile("" : "+f"(values[i])::"memory");
}
template <int COUNT>
__device__ inline void pinRegisters(int (&values)[COUNT]) {
#pragma unroll
  for (int i = 0; i < COUNT; ++i)
    asm volatile("" : "+r"(values[i])::"memory");
}

/// Two floats rounded into one word, `low` in the low half. Volatile, so that it stays behind the wgmma wait before it.
template <class Element>
__device__ inline u32 packPair(float low, float high);
template <>
__device__ inline u32 packPair<BF16>(float low, float high) {
  u32 word;
  asm volatile("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
}
template <>
__device__ inline u32 packPair<F16>(float low, float high) {
  u32 word;
  asm volatile("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
}

}  // namespace ditc
