// SPDX-License-Identifier: Apache-2.0
//
// The walk: each operation of the bucket is held against its counterpart in the other import, and gets from the padding
// of its operands that of its results. A function a case of operation; what none of them allows is refused by name.
#include "compiler/padding/PaddingProof.h"

#include "compiler/padding/KnownScalars.h"
#include "compiler/padding/PaddedShape.h"
#include "dialects/Locations.h"
#include "dialects/reference/Evaluate.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/OperationSupport.h"
#include "llvm/ADT/TypeSwitch.h"

#include <cmath>
#include <fmt/format.h>
#include <limits>

using namespace mlir;

namespace ditc {

namespace {

/// Why padding is not harmless. Thrown and caught in this file.
struct Refusal {
  std::string text;
  bool isNear = false; ///< the fill hides padding, but not from every row: says more than why other fills do not
};

/// A mask below this leaves a key nothing beside any other key's score, masked by -10000 or not.
constexpr double kSurelyMasked = -1e9;
/// What models add for "masked"; enough as long as a row has one real key.
constexpr double kUsuallyMasked = -1e4;

ArrayRef<int64_t> shapeOf(Value value) { return cast<RankedTensorType>(value.getType()).getShape(); }
Type elementOf(Value value) { return cast<RankedTensorType>(value.getType()).getElementType(); }

class Walk {
public:
  Walk(const SymbolSizes &symbol, double highestMask) : symbol(symbol), highestMask(highestMask) {}

