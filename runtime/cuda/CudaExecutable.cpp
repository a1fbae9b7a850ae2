// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/CudaExecutable.h"

#include "runtime/Error.h"

#include <algorithm>

namespace ditc {

namespace {

/// A copy onto itself goes in pieces, through scratch when those that do not overlap would be smaller than this.
constexpr uint64_t kMovedBytes = 1 << 20;

bool needsScratch(uint64_t distance, uint64_t bytes) { return distance > 0 && distance < bytes && distance < kMovedBytes; }

bool overlapsClosely(const Plan &plan, const CopyOp &op) {
  const PlanBuffer &from = plan.buffers[op.src.buffer], &to = plan.buffers[op.dst.buffer];
  if (from.space != to.space || from.index != to.index || from.name != to.name)
    return false;
  uint64_t source = from.offset + op.src.offset, target = to.offset + op.dst.offset;
  return needsScratch(target > source ? target - source : source - target, op.bytes);
}

} // namespace

//===-- executable ------------------------------------------------------------------------------------===//

CudaExecutable::CudaExecutable(const Plan &plan, std::string_view source, CudaLoader &loader)
    : prepare(plan.prepare), step(plan.step) {
  for (uint32_t i = 0; i < plan.buffers.size(); ++i)
    if (plan.buffers[i].space == Space::Input || plan.buffers[i].space == Space::Output)
      ports.push_back(i);
  for (const std::string &name : plan.kernels)
    kernels.push_back(loader.kernel(name));
  prepareScratch = loadOps(plan, prepare, source, loader);
  stepScratch = loadOps(plan, step, source, loader);
}

uint64_t CudaExecutable::loadOps(const Plan &plan, const std::vector<PlanOp> &ops, std::string_view source, CudaLoader &loader) {
  uint64_t scratch = 0;
  for (const PlanOp &op : ops) {
    if (const auto *launch = std::get_if<LaunchOp>(&op.body)) {
      checkLaunch(plan, *launch, source);
    } else if (const auto *gemm = std::get_if<GemmOp>(&op.body)) {
      if (!blas)
        blas = loader.blas();
      scratch = std::max(scratch, cuda::CublasLt::workspaceBytes(*blas->product(*gemm)));
    } else if (overlapsClosely(plan, std::get<CopyOp>(op.body))) {
      scratch = std::max(scratch, kMovedBytes);
    }
  }
  return scratch;
}

/// The plan was checked without the kernels, the kernel file without the plan.
void CudaExecutable::checkLaunch(const Plan &plan, const LaunchOp &op, std::string_view source) const {
  const cuda::KernelImage &image = *kernels[op.kernel].image;
  if (op.args.size() != image.args)
    fail("'{}': kernel '{}' has {} arguments, the plan gives {}; the package is damaged, compile again", source,
         image.name, image.args, op.args.size());
  std::vector<uint64_t> before, room;
  for (const PlanPointer &arg : op.args) {
    before.push_back(arg.offset);
    room.push_back(bufferBytes(plan, arg.buffer) - arg.offset);
  }
  cuda::checkPatches(image, before, room, source);
}

//===-- program ---------------------------------------------------------------------------------------===//

namespace {

/// The driver's copies must not overlap, a plan's may: then pieces are moved, from the end that is in the way.
void queueCopy(cuda::Pointer target, cuda::Pointer source, uint64_t bytes, cuda::Pointer scratch, cuda::Stream stream,
               const cuda::Driver &driver) {
  uint64_t distance = target > source ? target - source : source - target;
  if (distance == 0)
    return;
  auto copy = [&](cuda::Pointer to, cuda::Pointer from, uint64_t size) {
    driver.check(driver.memcpyDtoDAsync(to, from, size, stream), "copying on the GPU");
  };
  bool throughScratch = needsScratch(distance, bytes);
  uint64_t piece = throughScratch ? kMovedBytes : std::min(bytes, distance);
  for (uint64_t done = 0; done < bytes; done += piece) {
    uint64_t size = std::min(piece, bytes - done);
    uint64_t offset = target > source ? bytes - done - size : done;
    if (throughScratch)
      copy(scratch, source + offset, size);
    copy(target + offset, throughScratch ? scratch : source + offset, size);
  }
}

} // namespace

struct CudaProgram::Launch {
  Launch(const CudaLoader::Kernel &kernel, const std::vector<PlanPointer> &args)
      : ready(*kernel.image, kernel.function, kernel.gridX), from(args), args(args.size()), name(kernel.image->name) {}

