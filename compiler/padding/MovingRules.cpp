// SPDX-License-Identifier: Apache-2.0
//
// Rules of constants and of operations that move elements without computing: padding goes where its rows go, and may not
// be cut through or mixed with rows that are none.
#include "compiler/padding/PaddingRules.h"

#include "dialects/reference/Evaluate.h"

#include <cstring>
#include <fmt/format.h>

using namespace mlir;

namespace ditc {

/// Equal values wherever both have an element.
static bool agree(const dit::TensorValue &a, const dit::TensorValue &b) {
  ArrayRef<int64_t> shape = a.type.getShape(), other = b.type.getShape();
  if (a.type.getElementType() != b.type.getElementType() || a.type.getNumElements() == 0 || b.type.getNumElements() == 0)
    return shape == other && a.type == b.type;
  size_t unit = a.bytes->size() / a.type.getNumElements();
  int64_t count = 1;
  for (auto [x, y] : llvm::zip(shape, other))
    count *= std::min(x, y);
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i, atA = 0, atB = 0, strideA = 1, strideB = 1;
    for (size_t d = shape.size(); d-- > 0;) {
      int64_t common = std::min(shape[d], other[d]);
      atA += rest % common * strideA;
      atB += rest % common * strideB;
      rest /= common;
      strideA *= shape[d];
      strideB *= other[d];
    }
    if (std::memcmp(a.bytes->data() + atA * unit, b.bytes->data() + atB * unit, unit) != 0)
      return false;
  }
  return true;
}

PaddedShape paddingOf(dit::ConstantOp op, dit::ConstantOp other, const SymbolSizes &symbol) {
  PaddedShape out = plainShape(shapeOf(op.getResult()));
  ArrayRef<int64_t> shape = shapeOf(op.getResult()), otherShape = shapeOf(other.getResult());
  if (shape.size() != otherShape.size())
    refuse(*op, "the program is another one at another size");
  auto splat = dyn_cast<SplatElementsAttr>(op.getValue());
  if (splat)
    out.uniform = splat.getSplatValue<Attribute>();
  for (size_t d = 0; d < shape.size(); ++d)
    if (shape[d] == symbol.size && otherShape[d] == symbol.other)
      out.dims[d] = paddedDim(shape[d], otherShape[d], out.uniform);
  if (!agree(dit::fromElements(op.getValue()), dit::fromElements(other.getValue())))
    refuse(*op, fmt::format("is a table whose values depend on {}", symbol.symbol));
  return out;
}

PaddedShape paddingOf(dit::GatherOp op, const KnownPadding &known) {
  PaddedShape out;
  int64_t axis = op.getAxis();
  for (auto [d, dim] : llvm::enumerate(known.dims(op.getTable()))) {
    if (static_cast<int64_t>(d) != axis) {
      out.dims.push_back(withoutTail(dim));
      continue;
    }
    if (isPadded(dim))
      refuse(*op, "looks up rows among padding");
    for (const PaddedDim &index : known.dims(op.getIndices()))
      out.dims.push_back(withoutTail(index));
  }
  return out;
}

PaddedShape paddingOf(dit::ScatterOp op, const KnownPadding &known) {
  for (Value operand : op->getOperands())
    if (known.any(operand))
      refuse(*op, "writes rows of padding by index");
  return plainShape(shapeOf(op.getResult()));
}

PaddedShape paddingOf(dit::ViewOp op, const KnownPadding &known) {
  const PaddedShape &input = known.at(op.getInput());
  std::optional<PaddedDims> dims = reshapeDims(input.dims, shapeOf(op.getResult()));
  if (!dims)
    refuse(*op, "cuts through padding");
  return {*dims, input.uniform};
}

PaddedShape paddingOf(dit::PermuteOp op, const KnownPadding &known) {
  const PaddedShape &input = known.at(op.getInput());
  PaddedShape out{{}, input.uniform};
  for (int64_t from : op.getPermutation())
    out.dims.push_back(input.dims[from]);
  return out;
}

PaddedShape paddingOf(dit::SliceOp op, dit::SliceOp other, const KnownPadding &known, const SymbolSizes &symbol) {
  const PaddedShape &input = known.at(op.getInput());
  PaddedShape out{{}, input.uniform};
  for (size_t d = 0; d < input.dims.size(); ++d) {
    int64_t size = shapeOf(op.getResult())[d], offset = op.getOffsets()[d], otherOffset = other.getOffsets()[d];
    bool sameStep = op.getSteps()[d] == other.getSteps()[d];
    if (!isPadded(input.dims[d])) {
      if (!sameStep || offset != otherOffset)
        refuse(*op, fmt::format("takes a range that depends on {}", symbol.symbol));
      // The first rows of a table, as many as the symbol says.
      bool isSymbol = size == symbol.size && shapeOf(other.getResult())[d] == symbol.other;
      out.dims.push_back(isSymbol ? paddedDim(size, symbol.other, input.uniform) : plainDim(size));
      continue;
    }
    std::optional<PaddedDim> part = sameStep && (op.getSteps()[d] == 1) ? sliceDim(input.dims[d], offset, otherOffset, size) : std::nullopt;
    if (!part)
      refuse(*op, "takes a part of a dimension that has padding");
    out.dims.push_back(*part);
  }
  return out;
}

PaddedShape paddingOf(dit::ConcatOp op, const KnownPadding &known) {
  size_t axis = op.getAxis();
  PaddedShape out{known.dims(op.getInputs().front()), {}};
  SmallVector<PaddedDim> parts;
  for (Value input : op.getInputs()) {
    const PaddedDims &dims = known.dims(input);
    parts.push_back(dims[axis]);
    for (size_t d = 0; d < dims.size(); ++d) {
      if (d == axis)
        continue;
      if (!sameLayout(dims[d], out.dims[d]))
        refuse(*op, "joins tensors with padding and without");
      if (tailOf(dims[d]) != tailOf(out.dims[d]))
        out.dims[d] = withoutTail(out.dims[d]);
    }
  }
  std::optional<PaddedDim> joined = concatDims(parts);
  if (!joined)
    refuse(*op, "joins dimensions that are merged with padding");
  out.dims[axis] = *joined;
  return out;
}

PaddedShape paddingOf(dit::PadOp op, const KnownPadding &known) {
  const PaddedShape &input = known.at(op.getInput());
  PaddedShape out;
  for (auto [d, dim] : llvm::enumerate(input.dims)) {
    bool border = op.getLow()[d] > 0 || op.getHigh()[d] > 0;
    if (border && isPadded(dim))
      refuse(*op, "adds a border to padding");
    out.dims.push_back(border ? plainDim(shapeOf(op.getResult())[d]) : withoutTail(dim));
  }
  return out;
}

PaddedShape paddingOf(dit::ExpandOp op, Operation &other, const KnownPadding &known, const SymbolSizes &symbol) {
  const PaddedShape &input = known.at(op.getInput());
  PaddedShape out = input;
  for (size_t d = 0; d < out.dims.size(); ++d) {
    int64_t size = shapeOf(op.getResult())[d], otherSize = shapeOf(other.getResult(0))[d];
    if (sizeOf(out.dims[d]) == size)
      continue;
    bool isSymbol = size == symbol.size && otherSize == symbol.other;
    out.dims[d] = isSymbol ? paddedDim(size, otherSize, input.uniform) : plainDim(size);
  }
  return out;
}

} // namespace ditc
