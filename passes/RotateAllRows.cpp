// SPDX-License-Identifier: Apache-2.0
//
// RotateAllRows: a rotary embedding of some of the tokens becomes one of all, by tables that leave the others as they are
// (cosine 1, sine 0). `concat(x[:t], rotate(x[t:]))` takes rows apart and puts them together, which no product's epilogue
// can; `rotate(x)` is part of the launch that makes x.
//
// It is looked for by what is computed, not by how it is written: the changed rows are linear functions of themselves, through
// any maps, reshapes, permutes, slices and concats among the columns, with coefficients from tables that are the same in every
// step, or small. The values that a table has in the new rows are solved for (1 in front of the element itself, 0 in front of
// others), so halves, pairs, complex numbers and 2x2 matrices are one case; where there are none, nothing changes. Rows may be
// in front, behind, or on both sides, and the untouched ones may be seen through other views.
//
// x * 1 + y * 0 is x for all finite numbers. An infinity or NaN in one column of a row that the model leaves alone would make its
// partner NaN as well; attention spreads it over all results in either case. Not with `--numerics eager`.
//
// Before:
//   func.func @f(%x: tensor<10x8xbf16>, %cos: tensor<6x8xf32> {dit.invariant}, %sin: tensor<6x8xf32> {dit.invariant}) -> tensor<10x8xbf16> {
//     %text = dit.slice %x offsets [0, 0] steps [1, 1] : tensor<10x8xbf16> -> tensor<4x8xbf16>
//     %image = dit.slice %x offsets [4, 0] steps [1, 1] : tensor<10x8xbf16> -> tensor<6x8xbf16>
//     %a = dit.slice %image offsets [0, 0] steps [1, 1] : tensor<6x8xbf16> -> tensor<6x4xbf16>
//     %b = dit.slice %image offsets [0, 4] steps [1, 1] : tensor<6x8xbf16> -> tensor<6x4xbf16>
//     %n = dit.map(%b) : (tensor<6x4xbf16>) -> tensor<6x4xbf16> {
//     ^bb0(%p: f32):
//       %q = arith.negf %p : f32
//       dit.yield %q : f32
//     }
//     %turned = dit.concat(%n, %a) axis 1 : (tensor<6x4xbf16>, tensor<6x4xbf16>) -> tensor<6x8xbf16>
//     %r = dit.map(%image, %turned, %cos, %sin) : (tensor<6x8xbf16>, tensor<6x8xbf16>, tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<6x8xbf16> {
//     ^bb0(%p: f32, %q: f32, %c: f32, %s: f32):
//       %pc = arith.mulf %p, %c : f32
//       %qs = arith.mulf %q, %s : f32
//       %o = arith.addf %pc, %qs : f32
//       dit.yield %o : f32
//     }
//     %y = dit.concat(%text, %r) axis 0 : (tensor<4x8xbf16>, tensor<6x8xbf16>) -> tensor<10x8xbf16>
//     return %y : tensor<10x8xbf16>
//   }
// After:
//   func.func @f(%x: tensor<10x8xbf16>, %cos: tensor<6x8xf32> {dit.invariant}, %sin: tensor<6x8xf32> {dit.invariant}) -> tensor<10x8xbf16> {
//     %zero = dit.constant dense<0.0> : tensor<1x8xf32>
//     %zeros = dit.expand %zero : tensor<1x8xf32> -> tensor<4x8xf32>
//     %allsin = dit.concat(%zeros, %sin) axis 0 : (tensor<4x8xf32>, tensor<6x8xf32>) -> tensor<10x8xf32>
//     %one = dit.constant dense<1.0> : tensor<1x8xf32>
//     %ones = dit.expand %one : tensor<1x8xf32> -> tensor<4x8xf32>
//     %allcos = dit.concat(%ones, %cos) axis 0 : (tensor<4x8xf32>, tensor<6x8xf32>) -> tensor<10x8xf32>
//     %image = dit.slice %x offsets [0, 0] steps [1, 1] : tensor<10x8xbf16> -> tensor<10x8xbf16>
//     %a = dit.slice %image offsets [0, 0] steps [1, 1] : tensor<10x8xbf16> -> tensor<10x4xbf16>
//     %b = dit.slice %image offsets [0, 4] steps [1, 1] : tensor<10x8xbf16> -> tensor<10x4xbf16>
//     %n = dit.map(%b) : (tensor<10x4xbf16>) -> tensor<10x4xbf16> {
//     ^bb0(%p: f32):
//       %q = arith.negf %p : f32
//       dit.yield %q : f32
//     }
//     %turned = dit.concat(%n, %a) axis 1 : (tensor<10x4xbf16>, tensor<10x4xbf16>) -> tensor<10x8xbf16>
//     %r = dit.map(%image, %turned, %allcos, %allsin) : (tensor<10x8xbf16>, tensor<10x8xbf16>, tensor<10x8xf32>, tensor<10x8xf32>) -> tensor<10x8xbf16> {
//     ^bb0(%p: f32, %q: f32, %c: f32, %s: f32):
//       %pc = arith.mulf %p, %c : f32
//       %qs = arith.mulf %q, %s : f32
//       %o = arith.addf %pc, %qs : f32
//       dit.yield %o : f32
//     }
//     return %r : tensor<10x8xbf16>
//   }
#include "dialects/dit/Tensors.h"
#include "passes/MarkInvariant.h"
#include "passes/Passes.h"
#include "passes/Rewriting.h"
#include "passes/RowFunction.h"

using namespace mlir;

