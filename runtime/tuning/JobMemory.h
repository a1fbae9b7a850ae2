// SPDX-License-Identifier: Apache-2.0
//
// What the candidates of a job are launched on: several sets of arguments, together larger than the L2 cache, which
// launches go round as a model's do: nothing that one launch leaves in the cache serves the next.
#pragma once

#include "runtime/cuda/CublasLt.h"
#include "runtime/tuning/TuningGpu.h"

namespace ditc::tuning {

class JobMemory {
public:
  /// Filled with random values. Throws Error (Input): not even one set fits. `withLibrary`: operands for cuBLASLt, too.
  JobMemory(TuningGpu &gpu, const Job &job, bool withLibrary);

  struct Set {
    std::vector<char *> args;
    std::vector<cuda::ProductAddresses> products;
  };

  /// Of the job's products.
  DType dtype() const { return parseDType(job.key.dtype).value_or(DType::bf16); }

  std::vector<Set> sets;
  std::vector<char *> kept;  ///< room for one more result of each argument; null for inputs
  char *workspace = nullptr; ///< the library's

private:
  uint64_t argumentBytes() const;
  uint64_t outputBytes() const;
  uint64_t libraryBytes() const;
  uint64_t bytesOf(int64_t elements) const { return static_cast<uint64_t>(elements) * byteSize(dtype()); }
  size_t setsThatFit(uint64_t fixed, uint64_t set) const;
  void place(Set &set);
  char *take(uint64_t bytes);
  char *takeFilled(uint64_t bytes, DType type, double scale);

  TuningGpu &gpu;
  const Job &job;
  const bool withLibrary;
  MemoryRef memory;
  char *next = nullptr; ///< what is not taken yet
  uint32_t seed = 1;
};

} // namespace ditc::tuning
