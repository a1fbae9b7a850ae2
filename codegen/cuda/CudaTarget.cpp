// SPDX-License-Identifier: Apache-2.0
//
// Units are emitted one after the other, since MLIR is used there, and compiled by as many threads as there are cores.
#include "codegen/cuda/CudaTarget.h"

#include "codegen/cuda/Nvrtc.h"
#include "codegen/cuda/Templates.h"
#include "codegen/cuda/families/Families.h"
#include "codegen/cuda/gemm/MmaGemm.h"
#include "codegen/cuda/rowwise/Rowwise.h"
#include "codegen/cuda/sm90/AttentionProblem.h"
#include "codegen/cuda/sm90/Hopper.h"
#include "dialects/Locations.h"
#include "runtime/Error.h"
#include "runtime/Hash.h"

#include <atomic>
#include <cstring>
#include <exception>
#include <mutex>
#include <regex>
#include <thread>

using namespace mlir;

namespace ditc {

namespace {

/// CUDA version that the driver must support, 1000 · major + 10 · minor. Code of an NVRTC runs on every driver of its major
/// version that knows the architecture; PTX wants a driver as new as its NVRTC.
int lowestDriverOf(const CudaArch &arch, int major, int minor) {
  int known = arch.number >= 120 ? 12080 : arch.number >= 100 ? 12070 : 12000;
  return std::max(known, 1000 * major + (arch.isPortable() && minor < 10 ? 10 * minor : 0));
}

struct Job {
  CudaKernel kernel;
  std::string key;
  std::vector<std::pair<std::string, std::string>> headers;
};

int numberBefore(const std::string &log, const char *what) {
  std::smatch match;
  return std::regex_search(log, match, std::regex(std::string("(\\d+) ") + what)) ? std::stoi(match[1]) : 0;
}

/// An image with its resources, as the cache keeps it.
std::vector<uint8_t> packImage(const CudaKernel &kernel) {
  int numbers[3] = {kernel.registers, kernel.sharedBytes, kernel.spillBytes};
  std::vector<uint8_t> bytes(sizeof numbers);
  std::memcpy(bytes.data(), numbers, sizeof numbers);
  bytes.insert(bytes.end(), kernel.image.begin(), kernel.image.end());
  return bytes;
}

bool unpackImage(const std::vector<uint8_t> &bytes, CudaKernel &kernel) {
  int numbers[3];
  if (bytes.size() <= sizeof numbers)
    return false;
  std::memcpy(numbers, bytes.data(), sizeof numbers);
  kernel.registers = numbers[0], kernel.sharedBytes = numbers[1], kernel.spillBytes = numbers[2];
  kernel.image.assign(bytes.begin() + sizeof numbers, bytes.end());
  return true;
}

void compileJob(Job &job, const CudaArch &arch, const CudaOptions &options) {
  CudaKernel &kernel = job.kernel;
  if (options.load)
    if (std::optional<std::vector<uint8_t>> cached = options.load(job.key); cached && unpackImage(*cached, kernel))
      return;
  std::vector<std::string> flags;
  if (!arch.isPortable())
    flags.push_back("--ptxas-options=-v");
  CudaBinary binary = Nvrtc::get().compile({kernel.name + ".cu", kernel.source, job.headers, arch.name, flags});
  kernel.image = std::move(binary.image);
  kernel.registers = numberBefore(binary.log, "registers");
  kernel.sharedBytes = numberBefore(binary.log, "bytes smem");
  kernel.spillBytes = numberBefore(binary.log, "bytes spill stores");
  if (options.store)
    options.store(job.key, packImage(kernel));
}

/// Runs all jobs; the first failure is thrown when all threads have ended.
void compileJobs(std::vector<Job> &jobs, const CudaArch &arch, const CudaOptions &options) {
  std::atomic<size_t> next = 0;
  size_t done = 0;
  std::mutex mutex; // guards done, failure and the caller's progress
  std::exception_ptr failure;
  auto work = [&] {
    for (size_t i; (i = next++) < jobs.size();) {
      try {
        compileJob(jobs[i], arch, options);
      } catch (...) {
        std::lock_guard lock(mutex);
        failure = failure ? failure : std::current_exception();
        next = jobs.size();
      }
      std::lock_guard lock(mutex);
      ++done;
      if (options.progress)
        options.progress(done, jobs.size());
    }
  };
  std::vector<std::jthread> threads;
  for (size_t i = 0; i < std::min<size_t>(jobs.size(), std::max(1u, std::thread::hardware_concurrency())); ++i)
    threads.emplace_back(work);
  threads.clear();
  if (failure)
    std::rethrow_exception(failure);
}

std::string bannerOf(plan::KernelOp kernel, const CudaArch &arch) {
  NodeName name = nameOf(kernel.getLoc());
  return fmt::format("// {} for {}\n// first used by {}\n", kernel.getSymName().str(), arch.name, writeNodeName(name));
}

} // namespace

std::vector<std::string> cudaArchNames() { return {"sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a", "ptx"}; }

std::optional<CudaArch> parseCudaArch(std::string_view name) {
  if (!llvm::is_contained(cudaArchNames(), name))
    return std::nullopt;
  if (name == "ptx")
    return CudaArch{"compute_80", 80};
  return CudaArch{std::string(name), std::stoi(std::string(name.substr(3)))};
}

/// Hopper's own template where it can read the operands.
static FailureOr<CudaUnit> emitBestAttention(plan::KernelOp kernel, const CudaArch &arch) {
  return arch.hasWgmma() && acceptsHopperAttention(kernel) ? emitHopperAttention(kernel) : emitAttention(kernel, arch);
}

static FailureOr<CudaUnit> emitPackedMask(plan::KernelOp kernel, const CudaArch &) { return emitMaskPack(kernel); }

static FailureOr<CudaUnit> emitGemm(plan::KernelOp kernel, const CudaArch &arch) {
  return arch.hasWgmma() ? emitHopperGemm(kernel) : emitMmaGemm(kernel, arch);
}

CudaEmitter cudaEmitterOf(StringRef family) {
  return llvm::StringSwitch<CudaEmitter>(family)
      .Case("rowwise", emitRowwise)
      .Case("attention", emitBestAttention)
      .Case("mask_pack", emitPackedMask)
      .Case("gemm", emitGemm)
      .Case("gemv", emitGemv)
      .Case("conv", emitConv)
      .Case("matmul", emitMatmul)
      .Case("arg_reduce", emitArgReduce)
      .Case("scan", emitScan)
      .Case("sort", emitSort)
      .Case("scatter", emitScatter)
      .Default(nullptr);
}

namespace {

/// What may be one launch today.
class CudaTargetKernels : public TargetKernels {
public:
  CudaTargetKernels(const CudaArch &arch, bool keepRoundings) : arch(arch), keepRoundings(keepRoundings) {}

