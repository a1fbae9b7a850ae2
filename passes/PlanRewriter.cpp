// SPDX-License-Identifier: Apache-2.0
#include "passes/PlanRewriter.h"

using namespace mlir;

namespace ditc {

PlanRewriter::PlanRewriter(plan::ProgramOp program, KernelTable &table) : b(program.getContext()), table(table) {
  for (Operation &op : program.getBody().front())
    if (auto phase = dyn_cast<plan::PrepareOp>(op))
      prepare = phase;
    else if (auto phase = dyn_cast<plan::StepOp>(op))
      step = phase;
}

void PlanRewriter::forEachLaunch(StringRef family, function_ref<void(plan::LaunchOp, plan::KernelOp)> rewrite) {
  for (bool prepared : {true, false})
    for (Operation &op : llvm::make_early_inc_range(prepared ? prepare.getBody().front() : step.getBody().front()))
      if (auto launch = dyn_cast<plan::LaunchOp>(op)) {
        auto kernel = SymbolTable::lookupNearestSymbolFrom<plan::KernelOp>(launch, launch.getKernelAttr());
        if (kernel && kernel.getFamily() == family)
          rewrite(launch, kernel);
      }
}

Value PlanRewriter::createBuffer(Location loc, ArrayRef<int64_t> shape, Type element, plan::Space space) {
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(prepare);
  return plan::BufferOp::create(b, loc, MemRefType::get(shape, element), space, IntegerAttr(), StringAttr(), IntegerAttr(), ElementsAttr());
}

Value PlanRewriter::createView(Location loc, MemRefType type, Value value) {
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(prepare);
  return plan::ViewOp::create(b, loc, type, value);
}

plan::LaunchOp PlanRewriter::createLaunch(Operation *before, const KernelSpec &spec, ArrayRef<Value> args) {
  SmallVector<MemRefType> types;
  for (Value arg : args)
    types.push_back(plan::withoutOffset(typeOf(arg)));
  FlatSymbolRefAttr kernel = table.get(before->getLoc(), spec, types);
  b.setInsertionPoint(before);
  return plan::LaunchOp::create(b, before->getLoc(), kernel, args);
}

plan::Space PlanRewriter::spaceBeside(Value value) {
  plan::Space from = plan::rootBuffer(value).getSpace();
  bool stable = from == plan::Space::Weight || from == plan::Space::Constant || from == plan::Space::Prepared;
  return stable ? plan::Space::Prepared : plan::Space::Arena;
}

void PlanRewriter::createLaunchBefore(plan::LaunchOp reader, const KernelSpec &spec, ArrayRef<Value> args, plan::Space space) {
  createLaunch(reader, spec, args);
  if (space == plan::Space::Prepared && !isPrepared(reader))
    reader->getPrevNode()->moveBefore(&prepare.getBody().front(), prepare.getBody().front().end());
}

void eraseUnusedKernels(ModuleOp module, StringRef family) {
  llvm::DenseSet<Attribute> used;
  module.walk([&](plan::LaunchOp launch) { used.insert(launch.getKernelAttr().getAttr()); });
  for (plan::KernelOp kernel : llvm::make_early_inc_range(module.getOps<plan::KernelOp>()))
    if (kernel.getFamily() == family && !used.contains(kernel.getSymNameAttr()))
      kernel.erase();
}

} // namespace ditc
