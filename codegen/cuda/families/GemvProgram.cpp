// SPDX-License-Identifier: Apache-2.0
#include "codegen/cuda/families/GemvProgram.h"

#include "dialects/dit/Tensors.h"

using namespace mlir;

namespace ditc {
namespace {

/// Rows may be counted in other dimensions, columns stay.
bool keepsColumns(dit::ViewOp view) {
  RankedTensorType from = tensorType(view.getInput()), to = view.getType();
  return from.getRank() > 0 && to.getRank() > 0 && from.getShape().back() == to.getShape().back();
}

class GemvReader {
public:
  GemvReader(Block &body, std::vector<GemvResult> &results) : body(body), results(results) {}

  Verdict read() {
    auto yield = dyn_cast<dit::YieldOp>(body.getTerminator());
    if (!yield || yield.getValues().empty())
      return {Reason::NoSlot, Value()};
    for (Value value : yield.getValues())
      if (Verdict verdict = addResult(value); !verdict)
        return verdict;
    for (Operation &op : body.without_terminator())
      if (!seen.contains(&op))
        return {Reason::NoSlot, op.getResult(0)};
    size_t pointers = llvm::any_of(results, [](const GemvResult &result) { return result.inputs.size() > 1; }) ? kGemvPointersOfTwo : kGemvPointers;
    if (results.size() * pointers * sizeof(uint64_t) > kGemvParameterBytes)
      return {Reason::NoSlot, yield.getValues().front()};
    return {};
  }

private:
  Verdict addResult(Value value) {
    GemvResult result;
    result.columns = tensorType(value).getRank() > 0 ? tensorType(value).getShape().back() : 0;
    for (Value at = value; !result.product;) {
      Operation *op = at.getDefiningOp();
      if (!op)
        return {Reason::NoSlot, at};
      seen.insert(op);
      auto map = dyn_cast<dit::MapOp>(op);
      auto slice = dyn_cast<dit::SliceOp>(op);
      auto view = dyn_cast<dit::ViewOp>(op);
      result.product = dyn_cast<dit::MatmulOp>(op);
      if (map && isOnElements(map))
        result.maps.insert(result.maps.begin(), map);
      else if (slice && cutsColumns(slice))
        result.begin += slice.getOffsets().back();
      else if (!(view && keepsColumns(view)) && !result.product)
        return {Reason::NoSlot, at};
      at = op->getOperand(0);
    }
    if (Verdict verdict = readOperands(result); !verdict)
      return verdict;
    for (const GemvResult &other : results) // rows of the weight would be read twice
      if (other.product == result.product && other.begin < result.begin + result.columns && result.begin < other.begin + other.columns)
        return {Reason::NoSlot, value};
    results.push_back(std::move(result));
    return {};
  }

  static bool isOnElements(dit::MapOp map) {
    if (map.getInputs().size() != 1)
      return false;
    RankedTensorType from = tensorType(map.getInputs()[0]), to = map.getType();
    return from.getShape() == to.getShape() && isa<FloatType>(to.getElementType()) && !is8BitFloat(to.getElementType()) && from.getElementType().isF64() == to.getElementType().isF64(); // one compute type
  }

  static bool cutsColumns(dit::SliceOp slice) {
    ArrayRef<int64_t> from = tensorType(slice.getInput()).getShape(), to = slice.getType().getShape();
    return !to.empty() && from.drop_back() == to.drop_back() && slice.getSteps().back() == 1;
  }

  Verdict readOperands(GemvResult &result) {
    dit::MatmulOp op = result.product;
    auto weight = dyn_cast<BlockArgument>(op.getRhs());
    if (!weight || tensorType(weight).getRank() != 2 || !isa<FloatType>(op.getType().getElementType()))
      return {Reason::NoSlot, op.getRhs()};
    if (is8BitFloat(elementOf(weight)))
      return {Reason::TypeUnsupported, weight};
    result.weight = weight.getArgNumber();
    if (Value bias = op.getBias()) {
      auto argument = dyn_cast<BlockArgument>(bias);
      if (!argument)
        return {Reason::NoSlot, bias};
      result.bias = argument.getArgNumber();
    }
    Value x = behindViews(op.getLhs());
    result.prepare = x.getDefiningOp<dit::MapOp>();
    if (!result.prepare)
      return addInput(result, x, op.getLhs());
    seen.insert(result.prepare);
    if (result.prepare.getInputs().empty() || result.prepare.getInputs().size() > 2)
      return {Reason::NoSlot, x};
    for (Value input : result.prepare.getInputs())
      if (Verdict verdict = addInput(result, behindViews(input), op.getLhs()); !verdict)
        return verdict;
    return {};
  }

  Value behindViews(Value value) {
    for (auto view = value.getDefiningOp<dit::ViewOp>(); view && keepsColumns(view); view = value.getDefiningOp<dit::ViewOp>()) {
      seen.insert(view);
      value = view.getInput();
    }
    return value;
  }

  /// An argument of as many rows and columns as x.
  static Verdict addInput(GemvResult &result, Value value, Value x) {
    auto argument = dyn_cast<BlockArgument>(value);
    RankedTensorType own = tensorType(value), all = tensorType(x);
    bool isWide = own.getElementType().isF64() || all.getElementType().isF64();
    if (!argument || own.getRank() < 2 || own.getNumElements() != all.getNumElements() || own.getShape().back() != all.getShape().back() || !isa<FloatType>(own.getElementType()) ||
        (isWide && own.getElementType() != all.getElementType()))
      return {Reason::NoSlot, value};
    result.inputs.push_back(argument.getArgNumber());
    return {};
  }

  Block &body;
  std::vector<GemvResult> &results;
  llvm::DenseSet<Operation *> seen;
};

} // namespace

Verdict readGemv(Block &body, std::vector<GemvResult> &results) { return GemvReader(body, results).read(); }

} // namespace ditc
