// SPDX-License-Identifier: Apache-2.0
//
// One run: the caller's tensors are checked, placed where kernels can use them, and the bucket's ops are
// queued. Nothing of the session is changed here but what binding does. What a run needs is kept for the next
// one, so that a run on a GPU costs the host little.
#include "runtime/Error.h"
#include "runtime/Session.h"

#include <algorithm>
#include <cstring>

namespace ditc {
namespace {

/// Clears the flag of a context at the end of a run, however it ends.
struct BusyGuard {
  std::atomic_flag &flag;
  ~BusyGuard() { flag.clear(); }
};

uint64_t bytesOf(const TensorRef &tensor) { return PortDesc{tensor.name, tensor.dtype, tensor.shape}.bytes(); }

void copyOnHost(char *target, const char *source, uint64_t bytes) { std::memcpy(target, source, bytes); }

} // namespace

Context::Context(std::shared_ptr<Session> session) : session(std::move(session)), queue(this->session->device().openQueue()) {}

const BoundBucket &Context::boundBucket(const std::string &name) {
  Known &bucket = known[name];
  uint64_t generation = session->generation();
  if (!bucket.bound || bucket.generation != generation)
    bucket = {session->bind(name), generation};
  uint64_t needed = std::max<uint64_t>(bucket.bound->scratchBytes(), 1);
  if (!arena || arena->bytes() < needed) {
    arena = nullptr; // Give the old one back before taking a larger one.
    arena = session->device().allocate(needed, fmt::format("the scratch of bucket '{}'", name));
  }
  uint64_t zeros = bucket.bound->plan->zeroedBytes;
  if (zeros > 0 && (!zeroed || zeroed->bytes() < zeros)) {
    zeroed = session->device().allocate(zeros, fmt::format("the counters of bucket '{}'", name));
    queue->fill(zeroed->data(), 0, zeroed->bytes());
  }
  return *bucket.bound;
}

/// The request's inputs. Those whose values are compiled in are compared on the host: when they lie on the device, once,
/// and then left out, as they may be.
std::vector<TensorRef> Context::readFixedInputs(const RunRequest &request) {
  const Manifest &manifest = session->package().manifest();
  auto isFixed = [&](const TensorRef &tensor) {
    return tensor.onDevice && (manifest.constantInputs.contains(tensor.name) ||
                               std::count(manifest.pinned.begin(), manifest.pinned.end(), tensor.name) > 0);
  };
  std::vector<TensorRef> out;
  for (const TensorRef &tensor : request.inputs) {
    if (!isFixed(tensor)) {
      out.push_back(tensor);
      continue;
    }
    if (!tensor.isDense() || !tensor.data)
      fail("input '{}' is strided or has no data; on a GPU make it contiguous first", tensor.name);
    if (!checkedOnDevice.insert({tensor.name, tensor.data}).second)
      continue;
    std::vector<uint8_t> &copy = hostCopies.emplace_back(bytesOf(tensor));
    queue->download(copy, static_cast<const char *>(tensor.data));
    queue->wait();
    out.push_back({tensor.name, tensor.dtype, tensor.shape, {}, copy.data()});
  }
  return out;
}

char *Context::stage(Staging &staging, uint64_t bytes, const std::string &name) {
  if (!staging.memory || staging.memory->bytes() < bytes) { // buckets in turns share it
    staging = {};
    staging.memory = session->device().allocate(bytes, fmt::format("'{}'", name));
  }
  return staging.memory->data();
}

/// Padding with a value is written when the tensor's size changes; it then stays, while rows are copied each time.
char *Context::placePadded(const TensorRef &tensor, const PortDesc &port, Staging &staging) {
  refuseOnDevice(tensor);
  std::vector<std::optional<double>> values = padValues(session->package().manifest(), port);
  std::optional<double> value;
  for (size_t d = 0; d < values.size(); ++d)
    if (tensor.shape[d] != port.shape[d] && values[d])
      value = values[d];
  char *target = stage(staging, port.bytes(), tensor.name);
  auto filled = [&] { return repeatedValue(port.dtype, *value, port.bytes() / byteSize(port.dtype)); };
  if (tensor.onDevice) {
    if (value && (staging.paddedFrom != tensor.shape || staging.paddedTo != port.shape)) {
      std::vector<uint8_t> content = filled();
      queue->upload(target, content);
      queue->wait();
    }
    staging.paddedFrom = tensor.shape;
    staging.paddedTo = port.shape;
    padTensor(target, port, static_cast<const char *>(tensor.data), tensor.shape, values,
              [&](char *to, const char *from, uint64_t bytes) { queue->copy(to, from, bytes); });
    return target;
  }
  staging.paddedFrom.clear();
  std::vector<uint8_t> dense(bytesOf(tensor));
  copyToDense(reinterpret_cast<char *>(dense.data()), tensor);
  std::vector<uint8_t> &padded = hostCopies.emplace_back(value ? filled() : std::vector<uint8_t>(port.bytes()));
  padTensor(reinterpret_cast<char *>(padded.data()), port, reinterpret_cast<const char *>(dense.data()), tensor.shape,
            values, copyOnHost);
  queue->upload(target, padded);
  return target;
}

void Context::refuseOnDevice(const TensorRef &tensor) const {
  if (tensor.onDevice && session->device().isHost())
    fail("'{}' is memory of a GPU, but '{}' is open on the host; open it on 'cuda' or hand over host memory", tensor.name,
         session->package().path());
  if (tensor.onDevice && !tensor.isDense())
    fail("'{}' is strided; on a GPU make it contiguous first", tensor.name);
}

char *Context::placeTensor(const TensorRef &tensor, bool isInput, Staging &staging) {
  Device &device = session->device();
  uint64_t alignment = std::max<uint64_t>(device.alignment(), byteSize(tensor.dtype));
  bool aligned = reinterpret_cast<uintptr_t>(tensor.data) % alignment == 0;
  bool dense = tensor.isDense();
  refuseOnDevice(tensor);
  if (tensor.onDevice && !aligned)
    fail("'{}' is at an address that is not a multiple of {}; on a GPU kernels read {} bytes at once, copy it into memory "
         "of its own",
         tensor.name, alignment, alignment);
  if (tensor.onDevice || (device.isHost() && dense && aligned))
    return static_cast<char *>(tensor.data);
  uint64_t bytes = bytesOf(tensor);
  char *staged = stage(staging, bytes, tensor.name);
  staging.paddedFrom.clear();
  if (!isInput)
    return staged;
  if (dense) {
    queue->upload(staged, {static_cast<const uint8_t *>(tensor.data), bytes});
  } else {
    std::vector<uint8_t> &copy = hostCopies.emplace_back(bytes);
    copyToDense(reinterpret_cast<char *>(copy.data()), tensor);
    queue->upload(staged, copy);
  }
  return staged;
}

void Context::placeTensors(const CheckedRequest &request, const Plan &plan) {
  inputStaging.resize(std::max(inputStaging.size(), request.inputs.size()));
  outputStaging.resize(std::max(outputStaging.size(), request.outputs.size()));
  inputs.clear();
  outputs.clear();
  outputStaged.clear();
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    bool padded = request.inputs[i].shape != plan.inputs[i].shape;
    inputs.push_back(padded ? placePadded(request.inputs[i], plan.inputs[i], inputStaging[i])
                            : placeTensor(request.inputs[i], true, inputStaging[i]));
  }
  for (size_t i = 0; i < request.outputs.size(); ++i) {
    const TensorRef &output = request.outputs[i];
    refuseOnDevice(output);
    bool padded = output.shape != plan.outputs[i].shape;
    outputs.push_back(padded ? stage(outputStaging[i], plan.outputs[i].bytes(), output.name)
                             : placeTensor(output, false, outputStaging[i]));
    outputStaged.push_back(outputs.back() != output.data);
  }
}

