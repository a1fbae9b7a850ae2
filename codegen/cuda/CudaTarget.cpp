// SPDX-License-Identifier: Apache-2.0
//
// Units are emitted one after the other, since MLIR is used there, and compiled by as many threads as there are cores.
#include "codegen/cuda/CudaTarget.h"

#include "codegen/cuda/Images.h"
#include "codegen/cuda/conv/MmaConv.h"
#include "codegen/cuda/families/Families.h"
#include "codegen/cuda/gemm/MmaGemm.h"
#include "codegen/cuda/rowwise/Rowwise.h"
#include "codegen/cuda/sm90/AttentionProblem.h"
#include "codegen/cuda/sm90/GemmTiles.h"
#include "codegen/cuda/sm90/Hopper.h"
#include "codegen/cuda/tuning/TunedTiles.h"
#include "dialects/Locations.h"
#include "dialects/dit/Tensors.h"
#include "dialects/fusion/Cost.h"
#include "runtime/cuda/Target.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace ditc {

namespace {

std::string bannerOf(plan::KernelOp kernel, const CudaArch &arch) {
  NodeName name = nameOf(kernel.getLoc());
  return fmt::format("// {} for {}\n// first used by {}\n", kernel.getSymName().str(), arch.name, writeNodeName(name));
}

} // namespace

std::vector<std::string> cudaArchNames() { return {std::begin(cuda::kTargets), std::end(cuda::kTargets)}; }

std::optional<CudaArch> parseCudaArch(std::string_view name) {
  if (!llvm::is_contained(cudaArchNames(), name))
    return std::nullopt;
  std::string architecture = cuda::architectureOf(name); // "sm_90a", "compute_80"
  return CudaArch{architecture, std::stoi(architecture.substr(architecture.find('_') + 1))};
}

/// Hopper's own template where it can read the operands.
static FailureOr<CudaUnit> emitBestAttention(plan::KernelOp kernel, const CudaArch &arch) {
  return arch.hasWgmma() && acceptsHopperAttention(kernel) ? emitHopperAttention(kernel) : emitAttention(kernel, arch);
}

static FailureOr<CudaUnit> emitPackedMask(plan::KernelOp kernel, const CudaArch &) { return emitMaskPack(kernel); }

static FailureOr<CudaUnit> emitJudgedMask(plan::KernelOp kernel, const CudaArch &) { return emitMaskJudge(kernel); }

static FailureOr<CudaUnit> emitSurvey(plan::KernelOp kernel, const CudaArch &) { return emitAttentionSurvey(kernel); }

static FailureOr<CudaUnit> emitQuantize(plan::KernelOp kernel, const CudaArch &) { return emitAttentionQuantize(kernel); }

static FailureOr<CudaUnit> emitGemm(plan::KernelOp kernel, const CudaArch &arch) {
  FailureOr<std::unique_ptr<GemmTuning>> gemm = GemmTuning::read(kernel, arch);
  return failed(gemm) ? FailureOr<CudaUnit>(failure()) : (*gemm)->emit((*gemm)->modelTiles());
}

CudaEmitter cudaEmitterOf(StringRef family) {
  return llvm::StringSwitch<CudaEmitter>(family)
      .Case("rowwise", emitRowwise)
      .Case("attention", emitBestAttention)
      .Case("mask_pack", emitPackedMask)
      .Case("mask_judge", emitJudgedMask)
      .Case("attention_survey", emitSurvey)
      .Case("attention_quantize", emitQuantize)
      .Case("gemm", emitGemm)
      .Case("gemv", emitGemv)
      .Case("conv", emitBestConv)
      .Case("channels_last", emitChannelsLast)
      .Case("matmul", emitMatmul)
      .Case("linear_state", emitLinearState)
      .Case("linear_apply", emitLinearApply)
      .Case("arg_reduce", emitArgReduce)
      .Case("scan", emitScan)
      .Case("sort", emitSort)
      .Case("scatter", emitScatter)
      .Default(nullptr);
}

namespace {

/// What a library's products take on an H200 (tests/bench/results): a launch, or two where K is split, and so many times the
/// roofline. That holds for few tiles with much K, too, which it cuts into more pieces than Hopper's kernel.
constexpr double kLibraryMicroseconds = 7, kLibraryRooflines = 1.5;

bool isNoSlowerThanLibrary(dit::FusionOp products) {
  llvm::MapVector<Value, GemmSize> byInput;
  for (dit::MatmulOp op : products.getBodyBlock().getOps<dit::MatmulOp>()) {
    ArrayRef<int64_t> left = cast<RankedTensorType>(op.getLhs().getType()).getShape(), result = cast<RankedTensorType>(op.getResult().getType()).getShape();
    GemmSize &size = byInput[op.getLhs()];
    size = {1, ShapedType::getNumElements(result.drop_back()), size.columns + result.back(), left.back()};
  }
  SmallVector<GemmSize> sizes = llvm::map_to_vector(byInput, [](auto &entry) { return entry.second; });
  return gemmMicroseconds(sizes, {}) <= kLibraryMicroseconds + kLibraryRooflines * 1e6 * rooflineSeconds(workOf(products), *findGpu("H200"));
}

/// What a product multiplies in fp8; null when none does.
Value fp8Operand(dit::FusionOp fusion) {
  for (dit::MatmulOp op : fusion.getBodyBlock().getOps<dit::MatmulOp>())
    if (is8BitFloat(elementOf(op.getLhs())))
      return op.getLhs();
  return {};
}

/// What may be one launch today.
class CudaTargetKernels : public TargetKernels {
public:
  CudaTargetKernels(const CudaArch &arch, bool keepRoundings) : arch(arch), keepRoundings(keepRoundings) {}

