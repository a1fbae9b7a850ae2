// SPDX-License-Identifier: Apache-2.0
//
// ArrangeRows: rows of products are in the order in which that costs nothing. A product does the same with each row, so that
// its rows may be put in another order, or cut into other dimensions, in front of it as well as behind it:
//
//   - what only cuts rows anew between a product and the maps behind it moves in front of it; the maps are then its epilogue, also where
//     they repeat an operand for groups of rows (gates of each video, behind attention within frames). What joins rows between two of
//     those maps moves behind both, and what would be copied for them is read in dimensions that need no copy;
//   - a permutation of rows behind a product of what attention gives moves in front of it, as attention writes its result in any
//     order (torch's MultiheadAttention, which puts tokens before batches);
//   - a permutation of rows in front of products that only attention reads moves behind them, as attention reads in any order; where a
//     norm or a map of its own makes the rows, it writes them in order, and nothing moves;
//   - a stream that meets a product of tokens in another order (temporal attention of several videos) goes on in that order
//     (TokenOrder.h).
//
// Where attention has batches among its heads, because torch's MultiheadAttention is written out so, it has both apart.
//
// Reshapes and permutes in turns that would need a copy on the way become one reshape and one permute, if those need none:
// batch and heads as one dimension, and apart again.
//
// Before:
//   func.func @f(%o: tensor<2x4x6x8xf32>, %k: tensor<2x4x6x8xf32>, %w: tensor<32x32xf32>, %x: tensor<2x6x32xf32>) -> tensor<2x6x32xf32> {
//     %a = dit.attention %o, %k, %k scale 1.0 : (tensor<2x4x6x8xf32>, tensor<2x4x6x8xf32>, tensor<2x4x6x8xf32>) -> tensor<2x4x6x8xf32>
//     %p = dit.permute %a [2, 0, 1, 3] : tensor<2x4x6x8xf32> -> tensor<6x2x4x8xf32>
//     %v = dit.view %p : tensor<6x2x4x8xf32> -> tensor<12x32xf32>
//     %m = dit.matmul %v, %w transpose_rhs : (tensor<12x32xf32>, tensor<32x32xf32>) -> tensor<12x32xf32>
//     %r = dit.view %m : tensor<12x32xf32> -> tensor<6x2x32xf32>
//     %t = dit.permute %r [1, 0, 2] : tensor<6x2x32xf32> -> tensor<2x6x32xf32>
//     %y = dit.map(%x, %t) : (tensor<2x6x32xf32>, tensor<2x6x32xf32>) -> tensor<2x6x32xf32> {
//     ^bb0(%b: f32, %c: f32):
//       %s = arith.addf %b, %c : f32
//       dit.yield %s : f32
//     }
//     return %y : tensor<2x6x32xf32>
//   }
// After:
//   func.func @f(%o: tensor<2x4x6x8xf32>, %k: tensor<2x4x6x8xf32>, %w: tensor<32x32xf32>, %x: tensor<2x6x32xf32>) -> tensor<2x6x32xf32> {
//     %a = dit.attention %o, %k, %k scale 1.0 : (tensor<2x4x6x8xf32>, tensor<2x4x6x8xf32>, tensor<2x4x6x8xf32>) -> tensor<2x4x6x8xf32>
//     %p = dit.permute %a [0, 2, 1, 3] : tensor<2x4x6x8xf32> -> tensor<2x6x4x8xf32>
//     %v = dit.view %p : tensor<2x6x4x8xf32> -> tensor<2x6x32xf32>
//     %m = dit.matmul %v, %w transpose_rhs : (tensor<2x6x32xf32>, tensor<32x32xf32>) -> tensor<2x6x32xf32>
//     %y = dit.map(%x, %m) : (tensor<2x6x32xf32>, tensor<2x6x32xf32>) -> tensor<2x6x32xf32> {
//     ^bb0(%b: f32, %c: f32):
//       %s = arith.addf %b, %c : f32
//       dit.yield %s : f32
//     }
//     return %y : tensor<2x6x32xf32>
//   }
#include "dialects/dit/Tensors.h"
#include "passes/Passes.h"
#include "passes/Rearrangement.h"
#include "passes/Rewriting.h"
#include "passes/Strided.h"
#include "passes/Terms.h"
#include "passes/TokenOrder.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace ditc {
#define GEN_PASS_DEF_ARRANGEROWS
#include "passes/Passes.h.inc"

