// SPDX-License-Identifier: Apache-2.0
//
// Streams, events and graphs of libfake_cuda.so. A graph is the list of operations that a capture has seen; it runs in
// that order.
#include "FakeDevice.h"

#include <chrono>

using namespace fake;
using ditc::cuda::GraphUpdateInfo;

namespace {

Event *eventOf(ditc::cuda::Event handle) {
  auto *event = reinterpret_cast<Event *>(handle);
  return State::get().events.count(event) ? event : nullptr;
}
Graph *graphOf(void *handle) { return reinterpret_cast<Graph *>(handle); }

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

Result stamp(Event *event) {
  if (State::get().events.count(event)) // else destroyed meanwhile
    event->seconds = now();
  return Success;
}

Result record(ditc::cuda::Event handle, ditc::cuda::Stream streamHandle, bool asNode) {
  State &state = State::get();
  std::lock_guard lock(state.mutex);
  if (Result result = state.ready())
    return result;
  Event *event = eventOf(handle);
  Stream *stream = state.streamOf(streamHandle);
  if (!event || !stream)
    return InvalidHandle;
  if (stream->capture && !asNode) { // it only says where the other streams' work continues
    event->captured = true;
    event->capture = stream->capture;
    event->stream = stream;
    return Success;
  }
  event->captured = false;
  event->inGraph = stream->capture != nullptr;
  if (stream->capture)
    return state.enqueue(stream, {"event", [event] { return stamp(event); }});
  event->stream = stream;
  event->position = stream->submitted + 1;
  return state.enqueue(stream, {"event", [event] { return stamp(event); }});
}

/// Does what the event waits for. An event that nobody has recorded has come already.
Result complete(Event *event) {
  State &state = State::get();
  if (event->captured)
    return CapturedEvent;
  if (event->inGraph)
    return state.drainAll();
  if (!event->stream || (event->stream != &state.legacy && !state.streams.count(event->stream)))
    return Success;
  return state.drain(event->stream, event->position);
}

/// A new object among those that the state keeps.
template <typename Object, typename Handle> Result create(std::set<Object *> State::*all, Handle *handle, unsigned flags) {
  State &state = State::get();
  std::lock_guard lock(state.mutex);
  if (Result result = state.ready())
    return result;
  auto *object = new Object;
  object->flags = flags;
  (state.*all).insert(object);
  *handle = reinterpret_cast<Handle>(object);
  return Success;
}

} // namespace

CUDA_EXPORT cuStreamCreate(ditc::cuda::Stream *handle, unsigned flags) { return create(&State::streams, handle, flags); }

CUDA_EXPORT cuStreamDestroy_v2(ditc::cuda::Stream handle) {
  State &state = State::get();
  std::lock_guard lock(state.mutex);
  Stream *stream = state.streamOf(handle);
  if (!stream || stream == &state.legacy)
    return InvalidHandle;
  Result result = state.drain(stream);
  state.streams.erase(stream);
  delete stream;
  return result;
}

CUDA_EXPORT cuStreamSynchronize(ditc::cuda::Stream handle) {
  State &state = State::get();
  std::lock_guard lock(state.mutex);
  if (Result result = state.ready())
    return result;
  Stream *stream = state.streamOf(handle);
  if (!stream)
    return InvalidHandle;
  if (stream->capture) {
    stream->capture->invalid = true;
    return CaptureUnsupported;
  }
  return state.drain(stream);
}

CUDA_EXPORT cuStreamWaitEvent(ditc::cuda::Stream handle, ditc::cuda::Event eventHandle, unsigned) {
  State &state = State::get();
  std::lock_guard lock(state.mutex);
  if (Result result = state.ready())
    return result;
  Stream *stream = state.streamOf(handle);
  Event *event = eventOf(eventHandle);
  if (!stream || !event)
    return InvalidHandle;
  if (event->captured) {
    std::shared_ptr<Capture> capture = event->capture.lock();
    if (!capture || (stream->capture && stream->capture != capture))
      return InvalidValue;
    if (stream == capture->origin)
      capture->branches[event->stream] = true;
    else
      stream->capture = capture, capture->branches.try_emplace(stream, false);
    return Success;
  }
  if (stream->capture) { // work outside of the capture cannot be waited for inside
    stream->capture->invalid = true;
    return CaptureUnsupported;
  }
  if (!event->stream)
    return Success;
  Stream *other = event->stream;
  uint64_t position = event->position;
  return state.enqueue(stream, {"wait", [&state, other, position] {
                                  bool alive = other == &state.legacy || state.streams.count(other);
                                  return alive ? state.drain(other, position) : Result(Success);
                                }});
}

CUDA_EXPORT cuEventCreate(ditc::cuda::Event *handle, unsigned flags) { return create(&State::events, handle, flags); }

CUDA_EXPORT cuEventDestroy_v2(ditc::cuda::Event handle) {
  State &state = State::get();
  std::lock_guard lock(state.mutex);
  Event *event = eventOf(handle);
  if (!event)
    return InvalidHandle;
  state.events.erase(event);
  delete event;
  return Success;
}

CUDA_EXPORT cuEventRecord(ditc::cuda::Event event, ditc::cuda::Stream stream) { return record(event, stream, false); }

CUDA_EXPORT cuEventRecordWithFlags(ditc::cuda::Event event, ditc::cuda::Stream stream, unsigned flags) {
  return record(event, stream, flags & ditc::cuda::kEventRecordExternal);
}

CUDA_EXPORT cuEventSynchronize(ditc::cuda::Event handle) {
  State &state = State::get();
  std::lock_guard lock(state.mutex);
  if (Result result = state.ready())
    return result;
  Event *event = eventOf(handle);
  return event ? complete(event) : Result(InvalidHandle);
}

