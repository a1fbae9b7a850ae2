// SPDX-License-Identifier: Apache-2.0
//
// The C API through the shared library: the calls of a C program, and the failures.
#include "RuntimeFixture.h"

#include "runtime/include/ditc.h"

#include <thread>

using namespace ditc::test;

extern "C" int ditc_c_calls(const char *path);

namespace {

class CApiTest : public testing::Test {
protected:
  void SetUp() override {
    writeTestPackage(path, {.weights = WeightPlace::Absent});
    ASSERT_EQ(ditc_open(path.c_str(), nullptr, &package), DITC_OK) << ditc_last_error();
    ASSERT_EQ(ditc_context_create(package, &context), DITC_OK);
  }
  void TearDown() override {
    ditc_context_destroy(context);
    ditc_close(package);
  }

  void expectError(ditc_status found, ditc_status expected, const std::string &text) {
    EXPECT_EQ(found, expected);
    EXPECT_NE(std::string(ditc_last_error()).find(text), std::string::npos) << ditc_last_error();
  }

  TempFolder folder;
  std::string path = folder / "p.dita";
  ditc_package *package = nullptr;
  ditc_context *context = nullptr;
  int64_t xShape[2] = {2, 3}, yShape[2] = {2, 4}, wShape[2] = {4, 3};
  std::vector<float> x = inputX(2), y = std::vector<float>(8), w = weightW();
  ditc_tensor in{"x", x.data(), DITC_F32, 2, xShape, nullptr, DITC_HOST};
  ditc_tensor out{"y", y.data(), DITC_F32, 2, yShape, nullptr, DITC_HOST};
  ditc_tensor weight{"w", w.data(), DITC_F32, 2, wShape, nullptr, DITC_HOST};
};

} // namespace

TEST(CApi, FromC) {
  TempFolder folder;
  writeTestPackage(folder / "p.dita");
  EXPECT_EQ(ditc_c_calls((folder / "p.dita").c_str()), 0) << ditc_last_error();
}

TEST(CApi, Constants) {
  EXPECT_STREQ(ditc_version(), "0.1.0");
  EXPECT_STREQ(ditc_dtype_name(DITC_BF16), "bf16");
  EXPECT_STREQ(ditc_dtype_name(DITC_BOOL), "b1");
  EXPECT_EQ(ditc_dtype_name(static_cast<ditc_dtype>(99)), nullptr);
  EXPECT_EQ(ditc_dtype_size(DITC_C64), 8u);
  EXPECT_EQ(ditc_dtype_size(static_cast<ditc_dtype>(-1)), 0u);
}

TEST_F(CApiTest, Weights) {
  EXPECT_EQ(ditc_weight_is_missing(package, "w"), 1);
  EXPECT_EQ(ditc_weight_is_missing(package, "v"), -1);
  expectError(ditc_run(context, "two", &in, 1, &out, 1), DITC_ERROR_INPUT, "are missing: w;");
  EXPECT_EQ(ditc_set_weights(package, &weight, 1, 0), DITC_OK);
  EXPECT_EQ(ditc_weight_is_missing(package, "w"), 0);
  EXPECT_EQ(ditc_run(context, "two", &in, 1, &out, 1), DITC_OK);
  EXPECT_EQ(y, expectedY(x));
  w[0] = 9;
  EXPECT_EQ(ditc_set_weights(package, &weight, 1, 1), DITC_OK);
  EXPECT_EQ(ditc_run(context, nullptr, &in, 1, &out, 1), DITC_OK);
  EXPECT_EQ(y, expectedY(x, w));
}

TEST_F(CApiTest, Strides) {
  EXPECT_EQ(ditc_set_weights(package, &weight, 1, 1), DITC_OK);
  std::vector<float> columns(6);
  for (size_t m = 0; m < 2; ++m)
    for (size_t k = 0; k < 3; ++k)
      columns[k * 2 + m] = x[m * 3 + k];
  int64_t strides[2] = {1, 2};
  in.data = columns.data();
  in.strides = strides;
  EXPECT_EQ(ditc_run(context, "two", &in, 1, &out, 1), DITC_OK) << ditc_last_error();
  EXPECT_EQ(y, expectedY(x));
}

TEST_F(CApiTest, UpdateAndMemory) {
  EXPECT_EQ(ditc_set_weights(package, &weight, 1, 0), DITC_OK);
  EXPECT_EQ(ditc_run(context, nullptr, &in, 1, &out, 1), DITC_OK);
  std::vector<float> before = y, other = w;
  other[4] = -7;
  weight.data = other.data();
  EXPECT_EQ(ditc_update_weights(package, &weight, 1), DITC_OK) << ditc_last_error();
  EXPECT_EQ(ditc_run(context, nullptr, &in, 1, &out, 1), DITC_OK);
  EXPECT_EQ(y, expectedY(x, other));
  EXPECT_EQ(ditc_revert_weights(package), DITC_OK);
  EXPECT_EQ(ditc_run(context, nullptr, &in, 1, &out, 1), DITC_OK);
  EXPECT_EQ(y, before);
  expectError(ditc_revert_weights(package), DITC_ERROR_INPUT, "no update of weights");
  ditc_memory_info memory = {sizeof memory, 0, 0, 0};
  EXPECT_EQ(ditc_memory(package, &memory), DITC_OK);
  EXPECT_EQ(memory.prepared_bytes, 48u);
  EXPECT_EQ(memory.context_bytes, 128u);
  memory.size = 8;
  expectError(ditc_memory(package, &memory), DITC_ERROR_USAGE, "out->size is 8, expected");
}

