// SPDX-License-Identifier: Apache-2.0
//
// Sessions on the host device: results, weights, threads.
#include "RuntimeFixture.h"

#include "runtime/Session.h"

#include <cmath>
#include <filesystem>
#include <limits>
#include <thread>

using namespace ditc;
using namespace ditc::test;

namespace {

class SessionTest : public testing::Test {
protected:
  std::shared_ptr<Session> open(const PackageChange &change = {}, const SessionOptions &options = {}) {
    writeTestPackage(path, change);
    return Session::open(path, options);
  }

  /// One run with `rows` rows in a new context.
  std::vector<float> run(const std::shared_ptr<Session> &session, int64_t rows = 2) {
    std::vector<float> x = inputX(rows), y(static_cast<size_t>(rows * kOut));
    TensorRef in = tensor("x", x, {rows, kIn}), out = tensor("y", y, {rows, kOut});
    Context context(session);
    context.run({"", {&in, 1}, {&out, 1}});
    return y;
  }

  TempFolder folder;
  std::string path = folder / "p.dita";
};

/// A plan of one launch from x to y.
std::function<void(Plan &)> onlyKernel(const std::string &kernel) {
  return [kernel](Plan &plan) {
    plan.kernels = {kernel};
    plan.prepare.clear();
    plan.step = {{LaunchOp{0, {{0, 0}, {1, 0}}}, "only"}};
  };
}

} // namespace

TEST_F(SessionTest, RunsTheBucketOfTheShapes) {
  std::shared_ptr<Session> session = open();
  EXPECT_EQ(run(session, 2), expectedY(inputX(2)));
  EXPECT_EQ(run(session, 4), expectedY(inputX(4)));
  EXPECT_EQ(run(session, 2), expectedY(inputX(2)));
}

TEST_F(SessionTest, OneContextForAllBuckets) {
  Context context(open());
  for (int64_t rows : {2, 4, 2}) {
    std::vector<float> x = inputX(rows), y(static_cast<size_t>(rows * kOut));
    TensorRef in = tensor("x", x, {rows, kIn}), out = tensor("y", y, {rows, kOut});
    EXPECT_EQ(context.run({"", {&in, 1}, {&out, 1}}).bucket, rows == 2 ? "two" : "four");
    EXPECT_EQ(y, expectedY(x));
  }
}

TEST_F(SessionTest, TimedRun) {
  std::vector<float> x = inputX(2), y(8);
  TensorRef in = tensor("x", x, {2, kIn}), out = tensor("y", y, {2, kOut});
  Context context(open());
  EXPECT_EQ(context.run({"two", {&in, 1}, {&out, 1}, true}).opSeconds.size(), 2u);
  EXPECT_EQ(y, expectedY(x));
}

TEST_F(SessionTest, StridedAndUnalignedTensors) {
  Context context(open());
  std::vector<float> x = inputX(2), columns(6), y(16, -1);
  for (size_t m = 0; m < 2; ++m)
    for (size_t k = 0; k < 3; ++k)
      columns[k * 2 + m] = x[m * 3 + k];
  TensorRef in{"x", DType::f32, {2, kIn}, {1, 2}, columns.data()};
  TensorRef out{"y", DType::f32, {2, kOut}, {8, 2}, y.data()};
  context.run({"", {&in, 1}, {&out, 1}});
  std::vector<float> expected = expectedY(x);
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(y[i * 2], expected[i]);
    EXPECT_EQ(y[i * 2 + 1], -1); // between the elements nothing is written
  }
  std::vector<char> raw(24 + 1), rawOut(32 + 3);
  std::copy_n(reinterpret_cast<const char *>(x.data()), 24, raw.data() + 1);
  in = {"x", DType::f32, {2, kIn}, {}, raw.data() + 1};
  out = {"y", DType::f32, {2, kOut}, {}, rawOut.data() + 3};
  context.run({"", {&in, 1}, {&out, 1}});
  EXPECT_EQ(std::memcmp(rawOut.data() + 3, expected.data(), 32), 0);
}

TEST_F(SessionTest, WeightsInOtherFiles) {
  for (WeightPlace place : {WeightPlace::File, WeightPlace::StridedFile})
    EXPECT_EQ(run(open({.weights = place})), expectedY(inputX(2)));
}

