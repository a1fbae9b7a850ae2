// SPDX-License-Identifier: Apache-2.0
//
// SplitNorms: a norm over few and very long rows (GroupNorm of large images: 32 groups of millions of elements) would be a
// block for each row, and most of a GPU would stand still. Its rows are cut into parts, each of which gets its mean and the
// squared distances from it, by as many blocks as there are parts; a small kernel joins them (Chan, Golub and LeVeque), and
// what is left is arithmetic on elements. Sums are in a fixed order, so that results are the same in every run.
//
// Before:
//   func.func @f(%x: tensor<1x2x524288xbf16>) -> tensor<1x2x524288xbf16> {
//     %y = dit.fusion "rowwise"(%x) : (tensor<1x2x524288xbf16>) -> tensor<1x2x524288xbf16> {
//     ^bb0(%a: tensor<1x2x524288xbf16>):
//       %n = dit.norm layer %a axes 1 eps 1.000000e-06 : (tensor<1x2x524288xbf16>) -> tensor<1x2x524288xbf16>
//       dit.yield %n : tensor<1x2x524288xbf16>
//     }
//     return %y : tensor<1x2x524288xbf16>
//   }
// After:
//   func.func @f(%arg0: tensor<1x2x524288xbf16>) -> tensor<1x2x524288xbf16> {
//     %0 = dit.view %arg0 : tensor<1x2x524288xbf16> -> tensor<128x8192xbf16>
//     %1:2 = dit.fusion "rowwise"(%0) : (tensor<128x8192xbf16>) -> (tensor<128x1xf32>, tensor<128x1xf32>) {
//     ^bb0(%arg1: tensor<128x8192xbf16>):
//       %8 = dit.reduce  mean %arg1 axes [1] : (tensor<128x8192xbf16>) -> tensor<128x1xf32>
//       %9 = dit.map(%arg1, %8) : (tensor<128x8192xbf16>, tensor<128x1xf32>) -> tensor<128x8192xf32> {
//       ^bb0(%arg2: f32, %arg3: f32):
//         %11 = arith.subf %arg2, %arg3 : f32
//         %12 = arith.mulf %11, %11 : f32
//         dit.yield %12 : f32
//       }
//       %10 = dit.reduce  sum %9 axes [1] : (tensor<128x8192xf32>) -> tensor<128x1xf32>
//       dit.yield %8, %10 : tensor<128x1xf32>, tensor<128x1xf32>
//     }
//     %2 = dit.view %1#0 : tensor<128x1xf32> -> tensor<2x64xf32>
//     %3 = dit.view %1#1 : tensor<128x1xf32> -> tensor<2x64xf32>
//     %4:2 = dit.fusion "rowwise"(%2, %3) : (tensor<2x64xf32>, tensor<2x64xf32>) -> (tensor<2x1xf32>, tensor<2x1xf32>) {
//     ^bb0(%arg1: tensor<2x64xf32>, %arg2: tensor<2x64xf32>):
//       %8 = dit.reduce  mean %arg1 axes [1] : (tensor<2x64xf32>) -> tensor<2x1xf32>
//       %9 = dit.map(%arg1, %8, %arg2) : (tensor<2x64xf32>, tensor<2x1xf32>, tensor<2x64xf32>) -> tensor<2x64xf32> {
//       ^bb0(%arg3: f32, %arg4: f32, %arg5: f32):
//         %12 = arith.subf %arg3, %arg4 : f32
//         %13 = arith.mulf %12, %12 : f32
//         %cst = arith.constant 8.192000e+03 : f32
//         %14 = arith.mulf %13, %cst : f32
//         %15 = arith.addf %14, %arg5 : f32
//         dit.yield %15 : f32
//       }
//       %10 = dit.reduce  sum %9 axes [1] : (tensor<2x64xf32>) -> tensor<2x1xf32>
//       %11 = dit.map(%10) : (tensor<2x1xf32>) -> tensor<2x1xf32> {
//       ^bb0(%arg3: f32):
//         %cst = arith.constant 5.242880e+05 : f32
//         %12 = arith.divf %arg3, %cst : f32
//         %cst_0 = arith.constant 9.99999997E-7 : f32
//         %13 = arith.addf %12, %cst_0 : f32
//         %14 = math.rsqrt %13 : f32
//         dit.yield %14 : f32
//       }
//       dit.yield %8, %11 : tensor<2x1xf32>, tensor<2x1xf32>
//     }
//     %5 = dit.view %4#0 : tensor<2x1xf32> -> tensor<1x2x1xf32>
//     %6 = dit.view %4#1 : tensor<2x1xf32> -> tensor<1x2x1xf32>
//     %7 = dit.fusion "rowwise"(%arg0, %5, %6) : (tensor<1x2x524288xbf16>, tensor<1x2x1xf32>, tensor<1x2x1xf32>) -> tensor<1x2x524288xbf16> {
//     ^bb0(%arg1: tensor<1x2x524288xbf16>, %arg2: tensor<1x2x1xf32>, %arg3: tensor<1x2x1xf32>):
//       %8 = dit.map(%arg1, %arg2, %arg3) : (tensor<1x2x524288xbf16>, tensor<1x2x1xf32>, tensor<1x2x1xf32>) -> tensor<1x2x524288xbf16> {
//       ^bb0(%arg4: f32, %arg5: f32, %arg6: f32):
//         %9 = arith.subf %arg4, %arg5 : f32
//         %10 = arith.mulf %9, %arg6 : f32
//         dit.yield %10 : f32
//       }
//       dit.yield %8 : tensor<1x2x524288xbf16>
//     }
//     return %7 : tensor<1x2x524288xbf16>
//   }
#include "dialects/dit/Tensors.h"
#include "passes/Fusions.h"
#include "passes/Passes.h"
#include "passes/Rewriting.h"
#include "passes/Terms.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace ditc {
#define GEN_PASS_DEF_SPLITNORMS
#include "passes/Passes.h.inc"

