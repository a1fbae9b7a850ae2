// SPDX-License-Identifier: Apache-2.0
//
// The host target: kernels are split into groups, groups are compiled in parallel, their objects linked into one.
// The split depends on the kernels alone (kernels that share a template stay together, maps come in groups of
// equal size), so that the result does not depend on the number of threads.
#include "codegen/host/HostTarget.h"

#include "codegen/host/KernelModule.h"
#include "codegen/host/SharedObject.h"
#include "dialects/dit/Tensors.h"

#include <atomic>
#include <map>
#include <thread>

using namespace mlir;

namespace ditc {
namespace {

constexpr size_t kMapsPerGroup = 16;

using Object = llvm::SmallVector<char, 0>;

bool isKnownElement(Type type) {
  if (type.isF64() || type.isF32() || isSmallFloat(type) || type.isUnsignedInteger(8))
    return true;
  return type.isSignlessInteger() && llvm::is_contained({1u, 8u, 16u, 32u, 64u}, type.getIntOrFloatBitWidth());
}

LogicalResult checkArguments(plan::KernelOp kernel) {
  for (unsigned i = 0; i < kernel.getNumArgs(); ++i) {
    MemRefType type = kernel.getArgType(i);
    if (!type.hasStaticShape() || !isKnownElement(type.getElementType()))
      return kernel.emitError("argument ") << i << " of '" << kernel.getSymName() << "' is " << type << "; the host target needs a static shape and a known element type";
    if (!type.getLayout().isIdentity() && (!isa<StridedLayoutAttr>(type.getLayout()) || plan::layoutOf(type).offset != 0))
      return kernel.emitError("argument ") << i << " of '" << kernel.getSymName() << "' is " << type << "; the host target needs strides without an offset";
  }
  return success();
}

/// The kernel with its template. On this thread, since reading types may make new ones.
FailureOr<HostKernel> readKernel(plan::KernelOp op) {
  if (failed(checkArguments(op)))
    return failure();
  if (op.getFamily() == "map")
    return HostKernel{op, std::nullopt};
  auto call = selectTemplate(op);
  if (!call) {
    op.emitError("kernel '") << op.getSymName() << "': " << llvm::toString(call.takeError());
    return failure();
  }
  return HostKernel{op, std::move(*call)};
}

using Groups = std::vector<std::vector<HostKernel>>;

FailureOr<Groups> groupKernels(ModuleOp module) {
  std::map<std::string, std::vector<HostKernel>> byTemplate;
  Groups groups;
  std::vector<HostKernel> maps;
  for (plan::KernelOp op : module.getOps<plan::KernelOp>()) {
    FailureOr<HostKernel> kernel = readKernel(op);
    if (failed(kernel))
      return failure();
    if (kernel->call) {
      byTemplate[kernel->call->library].push_back(std::move(*kernel));
      continue;
    }
    maps.push_back(std::move(*kernel));
    if (maps.size() == kMapsPerGroup)
      groups.push_back(std::exchange(maps, {}));
  }
  if (!maps.empty())
    groups.push_back(std::move(maps));
  for (auto &[library, kernels] : byTemplate)
    groups.push_back(std::move(kernels));
  return groups;
}

/// What one thread leaves behind for one group.
struct GroupResult {
  Object object;
  std::optional<KernelProblem> problem;
};

GroupResult compileGroup(const Machine &machine, ArrayRef<HostKernel> kernels, bool verify) {
  KernelModule module(machine, verify);
  if (!module.build(kernels))
    return {{}, module.getProblem()};
  auto object = machine.compile(module.getModule());
  if (!object)
    return {{}, KernelProblem{kernels.front().op, llvm::toString(object.takeError())}};
  return {std::move(*object), std::nullopt};
}

std::vector<GroupResult> compileGroups(const Groups &groups, const MachineName &name, const HostOptions &options) {
  std::vector<GroupResult> results(groups.size());
  std::atomic<size_t> next = 0;
  auto work = [&] {
    Machine machine(name);
    for (size_t i = next++; i < groups.size(); i = next++)
      results[i] = compileGroup(machine, groups[i], options.verify);
  };
  size_t wanted = options.threads > 0 ? options.threads : std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::thread> threads;
  for (size_t i = 1; i < std::min(wanted, groups.size()); ++i)
    threads.emplace_back(work);
  work();
  for (std::thread &thread : threads)
    thread.join();
  return results;
}

LogicalResult report(KernelProblem problem) {
  return problem.kernel.emitError("kernel '") << problem.kernel.getSymName() << "': " << problem.text;
}

} // namespace

FailureOr<HostObject> emitHost(ModuleOp module, const HostOptions &options) {
  auto fail = [&](llvm::Error error) { return emitError(module.getLoc()) << "host target: " << llvm::toString(std::move(error)); };
  auto name = resolveMachine(options.cpu);
  if (!name)
    return fail(name.takeError());
  auto linker = findLinker(options.linker);
  if (!linker)
    return fail(linker.takeError());
  FailureOr<Groups> groups = groupKernels(module);
  if (failed(groups))
    return failure();
  std::vector<Object> objects;
  for (GroupResult &result : compileGroups(*groups, *name, options)) {
    if (result.problem)
      return report(*result.problem);
    objects.push_back(std::move(result.object));
  }
  if (objects.empty()) // a plan without kernels still has an object to load
    objects.push_back(compileGroup(Machine(*name), {}, false).object);
  auto bytes = linkSharedObject(objects, *linker);
  if (!bytes)
    return fail(bytes.takeError());
  return HostObject{std::move(*bytes), name->triple, name->cpu, name->instructionSets};
}

FailureOr<std::string> printHostKernel(plan::KernelOp kernel, const HostOptions &options) {
  auto name = resolveMachine(options.cpu);
  if (!name)
    return emitError(kernel.getLoc()) << "host target: " << llvm::toString(name.takeError());
  FailureOr<HostKernel> read = readKernel(kernel);
  if (failed(read))
    return failure();
  Machine machine(*name);
  KernelModule module(machine, options.verify);
  if (!module.build(*read))
    return report(module.getProblem());
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.getModule().print(stream, nullptr);
  return text;
}

} // namespace ditc