TEST_F(CApiTest, BucketPolicies) {
  struct Call {
    size_t count = 0;
    int64_t rows = 0;
  } call;
  auto fallback = [](void *user, const ditc_tensor *inputs, size_t, const ditc_tensor *, size_t, void *) {
    auto &seen = *static_cast<Call *>(user);
    ++seen.count;
    seen.rows = inputs[0].shape[0];
    return DITC_OK;
  };
  EXPECT_EQ(ditc_set_weights(package, &weight, 1, 0), DITC_OK);
  EXPECT_EQ(ditc_set_bucket_policy(package, DITC_BUCKET_FALLBACK, fallback, &call), DITC_OK);
  EXPECT_EQ(ditc_run(context, nullptr, &in, 1, &out, 1), DITC_OK);
  EXPECT_EQ(call.count, 0u);
  xShape[0] = yShape[0] = 3;
  EXPECT_EQ(ditc_run(context, nullptr, &in, 1, &out, 1), DITC_OK);
  EXPECT_EQ(call.count, 1u);
  EXPECT_EQ(call.rows, 3);
  auto failing = [](void *, const ditc_tensor *, size_t, const ditc_tensor *, size_t, void *) { return DITC_ERROR_INPUT; };
  EXPECT_EQ(ditc_set_bucket_policy(package, DITC_BUCKET_FALLBACK, failing, nullptr), DITC_OK);
  expectError(ditc_run(context, nullptr, &in, 1, &out, 1), DITC_ERROR_INPUT, "ditc_run: no bucket has these inputs, and the fallback returned status 1");
  EXPECT_EQ(ditc_set_bucket_policy(package, DITC_BUCKET_FALLBACK, fallback, &call), DITC_OK);
  expectError(ditc_run(context, "two", &in, 1, &out, 1), DITC_ERROR_INPUT, "bucket 'two' expects 'x' [2, 3]");
  in.name = "z"; // only shapes are for the fallback
  expectError(ditc_run(context, nullptr, &in, 1, &out, 1), DITC_ERROR_INPUT, "unknown input 'z'");
  in.name = "x";
  EXPECT_EQ(ditc_set_bucket_policy(package, DITC_BUCKET_EXACT, nullptr, nullptr), DITC_OK);
  expectError(ditc_run(context, nullptr, &in, 1, &out, 1), DITC_ERROR_INPUT, "no bucket of");
  expectError(ditc_set_bucket_policy(package, DITC_BUCKET_NEAREST, nullptr, nullptr), DITC_ERROR_INPUT,
              "cannot be padded to a larger bucket");
  expectError(ditc_set_bucket_policy(package, DITC_BUCKET_FALLBACK, nullptr, nullptr), DITC_ERROR_USAGE, "needs a callback");
}

TEST(CApi, PaddedRuns) {
  TempFolder folder;
  writeTestPackage(folder / "p.dita", {.manifest = [](ditc::Manifest &manifest) {
                     manifest.padding = {{"rows", {{"x", 0, {}}}, {{"y", 0}}}};
                   }});
  ditc_package *package = nullptr;
  ditc_context *context = nullptr;
  ASSERT_EQ(ditc_open((folder / "p.dita").c_str(), nullptr, &package), DITC_OK) << ditc_last_error();
  ASSERT_EQ(ditc_context_create(package, &context), DITC_OK);
  int64_t xShape[2] = {3, 3}, yShape[2] = {0, 0};
  std::vector<float> x = inputX(3), y(12);
  ditc_tensor in{"x", x.data(), DITC_F32, 2, xShape, nullptr, DITC_HOST};
  const char *bucket = nullptr;
  EXPECT_EQ(ditc_choose_bucket(package, &in, 1, &bucket), DITC_ERROR_INPUT);
  EXPECT_EQ(ditc_set_bucket_policy(package, DITC_BUCKET_NEAREST, nullptr, nullptr), DITC_OK) << ditc_last_error();
  EXPECT_EQ(ditc_choose_bucket(package, &in, 1, &bucket), DITC_OK);
  EXPECT_STREQ(bucket, "four");
  EXPECT_EQ(ditc_output_shape(package, nullptr, &in, 1, 0, yShape), DITC_OK);
  EXPECT_EQ(yShape[0], 3);
  EXPECT_EQ(yShape[1], 4);
  EXPECT_EQ(ditc_output_shape(package, nullptr, &in, 1, 1, yShape), DITC_ERROR_USAGE);
  EXPECT_EQ(ditc_output_shape(package, "two", &in, 1, 0, yShape), DITC_ERROR_INPUT);
  ditc_tensor out{"y", y.data(), DITC_F32, 2, yShape, nullptr, DITC_HOST};
  EXPECT_EQ(ditc_run(context, nullptr, &in, 1, &out, 1), DITC_OK) << ditc_last_error();
  EXPECT_EQ(y, expectedY(x));
  EXPECT_EQ(ditc_set_bucket_policy(package, DITC_BUCKET_EXACT, nullptr, nullptr), DITC_OK);
  EXPECT_EQ(ditc_run(context, nullptr, &in, 1, &out, 1), DITC_ERROR_INPUT);
  ditc_context_destroy(context);
  ditc_close(package);
}