namespace {

bool isRearranging(Operation *op) { return isa_and_present<dit::ViewOp, dit::PermuteOp>(op); }

/// With the other rows on the left: the product of each is the same.
Value productOf(OpBuilder &b, dit::MatmulOp product, Value rows) {
  SmallVector<int64_t> shape(shapeOf(rows));
  shape.back() = product.getType().getShape().back();
  return dit::MatmulOp::create(b, product.getLoc(), product.getType().clone(shape), rows, product.getRhs(), product.getBias(), product.getTransposeRhs());
}

bool takesAnyRows(dit::MatmulOp product) { return tensorType(product.getRhs()).getRank() == 2; }

class Arranger {
public:
  explicit Arranger(func::FuncOp function) : block(function.getBody().front()), b(function.getContext()) {}

  void run(func::FuncOp function) {
    for (dit::AttentionOp attention : llvm::make_early_inc_range(block.getOps<dit::AttentionOp>()))
      tellBatches(attention);
    arrangeProducts();
    keepTokenOrder(function);
    for (Operation &op : llvm::make_early_inc_range(block))
      if (auto map = dyn_cast<dit::MapOp>(op))
        takeFinerRows(map);
      else if (auto norm = dyn_cast<dit::NormOp>(op))
        takeFinerRows(norm);
    eraseDead(block);
    arrangeProducts(); // of maps with finer rows
    for (Operation &op : llvm::make_early_inc_range(block))
      if (isRearranging(&op) && !llvm::all_of(op.getUsers(), isRearranging))
        takeOneStep(op.getResult(0));
    eraseDead(block);
  }

private:
  void arrangeProducts() {
    for (dit::MatmulOp product : llvm::make_early_inc_range(block.getOps<dit::MatmulOp>()))
      if (takesAnyRows(product) && !moveInFront(product))
        moveBehind(product);
    eraseDead(block);
  }

  //===-- Batches ----------------------------------------------------------------------------------===//

  /// Batches among the heads of attention, as torch's MultiheadAttention has both where it is written out: of which many each query, key
  /// and value is made by heads of its batch; nothing where that is not so, or none would be copied for being one dimension.
  static std::optional<std::pair<int64_t, int64_t>> batchesAmongHeads(dit::AttentionOp op) {
    std::optional<std::pair<int64_t, int64_t>> found;
    int copies = 0;
    for (Value operand : {op.getQuery(), op.getKey(), op.getValue()}) {
      std::optional<Rearrangement> whole = shapeOf(operand)[0] == 1 ? Rearrangement::of(operand) : std::nullopt;
      if (!whole || whole->partsOf(1).size() != 2)
        return std::nullopt;
      SmallVector<int64_t> sizes = whole->partSizes();
      std::pair parts{sizes[whole->partsOf(1)[0]], sizes[whole->partsOf(1)[1]]};
      if (found.value_or(parts) != parts)
        return std::nullopt;
      found = parts;
      copies += copiesFor(operand);
    }
    return copies > 0 ? found : std::nullopt;
  }

  void tellBatches(dit::AttentionOp op) {
    auto apart = batchesAmongHeads(op);
    if (!apart)
      return;
    b.setInsertionPoint(op);
    auto byBatches = [&](Value value) {
      ArrayRef<int64_t> shape = shapeOf(value);
      bool isForAll = shape[1] == 1;
      return inOneStep(b, viewAs(b, value.getLoc(), value, {isForAll ? 1 : apart->first, isForAll ? 1 : apart->second, shape[2], shape[3]}));
    };
    IRMapping mapping;
    for (Value operand : op->getOperands())
      mapping.map(operand, byBatches(operand));
    auto own = cast<dit::AttentionOp>(b.clone(*op, mapping));
    ArrayRef<int64_t> shape = op.getType().getShape();
    own.getResult().setType(op.getType().clone({apart->first, apart->second, shape[2], shape[3]}));
    op.getResult().replaceAllUsesWith(viewAs(b, op.getLoc(), own.getResult(), shape));
    op.erase();
  }

  //===-- In front ---------------------------------------------------------------------------------===//

