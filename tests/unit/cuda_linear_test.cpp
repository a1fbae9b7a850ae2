// SPDX-License-Identifier: Apache-2.0
//
// Linear attention on the CUDA target, against the reference evaluator.
#include "codegen/cuda/families/Families.h"
#include "tests/unit/CudaFamilies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

using namespace ditc;
using namespace ditc::test;

namespace {

/// Sizes and ways of one linear attention.
struct Linear {
  std::string element;
  int64_t batch, heads, tokens, d, e, parts = 1;
  bool relu = true, normaliser = true, tokenMajor = false; ///< heads inside the rows of tokens, instead of outside
  bool aligned = true;

  std::vector<int64_t> strides(int64_t channels) const {
    if (!tokenMajor)
      return {};
    return {tokens * heads * channels, channels, heads * channels, 1};
  }
  CudaArg tokensOf(int64_t channels) const { return {element, {batch, heads, tokens, channels}, strides(channels)}; }
  CudaArg state() const { return {"f32", {parts, batch, heads, e + normaliser, d}}; }
  std::string flags() const { return std::string("normaliser = ") + (normaliser ? "true" : "false") + ", relu = " + (relu ? "true" : "false"); }
  std::string words() const { return std::string(relu ? " relu" : "") + (normaliser ? " normaliser" : ""); }
};

CudaCase stateCase(const Linear &l) {
  return {.family = "linear_state", .config = l.flags(), .args = {l.tokensOf(l.d), l.tokensOf(l.e), l.state()},
          .reference = "dit.linear_state %0, %1" + l.words(), .tolerance = 1e-6, .aligned = l.aligned};
}

/// A state of numbers above 0, so that nothing is divided by almost nothing.
CudaCase applyCase(const Linear &l) {
  CudaArg state = l.state();
  state.value = [](size_t i) { return 1 + static_cast<double>(i * 7919 % 64) / 32; };
  double tolerance = l.element == "f32" ? 2e-6 : 8e-3;
  return {.family = "linear_apply", .config = l.flags() + ", epsilon = 1.0e-3 : f64", .args = {l.tokensOf(l.d), state, l.tokensOf(l.e)},
          .reference = "dit.linear_apply %0, %1" + l.words() + " epsilon 1.0e-3", .tolerance = tolerance, .aligned = l.aligned};
}

const Linear kCases[] = {
    {.element = "bf16", .batch = 2, .heads = 3, .tokens = 256, .d = 32, .e = 32, .parts = 2},
    {.element = "bf16", .batch = 2, .heads = 3, .tokens = 300, .d = 32, .e = 32, .parts = 4, .tokenMajor = true},
    {.element = "f16", .batch = 1, .heads = 2, .tokens = 129, .d = 40, .e = 72, .tokenMajor = true},
    {.element = "bf16", .batch = 1, .heads = 2, .tokens = 77, .d = 112, .e = 112, .normaliser = false},
    {.element = "f32", .batch = 1, .heads = 2, .tokens = 130, .d = 36, .e = 20, .relu = false},
    {.element = "f32", .batch = 2, .heads = 1, .tokens = 1, .d = 1, .e = 1},
    {.element = "bf16", .batch = 1, .heads = 5, .tokens = 33, .d = 7, .e = 13, .tokenMajor = true},
    {.element = "bf16", .batch = 1, .heads = 1, .tokens = 160, .d = 32, .e = 64, .aligned = false},
};

TEST(CudaLinear, StatesOfAnyShape) {
  CudaFamilies families(emitLinearState);
  for (const Linear &l : kCases)
    families.check(stateCase(l));
}

TEST(CudaLinear, ResultsOfAnyShape) {
  CudaFamilies families(emitLinearApply);
  for (const Linear &l : kCases)
    families.check(applyCase(l));
}

/// Operands of 16 bits whose channels are pieces of 16 bytes go by tensor cores, in tiles of 32 or 64, and whatever the sizes.
const Linear kPieces[] = {
    {.element = "bf16", .batch = 1, .heads = 2, .tokens = 64, .d = 64, .e = 64, .normaliser = false, .tokenMajor = true},
    {.element = "bf16", .batch = 2, .heads = 1, .tokens = 300, .d = 112, .e = 72, .parts = 3},
    {.element = "bf16", .batch = 1, .heads = 3, .tokens = 261, .d = 72, .e = 112, .relu = false, .tokenMajor = true},
    {.element = "bf16", .batch = 1, .heads = 1, .tokens = 40, .d = 8, .e = 24},
    {.element = "f16", .batch = 1, .heads = 2, .tokens = 200, .d = 96, .e = 40, .parts = 2},
};

TEST(CudaLinear, PiecesGoByTensorCores) {
  for (const Linear &l : kPieces) {
    CudaFamilies states(emitLinearState), results(emitLinearApply);
    states.check(stateCase(l));
    EXPECT_THAT(states.unit.text, testing::HasSubstr("linear_state_mma::run"));
    results.check(applyCase(l));
    EXPECT_THAT(results.unit.text, testing::HasSubstr(l.element == "bf16" ? "linear_apply_mma::run" : "linear_apply::run"));
  }
}

/// The state counts with 16 bits, not with the eight of bf16.
TEST(CudaLinear, StatesAreTwoNumbers) {
  Linear l{.element = "bf16", .batch = 1, .heads = 2, .tokens = 150, .d = 112, .e = 112, .parts = 2, .normaliser = false};
  CudaCase apply = applyCase(l);
  apply.args[2] = {"f32", {1, 2, 150, 112}, {2 * 112 * 150, 112 * 150, 1, 150}}; // as SANA-Video takes it: tokens innermost
  apply.tolerance = 1e-5;
  CudaFamilies families(emitLinearApply);
  families.check(apply);
  EXPECT_THAT(families.unit.text, testing::HasSubstr("linear_apply_mma::run"));
}

TEST(CudaLinear, StatesThatAreNotFinite) {
  Linear l{.element = "bf16", .batch = 1, .heads = 1, .tokens = 8, .d = 8, .e = 8, .relu = false, .normaliser = false};
  CudaCase apply = applyCase(l);
  apply.args[0].value = [](size_t) { return 1.0; };
  apply.args[1].value = [](size_t i) { return i == 3 ? std::numeric_limits<double>::infinity() : i == 8 ? std::numeric_limits<double>::quiet_NaN() : 0.5; };
  CudaFamilies families(emitLinearApply);
  families.check(apply);
  EXPECT_EQ(families.result()[0], std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(families.result()[1]));
  EXPECT_EQ(families.result()[2], 4);
}

TEST(CudaLinear, ChannelsApart) { // tokens innermost, as images have them
  Linear l{.element = "bf16", .batch = 1, .heads = 2, .tokens = 96, .d = 24, .e = 16};
  CudaCase state = stateCase(l), apply = applyCase(l);
  for (CudaArg *arg : {&state.args[0], &state.args[1], &apply.args[0], &apply.args[2]})
    arg->strides = {2 * arg->shape[3] * 96, arg->shape[3] * 96, 1, 96};
  CudaFamilies(emitLinearState).check(state);
  CudaFamilies(emitLinearApply).check(apply);
}

TEST(CudaLinear, NotANumberPassesTheCutAtZero) {
  CudaCase state = stateCase({.element = "f32", .batch = 1, .heads = 1, .tokens = 4, .d = 2, .e = 2});
  state.args[0].value = [](size_t i) { return i == 3 ? std::numeric_limits<double>::quiet_NaN() : -1.0; };
  CudaFamilies families(emitLinearState);
  families.check(state);
  EXPECT_TRUE(std::isnan(families.result()[1]));
  EXPECT_EQ(families.result()[0], 0);
}

TEST(CudaLinear, DivisorsWhoseReciprocalIsInfinite) {
  CudaFamilies families(emitLinearApply);
  CudaCase apply = applyCase({.element = "f32", .batch = 1, .heads = 1, .tokens = 2, .d = 1, .e = 1, .relu = false});
  apply.config = "normaliser = true, relu = false, epsilon = 0.0 : f64";
  apply.reference = "dit.linear_apply %0, %1 normaliser epsilon 0.0";
  apply.args[0].value = [](size_t i) { return i == 0 ? 1e-40 : 3.0; };
  apply.args[1].value = [](size_t i) { return i == 0 ? 5.0 : 2.0; };
  apply.tolerance = 1e-4; // of subnormal numbers
  families.check(apply);
  EXPECT_NEAR(families.result()[0], 2.5, 1e-3);
}

/// What the emitter says of kernels that no pass makes.
std::string refusalOf(CudaEmitter emitter, CudaCase c, size_t arg, const CudaArg &changed) {
  CudaFamilies families(emitter);
  c.reference.clear();
  c.args[arg] = changed;
  EXPECT_FALSE(families.emit(c));
  return families.messages;
}

TEST(CudaLinear, RefusesWhatDoesNotFit) {
  using testing::HasSubstr;
  Linear l{.element = "f32", .batch = 1, .heads = 1, .tokens = 10, .d = 2, .e = 2};
  CudaCase state = stateCase(l), apply = applyCase(l);
  EXPECT_THAT(refusalOf(emitLinearState, state, 2, {"f32", {3, 1, 1, 3, 2}}), HasSubstr("tokens do not come in equal parts"));
  EXPECT_THAT(refusalOf(emitLinearState, state, 0, {"f64", {1, 1, 10, 2}}), HasSubstr("computes in fp32"));
  EXPECT_THAT(refusalOf(emitLinearState, state, 2, {"bf16", {1, 1, 1, 3, 2}}), HasSubstr("state of linear attention is f32"));
  EXPECT_THAT(refusalOf(emitLinearState, state, 2, {"f32", {1, 1, 1, 2, 2}}), HasSubstr("does not fit its operands"));
  EXPECT_THAT(refusalOf(emitLinearState, state, 1, {"f32", {1, 1, 12, 2}}), HasSubstr("keys and values differ"));
  EXPECT_THAT(refusalOf(emitLinearApply, apply, 2, {"f32", {1, 1, 12, 2}}), HasSubstr("queries and results differ"));
}

} // namespace
