// SPDX-License-Identifier: Apache-2.0
//
// plan.json: both directions, and every way in which a plan is refused.
#include "RuntimeFixture.h"

#include "runtime/Plan.h"

using namespace ditc;
using namespace ditc::test;

namespace {

Plan goodPlan() {
  Plan plan = testPlan(2, "constants/t");
  plan.pinned = {{{"ids", DType::i64, {2}}, std::string(32, 'a')}};
  plan.step.push_back({CopyOp{{0, 0}, {1, 8}, 24}, ""});
  return plan;
}

GemmOp &gemmOf(Plan &plan) { return std::get<GemmOp>(plan.step[0].body); }

/// Parsing the good plan's JSON after a change.
std::string parseError(const std::function<void(Json &)> &change) {
  Json json = Json::parse(writePlan(goodPlan()));
  change(json);
  return errorOf([&] { parsePlan(json.dump(), "p"); });
}

std::string checkError(const std::function<void(Plan &)> &change) {
  Plan plan = goodPlan();
  change(plan);
  return errorOf([&] { validatePlan(plan, "p"); });
}

struct JsonCase {
  std::function<void(Json &)> change;
  std::string text;
};

struct PlanCase {
  std::function<void(Plan &)> change;
  std::string text;
};

} // namespace

TEST(Plan, RoundTrip) {
  std::string text = writePlan(goodPlan());
  Plan read = parsePlan(text, "p");
  EXPECT_EQ(writePlan(read), text);
  EXPECT_EQ(read.arenaBytes, 96u);
  EXPECT_EQ(read.pinned[0].xxh128, std::string(32, 'a'));
  EXPECT_EQ(read.step[0].where, "proj");
  EXPECT_EQ(std::get<GemmOp>(read.step[0].body).b.rowStride, 4);
  EXPECT_EQ(std::get<LaunchOp>(read.step[1].body).args[3].buffer, 1u);
  EXPECT_EQ(std::get<CopyOp>(read.step[2].body).dst.offset, 8u);
}

TEST(Plan, BatchedGemmRoundTrip) {
  Plan plan = goodPlan();
  GemmOp &gemm = gemmOf(plan);
  gemm.m = 1;
  gemm.batch = {2};
  gemm.a.batchStrides = {3};
  gemm.b.batchStrides = {0};
  gemm.b.transposed = true;
  gemm.b.rowStride = 3;
  gemm.c.batchStrides = {4};
  GemmOp read = std::get<GemmOp>(parsePlan(writePlan(plan), "p").step[0].body);
  EXPECT_TRUE(read.b.transposed);
  EXPECT_EQ(read.batch, std::vector<int64_t>{2});
  EXPECT_EQ(read.c.batchStrides, std::vector<int64_t>{4});
}

TEST(Plan, EmptySizes) {
  Plan plan = goodPlan();
  plan.inputs[0].shape = {0, 3};
  plan.step.pop_back(); // the copy from the input
  gemmOf(plan).m = 0;
  EXPECT_NO_THROW(validatePlan(plan, "p"));
  gemmOf(plan).batch = {0};
  for (GemmOperand *operand : {&gemmOf(plan).a, &gemmOf(plan).b, &gemmOf(plan).c})
    operand->batchStrides = {1};
  EXPECT_NO_THROW(validatePlan(plan, "p"));
}

TEST(Plan, RefusedJson) {
  const JsonCase cases[] = {
      {[](Json &j) { j["version"] = 2; }, "'p' has plan version 2, this runtime reads version 1"},
      {[](Json &j) { j.erase("step"); }, "'p': field 'step' is missing"},
      {[](Json &j) { j["arena_bytes"] = -1; }, "'p'.arena_bytes: found -1, expected an integer that is not negative"},
      {[](Json &j) { j["arena_bytes"] = 1.5; }, "'p'.arena_bytes: found 1.5, expected an integer"},
      {[](Json &j) { j["arena_bytes"] = UINT64_MAX; }, "expected an integer below 2^63"},
      {[](Json &j) { j["inputs"] = 1; }, "'p'.inputs: found 1, expected a list"},
      {[](Json &j) { j["inputs"][0] = 1; }, "'p'.inputs[0]: found 1, expected a JSON object"},
      {[](Json &j) { j["inputs"][0]["name"] = 1; }, "'p'.inputs[0].name: found 1, expected a string"},
      {[](Json &j) { j["inputs"][0]["dtype"] = "f31"; }, "found \"f31\", expected an element type"},
      {[](Json &j) { j["inputs"][0]["shape"][0] = -2; }, "'p'.inputs[0].shape[0]: found -2"},
      {[](Json &j) { j["buffers"][0]["space"] = "moon"; }, "found \"moon\", expected one of input, output"},
      {[](Json &j) { j["buffers"][0]["index"] = 5000000000; }, "expected an integer below 2^32"},
      {[](Json &j) { j["step"][0]["op"] = "sing"; }, "'p'.step[0].op: found \"sing\", expected one of launch, gemm"},
      {[](Json &j) { j["step"][0]["a"] = {1}; }, "'p'.step[0].a: found a JSON array, expected [buffer, byte offset]"},
      {[](Json &j) { j["step"][0]["trans_a"] = 1; }, "expected true or false"},
      {[](Json &j) { j["step"][0]["where"] = std::string(900, 'x') + "\n"; j["step"][0]["op"] = 1; }, ".op: found 1"},
  };
  for (const JsonCase &test : cases)
    EXPECT_NE(parseError(test.change).find(test.text), std::string::npos) << parseError(test.change);
  EXPECT_ERROR(parsePlan("{", "p"), "'p' is not JSON", "compile again");
  EXPECT_ERROR(parsePlan("[]", "p"), "'p': found a JSON array, expected a JSON object");
}

