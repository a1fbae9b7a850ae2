// SPDX-License-Identifier: Apache-2.0
//
// Values that are read twice, by values that are read twice, and so on: what follows each reading on its own does not end.
#include "codegen/cuda/CudaTarget.h"
#include "dialects/plan/Plan.h"
#include "passes/LegalizeForCuda.h"
#include "passes/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include <gtest/gtest.h>

using namespace ditc;
using namespace mlir;

namespace {

constexpr int kSteps = 48;
const std::string kType = "tensor<64x64xbf16>";

std::string map(const std::string &name, const std::string &first, const std::string &second, const std::string &function) {
  return "  %" + name + " = dit.map(%" + first + ", %" + second + ") : (" + kType + ", " + kType + ") -> " + kType + " {\n  ^bb0(%a: f32, %b: f32):\n    %p = arith.mulf %a, %b : f32\n    %q = math." +
         function + " %p : f32\n    dit.yield %q : f32\n  }\n";
}

/// a, b = sin(ab), cos(ba), as often as there are steps, which ends as `last`.
std::string steps(const std::string &last) {
  std::string text;
  for (int i = 0; i < kSteps; ++i) {
    std::string from = std::to_string(i), to = std::to_string(i + 1);
    text += map("a" + to, "a" + from, "b" + from, "sin") + map("b" + to, "b" + from, "a" + from, "cos");
  }
  return text + map(last, "a" + std::to_string(kSteps), "b" + std::to_string(kSteps), "sin");
}

class DeepChains : public testing::Test {
protected:
  OwningOpRef<ModuleOp> run(const std::string &text, std::unique_ptr<Pass> pass) {
    context.loadDialect<dit::DitDialect, plan::PlanDialect, func::FuncDialect, arith::ArithDialect, math::MathDialect>();
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(module) << text;
    PassManager pm(&context);
    pm.addNestedPass<func::FuncOp>(std::move(pass));
    EXPECT_TRUE(module && succeeded(pm.run(*module)));
    return module;
  }

  template <typename Op> static int count(ModuleOp module) {
    int found = 0;
    module.walk([&](Op) { ++found; });
    return found;
  }

  MLIRContext context;
};

} // namespace

TEST_F(DeepChains, SlicesOfThemAreOfNoColumns) {
  OwningOpRef<ModuleOp> module = run("func.func @f(%a0: " + kType + ", %b0: " + kType + ") -> tensor<64x8xbf16> {\n" + steps("y") + "  %t = dit.permute %y [1, 0] : " + kType + " -> " + kType +
                                         "\n  %s = dit.slice %t offsets [0, 8] steps [1, 1] : " + kType + " -> tensor<64x8xbf16>\n  return %s : tensor<64x8xbf16>\n}\n",
                                     createHoistSlices());
  auto slice = (*module->getOps<func::FuncOp>().begin()).getBody().front().getTerminator()->getOperand(0).getDefiningOp<dit::SliceOp>();
  EXPECT_TRUE(slice && slice.getInput().getDefiningOp<dit::PermuteOp>());
}

TEST_F(DeepChains, ProductsAreTakenApartFromThem) {
  std::string types = kType + ", " + kType + ", " + kType;
  OwningOpRef<ModuleOp> module = run("func.func @f(%x: " + kType + ", %w: " + kType + ", %z: " + kType + ") -> " + kType + " {\n  %r = dit.fusion \"gemm\"(%x, %w, %z) : (" + types + ") -> " + kType +
                                         " {\n  ^bb0(%x0: " + kType + ", %w0: " + kType + ", %b0: " + kType + "):\n  %a0 = dit.matmul %x0, %w0 transpose_rhs : (" + kType + ", " + kType + ") -> " +
                                         kType + "\n" + steps("y") + "  dit.yield %y : " + kType + "\n  }\n  return %r : " + kType + "\n}\n",
                                     createLegalizeForCuda(cudaTargetKernels(*parseCudaArch("sm_90a"))));
  EXPECT_EQ(count<dit::MatmulOp>(*module), 1);
  EXPECT_EQ(count<dit::MapOp>(*module), 2 * kSteps + 1);
}

TEST_F(DeepChains, RowsThatTheyMakeAreNoRotation) {
  std::string all = "tensor<80x64xbf16>", few = "tensor<16x64xbf16>";
  auto rows = [&](const std::string &name, int first, const std::string &type) { return "  %" + name + " = dit.slice %x offsets [" + std::to_string(first) + ", 0] steps [1, 1] : " + all + " -> " + type + "\n"; };
  OwningOpRef<ModuleOp> module = run("func.func @f(%x: " + all + ") -> " + all + " {\n" + rows("t", 0, few) + rows("a0", 16, kType) + rows("b0", 16, kType) + steps("y") + "  %r = dit.concat(%t, %y) axis 0 : (" + few +
                                         ", " + kType + ") -> " + all + "\n  return %r : " + all + "\n}\n",
                                     createRotateAllRows());
  EXPECT_EQ(count<dit::ConcatOp>(*module), 1);
}
