// SPDX-License-Identifier: Apache-2.0
//
// Sessions on the (fake) GPU: results, graphs, streams, memory, threads, and what is refused.
#include "CudaFixture.h"

#include <algorithm>
#include <thread>

using namespace ditc;
using namespace ditc::test;

using CudaSession = CudaTest;

TEST_F(CudaSession, RunsFromHostMemory) {
  std::shared_ptr<Session> session = open();
  EXPECT_EQ(session->device().name(), "cuda:0");
  EXPECT_EQ(session->device().target(), "sm_80");
  for (int64_t rows : {2, 4, 2})
    EXPECT_EQ(run(session, rows), expectedY(inputX(rows)));
}

TEST_F(CudaSession, OneContextForAllBucketsWithAndWithoutGraphs) {
  for (bool graphs : {true, false}) {
    SessionOptions options;
    options.graphs = graphs;
    Context context(open({}, options));
    for (int64_t rows : {2, 4, 2, 2, 4, 2, 4, 4})
      EXPECT_EQ(run(context, rows, true), expectedY(inputX(rows))) << graphs << " " << rows;
  }
}

TEST_F(CudaSession, ReplaysWithTheValuesOfNow) {
  Context context(open());
  DeviceBuffer x(inputX(2)), y(32);
  for (int i = 0; i < 5; ++i) {
    std::vector<float> values = inputX(2);
    values[0] = static_cast<float>(i);
    x.write(values);
    runOn(context, x, y);
    EXPECT_EQ(y.read(8), expectedY(values)) << i;
  }
}

TEST_F(CudaSession, ManySetsOfPointers) {
  Context context(open());
  std::vector<std::unique_ptr<DeviceBuffer>> x, y;
  for (int i = 0; i < 12; ++i) {
    std::vector<float> values = inputX(2);
    values[1] = static_cast<float>(i);
    x.push_back(std::make_unique<DeviceBuffer>(values));
    y.push_back(std::make_unique<DeviceBuffer>(32));
  }
  // Few sets, which get graphs; then more than there are graphs for; then pairs that were never seen.
  for (size_t sets : {3u, 6u, 12u})
    for (size_t i = 0; i < 4 * sets; ++i) {
      std::vector<float> values = inputX(2);
      values[1] = static_cast<float>(i % sets);
      y[i % sets]->write(std::vector<float>(8, -1));
      runOn(context, *x[i % sets], *y[i % sets]);
      EXPECT_EQ(y[i % sets]->read(8), expectedY(values)) << sets << " " << i;
    }
  for (size_t i = 0; i < 12; ++i) {
    runOn(context, *x[i], *y[11 - i]);
    EXPECT_EQ(y[11 - i]->read(8)[3], expectedY(x[i]->read(6))[3]);
  }
}

TEST_F(CudaSession, RunsOnStreamsFollowEachOther) {
  Context context(open());
  const cuda::Driver &driver = cuda::Driver::get();
  DeviceBuffer x(inputX(2)), y(32), y2(32);
  cuda::Stream streams[2];
  for (cuda::Stream &stream : streams)
    ASSERT_EQ(driver.streamCreate(&stream, cuda::kStreamNonBlocking), cuda::kSuccess);
  TensorRef in = x.tensor("x", {2, kIn}), outs[2] = {y.tensor("y", {2, kOut}), y2.tensor("y", {2, kOut})};
  for (int i = 0; i < 6; ++i)
    context.run({"two", {&in, 1}, {&outs[i % 2], 1}, false, false, streams[i % 2]});
  ASSERT_EQ(driver.streamSynchronize(streams[1]), cuda::kSuccess); // the last one waits for all before
  EXPECT_EQ(y.read(8), expectedY(inputX(2)));
  EXPECT_EQ(y2.read(8), expectedY(inputX(2)));
  EXPECT_EQ(run(context), expectedY(inputX(2)));
  for (cuda::Stream stream : streams)
    driver.streamDestroy(stream);
}

