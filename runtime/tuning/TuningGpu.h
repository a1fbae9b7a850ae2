// SPDX-License-Identifier: Apache-2.0
//
// A GPU for measuring: memory, the kernels of a bundle, random values, comparisons, and times of CUDA graphs.
#pragma once

#include "runtime/Error.h"
#include "runtime/cuda/CudaMemory.h"
#include "runtime/cuda/Launch.h"
#include "runtime/cuda/Target.h"
#include "runtime/tuning/Bundle.h"

#include <functional>
#include <map>

namespace ditc::tuning {

/// A kernel did not end, or broke the context: this process can measure no more.
class BrokenGpu : public Error {
public:
  BrokenGpu(const std::string &text, bool stillRuns) : Error(ErrorKind::Input, text), stillRuns(stillRuns) {}
  bool stillRuns; ///< even freeing memory would wait for it
};

/// How two results differ.
struct Difference {
  double relative = 0;      ///< L2 norm of the difference by that of the second
  uint64_t onlyFirst = 0;   ///< elements where just the first is NaN
  uint64_t onlySecond = 0;
};

class TuningGpu {
public:
  /// Throws Error (Input): no driver, no such GPU, or not one that the bundle is for.
  TuningGpu(const BundleFile &file, int ordinal, uint64_t memoryBudget);
  ~TuningGpu();

  const std::string &name() const { return gpuName; }
  std::string capability() const { return gpu.text(); }
  uint32_t driverVersion() const { return static_cast<uint32_t>(context->driver.version()); }
  uint64_t cacheBytes() const;
  uint64_t freeBytes() const;
  const cuda::Driver &driver() const { return context->driver; }

  MemoryRef allocate(uint64_t bytes, const std::string &purpose) { return pool.allocate(bytes, purpose); }
  /// Random normal values times `scale`; integers become 0.
  void fill(char *at, DType dtype, uint64_t bytes, double scale, uint32_t seed);
  /// All ones: NaN in every floating-point type.
  void poison(char *at, uint64_t bytes);
  void copy(char *to, const char *from, uint64_t bytes);
  Difference compare(const char *a, const char *b, DType dtype, uint64_t bytes);

  /// A launch of the kernel on these arguments; it stays valid as long as this object.
  std::unique_ptr<cuda::ReadyLaunch> prepare(const Candidate &candidate, std::span<char *const> args);
  /// Launches, and waits. Throws BrokenGpu.
  void run(cuda::ReadyLaunch &launch);
  /// Queues work on the stream, and waits. Throws BrokenGpu.
  void runQueued(const std::function<void(cuda::Stream)> &queue);

  /// Work, recorded.
  class Recording;
  std::unique_ptr<Recording> record(const std::function<void(cuda::Stream)> &queue);
  /// Milliseconds of one replay, in the mean of `count`, behind `before` others without a gap. Throws BrokenGpu.
  double replay(Recording &recording, unsigned count = 1, unsigned before = 0);
  /// Kernels may start while those before them end.
  bool overlaps() const;

private:
  cuda::Function functionOf(const cuda::KernelImage &image, const std::string &entry);
  void launchTool(const char *name, uint32_t blocks, std::vector<cuda::KernelParameter> parameters, std::span<char *const> args);
  /// Waits for what was queued.
  void wait();

  const BundleFile &file;
  const uint64_t memoryBudget; ///< 0: what is free
  std::shared_ptr<CudaContext> context;
  CudaContext::Current current;
  CudaMemoryPool pool;
  cuda::ComputeCapability gpu;
  std::string gpuName;
  uint32_t multiprocessors = 1;
  cuda::Stream stream = nullptr;
  cuda::Event begin = nullptr, end = nullptr;
  std::map<std::string, cuda::Module> modules;
  MemoryRef parts; ///< of comparisons
};

class TuningGpu::Recording {
public:
  Recording(const cuda::Driver &driver, cuda::GraphExec graph) : graph(graph), driver(driver) {}
  ~Recording() { driver.graphExecDestroy(graph); }
  Recording(const Recording &) = delete;
  Recording &operator=(const Recording &) = delete;

  const cuda::GraphExec graph;

private:
  const cuda::Driver &driver;
};

} // namespace ditc::tuning