TEST(Plan, RefusedPortsAndBuffers) {
  const PlanCase cases[] = {
      {[](Plan &p) { p.inputs[0].name = ""; }, "an input has no name"},
      {[](Plan &p) { p.pinned[0].name = "x"; }, "the name 'x' is given to two inputs or outputs"},
      {[](Plan &p) { p.inputs[0].shape = {int64_t{1} << 40, int64_t{1} << 40}; }, "is negative or too large"},
      {[](Plan &p) { p.inputs[0].shape = {int64_t{1} << 40, int64_t{1} << 40, 0}; }, "is negative or too large"},
      {[](Plan &p) { p.inputs[0].shape = {-1}; }, "'x': shape [-1] is negative or too large"},
      {[](Plan &p) { p.buffers[0].index = 1; }, "buffer 0 is input 1, but there are 1"},
      {[](Plan &p) { p.buffers[1].index = 7; }, "buffer 1 is output 7, but there are 1"},
      {[](Plan &p) { p.buffers[2].name = ""; }, "buffer 2 is a weight without a name"},
      {[](Plan &p) { p.buffers[5].bytes = 49; }, "buffer 5 covers 49 bytes at 0 of the 48 bytes of prepared"},
      {[](Plan &p) { p.buffers[6].offset = 80; }, "buffer 6 covers 32 bytes at 80 of the 96 bytes of arena"},
      {[](Plan &p) { p.buffers[6].offset = UINT64_MAX; }, "of the 96 bytes of arena"},
  };
  for (const PlanCase &test : cases)
    EXPECT_NE(checkError(test.change).find(test.text), std::string::npos) << checkError(test.change);
}

TEST(Plan, RefusedLaunchesAndCopies) {
  auto launch = [](Plan &p) -> LaunchOp & { return std::get<LaunchOp>(p.step[1].body); };
  auto copy = [](Plan &p) -> CopyOp & { return std::get<CopyOp>(p.step[2].body); };
  const PlanCase cases[] = {
      {[&](Plan &p) { launch(p).kernel = 2; }, "'p': step[1] ('act'): kernel 2 of 2"},
      {[&](Plan &p) { launch(p).args.clear(); }, "launch without arguments"},
      {[&](Plan &p) { launch(p).args[1].buffer = 99; }, "argument 1 is buffer 99, but there are 7"},
      {[&](Plan &p) { launch(p).args[1].offset = 17; }, "argument 1 covers 0 bytes at 17 of buffer 3, which has 16"},
      {[&](Plan &p) { launch(p).args[3] = {2, 0}; }, "writes weight memory through argument 3"},
      {[&](Plan &p) { launch(p).args[3] = {5, 0}; }, "writes prepared memory through argument 3"},
      {[&](Plan &p) { copy(p).bytes = 25; }, "step[2]: src covers 25 bytes at 0 of buffer 0, which has 24"},
      {[&](Plan &p) { copy(p).dst.offset = 9; }, "dst covers 24 bytes at 9 of buffer 1, which has 32"},
      {[&](Plan &p) { copy(p).bytes = UINT64_MAX; copy(p).src.offset = 8; }, "covers more bytes than 64 bits can count"},
      {[&](Plan &p) { copy(p).dst = {4, 0}; copy(p).bytes = 4; }, "writes constant memory through dst"},
      {[&](Plan &p) { p.prepare[0].body = CopyOp{{0, 0}, {5, 0}, 4}; }, "src is an input, which prepare ops have not"},
      {[&](Plan &p) { p.prepare[0].body = CopyOp{{2, 0}, {3, 0}, 4}; }, "writes weight memory through dst"},
  };
  for (const PlanCase &test : cases)
    EXPECT_NE(checkError(test.change).find(test.text), std::string::npos) << checkError(test.change);
}