TEST_F(CudaSession, MixedPlacesAndStrides) {
  Context context(open());
  DeviceBuffer x(inputX(2));
  std::vector<float> y(16, -1);
  TensorRef in = x.tensor("x", {2, kIn}), out{"y", DType::f32, {2, kOut}, {8, 2}, y.data()};
  context.run({"", {&in, 1}, {&out, 1}});
  std::vector<float> expected = expectedY(inputX(2));
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(y[i * 2], expected[i]);
    EXPECT_EQ(y[i * 2 + 1], -1);
  }
}

TEST_F(CudaSession, TimedRun) {
  for (bool graphs : {true, false}) {
    SessionOptions options;
    options.graphs = graphs;
    Context context(open({}, options));
    std::vector<float> x = inputX(2), y(8);
    TensorRef in = tensor("x", x, {2, kIn}), out = tensor("y", y, {2, kOut});
    RunReport report = context.run({"two", {&in, 1}, {&out, 1}, true});
    ASSERT_EQ(report.opSeconds.size(), 2u);
    EXPECT_GE(*std::min_element(report.opSeconds.begin(), report.opSeconds.end()), 0);
    EXPECT_EQ(y, expectedY(x));
  }
}

TEST_F(CudaSession, ThreadsWithContextsOfTheirOwn) {
  std::shared_ptr<Session> session = open();
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int64_t rows : {2, 4})
    threads.emplace_back([&, rows] {
      Context context(session);
      for (int i = 0; i < 50; ++i)
        wrong += run(context, rows) != expectedY(inputX(rows));
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(CudaSession, CopiesMayOverlap) {
  Context context(open({.plan = [](Plan &plan) {
    plan.arenaBytes = 256;
    plan.buffers[6].bytes = 160;
    plan.buffers[6].offset = 64;
    plan.kernels.clear();
    plan.prepare.clear();
    // x to the front of scratch, then moved by one element forwards and two backwards.
    plan.step = {{CopyOp{{0, 0}, {6, 8}, 24}, ""}, {CopyOp{{6, 8}, {6, 12}, 24}, ""}, {CopyOp{{6, 12}, {6, 4}, 24}, ""},
                 {CopyOp{{6, 4}, {1, 0}, 24}, ""}, {CopyOp{{6, 4}, {1, 24}, 8}, ""}};
  }}));
  std::vector<float> y = run(context), x = inputX(2);
  EXPECT_TRUE(std::equal(x.begin(), x.end(), y.begin()));
}

/// A product of whatever the arena holds, with K so large that the library splits it.
static void addLargeProduct(Plan &plan) {
  constexpr uint64_t kLargeK = 4096;
  uint64_t at = plan.arenaBytes = (plan.arenaBytes + 15) / 16 * 16;
  plan.arenaBytes += 2 * 4 * kLargeK + 64;
  plan.buffers.push_back({Space::Arena, 0, "", at, 2 * 4 * kLargeK});
  plan.buffers.push_back({Space::Arena, 0, "", at + 2 * 4 * kLargeK, 64});
  GemmOp gemm;
  gemm.m = gemm.n = 2;
  gemm.k = kLargeK;
  gemm.a = {{7, 0}, static_cast<int64_t>(kLargeK), false, {}};
  gemm.b = {{7, 0}, 2, false, {}};
  gemm.c = {{8, 0}, 2, false, {}};
  plan.step.insert(plan.step.begin(), {gemm, "large"});
}

TEST_F(CudaSession, ScratchIsWhatTheLibraryWants) {
  std::shared_ptr<Session> session = open({.plan = addLargeProduct});
  EXPECT_EQ(run(session), expectedY(inputX(2)));
  Plan plan = testPlan(2, "");
  addLargeProduct(plan);
  uint64_t rounded = (plan.arenaBytes + 255) / 256 * 256;
  Plan four = testPlan(4, "");
  addLargeProduct(four);
  EXPECT_EQ(session->memory().context, std::max(rounded + 2 * 4 * 2 * 2, four.arenaBytes));
}

//===-- refusals --------------------------------------------------------------------------------------===//

TEST_F(CudaSession, TensorsThatAGpuCannotUse) {
  Context context(open());
  DeviceBuffer x(64), y(64);
  std::vector<float> host(8);
  TensorRef in = x.tensor("x", {2, kIn}), out = y.tensor("y", {2, kOut});
  auto error = [&](const TensorRef &a, const TensorRef &b, void *stream) {
    return errorOf([&] { context.run({"two", {&a, 1}, {&b, 1}, false, false, stream}); });
  };
  EXPECT_NE(error(x.tensor("x", {2, kIn}, 8), out, nullptr).find("'x' is at an address that is not a multiple of 16"),
            std::string::npos);
  TensorRef strided = in;
  strided.strides = {1, 2};
  EXPECT_NE(error(strided, out, nullptr).find("'x' is strided; on a GPU make it contiguous first"), std::string::npos);
  EXPECT_NE(error(in, tensor("y", host, {2, kOut}), kDefaultStream).find("'y' is memory of the host; a run on a stream"),
            std::string::npos);
  EXPECT_EQ(error(in, out, kDefaultStream), "");
}

TEST_F(CudaSession, WrongPackages) {
  EXPECT_ERROR(open({.arch = "sm_90"}), "has no code for this GPU (compute capability 8.0)", "it has sm_90",
               "--target sm_80");
  EXPECT_ERROR(open({.kernels = [](cuda::KernelFile &f) { f.arch = "sm_86"; }}), "is for 'sm_86', expected 'sm_80'");
  EXPECT_ERROR(open({.kernels = [](cuda::KernelFile &f) { f.lowestDriver = 99010; }}),
               "needs a driver for CUDA 99.1, this one supports CUDA", "update the NVIDIA driver");
  EXPECT_ERROR(run(open({.kernels = [](cuda::KernelFile &f) { f.kernels.pop_back(); }}), 4), "has no kernel 'bias_relu_4'");
  EXPECT_ERROR(run(open({.kernels = [](cuda::KernelFile &f) { f.kernels[1].image = "none"; }})), "has no member 'none'");
  EXPECT_ERROR(run(open({.kernels = [](cuda::KernelFile &f) { f.kernels[1].args = 5; }})),
               "kernel 'bias_relu_2' has 5 arguments, the plan gives 4");
  EXPECT_ERROR(run(open({.kernels = [](cuda::KernelFile &f) { f.kernels[1].launch.sharedBytes = 1 << 20; }})),
               "kernel 'bias_relu_2' needs 1048576 bytes of shared memory, this GPU has");
  auto outside = [](cuda::KernelFile &f) {
    f.kernels[1].parameters[0].patches[0].value = cuda::PointerPatch{0, 4096};
  };
  EXPECT_ERROR(run(open({.kernels = outside})), "kernel 'bias_relu_2' reaches outside of its argument 0");
  SessionOptions second;
  writeCudaPackage(path);
  second.device = "cuda:7";
  EXPECT_ERROR(Session::open(path, second), "there is no GPU 7; the CUDA driver shows 1");
  writeTestPackage(path);
  second.device = "cuda";
  EXPECT_ERROR(Session::open(path, second), "has no code for this GPU", "it has host");
}

TEST_F(CudaSession, MemoryBudget) {
  SessionOptions options;
  options.memoryBudget = 1 << 20;
  auto large = [](Plan &plan) { plan.arenaBytes = 32 << 20; };
  EXPECT_ERROR(run(open({.plan = large}, options)), "GPU 0 has not enough memory: needed are 32.0 MiB", "weights 0.0 MiB",
               "the memory budget is 1.0 MiB", "raise the budget");
  options.memoryBudget = 128 << 20;
  EXPECT_EQ(run(open({.plan = large}, options)), expectedY(inputX(2)));
  options.memoryBudget = 1 << 20; // a table counts as what it takes on the GPU, not as what it takes in the package
  std::vector<float> table = test::table();
  table.resize(1 << 20);
  EXPECT_ERROR(run(open({.table = table}, options)), "GPU 0 has not enough memory", "weights 4.0 MiB");
}
