// SPDX-License-Identifier: Apache-2.0
//
// Binding: which bytes stand behind each buffer of a plan, and when prepared memory is made anew. One
// mutex per session; runs only take it when they fetch a bucket for the first time or after a change.
#include "runtime/Session.h"

#include "runtime/Error.h"
#include "runtime/PlanPointers.h"

#include <algorithm>

namespace ditc {
namespace {

constexpr size_t kNamesInMessage = 20;
/// Weights that only the preparation reads are loaded in portions of about this size.
constexpr uint64_t kPortionBytes = 256ull << 20;
constexpr uint64_t kScratchAlignment = 256;

/// Weights that the preparation of some bucket reads and no run does.
std::set<std::string> preparedOnly(const PlanMap &plans) {
  std::set<std::string> prepare, step;
  for (const auto &[name, plan] : plans)
    for (auto [list, names] : {std::pair(&plan.prepare, &prepare), std::pair(&plan.step, &step)})
      for (const PlanOp &op : *list)
        forEachPointer(op, [&, names = names](const PlanPointer &pointer) {
          if (plan.buffers[pointer.buffer].space == Space::Weight)
            names->insert(plan.buffers[pointer.buffer].name);
        });
  std::erase_if(prepare, [&](const std::string &name) { return step.contains(name); });
  return prepare;
}

} // namespace

uint64_t BoundBucket::libraryScratchOffset() const {
  return (plan->arenaBytes + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment;
}

uint64_t BoundBucket::scratchBytes() const {
  uint64_t library = executable->scratchBytes(OpList::Step);
  return library > 0 ? libraryScratchOffset() + library : plan->arenaBytes;
}

Session::RunGuard::RunGuard(Session &session) {
  session.turnstile.lock();
  session.turnstile.unlock();
  lock = std::shared_lock(session.running);
}

//===-- opening ---------------------------------------------------------------------------------------===//

Session::Session(Package package, std::shared_ptr<Device> device, bool verifyWeights)
    : loaded(std::move(package)), kernelDevice(std::move(device)), queue(kernelDevice->openQueue()),
      weights(loaded, kernelDevice, *queue, verifyWeights) {}

std::shared_ptr<Session> Session::open(const std::string &path, const SessionOptions &options) {
  Package package = Package::open(path);
  DeviceOptions deviceOptions{options.threads, options.memoryBudget, options.graphs, options.jit};
  std::shared_ptr<Device> device = openDevice(options.device, package, deviceOptions);
  std::shared_ptr<Session> session(new Session(package, device, options.verifyWeights));
  session->readPlans();
  session->unknown = session->weights.useFiles(options.weightFiles);
  return session;
}

void Session::readPlans() {
  for (const ManifestBucket &bucket : loaded.manifest().buckets) {
    const Plan &plan = planMap[bucket.name] = loaded.plan(bucket.name, kernelDevice->target());
    prepareKeys[bucket.name] = prepareKey(plan);
  }
  weights.setPreparedOnly(preparedOnly(planMap));
}

//===-- weights ---------------------------------------------------------------------------------------===//

std::vector<std::string> Session::missingWeights() const {
  std::lock_guard lock(mutex);
  return weights.missing();
}

void Session::setWeights(std::span<const TensorRef> tensors, Ownership ownership) {
  std::lock_guard lock(mutex);
  weights.set(tensors, ownership);
  ++changes;
}

/// With no run under way; what fails is taken back.
template <typename Change> void Session::changeInPlace(Change change) {
  std::lock_guard gate(turnstile);
  std::unique_lock alone(running);
  std::lock_guard lock(mutex);
  kernelDevice->waitForQueues();
  change();
  ++changes;
}

void Session::updateWeights(std::span<const TensorRef> tensors) {
  changeInPlace([&] {
    weights.update(tensors);
    try {
      refreshBound();
    } catch (...) {
      weights.revert();
      refreshBound();
      throw;
    }
  });
}

void Session::revertWeights() {
  changeInPlace([&] {
    weights.revert();
    refreshBound();
  });
}

void Session::refreshBound() {
  if (kernelDevice->isHost())
    return; // at the next run, in new memory
  for (auto &[name, bucket] : buckets) {
    if (!bucket.bound)
      continue;
    BoundBucket &bound = *bucket.bound;
    for (size_t i = 0; i < bound.memories.size(); ++i) // those that were borrowed have moved
      if (bound.memories[i] && bound.plan->buffers[i].space == Space::Weight) {
        bound.memories[i] = weights.get(bound.plan->buffers[i].name);
        bound.addresses[i] = bound.memories[i]->data();
      }
    bindPrepared(bound, name);
  }
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

//===-- binding ---------------------------------------------------------------------------------------===//

MemoryRef Session::memoryOf(const PlanBuffer &buffer, bool keep) {
  if (buffer.space == Space::Weight)
    return weights.get(buffer.name, keep);
  if (auto found = constants.find(buffer.name); found != constants.end())
    return found->second;
  HostBytes content = loaded.constant(buffer.name); // on a GPU gone after the upload
  std::span<const uint8_t> bytes = content.bytes;
  MemoryRef memory;
  if (kernelDevice->isHost()) { // they are aligned
    memory = std::make_shared<BorrowedMemory>(reinterpret_cast<char *>(const_cast<uint8_t *>(bytes.data())),
                                              bytes.size(), std::move(content.owner));
  } else {
    memory = kernelDevice->allocate(bytes.size(), fmt::format("'{}'", buffer.name));
    queue->upload(memory->data(), bytes);
    queue->wait();
  }
  if (keep)
    constants[buffer.name] = memory;
  return memory;
}

/// All that binding the bucket will take, before anything of it is taken.
void Session::checkRoom(const std::string &name, const Bucket &bucket) {
  if (kernelDevice->isHost())
    return;
  const Plan &plan = planMap.at(name);
  std::vector<bool> stepUses = buffersOf(plan, plan.step), prepareUses = buffersOf(plan, plan.prepare);
  uint64_t resident = 0, passing = 0, prepareScratch = 0;
  std::set<std::string> counted;
  for (size_t i = 0; i < plan.buffers.size(); ++i) {
    const PlanBuffer &buffer = plan.buffers[i];
    bool prepareOnly = prepareUses[i] && !stepUses[i];
    if (buffer.space == Space::Arena && prepareUses[i])
      prepareScratch = plan.arenaBytes;
    if ((buffer.space != Space::Weight && buffer.space != Space::Constant) || !(stepUses[i] || prepareUses[i]) ||
        !counted.insert(buffer.name).second)
      continue;
    uint64_t bytes = buffer.space == Space::Weight ? weights.bytesToLoad(buffer.name)
                                                   : constants.contains(buffer.name) ? 0 : buffer.bytes;
    if (prepareOnly)
      passing = std::min(kPortionBytes, passing + bytes) > bytes ? std::min(kPortionBytes, passing + bytes) : bytes;
    else
      resident += bytes;
  }
  auto made = prepared.find(prepareKeys.at(name));
  bool isMade = made != prepared.end() && made->second.memory;
  BoundBucket sizes;
  sizes.plan = &plan;
  sizes.executable = bucket.executable.get();
  uint64_t preparing = isMade ? 0 : passing + prepareScratch + bucket.executable->scratchBytes(OpList::Prepare);
  const MemoryNeed needs[] = {{"weights", resident},
                              {"prepared weights", isMade ? 0 : plan.preparedBytes},
                              {"scratch of a context or of the preparation",
                               std::max(sizes.scratchBytes() + plan.zeroedBytes, preparing)}};
  kernelDevice->checkRoom(needs);
}

/// Loads the weights that are not bound portion by portion, and lets go of them when no later op reads them.
void Session::runPrepare(const BoundBucket &bound, const std::string &bucket) {
  const Plan &plan = *bound.plan;
  std::vector<bool> used = buffersOf(plan, plan.prepare);
  std::vector<size_t> lastUse(plan.buffers.size());
  for (size_t i = 0; i < plan.prepare.size(); ++i)
    forEachPointer(plan.prepare[i], [&](const PlanPointer &pointer) { lastUse[pointer.buffer] = i; });
  Addresses addresses = bound.addresses;
  uint64_t library = bound.executable->scratchBytes(OpList::Prepare);
  std::vector<size_t> temporaries;
  for (size_t i = 0; i < plan.buffers.size(); ++i)
    if (plan.buffers[i].space == Space::Arena && used[i])
      temporaries.push_back(i);
  MemoryRef scratch;
  if (!temporaries.empty() || library > 0)
    scratch = kernelDevice->allocate(bound.libraryScratchOffset() + library,
                                     fmt::format("the preparation of '{}'", bucket));
  for (size_t i : temporaries)
    addresses[i] = scratch->data() + plan.buffers[i].offset;
  char *workspace = scratch ? scratch->data() + bound.libraryScratchOffset() : nullptr;
  std::map<uint32_t, MemoryRef> passing;
  uint64_t portion = 0;
  for (size_t begin = 0, i = 0; i < plan.prepare.size(); ++i) {
    forEachPointer(plan.prepare[i], [&](const PlanPointer &pointer) {
      if (addresses[pointer.buffer] || bufferBytes(plan, pointer.buffer) == 0)
        return;
      MemoryRef &memory = passing[pointer.buffer] = memoryOf(plan.buffers[pointer.buffer], false);
      addresses[pointer.buffer] = memory->data();
      portion += memory->bytes();
    });
    if (portion < kPortionBytes && i + 1 < plan.prepare.size())
      continue;
    queue->run(*bound.executable, OpList::Prepare, begin, i + 1, addresses, workspace);
    queue->wait();
    begin = i + 1;
    portion = 0;
    std::erase_if(passing, [&](const auto &item) {
      if (lastUse[item.first] <= i)
        addresses[item.first] = nullptr;
      return lastUse[item.first] <= i;
    });
  }
}

/// Finds or makes the bucket's prepared memory. On a GPU it is made again in place: see changeInPlace.
void Session::bindPrepared(BoundBucket &bound, const std::string &bucket) {
  const Plan &plan = *bound.plan;
  std::map<std::string, uint64_t> versions;
  std::vector<bool> used = buffersOf(plan, plan.prepare);
  for (size_t i = 0; i < used.size(); ++i)
    if (used[i] && plan.buffers[i].space == Space::Weight)
      versions[plan.buffers[i].name] = weights.version(plan.buffers[i].name);
  Prepared &shared = prepared[prepareKeys.at(bucket)];
  bool inPlace = shared.memory && shared.memory == bound.prepared;
  bool current = shared.memory && shared.versions == versions;
  if (!current) {
    Prepared fresh{inPlace ? shared.memory
                           : kernelDevice->allocate(plan.preparedBytes, fmt::format("the prepared weights of '{}'", bucket)),
                   versions};
    shared.versions.clear(); // until it is made, it is nobody's
    bound.prepared = fresh.memory;
    for (size_t i = 0; i < plan.buffers.size(); ++i)
      if (plan.buffers[i].space == Space::Prepared)
        bound.addresses[i] = fresh.memory->data() + plan.buffers[i].offset;
    runPrepare(bound, bucket);
    shared = std::move(fresh);
  }
  bound.prepared = shared.memory;
  for (size_t i = 0; i < plan.buffers.size(); ++i)
    if (plan.buffers[i].space == Space::Prepared)
      bound.addresses[i] = shared.memory->data() + plan.buffers[i].offset;
  for (size_t i = 0; i < plan.buffers.size(); ++i)
    if (plan.buffers[i].space == Space::Weight)
      bound.versions[i] = weights.version(plan.buffers[i].name);
}

std::shared_ptr<BoundBucket> Session::bindLocked(const std::string &name) {
  const Plan &plan = planMap.at(name);
  checkMissing();
  Bucket &bucket = buckets[name];
  if (!bucket.executable)
    bucket.executable = kernelDevice->load(plan);
  auto bound = std::make_shared<BoundBucket>();
  bound->plan = &plan;
  bound->executable = bucket.executable.get();
  for (const PlanBuffer &buffer : plan.buffers)
    bound->versions.push_back(buffer.space == Space::Weight ? weights.version(buffer.name) : 0);
  if (bucket.bound && bucket.bound->versions == bound->versions)
    return bucket.bound;
  if (!bucket.bound)
    checkRoom(name, bucket);
  std::vector<bool> stepUses = buffersOf(plan, plan.step);
  for (size_t i = 0; i < plan.buffers.size(); ++i) {
    const PlanBuffer &buffer = plan.buffers[i];
    bool resident = stepUses[i] && (buffer.space == Space::Weight || buffer.space == Space::Constant);
    bound->memories.push_back(resident ? memoryOf(buffer, true) : nullptr);
    bound->addresses.push_back(resident ? bound->memories.back()->data() : nullptr);
  }
  bindPrepared(*bound, name);
  bucket.bound = bound;
  return bound;
}

std::shared_ptr<const BoundBucket> Session::bind(const std::string &name) {
  if (!planMap.contains(name))
    fail("'{}' has no bucket '{}'; it has {}", loaded.path(), name, loaded.manifest().bucketList());
  std::lock_guard lock(mutex);
  return bindLocked(name);
}

SessionMemory Session::memory() const {
  std::lock_guard lock(mutex);
  SessionMemory out;
  out.weights = weights.heldBytes();
  for (const auto &[name, memory] : constants)
    out.weights += memory->bytes();
  for (const auto &[key, made] : prepared)
    out.prepared += made.memory ? made.memory->bytes() : 0;
  for (const auto &[name, plan] : planMap) {
    auto bucket = buckets.find(name);
    bool bound = bucket != buckets.end() && bucket->second.bound;
    uint64_t scratch = bound ? bucket->second.bound->scratchBytes() : plan.arenaBytes;
    out.context = std::max(out.context, scratch + plan.zeroedBytes);
  }
  return out;
}

} // namespace ditc
