// SPDX-License-Identifier: Apache-2.0
//
// QuantizeProducts: a product of 16-bit numbers with a weight multiplies fp8 numbers instead (e4m3), which tensor cores do at
// twice the rate. Each row of the input and each row of the weight (an output channel) is divided by a scale of its own, its
// largest magnitude by 448, the largest number of e4m3; the product accumulates in fp32 and is multiplied by both scales. An
// input is quantised once for all products that read it; what is made of weights alone runs when weights are bound.
//
// A row of zeros stays zeros: its scale is not below kSmallestRow by 448. A row with a NaN or an infinity becomes NaN.
// docs/quantization.md has the reasons for which a product stays as it is (QuantizeChoice.h).
//
// Before:
//   func.func @f(%x: tensor<4096x3072xbf16>) -> tensor<4096x4096xbf16> {
//     %w = dit.weight "w" : tensor<4096x3072xbf16>
//     %b = dit.weight "b" : tensor<4096xbf16>
//     %y = dit.matmul %x, %w bias %b transpose_rhs : (tensor<4096x3072xbf16>, tensor<4096x3072xbf16>, tensor<4096xbf16>) -> tensor<4096x4096xbf16>
//     return %y : tensor<4096x4096xbf16>
//   }
// After:
//   func.func @f(%x: tensor<4096x3072xbf16>) -> tensor<4096x4096xbf16> {
//     %w = dit.weight "w" : tensor<4096x3072xbf16>
//     %b = dit.weight "b" : tensor<4096xbf16>
//     %ax = dit.map(%x) : (tensor<4096x3072xbf16>) -> tensor<4096x3072xbf16> {
//     ^bb0(%p: f32):
//       %t = math.absf %p : f32
//       dit.yield %t : f32
//     }
//     %mx = dit.reduce max %ax axes [1] : (tensor<4096x3072xbf16>) -> tensor<4096x1xf32>
//     %sx = dit.map(%mx) : (tensor<4096x1xf32>) -> tensor<4096x1xf32> {
//     ^bb0(%p: f32):
//       %k = arith.constant 1.0e-12 : f32
//       %t = arith.maximumf %p, %k : f32
//       %l = arith.constant 448.0 : f32
//       %u = arith.divf %t, %l : f32
//       dit.yield %u : f32
//     }
//     %rx = dit.map(%mx) : (tensor<4096x1xf32>) -> tensor<4096x1xf32> {
//     ^bb0(%p: f32):
//       %k = arith.constant 1.0e-12 : f32
//       %t = arith.maximumf %p, %k : f32
//       %l = arith.constant 448.0 : f32
//       %u = arith.divf %l, %t : f32
//       dit.yield %u : f32
//     }
//     %qx = dit.map(%x, %rx) : (tensor<4096x3072xbf16>, tensor<4096x1xf32>) -> tensor<4096x3072xf8E4M3FN> {
//     ^bb0(%p: f32, %q: f32):
//       %t = arith.mulf %p, %q : f32
//       dit.yield %t : f32
//     }
//     %aw = dit.map(%w) : (tensor<4096x3072xbf16>) -> tensor<4096x3072xbf16> {
//     ^bb0(%p: f32):
//       %t = math.absf %p : f32
//       dit.yield %t : f32
//     }
//     %mw = dit.reduce max %aw axes [1] : (tensor<4096x3072xbf16>) -> tensor<4096x1xf32>
//     %sw = dit.map(%mw) : (tensor<4096x1xf32>) -> tensor<4096x1xf32> {
//     ^bb0(%p: f32):
//       %k = arith.constant 1.0e-12 : f32
//       %t = arith.maximumf %p, %k : f32
//       %l = arith.constant 448.0 : f32
//       %u = arith.divf %t, %l : f32
//       dit.yield %u : f32
//     }
//     %rw = dit.map(%mw) : (tensor<4096x1xf32>) -> tensor<4096x1xf32> {
//     ^bb0(%p: f32):
//       %k = arith.constant 1.0e-12 : f32
//       %t = arith.maximumf %p, %k : f32
//       %l = arith.constant 448.0 : f32
//       %u = arith.divf %l, %t : f32
//       dit.yield %u : f32
//     }
//     %qw = dit.map(%w, %rw) : (tensor<4096x3072xbf16>, tensor<4096x1xf32>) -> tensor<4096x3072xf8E4M3FN> {
//     ^bb0(%p: f32, %q: f32):
//       %t = arith.mulf %p, %q : f32
//       dit.yield %t : f32
//     }
//     %m = dit.matmul %qx, %qw transpose_rhs : (tensor<4096x3072xf8E4M3FN>, tensor<4096x3072xf8E4M3FN>) -> tensor<4096x4096xf32>
//     %s = dit.view %sw : tensor<4096x1xf32> -> tensor<1x4096xf32>
//     %c = dit.view %b : tensor<4096xbf16> -> tensor<1x4096xbf16>
//     %y = dit.map(%m, %sx, %s, %c) : (tensor<4096x4096xf32>, tensor<4096x1xf32>, tensor<1x4096xf32>, tensor<1x4096xbf16>) -> tensor<4096x4096xbf16> {
//     ^bb0(%p: f32, %q: f32, %r: f32, %o: f32):
//       %t = arith.mulf %p, %q : f32
//       %u = arith.mulf %t, %r : f32
//       %v = arith.addf %u, %o : f32
//       dit.yield %v : f32
//     }
//     return %y : tensor<4096x4096xbf16>
//   }
#include "passes/QuantizeChoice.h"

