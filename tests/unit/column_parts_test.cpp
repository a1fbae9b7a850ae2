// SPDX-License-Identifier: Apache-2.0
//
// One linear layer with queries, values and both halves of a gated MLP as two launches: what they are, when there are none,
// and that they compute the same (by the reference evaluator).
#include "codegen/cuda/CudaTarget.h"
#include "dialects/reference/Evaluate.h"
#include "passes/LegalizeForCuda.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include <bit>
#include <gtest/gtest.h>

using namespace ditc;
using namespace mlir;

namespace {

constexpr const char *kTypes = "(%x: tensor<20x64xbf16>, %w: tensor<896x64xbf16>, %c: tensor<896xbf16>, %s: tensor<128xbf16>)";

/// Normalised heads from columns 0 …, values behind them, gate and up from `gate` on.
std::string beside(int gate, const std::string &mlpOf = "%g, %u") {
  auto slice = [](const std::string &name, int begin, int columns) {
    std::string type = "tensor<20x" + std::to_string(columns) + "xbf16>";
    return "    " + name + " = dit.slice %m offsets [0, " + std::to_string(begin) + "] steps [1, 1] : tensor<20x896xbf16> -> " + type + "\n";
  };
  std::string results = "(tensor<20x2x128xbf16>, tensor<20x128xbf16>, tensor<20x256xbf16>)", inputs = "tensor<20x64xbf16>, tensor<896x64xbf16>, tensor<896xbf16>, tensor<128xbf16>";
  return std::string("func.func @f") + kTypes + " -> " + results + " {\n  %r:3 = dit.fusion \"gemm\"(%x, %w, %c, %s) : (" + inputs + ") -> " + results +
         " {\n  ^bb0(%a: tensor<20x64xbf16>, %b: tensor<896x64xbf16>, %d: tensor<896xbf16>, %e: tensor<128xbf16>):\n"
         "    %m = dit.matmul %a, %b bias %d transpose_rhs : (tensor<20x64xbf16>, tensor<896x64xbf16>, tensor<896xbf16>) -> tensor<20x896xbf16>\n" +
         slice("%q", 0, 256) + slice("%v", 256, 128) + slice("%g", gate, 256) + slice("%u", 640, 256) +
         "    %h = dit.view %q : tensor<20x256xbf16> -> tensor<20x2x128xbf16>\n"
         "    %n = dit.norm rms %h weight %e axes 1 eps 1.0e-6 : (tensor<20x2x128xbf16>, tensor<128xbf16>) -> tensor<20x2x128xbf16>\n"
         "    %y = dit.map(" + mlpOf + ") : (tensor<20x256xbf16>, tensor<20x256xbf16>) -> tensor<20x256xbf16> {\n    ^bb0(%p: f32, %k: f32):\n"
         "      %t = arith.maximumf %p, %k : f32\n      %z = arith.mulf %t, %k : f32\n      dit.yield %z : f32\n    }\n"
         "    dit.yield %n, %v, %y : tensor<20x2x128xbf16>, tensor<20x128xbf16>, tensor<20x256xbf16>\n  }\n"
         "  return %r#0, %r#1, %r#2 : tensor<20x2x128xbf16>, tensor<20x128xbf16>, tensor<20x256xbf16>\n}\n";
}

class ColumnParts : public testing::Test {
protected:
  void read(const std::string &text) {
    context.loadDialect<dit::DitDialect, plan::PlanDialect, func::FuncDialect, arith::ArithDialect>();
    module = parseSourceString<ModuleOp>(text, &context);
    ASSERT_TRUE(module) << text;
  }

  func::FuncOp function() { return *module->getOps<func::FuncOp>().begin(); }

  SmallVector<dit::TensorValue> evaluate() {
    SmallVector<dit::TensorValue> arguments;
    for (Type type : function().getArgumentTypes()) {
      arguments.push_back(dit::TensorValue::zeros(cast<RankedTensorType>(type)));
      auto *values = reinterpret_cast<uint16_t *>(arguments.back().bytes->data());
      for (int64_t i = 0; i < arguments.back().type.getNumElements(); ++i) // exact in bf16
        values[i] = std::bit_cast<uint32_t>(static_cast<float>((i * 37 + 11) % 64 - 32) / 64) >> 16;
    }
    auto outputs = dit::evaluateFunction(function(), arguments, [](StringRef) { return dit::TensorValue(); });
    EXPECT_TRUE(succeeded(outputs));
    return succeeded(outputs) ? *outputs : SmallVector<dit::TensorValue>();
  }

  /// Families of the launches, in order.
  std::string legalise(const char *arch = "sm_90a") {
    PassManager pm(&context);
    pm.addNestedPass<func::FuncOp>(createLegalizeForCuda(cudaTargetKernels(*parseCudaArch(arch))));
    EXPECT_TRUE(succeeded(pm.run(*module)));
    std::string families;
    for (dit::FusionOp fusion : function().getOps<dit::FusionOp>())
      families += (families.empty() ? "" : " ") + fusion.getFamily().str();
    return families;
  }

  /// The launches, and that they compute what the fusion did.
  void expectSame(const std::string &text, const std::string &families, const char *arch = "sm_90a") {
    read(text);
    SmallVector<dit::TensorValue> before = evaluate();
    EXPECT_EQ(legalise(arch), families);
    SmallVector<dit::TensorValue> after = evaluate();
    ASSERT_EQ(before.size(), after.size());
    for (auto [x, y] : llvm::zip(before, after))
      for (int64_t i = 0; i < x.type.getNumElements(); ++i)
        ASSERT_EQ(x.at(i), y.at(i)) << i;
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
};

TEST_F(ColumnParts, HeadsAndAGatedMlpAreTwoLaunches) {
  for (const char *arch : {"sm_90a", "sm_80"})
    expectSame(beside(384), "gemm gemm", arch);
}

TEST_F(ColumnParts, ResultsThatShareColumnsStayTogether) {
  read(beside(256)); // the gate is what the values are
  EXPECT_EQ(legalise().find("gemm gemm"), std::string::npos);
}

TEST_F(ColumnParts, ColumnsThatNobodyReadsAreNotComputed) {
  expectSame(beside(384, "%u, %u"), "gemm gemm");
  int64_t columns = 0;
  for (dit::FusionOp fusion : function().getOps<dit::FusionOp>())
    for (dit::MatmulOp product : fusion.getBodyBlock().getOps<dit::MatmulOp>())
      columns += product.getType().getShape().back();
  EXPECT_EQ(columns, 896 - 256);
}

} // namespace