/// Outputs on the device that are smaller than the bucket's, behind the run.
void Context::cropOutputs(const CheckedRequest &request, const Plan &plan) {
  for (size_t i = 0; i < request.outputs.size(); ++i)
    if (const TensorRef &target = request.outputs[i]; target.onDevice && target.shape != plan.outputs[i].shape)
      cropTensor(static_cast<char *>(target.data), target.shape, outputs[i], plan.outputs[i],
                 [&](char *to, const char *from, uint64_t bytes) { queue->copy(to, from, bytes); });
}

void Context::collectOutputs(const CheckedRequest &request, const Plan &plan) {
  for (size_t i = 0; i < request.outputs.size(); ++i) {
    const TensorRef &target = request.outputs[i];
    if (!outputStaged[i] || target.onDevice)
      continue;
    if (target.shape != plan.outputs[i].shape) {
      std::vector<uint8_t> all(plan.outputs[i].bytes()), cropped(bytesOf(target));
      queue->download(all, outputs[i]);
      queue->wait();
      cropTensor(reinterpret_cast<char *>(cropped.data()), target.shape, reinterpret_cast<const char *>(all.data()),
                 plan.outputs[i], copyOnHost);
      copyFromDense(target, reinterpret_cast<const char *>(cropped.data()));
      continue;
    }
    std::vector<uint8_t> dense;
    bool direct = target.isDense();
    std::span<uint8_t> bytes(static_cast<uint8_t *>(target.data), direct ? bytesOf(target) : 0);
    if (!direct) {
      dense.resize(bytesOf(target));
      bytes = dense;
    }
    queue->download(bytes, outputs[i]);
    queue->wait();
    if (!direct)
      copyFromDense(target, reinterpret_cast<const char *>(dense.data()));
  }
}

