// SPDX-License-Identifier: Apache-2.0
//
// SinkRepeats: rows that are repeated give repeated results. What a model repeats for groups of rows (the modulation of a frame, for
// each of its tokens: Cosmos-Predict2) is computed before it is repeated: maps, norms and products with weights see each row once.
// The map in which such a row meets others reads it by groups: it runs over [groups, rows of a group] in place of all rows. Rows that
// a map repeats by itself are found as well as those of an expansion in front of a reshape.
//
// A result moves in front of its repetition where everything that reads it takes it so, as a map does, in the end; or where it is a
// product that costs more than to spread its rows out behind it. The last dimension is that of columns, and none of rows.
//
// Where keys and values of attention are repeated for neighbouring batches (those of a text for each frame: Latte), queries of these
// batches are queries of one.
//
// Before:
//   func.func @f(%e: tensor<2x1x8xf32>, %w: tensor<8x8xf32>, %x: tensor<6x8xf32>) -> tensor<6x8xf32> {
//     %r = dit.expand %e : tensor<2x1x8xf32> -> tensor<2x3x8xf32>
//     %v = dit.view %r : tensor<2x3x8xf32> -> tensor<6x8xf32>
//     %m = dit.matmul %v, %w transpose_rhs : (tensor<6x8xf32>, tensor<8x8xf32>) -> tensor<6x8xf32>
//     %y = dit.map(%x, %m) : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<6x8xf32> {
//     ^bb0(%p: f32, %q: f32):
//       %s = arith.mulf %p, %q : f32
//       dit.yield %s : f32
//     }
//     return %y : tensor<6x8xf32>
//   }
// After:
//   func.func @f(%e: tensor<2x1x8xf32>, %w: tensor<8x8xf32>, %x: tensor<6x8xf32>) -> tensor<6x8xf32> {
//     %v = dit.view %e : tensor<2x1x8xf32> -> tensor<2x8xf32>
//     %m = dit.matmul %v, %w transpose_rhs : (tensor<2x8xf32>, tensor<8x8xf32>) -> tensor<2x8xf32>
//     %g = dit.view %x : tensor<6x8xf32> -> tensor<2x3x8xf32>
//     %o = dit.view %m : tensor<2x8xf32> -> tensor<2x1x8xf32>
//     %y = dit.map(%g, %o) : (tensor<2x3x8xf32>, tensor<2x1x8xf32>) -> tensor<2x3x8xf32> {
//     ^bb0(%p: f32, %q: f32):
//       %s = arith.mulf %p, %q : f32
//       dit.yield %s : f32
//     }
//     %z = dit.view %y : tensor<2x3x8xf32> -> tensor<6x8xf32>
//     return %z : tensor<6x8xf32>
//   }
#include "dialects/dit/Tensors.h"
#include "dialects/fusion/Cost.h"
#include "passes/Passes.h"
#include "passes/RepeatedKeys.h"
#include "passes/Rewriting.h"
#include "passes/Strided.h"
#include "passes/Terms.h"

#include "mlir/IR/IRMapping.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace ditc {
#define GEN_PASS_DEF_SINKREPEATS
#include "passes/Passes.h.inc"

namespace {

/// Along a dimension of a value, so many rows in a row are the same.
struct Repetition {
  int64_t axis, count;

  bool operator==(const Repetition &) const = default;

