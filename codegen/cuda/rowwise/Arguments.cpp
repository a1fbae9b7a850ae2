// SPDX-License-Identifier: Apache-2.0
#include "codegen/cuda/rowwise/Arguments.h"

#include "codegen/cuda/ScalarText.h"
#include "dialects/Locations.h"
#include "dialects/dit/Tensors.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace ditc::rowwise {

std::string elementName(Type element) {
  std::string name = cudaTypeName(element);
  return name.starts_with("ditc::") ? name.substr(6) : name;
}

int64_t Argument::extent() const {
  int64_t last = 0;
  for (auto [size, stride] : llvm::zip(shape, strides))
    last += std::max<int64_t>(size - 1, 0) * stride;
  return last + 1;
}

static Argument argumentOf(std::string name, MemRefType type, int64_t alignment) {
  plan::Layout layout = plan::layoutOf(type);
  int64_t own = dit::elementBytes(type.getElementType());
  return {
      std::move(name), type.getElementType(), SmallVector<int64_t>(type.getShape()), layout.strides, std::max(own, std::min<int64_t>(alignment, 16)), false};
}

/// Bytes by argument; nothing is known without the attribute.
static SmallVector<int64_t> alignmentsOf(plan::KernelOp kernel) {
  SmallVector<int64_t> alignments;
  Attribute attr = kernel.getConfig().get("alignments");
  if (auto array = dyn_cast_or_null<DenseI64ArrayAttr>(attr))
    llvm::append_range(alignments, array.asArrayRef());
  else if (auto narrow = dyn_cast_or_null<DenseI32ArrayAttr>(attr))
    llvm::append_range(alignments, narrow.asArrayRef());
  else if (auto list = dyn_cast_or_null<ArrayAttr>(attr))
    for (Attribute element : list)
      if (auto number = dyn_cast<IntegerAttr>(element))
        alignments.push_back(number.getInt());
  alignments.resize(kernel.getNumArgs(), 1);
  return alignments;
}

FailureOr<Problem> Problem::read(plan::KernelOp kernel) {
  Region &region = kernel.getBody();
  if (!region.hasOneBlock() || !isa<dit::YieldOp>(region.front().back()))
    return kernel.emitOpError("a rowwise kernel needs a body of one block that ends in dit.yield");
  Problem problem;
  problem.body = &region.front();
  size_t outputs = kernel.getOutputs(), inputs = kernel.getNumArgs() - outputs;
  if (problem.body->getNumArguments() != inputs || problem.body->getTerminator()->getNumOperands() != outputs)
    return kernel.emitOpError("the body has ") << problem.body->getNumArguments() << " arguments and " << problem.body->getTerminator()->getNumOperands()
                                               << " results; the kernel has " << inputs << " inputs and " << outputs << " outputs";
  SmallVector<int64_t> alignments = alignmentsOf(kernel);
  for (size_t i = 0; i < kernel.getNumArgs(); ++i) {
    Value value = i < inputs ? Value(problem.body->getArgument(i)) : problem.result(i - inputs);
    MemRefType memref = kernel.getArgType(i);
    auto tensor = dyn_cast<RankedTensorType>(value.getType());
    if (!tensor || tensor.getShape() != memref.getShape() || tensor.getElementType() != memref.getElementType())
      return kernel.emitOpError("argument ") << i << " is " << memref << " but " << value.getType() << " in the body";
    std::string name = i < inputs ? "in" + std::to_string(i) : "out" + std::to_string(i - inputs);
    (i < inputs ? problem.inputs : problem.outputs).push_back(argumentOf(name, memref, alignments[i]));
  }
  problem.keepRoundings = kernel.getConfig().contains("keep_roundings");
  return problem;
}

Problem Problem::of(Block &body) {
  Problem problem;
  problem.body = &body;
  auto dense = [](std::string name, Value value) {
    auto tensor = cast<RankedTensorType>(value.getType());
    return argumentOf(std::move(name), MemRefType::get(tensor.getShape(), tensor.getElementType()), 16);
  };
  for (auto [i, argument] : llvm::enumerate(body.getArguments()))
    problem.inputs.push_back(dense("in" + std::to_string(i), argument));
  for (auto [i, result] : llvm::enumerate(body.getTerminator()->getOperands()))
    problem.outputs.push_back(dense("out" + std::to_string(i), result));
  return problem;
}

bool Problem::needsWideIndices() const {
  constexpr int64_t kLimit = int64_t(1) << 31;
  auto isWide = [](Type type) { return cast<ShapedType>(type).getNumElements() >= kLimit; };
  bool wide = llvm::any_of(inputs, [](const Argument &a) { return a.extent() >= kLimit; }) ||
              llvm::any_of(outputs, [](const Argument &a) { return a.extent() >= kLimit; });
  for (Operation &op : body->without_terminator())
    wide |= llvm::any_of(op.getResultTypes(), isWide);
  return wide;
}

//===-- Declarations --------------------------------------------------------------------------------===//

std::string Declarations::unique(std::string name) {
  for (char &c : name)
    if (!llvm::isAlnum(c))
      c = '_';
  unsigned count = taken[name]++;
  return count == 0 ? name : name + "_v" + std::to_string(count + 1);
}

std::string Declarations::function(dit::MapOp map) {
  std::string code = printScalarFunction("", map.getBodyBlock());
  auto [entry, isNew] = known.try_emplace(code);
  if (!isNew)
    return entry->second;
  NodeName node = nameOf(map.getLoc());
  std::string name = unique(node.node.empty() ? "apply" : "apply_" + node.node);
  if (!node.node.empty())
    all += "// " + writeNodeName(node) + "\n";
  all += printScalarFunction(name, map.getBodyBlock());
  return entry->second = name;
}

/// An element of a table as an initialiser; small floats by their bits.
static std::string initialiser(Attribute value, Type element) {
  if (isSmallFloat(element))
    return "{0x" + llvm::utohexstr(cast<FloatAttr>(value).getValue().bitcastToAPInt().getZExtValue(), true) + "}";
  return scalarLiteral(value);
}

Argument Declarations::table(dit::ConstantOp constant) {
  auto type = cast<RankedTensorType>(constant.getType());
  auto values = cast<DenseElementsAttr>(constant.getValue());
  std::string list;
  for (Attribute value : values.getValues<Attribute>())
    list += (list.empty() ? "" : ", ") + initialiser(value, type.getElementType());
  std::string code = "[" + std::to_string(type.getNumElements()) + "] = {" + list + "};\n";
  auto [entry, isNew] = known.try_emplace(elementName(type.getElementType()) + code);
  if (isNew) {
    entry->second = unique("table");
    all += "__device__ const __align__(16) " + elementName(type.getElementType()) + " " + entry->second + code;
  }
  return {entry->second, type.getElementType(), SmallVector<int64_t>(type.getShape()), plan::contiguousStrides(type.getShape()), 16, true};
}

} // namespace ditc::rowwise
