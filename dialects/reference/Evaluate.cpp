// SPDX-License-Identifier: Apache-2.0
#include "dialects/reference/Evaluate.h"

#include "dialects/reference/EvaluateOps.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace ditc::dit {

using Values = SmallVector<TensorValue>;

static FailureOr<Values> evaluateFusion(FusionOp op, ArrayRef<TensorValue> in);

FailureOr<Values> evaluateOp(Operation *op, ArrayRef<TensorValue> in) {
  using Result = FailureOr<Values>;
  auto optional = [&](bool present, size_t i) { return present ? &in[i] : nullptr; };
  return llvm::TypeSwitch<Operation *, Result>(op)
      .Case([&](ConstantOp op) -> Result { return Values{fromElements(op.getValue())}; })
      .Case([&](MapOp op) -> Result {
        FailureOr<TensorValue> result = evaluateMap(op, in);
        return failed(result) ? Result(failure()) : Result(Values{*result});
      })
      .Case([&](MatmulOp op) -> Result { return Values{evaluateMatmul(op, in[0], in[1], optional(in.size() > 2, 2))}; })
      .Case([&](AttentionOp op) -> Result { return Values{evaluateAttention(op, in[0], in[1], in[2], optional(in.size() > 3, 3))}; })
      .Case([&](LinearStateOp op) -> Result { return Values{evaluateLinearState(op, in[0], in[1])}; })
      .Case([&](LinearApplyOp op) -> Result { return Values{evaluateLinearApply(op, in[0], in[1])}; })
      .Case([&](ConvOp op) -> Result { return Values{evaluateConv(op, in[0], in[1], optional(in.size() > 2, 2))}; })
      .Case([&](NormOp op) -> Result {
        bool weight = static_cast<bool>(op.getWeight());
        return Values{evaluateNorm(op, in[0], optional(weight, 1), optional(static_cast<bool>(op.getBias()), weight ? 2 : 1))};
      })
      .Case([&](ReduceOp op) -> Result { return Values{evaluateReduce(op, in[0])}; })
      .Case([&](ArgReduceOp op) -> Result { return Values{evaluateArgReduce(op, in[0])}; })
      .Case([&](ScanOp op) -> Result { return Values{evaluateScan(op, in[0])}; })
      .Case([&](SortOp op) -> Result { return evaluateSort(op, in[0]); })
      .Case([&](GatherOp op) -> Result { return Values{evaluateGather(op, in[0], in[1])}; })
      .Case([&](ScatterOp op) -> Result { return Values{evaluateScatter(op, in[0], in[1], in[2])}; })
      .Case([&](ViewOp op) -> Result { return Values{TensorValue{cast<RankedTensorType>(op.getType()), in[0].bytes}}; })
      .Case([&](PermuteOp op) -> Result { return Values{evaluatePermute(op, in[0])}; })
      .Case([&](SliceOp op) -> Result { return Values{evaluateSlice(op, in[0])}; })
      .Case([&](ConcatOp op) -> Result { return Values{evaluateConcat(op, in)}; })
      .Case([&](PadOp op) -> Result { return Values{evaluatePad(op, in[0])}; })
      .Case([&](ExpandOp op) -> Result { return Values{evaluateExpand(op, in[0])}; })
      .Case([&](FusionOp op) -> Result { return evaluateFusion(op, in); })
      .Default([](Operation *op) -> Result { return op->emitError("'") << op->getName() << "' has no reference evaluation"; });
}

namespace {

/// Values while a function runs; each is dropped after its last use.
class Environment {
public:
  explicit Environment(Block &block) {
    for (Operation &op : block)
      for (Value operand : op.getOperands())
        ++usesLeft[operand];
  }

  void define(Value value, TensorValue tensor) {
    if (usesLeft.contains(value))
      values[value] = std::move(tensor);
  }

  Values take(OperandRange operands) {
    Values taken;
    for (Value operand : operands)
      taken.push_back(values[operand]);
    for (Value operand : operands)
      if (--usesLeft[operand] == 0)
        values.erase(operand);
    return taken;
  }

private:
  llvm::DenseMap<Value, TensorValue> values;
  llvm::DenseMap<Value, unsigned> usesLeft;
};

} // namespace

/// A block of `dit` operations on `arguments`; what its terminator gives.
static FailureOr<Values> evaluateBlock(Block &block, ArrayRef<TensorValue> arguments, function_ref<TensorValue(StringRef)> weight) {
  Environment environment(block);
  for (auto [argument, value] : llvm::zip(block.getArguments(), arguments))
    environment.define(argument, value);
  for (Operation &op : block.without_terminator()) {
    FailureOr<Values> results = Values();
    if (auto named = dyn_cast<WeightOp>(op))
      results->push_back(weight(named.getName()));
    else
      results = evaluateOp(&op, environment.take(op.getOperands()));
    if (failed(results))
      return failure();
    for (auto [result, value] : llvm::zip(op.getResults(), *results)) {
      if (value.type != result.getType() || !value.bytes)
        return op.emitError("evaluates to a tensor of another type than ") << result.getType();
      environment.define(result, value);
    }
  }
  return environment.take(block.getTerminator()->getOperands());
}

/// A fusion means what its body means; weights are operands.
static FailureOr<Values> evaluateFusion(FusionOp op, ArrayRef<TensorValue> in) {
  return evaluateBlock(op.getBodyBlock(), in, [](StringRef) { return TensorValue(); });
}

FailureOr<Values> evaluateFunction(func::FuncOp function, ArrayRef<TensorValue> arguments, function_ref<TensorValue(StringRef)> weight) {
  Block &block = function.getBody().front();
  if (arguments.size() != block.getNumArguments())
    return function.emitError("takes ") << block.getNumArguments() << " arguments, got " << arguments.size();
  for (auto [i, argument] : llvm::enumerate(arguments))
    if (argument.type != block.getArgument(i).getType())
      return function.emitError("argument ") << i << " is " << block.getArgument(i).getType() << ", got " << argument.type;
  return evaluateBlock(block, arguments, weight);
}

} // namespace ditc::dit
