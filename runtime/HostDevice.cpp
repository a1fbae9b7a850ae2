// SPDX-License-Identifier: Apache-2.0
//
// Running plans on the host. Kernels and matrix products are called one after the other in the caller's
// thread (the BLAS uses threads of its own), so a run's result does not depend on timing.
#include "runtime/HostDevice.h"

#include "runtime/Error.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <sys/utsname.h>

namespace ditc {
namespace {

/// Anonymous pages: zeroed, taken from the system only when touched, given back at once.
class HostMemory : public DeviceMemory {
public:
  HostMemory(void *address, uint64_t bytes) : DeviceMemory(static_cast<char *>(address), bytes) {}
  ~HostMemory() override { munmap(data(), bytes()); }
};

/// Somebody else's bytes, kept alive by `owner`. Kernels only read them.
class BorrowedMemory : public DeviceMemory {
public:
  BorrowedMemory(std::span<const uint8_t> bytes, std::shared_ptr<const void> owner)
      : DeviceMemory(reinterpret_cast<char *>(const_cast<uint8_t *>(bytes.data())), bytes.size()),
        owner(std::move(owner)) {}

private:
  std::shared_ptr<const void> owner;
};

using KernelFunction = void(char *const *);

class HostExecutable : public Executable {
public:
  HostExecutable(const Plan &plan, std::shared_ptr<SharedObject> object, std::shared_ptr<const Blas> blas)
      : prepare(plan.prepare), step(plan.step), object(std::move(object)), blas(std::move(blas)) {
    for (const std::string &name : plan.kernels) {
      void *symbol = this->object->find(name);
      if (!symbol)
        fail("the package's kernels have no function '{}', which the plan calls; the package is damaged, compile again",
             name);
      kernels.push_back(reinterpret_cast<KernelFunction *>(symbol));
    }
  }

  void run(OpList list, const Addresses &addresses) const override {
    std::vector<char *> args;
    for (const PlanOp &op : opsOf(list))
      runOp(op, addresses, args);
  }

  std::vector<double> runTimed(OpList list, const Addresses &addresses) const override {
    using Clock = std::chrono::steady_clock;
    std::vector<char *> args;
    std::vector<double> seconds;
    for (const PlanOp &op : opsOf(list)) {
      Clock::time_point start = Clock::now();
      runOp(op, addresses, args);
      seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
    }
    return seconds;
  }

private:
  const std::vector<PlanOp> &opsOf(OpList list) const { return list == OpList::Prepare ? prepare : step; }

  /// `args` is scratch that is kept between ops, so that a run allocates once.
  void runOp(const PlanOp &op, const Addresses &addresses, std::vector<char *> &args) const {
    auto at = [&](const PlanPointer &pointer) { return addresses[pointer.buffer] + pointer.offset; };
    if (const auto *launch = std::get_if<LaunchOp>(&op.body)) {
      args.clear();
      for (const PlanPointer &arg : launch->args)
        args.push_back(at(arg));
      kernels[launch->kernel](args.data());
    } else if (const auto *gemm = std::get_if<GemmOp>(&op.body)) {
      blas->gemm(*gemm, at(gemm->a.at), at(gemm->b.at), at(gemm->c.at));
    } else {
      const auto &copy = std::get<CopyOp>(op.body);
      std::memmove(at(copy.dst), at(copy.src), copy.bytes);
    }
  }