  /// The crops of the outputs. `fills` has the value for padding of inputs that are not filled with rows.
  std::vector<CroppedOutput> run(func::FuncOp bucket, func::FuncOp other, const std::map<std::string, std::vector<unsigned>> &inputDims, const std::map<std::string, double> &fills) {
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

  /// What masks add to the scores of padding, attention by attention.
  std::vector<double> added;

private:
  [[noreturn]] void refuse(Operation &op, std::string_view why) const {
    throw Refusal{fmt::format("{} ({}): {}", writeNodeName(nameOf(op.getLoc())), op.getName().getStringRef().str(), why)};
  }

  //===-- Inputs and outputs ----------------------------------------------------------------------===//

  void readInput(func::FuncOp function, unsigned index, Value other, const std::map<std::string, std::vector<unsigned>> &inputDims, const std::map<std::string, double> &fills) {
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

  std::vector<CroppedOutput> readOutputs(func::FuncOp function, func::ReturnOp op) const {
    std::vector<CroppedOutput> crops;
    for (auto [i, value] : llvm::enumerate(op.getOperands())) {
      auto attr = function.getResultAttrOfType<StringAttr>(i, "dit.name");
      std::string name = attr ? attr.str() : std::to_string(i);
      for (auto [d, dim] : llvm::enumerate(known.at(value).dims)) {
        if (!isPadded(dim))
          continue;
        if (!isPaddedAtEnd(dim))
          throw Refusal{fmt::format("output '{}' has padding in the middle of dimension {}", name, d)};
        crops.push_back({name, static_cast<uint32_t>(d)});
      }
    }
    return crops;
  }

  //===-- Operations ------------------------------------------------------------------------------===//

  void visit(Operation &op, Operation &other) {
    if (op.getNumOperands() != other.getNumOperands() || op.getNumResults() != other.getNumResults())
      refuse(op, "the program is another one at another size");
    bool same = isa<dit::ConstantOp, dit::SliceOp>(op) || op.getAttrDictionary() == other.getAttrDictionary();
    if (!same || !sameRegions(op, other))
      refuse(op, fmt::format("uses the size {} as a number", symbol.symbol));
    PaddedShape shape;
    TypeSwitch<Operation *>(&op)
        .Case([&](dit::ConstantOp constant) { shape = visitConstant(constant, cast<dit::ConstantOp>(other)); })
        .Case([&](dit::WeightOp weight) { shape = plain(weight.getResult()); })
        .Case([&](dit::MapOp map) { shape = visitMap(map); })
        .Case([&](dit::MatmulOp matmul) { shape = visitMatmul(matmul); })
        .Case([&](dit::AttentionOp attention) { shape = visitAttention(attention); })
        .Case([&](dit::ConvOp conv) { shape = visitConv(conv); })
        .Case([&](dit::NormOp norm) { shape = visitNorm(norm); })
        .Case([&](dit::ReduceOp reduce) { shape = visitReduce(reduce); })
        .Case([&](dit::ArgReduceOp reduce) { shape = visitAxis(op, reduce.getAxis(), /*mayBePadded=*/false); })
        .Case([&](dit::ScanOp scan) { shape = visitAxis(op, scan.getAxis(), /*mayBePadded=*/true); })
        .Case([&](dit::SortOp sort) { shape = visitAxis(op, sort.getAxis(), /*mayBePadded=*/false); })
        .Case([&](dit::GatherOp gather) { shape = visitGather(gather); })
        .Case([&](dit::ScatterOp scatter) { shape = visitScatter(scatter); })
        .Case([&](dit::ViewOp view) { shape = visitView(view); })
        .Case([&](dit::PermuteOp permute) { shape = visitPermute(permute); })
        .Case([&](dit::SliceOp slice) { shape = visitSlice(slice, cast<dit::SliceOp>(other)); })
        .Case([&](dit::ConcatOp concat) { shape = visitConcat(concat); })
        .Case([&](dit::PadOp pad) { shape = visitPad(pad); })
        .Case([&](dit::ExpandOp expand) { shape = visitExpand(expand, other); })
        .Default([&](Operation *) { refuse(op, "is not known to keep rows apart"); });
    for (auto [result, otherResult] : llvm::zip(op.getResults(), other.getResults()))
      setResult(op, result, otherResult, shape);
  }

  static bool sameRegions(Operation &op, Operation &other) {
    for (auto [a, b] : llvm::zip(op.getRegions(), other.getRegions()))
      if (!OperationEquivalence::isRegionEquivalentTo(&a, &b, OperationEquivalence::IgnoreLocations))
        return false;
    return true;
  }

  /// The derived sizes must be those of both imports; else the symbol came in by another way.
  void setResult(Operation &op, Value result, Value other, const PaddedShape &shape) {
    bool fits = shape.dims.size() == shapeOf(result).size();
    for (size_t d = 0; fits && d < shape.dims.size(); ++d)
      fits = sizeOf(shape.dims[d]) == shapeOf(result)[d] && otherSizeOf(shape.dims[d]) == shapeOf(other)[d];
    if (!fits)
      refuse(op, fmt::format("has a size that depends on {} in a way that is not followed", symbol.symbol));
    known[result] = shape;
  }

  static PaddedShape plain(Value value) {
    PaddedShape out;
    for (int64_t size : shapeOf(value))
      out.dims.push_back(plainDim(size));
    return out;
  }

  const PaddedDims &dimsOf(Value value) const { return known.at(value).dims; }
  bool anyPadding(Value value) const { return llvm::any_of(dimsOf(value), isPadded); }

  /// Tables that grow with the symbol must only get longer.
  PaddedShape visitConstant(dit::ConstantOp op, dit::ConstantOp other) {
    PaddedShape out = plain(op.getResult());
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

  PaddedShape visitMap(dit::MapOp op) {
    PaddedShape out;
    ArrayRef<int64_t> shape = shapeOf(op.getResult());
    for (size_t d = 0; d < shape.size(); ++d) {
      const PaddedDim *layout = nullptr;
      for (Value input : op.getInputs()) {
        const PaddedDim &dim = dimsOf(input)[d];
        if (shapeOf(input)[d] == 1 && !isPadded(dim))
          continue;
        if (layout && !sameLayout(*layout, dim))
          refuse(*op, fmt::format("combines padding along dimension {} with elements that are none", d));
        layout = &dim;
      }
      out.dims.push_back(layout ? *layout : plainDim(shape[d]));
      setTail(op, out.dims.back(), d);
    }
    SmallVector<Attribute> uniform;
    for (Value input : op.getInputs())
      uniform.push_back(known.at(input).uniform);
    out.uniform = evaluateKnown(op, uniform);
    return out;
  }

  void setTail(dit::MapOp op, PaddedDim &dim, size_t d) {
    SmallVector<Attribute> tails;
    for (Value input : op.getInputs()) {
      const PaddedShape &shape = known.at(input);
      tails.push_back(isPadded(shape.dims[d]) && !shape.uniform ? tailOf(shape.dims[d]) : shape.uniform);
    }
    Attribute tail = evaluateKnown(op, tails);
    for (Factor &factor : dim)
      factor.tail = tail;
  }

  static PaddedDim withoutTail(PaddedDim dim) {
    for (Factor &factor : dim)
      factor.tail = {};
    return dim;
  }

  PaddedShape visitMatmul(dit::MatmulOp op) {
    const PaddedDims &lhs = dimsOf(op.getLhs()), &rhs = dimsOf(op.getRhs());
    size_t rank = lhs.size(), rhsRank = rhs.size();
    const PaddedDim &k = rhs[rhsRank - (op.getTransposeRhs() ? 1 : 2)], &n = rhs[rhsRank - (op.getTransposeRhs() ? 2 : 1)];
    if (isPadded(lhs[rank - 1]) || isPadded(k))
      refuse(*op, "sums over padding");
    if (op.getBias() && (anyPadding(op.getBias()) || isPadded(n)))
      refuse(*op, "has columns of padding");
    PaddedShape out;
    for (size_t d = 0; d + 2 < rank; ++d)
      out.dims.push_back(withoutTail(rhsRank == 2 ? lhs[d] : joinBroadcast(*op, lhs[d], rhs[d])));
    out.dims.push_back(withoutTail(lhs[rank - 2]));
    out.dims.push_back(withoutTail(n));
    return out;
  }

  /// A dimension of two operands, of which one may have a single element.
  PaddedDim joinBroadcast(Operation &op, const PaddedDim &a, const PaddedDim &b) const {
    if (sizeOf(b) == 1 && !isPadded(b))
      return a;
    if (sizeOf(a) == 1 && !isPadded(a))
      return b;
    if (!sameLayout(a, b))
      refuse(op, "combines padding with elements that are none");
    return a;
  }

  PaddedShape visitAttention(dit::AttentionOp op) {
    const PaddedDims &q = dimsOf(op.getQuery()), &k = dimsOf(op.getKey()), &v = dimsOf(op.getValue());
    if (!sameLayout(q[0], k[0]) || !sameLayout(q[0], v[0]))
      refuse(*op, "combines padding along the batch with elements that are none");
    if (isPadded(q[1]) || isPadded(k[1]) || isPadded(v[1]) || isPadded(q[3]) || isPadded(k[3]) || isPadded(v[3]))
      refuse(*op, "has padding among its heads or their elements");
    if (!sameLayout(k[2], v[2]))
      refuse(*op, "has padding among its keys that its values do not have");
    if (op.getMask())
      for (auto [d, dim] : llvm::enumerate(dimsOf(op.getMask()))) {
        const PaddedDim &own = d == 3 ? k[2] : q[d];
        if (isPadded(dim) && !sameLayout(dim, own))
          refuse(*op, "has padding in its mask that the product does not have");
        if (!isPadded(dim) && isPadded(own) && sizeOf(dim) != 1)
          refuse(*op, "has a mask without the padding of the product");
      }
    bool causalRows = op.getCausal() && isPaddedAtEnd(k[2]) && sameLayout(q[2], k[2]);
    if (isPadded(k[2]) && !causalRows)
      checkKeysMasked(op);
    return {{withoutTail(q[0]), q[1], withoutTail(q[2]), v[3]}, {}};
  }

  void checkKeysMasked(dit::AttentionOp op) {
    if (!op.getMask() || !isPadded(dimsOf(op.getMask())[3]))
      refuse(*op, "reads padding as keys, and no mask hides it");
    const PaddedShape &mask = known.at(op.getMask());
    Attribute tail = mask.uniform ? mask.uniform : tailOf(mask.dims[3]);
    if (!tail)
      refuse(*op, "reads padding as keys; what its mask holds there is not known");
    double value = numberOf(tail);
    bool isBoolean = elementOf(op.getMask()).isInteger(1);
    if (!isBoolean)
      added.push_back(value);
    if (isBoolean ? value != 0 : value > highestMask)
      refuse(*op, fmt::format("reads padding as keys, which its mask does not hide for certain: it holds {} there", value));
  }

  PaddedShape visitConv(dit::ConvOp op) {
    PaddedShape out = plain(op.getResult());
    for (auto [d, dim] : llvm::enumerate(dimsOf(op.getInput())))
      if (d > 0 && isPadded(dim))
        refuse(*op, "moves a window over padding");
    if (anyPadding(op.getFilter()))
      refuse(*op, "has padding in its filter");
    out.dims[0] = withoutTail(dimsOf(op.getInput())[0]);
    return out;
  }

  PaddedShape visitNorm(dit::NormOp op) {
    PaddedShape out;
    const PaddedDims &dims = dimsOf(op.getInput());
    for (auto [d, dim] : llvm::enumerate(dims)) {
      if (d + op.getAxes() >= dims.size() && isPadded(dim))
        refuse(*op, "normalises over padding");
      out.dims.push_back(withoutTail(dim));
    }
    for (Value operand : op->getOperands().drop_front())
      if (anyPadding(operand))
        refuse(*op, "has padding in its weights");
    return out;
  }

  static bool isIdentityOf(dit::ReduceKind kind, double value) {
    switch (kind) {
    case dit::ReduceKind::Sum:
    case dit::ReduceKind::Any: return value == 0;
    case dit::ReduceKind::Prod:
    case dit::ReduceKind::All: return value == 1;
    case dit::ReduceKind::Max: return value == -std::numeric_limits<double>::infinity();
    case dit::ReduceKind::Min: return value == std::numeric_limits<double>::infinity();
    case dit::ReduceKind::Mean: return false;
    }
    return false;
  }

  PaddedShape visitReduce(dit::ReduceOp op) {
    PaddedShape out;
    for (auto [d, dim] : llvm::enumerate(dimsOf(op.getInput()))) {
      bool reduced = llvm::is_contained(op.getAxes(), static_cast<int64_t>(d));
      Attribute tail = tailOf(dim);
      if (reduced && isPadded(dim) && (!tail || !isIdentityOf(op.getKind(), numberOf(tail))))
        refuse(*op, "reduces over padding");
      out.dims.push_back(reduced ? plainDim(1) : withoutTail(dim));
    }
    return out;
  }

  /// Operations along one axis that keep the shape. Running sums see padding behind them only.
  PaddedShape visitAxis(Operation &op, int64_t axis, bool mayBePadded) {
    PaddedShape out;
    for (auto [d, dim] : llvm::enumerate(dimsOf(op.getOperand(0)))) {
      bool along = static_cast<int64_t>(d) == axis;
      if (along && isPadded(dim) && !(mayBePadded && isPaddedAtEnd(dim)))
        refuse(op, "takes padding into account");
      out.dims.push_back(along && isa<dit::ArgReduceOp>(op) ? plainDim(1) : withoutTail(dim));
    }
    return out;
  }

  PaddedShape visitGather(dit::GatherOp op) {
    PaddedShape out;
    int64_t axis = op.getAxis();
    for (auto [d, dim] : llvm::enumerate(dimsOf(op.getTable()))) {
      if (static_cast<int64_t>(d) != axis) {
        out.dims.push_back(withoutTail(dim));
        continue;
      }
      if (isPadded(dim))
        refuse(*op, "looks up rows among padding");
      for (const PaddedDim &index : dimsOf(op.getIndices()))
        out.dims.push_back(withoutTail(index));
    }
    return out;
  }

  PaddedShape visitScatter(dit::ScatterOp op) {
    for (Value operand : op->getOperands())
      if (anyPadding(operand))
        refuse(*op, "writes rows of padding by index");
    return plain(op.getResult());
  }

  PaddedShape visitView(dit::ViewOp op) {
    const PaddedShape &input = known.at(op.getInput());
    std::optional<PaddedDims> dims = reshapeDims(input.dims, shapeOf(op.getResult()));
    if (!dims)
      refuse(*op, "cuts through padding");
    return {*dims, input.uniform};
  }

  PaddedShape visitPermute(dit::PermuteOp op) {
    const PaddedShape &input = known.at(op.getInput());
    PaddedShape out{{}, input.uniform};
    for (int64_t from : op.getPermutation())
      out.dims.push_back(input.dims[from]);
    return out;
  }

  PaddedShape visitSlice(dit::SliceOp op, dit::SliceOp other) {
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

  PaddedShape visitConcat(dit::ConcatOp op) {
    size_t axis = op.getAxis();
    PaddedShape out{dimsOf(op.getInputs().front()), {}};
    SmallVector<PaddedDim> parts;
    for (Value input : op.getInputs()) {
      const PaddedDims &dims = dimsOf(input);
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

  PaddedShape visitPad(dit::PadOp op) {
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

  PaddedShape visitExpand(dit::ExpandOp op, Operation &other) {
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

  const SymbolSizes &symbol;
  double highestMask;
  /// Values by their opaque pointer, in a map whose references stay.
  struct Table {
    std::map<void *, PaddedShape> shapes;
    PaddedShape &operator[](Value value) { return shapes[value.getAsOpaquePointer()]; }
    const PaddedShape &at(Value value) const { return shapes.at(value.getAsOpaquePointer()); }
  } known;
};

//===-- Ways to fill inputs ---------------------------------------------------------------------------===//

using Fills = std::map<std::string, double>;

/// Values that may mean "masked" in an input of this type, in the order in which they are tried.
std::vector<double> maskValues(Type element) {
  if (element.isInteger(1))
    return {0, 1};
  if (isa<FloatType>(element))
    return {0, -std::numeric_limits<double>::infinity(), 1};
  // Far below every mask, and -10000 times it is a number in every type.
  return element.getIntOrFloatBitWidth() >= 32 ? std::vector<double>{0, -1073741824, 1} : std::vector<double>{0, 1};
}

/// Of inputs that may be masks; complex ones are not.
std::map<std::string, Type> typesOfInputs(func::FuncOp function) {
  std::map<std::string, Type> types;
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (auto name = function.getArgAttrOfType<StringAttr>(i, "dit.name"); name && !function.getArgAttr(i, "dit.complex"))
      types[name.str()] = elementOf(function.getArgument(i));
  return types;
}

/// Rows everywhere, then a value in one input, then in two.
std::vector<Fills> waysToFill(const std::map<std::string, Type> &types, const std::map<std::string, std::vector<unsigned>> &inputDims) {
  std::vector<Fills> ways = {{}};
  std::vector<Fills> single;
  for (const auto &[name, dims] : inputDims)
    for (double value : types.contains(name) ? maskValues(types.at(name)) : std::vector<double>{})
      single.push_back({{name, value}});
  ways.insert(ways.end(), single.begin(), single.end());
  for (const Fills &a : single)
    for (const Fills &b : single)
      if (a.begin()->first < b.begin()->first)
        ways.push_back({*a.begin(), *b.begin()});
  return ways;
}

std::vector<Fills> waysToFill(const std::map<std::string, Type> &types, const PaddingClaim &claim) {
  std::vector<Fills> ways;
  if (!claim.mask)
    return {{}};
  for (double value : types.contains(*claim.mask) ? maskValues(types.at(*claim.mask)) : std::vector<double>{})
    ways.push_back({{*claim.mask, value}});
  return ways;
}

PaddingRule ruleOf(const std::string &symbol, const std::map<std::string, std::vector<unsigned>> &inputDims, const Fills &fills, std::vector<CroppedOutput> crops) {
  PaddingRule rule{symbol, {}, std::move(crops)};
  for (const auto &[name, dims] : inputDims)
    for (unsigned dim : dims) {
      auto fill = fills.find(name);
      rule.inputs.push_back({name, dim, fill == fills.end() ? std::nullopt : std::optional(fill->second)});
    }
  return rule;
}

} // namespace

PaddingProof provePadding(ModuleOp bucket, ModuleOp other, const SymbolSizes &symbol, const std::map<std::string, std::vector<unsigned>> &inputDims,
                          const std::optional<PaddingClaim> &claim) {
  func::FuncOp function = *bucket.getOps<func::FuncOp>().begin(), otherFunction = *other.getOps<func::FuncOp>().begin();
  std::map<std::string, Type> types = typesOfInputs(function);
  if (claim && claim->mask && !inputDims.contains(*claim->mask))
    return {{}, fmt::format("input '{}' has no dimension {}, so it cannot mask it", *claim->mask, symbol.symbol)};
  auto walk = [&](const Fills &fills, double highestMask, std::vector<double> &added) {
    Walk walk(symbol, highestMask);
    std::vector<CroppedOutput> crops = walk.run(function, otherFunction, inputDims, fills);
    added = std::move(walk.added);
    return crops;
  };
  /// Lower than what the model adds for its own hidden keys, which may be all that a row has.
  auto isBelowOwnMasks = [&](const Fills &fills, const std::vector<double> &added) {
    for (double own : added.empty() ? std::vector<double>{} : std::vector<double>{0, 1}) {
      Fills ownFills = fills;
      for (auto &[name, value] : ownFills)
        value = own;
      std::vector<double> ownAdded;
      walk(ownFills, std::numeric_limits<double>::infinity(), ownAdded);
      for (size_t i = 0; i < added.size(); ++i)
        if (added[i] != -std::numeric_limits<double>::infinity() && !(added[i] < ownAdded[i] && added[i] <= ownAdded[i] + kSurelyMasked))
          return false;
    }
    return true;
  };
  auto attempt = [&](const Fills &fills, double highestMask, std::string &reason) -> std::optional<PaddingRule> {
    try {
      std::vector<double> added;
      std::vector<CroppedOutput> crops = walk(fills, highestMask, added);
      if (!claim && !isBelowOwnMasks(fills, added))
        throw Refusal{"a row whose keys are all masked would see padding like them; if every row has a key, claim it with --pad", true};
      return ruleOf(symbol.symbol, inputDims, fills, std::move(crops));
    } catch (const Refusal &refusal) {
      if (reason.empty() || refusal.isNear)
        reason = refusal.text;
      return std::nullopt;
    }
  };
  PaddingProof proof;
  for (double highestMask : {kSurelyMasked, kUsuallyMasked}) {
    if (highestMask == kUsuallyMasked && !claim)
      break;
    for (const Fills &fills : claim ? waysToFill(types, *claim) : waysToFill(types, inputDims))
      if (proof.rule = attempt(fills, highestMask, proof.reason); proof.rule)
        return {proof.rule, ""};
  }
  return proof;
}

} // namespace ditc