#include "dialects/dit/Tensors.h"
#include "dialects/fusion/Cost.h"
#include "passes/Passes.h"
#include "passes/QuantizeRemark.h"
#include "passes/Rewriting.h"
#include "passes/Terms.h"

using namespace mlir;

namespace ditc {
#define GEN_PASS_DEF_QUANTIZEPRODUCTS
#include "passes/Passes.h.inc"

namespace {

/// The largest number of e4m3.
constexpr double kLargest = 448;
/// Of rows that are nowhere above this, small numbers are lost; zeros would be divided by zero.
constexpr double kSmallestRow = 1e-12;

/// A tensor as fp8 numbers, and the f32 by which its rows were divided ([..., 1]).
struct Quantized {
  Value numbers, scale;
};

/// The largest magnitude of every row.
Value largestOf(OpBuilder &b, Location loc, Value x) {
  Value magnitudes = mapOf(b, loc, tensorType(x), x, [](OpBuilder &b, Location loc, ValueRange in) -> Value { return math::AbsFOp::create(b, loc, in[0]); });
  return reducedRows(b, loc, magnitudes, dit::ReduceKind::Max);
}

/// One division a row instead of one an element: numbers are multiplied by the reciprocal, which is off by one rounding of f32 and
/// so does not lift the largest above what rounds to 448.
Quantized quantize(OpBuilder &b, Location loc, Value x) {
  Value largest = largestOf(b, loc, x);
  auto ofRow = [&](bool isReciprocal) {
    return mapOf(b, loc, tensorType(largest), largest, [&](OpBuilder &b, Location loc, ValueRange in) -> Value {
      Value size = arith::MaximumFOp::create(b, loc, in[0], numberOf(b, loc, kSmallestRow)), bound = numberOf(b, loc, kLargest);
      return isReciprocal ? arith::DivFOp::create(b, loc, bound, size) : arith::DivFOp::create(b, loc, size, bound);
    });
  };
  Value scale = ofRow(false), reciprocal = ofRow(true);
  auto type = tensorType(x).clone(Float8E4M3FNType::get(b.getContext()));
  Value numbers = mapOf(b, loc, type, {x, reciprocal}, [](OpBuilder &b, Location loc, ValueRange in) -> Value { return arith::MulFOp::create(b, loc, in[0], in[1]); });
  return {numbers, scale};
}

/// One number for each column, as an operand of maps of this rank.
Value asColumns(OpBuilder &b, Location loc, Value value, int64_t rank) {
  SmallVector<int64_t> shape(rank, 1);
  shape.back() = tensorType(value).getNumElements();
  return viewAs(b, loc, value, shape);
}

class Quantizer {
public:
  explicit Quantizer(MLIRContext *context) : b(context) {}

