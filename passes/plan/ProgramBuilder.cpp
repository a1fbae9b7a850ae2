// SPDX-License-Identifier: Apache-2.0
#include "passes/plan/ProgramBuilder.h"

using namespace mlir;

namespace ditc {

bool isStable(Value memref) {
  plan::Space space = plan::rootBuffer(memref).getSpace();
  return space == plan::Space::Weight || space == plan::Space::Constant || space == plan::Space::Prepared;
}

ProgramBuilder::ProgramBuilder(func::FuncOp function) : b(function) {
  SmallVector<Attribute> inputs, outputs;
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    inputs.push_back(portName(function.getArgAttr(i, "dit.name"), "input", i));
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    outputs.push_back(portName(function.getResultAttr(i, "dit.name"), "output", i));
  auto program =
      plan::ProgramOp::create(b, function.getLoc(), function.getSymNameAttr(), b.getArrayAttr(inputs), b.getArrayAttr(outputs), IntegerAttr(), IntegerAttr());
  OpBuilder::InsertionGuard guard(b);
  b.createBlock(&program.getBody());
  auto prepare = plan::PrepareOp::create(b, function.getLoc());
  prepareBlock = b.createBlock(&prepare.getBody());
  b.setInsertionPointAfter(prepare);
  auto step = plan::StepOp::create(b, function.getLoc());
  stepBlock = b.createBlock(&step.getBody());
  firstPhase = prepare;
  for (BlockArgument argument : function.getArguments())
    memory[argument] = createBuffer(argument.getLoc(), tensorType(argument), plan::Space::Input, {.index = argument.getArgNumber()});
}

Attribute ProgramBuilder::portName(Attribute given, StringRef prefix, unsigned i) { return given ? given : b.getStringAttr(prefix + Twine(i)); }

Value ProgramBuilder::createBuffer(Location loc, RankedTensorType type, plan::Space space, BufferInfo info) {
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(firstPhase);
  return plan::BufferOp::create(b, loc, MemRefType::get(type.getShape(), type.getElementType()), space,
                                info.index ? b.getI64IntegerAttr(*info.index) : IntegerAttr(), info.name.empty() ? StringAttr() : b.getStringAttr(info.name),
                                IntegerAttr(), info.value);
}

Value ProgramBuilder::createResult(Location loc, RankedTensorType type, bool prepared) {
  return createBuffer(loc, type, prepared ? plan::Space::Prepared : plan::Space::Arena);
}

Value ProgramBuilder::createView(Location loc, Value source, ArrayRef<int64_t> shape, const plan::Layout &layout) {
  auto type = plan::makeMemRef(shape, memoryType(source).getElementType(), layout);
  if (type == source.getType())
    return source;
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(firstPhase);
  while (auto inner = source.getDefiningOp<plan::ViewOp>()) // views are absolute: one level is enough
    source = inner.getSource();
  return plan::ViewOp::create(b, loc, type, source);
}

} // namespace ditc
