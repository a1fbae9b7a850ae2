// SPDX-License-Identifier: Apache-2.0
//
// Hopper instructions behind names: mbarriers, tensor copies with multicast, wgmma's fences and operands, register
// reallocation, and 8x8 matrix moves between registers and shared memory. Each function is one PTX statement, and no
// header of CUDA is included, so that a template compiles under NVRTC from these files alone.
#pragma once

#include "common/words.cuh"

namespace ditc {

/// A CUtensorMap, passed by value as a kernel parameter; the copy engine wants it 64-byte aligned.
struct alignas(64) TensorMap {
  u64 words[16];
};

__device__ constexpr int ceilDiv(int a, int b) { return (a + b - 1) / b; }

// ---- shared memory and mbarriers ----------------------------------------------------------------------------------

__device__ inline u32 sharedAddress(const void *pointer) {
  return static_cast<u32>(__cvta_generic_to_shared(pointer));
}

__device__ inline void barrierInit(u32 barrier, u32 arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

/// Makes initialised barriers visible to the copy engine and to the other blocks of the cluster.
__device__ inline void barrierInitFence() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

/// Arrives and announces the bytes that copies will deliver in this phase.
__device__ inline void barrierExpect(u32 barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

__device__ inline void barrierArrive(u32 barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

/// Arrives at the barrier that lies at the same place in block `rank` of the cluster. It says that the tensor cores have
/// read a stage, which the wait for them has ordered already; .release.cluster would cost a GPU-wide fence per k step.
__device__ inline void barrierArriveRemote(u32 barrier, u32 rank) {
  asm volatile(
      "{ .reg .u32 remote; mapa.shared::cluster.u32 remote, %0, %1;"
      "mbarrier.arrive.shared::cluster.b64 _, [remote]; }" ::"r"(barrier),
      "r"(rank)
      : "memory");
}

/// Waits until the phase with this parity has completed. A fresh barrier counts its parity-1 phase as complete.
__device__ inline void barrierWait(u32 barrier, u32 parity) {
  u32 done;
  do {
    asm volatile(
        "{ .reg .pred done; mbarrier.try_wait.parity.shared::cta.b64 done, [%1], %2; selp.u32 %0, 1, 0, done; }"
        : "=r"(done)
        : "r"(barrier), "r"(parity)
        : "memory");
  } while (!done);
}

/// The same for what other blocks of the cluster have sent.
__device__ inline void barrierWaitCluster(u32 barrier, u32 parity) {
  u32 done;
  do {
    asm volatile(
        "{ .reg .pred done; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%1], %2; selp.u32 %0, 1, 0, done; }"
        : "=r"(done)
        : "r"(barrier), "r"(parity)
        : "memory");
  } while (!done);
}

/// Named barriers order warpgroups among themselves without stopping the whole block.
__device__ inline void namedSync(int name, int threads) {
  asm volatile("barrier.sync %0, %1;" ::"r"(name), "r"(threads) : "memory");
}
__device__ inline void namedArrive(int name, int threads) {
  asm volatile("barrier.arrive %0, %1;" ::"r"(name), "r"(threads) : "memory");
}

/// Ordinary accesses to shared memory before this are ordered before those of the copy engine after it.
__device__ inline void asyncProxyFence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

/// True in one thread, always the same, of a warp whose threads are all here. Unlike after a comparison of lanes, the
/// assembler knows that it is one: operands of the copy engine need no loop over the threads that might differ in them.
__device__ inline bool isElected() {
  u32 elected;
  asm volatile("{ .reg .pred one; elect.sync _|one, 0xffffffff; selp.u32 %0, 1, 0, one; }" : "=r"(elected));
  return elected;
}

/// What all threads of a warp have in common, so that the assembler knows it, too, and keeps it in a uniform register.
__device__ inline int uniform(int x) { return __shfl_sync(0xffffffff, x, 0); }

__device__ inline u32 clusterRank() {
  u32 rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

/// The address in block `rank` of the cluster that corresponds to this block's.
__device__ inline u32 ofBlock(u32 address, int rank) {
  u32 remote;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(address), "r"(rank));
  return remote;
}

/// Four values into another block's shared memory, and word of them to a barrier there.
__device__ inline void storeRemote(u32 address, const float *x, u32 barrier) {
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(address),
      "f"(x[0]), "f"(x[1]), "f"(x[2]), "f"(x[3]), "r"(barrier)
      : "memory");
}

/// x[0 … 3] += four values of shared memory.
__device__ inline void addShared(u32 address, float *x) {
  float a, b, c, d;
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(a), "=f"(b), "=f"(c), "=f"(d) : "r"(address) : "memory");
  x[0] += a, x[1] += b, x[2] += c, x[3] += d;
}

/// All threads of all blocks of the cluster meet here. Says nothing about what they wrote, which would cost a fence of the
/// whole GPU; barriers that were initialised before barrierInitFence() can be used.
__device__ inline void clusterMeet() {
  asm volatile("barrier.cluster.arrive.relaxed; barrier.cluster.wait.acquire;" ::: "memory");
}
/// The same, and what each has done to the shared memory of others is done.
__device__ inline void clusterSync() {
  asm volatile("barrier.cluster.arrive.release; barrier.cluster.wait.acquire;" ::: "memory");
}

/// With programmatic dependent launch a kernel starts while the one before it still runs: nothing that the other may
/// write is read, and nothing that it may read is written, before this. Without, both cost nothing.
__device__ inline void waitForPreviousKernel() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
__device__ inline void allowNextKernel() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }

// ---- tensor copies ------------------------------------------------------------------------------------------------

__device__ inline void prefetchTensorMap(const TensorMap &map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

/// One box of a map into shared memory; outside the tensor the box is filled with zeros.
__device__ inline void copyBox(u32 destination, const TensorMap &map, u32 barrier, int x, int y, int z, int w, int v) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3, %4, %5, %6, %7}], [%2];" ::"r"(destination),
      "l"(&map), "r"(barrier), "r"(x), "r"(y), "r"(z), "r"(w), "r"(v)
      : "memory");
}
__device__ inline void copyBox(u32 destination, const TensorMap &map, u32 barrier, int x, int y, int z, int w) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(destination),
      "l"(&map), "r"(barrier), "r"(x), "r"(y), "r"(z), "r"(w)
      : "memory");
}
__device__ inline void copyBox(u32 destination, const TensorMap &map, u32 barrier, int x, int y, int z) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3, %4, %5}], [%2];" ::"r"(destination),
      "l"(&map), "r"(barrier), "r"(x), "r"(y), "r"(z)
      : "memory");
}

