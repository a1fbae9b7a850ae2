// SPDX-License-Identifier: Apache-2.0
//
// The CUDA driver, found at run time: ditc runs without a GPU, and says what is missing where one is asked for.
//
//   const cuda::Driver &driver = cuda::Driver::get();
//   driver.check(driver.memAlloc(&pointer, bytes), "allocating the arena");
#pragma once

#include "runtime/cuda/DriverTypes.h"

#include <string>

namespace ditc::cuda {

/// One function pointer per function of libcuda that ditc calls, under its name without `cu` and version.
struct DriverFunctions {
  Result (*init)(unsigned);
  Result (*driverGetVersion)(int *);
  Result (*getErrorName)(Result, const char **);
  Result (*getErrorString)(Result, const char **);

  Result (*deviceGetCount)(int *);
  Result (*deviceGet)(Device *, int);
  Result (*deviceGetName)(char *, int, Device);
  Result (*deviceGetAttribute)(int *, DeviceAttribute, Device);
  Result (*deviceTotalMem)(size_t *, Device);
  Result (*devicePrimaryCtxRetain)(Context *, Device);
  Result (*devicePrimaryCtxRelease)(Device);
  Result (*ctxSetCurrent)(Context);
  Result (*ctxGetCurrent)(Context *);

  Result (*moduleLoadData)(Module *, const void *);
  Result (*moduleUnload)(Module);
  Result (*moduleGetFunction)(Function *, Module, const char *);
  Result (*funcSetAttribute)(Function, FunctionAttribute, int);
  Result (*funcGetAttribute)(int *, FunctionAttribute, Function);
  Result (*launchKernelEx)(const LaunchConfig *, Function, void **parameters, void **extra);

  Result (*memGetInfo)(size_t *free, size_t *total);
  Result (*memAlloc)(Pointer *, size_t);
  Result (*memFree)(Pointer);
  Result (*memcpyHtoDAsync)(Pointer, const void *, size_t, Stream);
  Result (*memcpyDtoHAsync)(void *, Pointer, size_t, Stream);
  Result (*memcpyDtoDAsync)(Pointer, Pointer, size_t, Stream);
  Result (*memsetD8Async)(Pointer, unsigned char, size_t, Stream);

  Result (*streamCreate)(Stream *, unsigned flags);
  Result (*streamDestroy)(Stream);
  Result (*streamSynchronize)(Stream);
  Result (*streamWaitEvent)(Stream, Event, unsigned flags);
  Result (*eventCreate)(Event *, unsigned flags);
  Result (*eventDestroy)(Event);
  Result (*eventRecord)(Event, Stream);
  Result (*eventSynchronize)(Event);
  Result (*eventElapsedTime)(float *milliseconds, Event, Event);

  Result (*streamBeginCapture)(Stream, int mode);
  Result (*streamEndCapture)(Stream, Graph *);
  Result (*graphInstantiate)(GraphExec *, Graph, unsigned long long flags);
  Result (*graphLaunch)(GraphExec, Stream);
  Result (*graphExecDestroy)(GraphExec);
  Result (*graphDestroy)(Graph);

  // Null in drivers that have not got them; callers do without.
  Result (*graphExecUpdate)(GraphExec, Graph, GraphUpdateInfo *);
  Result (*eventRecordWithFlags)(Event, Stream, unsigned flags);
  Result (*streamIsCapturing)(Stream, int *status);
  Result (*eventQuery)(Event);
  Result (*memHostAlloc)(void **, size_t, unsigned flags);
  Result (*memFreeHost)(void *);
  Result (*pointerGetAttribute)(void *value, int attribute, Pointer);
  Result (*funcGetParamInfo)(Function, size_t index, size_t *offset, size_t *bytes);

  Result (*tensorMapEncodeTiled)(TensorMap *, TensorMapType, uint32_t rank, void *address, const uint64_t *sizes,
                                 const uint64_t *strides, const uint32_t *box, const uint32_t *elementStrides,
                                 int interleave, TensorMapSwizzle, int l2Promotion, int fill);
};

/// The loaded driver, initialised, once per process. The environment variable DITC_CUDA_DRIVER names another file than
/// the system's libcuda.so.1.
class Driver : public DriverFunctions {
public:
  /// Throws an Error that says what is missing.
  static const Driver &get();
  /// The same as a question; `whyNot` receives the text of the error.
  static bool available(std::string *whyNot = nullptr);

  /// Throws an Error unless `result` is success: "<what>: <the driver's words> (<its code>)".
  void check(Result result, const std::string &what) const;

  /// CUDA version that the driver supports, 1000 · major + 10 · minor.
  int version() const { return driverVersion; }

private:
  Driver();
  int driverVersion = 0;
};

} // namespace ditc::cuda