void Context::bindAddresses(const BoundBucket &bound) {
  addresses = bound.addresses;
  const std::vector<PlanBuffer> &buffers = bound.plan->buffers;
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].space == Space::Input)
      addresses[i] = inputs[buffers[i].index];
    else if (buffers[i].space == Space::Output)
      addresses[i] = outputs[buffers[i].index];
    else if (buffers[i].space == Space::Arena)
      addresses[i] = arena->data() + buffers[i].offset;
    else if (buffers[i].space == Space::Zeroed)
      addresses[i] = zeroed->data() + buffers[i].offset;
  }
}

/// All bits set is a NaN in every float type.
void Context::fillWithNaN(const Plan &plan) {
  queue->fill(arena->data(), 0xff, arena->bytes());
  for (size_t i = 0; i < outputs.size(); ++i)
    queue->fill(outputs[i], 0xff, plan.outputs[i].bytes());
}

RunReport Context::run(const RunRequest &request) {
  if (busy.test_and_set())
    fail("this context is running in another thread; give each thread a context of its own");
  BusyGuard guard{busy};
  Session::RunGuard noUpdate(*session);
  queue->use(request.stream);
  std::vector<TensorRef> given = readFixedInputs(request);
  CheckedRequest checked = checkRequest(session->package(), session->plans(), request.bucket, given, request.outputs,
                                        request.pad ? Padding::Allowed : Padding::No);
  if (request.stream)
    for (const std::vector<TensorRef> *list : {&checked.inputs, &checked.outputs})
      for (const TensorRef &tensor : *list)
        if (!tensor.onDevice)
          fail("'{}' is memory of the host; a run on a stream takes tensors of the GPU only", tensor.name);
  const BoundBucket &bound = boundBucket(checked.choice.bucket);
  placeTensors(checked, *bound.plan);
  if (request.poison)
    fillWithNaN(*bound.plan);
  bindAddresses(bound);
  char *scratch = arena->data() + bound.libraryScratchOffset();
  RunReport report{checked.choice.bucket, {}};
  if (request.timed)
    report.opSeconds = queue->stepTimed(*bound.executable, addresses, scratch);
  else
    queue->step(*bound.executable, addresses, scratch);
  cropOutputs(checked, *bound.plan);
  if (!request.stream) {
    queue->wait();
    collectOutputs(checked, *bound.plan);
  }
  hostCopies.clear();
  return report;
}

} // namespace ditc
