// SPDX-License-Identifier: Apache-2.0
//
// Parts of maps and of padded values compute what the whole did (by the reference evaluator).
#include "dialects/reference/Evaluate.h"
#include "passes/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include <gtest/gtest.h>

using namespace ditc;
using namespace mlir;

namespace {

class PartsOfValues : public testing::Test {
protected:
  SmallVector<dit::TensorValue> evaluate() {
    func::FuncOp function = *module->getOps<func::FuncOp>().begin();
    SmallVector<dit::TensorValue> arguments;
    for (Type type : function.getArgumentTypes()) {
      arguments.push_back(dit::TensorValue::zeros(cast<RankedTensorType>(type)));
      auto *values = reinterpret_cast<float *>(arguments.back().bytes->data());
      for (int64_t i = 0; i < arguments.back().type.getNumElements(); ++i)
        values[i] = static_cast<float>(i % 9973 + 1);
    }
    auto outputs = dit::evaluateFunction(function, arguments, [](StringRef) { return dit::TensorValue(); });
    EXPECT_TRUE(succeeded(outputs));
    return succeeded(outputs) ? *outputs : SmallVector<dit::TensorValue>();
  }

  template <typename Op> int count() {
    int found = 0;
    module->walk([&](Op) { ++found; });
    return found;
  }

  /// Runs the pass, behind which the function computes the same.
  void expectSame(const std::string &text, std::unique_ptr<Pass> pass) {
    context.loadDialect<dit::DitDialect, func::FuncDialect, arith::ArithDialect>();
    module = parseSourceString<ModuleOp>(text, &context);
    ASSERT_TRUE(module) << text;
    SmallVector<dit::TensorValue> before = evaluate();
    PassManager pm(&context);
    pm.addNestedPass<func::FuncOp>(std::move(pass));
    ASSERT_TRUE(succeeded(pm.run(*module)));
    SmallVector<dit::TensorValue> after = evaluate();
    ASSERT_EQ(before.size(), after.size());
    for (auto [x, y] : llvm::zip(before, after))
      for (int64_t i = 0; i < x.type.getNumElements(); ++i)
        ASSERT_EQ(x.at(i), y.at(i)) << i;
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
};

} // namespace

/// A table that repeats over tokens, parts with and without views that drop dimensions, one of every second column.
TEST_F(PartsOfValues, OfAMap) {
  expectSame(R"(func.func @f(%t: tensor<1x1500x3x1024xf32>, %w: tensor<1x1x3x1024xf32>) -> (tensor<1500x1024xf32>, tensor<1x1500x1x1024xf32>, tensor<1x1500x1x512xf32>) {
    %a = dit.map(%t, %w) : (tensor<1x1500x3x1024xf32>, tensor<1x1x3x1024xf32>) -> tensor<1x1500x3x1024xf32> {
    ^bb0(%p: f32, %q: f32):
      %r = arith.mulf %p, %q : f32
      dit.yield %r : f32
    }
    %s = dit.slice %a offsets [0, 0, 1, 0] steps [1, 1, 1, 1] : tensor<1x1500x3x1024xf32> -> tensor<1x1500x1x1024xf32>
    %v = dit.view %s : tensor<1x1500x1x1024xf32> -> tensor<1500x1024xf32>
    %x = dit.slice %a offsets [0, 0, 0, 0] steps [1, 1, 1, 1] : tensor<1x1500x3x1024xf32> -> tensor<1x1500x1x1024xf32>
    %y = dit.slice %a offsets [0, 0, 2, 1] steps [1, 1, 1, 2] : tensor<1x1500x3x1024xf32> -> tensor<1x1500x1x512xf32>
    return %v, %x, %y : tensor<1500x1024xf32>, tensor<1x1500x1x1024xf32>, tensor<1x1500x1x512xf32>
  })",
             createSplitMaps());
  EXPECT_EQ(count<dit::MapOp>(), 3);
}

/// Inside, over both edges, and over one behind a permute and a view.
TEST_F(PartsOfValues, OfAPaddedValue) {
  expectSame(R"(func.func @f(%x: tensor<2x7x5xf32>) -> (tensor<4x10xf32>, tensor<12x10xf32>, tensor<5x10xf32>) {
    %p = dit.pad %x low [0, 3, 0] high [0, 4, 0] value -1.0 : f32 : tensor<2x7x5xf32> -> tensor<2x14x5xf32>
    %t = dit.permute %p [1, 0, 2] : tensor<2x14x5xf32> -> tensor<14x2x5xf32>
    %v = dit.view %t : tensor<14x2x5xf32> -> tensor<14x10xf32>
    %a = dit.slice %v offsets [3, 0] steps [2, 1] : tensor<14x10xf32> -> tensor<4x10xf32>
    %b = dit.slice %v offsets [1, 0] steps [1, 1] : tensor<14x10xf32> -> tensor<12x10xf32>
    %c = dit.slice %v offsets [8, 0] steps [1, 1] : tensor<14x10xf32> -> tensor<5x10xf32>
    return %a, %b, %c : tensor<4x10xf32>, tensor<12x10xf32>, tensor<5x10xf32>
  })",
             createHoistSlices());
  EXPECT_EQ(count<dit::PadOp>(), 2);
}
