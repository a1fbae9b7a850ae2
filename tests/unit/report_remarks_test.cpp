// SPDX-License-Identifier: Apache-2.0
//
// The report on IR: remarks arrive, kernels are read from fusions.
#include "compiler/report/Graph.h"
#include "compiler/report/RemarkCollector.h"
#include "dialects/dit/Dit.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Parser/Parser.h"

#include <gmock/gmock.h>

using namespace mlir;

namespace ditc {
namespace {

TEST(RemarkCollector, KeepsFusionRemarksOnly) {
  MLIRContext context;
  RemarkCollector collector(context);
  Location loc = UnknownLoc::get(&context);
  remark::missed(loc, remark::RemarkOpts::name("GroupKernels").category("fusion").function("f")) << remark::reason("{0}", "no_slot") << remark::metric("Bytes", 12.5);
  remark::passed(loc, remark::RemarkOpts::name("GroupKernels").category("fusion")) << remark::metric("Ops", 3);
  remark::passed(loc, remark::RemarkOpts::name("Other").category("vectorise"));
  std::vector<FusionRemark> remarks = collector.take();
  ASSERT_EQ(remarks.size(), 2u);
  EXPECT_FALSE(remarks[0].passed);
  EXPECT_EQ(remarks[0].fact("Reason"), "no_slot");
  EXPECT_EQ(remarks[0].number("Bytes"), 12.5);
  EXPECT_EQ(remarks[0].function, "f");
  EXPECT_TRUE(remarks[1].passed);
  EXPECT_TRUE(collector.take().empty());
}

constexpr const char *kFused = R"(
func.func @f(%x: tensor<64x32xbf16> {dit.name = "x"}) -> tensor<64x128xbf16> {
  %w = dit.weight "ff.weight" : tensor<128x32xbf16>
  %v = dit.view %x : tensor<64x32xbf16> -> tensor<64x32xbf16> loc("reshape"("ff"))
  %y = dit.fusion "gemm"(%v, %w) : (tensor<64x32xbf16>, tensor<128x32xbf16>) -> tensor<64x128xbf16> {
  ^bb0(%a: tensor<64x32xbf16>, %b: tensor<128x32xbf16>):
    %m = dit.matmul %a, %b transpose_rhs : (tensor<64x32xbf16>, tensor<128x32xbf16>) -> tensor<64x128xbf16> loc("linear"("ff"))
    %t = dit.map(%m) : (tensor<64x128xbf16>) -> tensor<64x128xbf16> {
    ^bb0(%p: f32):
      %q = math.tanh %p : f32
      dit.yield %q : f32
    } loc(fused["mul"("ff"), "tanh"("ff")])
    dit.yield %t : tensor<64x128xbf16>
  }
  return %y : tensor<64x128xbf16>
}
)";

class GraphTest : public testing::Test {
protected:
  GraphTest() {
    context.loadDialect<dit::DitDialect, func::FuncDialect, arith::ArithDialect, math::MathDialect>();
    module = parseSourceString<ModuleOp>(kFused, &context);
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
};

TEST_F(GraphTest, ReadsKernels) {
  ASSERT_TRUE(module);
  GraphRecord graph = readGraph(*module);
  ASSERT_EQ(graph.kernels.size(), 1u);
  const KernelRecord &kernel = graph.kernels[0];
  EXPECT_EQ(kernel.family, "gemm");
  EXPECT_FALSE(kernel.prepare);
  ASSERT_EQ(kernel.ops.size(), 2u);
  EXPECT_EQ(kernel.ops[0].names.back(), (NodeName{"ff", "linear"}));
  EXPECT_EQ(kernel.ops[1].names.front(), (NodeName{"ff", "mul"}));
  EXPECT_THAT(kernel.ops[0].args, testing::ElementsAre(-1, -2));
  EXPECT_THAT(kernel.ops[1].args, testing::ElementsAre(0));
  EXPECT_THAT(kernel.inputs[0].from, testing::ElementsAre("input x"));
  EXPECT_THAT(kernel.inputs[1].from, testing::ElementsAre("weight ff.weight"));
  EXPECT_EQ(kernel.inputs[0].type, "64x32xbf16");
  EXPECT_EQ(kernel.savedBytes, 2.0 * 64 * 128 * 2);
  EXPECT_EQ(kernel.weightBytes, 128.0 * 32 * 2);
  EXPECT_THAT(kernel.ir, testing::HasSubstr("dit.fusion \"gemm\""));
}

TEST_F(GraphTest, FreeOperationsAndBounds) {
  GraphRecord graph = readGraph(*module);
  ASSERT_EQ(graph.free.size(), 1u);
  EXPECT_EQ(graph.free[0].op.names.back().node, "reshape");
  EXPECT_EQ(graph.minimumBytes, graph.kernels[0].work.bytes());
  EXPECT_EQ(graph.minimumActivationBytes, (64 * 32 + 64 * 128) * 2);
}

} // namespace
} // namespace ditc