CUDA_EXPORT cuEventElapsedTime(float *milliseconds, ditc::cuda::Event startHandle, ditc::cuda::Event endHandle) {
  State &state = State::get();
  std::lock_guard lock(state.mutex);
  Event *start = eventOf(startHandle), *end = eventOf(endHandle);
  if (!start || !end || (start->flags | end->flags) & ditc::cuda::kEventDisableTiming || start->captured ||
      end->captured)
    return InvalidHandle;
  for (Event *event : {start, end})
    if (!event->inGraph && event->stream && state.streams.count(event->stream) && event->stream->done < event->position)
      return NotReady;
  if (start->seconds == 0 || end->seconds == 0)
    return InvalidHandle;
  *milliseconds = static_cast<float>((end->seconds - start->seconds) * 1e3);
  return Success;
}

// ---- capture and graphs -------------------------------------------------------------------------------------------

CUDA_EXPORT cuStreamBeginCapture_v2(ditc::cuda::Stream handle, int mode) {
  State &state = State::get();
  std::lock_guard lock(state.mutex);
  if (Result result = state.ready())
    return result;
  Stream *stream = state.streamOf(handle);
  if (!stream)
    return InvalidHandle;
  if (stream == &state.legacy)
    return CaptureUnsupported;
  if (stream->capture)
    return InvalidValue;
  stream->capture = std::make_shared<Capture>();
  stream->capture->origin = stream;
  stream->capture->thread = std::this_thread::get_id();
  stream->capture->mode = mode;
  return Success;
}

CUDA_EXPORT cuStreamIsCapturing(ditc::cuda::Stream handle, int *status) {
  State &state = State::get();
  std::lock_guard lock(state.mutex);
  Stream *stream = state.streamOf(handle);
  if (!stream)
    return InvalidHandle;
  *status = !stream->capture ? 0 : stream->capture->invalid ? 2 : 1;
  return Success;
}

CUDA_EXPORT cuStreamEndCapture(ditc::cuda::Stream handle, ditc::cuda::Graph *graph) {
  State &state = State::get();
  std::lock_guard lock(state.mutex);
  *graph = nullptr;
  Stream *stream = state.streamOf(handle);
  if (!stream)
    return InvalidHandle;
  std::shared_ptr<Capture> capture = stream->capture;
  if (!capture)
    return InvalidValue;
  if (capture->origin != stream)
    return CaptureUnmatched;
  if (capture->mode != 2 && capture->thread != std::this_thread::get_id())
    return CaptureWrongThread;
  Result result = capture->invalid ? CaptureInvalidated : Success;
  for (const auto &[branch, joined] : capture->branches)
    if (!joined && !result)
      result = CaptureUnjoined;
  for (Stream *any : state.streams)
    if (any->capture == capture)
      any->capture.reset();
  if (result)
    return result;
  *graph = reinterpret_cast<ditc::cuda::Graph>(new Graph{std::move(capture->operations)});
  return Success;
}

CUDA_EXPORT cuGraphInstantiateWithFlags(ditc::cuda::GraphExec *executable, ditc::cuda::Graph graph,
                                        unsigned long long) {
  if (Result result = State::get().ready())
    return result;
  *executable = reinterpret_cast<ditc::cuda::GraphExec>(new Graph(*graphOf(graph)));
  return Success;
}

CUDA_EXPORT cuGraphExecUpdate_v2(ditc::cuda::GraphExec executable, ditc::cuda::Graph graph, GraphUpdateInfo *info) {
  State &state = State::get();
  std::lock_guard lock(state.mutex);
  Graph &old = *graphOf(executable), &fresh = *graphOf(graph);
  bool same = old.operations.size() == fresh.operations.size();
  for (size_t i = 0; same && i < old.operations.size(); ++i)
    same = old.operations[i].kind == fresh.operations[i].kind;
  *info = {same ? 0 : 1, nullptr, nullptr};
  if (!same)
    return GraphUpdateFailure;
  old.operations = fresh.operations;
  return Success;
}

CUDA_EXPORT cuGraphLaunch(ditc::cuda::GraphExec executable, ditc::cuda::Stream handle) {
  State &state = State::get();
  std::lock_guard lock(state.mutex);
  if (Result result = state.ready())
    return result;
  Stream *stream = state.streamOf(handle);
  if (!stream || !executable)
    return InvalidHandle;
  // A launched graph is not affected by updates or by its end.
  auto operations = std::make_shared<std::vector<Operation>>(graphOf(executable)->operations);
  return state.enqueue(stream, {"graph", [operations] {
                                  for (const Operation &operation : *operations)
                                    if (Result result = operation.run())
                                      return result;
                                  return Result(Success);
                                }});
}

CUDA_EXPORT cuGraphExecDestroy(ditc::cuda::GraphExec executable) {
  delete graphOf(executable);
  return Success;
}

CUDA_EXPORT cuGraphDestroy(ditc::cuda::Graph graph) {
  delete graphOf(graph);
  return Success;
}

/// For libfake_cublasLt.so: work in a stream, as a kernel would be. `release` is called when the work is not needed any
/// more.
CUDA_EXPORT fakeCudaEnqueue(ditc::cuda::Stream handle, const char *kind, void (*work)(void *), void *data,
                            void (*release)(void *)) {
  State &state = State::get();
  std::lock_guard lock(state.mutex);
  std::shared_ptr<void> owned(data, release);
  if (Result result = state.ready())
    return result;
  Stream *stream = state.streamOf(handle);
  if (!stream)
    return InvalidHandle;
  return state.enqueue(stream, {kind, [work, owned] { return work(owned.get()), Result(Success); }});
}
