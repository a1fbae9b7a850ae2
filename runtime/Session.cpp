// SPDX-License-Identifier: Apache-2.0
//
// Binding: which bytes stand behind each buffer of a plan, and when prepared memory is made anew. One
// mutex per session; runs only hold it while they fetch their bucket.
#include "runtime/Session.h"

#include "runtime/Error.h"

#include <algorithm>

namespace ditc {
namespace {

constexpr size_t kNamesInMessage = 20;

/// Calls visit(pointer) for each pointer of an op.
template <typename Visit> void forEachPointer(const PlanOp &op, Visit visit) {
  if (const auto *launch = std::get_if<LaunchOp>(&op.body)) {
    for (const PlanPointer &arg : launch->args)
      visit(arg);
  } else if (const auto *gemm = std::get_if<GemmOp>(&op.body)) {
    visit(gemm->a.at);
    visit(gemm->b.at);
    visit(gemm->c.at);
  } else {
    visit(std::get<CopyOp>(op.body).src);
    visit(std::get<CopyOp>(op.body).dst);
  }
}

/// Buffers that the prepare ops touch.
std::vector<bool> preparedFrom(const Plan &plan) {
  std::vector<bool> used(plan.buffers.size());
  for (const PlanOp &op : plan.prepare)
    forEachPointer(op, [&](const PlanPointer &pointer) { used[pointer.buffer] = true; });
  return used;
}

} // namespace

Session::Session(Package package, std::shared_ptr<Device> device, bool verifyWeights)
    : loaded(std::move(package)), kernelDevice(std::move(device)), weights(loaded, kernelDevice, verifyWeights) {}

std::shared_ptr<Session> Session::open(const std::string &path, const SessionOptions &options) {
  Package package = Package::open(path);
  std::shared_ptr<Device> device = openDevice(options.device, package, {options.threads});
  std::shared_ptr<Session> session(new Session(package, device, options.verifyWeights));
  for (const ManifestBucket &bucket : package.manifest().buckets)
    session->planMap[bucket.name] = package.plan(bucket.name);
  session->unknown = session->weights.useFiles(options.weightFiles);
  return session;
}

std::vector<std::string> Session::missingWeights() const {
  std::lock_guard lock(mutex);
  return weights.missing();
}

void Session::setWeights(std::span<const TensorRef> tensors, Ownership ownership) {
  std::lock_guard lock(mutex);
  weights.set(tensors, ownership);
}

void Session::checkMissing() const {
  std::vector<std::string> names = weights.missing();
  if (names.empty())
    return;
  size_t more = names.size() > kNamesInMessage ? names.size() - kNamesInMessage : 0;
  names.resize(names.size() - more);
  fail("{} weights of '{}' are missing: {}{}; hand them over as safetensors (--weights) or one by one",
       names.size() + more, loaded.path(), fmt::join(names, ", "), more ? fmt::format(" and {} more", more) : "");
}

MemoryRef Session::memoryOf(const PlanBuffer &buffer) {
  if (buffer.space == Space::Weight)
    return weights.get(buffer.name);
  if (buffer.space != Space::Constant)
    return nullptr;
  MemoryRef &memory = constants[buffer.name];
  if (!memory)
    memory = kernelDevice->makeResident(loaded.bytes(buffer.name), std::make_shared<Package>(loaded),
                                        fmt::format("'{}'", buffer.name));
  return memory;
}

void Session::prepare(BoundBucket &bound, const BoundBucket *previous, const std::string &bucket) {
  const Plan &plan = *bound.plan;
  std::vector<bool> used = preparedFrom(plan);
  bool same = previous != nullptr;
  for (size_t i = 0; same && i < used.size(); ++i)
    same = !used[i] || bound.memories[i] == previous->memories[i];
  // New memory rather than the old one filled again: a run in another thread may still read that.
  bound.prepared = same ? previous->prepared
                        : kernelDevice->allocate(plan.preparedBytes,
                                                 fmt::format("the prepared weights of '{}'", bucket));
  MemoryRef scratch;
  for (size_t i = 0; i < plan.buffers.size(); ++i) {
    const PlanBuffer &buffer = plan.buffers[i];
    if (buffer.space == Space::Prepared)
      bound.addresses[i] = bound.prepared->data() + buffer.offset;
    if (buffer.space == Space::Arena && used[i] && !same && !scratch)
      scratch = kernelDevice->allocate(plan.arenaBytes, fmt::format("the preparation of '{}'", bucket));
  }
  if (same)
    return;
  Addresses addresses = bound.addresses;
  for (size_t i = 0; scratch && i < plan.buffers.size(); ++i)
    if (plan.buffers[i].space == Space::Arena)
      addresses[i] = scratch->data() + plan.buffers[i].offset;
  bound.executable->run(OpList::Prepare, addresses);
  kernelDevice->synchronize();
}

std::shared_ptr<const BoundBucket> Session::bind(const std::string &name) {
  auto plan = planMap.find(name);
  if (plan == planMap.end())
    fail("'{}' has no bucket '{}'; it has {}", loaded.path(), name, loaded.manifest().bucketList());
  std::lock_guard lock(mutex);
  checkMissing();
  Bucket &bucket = buckets[name];
  if (!bucket.executable)
    bucket.executable = kernelDevice->load(plan->second);
  auto bound = std::make_shared<BoundBucket>();
  bound->plan = &plan->second;
  bound->executable = bucket.executable.get();
  for (const PlanBuffer &buffer : plan->second.buffers) {
    bound->memories.push_back(memoryOf(buffer));
    bound->addresses.push_back(bound->memories.back() ? bound->memories.back()->data() : nullptr);
  }
  if (bucket.bound && bucket.bound->memories == bound->memories)
    return bucket.bound;
  prepare(*bound, bucket.bound.get(), name);
  bucket.bound = bound;
  return bound;
}

} // namespace ditc