  /// What rearranges the rows of a product for the maps that read them.
  bool moveInFront(dit::MatmulOp product) {
    Value end = product.getResult();
    while (end.hasOneUse() && isRearranging(*end.user_begin()))
      end = end.user_begin()->getResult(0);
    bool isReadByMaps = !end.use_empty() && llvm::all_of(end.getUsers(), llvm::IsaPred<dit::MapOp>);
    std::optional<Rearrangement> behind = end != product.getResult() && isReadByMaps ? Rearrangement::of(end, product.getResult()) : std::nullopt;
    Value left = product.getLhs();
    if (!behind || !behind->keepsColumns() || shapeOf(end).size() < 2 || left.getDefiningOp<dit::ConcatOp>()) // parts of k are read where they are
      return false;
    bool isAttention = isOfAttentionAlone(left);
    b.setInsertionPoint(product);
    Value rows = inOneStep(b, behind->apply(b, product.getLoc(), left));
    bool isFree = behind->isReshape() || (isAttention && keepsDimensionsTogether(rows));
    if (!isFree || copiesFor(rows) > copiesFor(left))
      return false;
    end.replaceAllUsesWith(productOf(b, product, rows));
    return true;
  }

  /// What nothing else reads, attention writes as it is wanted here,
  static bool isOfAttentionAlone(Value rows) {
    std::optional<Rearrangement> whole = Rearrangement::of(rows);
    return whole && whole->source().getDefiningOp<dit::AttentionOp>() && whole->source().hasOneUse();
  }

  /// with a stride for batches and one for tokens.
  static bool keepsDimensionsTogether(Value rows) {
    std::optional<Rearrangement> whole = Rearrangement::of(rows);
    return whole && whole->keepsDimensionsTogether();
  }

  //===-- Behind -----------------------------------------------------------------------------------===//

  /// An operand of attention, and what it is a rearrangement of: a product or some of its columns.
  struct Read {
    OpOperand *use;
    Value columns;
  };

  /// What rearranges the rows that a product reads, if attention can do with them as they are.
  void moveBehind(dit::MatmulOp product) {
    std::optional<Rearrangement> before = Rearrangement::of(product.getLhs());
    SmallVector<Read> reads;
    if (!before || before->isReshape() || shapeOf(before->source()).size() < 2 || !before->keepsColumns() || isWrittenInOrder(before->source()) || !findReads(product.getResult(), product.getResult(), reads))
      return;
    b.setInsertionPoint(product);
    Value whole = productOf(b, product, before->source());
    SmallVector<Value> operands;
    for (auto [use, columns] : reads) {
      b.setInsertionPoint(use->getOwner());
      std::optional<Rearrangement> behind = Rearrangement::of(use->get(), columns);
      if (!behind)
        return;
      operands.push_back(inOneStep(b, behind->apply(b, product.getLoc(), before->apply(b, product.getLoc(), columnsOf(whole, columns.getDefiningOp<dit::SliceOp>())))));
      if (copiesFor(operands.back()) > 0)
        return;
    }
    for (auto [read, operand] : llvm::zip(reads, operands))
      read.use->set(operand);
  }

  /// Is it computed for this alone, by a kernel that may as well store each row elsewhere?
  static bool isWrittenInOrder(Value rows) { return isa_and_present<dit::NormOp, dit::MapOp>(rows.getDefiningOp()) && rows.hasOneUse(); }

  static bool isOfColumns(dit::SliceOp slice) { return slice.getType().getShape().drop_back() == shapeOf(slice.getInput()).drop_back(); }

  static bool findReads(Value value, Value columns, SmallVector<Read> &reads) {
    return llvm::all_of(value.getUses(), [&](OpOperand &use) {
      Operation *user = use.getOwner();
      if (isRearranging(user))
        return findReads(user->getResult(0), columns, reads);
      if (auto slice = dyn_cast<dit::SliceOp>(user); slice && value == columns && value.getDefiningOp<dit::MatmulOp>() && isOfColumns(slice))
        return findReads(slice.getResult(), slice.getResult(), reads);
      reads.push_back({&use, columns});
      return isa<dit::AttentionOp>(user) && use.getOperandNumber() < 3;
    });
  }

  /// Those that `slice` has, or all.
  Value columnsOf(Value whole, dit::SliceOp slice) {
    if (!slice)
      return whole;
    SmallVector<int64_t> shape(shapeOf(whole)), offsets(shape.size(), 0), steps(shape.size(), 1);
    shape.back() = slice.getType().getShape().back();
    offsets.back() = slice.getOffsets().back();
    steps.back() = slice.getSteps().back();
    return dit::SliceOp::create(b, slice.getLoc(), tensorType(whole).clone(shape), whole, offsets, steps);
  }

  //===-- Finer rows -------------------------------------------------------------------------------===//

  /// A product that nothing else reads, or maps of one, which may be its epilogue.
  static bool isEpilogue(Value value) {
    auto map = value.getDefiningOp<dit::MapOp>();
    return value.hasOneUse() && (value.getDefiningOp<dit::MatmulOp>() || (map && llvm::any_of(map.getInputs(), isEpilogue)));
  }