TEST_F(CApiTest, OptionsOfAnOlderHeader) {
  ditc_options options = DITC_OPTIONS_INIT;
  options.size = offsetof(ditc_options, memory_budget);
  options.no_jit = 77; // lies behind what the caller's struct has
  ditc_package *other = nullptr;
  EXPECT_EQ(ditc_open(path.c_str(), &options, &other), DITC_OK) << ditc_last_error();
  ditc_close(other);
  expectError(ditc_run_on(context, nullptr, &in, 1, &out, 1, nullptr), DITC_ERROR_INPUT, "the device 'host' has no streams");
}

TEST_F(CApiTest, InputErrors) {
  ditc_package *none = nullptr;
  expectError(ditc_open((folder / "absent").c_str(), nullptr, &none), DITC_ERROR_INPUT, "absent");
  EXPECT_EQ(none, nullptr);
  xShape[0] = 3;
  expectError(ditc_run(context, nullptr, &in, 1, &out, 1), DITC_ERROR_INPUT, "no bucket of");
  ditc_tensor_info info;
  expectError(ditc_input_info(package, "six", 0, &info), DITC_ERROR_INPUT, "has no bucket 'six'");
  weight.name = "v";
  expectError(ditc_set_weights(package, &weight, 1, 0), DITC_ERROR_INPUT, "has no weight 'v'");
}

TEST_F(CApiTest, WrongCalls) {
  ditc_tensor_info info;
  ditc_options options = DITC_OPTIONS_INIT;
  ditc_package *other = nullptr;
  const char *name = nullptr;
  expectError(ditc_open(nullptr, nullptr, &other), DITC_ERROR_USAGE, "ditc_open: argument 'path' is null");
  options.size = 3;
  expectError(ditc_open(path.c_str(), &options, &other), DITC_ERROR_USAGE, "options.size is 3, expected");
  options.size = sizeof options;
  options.weight_file_count = 1;
  expectError(ditc_open(path.c_str(), &options, &other), DITC_ERROR_USAGE, "argument 'options.weight_files' is null");
  expectError(ditc_input_info(package, nullptr, 0, &info), DITC_ERROR_USAGE, "a bucket must be named, since the package");
  expectError(ditc_output_info(package, "two", 1, &info), DITC_ERROR_USAGE, "ditc_output_info: index 1 of 1");
  expectError(ditc_weight_info(package, 2, &info), DITC_ERROR_USAGE, "ditc_weight_info: index 2 of 2");
  expectError(ditc_run(nullptr, nullptr, &in, 1, &out, 1), DITC_ERROR_USAGE, "ditc_run: argument 'context' is null");
  expectError(ditc_run(context, nullptr, nullptr, 1, &out, 1), DITC_ERROR_USAGE, "ditc_run: argument 'inputs' is null");
  expectError(ditc_choose_bucket(package, &in, 1, nullptr), DITC_ERROR_USAGE, "argument 'out' is null");
  in.ndim = -1;
  expectError(ditc_choose_bucket(package, &in, 1, &name), DITC_ERROR_USAGE, "inputs[0] needs a name, a ditc_dtype");
  in.ndim = 2;
  in.device = static_cast<ditc_device>(7);
  expectError(ditc_run(context, nullptr, &in, 1, &out, 1), DITC_ERROR_USAGE, "inputs[0] ('x') is on device 7;");
  EXPECT_EQ(ditc_bucket_name(package, 2), nullptr);
  EXPECT_EQ(ditc_bucket_count(nullptr), 0u);
  ditc_close(nullptr);
  ditc_context_destroy(nullptr);
}

TEST_F(CApiTest, ErrorsAreOfAThread) {
  expectError(ditc_run(context, "six", &in, 1, &out, 1), DITC_ERROR_INPUT, "six");
  std::thread([] { EXPECT_STREQ(ditc_last_error(), ""); }).join();
  EXPECT_NE(std::string(ditc_last_error()), "");
}
