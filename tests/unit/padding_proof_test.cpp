// SPDX-License-Identifier: Apache-2.0
//
// What the padding proof allows and refuses, on functions written twice: for a size of 6 and of 5.
#include "compiler/padding/PaddingProof.h"
#include "dialects/dit/Dit.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"

#include <gmock/gmock.h>
#include <regex>

using namespace ditc;
using namespace mlir;
using testing::HasSubstr;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

class PaddingProofs : public testing::Test {
protected:
  PaddingProofs() : context(MLIRContext::Threading::DISABLED) {
    context.loadDialect<dit::DitDialect, arith::ArithDialect, math::MathDialect, func::FuncDialect>();
  }

  /// `text` has N for the size and M for twice the size; the argument x has it in dimension 0, others where `dims` says.
  PaddingProof prove(const std::string &text, std::map<std::string, std::vector<unsigned>> dims = {{"x", {0}}},
                     const std::optional<PaddingClaim> &claim = {}) {
    return provePadding(*parse(text, 6), *parse(text, 5), {"s0", 6, 5}, dims, claim);
  }
  /// The same with another text in the other import.
  PaddingProof proveBeside(const std::string &text, const std::string &other) { return provePadding(*parse(text, 6), *parse(other, 5), {"s0", 6, 5}, {{"x", {0}}}, {}); }

  OwningOpRef<ModuleOp> parse(const std::string &text, int size) {
    std::string sized;
    for (size_t i = 0; i < text.size(); ++i) {
      bool isSize = (text[i] == 'N' || text[i] == 'M') && i > 0 && (text[i - 1] == '<' || text[i - 1] == 'x') && text[i + 1] == 'x';
      sized += isSize ? std::to_string(text[i] == 'N' ? size : 2 * size) : std::string(1, text[i]);
    }
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(sized, &context);
    EXPECT_TRUE(module) << sized;
    modules.push_back(std::move(module));
    return modules.back()->clone();
  }

  MLIRContext context;
  std::vector<OwningOpRef<ModuleOp>> modules;
};

const std::string kX = "%x: tensor<Nx4xf32> {dit.name = \"x\"}";

/// Attention of 4 queries to N keys, with the mask that `mask` makes of %m: [1, N].
std::string attention(const std::string &maskType, const std::string &mask) {
  return "func.func @f(%x: tensor<1x1xNx8xf32> {dit.name = \"x\"}, %q: tensor<1x1x4x8xf32> {dit.name = \"q\"}, %m: tensor<1xNx" + maskType +
         "> {dit.name = \"m\"}) -> (tensor<1x1x4x8xf32> {dit.name = \"y\"}) {\n" + mask + R"(
    %y = dit.attention %q, %x, %x mask %bias scale 1.000000e+00 : (tensor<1x1x4x8xf32>, tensor<1x1xNx8xf32>, tensor<1x1xNx8xf32>, tensor<1x1x1xNxf32>) -> tensor<1x1x4x8xf32>
    return %y : tensor<1x1x4x8xf32>
  })";
}

/// (1 - m) * -10000, as PixArt has it.
const std::string kTenThousand = R"(
    %f = dit.map(%m) : (tensor<1xNxi64>) -> tensor<1xNxf32> {
    ^bb0(%a: i64):
      %one = arith.constant 1.0 : f32
      %low = arith.constant -10000.0 : f32
      %r = arith.sitofp %a : i64 to f32
      %d = arith.subf %one, %r : f32
      %p = arith.mulf %d, %low : f32
      dit.yield %p : f32
    }
    %bias = dit.view %f : tensor<1xNxf32> -> tensor<1x1x1xNxf32>)";

const std::map<std::string, std::vector<unsigned>> kAttentionDims = {{"x", {2}}, {"m", {1}}};

} // namespace

TEST_F(PaddingProofs, RowsThatStayApart) {
  PaddingProof proof = prove("func.func @f(" + kX + R"(, %w: tensor<8x4xf32> {dit.name = "w"}) -> (tensor<Nx8xf32> {dit.name = "y"}) {
    %y = dit.matmul %x, %w transpose_rhs : (tensor<Nx4xf32>, tensor<8x4xf32>) -> tensor<Nx8xf32>
    return %y : tensor<Nx8xf32>
  })");
  ASSERT_TRUE(proof.rule) << proof.reason;
  EXPECT_EQ(*proof.rule, (PaddingRule{"s0", {{"x", 0, {}}}, {{"y", 0}}}));
}

