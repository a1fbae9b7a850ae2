// SPDX-License-Identifier: Apache-2.0
#include "compiler/CoreCache.h"

#include "codegen/cuda/CudaTarget.h"
#include "codegen/cuda/Images.h"
#include "codegen/host/Machine.h"
#include "compiler/Version.h"
#include "runtime/Hash.h"
#include "runtime/MappedFile.h"

#include <fmt/ranges.h>

using namespace mlir;

namespace ditc {

/// For the NVRTC of that version; with none, for whichever made the latest package of the kind.
static std::string cacheKey(const CompileOptions &options, const CompileInputs &inputs, const TuningChoice &tuning, const std::string &nvrtc) {
  // The program itself is part of the key: another build may emit other code under the same version.
  std::string text = fmt::format("{}\n{}\n{}\n", kVersion, hashHex(MappedFile::open("/proc/self/exe")->bytes()), options.digest());
  text += fmt::format("nvrtc {}\n", nvrtc);
  text += tuning.key; // the shipped database is part of the program
  for (const Model &model : inputs.models)
    text += model.archive.contentHash() + "\n";
  for (const auto &[name, tensor] : inputs.pinned)
    text += fmt::format("{} {} [{}] {}\n", name, nameOf(tensor.dtype), fmt::join(tensor.shape, ","), hashHex(tensor.bytes));
  if (options.hostCpu == "native") { // another processor on the machine to which the cache is copied
    llvm::Expected<MachineName> machine = resolveMachine(options.hostCpu);
    text += machine ? machine->cpu + " " + machine->features : llvm::toString(machine.takeError());
  }
  return hashHex(text);
}

CorePackage loadOrCompile(CompileState &state, const CompileInputs &inputs, const TuningChoice &tuning, const std::function<CorePackage()> &compile) {
  if (!state.options.useCache || !state.options.dumpDirectory.empty())
    return compile();
  Cache cache;
  auto key = [&](const std::string &nvrtc) { return cacheKey(state.options, inputs, tuning, nvrtc); };
  bool hasCuda = llvm::any_of(state.options.targets, [](const std::string &target) { return parseCudaArch(target).has_value(); });
  std::string nvrtc = hasCuda ? nvrtcVersion() : "";
  const std::string own = key(nvrtc); // a hash of the whole program and of all archives
  std::optional<std::vector<uint8_t>> cached = cache.load(own);
  if (cached && hasCuda && nvrtc.empty()) // a copied cache on a machine without NVRTC: the entry is another one's key
    cached = cache.load(std::string(cached->begin(), cached->end()));
  state.result.fromCache = cached.has_value();
  CorePackage core = cached ? CorePackage::parse(*cached) : compile();
  if (!cached) {
    cache.store(own, core.serialise());
    if (!nvrtc.empty())
      cache.store(key(""), llvm::arrayRefFromStringRef(own));
  }
  state.takeWarnings(cache);
  return core;
}

} // namespace ditc