  std::vector<PlanOp> prepare, step;
  std::shared_ptr<SharedObject> object;
  std::shared_ptr<const Blas> blas;
  std::vector<KernelFunction *> kernels;
};

bool usesGemm(const std::vector<PlanOp> &ops) {
  for (const PlanOp &op : ops)
    if (std::holds_alternative<GemmOp>(op.body))
      return true;
  return false;
}

#ifdef __x86_64__
/// Whether the processor has the instructions of an x86-64 level; true for names that are no level.
bool hasLevel(const std::string &cpu) {
  __builtin_cpu_init();
  if (cpu == "x86-64-v2")
    return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt");
  if (cpu == "x86-64-v3")
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
  if (cpu == "x86-64-v4")
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return true;
}
#else
bool hasLevel(const std::string &) { return true; }
#endif

} // namespace

std::string missingForTarget(const std::string &triple, const std::string &cpu) {
  utsname machine{};
  uname(&machine);
  std::string compiled = triple.substr(0, triple.find('-'));
  if (!compiled.empty() && compiled != machine.machine)
    return fmt::format("a {} processor (this is {})", compiled, machine.machine);
  if (!hasLevel(cpu))
    return fmt::format("a processor of level {}", cpu);
  return "";
}

HostDevice::HostDevice(const Package &package, const DeviceOptions &options) : package(package), options(options) {
  const ManifestTarget &target = *package.manifest().findTarget("host");
  std::string missing = missingForTarget(target.triple, target.cpu);
  if (!missing.empty())
    fail("'{}' was compiled for '{}' on '{}' and needs {}; compile again for this machine", package.path(), target.cpu,
         target.triple, missing);
  if (target.object.empty())
    fail("'{}': target 'host' names no kernels; the package is damaged, compile again", package.path());
}

MemoryRef HostDevice::allocate(uint64_t bytes, std::string_view purpose) {
  uint64_t size = std::max<uint64_t>(bytes, 1);
  void *address = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED)
    fail("cannot allocate {} bytes for {}: {}; free memory or use a smaller bucket", bytes, purpose,
         std::strerror(errno));
  return std::make_shared<HostMemory>(address, size);
}

MemoryRef HostDevice::makeResident(std::span<const uint8_t> bytes, std::shared_ptr<const void> owner,
                                   std::string_view purpose) {
  // 16 is the largest alignment that an element needs (c128).
  if (reinterpret_cast<uintptr_t>(bytes.data()) % 16 == 0)
    return std::make_shared<BorrowedMemory>(bytes, std::move(owner));
  MemoryRef copy = allocate(bytes.size(), purpose);
  upload(copy->data(), bytes);
  return copy;
}

void HostDevice::upload(char *target, std::span<const uint8_t> source) {
  std::copy(source.begin(), source.end(), reinterpret_cast<uint8_t *>(target));
}

void HostDevice::download(std::span<uint8_t> target, const char *source) {
  std::copy_n(reinterpret_cast<const uint8_t *>(source), target.size(), target.data());
}

void HostDevice::fill(char *target, uint8_t value, uint64_t bytes) { std::memset(target, value, bytes); }

std::shared_ptr<SharedObject> HostDevice::object() {
  std::lock_guard lock(mutex);
  const std::string &member = package.manifest().findTarget("host")->object;
  if (!loadedObject)
    loadedObject = std::make_shared<SharedObject>(package.bytes(member), package.path() + ": " + member);
  return loadedObject;
}

std::shared_ptr<const Blas> HostDevice::blas() {
  std::lock_guard lock(mutex);
  if (!loadedBlas)
    loadedBlas = Blas::load(options.threads);
  return loadedBlas;
}

std::unique_ptr<Executable> HostDevice::load(const Plan &plan) {
  bool needsBlas = usesGemm(plan.prepare) || usesGemm(plan.step);
  return std::make_unique<HostExecutable>(plan, plan.kernels.empty() ? nullptr : object(),
                                          needsBlas ? blas() : nullptr);
}

std::shared_ptr<Device> openDevice(std::string_view name, const Package &package, const DeviceOptions &options) {
  std::vector<std::string_view> names;
  for (const ManifestTarget &target : package.manifest().targets)
    names.push_back(target.name);
  if (!package.manifest().findTarget(name))
    fail("'{}' was not compiled for device '{}'; it has {}", package.path(), name,
         names.empty() ? "no targets" : fmt::format("{}", fmt::join(names, ", ")));
  if (name == "host")
    return std::make_shared<HostDevice>(package, options);
  fail("this runtime has no device '{}'; it has host", name);
}

} // namespace ditc