TEST_F(PaddingProofs, AMaskThatTiesWithTheModelsOwn) {
  // m == 0 hides by the same number as padding would: a row whose keys are all hidden sees both.
  std::string tie = attention("i64", R"(
    %f = dit.map(%m) : (tensor<1xNxi64>) -> tensor<1xNxf32> {
    ^bb0(%a: i64):
      %zero = arith.constant 0 : i64
      %low = arith.constant -3.0e+38 : f32
      %none = arith.constant 0.0 : f32
      %c = arith.cmpi eq, %a, %zero : i64
      %r = arith.select %c, %low, %none : f32
      dit.yield %r : f32
    }
    %bias = dit.view %f : tensor<1xNxf32> -> tensor<1x1x1xNxf32>)");
  PaddingProof proof = prove(tie, kAttentionDims);
  EXPECT_FALSE(proof.rule);
  EXPECT_THAT(proof.reason, HasSubstr("whose keys are all masked"));
  EXPECT_TRUE(prove(tie, kAttentionDims, PaddingClaim{"m"}).rule); // every row has a key, says the user
}

TEST_F(PaddingProofs, SumsOverRows) {
  PaddingProof proof = prove("func.func @f(" + kX + R"() -> tensor<1x4xf32> {
    %y = dit.reduce mean %x axes [0] : (tensor<Nx4xf32>) -> tensor<1x4xf32>
    return %y : tensor<1x4xf32>
  })");
  EXPECT_FALSE(proof.rule);
  EXPECT_THAT(proof.reason, HasSubstr("(dit.reduce): reduces over padding"));
}

TEST_F(PaddingProofs, ASumTakesZeros) {
  PaddingProof proof = prove("func.func @f(" + kX + R"() -> tensor<1x4xf32> {
    %y = dit.reduce sum %x axes [0] : (tensor<Nx4xf32>) -> tensor<1x4xf32>
    return %y : tensor<1x4xf32>
  })");
  ASSERT_TRUE(proof.rule) << proof.reason;
  EXPECT_EQ(*proof.rule, (PaddingRule{"s0", {{"x", 0, 0.0}}, {}}));
}

TEST_F(PaddingProofs, ProductsOverRows) {
  PaddingProof proof = prove("func.func @f(" + kX + R"() -> tensor<4x4xf32> {
    %t = dit.permute %x [1, 0] : tensor<Nx4xf32> -> tensor<4xNxf32>
    %y = dit.matmul %t, %x : (tensor<4xNxf32>, tensor<Nx4xf32>) -> tensor<4x4xf32>
    return %y : tensor<4x4xf32>
  })");
  EXPECT_THAT(proof.reason, HasSubstr("(dit.matmul): sums over padding"));
}

TEST_F(PaddingProofs, TheSizeAsANumber) {
  auto text = [](const char *number) {
    return "func.func @f(" + kX + R"() -> tensor<Nx4xf32> {
    %y = dit.map(%x) : (tensor<Nx4xf32>) -> tensor<Nx4xf32> {
    ^bb0(%a: f32):
      %n = arith.constant )" + number + R"( : f32
      %r = arith.mulf %a, %n : f32
      dit.yield %r : f32
    }
    return %y : tensor<Nx4xf32>
  })";
  };
  EXPECT_TRUE(proveBeside(text("2.0"), text("2.0")).rule);
  EXPECT_THAT(proveBeside(text("6.0"), text("5.0")).reason, HasSubstr("uses the size s0 as a number"));
}

TEST_F(PaddingProofs, TablesMayOnlyGetLonger) {
  auto text = [](const char *values) {
    return "func.func @f(" + kX + ") -> tensor<Nx4xf32> {\n    %t = dit.constant dense<" + values + R"(> : tensor<Nx1xf32>
    %y = dit.map(%x, %t) : (tensor<Nx4xf32>, tensor<Nx1xf32>) -> tensor<Nx4xf32> {
    ^bb0(%a: f32, %b: f32):
      %r = arith.addf %a, %b : f32
      dit.yield %r : f32
    }
    return %y : tensor<Nx4xf32>
  })";
  };
  EXPECT_TRUE(proveBeside(text("[[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]]"), text("[[0.0], [1.0], [2.0], [3.0], [4.0]]")).rule);
  EXPECT_THAT(proveBeside(text("[[0.0], [0.2], [0.4], [0.6], [0.8], [1.0]]"), text("[[0.0], [0.25], [0.5], [0.75], [1.0]]")).reason,
              HasSubstr("is a table whose values depend on s0"));
}

TEST_F(PaddingProofs, ViewsMergeRowsAndSplitThem) {
  auto text = [](const char *cut) {
    return "func.func @f(" + kX + ") -> tensor<Nx2x2xf32> {\n    %a = dit.view %x : tensor<Nx4xf32> -> tensor<" + cut + "xf32>\n    %y = dit.view %a : tensor<" + cut +
           "xf32> -> tensor<Nx2x2xf32>\n    return %y : tensor<Nx2x2xf32>\n  }";
  };
  EXPECT_TRUE(prove(text("1xNx4")).rule);
  EXPECT_TRUE(proveBeside(text("24"), text("20")).rule); // merged and taken apart again
  EXPECT_THAT(prove(text("2xMx1")).reason, HasSubstr("cuts through padding"));
}

