// SPDX-License-Identifier: Apache-2.0
//
// SinkConcats: joint attention concatenates the text and image parts of Q, K and V, and often rotates or
// scales them afterwards. Those maps and views move before the concat, onto the parts, where they fit into
// the epilogues of the products; the concat reaches the attention, which reads its parts as ranges of tokens.
// Only concats that end in attention move: elsewhere one kernel over all tokens is better than two.
//
// Before:
//   func.func @f(%a: tensor<1x4x4x8xf32>, %b: tensor<1x4x6x8xf32>, %t: tensor<1x1x10x8xf32>, %k: tensor<1x4x10x8xf32>) -> tensor<1x4x10x8xf32> {
//     %c = dit.concat(%a, %b) axis 2 : (tensor<1x4x4x8xf32>, tensor<1x4x6x8xf32>) -> tensor<1x4x10x8xf32>
//     %q = dit.map(%c, %t) : (tensor<1x4x10x8xf32>, tensor<1x1x10x8xf32>) -> tensor<1x4x10x8xf32> {
//     ^bb0(%x: f32, %y: f32):
//       %m = arith.mulf %x, %y : f32
//       dit.yield %m : f32
//     }
//     %o = dit.attention %q, %k, %k scale 1.0 : (tensor<1x4x10x8xf32>, tensor<1x4x10x8xf32>, tensor<1x4x10x8xf32>) -> tensor<1x4x10x8xf32>
//     return %o : tensor<1x4x10x8xf32>
//   }
// After:
//   func.func @f(%a: tensor<1x4x4x8xf32>, %b: tensor<1x4x6x8xf32>, %t: tensor<1x1x10x8xf32>, %k: tensor<1x4x10x8xf32>) -> tensor<1x4x10x8xf32> {
//     %t0 = dit.slice %t offsets [0, 0, 0, 0] steps [1, 1, 1, 1] : tensor<1x1x10x8xf32> -> tensor<1x1x4x8xf32>
//     %q0 = dit.map(%a, %t0) : (tensor<1x4x4x8xf32>, tensor<1x1x4x8xf32>) -> tensor<1x4x4x8xf32> {
//     ^bb0(%x: f32, %y: f32):
//       %m = arith.mulf %x, %y : f32
//       dit.yield %m : f32
//     }
//     %t1 = dit.slice %t offsets [0, 0, 4, 0] steps [1, 1, 1, 1] : tensor<1x1x10x8xf32> -> tensor<1x1x6x8xf32>
//     %q1 = dit.map(%b, %t1) : (tensor<1x4x6x8xf32>, tensor<1x1x6x8xf32>) -> tensor<1x4x6x8xf32> {
//     ^bb0(%x: f32, %y: f32):
//       %m = arith.mulf %x, %y : f32
//       dit.yield %m : f32
//     }
//     %c = dit.concat(%q0, %q1) axis 2 : (tensor<1x4x4x8xf32>, tensor<1x4x6x8xf32>) -> tensor<1x4x10x8xf32>
//     %o = dit.attention %c, %k, %k scale 1.0 : (tensor<1x4x10x8xf32>, tensor<1x4x10x8xf32>, tensor<1x4x10x8xf32>) -> tensor<1x4x10x8xf32>
//     return %o : tensor<1x4x10x8xf32>
//   }
#include "dialects/dit/Tensors.h"
#include "passes/Passes.h"
#include "passes/Strided.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace ditc {
#define GEN_PASS_DEF_SINKCONCATS
#include "passes/Passes.h.inc"

namespace {

/// A table may be cut into parts when it is at most this fraction of what it is combined with.
constexpr int64_t kTableFraction = 4;

class Sinker {
public:
  explicit Sinker(func::FuncOp function) : function(function) {}

  void run() {
    Block &block = function.getBody().front();
    for (Operation &op : block)
      if (auto concat = dyn_cast<dit::ConcatOp>(op); concat && concat.getInputs().size() <= 3 && endsInAttention(concat.getResult()))
        moving.insert(concat);
    for (Operation &op : llvm::make_early_inc_range(block))
      sinkThrough(&op);
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
      if (op.use_empty() && (isa<dit::ConcatOp>(op) || dead.contains(&op)))
        op.erase();
  }

private:
  /// True when every reader, behind maps and views, is the query, key or value of an attention.
  bool endsInAttention(Value value) {
    auto [known, isNew] = ends.try_emplace(value, false);
    if (!isNew)
      return known->second;
    bool all = !value.use_empty() && llvm::all_of(value.getUses(), [&](OpOperand &use) {
      Operation *user = use.getOwner();
      if (isa<dit::AttentionOp>(user))
        return use.getOperandNumber() < 3;
      return (dit::isViewOp(user) || isa<dit::MapOp, dit::ConcatOp, dit::NormOp>(user)) && endsInAttention(user->getResult(0));
    });
    ends[value] = all;
    return all;
  }

  dit::ConcatOp movingConcat(Value value) const {
    auto concat = value.getDefiningOp<dit::ConcatOp>();
    return concat && moving.contains(concat) ? concat : dit::ConcatOp();
  }