TEST(Plan, RefusedGemms) {
  auto batch = [](Plan &p, int64_t size, int64_t a, int64_t b, int64_t c) {
    gemmOf(p).batch = {size};
    gemmOf(p).a.batchStrides = {a};
    gemmOf(p).b.batchStrides = {b};
    gemmOf(p).c.batchStrides = {c};
  };
  const PlanCase cases[] = {
      {[](Plan &p) { gemmOf(p).dtype = DType::i32; }, "gemm in i32, expected f32, f64, bf16 or f16"},
      {[](Plan &p) { gemmOf(p).m = -1; }, "gemm size -1 is not within 0 and 2^31-1"},
      {[](Plan &p) { gemmOf(p).n = int64_t{1} << 31; }, "gemm size 2147483648 is not within"},
      {[](Plan &p) { gemmOf(p).a.rowStride = 2; }, "lda is 2, but rows have 3 elements"},
      {[](Plan &p) { gemmOf(p).b.transposed = true; gemmOf(p).b.rowStride = 2; }, "ldb is 2, but rows have 3"},
      {[](Plan &p) { gemmOf(p).a.rowStride = 4; }, "a covers 28 bytes at 0 of buffer 0, which has 24"},
      {[](Plan &p) { gemmOf(p).c.at.offset = 4; }, "c covers 32 bytes at 4 of buffer 6, which has 32"},
      {[](Plan &p) { gemmOf(p).c.at = {2, 0}; }, "writes weight memory through c"},
      {[](Plan &p) { gemmOf(p).m = 1; gemmOf(p).a.at.offset = 2; }, "a starts at byte 2, which is not a multiple of 4"},
      {[](Plan &p) { gemmOf(p).batch = {2}; }, "batch_a has 0 strides for 1 batch dimensions"},
      {[&](Plan &p) { batch(p, 2, -1, 0, 8); }, "batch_a has the negative stride -1"},
      {[&](Plan &p) { batch(p, 2, 0, 0, 0); }, "batch_c has stride 0"},
      {[&](Plan &p) { batch(p, -2, 0, 0, 8); }, "batch size -2 is negative"},
      {[&](Plan &p) { batch(p, 2, 1, 0, 8); }, "a covers 28 bytes at 0 of buffer 0"},
      {[&](Plan &p) { batch(p, INT64_MAX, INT64_MAX, 0, 8); }, "covers more bytes than 64 bits can count"},
  };
  for (const PlanCase &test : cases)
    EXPECT_NE(checkError(test.change).find(test.text), std::string::npos) << checkError(test.change);
}

TEST(Plan, ZeroedMemory) {
  auto use = [](Plan &p) {
    p.zeroedBytes = 64;
    p.buffers.push_back({Space::Zeroed, 0, "", 16, 48});
    LaunchOp &launch = std::get<LaunchOp>(p.step[1].body);
    launch.args.insert(launch.args.end() - 1, {7, 0});
  };
  Plan plan = goodPlan();
  EXPECT_EQ(writePlan(plan).find("zeroed"), std::string::npos); // plans without are as they were
  use(plan);
  Plan read = parsePlan(writePlan(plan), "p");
  EXPECT_EQ(read.zeroedBytes, 64u);
  EXPECT_EQ(read.buffers[7].space, Space::Zeroed);
  EXPECT_EQ(read.buffers[7].offset, 16u);
  const PlanCase cases[] = {
      {[](Plan &p) { p.zeroedBytes = 63; }, "buffer 7 covers 48 bytes at 16 of the 63 bytes of zeroed"},
      {[](Plan &p) { p.buffers[7].offset = UINT64_MAX; }, "of the 64 bytes of zeroed"},
      {[](Plan &p) { std::get<CopyOp>(p.step[2].body).dst = {7, 0}; }, "dst is zeroed memory, which only kernels of a step"},
      {[](Plan &p) { std::get<LaunchOp>(p.step[1].body).args.back() = {7, 0}; }, "argument 4 is zeroed memory"},
      {[](Plan &p) { p.prepare[0].body = CopyOp{{7, 0}, {5, 0}, 4}; }, "src is zeroed memory, which only kernels of a step"},
  };
  for (const PlanCase &test : cases) {
    std::string error = checkError([&](Plan &p) { use(p), test.change(p); });
    EXPECT_NE(error.find(test.text), std::string::npos) << error;
  }
}

TEST(Plan, SpaceNames) {
  EXPECT_EQ(nameOf(Space::Input), "input");
  EXPECT_EQ(nameOf(Space::Arena), "arena");
  EXPECT_EQ(nameOf(Space::Zeroed), "zeroed");
}
