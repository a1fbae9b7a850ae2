// SPDX-License-Identifier: Apache-2.0
//
// The cost model: which units multiply which numbers, and the floor that follows.
#include "dialects/dit/Dit.h"
#include "dialects/fusion/Cost.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

namespace ditc {
namespace {

class Cost : public testing::Test {
protected:
  Cost() { context.loadDialect<dit::DitDialect, mlir::func::FuncDialect>(); }

  /// Of the first operation of a function.
  Work workIn(const std::string &arguments, const std::string &op) {
    module = mlir::parseSourceString<mlir::ModuleOp>("func.func @f(" + arguments + ") {\n" + op + "\nreturn\n}", &context);
    EXPECT_TRUE(module);
    return workOf(&(*module->getOps<mlir::func::FuncOp>().begin()).getBody().front().front());
  }

  /// A product of 27280 x 3072 x 3072, 515 GFLOP.
  Work productOf(const std::string &type) {
    std::string x = "tensor<27280x3072x" + type + ">", w = "tensor<3072x3072x" + type + ">";
    return workIn("%x: " + x + ", %w: " + w, "%m = dit.matmul %x, %w transpose_rhs : (" + x + ", " + w + ") -> " + x);
  }

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

constexpr double kFlops = 2.0 * 27280 * 3072 * 3072;

TEST_F(Cost, MatrixUnitsMultiplyNumbersOf16Bits) {
  Work work = productOf("bf16");
  EXPECT_EQ(work.matrixFlops, kFlops);
  EXPECT_EQ(work.scalarFlops, 0);
  EXPECT_NEAR(rooflineSeconds(work, *findGpu("H200")), 521e-6, 1e-6);
  EXPECT_EQ(boundBy(work, *findGpu("H200")), "matrix");
}

TEST_F(Cost, FullF32IsScalarArithmetic) {
  Work work = productOf("f32");
  EXPECT_EQ(work.matrixFlops, 0);
  EXPECT_EQ(work.scalarFlops, kFlops);
  EXPECT_NEAR(rooflineSeconds(work, *findGpu("H200")), 7.69e-3, 0.01e-3);
  EXPECT_EQ(boundBy(work, *findGpu("H200")), "scalar");
}

TEST_F(Cost, EightBitsAreTwiceAsFast) {
  Work work = productOf("f8E4M3FN");
  EXPECT_EQ(work.fp8Flops, kFlops);
  EXPECT_EQ(work.matrixFlops, kFlops);
}

TEST_F(Cost, AttentionOfF32IsScalarToo) {
  Work attention = workIn("%q: tensor<1x2x64x32xf32>", "%o = dit.attention %q, %q, %q scale 1.0 : (tensor<1x2x64x32xf32>, tensor<1x2x64x32xf32>, tensor<1x2x64x32xf32>) -> tensor<1x2x64x32xf32>");
  EXPECT_EQ(attention.matrixFlops, 0);
  EXPECT_EQ(attention.scalarFlops, 2.0 * 2 * 64 * 64 * 64);
}

} // namespace
} // namespace ditc
