// SPDX-License-Identifier: Apache-2.0
//
// Modules and launches of libfake_cuda.so: a module is a shared object that libfake_nvrtc.so has made.
#include "Engine.h"
#include "FakeDevice.h"
#include "LoadedUnit.h"

#include <cstring>

using namespace fake;
using namespace ditc::cuda;

namespace {

constexpr int kSharedWithoutOptIn = 48 << 10;

struct LoadedKernel {
  std::shared_ptr<emulator::LoadedUnit> unit;
  const emulator::KernelEntry *entry = nullptr;
  int maxDynamicShared = kSharedWithoutOptIn;

  int staticShared() const {
    const emulator::UnitTable &table = unit->table();
    return table.kernelCount == 1 ? static_cast<int>(table.sharedEnd - table.sharedBegin) : 0;
  }
};

struct LoadedModule {
  std::shared_ptr<emulator::LoadedUnit> unit;
  std::map<std::string, LoadedKernel> kernels;
};

bool isSet(const char *variable) {
  const char *value = getenv(variable);
  return value && *value;
}

LoadedModule *moduleOf(Module handle) { return reinterpret_cast<LoadedModule *>(handle); }
LoadedKernel *kernelOf(Function handle) { return reinterpret_cast<LoadedKernel *>(handle); }

/// Whether code for `arch` ("sm_80", "sm_90a", "compute_80") runs on the emulated GPU.
bool runsHere(const std::string &arch, const Properties &gpu) {
  bool portable = arch.rfind("compute_", 0) == 0;
  size_t digits = portable ? 8 : 3;
  int number = atoi(arch.c_str() + digits), here = gpu.major * 10 + gpu.minor;
  if (arch.back() == 'a')
    return number == here;
  return number <= here && (portable || number / 10 == gpu.major);
}

Result checkLaunch(const LaunchConfig &config, const LoadedKernel &kernel, const Properties &gpu) {
  if (static_cast<int>(config.sharedBytes) > kernel.maxDynamicShared ||
      static_cast<int>(config.sharedBytes) + kernel.staticShared() > gpu.sharedLimit())
    return InvalidValue;
  for (unsigned i = 0; i < config.attributeCount; ++i) {
    const LaunchAttribute &attribute = config.attributes[i];
    if (attribute.id != LaunchAttributeId::ClusterDimension)
      continue;
    const auto &cluster = attribute.clusterDimension;
    unsigned blocks = cluster.x * cluster.y * cluster.z;
    if (gpu.major < 9 || blocks == 0 || blocks > 8 || config.gridX % cluster.x || config.gridY % cluster.y ||
        config.gridZ % cluster.z)
      return InvalidValue;
  }
  return Success;
}

/// The kernel's parameters, copied when it is launched.
class ParameterCopy {
public:
  ParameterCopy(const emulator::KernelEntry &entry, void **parameters) {
    for (unsigned i = 0; i < entry.parameterCount; ++i) {
      size_t bytes = entry.parameterSizes[i];
      memory.emplace_back((bytes + sizeof(Piece) - 1) / sizeof(Piece));
      memcpy(memory.back().data(), parameters[i], bytes);
      pointers.push_back(memory.back().data());
    }
  }
  void **data() { return pointers.data(); }

private:
  struct alignas(128) Piece {
    char bytes[128];
  };
  std::vector<std::vector<Piece>> memory;
  std::vector<void *> pointers;
};

} // namespace