TEST_F(SessionTest, WrongWeightFiles) {
  std::shared_ptr<Session> session = open({.weights = WeightPlace::File});
  std::string bytes = readText(folder / "model.bin");
  bytes[20] ^= 1;
  writeText(folder / "model.bin", bytes);
  EXPECT_ERROR(run(session), "weight 'w' in", "does not have the content that the package was compiled with");
  EXPECT_NO_THROW(run(Session::open(path, {.verifyWeights = false})));
  writeText(folder / "model.bin", "short");
  EXPECT_ERROR(run(Session::open(path, {})), "weight 'w' covers 48 bytes at 12 of", "which has 5");
  std::filesystem::remove(folder / "model.bin");
  EXPECT_ERROR(run(Session::open(path, {})), "weight 'w' is in the file 'model.bin' that belongs to");
}

TEST_F(SessionTest, MissingWeights) {
  std::shared_ptr<Session> session = open({.weights = WeightPlace::Absent});
  EXPECT_EQ(session->missingWeights(), std::vector<std::string>{"w"});
  EXPECT_ERROR(run(session), "1 weights of", "are missing: w;", "--weights");
  std::vector<float> w = weightW();
  TensorRef ref = tensor("w", w, {kOut, kIn});
  session->setWeights({&ref, 1}, Ownership::Copy);
  EXPECT_TRUE(session->missingWeights().empty());
  EXPECT_EQ(run(session), expectedY(inputX(2)));
}

TEST_F(SessionTest, ManyMissingWeights) {
  std::shared_ptr<Session> session = open({.manifest = [](Manifest &m) {
    for (int i = 0; i < 30; ++i)
      m.weights[fmt::format("v{:02}", i)] = {DType::f32, {1}, "", "", 0, 0, {}, ""};
  }});
  EXPECT_ERROR(run(session), "30 weights of", "v00, v01", "v19 and 10 more;");
}

TEST_F(SessionTest, SafetensorsTakeThePlaceOfWeights) {
  std::vector<float> w = weightW();
  w[0] = 100;
  std::string file = folder / "w.safetensors";
  writeSafetensors(file, {{"w", {DType::f32, {kOut, kIn}, bytesOf(w)}}, {"vae", {DType::f32, {4}, bytesOf(weightB())}}});
  std::shared_ptr<Session> session = open({}, {.weightFiles = {file}});
  EXPECT_EQ(session->unknownWeights(), std::vector<std::string>{"vae"});
  EXPECT_EQ(run(session), expectedY(inputX(2), w));
  writeSafetensors(file, {{"w", {DType::f32, {kIn, kOut}, bytesOf(w)}}});
  EXPECT_ERROR(Session::open(path, {.weightFiles = {file}}), "weight 'w' is f32 [3, 4],", "expects f32 [4, 3]");
}

TEST_F(SessionTest, NewWeightsArePreparedAgain) {
  std::shared_ptr<Session> session = open();
  run(session);
  std::shared_ptr<const BoundBucket> before = session->bind("two");
  EXPECT_EQ(session->bind("two"), before);
  std::vector<float> w = weightW();
  w[3] = 5;
  TensorRef ref = tensor("w", w, {kOut, kIn});
  session->setWeights({&ref, 1}, Ownership::Copy);
  w[3] = 6; // it was copied
  EXPECT_NE(session->bind("two"), before);
  w[3] = 5;
  EXPECT_EQ(run(session), expectedY(inputX(2), w));
  EXPECT_EQ(run(session, 4), expectedY(inputX(4), w));
}

