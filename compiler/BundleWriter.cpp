// SPDX-License-Identifier: Apache-2.0
//
// Sizes are parameters of the gemm templates, so products of different sizes with one epilogue share their images: units
// are compared without the names of the kernels that they were made for.
#include "compiler/BundleWriter.h"

#include "codegen/cuda/Images.h"
#include "codegen/cuda/tuning/TunedTiles.h"
#include "compiler/PlanWriter.h"
#include "dialects/dit/Tensors.h"
#include "runtime/Error.h"
#include "runtime/Hash.h"
#include "runtime/Zip.h"
#include "runtime/tuning/Bundle.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>
#include <set>

using namespace mlir;

namespace ditc {

namespace {

constexpr const char *kEntry = "gemm";

constexpr const char *kToolsUnit = R"(#include "tuning_tools.cuh"
using namespace ditc;

extern "C" __global__ void tuning_fill(void *out, u64 count, u32 kind, u32 seed, float scale) {
  tuning_tools::fill(out, count, kind, seed, scale);
}

extern "C" __global__ void tuning_compare(const void *a, const void *b, double *parts, u64 count, u32 kind) {
  tuning_tools::compare(a, b, parts, count, kind);
}
)";

/// Without the comments above the code, and with one name for all kernels.
std::string neutralText(std::string text, const std::string &symbol) {
  for (size_t at = text.find("// "); at != std::string::npos && at < text.find("using Element"); at = text.find("// "))
    text.erase(at, text.find('\n', at) + 1 - at);
  for (size_t at = text.find(symbol); at != std::string::npos; at = text.find(symbol, at))
    text.replace(at, symbol.size(), kEntry);
  return text;
}

/// Bytes from element 0 to the end of the last one.
uint64_t extentOf(MemRefType type) {
  int64_t last = 0;
  for (auto [size, stride] : llvm::zip(type.getShape(), plan::layoutOf(type).strides))
    last += (size - 1) * stride;
  return static_cast<uint64_t>(last + 1) * byteSize(dtypeOf(type.getElementType()));
}

class BundleWriter {
public:
  BundleWriter(const CudaArch &arch, const CudaOptions &options, const BundleContent &content) : arch(arch), options(options), content(content) {}

  /// Adds a kernel, or counts its launches for one that is tuned like it.
  LogicalResult add(plan::KernelOp kernel, uint32_t launches) {
    FailureOr<std::unique_ptr<GemmTuning>> gemm = GemmTuning::read(kernel, arch);
    if (failed(gemm))
      return failure();
    tuning::Key key = (*gemm)->key();
    if (auto known = jobs.find(key); known != jobs.end()) {
      known->second.launches += launches;
      return success();
    }
    if (content.missingOnly && !chooseTiles(**gemm, options.tuning, options.tuningGpu).gpu.empty()) {
      measuredBefore.insert(key);
      return success();
    }
    tuning::Job job{.key = key, .where = describeLocation(kernel.getLoc()), .launches = launches, .arguments = argumentsOf(kernel, (*gemm)->gemm()), .products = {}, .candidates = {}};
    for (const GemmSize &size : (*gemm)->gemm().sizes)
      job.products.push_back({size.batches * size.rows, size.columns, size.k});
    size_t number = jobs.size();
    for (const tuning::Tiles &tiles : (*gemm)->candidates(content.candidates)) {
      FailureOr<CudaUnit> unit = (*gemm)->emit(tiles);
      if (failed(unit))
        return failure();
      std::string name = fmt::format("gemm{}_{}", number, job.candidates.size());
      file.kernels.push_back({name, imageOf(neutralText(unit->text, kernel.getSymName().str())), unit->launch, unit->parameters, kernel.getNumArgs()});
      job.candidates.push_back({name, kEntry, tiles});
    }
    jobs[key] = std::move(job);
    return success();
  }

  BundleSummary write(const std::string &producer, const std::string &path) {
    if (jobs.empty() && !measuredBefore.empty())
      fail("--tuning-missing-only: nothing is missing, all {} gemm kernels have measured tiles; leave the option out to measure them again", measuredBefore.size());
    addTools();
    compileImages(images, arch, options);
    file.arch = arch.name;
    file.lowestDriver = lowestDriverOf(arch);
    BundleSummary summary;
    summary.measuredBefore = measuredBefore.size();
    tuning::Bundle bundle{producer, arch.name, {}};
    for (auto &[key, job] : jobs) {
      dropSpilling(job, summary);
      summary.candidates += job.candidates.size();
      bundle.jobs.push_back(std::move(job));
    }
    llvm::stable_sort(bundle.jobs, [](const tuning::Job &a, const tuning::Job &b) { return a.flop() * a.launches > b.flop() * b.launches; });
    writeFile(bundle, path, summary);
    summary.kernels = bundle.jobs.size();
    return summary;
  }

private:
  std::vector<tuning::Argument> argumentsOf(plan::KernelOp kernel, const GemmKernel &gemm) const {
    std::set<unsigned> weights;
    for (const TileProblem &problem : gemm.program.problems)
      for (const TileWeight &weight : problem.weights)
        weights.insert(weight.argument);
    unsigned outputs = gemm.program.body->getTerminator()->getNumOperands();
    std::vector<tuning::Argument> arguments;
    for (unsigned i = 0; i < kernel.getNumArgs(); ++i) {
      MemRefType type = kernel.getArgType(i);
      // Products of about unit variance, as a model's are; quantised rows, whose largest of some thousands is 448.
      double scale = is8BitFloat(type.getElementType()) ? 112 : weights.count(i) ? 1 / std::sqrt(static_cast<double>(type.getShape().back())) : 1;
      arguments.push_back({dtypeOf(type.getElementType()), extentOf(type), i + outputs >= kernel.getNumArgs(), scale});
    }
    return arguments;
  }

