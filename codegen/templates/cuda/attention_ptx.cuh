// SPDX-License-Identifier: Apache-2.0
//
// The Hopper instructions that the attention templates are written with: mbarriers, tensor copies, register
// reallocation, named barriers, and the number conversions of the softmax. Each is one PTX statement behind a name;
// none of them includes a header, so a template compiles under NVRTC from these files alone.
#pragma once

namespace ditc {

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;

/// A CUtensorMap, passed by value as a kernel parameter; the copy engine wants it 64-byte aligned.
struct alignas(64) TensorMap {
  u64 words[16];
};

struct BF16 {};  ///< tag of the storage type bfloat16
struct F16 {};   ///< tag of the storage type IEEE half

__device__ constexpr int ceilDiv(int a, int b) { return (a + b - 1) / b; }
__device__ constexpr int roundUp(int a, int b) { return ceilDiv(a, b) * b; }

__device__ inline float negativeInfinity() { return __int_as_float(0xff800000); }

// ---- shared memory and mbarriers ----------------------------------------------------------------------------------

__device__ inline u32 sharedAddress(const void *pointer) {
  return static_cast<u32>(__cvta_generic_to_shared(pointer));
}

__device__ inline void barrierInit(u32 barrier, u32 arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

/// Makes initialised barriers visible to the copy engine.
__device__ inline void barrierInitFence() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

__device__ inline void barrierArrive(u32 barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

/// Arrives and announces the bytes that copies will deliver in this phase.
__device__ inline void barrierExpect(u32 barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

/// Waits until the phase with this parity has completed. A fresh barrier counts its parity-1 phase as complete.
__device__ inline void barrierWait(u32 barrier, u32 parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra finished;\n"
      "bra again;\n"
      "finished:\n"
      "}\n" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

/// Named barriers order warpgroups among themselves without stopping the whole block.
__device__ inline void namedSync(int name, int threads) {
  asm volatile("barrier.sync %0, %1;" ::"r"(name), "r"(threads) : "memory");
}
__device__ inline void namedArrive(int name, int threads) {
  asm volatile("barrier.arrive %0, %1;" ::"r"(name), "r"(threads) : "memory");
}

/// Ordinary stores to shared memory before this are seen by the tensor cores and the copy engine after it.
__device__ inline void asyncProxyFence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// ---- tensor copies ------------------------------------------------------------------------------------------------

__device__ inline void prefetchTensorMap(const TensorMap &map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

/// One box of a map (column, token, head, batch) into shared memory. Outside the tensor the box is filled with zeros.
__device__ inline void copyBox(u32 destination, const TensorMap &map, u32 barrier, int column, int token, int head,
                               int batch) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(destination),
      "l"(&map), "r"(barrier), "r"(column), "r"(token), "r"(head), "r"(batch)
      : "memory");
}

// ---- warpgroup matrix operands ------------------------------------------------------------------------------------

/// An operand in shared memory as wgmma sees it. The low word holds the address, so moving by `bytes` is one addition.
struct Operand {
  u32 low, high;
  __device__ u64 at(u32 bytes) const { return u64(high) << 32 | (low + (bytes >> 4)); }
};

/// The swizzle of a panel whose rows hold `columns` 16-bit elements: 64, 32 or 16 columns are 128, 64 or 32 bytes.
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

__device__ inline void wgmmaFence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void wgmmaCommit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int PENDING>
__device__ inline void wgmmaWait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

/// Keeps the compiler from moving uses of registers that a wgmma writes across the wait before this.
template <int COUNT>
__device__ inline void pinRegisters(float (&values)[COUNT]) {
#pragma unroll
  for (int i = 0; i < COUNT; ++i)
    asm volatile("" : "+f"(values[i])::"memory");
}

template <int COUNT>
__device__ inline void growRegisters() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT));
}
template <int COUNT>
__device__ inline void shrinkRegisters() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT));
}

// ---- numbers ------------------------------------------------------------------------------------------------------

__device__ inline float exp2Approx(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
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