namespace ditc {
#define GEN_PASS_DEF_ROTATEALLROWS
#include "passes/Passes.h.inc"

namespace {

/// A table that is not the same in every step may be at most this fraction of what it is combined with.
constexpr int64_t kTableFraction = 4;

/// Of a row, that are looked at one by one.
constexpr int64_t kMostElements = 1 << 15;

/// A concat of rows that are as they were and rows that a function made of their neighbours.
class PartlyRotated {
public:
  explicit PartlyRotated(dit::ConcatOp concat) : concat(concat) {}

  /// True when it is one, and tables make a function of all rows of it.
  bool match(const llvm::DenseSet<Value> &invariant) {
    if (!findParts() || !rotated->isOnlyFor(concat))
      return false;
    ElementIndex shape = shapeToSolve();
    bool canGrow = rotated->allTables([&](Value table, Value combined) {
      bool isSmall = tensorType(table).getNumElements() * kTableFraction <= tensorType(combined).getNumElements();
      return isa<FloatType>(elementOf(table)) && (isSmall || invariant.contains(table));
    });
    return canGrow && solve(shape);
  }

  void rewrite(SmallVectorImpl<GrownTable> &grown) {
    OpBuilder b(concat);
    Value all = rotated->ofAllRows(b, begin, shapeOf(concat.getResult())[concat.getAxis()], values, grown);
    concat.getResult().replaceAllUsesWith(all);
  }

private:
  bool findParts() {
    std::optional<Rows> first;
    std::optional<std::pair<Value, int64_t>> changed; // and its place
    int64_t place = 0;
    for (Value part : concat.getInputs()) {
      if (std::optional<Rows> rows = rowsBehindViews(part, concat.getAxis())) {
        if (first && (rows->whole != first->whole || rows->axis != first->axis || rows->begin - place != begin))
          return false;
        begin = rows->begin - place;
        first = first ? first : rows;
        untouched.emplace_back(*rows, part, concat.getAxis());
      } else if (std::exchange(changed, std::pair(part, place))) {
        return false;
      }
      place += shapeOf(part)[concat.getAxis()];
    }
    if (!first || !changed || begin < 0 || begin + place > shapeOf(first->whole)[first->axis])
      return false;
    rotated.emplace(Rows{first->whole, first->axis, begin + changed->second, shapeOf(changed->first)[concat.getAxis()]}, changed->first, concat.getAxis());
    return *rotated && llvm::all_of(untouched, [](const RowFunction &part) { return static_cast<bool>(part); });
  }

  /// Shape of the elements that must be looked at: one of those that are alike.
  ElementIndex shapeToSolve() {
    ElementIndex shape(shapeOf(concat.getResult()));
    for (auto [dim, size] : llvm::enumerate(shape)) {
      RowFunction::Dims dims;
      std::optional<int64_t> source = rotated->sourceOf(dim, dims);
      if (source && llvm::all_of(untouched, [&](const RowFunction &part) { return part.sourceOf(dim) == source; })) {
        rotated->setParallel(dims);
        size = 1;
      }
    }
    return shape;
  }

  bool solve(ArrayRef<int64_t> shape) {
    int64_t count = 1;
    for (int64_t size : shape)
      count *= size;
    if (count > kMostElements)
      return false;
    for (int64_t i = 0; i < count; ++i) {
      ElementIndex index = indexOf(i, shape);
      std::optional<LinearForm> form = rotated->at(index);
      std::optional<LinearForm> own = untouched.front().at(index);
      bool isSame = llvm::all_of(untouched, [&](RowFunction &part) { return part.at(index)->front().element == own->front().element; });
      if (!form || !isSame || !solveForElement(*form, *own->front().element, values))
        return false;
    }
    return true;
  }

  dit::ConcatOp concat;
  int64_t begin = 0; ///< of the rows in the whole
  SmallVector<RowFunction, 2> untouched;
  std::optional<RowFunction> rotated;
  TableValues values;
};

/// What else reads a table reads it in the first one that was made of it (HunyuanVideo's double blocks), so that one of them is kept.
/// Inputs are there in any case.
void readGrown(ArrayRef<GrownTable> grown) {
  llvm::DenseSet<Value> seen;
  llvm::DenseSet<Operation *> makers;
  for (const GrownTable &entry : grown)
    makers.insert(entry.rows.whole.getDefiningOp());
  for (auto [table, rows] : grown) {
    bool isReadElsewhere = llvm::any_of(table.getUsers(), [&](Operation *user) { return !makers.contains(user); });
    if (!seen.insert(table).second || isa<BlockArgument>(dit::behindViews(table)) || !isReadElsewhere)
      continue;
    OpBuilder b(table.getContext());
    b.setInsertionPointAfterValue(rows.whole);
    SmallVector<int64_t> offsets(shapeOf(table).size(), 0), steps(shapeOf(table).size(), 1);
    offsets[rows.axis] = rows.begin;
    Value part = dit::SliceOp::create(b, table.getLoc(), tensorType(table), rows.whole, offsets, steps);
    table.replaceUsesWithIf(part, [&](OpOperand &use) { return !makers.contains(use.getOwner()); });
  }
}

class RotateAllRows : public impl::RotateAllRowsBase<RotateAllRows> {
  void runOnOperation() override {
    llvm::DenseSet<Value> invariant = stepInvariantValues(getOperation());
    Block &block = getOperation().getBody().front();
    SmallVector<GrownTable> grown;
    for (dit::ConcatOp concat : llvm::make_early_inc_range(block.getOps<dit::ConcatOp>()))
      if (PartlyRotated parts(concat); parts.match(invariant))
        parts.rewrite(grown);
    eraseDead(block);
    readGrown(grown);
  }
};

} // namespace
} // namespace ditc