  /// The shape without repetitions.
  SmallVector<int64_t> once(ArrayRef<int64_t> shape) const {
    SmallVector<int64_t> result(shape);
    result[axis] /= count;
    return result;
  }
  /// With the dimension cut in two, groups of rows and the rows of a group.
  SmallVector<int64_t> grouped(ArrayRef<int64_t> shape, int64_t rows) const {
    SmallVector<int64_t> result(shape);
    result[axis] /= rows;
    result.insert(result.begin() + axis + 1, rows);
    return result;
  }
};

/// The repetition behind a reshape to `to` of a value of shape `from`, in which the dimensions of `repeated` repeat what the ones
/// before them hold. There is one where those become the inner part of one dimension, which is not the last.
std::optional<Repetition> repetitionBehind(ArrayRef<int64_t> from, const llvm::SmallBitVector &repeated, ArrayRef<int64_t> to) {
  std::optional<Repetition> found;
  if (llvm::is_contained(from, 0))
    return std::nullopt;
  for (auto [firstFrom, endFrom, firstTo, endTo] : reshapeGroups(from, to)) {
    int64_t count = 1, all = 1;
    for (size_t dim = firstFrom; dim < endFrom; ++dim) {
      if (count > 1 && from[dim] > 1 && !repeated[dim])
        return std::nullopt;
      count *= repeated[dim] ? from[dim] : 1;
      all *= from[dim];
    }
    if (count == 1)
      continue;
    const int64_t *whole = llvm::find(to.slice(firstTo, endTo - firstTo), all);
    int64_t axis = whole - to.begin();
    if (found || axis == static_cast<int64_t>(endTo) || axis + 1 == static_cast<int64_t>(to.size()))
      return std::nullopt;
    found = Repetition{axis, count};
  }
  return found;
}

std::optional<Repetition> repetitionOf(dit::ExpandOp expand, ArrayRef<int64_t> to) {
  ArrayRef<int64_t> shape = shapeOf(expand.getResult());
  llvm::SmallBitVector repeated(shape.size());
  for (auto [i, sizes] : llvm::enumerate(llvm::zip(shapeOf(expand.getInput()), shape)))
    repeated[i] = std::get<0>(sizes) != std::get<1>(sizes);
  return repetitionBehind(shape, repeated, to);
}

/// Does a map repeat all that it reads along one dimension?
std::optional<Repetition> repetitionOf(dit::MapOp map) {
  ArrayRef<int64_t> shape = shapeOf(map.getResult());
  for (int64_t axis = 0; axis + 1 < static_cast<int64_t>(shape.size()); ++axis)
    if (shape[axis] > 1 && !map.getInputs().empty() && llvm::all_of(map.getInputs(), [&](Value input) { return shapeOf(input)[axis] == 1; }))
      return Repetition{axis, shape[axis]};
  return std::nullopt;
}

/// The repetition of the result of `op`, where operand `position` has `repetition` and all others are what they need be.
std::optional<Repetition> repetitionBehind(Operation *op, unsigned position, Repetition repetition) {
  auto [axis, count] = repetition;
  ArrayRef<int64_t> from = shapeOf(op->getOperand(position));
  auto keepsAxisIf = [&](bool condition) { return condition ? std::optional(repetition) : std::nullopt; };
  int64_t rank = from.size();
  return llvm::TypeSwitch<Operation *, std::optional<Repetition>>(op)
      .Case([&](dit::MapOp) { return keepsAxisIf(true); })
      .Case([&](dit::MatmulOp product) { return keepsAxisIf(position == 0 && axis + 1 < rank && (axis + 2 == rank || shapeOf(product.getRhs()).size() == 2)); })
      .Case([&](dit::NormOp norm) { return keepsAxisIf(position == 0 && axis + static_cast<int64_t>(norm.getAxes()) < rank); })
      .Case([&](dit::ReduceOp reduce) { return keepsAxisIf(!llvm::is_contained(reduce.getAxes(), axis)); })
      .Case([&](dit::SliceOp slice) { return keepsAxisIf(shapeOf(slice.getResult())[axis] == from[axis]); })
      .Case([&](dit::PermuteOp permute) -> std::optional<Repetition> {
        int64_t moved = llvm::find(permute.getPermutation(), axis) - permute.getPermutation().begin();
        return moved + 1 < rank ? std::optional(Repetition{moved, count}) : std::nullopt;
      })
      .Case([&](dit::ViewOp view) {
        SmallVector<int64_t> grouped = repetition.grouped(from, count);
        llvm::SmallBitVector repeated(grouped.size());
        repeated.set(axis + 1);
        return repetitionBehind(grouped, repeated, shapeOf(view.getResult()));
      })
      .Default(std::nullopt);
}

class Sinker {
public:
  explicit Sinker(func::FuncOp function) : block(function.getBody().front()), b(function.getContext()) {}