TEST_F(PaddingProofs, NothingInTheMiddleOfAnOutput) {
  PaddingProof proof = prove("func.func @f(" + kX + R"() -> (tensor<Mx4xf32> {dit.name = "y"}) {
    %y = dit.concat(%x, %x) axis 0 : (tensor<Nx4xf32>, tensor<Nx4xf32>) -> tensor<Mx4xf32>
    return %y : tensor<Mx4xf32>
  })");
  EXPECT_THAT(proof.reason, HasSubstr("output 'y' has padding in the middle of dimension 0"));
}

TEST_F(PaddingProofs, PartsOfAConcatComeBack) {
  auto text = [](int from) {
    return "func.func @f(" + kX + ", %i: tensor<3x4xf32> {dit.name = \"i\"}) -> tensor<3x4xf32> {\n" + R"(
    %j = dit.concat(%x, %i) axis 0 : (tensor<Nx4xf32>, tensor<3x4xf32>) -> tensor<)" + std::to_string(from + 3) + R"(x4xf32>
    %y = dit.slice %j offsets [)" + std::to_string(from) + R"(, 0] steps [1, 1] : tensor<)" + std::to_string(from + 3) + R"(x4xf32> -> tensor<3x4xf32>
    return %y : tensor<3x4xf32>
  })";
  };
  PaddingProof proof = proveBeside(text(6), text(5));
  ASSERT_TRUE(proof.rule) << proof.reason;
  EXPECT_TRUE(proof.rule->outputs.empty());
}

TEST_F(PaddingProofs, KeysNeedAMask) {
  std::string text = attention("f32", "    %bias = dit.view %m : tensor<1xNxf32> -> tensor<1x1x1xNxf32>");
  PaddingProof proof = prove(text, kAttentionDims);
  ASSERT_TRUE(proof.rule) << proof.reason;
  EXPECT_EQ(*proof.rule, (PaddingRule{"s0", {{"m", 1, -kInfinity}, {"x", 2, {}}}, {}}));
  std::string without = std::regex_replace(text, std::regex(" mask %bias"), "");
  without = std::regex_replace(without, std::regex(", tensor<1x1x1xNxf32>\\)"), ")");
  EXPECT_THAT(prove(without, kAttentionDims).reason, HasSubstr("reads padding as keys, and no mask hides it"));
  EXPECT_THAT(prove(text, kAttentionDims, PaddingClaim{}).reason, HasSubstr("what its mask holds there is not known"));
  EXPECT_THAT(prove(text, kAttentionDims, PaddingClaim{"q"}).reason, HasSubstr("input 'q' has no dimension s0"));
}

TEST_F(PaddingProofs, MasksAreFollowedThroughArithmetic) {
  PaddingProof proof = prove(attention("i64", kTenThousand), kAttentionDims);
  ASSERT_TRUE(proof.rule) << proof.reason;
  EXPECT_EQ(proof.rule->inputs[0], (PaddedInput{"m", 1, -1073741824.0})); // so low that no other mask comes near
}

TEST_F(PaddingProofs, AMaskOfTenThousandMustBeClaimed) {
  std::string mask = std::regex_replace(kTenThousand, std::regex("arith.sitofp %a : i64"), "arith.uitofp %a : i1");
  mask = std::regex_replace(std::regex_replace(mask, std::regex("a: i64"), "a: i1"), std::regex("tensor<1xNxi64>"), "tensor<1xNxi1>");
  std::string text = attention("i1", mask);
  EXPECT_THAT(prove(text, kAttentionDims).reason, HasSubstr("reads padding as keys"));
  PaddingProof claimed = prove(text, kAttentionDims, PaddingClaim{"m"});
  ASSERT_TRUE(claimed.rule) << claimed.reason;
  EXPECT_EQ(claimed.rule->inputs[0], (PaddedInput{"m", 1, 0.0}));
}

TEST_F(PaddingProofs, AMaskThatIsUsedForMoreIsNoMask) {
  // The mean of the mask scales the output: padding would change it.
  std::string text = attention("f32", "    %bias = dit.view %m : tensor<1xNxf32> -> tensor<1x1x1xNxf32>\n"
                                      "    %mean = dit.reduce mean %m axes [1] : (tensor<1xNxf32>) -> tensor<1x1xf32>");
  EXPECT_THAT(prove(text, kAttentionDims).reason, HasSubstr("reduces over padding"));
}
