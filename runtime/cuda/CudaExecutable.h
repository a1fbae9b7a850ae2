// SPDX-License-Identifier: Apache-2.0
//
// One bucket's plan on a GPU: its kernels, loaded, and programs made from its ops. A program is a list of ops with
// the addresses of one context, so that running it is a loop of launches; queues keep one per bucket.
#pragma once

#include "runtime/Device.h"
#include "runtime/cuda/CublasLt.h"
#include "runtime/cuda/CudaMemory.h"
#include "runtime/cuda/Launch.h"

#include <memory>
#include <variant>
#include <vector>

namespace ditc {

/// The loaded kernels and libraries of a package on one GPU; loads what is asked for, once.
class CudaLoader {
public:
  virtual ~CudaLoader() = default;
  struct Kernel {
    const cuda::KernelImage *image = nullptr;
    cuda::Function function = nullptr;
    uint32_t gridX = 1;
  };
  virtual Kernel kernel(const std::string &name) = 0;
  virtual std::shared_ptr<cuda::CublasLt> blas() = 0;
};

class CudaExecutable : public Executable {
public:
  /// Throws Error (Input): see Device::load.
  CudaExecutable(const Plan &plan, std::string_view source, CudaLoader &loader);

  uint64_t scratchBytes(OpList list) const override { return list == OpList::Prepare ? prepareScratch : stepScratch; }
  const std::vector<PlanOp> &ops(OpList list) const { return list == OpList::Prepare ? prepare : step; }
  /// Buffers that are the caller's memory: those whose addresses change from run to run.
  const std::vector<uint32_t> &portBuffers() const { return ports; }
  const CudaLoader::Kernel &kernel(uint32_t index) const { return kernels[index]; }
  const std::shared_ptr<cuda::CublasLt> &library() const { return blas; }

private:
  void checkLaunch(const Plan &plan, const LaunchOp &op, std::string_view source) const;
  /// Checks and loads what the ops need; returns their scratch.
  uint64_t loadOps(const Plan &plan, const std::vector<PlanOp> &ops, std::string_view source, CudaLoader &loader);

  std::vector<PlanOp> prepare, step;
  std::vector<uint32_t> ports;
  std::vector<CudaLoader::Kernel> kernels;
  std::shared_ptr<cuda::CublasLt> blas; ///< null when the plan has no products
  uint64_t prepareScratch = 0, stepScratch = 0; ///< of products' algorithms, and of copies that overlap themselves closely
};

/// Ops with addresses. Belongs to one queue.
class CudaProgram {
public:
  /// `begin` to `end` of the list's ops.
  CudaProgram(const CudaExecutable &executable, OpList list, size_t begin, size_t end);
  ~CudaProgram();

  /// Takes over new addresses; only ops whose addresses changed cost time.
  void bind(const Addresses &addresses, char *scratch, const cuda::Driver &driver);
  size_t size() const { return ops.size(); }
  /// Queues one op, or all of them.
  void queue(size_t index, cuda::Stream stream, bool overlap, const cuda::Driver &driver);
  void queueAll(cuda::Stream stream, bool overlap, const cuda::Driver &driver);

private:
  struct Launch;
  struct Gemm;
  struct Copy;
  using Op = std::variant<std::unique_ptr<Launch>, std::unique_ptr<Gemm>, std::unique_ptr<Copy>>;

  Op makeOp(const CudaExecutable &executable, const PlanOp &op);

  std::shared_ptr<cuda::CublasLt> blas;
  std::vector<Op> ops;
  Addresses bound;
  char *workspace = nullptr;
  uint64_t workspaceBytes = 0;
};

} // namespace ditc
