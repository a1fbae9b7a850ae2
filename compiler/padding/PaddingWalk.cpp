// SPDX-License-Identifier: Apache-2.0
#include "compiler/padding/PaddingWalk.h"

#include "compiler/padding/KnownScalars.h"
#include "dialects/Locations.h"

#include "mlir/IR/OperationSupport.h"
#include "llvm/ADT/TypeSwitch.h"

#include <fmt/format.h>

using namespace mlir;

namespace ditc {

void refuse(Operation &op, std::string_view why) {
  throw Refusal{fmt::format("{} ({}): {}", writeNodeName(nameOf(op.getLoc())), op.getName().getStringRef().str(), why)};
}

std::vector<CroppedOutput> PaddingWalk::run(func::FuncOp bucket, func::FuncOp other, const InputDims &inputDims, const Fills &fills) {
  if (bucket.getNumArguments() != other.getNumArguments())
    throw Refusal{"the program has other inputs at another size"};
  for (unsigned i = 0; i < bucket.getNumArguments(); ++i)
    readInput(bucket, i, other.getArgument(i), inputDims, fills);
  auto otherOp = other.front().begin();
  for (Operation &op : bucket.front().without_terminator()) {
    if (otherOp == other.front().end() || otherOp->getName() != op.getName())
      refuse(op, "the program is another one at another size");
    visit(op, *otherOp++);
  }
  return readOutputs(bucket, cast<func::ReturnOp>(bucket.front().getTerminator()));
}

//===-- Inputs and outputs ---------------------------------------------------------------------------------===//

void PaddingWalk::readInput(func::FuncOp function, unsigned index, Value other, const InputDims &inputDims, const Fills &fills) {
  Value input = function.getArgument(index);
  auto attr = function.getArgAttrOfType<StringAttr>(index, "dit.name");
  std::string name = attr ? attr.str() : "";
  auto dims = inputDims.find(name);
  auto fill = fills.find(name);
  PaddedShape shape;
  for (auto [d, size, otherSize] : llvm::enumerate(shapeOf(input), shapeOf(other))) {
    bool padded = dims != inputDims.end() && llvm::is_contained(dims->second, d);
    if (!padded && size != otherSize)
      throw Refusal{fmt::format("dimension {} of input '{}' depends on {} in another way than being it", d, name, symbol.symbol)};
    Attribute tail = padded && fill != fills.end() ? elementAttr(elementOf(input), fill->second) : Attribute();
    shape.dims.push_back(padded ? paddedDim(size, otherSize, tail) : plainDim(size));
  }
  known[input] = std::move(shape);
}

std::vector<CroppedOutput> PaddingWalk::readOutputs(func::FuncOp function, func::ReturnOp op) const {
  std::vector<CroppedOutput> crops;
  for (auto [i, value] : llvm::enumerate(op.getOperands())) {
    auto attr = function.getResultAttrOfType<StringAttr>(i, "dit.name");
    std::string name = attr ? attr.str() : std::to_string(i);
    for (auto [d, dim] : llvm::enumerate(known.dims(value))) {
      if (!isPadded(dim))
        continue;
      if (!isPaddedAtEnd(dim))
        throw Refusal{fmt::format("output '{}' has padding in the middle of dimension {}", name, d)};
      crops.push_back({name, static_cast<uint32_t>(d)});
    }
  }
  return crops;
}

//===-- Operations -----------------------------------------------------------------------------------------===//

static bool sameRegions(Operation &op, Operation &other) {
  for (auto [a, b] : llvm::zip(op.getRegions(), other.getRegions()))
    if (!OperationEquivalence::isRegionEquivalentTo(&a, &b, OperationEquivalence::IgnoreLocations))
      return false;
  return true;
}

void PaddingWalk::visit(Operation &op, Operation &other) {
  if (op.getNumOperands() != other.getNumOperands() || op.getNumResults() != other.getNumResults())
    refuse(op, "the program is another one at another size");
  bool same = isa<dit::ConstantOp, dit::SliceOp>(op) || op.getAttrDictionary() == other.getAttrDictionary();
  if (!same || !sameRegions(op, other))
    refuse(op, fmt::format("uses the size {} as a number", symbol.symbol));
  PaddedShape shape = paddingOfResult(op, other);
  for (auto [result, otherResult] : llvm::zip(op.getResults(), other.getResults()))
    setResult(op, result, otherResult, shape);
}

PaddedShape PaddingWalk::paddingOfResult(Operation &op, Operation &other) {
  return TypeSwitch<Operation *, PaddedShape>(&op)
      .Case([&](dit::ConstantOp constant) { return paddingOf(constant, cast<dit::ConstantOp>(other), symbol); })
      .Case([&](dit::WeightOp weight) { return plainShape(shapeOf(weight.getResult())); })
      .Case([&](dit::AttentionOp attention) { return paddingOf(attention, known, masks); })
      .Case([&](dit::ArgReduceOp reduce) { return paddingAlongAxis(op, reduce.getAxis(), /*mayBePadded=*/false, known); })
      .Case([&](dit::ScanOp scan) { return paddingAlongAxis(op, scan.getAxis(), /*mayBePadded=*/true, known); })
      .Case([&](dit::SortOp sort) { return paddingAlongAxis(op, sort.getAxis(), /*mayBePadded=*/false, known); })
      .Case([&](dit::SliceOp slice) { return paddingOf(slice, cast<dit::SliceOp>(other), known, symbol); })
      .Case([&](dit::ExpandOp expand) { return paddingOf(expand, other, known, symbol); })
      .Case<dit::MapOp, dit::MatmulOp, dit::ConvOp, dit::NormOp, dit::ReduceOp, dit::GatherOp, dit::ScatterOp, dit::ViewOp, dit::PermuteOp, dit::ConcatOp,
            dit::PadOp>([&](auto plain) { return paddingOf(plain, known); })
      .Default([&](Operation *) -> PaddedShape { refuse(op, "is not known to keep rows apart"); });
}

/// The derived sizes must be those of both imports; else the symbol came in by another way.
void PaddingWalk::setResult(Operation &op, Value result, Value other, const PaddedShape &shape) {
  bool fits = shape.dims.size() == shapeOf(result).size();
  for (size_t d = 0; fits && d < shape.dims.size(); ++d)
    fits = sizeOf(shape.dims[d]) == shapeOf(result)[d] && otherSizeOf(shape.dims[d]) == shapeOf(other)[d];
  if (!fits)
    refuse(op, fmt::format("has a size that depends on {} in a way that is not followed", symbol.symbol));
  known[result] = shape;
}

} // namespace ditc