TEST_F(SessionTest, UpdateAndRevert) {
  std::shared_ptr<Session> session = open();
  EXPECT_ERROR(session->revertWeights(), "there is no update of weights to take back");
  EXPECT_EQ(run(session), expectedY(inputX(2)));
  std::vector<float> w = weightW(), b = weightB();
  w[3] = 5;
  TensorRef both[] = {tensor("w", w, {kOut, kIn}), tensor("b", b, {kOut})};
  session->updateWeights(both);
  std::vector<float> updated = expectedY(inputX(2), w);
  w[3] = 6; // it was copied
  EXPECT_EQ(run(session), updated);
  session->revertWeights();
  EXPECT_EQ(run(session), expectedY(inputX(2)));
  EXPECT_EQ(run(session, 4), expectedY(inputX(4)));
  EXPECT_ERROR(session->revertWeights(), "no update");
  session->updateWeights(both);
  session->setWeights(both, Ownership::Copy);
  EXPECT_ERROR(session->revertWeights(), "no update"); // would bring older values over newer ones
}

TEST_F(SessionTest, TensorsOfAGpuAreRefusedOnTheHost) {
  std::shared_ptr<Session> session = open();
  std::vector<float> x = inputX(2), y(8), w = weightW();
  TensorRef in = tensor("x", x, {2, kIn}), out = tensor("y", y, {2, kOut}), weight = tensor("w", w, {kOut, kIn});
  Context context(session);
  EXPECT_ERROR(context.run({"", {&in, 1}, {&out, 1}, false, false, kDefaultStream}), "the device 'host' has no streams");
  in.onDevice = weight.onDevice = true;
  EXPECT_ERROR(context.run({"", {&in, 1}, {&out, 1}}), "'x' is memory of a GPU", "open it on 'cuda'");
  EXPECT_ERROR(session->updateWeights({&weight, 1}), "weight 'w' is memory of a GPU");
}

TEST_F(SessionTest, PreparedMemoryIsKeptWhenOtherWeightsChange) {
  std::shared_ptr<Session> session = open();
  MemoryRef prepared = session->bind("two")->prepared;
  std::vector<float> b = weightB();
  TensorRef ref = tensor("b", b, {kOut});
  session->setWeights({&ref, 1}, Ownership::Borrow);
  EXPECT_EQ(session->bind("two")->prepared, prepared); // only w goes into it
  EXPECT_EQ(run(session), expectedY(inputX(2)));
}

TEST_F(SessionTest, StridedWeight) {
  std::shared_ptr<Session> session = open();
  std::vector<float> w = weightW(), stored(12);
  for (size_t n = 0; n < 4; ++n)
    for (size_t k = 0; k < 3; ++k)
      stored[k * 4 + n] = w[n * 3 + k];
  TensorRef ref{"w", DType::f32, {kOut, kIn}, {1, 4}, stored.data()};
  session->setWeights({&ref, 1}, Ownership::Borrow);
  EXPECT_EQ(run(session), expectedY(inputX(2)));
}

TEST_F(SessionTest, RefusedWeights) {
  std::shared_ptr<Session> session = open();
  std::vector<float> w = weightW();
  auto set = [&](const TensorRef &ref) { session->setWeights({&ref, 1}, Ownership::Copy); };
  EXPECT_ERROR(set(tensor("v", w, {kOut, kIn})), "has no weight 'v'");
  EXPECT_ERROR(set(tensor("w", w, {kIn, kOut})), "weight 'w' is f32 [3, 4]");
  EXPECT_ERROR(set({"w", DType::f32, {kOut, kIn}, {1}, w.data()}), "weight 'w' has 1 strides for 2 dimensions");
  EXPECT_ERROR(set({"w", DType::f32, {kOut, kIn}, {}, nullptr}), "weight 'w' has no data (null pointer)");
  w[0] = 77;
  TensorRef both[] = {tensor("w", w, {kOut, kIn}), tensor("v", w, {1})};
  EXPECT_ERROR(session->setWeights(both, Ownership::Copy), "has no weight 'v'");
  EXPECT_EQ(run(session), expectedY(inputX(2))); // all or none
}

TEST_F(SessionTest, DamagedWeightInThePackage) {
  writeTestPackage(folder / "good.dita");
  forgePackage(folder / "good.dita", path, [](Json &) {}, [](const std::string &name, std::vector<uint8_t> &bytes) {
    if (name == "weights/w")
      bytes[3] ^= 1;
  });
  EXPECT_ERROR(run(Session::open(path, {})), "member 'weights/w' does not have the hash");
  EXPECT_NO_THROW(run(Session::open(path, {.verifyWeights = false})));
}