  /// The dimension of the result along which `op` keeps the parts of a concat along `axis` apart.
  static std::optional<int64_t> resultAxis(Operation *op, int64_t axis) {
    if (isa<dit::MapOp, dit::ExpandOp>(op))
      return axis;
    if (auto norm = dyn_cast<dit::NormOp>(op))
      return axis + static_cast<int64_t>(norm.getAxes()) < tensorType(norm.getInput()).getRank() ? std::optional(axis) : std::nullopt;
    if (auto concat = dyn_cast<dit::ConcatOp>(op))
      return concat.getAxis() != static_cast<uint64_t>(axis) ? std::optional(axis) : std::nullopt;
    if (auto slice = dyn_cast<dit::SliceOp>(op))
      return slice.getType().getDimSize(axis) == tensorType(slice.getInput()).getDimSize(axis) ? std::optional(axis) : std::nullopt;
    if (auto permute = dyn_cast<dit::PermuteOp>(op))
      return llvm::find(permute.getPermutation(), axis) - permute.getPermutation().begin();
    if (auto view = dyn_cast<dit::ViewOp>(op))
      return keptAxis(tensorType(view.getInput()).getShape(), view.getType().getShape(), axis);
    return std::nullopt;
  }

  void sinkThrough(Operation *op) {
    if (isa<dit::AttentionOp>(op) || op->getNumResults() != 1 || !endsInAttention(op->getResult(0)))
      return;
    dit::ConcatOp concat;
    for (Value operand : op->getOperands())
      if (!concat)
        concat = movingConcat(operand);
    if (!concat || (isa<dit::ConcatOp>(op) && !resultAxis(op, concat.getAxis())))
      return;
    std::optional<int64_t> axis = resultAxis(op, concat.getAxis());
    if (!axis || !llvm::all_of(op->getOperands(), [&](Value operand) { return canCut(op, operand, concat); }))
      return;
    replace(op, concat, *axis);
  }

  /// An operand that comes in the same parts, is repeated along the axis, or is a small table.
  bool canCut(Operation *op, Value operand, dit::ConcatOp concat) const {
    int64_t axis = concat.getAxis();
    if (isa<dit::NormOp>(op) && operand != op->getOperand(0))
      return true; // affine parameters of trailing dimensions
    if (auto other = movingConcat(operand))
      return other.getAxis() == concat.getAxis() && other.getInputs().size() == concat.getInputs().size() &&
             llvm::all_of(llvm::zip(other.getInputs(), concat.getInputs()),
                          [&](auto pair) { return tensorType(std::get<0>(pair)).getDimSize(axis) == tensorType(std::get<1>(pair)).getDimSize(axis); });
    auto type = tensorType(operand), whole = tensorType(concat.getResult());
    return type.getRank() == whole.getRank() && (type.getDimSize(axis) == 1 || type.getNumElements() * kTableFraction <= whole.getNumElements());
  }

  /// The part of `operand` that belongs to part `i` of `concat`.
  Value cut(OpBuilder &b, Operation *op, Value operand, dit::ConcatOp concat, size_t i, int64_t start) {
    if (auto other = movingConcat(operand))
      return other.getInputs()[i];
    int64_t axis = concat.getAxis();
    auto type = tensorType(operand);
    if ((isa<dit::NormOp>(op) && operand != op->getOperand(0)) || type.getDimSize(axis) == 1)
      return operand;
    SmallVector<int64_t> shape(type.getShape()), offsets(type.getRank(), 0), steps(type.getRank(), 1);
    shape[axis] = tensorType(concat.getInputs()[i]).getDimSize(axis);
    offsets[axis] = start;
    return dit::SliceOp::create(b, op->getLoc(), type.clone(shape), operand, offsets, steps);
  }

  void replace(Operation *op, dit::ConcatOp concat, int64_t axis) {
    OpBuilder b(op);
    auto type = tensorType(op->getResult(0));
    SmallVector<Value> parts;
    int64_t start = 0;
    for (size_t i = 0; i < concat.getInputs().size(); ++i) {
      int64_t size = tensorType(concat.getInputs()[i]).getDimSize(concat.getAxis());
      IRMapping mapping;
      for (Value operand : op->getOperands())
        mapping.map(operand, cut(b, op, operand, concat, i, start));
      SmallVector<int64_t> shape(type.getShape());
      shape[axis] = size;
      Operation *part = b.clone(*op, mapping);
      part->getResult(0).setType(type.clone(shape));
      parts.push_back(part->getResult(0));
      start += size;
    }
    auto sunk = dit::ConcatOp::create(b, concat.getLoc(), type, parts, axis);
    moving.insert(sunk);
    ends[sunk.getResult()] = true;
    op->getResult(0).replaceAllUsesWith(sunk.getResult());
    dead.insert(op);
  }

  func::FuncOp function;
  llvm::DenseSet<Operation *> moving; ///< concats on their way to an attention
  llvm::DenseSet<Operation *> dead;   ///< operations that were replaced by their parts
  llvm::DenseMap<Value, bool> ends;
};

class SinkConcats : public impl::SinkConcatsBase<SinkConcats> {
  void runOnOperation() override { Sinker(getOperation()).run(); }
};

} // namespace
} // namespace ditc
