// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/CudaQueue.h"

#include "runtime/Error.h"

#include <algorithm>
#include <utility>

namespace ditc {
namespace {

using Current = CudaContext::Current;

constexpr size_t kGraphs = 4; ///< recorded graphs of one bucket
constexpr size_t kSeen = 8;
/// Overlapping launches within a graph came with CUDA 12.3.
constexpr int kOverlapInGraphs = 12030;

cuda::Pointer at(const char *address) { return reinterpret_cast<cuda::Pointer>(address); }

const CudaExecutable &cast(const Executable &executable) { return static_cast<const CudaExecutable &>(executable); }

/// Events of one timed run.
class Events {
public:
  Events(const cuda::Driver &driver, size_t count) : driver(driver), list(count) {
    for (cuda::Event &event : list)
      driver.check(driver.eventCreate(&event, 0), "creating an event");
  }
  ~Events() {
    for (cuda::Event event : list)
      driver.eventDestroy(event);
  }
  Events(const Events &) = delete;
  Events &operator=(const Events &) = delete;

  const cuda::Driver &driver;
  std::vector<cuda::Event> list;
};

} // namespace

CudaQueue::CudaQueue(std::shared_ptr<CudaContext> contextRef, bool graphs)
    : context(std::move(contextRef)), driver(context->driver), graphs(graphs) {
  Current current(*context);
  // Not a non-blocking stream: what the caller wrote through the default stream is then there when a run begins.
  driver.check(driver.streamCreate(&own, 0), "creating a stream");
  driver.check(driver.streamCreate(&captureStream, cuda::kStreamNonBlocking), "creating a stream");
  driver.check(driver.eventCreate(&last, cuda::kEventDisableTiming), "creating an event");
  stream = own;
}

CudaQueue::~CudaQueue() {
  try {
    Current current(*context);
    if (last)
      driver.eventSynchronize(last);
    ring = nullptr;
    for (auto &[executable, state] : states)
      destroyGraphs(state);
    for (cuda::Stream each : {own, captureStream})
      if (each)
        driver.streamDestroy(each);
    if (last)
      driver.eventDestroy(last);
  } catch (const Error &) { // the process is ending and the driver has gone
  }
}

void CudaQueue::use(void *callers) {
  cuda::Stream next = callers ? static_cast<cuda::Stream>(callers) : own;
  if (next == stream && next == own)
    return;
  Current current(*context);
  int status = 0;
  callerRecords = next != own && driver.streamIsCapturing && driver.streamIsCapturing(next, &status) == cuda::kSuccess &&
                  status != 0;
  if (next != stream && !callerRecords) // a recorded stream cannot wait for what is not recorded
    driver.check(driver.streamWaitEvent(next, last, 0), "ordering streams");
  stream = next;
}

void CudaQueue::finished() {
  if (!callerRecords)
    driver.check(driver.eventRecord(last, stream), "recording an event");
}

PinnedRing *CudaQueue::ringFor(std::span<const uint8_t> source) {
  if (source.size() < PinnedRing::kLeastBytes || callerRecords || PinnedRing::isPinned(driver, source.data()))
    return nullptr;
  if (!std::exchange(ringTried, true))
    ring = PinnedRing::make(context);
  return ring.get();
}

void CudaQueue::upload(char *target, std::span<const uint8_t> source) {
  Current current(*context);
  if (PinnedRing *pinned = ringFor(source))
    pinned->upload(at(target), source, stream);
  else if (!source.empty())
    driver.check(driver.memcpyHtoDAsync(at(target), source.data(), source.size(), stream), "copying to the GPU");
  finished();
}

void CudaQueue::download(std::span<uint8_t> target, const char *source) {
  Current current(*context);
  if (!target.empty())
    driver.check(driver.memcpyDtoHAsync(target.data(), at(source), target.size(), stream), "copying from the GPU");
  finished();
}

void CudaQueue::copy(char *target, const char *source, uint64_t bytes) {
  Current current(*context);
  if (bytes > 0)
    driver.check(driver.memcpyDtoDAsync(at(target), at(source), bytes, stream), "copying on the GPU");
  finished();
}

void CudaQueue::fill(char *target, uint8_t value, uint64_t bytes) {
  Current current(*context);
  if (bytes > 0)
    driver.check(driver.memsetD8Async(at(target), value, bytes, stream), "filling memory on the GPU");
  finished();
}

void CudaQueue::wait() {
  Current current(*context);
  driver.check(driver.streamSynchronize(stream), "waiting for the GPU");
}

void CudaQueue::waitForLast() const {
  Current current(*context);
  driver.check(driver.eventSynchronize(last), "waiting for the GPU");
}

void CudaQueue::run(const Executable &executable, OpList list, size_t begin, size_t end, const Addresses &addresses,
                    char *scratch) {
  Current current(*context);
  CudaProgram program(cast(executable), list, begin, end);
  program.bind(addresses, scratch, driver);
  program.queueAll(stream, graphs && context->canOverlap, driver);
  finished();
}

//===-- steps -----------------------------------------------------------------------------------------===//

/// The bucket's state; graphs are dropped when anything but inputs and outputs moved.
CudaQueue::StepState &CudaQueue::stateOf(const CudaExecutable &executable, const Addresses &addresses, Key &ports) {
  StepState &state = states[&executable];
  if (!state.program)
    state.program = std::make_unique<CudaProgram>(executable, OpList::Step, 0, executable.ops(OpList::Step).size());
  fixedScratch = addresses;
  ports.clear();
  for (uint32_t buffer : executable.portBuffers()) {
    ports.push_back(addresses[buffer]);
    fixedScratch[buffer] = nullptr;
  }
  if (state.fixed != fixedScratch) {
    destroyGraphs(state);
    state.seen.clear();
    state.fixed = fixedScratch;
  }
  return state;
}

CudaQueue::Recorded *CudaQueue::findGraph(StepState &state, const Key &ports) {
  auto found = std::find_if(state.graphs.begin(), state.graphs.end(), [&](const Recorded &r) { return r.key == ports; });
  return found == state.graphs.end() ? nullptr : &*found;
}

void CudaQueue::destroyGraphs(StepState &state) {
  for (Recorded &recorded : state.graphs)
    driver.graphExecDestroy(recorded.graph);
  state.graphs.clear();
}

/// The program as a graph; with events, one is recorded before the first op and one after each.
cuda::Graph CudaQueue::capture(CudaProgram &program, const std::vector<cuda::Event> *events) {
  driver.check(driver.streamBeginCapture(captureStream, cuda::kCaptureThreadLocal), "recording a graph");
  cuda::Graph graph = nullptr;
  bool overlap = !events && context->canOverlap && driver.version() >= kOverlapInGraphs;
  auto mark = [&](size_t index) {
    if (events)
      driver.check(driver.eventRecordWithFlags((*events)[index], captureStream, cuda::kEventRecordExternal),
                   "recording an event");
  };
  try {
    mark(0);
    for (size_t i = 0; i < program.size(); ++i) {
      program.queue(i, captureStream, overlap, driver);
      mark(i + 1);
    }
  } catch (...) { // the stream must not stay in capture mode
    driver.streamEndCapture(captureStream, &graph);
    if (graph)
      driver.graphDestroy(graph);
    throw;
  }
  driver.check(driver.streamEndCapture(captureStream, &graph), "recording a graph");
  return graph;
}

/// Records the program, which is bound to `ports`: in place of the graph that was not used for longest when there are
/// enough, by updating that one if the driver can.
void CudaQueue::record(StepState &state, const Key &ports) {
  cuda::Graph graph = capture(*state.program, nullptr);
  Recorded recorded{ports};
  if (state.graphs.size() >= kGraphs) {
    auto oldest = std::min_element(state.graphs.begin(), state.graphs.end(),
                                   [](const Recorded &a, const Recorded &b) { return a.lastUse < b.lastUse; });
    recorded.graph = oldest->graph;
    state.graphs.erase(oldest);
    cuda::GraphUpdateInfo info = {};
    if (!driver.graphExecUpdate || driver.graphExecUpdate(recorded.graph, graph, &info) != cuda::kSuccess) {
      driver.graphExecDestroy(recorded.graph);
      recorded.graph = nullptr;
    }
  }
  cuda::Result result = recorded.graph ? cuda::kSuccess : driver.graphInstantiate(&recorded.graph, graph, 0);
  driver.graphDestroy(graph);
  driver.check(result, "making a graph ready");
  state.graphs.push_back(std::move(recorded));
}

void CudaQueue::step(const Executable &executable, const Addresses &addresses, char *scratch) {
  Current current(*context);
  StepState &state = stateOf(cast(executable), addresses, key);
  bool singly = !graphs || callerRecords;
  Recorded *graph = singly ? nullptr : findGraph(state, key);
  auto seen = std::find(state.seen.begin(), state.seen.end(), key);
  if (!graph) {
    state.program->bind(addresses, scratch, driver);
    if (!singly && seen != state.seen.end()) {
      state.seen.erase(seen);
      record(state, key);
      graph = &state.graphs.back();
    }
  }
  if (graph) {
    graph->lastUse = ++runs;
    driver.check(driver.graphLaunch(graph->graph, stream), "launching a graph");
  } else {
    state.program->queueAll(stream, graphs && context->canOverlap, driver);
    state.ranOnce = true;
    if (!singly && seen == state.seen.end()) {
      if (state.seen.size() >= kSeen)
        state.seen.erase(state.seen.begin());
      state.seen.push_back(key);
    }
  }
  finished();
}

std::vector<double> CudaQueue::stepTimed(const Executable &executable, const Addresses &addresses, char *scratch) {
  Current current(*context);
  StepState &state = stateOf(cast(executable), addresses, key);
  CudaProgram &program = *state.program;
  program.bind(addresses, scratch, driver);
  Events events(driver, program.size() + 1);
  if (!state.ranOnce)
    program.queueAll(stream, false, driver);
  state.ranOnce = true;
  if (graphs && driver.eventRecordWithFlags) { // from a graph, so that no op waits for the host
    cuda::Graph graph = capture(program, &events.list);
    cuda::GraphExec ready = nullptr;
    cuda::Result result = driver.graphInstantiate(&ready, graph, 0);
    driver.graphDestroy(graph);
    driver.check(result, "making a graph ready");
    result = driver.graphLaunch(ready, stream);
    driver.streamSynchronize(stream);
    driver.graphExecDestroy(ready);
    driver.check(result, "launching a graph");
  } else {
    driver.check(driver.eventRecord(events.list[0], stream), "recording an event");
    for (size_t i = 0; i < program.size(); ++i) {
      program.queue(i, stream, false, driver);
      driver.check(driver.eventRecord(events.list[i + 1], stream), "recording an event");
    }
  }
  finished();
  driver.check(driver.streamSynchronize(stream), "waiting for the GPU");
  std::vector<double> seconds;
  for (size_t i = 0; i < program.size(); ++i) {
    float milliseconds = 0;
    driver.check(driver.eventElapsedTime(&milliseconds, events.list[i], events.list[i + 1]), "reading a time");
    seconds.push_back(milliseconds * 1e-3);
  }
  return seconds;
}

} // namespace ditc