  void run() {
    for (Operation &op : llvm::make_early_inc_range(block))
      if (op.getNumResults() == 1) {
        b.setInsertionPoint(&op);
        llvm::TypeSwitch<Operation *>(&op)
            .Case([&](dit::ExpandOp expand) { startAt(expand, expand.getResult()); })
            .Case([&](dit::MapOp map) { visitMap(map); })
            .Default([&](Operation *other) { visit(other); });
      }
    spreadOut();
    eraseDead(block);
  }

private:
  /// A value by its rows, each once.
  struct Rows {
    Value value;
    Repetition repetition;
  };

  void startAt(dit::ExpandOp expand, Value result) {
    if (std::optional<Repetition> found = repetitionOf(expand, shapeOf(result)))
      rows[result] = {viewAs(b, expand.getInput().getLoc(), expand.getInput(), found->once(shapeOf(result))), *found};
  }

  /// An operation with one operand that counts.
  void visit(Operation *op) {
    if (auto view = dyn_cast<dit::ViewOp>(op))
      if (auto expand = view.getInput().getDefiningOp<dit::ExpandOp>())
        return startAt(expand, view.getResult());
    auto known = op->getNumOperands() > 0 ? rows.find(op->getOperand(0)) : rows.end();
    if (known == rows.end())
      return;
    Rows input = known->second;
    std::optional<Repetition> behind = repetitionBehind(op, 0, input.repetition);
    if (!behind || !pays(op, *behind))
      return;
    // By place: a product of rows with themselves reads them whole on its right.
    computeOnce(op, *behind, [&](OpOperand &operand) { return operand.getOperandNumber() == 0 ? input.value : operand.get(); });
  }

  /// A map computes each row once where it reads nothing else, and otherwise reads repeated rows by groups.
  void visitMap(dit::MapOp map) {
    std::optional<Repetition> common = repetitionOf(map);
    for (Value input : map.getInputs())
      if (auto known = rows.find(input); known != rows.end() && (!common || common->count > known->second.repetition.count))
        common = known->second.repetition; // the finest groups
    if (!common)
      return;
    bool isRepeated = llvm::all_of(map.getInputs(), [&](Value input) { return onceOf(input, *common) != nullptr; });
    if (isRepeated && isTakenByRows(map.getResult(), *common) && !isPartOfMaps(map))
      computeOnce(map, *common, [&](OpOperand &operand) { return onceOf(operand.get(), *common); });
    else if (llvm::any_of(map.getInputs(), [&](Value input) { return rows.contains(input) && onceOf(input, *common); }))
      readByGroups(map, *common);
  }

  /// A map's operand without repetitions: the rows, or what has one for all; null where its rows differ.
  Value onceOf(Value operand, const Repetition &repetition) const {
    if (shapeOf(operand)[repetition.axis] == 1)
      return operand;
    auto known = rows.find(operand);
    if (known == rows.end() || known->second.repetition.axis != repetition.axis)
      return {};
    bool isOneRow = shapeOf(known->second.value)[repetition.axis] == 1;
    return isOneRow || known->second.repetition == repetition ? known->second.value : Value();
  }

  /// A map that repeats what it reads is as well a part of the maps that read it, with no launch of its own.
  bool isPartOfMaps(dit::MapOp map) const {
    bool readsRepeated = llvm::any_of(map.getInputs(), [&](Value input) { return rows.contains(input); });
    return !readsRepeated && llvm::all_of(map->getUsers(), llvm::IsaPred<dit::MapOp>);
  }

  void computeOnce(Operation *op, const Repetition &repetition, llvm::function_ref<Value(OpOperand &)> operandOf) {
    Operation *own = b.clone(*op);
    for (OpOperand &operand : op->getOpOperands())
      own->setOperand(operand.getOperandNumber(), operandOf(operand));
    Value result = op->getResult(0);
    own->getResult(0).setType(tensorType(result).clone(repetition.once(shapeOf(result))));
    rows[result] = {own->getResult(0), repetition};
    computed.push_back(result);
  }

