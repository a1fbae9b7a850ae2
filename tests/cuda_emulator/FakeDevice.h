// SPDX-License-Identifier: Apache-2.0
//
// What libfake_cuda.so keeps: one process's emulated GPUs. Work is queued in streams and done when somebody waits for
// it, so that a missing wait shows as wrong values, and errors of kernels come late, as on a GPU. Device memory is
// ordinary memory with unreadable pages around it.
//
// The environment describes the GPUs: FAKE_CUDA_CC (8.0), FAKE_CUDA_MEMORY (bytes, 4 GiB), FAKE_CUDA_DEVICES (1),
// FAKE_CUDA_SMS (4), FAKE_CUDA_DRIVER_VERSION (13000).
#pragma once

#include "runtime/cuda/DriverTypes.h"

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace fake {

using ditc::cuda::Pointer;
using Result = int; ///< CUresult

/// CUresult
enum : Result {
  Success = 0,
  InvalidValue = 1,
  OutOfMemory = 2,
  NotInitialized = 3,
  NoDevice = 100,
  InvalidDevice = 101,
  InvalidImage = 200,
  InvalidContext = 201,
  NoBinaryForGpu = 209,
  InvalidHandle = 400,
  NotFound = 500,
  NotReady = 600,
  LaunchFailed = 719,
  CaptureUnsupported = 900,
  CaptureInvalidated = 901,
  CaptureUnmatched = 903,
  CaptureUnjoined = 904,
  CapturedEvent = 907,
  CaptureWrongThread = 908,
  GraphUpdateFailure = 910,
};

/// Something that a stream does. `kind` tells operations apart when graphs are compared.
struct Operation {
  std::string kind;
  std::function<Result()> run;
};

struct Stream;
struct Capture {
  std::vector<Operation> operations;
  Stream *origin = nullptr;
  std::thread::id thread;
  int mode = 0;
  bool invalid = false;
  std::map<Stream *, bool> branches; ///< streams that joined by an event; whether the origin has waited for them
};

struct Stream {
  unsigned flags = 0;
  std::deque<Operation> queue;
  uint64_t submitted = 0, done = 0;
  std::shared_ptr<Capture> capture;
};

struct Event {
  unsigned flags = 0;
  Stream *stream = nullptr; ///< in which it was recorded last
  uint64_t position = 0;    ///< in that stream
  std::weak_ptr<Capture> capture;
  bool captured = false; ///< recorded in a capture, where it only orders
  bool inGraph = false;  ///< recorded by graphs, whenever they run
  double seconds = 0;    ///< when it came
};

struct Graph {
  std::vector<Operation> operations;
};

struct Context {
  int device = 0;
  int retained = 0;
};

struct Allocation {
  size_t bytes = 0;
  void *mapping = nullptr;
  size_t mappedBytes = 0;
  int device = 0;
};

struct Properties {
  int major = 8, minor = 0, devices = 1, multiprocessors = 4, driverVersion = 13000;
  size_t memory = size_t(4) << 30;
  static Properties fromEnvironment();
  /// Dynamic shared memory that a block may ask for.
  int sharedLimit() const;
};

class State {
public:
  static State &get();

  std::recursive_mutex mutex; ///< held by every function of the interface, also while work is done
  Properties properties = Properties::fromEnvironment();
  bool initialised = false;
  std::vector<Context> contexts;
  std::map<Pointer, Allocation> allocations;
  std::map<const char *, size_t> pinned; ///< memory of the host that copies read in the stream's order
  std::vector<size_t> used; ///< bytes, by device
  std::set<Stream *> streams;
  std::set<Event *> events;
  Result broken = Success; ///< after a kernel has failed everything fails, as on a GPU
  std::string failure;     ///< what it failed with

  /// Success, or why the calling thread cannot work now: not started, no current context, a kernel failed.
  Result ready() const;
  bool isDeviceRange(Pointer start, size_t bytes) const;
  /// For calls that are forbidden while the calling thread captures; spoils the capture.
  Result notCapturing();
  Result enqueue(Stream *stream, Operation operation);
  /// Does the stream's work up to a position.
  Result drain(Stream *stream, uint64_t position);
  Result drain(Stream *stream) { return drain(stream, stream->submitted); }
  Result drainAll();
  Stream *streamOf(ditc::cuda::Stream handle); ///< null when it is none
  Result fail(Result result, const std::string &text);

  Stream legacy; ///< the stream that is a null pointer
  static thread_local Context *current;
};

} // namespace fake

/// A function that libcuda.so has.
#define CUDA_EXPORT extern "C" [[gnu::visibility("default")]] fake::Result