CUDA_EXPORT cuModuleLoadData(Module *module, const void *image) {
  State &state = State::get();
  std::lock_guard lock(state.mutex);
  if (Result result = state.ready())
    return result;
  if (Result result = state.notCapturing())
    return result;
  size_t bytes = image ? emulator::imageBytes(image) : 0;
  if (bytes == 0)
    return InvalidImage;
  try {
    auto unit = std::make_shared<emulator::LoadedUnit>(image, bytes);
    if (!runsHere(unit->table().arch, state.properties))
      return NoBinaryForGpu;
    auto *loaded = new LoadedModule{std::move(unit), {}};
    const emulator::UnitTable &table = loaded->unit->table();
    for (unsigned i = 0; i < table.kernelCount; ++i)
      loaded->kernels[table.kernels[i].name] = {loaded->unit, &table.kernels[i]};
    *module = reinterpret_cast<Module>(loaded);
    return Success;
  } catch (const std::exception &) { // a real cubin, for example
    return InvalidImage;
  }
}

CUDA_EXPORT cuModuleUnload(Module module) {
  State &state = State::get();
  std::lock_guard lock(state.mutex);
  Result result = state.drainAll();
  delete moduleOf(module); // graphs keep what they launch
  return result;
}

CUDA_EXPORT cuModuleGetFunction(Function *function, Module module, const char *name) {
  auto &kernels = moduleOf(module)->kernels;
  auto found = kernels.find(name);
  if (found == kernels.end())
    return NotFound;
  *function = reinterpret_cast<Function>(&found->second);
  return Success;
}

CUDA_EXPORT cuFuncSetAttribute(Function function, FunctionAttribute attribute, int value) {
  LoadedKernel *kernel = kernelOf(function);
  if (attribute != FunctionAttribute::MaxDynamicSharedSizeBytes || value < 0 ||
      value + kernel->staticShared() > State::get().properties.sharedLimit())
    return InvalidValue;
  kernel->maxDynamicShared = value;
  return Success;
}

CUDA_EXPORT cuFuncGetAttribute(int *value, FunctionAttribute attribute, Function function) {
  switch (attribute) {
  case FunctionAttribute::LocalSizeBytes:
    *value = 0;
    return Success;
  case FunctionAttribute::NumRegs:
    *value = 64;
    return Success;
  case FunctionAttribute::MaxDynamicSharedSizeBytes:
    *value = kernelOf(function)->maxDynamicShared;
    return Success;
  }
  return InvalidValue;
}

CUDA_EXPORT cuFuncGetParamInfo(Function function, size_t index, size_t *offset, size_t *bytes) {
  const emulator::KernelEntry &entry = *kernelOf(function)->entry;
  if (index >= entry.parameterCount)
    return InvalidValue;
  *offset = 0; // nobody asks
  *bytes = entry.parameterSizes[index];
  return Success;
}

CUDA_EXPORT cuLaunchKernelEx(const LaunchConfig *config, Function function, void **parameters, void **extra) {
  State &state = State::get();
  std::lock_guard lock(state.mutex);
  if (Result result = state.ready())
    return result;
  const LoadedKernel &kernel = *kernelOf(function);
  fake::Stream *stream = state.streamOf(config->stream);
  if (!stream)
    return InvalidHandle;
  if (extra || (kernel.entry->parameterCount && !parameters))
    return InvalidValue;
  if (Result result = checkLaunch(*config, kernel, state.properties))
    return result;
  emulator::LaunchGeometry geometry{{config->gridX, config->gridY, config->gridZ},
                                    {config->blockX, config->blockY, config->blockZ},
                                    config->sharedBytes,
                                    isSet("FAKE_CUDA_REVERSE")};
  try {
    emulator::checkLaunch(kernel.unit->table(), *kernel.entry, geometry);
  } catch (const emulator::LaunchError &) {
    return InvalidValue;
  }
  auto copy = std::make_shared<ParameterCopy>(*kernel.entry, parameters);
  auto run = [&state, unit = kernel.unit, entry = kernel.entry, geometry, copy] {
    try {
      emulator::runKernel(unit->table(), *entry, geometry, copy->data());
      return fake::Result(Success);
    } catch (const emulator::LaunchError &error) {
      return state.fail(LaunchFailed, std::string("unspecified launch failure: ") + error.what());
    }
  };
  return state.enqueue(stream, {std::string("kernel ") + kernel.entry->name, run});
}