  cuda::ReadyLaunch ready;
  const std::vector<PlanPointer> &from;
  std::vector<char *> args;
  const std::string &name;
  bool afterKernel = false; ///< only behind other kernels there is something to overlap with
};

struct CudaProgram::Gemm {
  const GemmOp &op;
  cuda::ProductAddresses at;
  std::shared_ptr<const cuda::Product> product;
};

struct CudaProgram::Copy {
  const CopyOp &op;
  cuda::Pointer source = 0, target = 0;
};

CudaProgram::CudaProgram(const CudaExecutable &executable, OpList list, size_t begin, size_t end)
    : blas(executable.library()), workspaceBytes(executable.scratchBytes(list)) {
  bool afterKernel = false;
  for (size_t i = begin; i < end; ++i) {
    ops.push_back(makeOp(executable, executable.ops(list)[i]));
    if (auto *launch = std::get_if<std::unique_ptr<Launch>>(&ops.back()))
      (*launch)->afterKernel = afterKernel;
    afterKernel = !std::holds_alternative<std::unique_ptr<Copy>>(ops.back());
  }
}

CudaProgram::~CudaProgram() = default;

CudaProgram::Op CudaProgram::makeOp(const CudaExecutable &executable, const PlanOp &op) {
  if (const auto *launch = std::get_if<LaunchOp>(&op.body))
    return std::make_unique<Launch>(executable.kernel(launch->kernel), launch->args);
  if (const auto *gemm = std::get_if<GemmOp>(&op.body))
    return std::make_unique<Gemm>(Gemm{*gemm, {}, nullptr});
  return std::make_unique<Copy>(Copy{std::get<CopyOp>(op.body)});
}

void CudaProgram::bind(const Addresses &addresses, char *scratch, const cuda::Driver &driver) {
  workspace = scratch;
  Addresses old = std::move(bound); // when something fails below, all is bound anew next time
  bound.clear();
  bool first = old.empty();
  auto changed = [&](const PlanPointer &pointer) { return first || addresses[pointer.buffer] != old[pointer.buffer]; };
  auto at = [&](const PlanPointer &pointer) { return addresses[pointer.buffer] + pointer.offset; };
  for (Op &op : ops) {
    if (auto *launch = std::get_if<std::unique_ptr<Launch>>(&op)) {
      Launch &it = **launch;
      if (std::none_of(it.from.begin(), it.from.end(), changed))
        continue;
      std::transform(it.from.begin(), it.from.end(), it.args.begin(), at);
      it.ready.patch(it.args, driver);
    } else if (auto *gemm = std::get_if<std::unique_ptr<Gemm>>(&op)) {
      Gemm &it = **gemm;
      const GemmOp &from = it.op;
      if (!changed(from.a.at) && !changed(from.b.at) && !changed(from.c.at) && !(from.bias && changed(*from.bias)))
        continue;
      it.at = {at(from.a.at), at(from.b.at), at(from.c.at), from.bias ? at(*from.bias) : nullptr};
      it.product = blas->product(from, it.at, workspaceBytes);
    } else {
      Copy &it = *std::get<std::unique_ptr<Copy>>(op);
      it.source = reinterpret_cast<cuda::Pointer>(at(it.op.src));
      it.target = reinterpret_cast<cuda::Pointer>(at(it.op.dst));
    }
  }
  bound = addresses;
}

void CudaProgram::queue(size_t index, cuda::Stream stream, bool overlap, const cuda::Driver &driver) {
  Op &op = ops[index];
  if (auto *launch = std::get_if<std::unique_ptr<Launch>>(&op)) {
    Launch &it = **launch;
    if (cuda::Result result = it.ready.launch(stream, overlap && it.afterKernel, driver); result != cuda::kSuccess)
      driver.check(result, fmt::format("launching the kernel '{}'", it.name));
  } else if (auto *gemm = std::get_if<std::unique_ptr<Gemm>>(&op)) {
    blas->run(*(*gemm)->product, (*gemm)->at, workspace, stream);
  } else {
    Copy &it = *std::get<std::unique_ptr<Copy>>(op);
    queueCopy(it.target, it.source, it.op.bytes, reinterpret_cast<cuda::Pointer>(workspace), stream, driver);
  }
}

void CudaProgram::queueAll(cuda::Stream stream, bool overlap, const cuda::Driver &driver) {
  for (size_t i = 0; i < ops.size(); ++i)
    queue(i, stream, overlap, driver);
}

} // namespace ditc