  /// The package member with the unit's image.
  std::string imageOf(const std::string &unit) {
    auto [entry, isNew] = members.try_emplace(unit, "");
    if (isNew) {
      entry->second = fmt::format("{}/{}{}", arch.name, hashHex(unit), arch.isPortable() ? ".ptx" : ".cubin");
      imageNames.push_back(entry->second);
      images.push_back(makeImageJob({.name = kEntry, .family = "gemm", .source = "", .image = {}}, "", unit, arch));
    }
    return entry->second;
  }

  void addTools() {
    std::string image = imageOf(kToolsUnit);
    for (auto [name, args] : {std::pair(tuning::kFillKernel, 1u), std::pair(tuning::kCompareKernel, 3u)})
      file.kernels.push_back({name, image, {.threads = 256}, {}, args});
  }

  /// What spills many registers is slow, and would only take time to measure. So many as the model's own choice may spill.
  void dropSpilling(tuning::Job &job, BundleSummary &summary) {
    std::map<std::string, int> spilled; // by member
    for (auto [member, image] : llvm::zip(imageNames, images))
      spilled[member] = image.kernel.spillBytes;
    auto bytesOf = [&](const tuning::Candidate &candidate) { return spilled[file.find(candidate.kernel)->image]; };
    constexpr int kFewBytes = 64;
    int most = std::max(kFewBytes, bytesOf(job.candidates.front()));
    auto spills = [&](const tuning::Candidate &candidate) {
      int bytes = bytesOf(candidate);
      if (bytes <= most)
        return false;
      summary.notes.push_back(fmt::format("{}: {} is left out, it spills {} bytes of registers", job.key.text(), tuning::textOf(candidate.tiles), bytes));
      return true;
    };
    std::set<std::string> dropped;
    for (const tuning::Candidate &candidate : job.candidates)
      if (spills(candidate))
        dropped.insert(candidate.kernel);
    auto isDropped = [&](const auto &each) { return dropped.count(each) > 0; };
    llvm::erase_if(job.candidates, [&](const tuning::Candidate &candidate) { return isDropped(candidate.kernel); });
    llvm::erase_if(file.kernels, [&](const cuda::KernelImage &kernel) { return isDropped(kernel.name); });
  }

  void writeFile(const tuning::Bundle &bundle, const std::string &path, BundleSummary &summary) const {
    std::set<std::string> used;
    for (const cuda::KernelImage &kernel : file.kernels)
      used.insert(kernel.image);
    ZipWriter writer(path);
    writer.add("bundle.json", tuning::writeBundle(bundle));
    writer.add(arch.name + "/kernels.json", cuda::writeKernelFile(file));
    for (auto [member, image] : llvm::zip(imageNames, images))
      if (used.count(member)) {
        writer.add(member, image.kernel.image);
        ++summary.images;
      }
    writer.finish();
  }

  const CudaArch &arch;
  const CudaOptions &options;
  const BundleContent &content;
  std::map<tuning::Key, tuning::Job> jobs;
  std::set<tuning::Key> measuredBefore;
  cuda::KernelFile file;
  std::map<std::string, std::string> members; ///< unit -> member
  std::vector<std::string> imageNames;        ///< members in the order of `images`
  std::vector<ImageJob> images;
};

} // namespace

FailureOr<BundleSummary> writeTuningBundle(ModuleOp module, const std::map<std::string, uint32_t> &launches, const CudaArch &arch, const CudaOptions &options, const BundleContent &content,
                                           const std::string &producer, const std::string &path) {
  BundleWriter writer(arch, options, content);
  for (plan::KernelOp kernel : module.getOps<plan::KernelOp>()) {
    auto count = launches.find(kernel.getSymName().str());
    if (kernel.getFamily() == "gemm" && failed(writer.add(kernel, count == launches.end() ? 1 : count->second)))
      return failure();
  }
  return writer.write(producer, path);
}

} // namespace ditc
