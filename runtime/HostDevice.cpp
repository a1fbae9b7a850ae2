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
#include <optional>
#include <sys/mman.h>
#include <sys/utsname.h>

namespace ditc {
namespace {

/// Anonymous pages: zeroed, taken from the system only when touched, given back at once.
class HostMemory : public DeviceMemory {
public:
  HostMemory(void *address, uint64_t bytes) : DeviceMemory(static_cast<char *>(address), bytes) {}
  ~HostMemory() override { munmap(data(), mappedBytes(bytes())); }

  /// Of nothing a page, which has an address.
  static uint64_t mappedBytes(uint64_t bytes) { return std::max<uint64_t>(bytes, 1); }
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

  uint64_t scratchBytes(OpList) const override { return 0; }
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

private:
  std::vector<PlanOp> prepare, step;
  std::shared_ptr<SharedObject> object;
  std::shared_ptr<const Blas> blas;
  std::vector<KernelFunction *> kernels;
};

/// Work is done at once.
class HostQueue : public Queue {
public:
  void use(void *stream) override {
    if (stream)
      fail("the device 'host' has no streams; run without one, or open the package on 'cuda'");
  }
  void upload(char *target, std::span<const uint8_t> source) override {
    std::copy(source.begin(), source.end(), reinterpret_cast<uint8_t *>(target));
  }
  void download(std::span<uint8_t> target, const char *source) override {
    std::copy_n(reinterpret_cast<const uint8_t *>(source), target.size(), target.data());
  }
  void copy(char *target, const char *source, uint64_t bytes) override { std::memcpy(target, source, bytes); }
  void fill(char *target, uint8_t value, uint64_t bytes) override { std::memset(target, value, bytes); }
  void run(const Executable &executable, OpList list, size_t begin, size_t end, const Addresses &addresses,
           char *) override {
    const auto &host = static_cast<const HostExecutable &>(executable);
    for (size_t i = begin; i < end; ++i)
      host.runOp(host.opsOf(list)[i], addresses, args);
  }
  void step(const Executable &executable, const Addresses &addresses, char *scratch) override {
    size_t count = static_cast<const HostExecutable &>(executable).opsOf(OpList::Step).size();
    run(executable, OpList::Step, 0, count, addresses, scratch);
  }
  std::vector<double> stepTimed(const Executable &executable, const Addresses &addresses, char *scratch) override {
    using Clock = std::chrono::steady_clock;
    std::vector<double> seconds;
    size_t count = static_cast<const HostExecutable &>(executable).opsOf(OpList::Step).size();
    for (size_t i = 0; i < count; ++i) {
      Clock::time_point start = Clock::now();
      run(executable, OpList::Step, i, i + 1, addresses, scratch);
      seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
    }
    return seconds;
  }
  void wait() override {}

private:
  std::vector<char *> args;
};

bool usesGemm(const std::vector<PlanOp> &ops) {
  for (const PlanOp &op : ops)
    if (std::holds_alternative<GemmOp>(op.body))
      return true;
  return false;
}

/// Refuses the products that only CUDA's BLAS has.
void checkGemms(const std::vector<PlanOp> &ops) {
  for (const PlanOp &op : ops)
    if (const auto *gemm = std::get_if<GemmOp>(&op.body))
      if (gemm->bias || (gemm->dtype != DType::f32 && gemm->dtype != DType::f64))
        fail("the matrix product of '{}' ({}{}) is not one that the host has; the package is damaged, compile again",
             op.where, nameOf(gemm->dtype), gemm->bias ? " with a bias" : "");
}

#ifdef __x86_64__
/// Nothing for a name that is none of kInstructionSets.
std::optional<bool> hasInstructionSet(std::string_view name) {
  __builtin_cpu_init();
  // The builtin takes literals only.
#define DITC_ASK(set)                                                                                        \
  if (name == set)                                                                                           \
    return __builtin_cpu_supports(set) != 0;
  DITC_ASK("sse3")
  DITC_ASK("ssse3")
  DITC_ASK("sse4.1")
  DITC_ASK("sse4.2")
  DITC_ASK("popcnt")
  DITC_ASK("avx")
  DITC_ASK("avx2")
  DITC_ASK("fma")
  DITC_ASK("bmi")
  DITC_ASK("bmi2")
  DITC_ASK("f16c")
  DITC_ASK("lzcnt")
  DITC_ASK("movbe")
  DITC_ASK("avx512f")
  DITC_ASK("avx512bw")
  DITC_ASK("avx512cd")
  DITC_ASK("avx512dq")
  DITC_ASK("avx512vl")
#undef DITC_ASK
  return std::nullopt;
}
#else
std::optional<bool> hasInstructionSet(std::string_view) { return std::nullopt; }
#endif

/// What an x86-64 level has beyond the one before.
std::vector<std::string> instructionSetsOfLevel(const std::string &cpu) {
  if (cpu == "x86-64-v2")
    return {"sse4.2", "popcnt"};
  if (cpu == "x86-64-v3")
    return {"avx2", "fma", "bmi2"};
  if (cpu == "x86-64-v4")
    return {"avx512f", "avx512bw", "avx512dq", "avx512vl"};
  return {};
}

} // namespace

std::string missingForTarget(const ManifestTarget &target) {
  utsname machine{};
  uname(&machine);
  std::string compiled = target.triple.substr(0, target.triple.find('-'));
  if (!compiled.empty() && compiled != machine.machine)
    return fmt::format("a {} processor (this is {})", compiled, machine.machine);
  std::vector<std::string> level = instructionSetsOfLevel(target.cpu);
  for (const std::string &set : level)
    if (std::string_view(machine.machine) == "x86_64" && !hasInstructionSet(set).value_or(false))
      return fmt::format("a processor of level {}", target.cpu);
  std::vector<std::string> lacking;
  for (const std::string &set : target.instructionSets)
    if (!hasInstructionSet(set).value_or(false))
      lacking.push_back(set);
  return lacking.empty() ? "" : fmt::format("a processor with {}", fmt::join(lacking, ", "));
}

HostDevice::HostDevice(const Package &package, const DeviceOptions &options) : package(package), options(options) {
  const ManifestTarget *found = package.manifest().findTarget("host");
  if (!found)
    fail("'{}' was not compiled for the device 'host'; it has {}; run it on the device 'cuda', or compile with "
         "--target host too",
         package.path(), package.manifest().targetList());
  const ManifestTarget &target = *found;
  std::string missing = missingForTarget(target);
  if (!missing.empty())
    fail("'{}' was compiled for '{}' on '{}' and needs {}; compile again for this machine", package.path(), target.cpu,
         target.triple, missing);
  if (target.object.empty())
    fail("'{}': target 'host' names no kernels; the package is damaged, compile again", package.path());
}

MemoryRef HostDevice::allocate(uint64_t bytes, std::string_view purpose) {
  void *address = mmap(nullptr, HostMemory::mappedBytes(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED)
    fail("cannot allocate {} bytes for {}: {}; free memory or use a smaller bucket", bytes, purpose,
         std::strerror(errno));
  return std::make_shared<HostMemory>(address, bytes);
}

std::unique_ptr<Queue> HostDevice::openQueue() { return std::make_unique<HostQueue>(); }

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
  checkGemms(plan.prepare);
  checkGemms(plan.step);
  bool needsBlas = usesGemm(plan.prepare) || usesGemm(plan.step);
  return std::make_unique<HostExecutable>(plan, plan.kernels.empty() ? nullptr : object(),
                                          needsBlas ? blas() : nullptr);
}

} // namespace ditc
