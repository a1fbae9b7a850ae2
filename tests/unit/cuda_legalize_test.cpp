// SPDX-License-Identifier: Apache-2.0
//
// Which products become kernels of Hopper's and which calls of the library, when their epilogue is no kernel's.
#include "codegen/cuda/CudaTarget.h"
#include "dialects/plan/Plan.h"
#include "passes/LegalizeForCuda.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include <gtest/gtest.h>

using namespace ditc;
using namespace mlir;

namespace {

/// What is left of a bucket.
struct Launches {
  int gemms = 0, products = 0, rowwise = 0, concats = 0;
  bool operator==(const Launches &) const = default;
};

class CudaLegalize : public testing::Test {
protected:
  /// `count` products of one input, whose signs leave the fusion: booleans are no result of a gemm.
  static std::string signs(int64_t rows, int64_t columns, int64_t k, const std::string &element, int count = 1) {
    auto type = [&](int64_t m, int64_t n, const std::string &of) { return "tensor<" + std::to_string(m) + "x" + std::to_string(n) + "x" + of + ">"; };
    std::string x = type(rows, k, element), w = type(columns, k, element), y = type(rows, columns, element), s = type(rows, columns, "i1");
    std::string weights, operands = "%x", types = x, arguments = "%a: " + x, body, read, blockArguments, terms;
    for (int i = 0; i < count; ++i) {
      std::string n = std::to_string(i);
      weights += "  %w" + n + " = dit.weight \"w" + n + "\" : " + w + "\n";
      operands += ", %w" + n, types += ", " + w, arguments += ", %b" + n + ": " + w;
      body += "    %m" + n + " = dit.matmul %a, %b" + n + " transpose_rhs : (" + x + ", " + w + ") -> " + y + "\n";
      read += (i ? ", %m" : "%m") + n, terms += (i ? ", " : "") + y, blockArguments += (i ? ", %p" : "%p") + n + ": f32";
    }
    return "func.func @f(%x: " + x + ") -> " + s + " {\n" + weights + "  %r = dit.fusion \"gemm\"(" + operands + ") : (" + types + ") -> " + s + " {\n  ^bb0(" + arguments + "):\n" + body +
           "    %t = dit.map(" + read + ") : (" + terms + ") -> " + s + " {\n    ^bb0(" + blockArguments + "):\n      %z = arith.constant 0.0 : f32\n      %g = arith.cmpf ogt, %p" +
           std::to_string(count - 1) + ", %z : f32\n      dit.yield %g : i1\n    }\n    dit.yield %t : " + s + "\n  }\n  return %r : " + s + "\n}\n";
  }

  Launches legalise(const std::string &text, const std::string &arch, bool keepRoundings = false) {
    context.loadDialect<dit::DitDialect, plan::PlanDialect, func::FuncDialect, arith::ArithDialect, math::MathDialect>();
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(module) << text;
    if (!module)
      return {};
    PassManager pm(&context);
    pm.addNestedPass<func::FuncOp>(createLegalizeForCuda(cudaTargetKernels(*parseCudaArch(arch), keepRoundings)));
    EXPECT_TRUE(succeeded(pm.run(*module)));
    Launches found;
    for (Operation &op : (*module->getOps<func::FuncOp>().begin()).getBody().front()) {
      if (auto fusion = dyn_cast<dit::FusionOp>(op))
        ++(fusion.getFamily() == "gemm" ? found.gemms : found.rowwise);
      found.products += isa<dit::MatmulOp>(op);
      found.concats += isa<dit::ConcatOp>(op);
    }
    return found;
  }

  MLIRContext context;
};

constexpr Launches kOwn{.gemms = 1, .rowwise = 1}, kLibrary{.products = 1, .rowwise = 1}, kJoinedOwn{.gemms = 1, .rowwise = 1, .concats = 1},
    kJoined{.products = 1, .rowwise = 1, .concats = 1};

} // namespace

TEST_F(CudaLegalize, ProductsThatNothingJoinsAreKernelsOfTheirOwn) {
  EXPECT_EQ(legalise(signs(512, 32, 1152, "bf16"), "sm_90a"), kOwn); // the last products of DiT-XL/2 at 256², PixArt, SD3.5 and Wan
  EXPECT_EQ(legalise(signs(8192, 32, 1152, "bf16"), "sm_90a"), kOwn);
  EXPECT_EQ(legalise(signs(8192, 64, 2432, "bf16"), "sm_90a"), kOwn);
  EXPECT_EQ(legalise(signs(32760, 64, 5120, "f16"), "sm_90a"), kOwn);
  EXPECT_EQ(legalise(signs(4096, 12288, 3072, "bf16"), "sm_90a"), kOwn);
}

TEST_F(CudaLegalize, TheLibraryTakesWhatItIsFasterAtOrNobodyElseTakes) {
  EXPECT_EQ(legalise(signs(64, 64, 32768, "bf16"), "sm_90a"), kLibrary); // one tile; K in many pieces
  EXPECT_EQ(legalise(signs(64, 64, 64, "f32"), "sm_90a"), kLibrary);
  EXPECT_EQ(legalise(signs(64, 60, 64, "bf16"), "sm_90a"), kLibrary);
  EXPECT_EQ(legalise(signs(512, 32, 1152, "bf16"), "sm_80"), kLibrary);
  EXPECT_EQ(legalise(signs(512, 32, 1152, "bf16"), "sm_90a", /*keepRoundings=*/true), kLibrary);
}

TEST_F(CudaLegalize, SmallWeightsAreJoinedForTheLibrary) {
  EXPECT_EQ(legalise(signs(512, 64, 64, "f32", 3), "sm_90a"), kJoined);
  EXPECT_EQ(legalise(signs(512, 1152, 1152, "f32", 3), "sm_90a"), (Launches{.products = 3, .rowwise = 1})); // 16 MB for two calls
}

TEST_F(CudaLegalize, UpToFourProductsOfOneInputCopyNoWeights) {
  EXPECT_EQ(legalise(signs(512, 64, 64, "bf16", 3), "sm_90a"), kOwn);
  EXPECT_EQ(legalise(signs(512, 64, 64, "bf16", 4), "sm_90a"), kOwn);
  EXPECT_EQ(legalise(signs(512, 64, 64, "bf16", 5), "sm_90a"), kJoinedOwn);
  EXPECT_EQ(legalise(signs(512, 64, 64, "bf16", 3), "sm_80"), kJoined);
}
