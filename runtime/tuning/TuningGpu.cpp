// SPDX-License-Identifier: Apache-2.0
#include "runtime/tuning/TuningGpu.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <thread>

namespace ditc::tuning {
namespace {

constexpr uint32_t kToolThreads = 256, kToolBlocks = 1024, kSums = 4; // tuning_tools.cuh
constexpr std::chrono::seconds kPatience(20);              // no launch takes nearly as long
constexpr int kOverlapInGraphs = 12030; // since then graphs keep the attribute

/// How tuning_tools.cuh numbers the types that have random values; nothing for others.
std::optional<uint32_t> kindOf(DType dtype) {
  switch (dtype) {
  case DType::bf16: return 0;
  case DType::f16: return 1;
  case DType::f32: return 2;
  case DType::f64: return 3;
  case DType::f8e4m3: return 4;
  default: return std::nullopt;
  }
}

template <typename T> cuda::KernelParameter valueOf(T value) {
  const auto *bytes = reinterpret_cast<const uint8_t *>(&value);
  return {{bytes, bytes + sizeof value}, {}};
}

cuda::KernelParameter addressOf(uint32_t arg) { return {std::vector<uint8_t>(8), {{0, cuda::PointerPatch{arg, 0}}}}; }

cuda::Pointer at(const char *address) { return reinterpret_cast<cuda::Pointer>(address); }

} // namespace

TuningGpu::TuningGpu(const BundleFile &file, int ordinal, uint64_t memoryBudget)
    : file(file), memoryBudget(memoryBudget), context(std::make_shared<CudaContext>(ordinal)), current(*context), pool(context, memoryBudget) {
  const cuda::Driver &driver = context->driver;
  gpu = {context->attribute(cuda::DeviceAttribute::ComputeCapabilityMajor),
         context->attribute(cuda::DeviceAttribute::ComputeCapabilityMinor)};
  Manifest manifest; // the rules of packages hold for bundles
  manifest.targets.push_back({.name = file.bundle().arch, .object = {}, .triple = {}, .cpu = {}});
  cuda::chooseTarget(manifest, file.path(), gpu, true);
  if (driver.version() < file.kernels().lowestDriver)
    fail("'{}' needs a driver for CUDA {}.{}, this one supports CUDA {}.{}; update the NVIDIA driver", file.path(),
         file.kernels().lowestDriver / 1000, file.kernels().lowestDriver % 1000 / 10, driver.version() / 1000,
         driver.version() % 1000 / 10);
  char text[256] = {};
  driver.check(driver.deviceGetName(text, sizeof text - 1, context->device), "asking for the GPU's name");
  gpuName = text;
  multiprocessors = static_cast<uint32_t>(context->attribute(cuda::DeviceAttribute::MultiprocessorCount));
  driver.check(driver.streamCreate(&stream, cuda::kStreamNonBlocking), "creating a stream");
  for (cuda::Event *event : {&begin, &end})
    driver.check(driver.eventCreate(event, 0), "creating an event");
  parts = allocate(kToolBlocks * kSums * sizeof(double), "comparing results");
}

TuningGpu::~TuningGpu() {
  const cuda::Driver &driver = context->driver;
  for (const auto &[member, module] : modules)
    driver.moduleUnload(module);
  for (cuda::Event event : {begin, end})
    if (event)
      driver.eventDestroy(event);
  if (stream)
    driver.streamDestroy(stream);
}

uint64_t TuningGpu::cacheBytes() const {
  return static_cast<uint64_t>(std::max(0, context->attribute(cuda::DeviceAttribute::L2CacheSize)));
}

uint64_t TuningGpu::freeBytes() const {
  size_t free = 0, total = 0;
  driver().check(driver().memGetInfo(&free, &total), "asking for free memory");
  return memoryBudget > 0 ? std::min<uint64_t>(free, memoryBudget) : free;
}

bool TuningGpu::overlaps() const { return context->canOverlap && driver().version() >= kOverlapInGraphs; }

//===-- kernels ---------------------------------------------------------------------------------------===//

cuda::Function TuningGpu::functionOf(const cuda::KernelImage &image, const std::string &entry) {
  cuda::Module &module = modules[image.image];
  if (!module) {
    std::string bytes = file.image(image.image);
    driver().check(driver().moduleLoadData(&module, bytes.c_str()), fmt::format("loading '{}'", image.image));
  }
  cuda::Function function = nullptr;
  driver().check(driver().moduleGetFunction(&function, module, entry.c_str()),
                 fmt::format("finding '{}' in '{}'", entry, image.image));
  driver().check(driver().funcSetAttribute(function, cuda::FunctionAttribute::MaxDynamicSharedSizeBytes,
                                           static_cast<int>(image.launch.sharedBytes)),
                 fmt::format("reserving shared memory for '{}'", image.name));
  return function;
}

std::unique_ptr<cuda::ReadyLaunch> TuningGpu::prepare(const Candidate &candidate, std::span<char *const> args) {
  const cuda::KernelImage &image = *file.kernels().find(candidate.kernel);
  auto launch = std::make_unique<cuda::ReadyLaunch>(image, functionOf(image, candidate.entry),
                                                    cuda::gridX(image.launch, multiprocessors));
  launch->patch(args, driver());
  return launch;
}

void TuningGpu::wait() {
  driver().check(driver().eventRecord(end, stream), "recording an event");
  auto giveUp = std::chrono::steady_clock::now() + kPatience;
  cuda::Result result = cuda::kSuccess;
  if (driver().eventQuery) // so that a kernel that never ends is noticed
    while ((result = driver().eventQuery(end)) == cuda::kNotReady) {
      if (std::chrono::steady_clock::now() > giveUp)
        throw BrokenGpu(fmt::format("did not end within {} s", kPatience.count()), true);
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  if (result == cuda::kSuccess)
    result = driver().eventSynchronize(end);
  if (result == cuda::kSuccess)
    return;
  const char *text = nullptr;
  driver().getErrorString(result, &text);
  throw BrokenGpu(fmt::format("failed: {}", text ? text : "unknown error"), false);
}

void TuningGpu::runQueued(const std::function<void(cuda::Stream)> &queue) {
  queue(stream);
  wait();
}

void TuningGpu::run(cuda::ReadyLaunch &launch) {
  runQueued([&](cuda::Stream on) { driver().check(launch.launch(on, false, driver()), "launching a candidate"); });
}

//===-- memory ----------------------------------------------------------------------------------------===//

void TuningGpu::launchTool(const char *name, uint32_t blocks, std::vector<cuda::KernelParameter> parameters,
                           std::span<char *const> args) {
  cuda::KernelImage image = *file.kernels().find(name);
  image.launch = {.grid = {blocks, 1, 1}, .threads = kToolThreads};
  image.parameters = std::move(parameters);
  cuda::ReadyLaunch launch(image, functionOf(image, name), blocks);
  launch.patch(args, driver());
  run(launch);
}

static uint32_t blocksFor(uint64_t count) {
  return static_cast<uint32_t>(std::clamp<uint64_t>((count + kToolThreads - 1) / kToolThreads, 1, kToolBlocks));
}

void TuningGpu::fill(char *address, DType dtype, uint64_t bytes, double scale, uint32_t seed) {
  std::optional<uint32_t> kind = kindOf(dtype);
  if (!kind) {
    driver().check(driver().memsetD8Async(at(address), 0, bytes, stream), "filling memory");
    return wait();
  }
  uint64_t count = bytes / byteSize(dtype);
  char *args[] = {address};
  launchTool(kFillKernel, blocksFor(count),
             {addressOf(0), valueOf(count), valueOf(*kind), valueOf(seed), valueOf(static_cast<float>(scale))}, args);
}

void TuningGpu::poison(char *address, uint64_t bytes) {
  driver().check(driver().memsetD8Async(at(address), 0xff, bytes, stream), "filling memory");
  wait();
}

void TuningGpu::copy(char *to, const char *from, uint64_t bytes) {
  driver().check(driver().memcpyDtoDAsync(at(to), at(from), bytes, stream), "copying on the GPU");
  wait();
}

Difference TuningGpu::compare(const char *a, const char *b, DType dtype, uint64_t bytes) {
  std::optional<uint32_t> kind = kindOf(dtype);
  if (!kind)
    fail("'{}' has a result of {}; results of kernels that are tuned are floating-point numbers", file.path(), nameOf(dtype));
  uint64_t count = bytes / byteSize(dtype);
  uint32_t blocks = blocksFor(count);
  char *args[] = {const_cast<char *>(a), const_cast<char *>(b), parts->data()};
  launchTool(kCompareKernel, blocks, {addressOf(0), addressOf(1), addressOf(2), valueOf(count), valueOf(*kind)}, args);
  std::vector<double> sums(kSums * blocks);
  driver().check(driver().memcpyDtoHAsync(sums.data(), at(parts->data()), sums.size() * sizeof(double), stream),
                 "copying from the GPU");
  wait();
  double total[kSums] = {};
  for (uint32_t i = 0; i < kSums * blocks; ++i)
    total[i % kSums] += sums[i];
  auto [differences, squares, onlyFirst, onlySecond] = total;
  double relative = differences == 0 ? 0 : squares > 0 ? std::sqrt(differences / squares) : HUGE_VAL;
  return {relative, static_cast<uint64_t>(onlyFirst), static_cast<uint64_t>(onlySecond)};
}

//===-- times -----------------------------------------------------------------------------------------===//

std::unique_ptr<TuningGpu::Recording> TuningGpu::record(const std::function<void(cuda::Stream)> &queue) {
  driver().check(driver().streamBeginCapture(stream, cuda::kCaptureThreadLocal), "recording a graph");
  cuda::Graph graph = nullptr;
  try {
    queue(stream);
  } catch (...) { // the stream must not stay in capture mode
    driver().streamEndCapture(stream, &graph);
    if (graph)
      driver().graphDestroy(graph);
    throw;
  }
  driver().check(driver().streamEndCapture(stream, &graph), "recording a graph");
  cuda::GraphExec made = nullptr;
  cuda::Result result = driver().graphInstantiate(&made, graph, 0);
  driver().graphDestroy(graph);
  driver().check(result, "making a graph");
  return std::make_unique<Recording>(driver(), made);
}

double TuningGpu::replay(Recording &recording, unsigned count, unsigned before) {
  auto queue = [&](unsigned times) {
    for (unsigned i = 0; i < times; ++i)
      driver().check(driver().graphLaunch(recording.graph, stream), "launching a graph");
  };
  queue(before);
  driver().check(driver().eventRecord(begin, stream), "recording an event");
  queue(count);
  wait();
  float milliseconds = 0;
  driver().check(driver().eventElapsedTime(&milliseconds, begin, end), "asking for a time");
  return milliseconds / static_cast<float>(count);
}

} // namespace ditc::tuning
