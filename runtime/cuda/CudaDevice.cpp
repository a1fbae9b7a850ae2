// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/CudaDevice.h"

#include "runtime/Error.h"
#include "runtime/cuda/CudaQueue.h"

namespace ditc {

using Current = CudaContext::Current;

/// A queue that is on the device's list as long as it lives.
class CudaDevice::RegisteredQueue : public CudaQueue {
public:
  RegisteredQueue(std::shared_ptr<CudaContext> context, bool graphs, std::shared_ptr<Registry> registry)
      : CudaQueue(std::move(context), graphs), registry(std::move(registry)) {
    std::lock_guard lock(this->registry->mutex);
    this->registry->queues.insert(this);
  }
  ~RegisteredQueue() override {
    std::lock_guard lock(registry->mutex);
    registry->queues.erase(this);
  }

private:
  std::shared_ptr<Registry> registry;
};

CudaDevice::CudaDevice(int ordinal, const Package &package, const DeviceOptions &options)
    : package(package), options(options), context(std::make_shared<CudaContext>(ordinal)),
      pool(context, options.memoryBudget), deviceName(fmt::format("cuda:{}", ordinal)) {
  cuda::ComputeCapability gpu{context->attribute(cuda::DeviceAttribute::ComputeCapabilityMajor),
                              context->attribute(cuda::DeviceAttribute::ComputeCapabilityMinor)};
  multiprocessors = static_cast<uint32_t>(context->attribute(cuda::DeviceAttribute::MultiprocessorCount));
  const ManifestTarget &target = cuda::chooseTarget(package.manifest(), package.path(), gpu, options.jit);
  targetName = target.name;
  readKernelFile(target);
}

CudaDevice::~CudaDevice() {
  try {
    Current current(*context);
    loadedBlas = nullptr;
    for (const auto &[member, module] : modules)
      context->driver.moduleUnload(module);
  } catch (const Error &) { // the process is ending and the driver has gone
  }
}

void CudaDevice::readKernelFile(const ManifestTarget &target) {
  if (target.object.empty())
    fail("'{}': target '{}' names no kernels; the package is damaged, compile again", package.path(), target.name);
  kernelFileName = fmt::format("{}: {}", package.path(), target.object);
  kernelFile = cuda::parseKernelFile(package.text(target.object), kernelFileName);
  if (kernelFile.arch != cuda::architectureOf(target.name))
    fail("'{}' is for '{}', expected '{}'; the package is damaged, compile again", kernelFileName, kernelFile.arch,
         target.name);
  int version = context->driver.version();
  if (version < kernelFile.lowestDriver)
    fail("'{}' needs a driver for CUDA {}.{}, this one supports CUDA {}.{}; update the NVIDIA driver, or compile the "
         "package with an older NVRTC",
         package.path(), kernelFile.lowestDriver / 1000, kernelFile.lowestDriver % 1000 / 10, version / 1000,
         version % 1000 / 10);
}

cuda::Function CudaDevice::loadFunction(const cuda::KernelImage &image) {
  const cuda::Driver &driver = context->driver;
  cuda::Module &module = modules[image.image];
  if (!module) {
    // A copy for the zero at the end that portable code, which is text, needs.
    std::string bytes(package.text(image.image));
    driver.check(driver.moduleLoadData(&module, bytes.c_str()), fmt::format("loading '{}'", image.image));
  }
  cuda::Function function = nullptr;
  driver.check(driver.moduleGetFunction(&function, module, image.name.c_str()),
               fmt::format("finding the kernel '{}' in '{}'", image.name, image.image));
  int most = context->attribute(cuda::DeviceAttribute::MaxSharedMemoryPerBlockOptin);
  if (image.launch.sharedBytes > static_cast<uint32_t>(most))
    fail("kernel '{}' needs {} bytes of shared memory, this GPU has {}; compile the package for this GPU", image.name,
         image.launch.sharedBytes, most);
  driver.check(driver.funcSetAttribute(function, cuda::FunctionAttribute::MaxDynamicSharedSizeBytes,
                                       static_cast<int>(image.launch.sharedBytes)),
               fmt::format("reserving shared memory for the kernel '{}'", image.name));
  checkParameters(image, function);
  return function;
}

/// The kernel file and the image are two members: the driver reads as many parameters as the image has.
void CudaDevice::checkParameters(const cuda::KernelImage &image, cuda::Function function) const {
  const cuda::Driver &driver = context->driver;
  if (!driver.funcGetParamInfo)
    return;
  std::vector<size_t> sizes;
  size_t offset = 0, bytes = 0;
  while (sizes.size() <= image.parameters.size() &&
         driver.funcGetParamInfo(function, sizes.size(), &offset, &bytes) == cuda::kSuccess)
    sizes.push_back(bytes);
  bool fits = sizes.size() == image.parameters.size();
  for (size_t i = 0; fits && i < sizes.size(); ++i)
    fits = sizes[i] <= image.parameters[i].bytes.size();
  if (!fits)
    fail("'{}' gives the kernel '{}' {} parameters, its code in '{}' has {}, or larger ones; the package is damaged, "
         "compile again",
         kernelFileName, image.name, image.parameters.size(), image.image,
         sizes.size() > image.parameters.size() ? "more" : std::to_string(sizes.size()));
}

CudaLoader::Kernel CudaDevice::kernel(const std::string &name) {
  Kernel &loaded = kernels[name];
  if (loaded.function)
    return loaded;
  const cuda::KernelImage *image = kernelFile.find(name);
  if (!image)
    fail("'{}' has no kernel '{}', which the plan calls; the package is damaged, compile again", kernelFileName, name);
  if (!package.has(image->image))
    fail("'{}' has no member '{}' with the kernel '{}'; the package is damaged, compile again", package.path(),
         image->image, name);
  return loaded = {image, loadFunction(*image), cuda::gridX(image->launch, multiprocessors)};
}

std::shared_ptr<cuda::CublasLt> CudaDevice::blas() {
  if (!loadedBlas)
    loadedBlas = cuda::CublasLt::load();
  return loadedBlas;
}

std::unique_ptr<Executable> CudaDevice::load(const Plan &plan) {
  std::lock_guard lock(mutex);
  Current current(*context);
  CudaLoader &loader = *this;
  return std::make_unique<CudaExecutable>(plan, package.path(), loader);
}

std::unique_ptr<Queue> CudaDevice::openQueue() {
  return std::make_unique<RegisteredQueue>(context, options.graphs, registry);
}

void CudaDevice::waitForQueues() {
  std::lock_guard lock(registry->mutex);
  for (const CudaQueue *queue : registry->queues)
    queue->waitForLast();
}

} // namespace ditc
