// SPDX-License-Identifier: Apache-2.0
//
// One run: the caller's tensors are checked, placed where kernels can use them, and the bucket's ops are
// called. Nothing of the session is changed here but what binding does.
#include "runtime/Error.h"
#include "runtime/Session.h"

namespace ditc {
namespace {

/// Clears the flag of a context at the end of a run, however it ends.
struct BusyGuard {
  std::atomic_flag &flag;
  ~BusyGuard() { flag.clear(); }
};

uint64_t bytesOf(const TensorRef &tensor) { return PortDesc{tensor.name, tensor.dtype, tensor.shape}.bytes(); }

} // namespace

Context::Context(std::shared_ptr<Session> session) : session(std::move(session)) {}

char *Context::placeTensor(const TensorRef &tensor, bool isInput, std::vector<MemoryRef> &staging) {
  Device &device = session->device();
  bool aligned = reinterpret_cast<uintptr_t>(tensor.data) % byteSize(tensor.dtype) == 0;
  bool dense = tensor.isDense();
  staging.push_back(nullptr);
  if (device.isHost() && dense && aligned)
    return static_cast<char *>(tensor.data);
  uint64_t bytes = bytesOf(tensor);
  staging.back() = device.allocate(bytes, fmt::format("'{}'", tensor.name));
  if (!isInput)
    return staging.back()->data();
  if (dense) {
    device.upload(staging.back()->data(), std::span(static_cast<const uint8_t *>(tensor.data), bytes));
  } else {
    std::vector<uint8_t> copy(bytes);
    copyToDense(reinterpret_cast<char *>(copy.data()), tensor);
    device.upload(staging.back()->data(), copy);
  }
  return staging.back()->data();
}

void Context::collectOutputs(const CheckedRequest &request, const std::vector<MemoryRef> &staging) {
  for (size_t i = 0; i < request.outputs.size(); ++i) {
    if (!staging[i])
      continue;
    std::vector<uint8_t> dense(bytesOf(request.outputs[i]));
    session->device().download(dense, staging[i]->data());
    TensorRef target = request.outputs[i];
    copyFromDense(target, reinterpret_cast<const char *>(dense.data()));
  }
}

Addresses Context::addressesFor(const BoundBucket &bound, const std::vector<char *> &inputs,
                                const std::vector<char *> &outputs) {
  Addresses addresses = bound.addresses;
  const std::vector<PlanBuffer> &buffers = bound.plan->buffers;
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].space == Space::Input)
      addresses[i] = inputs[buffers[i].index];
    else if (buffers[i].space == Space::Output)
      addresses[i] = outputs[buffers[i].index];
    else if (buffers[i].space == Space::Arena)
      addresses[i] = arena->data() + buffers[i].offset;
  }
  return addresses;
}

RunReport Context::run(const RunRequest &request) {
  if (busy.test_and_set())
    fail("this context is running in another thread; give each thread a context of its own");
  BusyGuard guard{busy};
  Device &device = session->device();
  CheckedRequest checked =
      checkRequest(session->package(), session->plans(), request.bucket, request.inputs, request.outputs);
  std::shared_ptr<const BoundBucket> bound = session->bind(checked.bucket);
  if (!arena || arena->bytes() < bound->plan->arenaBytes) {
    arena = nullptr; // Give the old one back before taking a larger one.
    arena = device.allocate(bound->plan->arenaBytes, fmt::format("the scratch of bucket '{}'", checked.bucket));
  }
  std::vector<MemoryRef> inputStaging, outputStaging;
  std::vector<char *> inputs, outputs;
  for (const TensorRef &tensor : checked.inputs)
    inputs.push_back(placeTensor(tensor, true, inputStaging));
  for (const TensorRef &tensor : checked.outputs)
    outputs.push_back(placeTensor(tensor, false, outputStaging));
  if (request.poison) { // All bits set is a NaN in every float type.
    device.fill(arena->data(), 0xff, arena->bytes());
    for (size_t i = 0; i < outputs.size(); ++i)
      device.fill(outputs[i], 0xff, bytesOf(checked.outputs[i]));
  }
  Addresses addresses = addressesFor(*bound, inputs, outputs);
  RunReport report{checked.bucket, {}};
  if (request.timed)
    report.opSeconds = bound->executable->runTimed(OpList::Step, addresses);
  else
    bound->executable->run(OpList::Step, addresses);
  device.synchronize();
  collectOutputs(checked, outputStaging);
  return report;
}

} // namespace ditc
