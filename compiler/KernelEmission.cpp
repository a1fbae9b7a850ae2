// SPDX-License-Identifier: Apache-2.0
#include "compiler/KernelEmission.h"

#include "codegen/host/HostTarget.h"
#include "compiler/Dump.h"

#include <fmt/format.h>

using namespace mlir;

namespace ditc {

void emitHostKernels(CompileState &state, ModuleOp kernels, CorePackage &core) {
  state.progress.step("emit kernels for the host");
  DiagnosticText diagnostics(state);
  HostOptions hostOptions;
  hostOptions.cpu = state.options.hostCpu;
  FailureOr<HostObject> object = emitHost(kernels, hostOptions);
  if (failed(object))
    diagnostics.fail("the host target failed");
  core.manifest.targets.push_back(
      {.name = "host", .object = "host/kernels.so", .triple = object->triple, .cpu = object->cpu, .instructionSets = object->instructionSets});
  core.add("host/kernels.so", object->sharedObject);
  if (!state.options.dumpDirectory.empty())
    dumpKernels(kernels, state.options.dumpDirectory, hostOptions);
}

CudaOptions cudaOptions(const CompileState &state, const TuningChoice &tuning, std::optional<Cache> &cache) {
  CudaOptions cuda{.load = {},
                   .store = {},
                   .progress = [&progress = state.progress](size_t done, size_t total) { progress.part(done, total); },
                   .tuning = &tuning.database,
                   .tuningGpu = tuning.gpu};
  if (state.options.useCache) {
    cache.emplace();
    cuda.load = [&cache = *cache](const std::string &key) { return cache.load(key); };
    cuda.store = [&cache = *cache](const std::string &key, std::span<const uint8_t> bytes) { cache.store(key, bytes); };
  }
  return cuda;
}

static nlohmann::json describeTiles(const ChosenTiles &chosen) {
  nlohmann::json tiles = {
      {"key", chosen.key.text()}, {"text", tuning::textOf(chosen.tiles)}, {"fields", chosen.tiles}, {"from", chosen.gpu.empty() ? "model" : "measured"}};
  if (!chosen.gpu.empty())
    tiles["gpu"] = chosen.gpu;
  if (!chosen.note.empty())
    tiles["note"] = chosen.note;
  if (chosen.time)
    tiles["model_us"] = chosen.time->expected, tiles["roofline_us"] = chosen.time->roofline;
  return tiles;
}

void emitCudaKernels(CompileState &state, const TuningChoice &tuning, const std::string &target, ModuleOp kernels, CorePackage &core, Report &report) {
  state.progress.step("emit kernels for " + target);
  DiagnosticText diagnostics(state);
  std::optional<Cache> cache;
  CudaArch arch = *parseCudaArch(target);
  FailureOr<CudaObject> object = emitCuda(kernels, arch, cudaOptions(state, tuning, cache));
  if (failed(object))
    diagnostics.fail(fmt::format("target '{}' failed", target));
  std::string file = target + "/kernels.json";
  core.manifest.targets.push_back({.name = target, .object = file, .triple = "", .cpu = "", .instructionSets = {}});
  nlohmann::json resources = nlohmann::json::array();
  for (auto [image, kernel] : llvm::zip(object->file.kernels, object->kernels)) {
    core.add(image.image, kernel.image);
    core.add(fmt::format("{}/{}.cu", arch.name, kernel.name), kernel.source);
    resources.push_back({{"name", kernel.name},
                         {"family", kernel.family},
                         {"registers", kernel.registers},
                         {"shared_bytes", kernel.sharedBytes + image.launch.sharedBytes},
                         {"spill_bytes", kernel.spillBytes},
                         {"serializes_products", kernel.serializesProducts},
                         {"threads", image.launch.threads},
                         {"grid", image.launch.grid},
                         {"source", fmt::format("{}/{}.cu", arch.name, kernel.name)}});
    if (kernel.tiles)
      resources.back()["tiles"] = describeTiles(*kernel.tiles);
    if (kernel.tiles && kernel.tiles->time && kernel.tiles->time->isPoor())
      state.result.warnings.push_back(fmt::format("kernel {} of {} is far from what the GPU could do: the tiles' model expects {:.0f} us, its roofline time is {:.0f} us ({})", kernel.name, target,
                                                  kernel.tiles->time->expected, kernel.tiles->time->roofline, kernel.tiles->key.text()));
    if (kernel.spillBytes > 0)
      state.result.warnings.push_back(fmt::format("kernel {} of {} spills {} bytes of registers", kernel.name, target, kernel.spillBytes));
    if (kernel.serializesProducts)
      state.result.warnings.push_back(fmt::format("kernel {} of {} multiplies one product after another, as the assembler found no way to let them overlap", kernel.name, target));
  }
  core.add(file, writeKernelFile(object->file));
  report.addResources(target, std::move(resources));
  if (!state.options.dumpDirectory.empty())
    dumpCudaKernels(*object, kernels, state.options.dumpDirectory + "/" + target);
  if (cache)
    state.takeWarnings(*cache);
}

} // namespace ditc