  void readByGroups(dit::MapOp map, const Repetition &repetition) {
    SmallVector<int64_t> all(shapeOf(map.getResult()));
    bool isOneGroup = all[repetition.axis] == repetition.count; // a map repeats one row by itself
    IRMapping mapping;
    for (Value operand : map.getInputs()) {
      Value once = onceOf(operand, repetition);
      Value row = once ? once : operand;
      mapping.map(operand, isOneGroup ? row : viewAs(b, row.getLoc(), row, repetition.grouped(shapeOf(row), once ? 1 : repetition.count)));
    }
    Operation *own = b.clone(*map, mapping);
    if (!isOneGroup)
      own->getResult(0).setType(map.getType().clone(repetition.grouped(all, repetition.count)));
    map.getResult().replaceAllUsesWith(viewAs(b, own->getLoc(), own->getResult(0), all));
    map.erase();
  }

  //===-- Where it pays ---------------------------------------------------------------------------===//

  bool pays(Operation *op, const Repetition &repetition) const {
    auto product = dyn_cast<dit::MatmulOp>(op);
    return isTakenByRows(op->getResult(0), repetition) || (product && outweighsSpreading(product, repetition));
  }

  /// Does everything that reads the value take its rows once?
  static bool isTakenByRows(Value value, const Repetition &repetition) {
    return llvm::all_of(value.getUses(), [&](OpOperand &use) {
      Operation *reader = use.getOwner();
      if (isa<dit::MapOp>(reader))
        return true;
      std::optional<Repetition> behind = repetitionBehind(reader, use.getOperandNumber(), repetition);
      auto product = dyn_cast<dit::MatmulOp>(reader);
      return behind && (isTakenByRows(reader->getResult(0), *behind) || (product && outweighsSpreading(product, *behind)));
    });
  }

  /// Is the product of all rows dearer than that of each once, and a launch that writes all?
  static bool outweighsSpreading(dit::MatmulOp product, const Repetition &repetition) {
    const GpuPeaks &gpu = *findGpu("H200");
    Work all = workOf(product), once = all;
    once.matrixFlops /= repetition.count, once.scalarFlops /= repetition.count, once.fp8Flops /= repetition.count;
    once.bytesWritten /= repetition.count;
    double spread = (all.bytesWritten + once.bytesWritten) / gpu.bandwidth + kLaunchSeconds;
    return rooflineSeconds(all, gpu) > rooflineSeconds(once, gpu) + spread;
  }

  //===-- Behind ----------------------------------------------------------------------------------===//

  /// What was computed once and is read whole as well is spread out for those readers. Later values first: what they are made of
  /// is then read no more.
  void spreadOut() {
    for (Value value : llvm::reverse(computed)) {
      Operation *op = value.getDefiningOp();
      if (!value.use_empty()) {
        b.setInsertionPoint(op);
        value.replaceAllUsesWith(spread(rows.at(value), shapeOf(value)));
      }
      op->erase();
    }
  }

  Value spread(const Rows &once, ArrayRef<int64_t> shape) {
    RankedTensorType type = tensorType(once.value);
    Value one = viewAs(b, once.value.getLoc(), once.value, once.repetition.grouped(shapeOf(once.value), 1));
    Value all = dit::ExpandOp::create(b, one.getLoc(), type.clone(once.repetition.grouped(shape, once.repetition.count)), one);
    return viewAs(b, one.getLoc(), all, shape);
  }

  Block &block;
  OpBuilder b;
  llvm::DenseMap<Value, Rows> rows;
  SmallVector<Value> computed; ///< by their rows, with the operations that compute all in place
};

class SinkRepeats : public impl::SinkRepeatsBase<SinkRepeats> {
  void runOnOperation() override {
    Sinker(getOperation()).run();
    shareRepeatedKeys(getOperation());
    eraseDead(getOperation().getBody().front());
  }
};

} // namespace
} // namespace ditc