/// The same, into the shared memory (and the barrier) of every block of the cluster whose bit is set.
__device__ inline void copyBoxMulticast(u32 destination, const TensorMap &map, u32 barrier, u16 blocks, int x, int y,
                                        int z) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
      " [%0], [%1, {%3, %4, %5}], [%2], %6;" ::"r"(destination),
      "l"(&map), "r"(barrier), "r"(x), "r"(y), "r"(z), "h"(blocks)
      : "memory");
}

/// One box from shared memory; what lies outside the tensor is not written.
__device__ inline void storeBox(const TensorMap &map, u32 source, int x, int y, int z, int w) {
  asm volatile(
      "cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(&map),
      "r"(source), "r"(x), "r"(y), "r"(z), "r"(w)
      : "memory");
}
__device__ inline void storeCommit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

/// Waits until all but the last PENDING stores of this thread have read their shared memory.
template <int PENDING>
__device__ inline void storeWaitRead() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(PENDING) : "memory");
}
/// Waits until this thread's stores have reached device memory.
__device__ inline void storeWaitAll() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

// ---- wgmma: operands and order ------------------------------------------------------------------------------------

/// An operand in shared memory, k along rows of 128 bytes with the 128-byte swizzle (64 values of 16 bits): 8 rows make
/// one repeat of 1024 bytes. Moving along k or to another block of rows is an addition of bytes.
struct KMajorOperand {
  u32 low;
  __device__ explicit KMajorOperand(u32 address) : low((address & 0x3FFFF) >> 4 | 1u << 16) {}
  __device__ u64 at(u32 bytes) const {
    constexpr u32 HIGH = 1024 >> 4 | 1u << 30;  // stride between repeats; layout: 128-byte swizzle
    return u64(HIGH) << 32 | (low + (bytes >> 4));
  }
};

__device__ inline void wgmmaFence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void wgmmaCommit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int PENDING>
__device__ inline void wgmmaWait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

template <int COUNT>
__device__ inline void growRegisters() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT));
}
template <int COUNT>
__device__ inline void shrinkRegisters() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT));
}

// ---- 8x8 matrices of 16-bit values --------------------------------------------------------------------------------

/// Four matrices; lane l gives the address of row l % 8 of matrix l / 8, and holds of every matrix the pair of columns
/// 2 (l % 4) in row l / 4: the layout of wgmma's accumulators.
__device__ inline void storeMatrices(u32 address, u32 a, u32 b, u32 c, u32 d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(a), "r"(b),
               "r"(c), "r"(d)
               : "memory");
}
/// Two matrices, by the addresses of lanes 0 … 15.
__device__ inline void storeMatrices(u32 address, u32 a, u32 b) {
  asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(address), "r"(a), "r"(b) : "memory");
}
__device__ inline void loadMatrices(u32 address, u32 (&m)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(address)
               : "memory");
}

}  // namespace ditc