  void rewrite(dit::MatmulOp product) {
    b.setInsertionPoint(product);
    Quantized input = inputOf(product), weight = weightOf(product);
    auto wide = product.getType().clone(b.getF32Type());
    Value sums = dit::MatmulOp::create(b, product.getLoc(), wide, input.numbers, weight.numbers, Value(), /*transpose_rhs=*/true);
    int64_t rank = wide.getRank();
    SmallVector<Value> terms{sums, input.scale, asColumns(b, product.getLoc(), weight.scale, rank)};
    if (product.getBias())
      terms.push_back(asColumns(b, product.getLoc(), product.getBias(), rank));
    dequantizeParts(product, terms);
    b.setInsertionPoint(product); // in front of all that reads it
    if (!product.use_empty())
      product.replaceAllUsesWith(dequantized(product.getLoc(), terms, product.getType()));
    product.erase();
  }

private:
  /// Quantised once, before the first of the products that read it.
  Quantized inputOf(dit::MatmulOp product) {
    Value x = product.getLhs();
    auto [known, isNew] = inputs.try_emplace(x);
    if (isNew)
      known->second = quantize(b, x.getLoc(), x);
    return known->second;
  }

  /// By the product's name, as weights belong to no module.
  Quantized weightOf(dit::MatmulOp product) {
    Value w = product.getRhs();
    auto [known, isNew] = weights.try_emplace({w, product.getTransposeRhs() ? 1u : 0u});
    if (isNew)
      known->second = quantize(b, product.getLoc(), product.getTransposeRhs() ? w : permuted(b, w.getLoc(), w, {1, 0}));
    return known->second;
  }

  Value dequantized(Location loc, ArrayRef<Value> terms, RankedTensorType type) {
    return mapOf(b, loc, type, terms, [](OpBuilder &b, Location loc, ValueRange in) -> Value {
      Value scaled = arith::MulFOp::create(b, loc, arith::MulFOp::create(b, loc, in[0], in[1]), in[2]);
      return in.size() == 3 ? scaled : arith::AddFOp::create(b, loc, scaled, in[3]);
    });
  }

  /// What is read as columns of the product (queries, keys and values of one layer; gate and up) stays a part of it: slices
  /// are of the sums, where kernels find them, and each part is scaled on its own.
  void dequantizeParts(dit::MatmulOp product, ArrayRef<Value> terms) {
    for (Operation *user : llvm::make_early_inc_range(product->getUsers())) {
      auto slice = dyn_cast<dit::SliceOp>(user);
      if (!slice || slice.getType().getShape().drop_back() != product.getType().getShape().drop_back())
        continue;
      b.setInsertionPoint(slice);
      SmallVector<Value> parts;
      for (Value term : terms)
        parts.push_back(term == terms[1] ? term : columnsOf(term, slice));
      slice.replaceAllUsesWith(dequantized(product.getLoc(), parts, slice.getType()));
      slice.erase();
    }
  }

  Value columnsOf(Value term, dit::SliceOp slice) {
    SmallVector<int64_t> shape(shapeOf(term));
    shape.back() = slice.getType().getShape().back();
    return dit::SliceOp::create(b, slice.getLoc(), tensorType(term).clone(shape), term, slice.getOffsets(), slice.getSteps());
  }

  OpBuilder b;
  llvm::DenseMap<Value, Quantized> inputs;
  llvm::DenseMap<std::pair<Value, unsigned>, Quantized> weights; ///< with how they lie
};

class QuantizeProducts : public impl::QuantizeProductsBase<QuantizeProducts> {
public:
  using QuantizeProductsBase::QuantizeProductsBase;

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    QuantizeChoice choice(function, {ModulePatterns(skip), ModulePatterns(only)});
    Quantizer quantizer(&getContext());
    for (auto [product, reason] : choice.products()) {
      remarkQuantized(product, "QuantizeProducts", "Product", reason);
      if (reason == QuantizeReason::Accepted)
        quantizer.rewrite(product);
    }
  }
};

} // namespace
} // namespace ditc