TEST_F(SessionTest, ThreadsWithContextsOfTheirOwn) {
  std::shared_ptr<Session> session = open();
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, rows = t % 2 ? 2 : 4] {
      for (int i = 0; i < 50; ++i)
        wrong += run(session, rows) != expectedY(inputX(rows));
    });
  std::vector<float> w = weightW();
  for (int i = 0; i < 50; ++i) { // the same values in new memory while others run
    TensorRef ref = tensor("w", w, {kOut, kIn});
    session->setWeights({&ref, 1}, Ownership::Copy);
  }
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(SessionTest, OneContextInTwoThreads) {
  std::shared_ptr<Session> session = open({.plan = onlyKernel("wait_for_flag")});
  std::vector<float> x(6), y(8), other(8);
  TensorRef in = tensor("x", x, {2, kIn}), out = tensor("y", y, {2, kOut}), out2 = tensor("y", other, {2, kOut});
  session->bind("two");
  Context context(session);
  std::thread first([&] { // again when it is the one that is refused
    while (!errorOf([&] { context.run({"two", {&in, 1}, {&out, 1}}); }).empty())
      std::this_thread::yield();
  });
  std::string text;
  while (text.empty()) { // until the first is in its kernel, this one runs to its end
    std::vector<float> ready{1, 0, 0, 0, 0, 0};
    TensorRef go = tensor("x", ready, {2, kIn});
    text = errorOf([&] { context.run({"two", {&go, 1}, {&out2, 1}}); });
    std::this_thread::yield();
  }
  *const_cast<volatile float *>(x.data()) = 1;
  first.join();
  EXPECT_NE(text.find("running in another thread; give each thread a context of its own"), std::string::npos) << text;
  EXPECT_EQ(y[0], 1);
  EXPECT_NO_THROW(context.run({"two", {&in, 1}, {&out, 1}})); // usable again
}

TEST_F(SessionTest, PoisonShowsWhatNobodyWrote) {
  std::shared_ptr<Session> session = open({.plan = onlyKernel("keep_first")});
  std::vector<float> x = inputX(2), y(8);
  TensorRef in = tensor("x", x, {2, kIn}), out = tensor("y", y, {2, kOut});
  Context context(session);
  context.run({"two", {&in, 1}, {&out, 1}});
  EXPECT_EQ(y[1], 0);
  context.run({"two", {&in, 1}, {&out, 1}, false, true});
  EXPECT_EQ(y[0], -2);
  EXPECT_TRUE(std::isnan(y[1]));
}

/// Zero at first, kept between the runs of a context, and not poisoned.
TEST_F(SessionTest, ZeroedMemory) {
  std::shared_ptr<Session> session = open({.plan = [](Plan &plan) {
    plan.zeroedBytes = 16;
    plan.buffers.push_back({Space::Zeroed, 0, "", 8, 4});
    plan.kernels.push_back("count_runs");
    plan.step = {{LaunchOp{2, {{7, 0}, {1, 0}}}, ""}};
  }});
  for (int context = 0; context < 2; ++context) {
    Context own(session);
    for (int i = 0; i < 3; ++i) {
      std::vector<float> x = inputX(2), y(8);
      TensorRef in = tensor("x", x, {2, kIn}), out = tensor("y", y, {2, kOut});
      own.run({"two", {&in, 1}, {&out, 1}, false, /*poison=*/i % 2 == 1});
      EXPECT_EQ(y[0], static_cast<float>(i));
    }
  }
}

TEST_F(SessionTest, PrepareMayUseScratchAndCopies) {
  std::shared_ptr<Session> session = open({.plan = [](Plan &plan) {
    plan.arenaBytes = 1024;
    plan.buffers.push_back({Space::Arena, 0, "", 512, 48});
    plan.prepare = {{CopyOp{{2, 0}, {7, 0}, 48}, ""}, {LaunchOp{0, {{7, 0}, {5, 0}}}, ""}};
  }});
  EXPECT_EQ(run(session), expectedY(inputX(2)));
}

TEST_F(SessionTest, KernelsThatCannotBeLoaded) {
  EXPECT_ERROR(run(open({.plan = onlyKernel("absent")})), "have no function 'absent'");
}