namespace {

/// Rows that fill a GPU by themselves (an H200 has 132 multiprocessors), and rows that a block reads in some 10 us, are
/// left whole: two launches more would gain nothing.
constexpr int64_t kMostRows = 128, kShortestRow = int64_t(1) << 19;
/// A part is worth a block, and its elements stay in the caches between its two sums.
constexpr int64_t kShortestPart = 8192, kLongestPart = 65536;

int64_t rowOf(dit::NormOp norm) { return ShapedType::getNumElements(shapeOf(norm.getInput()).take_back(norm.getAxes())); }

/// Parts of a row, of equal length; 1 where there is no such number.
int64_t partsOf(int64_t row) {
  for (int64_t parts = row / kShortestPart; parts > row / kLongestPart; --parts)
    if (row % parts == 0 && row / parts % 8 == 0) // a part begins where 16 bytes do
      return parts;
  return 1;
}

bool isLong(dit::NormOp norm) {
  int64_t row = rowOf(norm), rows = tensorType(norm.getInput()).getNumElements() / std::max<int64_t>(row, 1);
  return norm.getKind() == dit::NormKind::Layer && !norm.getWeight() && !norm.getBias() && !elementOf(norm.getInput()).isF64() && rows <= kMostRows && row >= kShortestRow && partsOf(row) > 1;
}

class Splitter {
public:
  explicit Splitter(MLIRContext *context) : b(context) {}

  void run(dit::FusionOp fusion) {
    while (fusion) {
      auto norms = fusion.getBodyBlock().getOps<dit::NormOp>();
      auto found = llvm::find_if(norms, isLong);
      fusion = found == norms.end() ? dit::FusionOp() : split(fusion, *found);
    }
  }

private:
  /// The fusion without the norm, which becomes arithmetic on elements there.
  dit::FusionOp split(dit::FusionOp fusion, dit::NormOp norm) {
    Operation *next = fusion->getNextNode();
    SmallVector<Operation *> ops = inlineFusion(fusion);
    b.setInsertionPoint(ops.front());
    auto [mean, inverse] = statisticsOf(norm, ops);
    b.setInsertionPoint(norm);
    Value result = mapOf(b, norm.getLoc(), tensorType(norm.getResult()), {norm.getInput(), mean, inverse}, [](OpBuilder &b, Location loc, ValueRange x) -> Value {
      Value distance = arith::SubFOp::create(b, loc, x[0], x[1]);
      return arith::MulFOp::create(b, loc, distance, x[2]);
    });
    *llvm::find(ops, norm.getOperation()) = result.getDefiningOp();
    norm.replaceAllUsesWith(result);
    norm.erase();
    b.setInsertionPoint(next);
    return makeFusion(b, "rowwise", ops, resultsReadOutside(ops));
  }