  /// What a map reads of one behind a product that has rows of more dimensions, and is read by nothing else; or what it adds to a product,
  /// and would be copied for that. Null when there is nothing.
  static dit::ViewOp readOfFinerRows(dit::MapOp map) {
    for (Value input : map.getInputs()) {
      auto view = input.getDefiningOp<dit::ViewOp>();
      if (!view || shapeOf(input) != map.getType().getShape() || !joinsRows(view))
        continue;
      bool isOfEpilogue = view->hasOneUse() && view.getInput().getDefiningOp<dit::MapOp>() && isEpilogue(view.getInput());
      if (isOfEpilogue || (copiesFor(input) > copiesFor(view.getInput()) && llvm::any_of(map.getInputs(), isEpilogue)))
        return view;
    }
    return {};
  }

  static bool joinsRows(dit::ViewOp view) {
    ArrayRef<int64_t> fine = shapeOf(view.getInput()), joined = shapeOf(view.getResult());
    return view.getType().getNumElements() > 0 && !fine.empty() && !joined.empty() && fine.back() == joined.back() &&
           llvm::all_of(reshapeGroups(fine, joined), [](const ReshapeGroup &group) { return group.endTo == group.firstTo + 1; });
  }

  /// A map reads what is in front of it without a reshape between them that would keep it out of the product's epilogue.
  void takeFinerRows(dit::MapOp map) {
    dit::ViewOp view = readOfFinerRows(map);
    if (!view)
      return;
    b.setInsertionPoint(map);
    map.getResult().replaceAllUsesWith(viewAs(b, map.getLoc(), withFinerRows(map, view), map.getType().getShape()));
  }

  Value withFinerRows(dit::MapOp map, dit::ViewOp view) {
    ArrayRef<int64_t> fine = shapeOf(view.getInput());
    IRMapping mapping;
    for (Value input : map.getInputs())
      mapping.map(input, withFinerRows(input, view));
    auto own = cast<dit::MapOp>(b.clone(*map, mapping));
    own.getResult().setType(map.getType().clone(fine));
    return own.getResult();
  }

  /// An operand of a map of the shape that `view` gives, as it has it without the view.
  Value withFinerRows(Value operand, dit::ViewOp view) {
    ArrayRef<int64_t> fine = shapeOf(view.getInput()), joined = shapeOf(view.getResult());
    if (operand == view.getResult())
      return view.getInput();
    if (auto map = operand.getDefiningOp<dit::MapOp>(); map && isEpilogue(operand) && shapeOf(operand) == joined)
      return withFinerRows(map, view);
    SmallVector<int64_t> shape(fine);
    for (const ReshapeGroup &group : reshapeGroups(fine, joined))
      if (shapeOf(operand)[group.firstTo] == 1)
        std::fill(shape.begin() + group.firstFrom, shape.begin() + group.endFrom, 1);
    return viewAs(b, operand.getLoc(), operand, shape);
  }

  /// A norm reads rows of more dimensions where those it has would be copied for it.
  void takeFinerRows(dit::NormOp norm) {
    auto view = norm.getInput().getDefiningOp<dit::ViewOp>();
    if (!view || norm.getAxes() != 1 || shapeOf(view.getInput()).empty() || shapeOf(view.getInput()).back() != shapeOf(view.getResult()).back() || copiesFor(view.getResult()) <= copiesFor(view.getInput()))
      return;
    b.setInsertionPoint(norm);
    IRMapping mapping;
    mapping.map(view.getResult(), view.getInput());
    auto own = cast<dit::NormOp>(b.clone(*norm, mapping));
    own.getResult().setType(norm.getType().clone(shapeOf(view.getInput())));
    norm.getResult().replaceAllUsesWith(viewAs(b, norm.getLoc(), own.getResult(), norm.getType().getShape()));
    norm.erase();
  }

  //===-- In one step ------------------------------------------------------------------------------===//

  void takeOneStep(Value value) {
    int copies = copiesFor(value);
    if (copies == 0)
      return;
    b.setInsertionPointAfter(value.getDefiningOp());
    if (Value direct = inOneStep(b, value); direct != value && copiesFor(direct) < copies)
      value.replaceUsesWithIf(direct, [&](OpOperand &use) { return !isRearranging(use.getOwner()); });
  }

  Block &block;
  OpBuilder b;
};

class ArrangeRows : public impl::ArrangeRowsBase<ArrangeRows> {
  void runOnOperation() override { Arranger(getOperation()).run(getOperation()); }
};

} // namespace
} // namespace ditc