  Verdict takes(dit::FusionOp fusion) const override {
    if (fusion.getFamily() == "rowwise")
      return acceptsRowwise(fusion.getBodyBlock());
    if (fusion.getFamily() == "gemv" && llvm::all_of(fusion.getBodyBlock().without_terminator(), llvm::IsaPred<dit::MatmulOp>))
      return {};
    if (fusion.getFamily() == "gemm" && !keepRoundings)
      return acceptsGemm(fusion, residualBy());
    return {Reason::NoSlot, fusion.getNumOperands() > 0 ? fusion.getOperand(0) : Value()};
  }

  bool takesLayouts(dit::FusionOp fusion, ArrayRef<MemRefType> types) const override {
    return fusion.getFamily() != "gemm" || acceptsGemm(fusion, types, residualBy());
  }

  AttentionNeeds needsOf(plan::KernelOp attention) const override { return arch.hasWgmma() ? hopperAttentionNeeds(attention) : AttentionNeeds(); }

private:
  ResidualBy residualBy() const { return arch.hasWgmma() ? ResidualBy::CopyEngine : ResidualBy::Loads; }

  CudaArch arch;
  bool keepRoundings;
};

} // namespace

std::shared_ptr<const TargetKernels> cudaTargetKernels(const CudaArch &arch, bool keepRoundings) { return std::make_shared<CudaTargetKernels>(arch, keepRoundings); }

FailureOr<CudaObject> emitCuda(ModuleOp module, const CudaArch &arch, const CudaOptions &options) {
  CudaObject object;
  object.file.arch = arch.name;
  bool found = Nvrtc::available(); // without it, images may still come from the cache
  auto [major, minor] = found ? Nvrtc::get().version() : std::pair(0, 0);
  object.file.lowestDriver = lowestDriverOf(arch, major, minor);
  std::string version = found ? fmt::format("{}.{}", major, minor) : "";
  std::vector<Job> jobs;
  for (plan::KernelOp kernel : module.getOps<plan::KernelOp>()) {
    CudaEmitter emitter = cudaEmitterOf(kernel.getFamily());
    if (!emitter)
      return kernel.emitError("the CUDA target has no kernels of family '") << kernel.getFamily() << "'";
    FailureOr<CudaUnit> unit = emitter(kernel, arch);
    if (failed(unit))
      return failure();
    std::string name = kernel.getSymName().str(), suffix = arch.isPortable() ? ".ptx" : ".cubin";
    Job job{{.name = name, .family = kernel.getFamily().str(), .source = bannerOf(kernel, arch) + unit->text, .image = {}}, "", templatesIncludedBy(unit->text)};
    std::string keyText = fmt::format("cuda image\n{}\n{}\n{}\n", arch.name, version, unit->text);
    for (const auto &[header, text] : job.headers)
      keyText += header + "\n" + text;
    job.key = hashHex(keyText);
    jobs.push_back(std::move(job));
    object.file.kernels.push_back({name, arch.name + "/" + name + suffix, unit->launch, unit->parameters, kernel.getNumArgs()});
  }
  if (!jobs.empty())
    compileJobs(jobs, arch, options);
  for (Job &job : jobs)
    object.kernels.push_back(std::move(job.kernel));
  object.compiler = version.empty() ? "" : "NVRTC " + version;
  return object;
}

} // namespace ditc