  Verdict takes(dit::FusionOp fusion) const override {
    if (fusion.getFamily() == "rowwise")
      return acceptsRowwise(fusion.getBodyBlock());
    if (fusion.getFamily() == "gemv") {
      bool productsAlone = llvm::all_of(fusion.getBodyBlock().without_terminator(), llvm::IsaPred<dit::MatmulOp>);
      return keepRoundings && !productsAlone ? Verdict{Reason::KeepsRoundings} : acceptsGemv(fusion);
    }
    if (fusion.getFamily() == "gemm" && !arch.multipliesFp8())
      if (Value narrow = fp8Operand(fusion))
        return {Reason::TypeUnsupported, narrow};
    if (fusion.getFamily() == "gemm")
      return keepRoundings ? Verdict{Reason::KeepsRoundings} : acceptsGemm(fusion, residualBy());
    return {Reason::NoSlot, fusion.getNumOperands() > 0 ? fusion.getOperand(0) : Value()};
  }

  bool prefersToLibrary(dit::FusionOp fusion) const override { return arch.hasWgmma() && isNoSlowerThanLibrary(fusion); }

  bool joiningPays(size_t count, int64_t weightBytes) const override { return isWorthHolding(kLibraryMicroseconds * static_cast<double>(count - 1), weightBytes); }

  bool takesLayouts(dit::FusionOp fusion, ArrayRef<MemRefType> types) const override {
    return fusion.getFamily() != "gemm" || acceptsGemm(fusion, types, residualBy());
  }

  Verdict takesFast(plan::KernelOp attention) const override { return arch.hasWgmma() ? hopperAttentionVerdict(attention) : mmaAttentionVerdict(attention); }

  AttentionNeeds needsOf(plan::KernelOp attention) const override { return arch.hasWgmma() ? hopperAttentionNeeds(attention) : AttentionNeeds(); }

  ConvNeeds needsOfConv(plan::KernelOp convolution) const override { return convNeeds(convolution); }

private:
  ResidualBy residualBy() const { return arch.hasWgmma() ? ResidualBy::CopyEngine : ResidualBy::Loads; }

  CudaArch arch;
  bool keepRoundings;
};

} // namespace

std::shared_ptr<const TargetKernels> cudaTargetKernels(const CudaArch &arch, bool keepRoundings) { return std::make_shared<CudaTargetKernels>(arch, keepRoundings); }

/// A gemm gets the tiles that the database has for it, where they fit; any other kernel, and a gemm without an entry, what
/// its emitter chooses. `tiles` receives what a gemm got.
static FailureOr<CudaUnit> emitTuned(plan::KernelOp kernel, const CudaArch &arch, const CudaOptions &options, std::optional<ChosenTiles> &tiles) {
  CudaEmitter emitter = cudaEmitterOf(kernel.getFamily());
  if (!emitter)
    return kernel.emitError("the CUDA target has no kernels of family '") << kernel.getFamily() << "'";
  if (kernel.getFamily() != "gemm")
    return emitter(kernel, arch);
  FailureOr<std::unique_ptr<GemmTuning>> gemm = GemmTuning::read(kernel, arch);
  if (failed(gemm))
    return failure();
  tiles = chooseTiles(**gemm, options.tuning, options.tuningGpu);
  return (*gemm)->emit(tiles->tiles);
}

FailureOr<CudaObject> emitCuda(ModuleOp module, const CudaArch &arch, const CudaOptions &options) {
  CudaObject object;
  object.file.arch = arch.name;
  object.file.lowestDriver = lowestDriverOf(arch);
  std::vector<ImageJob> jobs;
  for (plan::KernelOp kernel : module.getOps<plan::KernelOp>()) {
    std::optional<ChosenTiles> tiles;
    FailureOr<CudaUnit> unit = emitTuned(kernel, arch, options, tiles);
    if (failed(unit))
      return failure();
    std::string name = kernel.getSymName().str(), suffix = arch.isPortable() ? ".ptx" : ".cubin";
    jobs.push_back(makeImageJob({.name = name, .family = kernel.getFamily().str(), .source = "", .image = {}, .bounds = unit->bounds, .tiles = std::move(tiles)}, bannerOf(kernel, arch), unit->text, arch));
    object.file.kernels.push_back({name, arch.name + "/" + name + suffix, unit->launch, unit->parameters, kernel.getNumArgs()});
  }
  if (!jobs.empty())
    compileImages(jobs, arch, options);
  for (ImageJob &job : jobs)
    object.kernels.push_back(std::move(job.kernel));
  std::string version = nvrtcVersion();
  object.compiler = version.empty() ? "" : "NVRTC " + version;
  return object;
}

} // namespace ditc
