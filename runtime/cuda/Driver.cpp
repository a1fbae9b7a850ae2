// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/Driver.h"

#include "runtime/Error.h"

#include <cstdlib>
#include <dlfcn.h>

namespace ditc::cuda {
namespace {

/// Tensor maps and cluster launches came with CUDA 12.0.
constexpr int kOldestVersion = 12000;

template <typename Function>
void resolve(void *library, const char *symbol, Function &function) {
  function = reinterpret_cast<Function>(dlsym(library, symbol));
  if (!function)
    fail("the CUDA driver has no function '{}'; a driver for CUDA 12.0 or newer (525 or newer) is needed", symbol);
}

template <typename Function>
void resolveOptional(void *library, const char *symbol, Function &function) {
  function = reinterpret_cast<Function>(dlsym(library, symbol));
}

void *load() {
  if (const char *chosen = std::getenv("DITC_CUDA_DRIVER"); chosen && *chosen) {
    if (void *library = dlopen(chosen, RTLD_NOW | RTLD_LOCAL))
      return library;
    fail("the CUDA driver '{}' that DITC_CUDA_DRIVER names cannot be loaded: {}; name another one or unset "
         "DITC_CUDA_DRIVER",
         chosen, dlerror());
  }
  // Inside containers the driver's folder is mounted beside the loader's search path more often than in it.
  std::string tried;
  for (const char *name : {"libcuda.so.1", "/usr/local/nvidia/lib64/libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1"}) {
    if (void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL))
      return library;
    tried += fmt::format("\n  {}", dlerror());
  }
  fail("no CUDA driver on this machine: libcuda.so.1, which the NVIDIA driver installs, was not found; run on a machine "
       "with an NVIDIA GPU, or use the device 'host'; tried:{}",
       tried);
}

} // namespace

Driver::Driver() {
  void *library = load(); // never unloaded: it keeps threads of its own
  resolve(library, "cuInit", init);
  resolve(library, "cuDriverGetVersion", driverGetVersion);
  resolve(library, "cuGetErrorName", getErrorName);
  resolve(library, "cuGetErrorString", getErrorString);

  resolve(library, "cuDeviceGetCount", deviceGetCount);
  resolve(library, "cuDeviceGet", deviceGet);
  resolve(library, "cuDeviceGetName", deviceGetName);
  resolve(library, "cuDeviceGetAttribute", deviceGetAttribute);
  resolve(library, "cuDeviceTotalMem_v2", deviceTotalMem);
  resolve(library, "cuDevicePrimaryCtxRetain", devicePrimaryCtxRetain);
  resolve(library, "cuDevicePrimaryCtxRelease_v2", devicePrimaryCtxRelease);
  resolve(library, "cuCtxSetCurrent", ctxSetCurrent);
  resolve(library, "cuCtxGetCurrent", ctxGetCurrent);

  resolve(library, "cuModuleLoadData", moduleLoadData);
  resolve(library, "cuModuleUnload", moduleUnload);
  resolve(library, "cuModuleGetFunction", moduleGetFunction);
  resolve(library, "cuFuncSetAttribute", funcSetAttribute);
  resolve(library, "cuFuncGetAttribute", funcGetAttribute);
  resolve(library, "cuLaunchKernelEx", launchKernelEx);

  resolve(library, "cuMemGetInfo_v2", memGetInfo);
  resolve(library, "cuMemAlloc_v2", memAlloc);
  resolve(library, "cuMemFree_v2", memFree);
  resolve(library, "cuMemcpyHtoDAsync_v2", memcpyHtoDAsync);
  resolve(library, "cuMemcpyDtoHAsync_v2", memcpyDtoHAsync);
  resolve(library, "cuMemcpyDtoDAsync_v2", memcpyDtoDAsync);
  resolve(library, "cuMemsetD8Async", memsetD8Async);

  resolve(library, "cuStreamCreate", streamCreate);
  resolve(library, "cuStreamDestroy_v2", streamDestroy);
  resolve(library, "cuStreamSynchronize", streamSynchronize);
  resolve(library, "cuStreamWaitEvent", streamWaitEvent);
  resolve(library, "cuEventCreate", eventCreate);
  resolve(library, "cuEventDestroy_v2", eventDestroy);
  resolve(library, "cuEventRecord", eventRecord);
  resolve(library, "cuEventSynchronize", eventSynchronize);
  resolve(library, "cuEventElapsedTime", eventElapsedTime);

  resolve(library, "cuStreamBeginCapture_v2", streamBeginCapture);
  resolve(library, "cuStreamEndCapture", streamEndCapture);
  resolve(library, "cuGraphInstantiateWithFlags", graphInstantiate);
  resolve(library, "cuGraphLaunch", graphLaunch);
  resolve(library, "cuGraphExecDestroy", graphExecDestroy);
  resolve(library, "cuGraphDestroy", graphDestroy);

  resolveOptional(library, "cuGraphExecUpdate_v2", graphExecUpdate);
  resolveOptional(library, "cuEventRecordWithFlags", eventRecordWithFlags);
  resolveOptional(library, "cuStreamIsCapturing", streamIsCapturing);
  resolveOptional(library, "cuEventQuery", eventQuery);
  resolveOptional(library, "cuMemHostAlloc", memHostAlloc);
  resolveOptional(library, "cuMemFreeHost", memFreeHost);
  resolveOptional(library, "cuPointerGetAttribute", pointerGetAttribute);
  resolveOptional(library, "cuFuncGetParamInfo", funcGetParamInfo); // from 12.4 on

  resolve(library, "cuTensorMapEncodeTiled", tensorMapEncodeTiled);

  check(init(0), "starting the CUDA driver");
  check(driverGetVersion(&driverVersion), "asking the CUDA driver for its version");
  if (driverVersion < kOldestVersion)
    fail("the CUDA driver supports CUDA {}.{}; ditc needs 12.0 or newer (driver 525 or newer)", driverVersion / 1000,
         driverVersion % 1000 / 10);
}

const Driver &Driver::get() {
  static const Driver driver; // a failed attempt throws and is made again at the next call
  return driver;
}

bool Driver::available(std::string *whyNot) {
  try {
    get();
    return true;
  } catch (const Error &error) {
    if (whyNot)
      *whyNot = error.what();
    return false;
  }
}

void Driver::check(Result result, const std::string &what) const {
  if (result == kSuccess)
    return;
  const char *name = nullptr, *text = nullptr;
  getErrorName(result, &name);
  getErrorString(result, &text);
  fail("{}: {} ({})", what, text ? text : "unknown error of the CUDA driver", name ? name : std::to_string(result));
}

} // namespace ditc::cuda