  /// (x - mean)² of all elements.
  Value squares(Location loc, Value x, Value mean) {
    return mapOf(b, loc, RankedTensorType::get(shapeOf(x), b.getF32Type()), {x, mean}, [](OpBuilder &b, Location loc, ValueRange x) -> Value {
      Value distance = arith::SubFOp::create(b, loc, x[0], x[1]);
      return arith::MulFOp::create(b, loc, distance, distance);
    });
  }

  /// Mean, and 1 / sqrt(variance + eps), of every row; where a row's dimensions were, they are of size 1.
  std::pair<Value, Value> statisticsOf(dit::NormOp norm, ArrayRef<Operation *> ops) {
    Location loc = norm.getLoc();
    int64_t row = rowOf(norm), parts = partsOf(row), rows = tensorType(norm.getInput()).getNumElements() / row;
    SmallVector<Operation *> made;
    Value whole = copyOf(b, norm.getInput(), ops, made), x = viewAs(b, loc, whole, {rows * parts, row / parts});
    if (!made.empty() && x != whole)
      made.push_back(x.getDefiningOp());
    Value means = reducedRows(b, loc, x, dit::ReduceKind::Mean), distances = squares(loc, x, means), sums = reducedRows(b, loc, distances, dit::ReduceKind::Sum);
    made.append({means.getDefiningOp(), distances.getDefiningOp(), sums.getDefiningOp()});
    dit::FusionOp first = makeFusion(b, "rowwise", made, {means, sums});
    return joined(norm, viewAs(b, loc, first.getResult(0), {rows, parts}), viewAs(b, loc, first.getResult(1), {rows, parts}));
  }

  std::pair<Value, Value> joined(dit::NormOp norm, Value means, Value sums) {
    Location loc = norm.getLoc();
    double row = static_cast<double>(rowOf(norm)), part = row / static_cast<double>(shapeOf(means).back()), eps = norm.getEps().convertToDouble();
    Value mean = reducedRows(b, loc, means, dit::ReduceKind::Mean);
    Value distances = mapOf(b, loc, tensorType(means), {means, mean, sums}, [&](OpBuilder &b, Location loc, ValueRange x) -> Value {
      Value distance = arith::SubFOp::create(b, loc, x[0], x[1]), square = arith::MulFOp::create(b, loc, distance, distance);
      return arith::AddFOp::create(b, loc, arith::MulFOp::create(b, loc, square, numberOf(b, loc, part)), x[2]);
    });
    Value total = reducedRows(b, loc, distances, dit::ReduceKind::Sum);
    Value inverse = mapOf(b, loc, tensorType(total), {total}, [&](OpBuilder &b, Location loc, ValueRange x) -> Value {
      Value variance = arith::DivFOp::create(b, loc, x[0], numberOf(b, loc, row));
      return math::RsqrtOp::create(b, loc, arith::AddFOp::create(b, loc, variance, numberOf(b, loc, eps)));
    });
    SmallVector<Operation *> ops;
    for (Value value : {mean, distances, total, inverse})
      ops.push_back(value.getDefiningOp());
    dit::FusionOp fusion = makeFusion(b, "rowwise", ops, {mean, inverse});
    SmallVector<int64_t> shape(shapeOf(norm.getInput()));
    std::fill(shape.end() - norm.getAxes(), shape.end(), 1);
    return {viewAs(b, loc, fusion.getResult(0), shape), viewAs(b, loc, fusion.getResult(1), shape)};
  }

  OpBuilder b;
};

class SplitNorms : public impl::SplitNormsBase<SplitNorms> {
  void runOnOperation() override {
    for (dit::FusionOp fusion : llvm::make_early_inc_range(getOperation().getOps<dit::FusionOp>()))
      if (fusion.getFamily() == "rowwise")
        Splitter(&getContext()).run(fusion);
  }
};

} // namespace
} // namespace ditc
