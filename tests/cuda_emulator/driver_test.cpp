// SPDX-License-Identifier: Apache-2.0
//
// The fake NVRTC and the fake driver through the classes with which ditc uses the real ones: what a GPU would do, and
// that what a GPU would refuse is refused.
#include "DriverFixture.h"

#include <cmath>
#include <thread>

using namespace ditc;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

const char *kAdd = "extern \"C\" __global__ void kernel(int *x, int value) { x[threadIdx.x] += value; }";

constexpr int kInvalidValue = 1, kOutOfMemory = 2, kInvalidImage = 200, kInvalidContext = 201, kNoBinary = 209,
              kLaunchFailed = 719, kCaptureUnsupported = 900, kCaptureInvalidated = 901, kUnjoined = 904;

} // namespace

TEST(FakeNvrtc, CompilesHeadersAndMacros) {
  CudaBinary binary =
      Nvrtc::get().compile({"a/b.cu",
                            "#include \"deep/factor.cuh\"\nextern \"C\" __global__ void twice(float *x) { "
                            "x[threadIdx.x] *= FACTOR + OTHER; }",
                            {{"deep/factor.cuh", "constexpr float FACTOR = 2;"}},
                            "compute_80",
                            {"-DOTHER=3", "--ptxas-options=-v"}});
  EXPECT_GT(binary.image.size(), 100u);
}

TEST(FakeNvrtc, RejectionNamesTheKernelAndTheLine) {
  try {
    Nvrtc::get().compile({"wrong.cu", "\n__global__ void wrong() { missing(); }", {}, "sm_80", {}});
    FAIL() << "an undeclared name was accepted";
  } catch (const Error &error) {
    EXPECT_THAT(error.what(), HasSubstr("rejects the kernel 'wrong.cu' for sm_80"));
    EXPECT_THAT(error.what(), HasSubstr("wrong.cu(2): error: "));
  }
  EXPECT_THROW(Nvrtc::get().compile({"x.cu", "", {}, "sm_80", {"--no-such-option"}}), Error);
}

TEST_F(FakeDriver, MemoryIsPoisonAndCopiesAreChecked) {
  cuda::Pointer memory = allocate(100);
  EXPECT_EQ(memory % 256, 0u);
  EXPECT_THAT(download<unsigned char>(memory, 100), Each(255));
  char bytes[200] = {};
  EXPECT_EQ(cu.memcpyHtoDAsync(memory, bytes, 101, stream), kInvalidValue);
  EXPECT_EQ(cu.memcpyDtoHAsync(bytes, memory + 90, 11, stream), kInvalidValue);
  EXPECT_EQ(cu.memcpyDtoDAsync(memory, memory + 50, 51, stream), kInvalidValue);
  EXPECT_EQ(cu.memsetD8Async(memory - 1, 0, 2, stream), kInvalidValue);
  EXPECT_EQ(cu.memsetD8Async(memory, 7, 100, stream), 0);
  EXPECT_THAT(download<unsigned char>(memory, 100), Each(7));
  EXPECT_EQ(cu.memFree(memory), 0);
  EXPECT_EQ(cu.memFree(memory), kInvalidValue);
  EXPECT_EQ(cu.memsetD8Async(memory, 7, 1, stream), kInvalidValue);
}

TEST_F(FakeDriver, MemoryIsCounted) {
  size_t before = 0, after = 0, total = 0;
  ASSERT_EQ(cu.memGetInfo(&before, &total), 0);
  cuda::Pointer memory = allocate(1 << 20), more = 0;
  cu.memGetInfo(&after, &total);
  EXPECT_EQ(before - after, size_t(1 << 20));
  EXPECT_EQ(cu.memAlloc(&more, total), kOutOfMemory);
  EXPECT_EQ(cu.memAlloc(&more, 0), kInvalidValue);
  cu.memFree(memory);
  cu.memGetInfo(&after, &total);
  EXPECT_EQ(before, after);
}

TEST_F(FakeDriver, WorkNeedsAContextOfTheThread) {
  std::thread([&] {
    cuda::Pointer memory = 0;
    EXPECT_EQ(cu.memAlloc(&memory, 16), kInvalidContext);
    cu.ctxSetCurrent(context);
    EXPECT_EQ(cu.memAlloc(&memory, 16), 0);
  }).join();
}

TEST_F(FakeDriver, KernelsRunInTheStreamsOrderWhenSomebodyWaits) {
  cuda::Function add = load(kAdd);
  std::vector<int> values = {1, 2, 3};
  cuda::Pointer memory = upload(values);
  values[0] = 100; // the copy has been staged
  ASSERT_EQ(launch(add, 1, 3, memory, 10), 0);
  EXPECT_EQ(*reinterpret_cast<int *>(memory), -1) << "nothing has waited";
  ASSERT_EQ(cu.streamSynchronize(stream), 0);
  EXPECT_THAT(download<int>(memory, 3), ElementsAre(11, 12, 13));
}

TEST_F(FakeDriver, EventsOrderStreams) {
  cuda::Function add = load(kAdd);
  cuda::Stream other = nullptr;
  cuda::Event event = nullptr, end = nullptr;
  ASSERT_EQ(cu.streamCreate(&other, cuda::kStreamNonBlocking), 0);
  ASSERT_EQ(cu.eventCreate(&event, 0), 0);
  ASSERT_EQ(cu.eventCreate(&end, 0), 0);
  cuda::Pointer memory = upload(std::vector<int>{1});
  launch(add, 1, 1, memory, 10);
  cu.eventRecord(event, stream);
  launch(add, 1, 1, memory, 100);
  cu.streamWaitEvent(other, event, 0);
  cu.eventRecord(end, other);
  float milliseconds = -1;
  EXPECT_EQ(cu.eventElapsedTime(&milliseconds, event, end), cuda::kNotReady);
  EXPECT_EQ(cu.streamSynchronize(other), 0);
  EXPECT_EQ(*reinterpret_cast<int *>(memory), 11) << "what comes after the event need not have run";
  EXPECT_EQ(cu.eventElapsedTime(&milliseconds, event, end), 0);
  EXPECT_GE(milliseconds, 0);
  EXPECT_THAT(download<int>(memory, 1), ElementsAre(111));
}

TEST_F(FakeDriver, ModulesForOtherGpusAreRefused) {
  auto result = [&](const char *arch) {
    CudaBinary binary = Nvrtc::get().compile({"test.cu", kAdd, {}, arch, {}});
    cuda::Module module = nullptr;
    return cu.moduleLoadData(&module, binary.image.data());
  };
  EXPECT_EQ(result("sm_80"), 0); // the fake GPU is an 8.0
  EXPECT_EQ(result("compute_75"), 0);
  EXPECT_EQ(result("sm_86"), kNoBinary);
  EXPECT_EQ(result("sm_75"), kNoBinary);
  EXPECT_EQ(result("sm_90a"), kNoBinary);
  EXPECT_EQ(result("compute_90"), kNoBinary);
  cuda::Module module = nullptr;
  EXPECT_EQ(cu.moduleLoadData(&module, "no machine code"), kInvalidImage);
}

TEST_F(FakeDriver, SharedMemoryNeedsPermission) {
  cuda::Function kernel =
      load("extern \"C\" __global__ void kernel(int *x) { extern __shared__ int s[]; __shared__ int t[256];"
           " t[x[0]] = s[1] = x[0]; x[1] = s[1] + t[5] - 5; }");
  cuda::Pointer memory = upload(std::vector<int>{5, 0});
  sharedBytes = 48 * 1024;
  EXPECT_EQ(launch(kernel, 1, 1, memory), 0);
  sharedBytes = 100 * 1024;
  EXPECT_EQ(launch(kernel, 1, 1, memory), kInvalidValue);
  EXPECT_EQ(cu.funcSetAttribute(kernel, cuda::FunctionAttribute::MaxDynamicSharedSizeBytes, 163 * 1024), kInvalidValue);
  EXPECT_EQ(cu.funcSetAttribute(kernel, cuda::FunctionAttribute::MaxDynamicSharedSizeBytes, 162 * 1024), 0);
  EXPECT_EQ(launch(kernel, 1, 1, memory), 0);
  EXPECT_THAT(download<int>(memory, 2), ElementsAre(5, 5));
}

TEST_F(FakeDriver, AFailedKernelShowsLateAndStopsEverything) {
  cuda::Function kernel = load("extern \"C\" __global__ void kernel(int *x) { if (threadIdx.x == 3) *x = 1; }");
  EXPECT_EQ(launch(kernel, 1, 32, cuda::Pointer(16)), 0);
  EXPECT_EQ(cu.streamSynchronize(stream), kLaunchFailed);
  try {
    cu.check(cu.streamSynchronize(stream), "waiting");
    FAIL();
  } catch (const Error &error) {
    EXPECT_THAT(error.what(),
                HasSubstr("kernel 'kernel', block (0, 0, 0), thread (3, 0, 0): an illegal access to 0x10"));
  }
  cuda::Pointer memory = 0;
  EXPECT_EQ(cu.memAlloc(&memory, 16), kLaunchFailed);
}

struct FakeGraphs : FakeDriver {
  cuda::GraphExec instantiate(cuda::Graph graph) {
    cuda::GraphExec executable = nullptr;
    cu.check(cu.graphInstantiate(&executable, graph, 0), "instantiating");
    return executable;
  }
  cuda::Graph capture(cuda::Function function, cuda::Pointer memory, int value) {
    cuda::Graph graph = nullptr;
    cu.check(cu.streamBeginCapture(stream, cuda::kCaptureThreadLocal), "capturing");
    EXPECT_EQ(launch(function, 1, 1, memory, value), 0);
    EXPECT_EQ(launch(function, 1, 1, memory, 10 * value), 0);
    cu.check(cu.streamEndCapture(stream, &graph), "capturing");
    return graph;
  }
};

TEST_F(FakeGraphs, ReplayRepeatsWhatWasCaptured) {
  cuda::Function add = load(kAdd);
  cuda::Pointer memory = upload(std::vector<int>{0});
  cu.streamSynchronize(stream);
  cuda::Graph graph = capture(add, memory, 1);
  EXPECT_EQ(*reinterpret_cast<int *>(memory), 0) << "a capture runs nothing";
  cuda::GraphExec executable = instantiate(graph);
  cu.graphDestroy(graph);
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(cu.graphLaunch(executable, stream), 0);
  EXPECT_THAT(download<int>(memory, 1), ElementsAre(33));

  cuda::Graph again = capture(add, memory, 2);
  cuda::GraphUpdateInfo info = {};
  EXPECT_EQ(cu.graphExecUpdate(executable, again, &info), 0);
  cu.graphLaunch(executable, stream);
  EXPECT_THAT(download<int>(memory, 1), ElementsAre(55));
  cu.graphExecDestroy(executable);
}

TEST_F(FakeGraphs, BranchesJoinByEvents) {
  cuda::Function add = load(kAdd);
  cuda::Pointer memory = upload(std::vector<int>{0});
  cuda::Stream origin = stream, branch = nullptr;
  cuda::Event fork = nullptr, join = nullptr;
  cu.streamCreate(&branch, cuda::kStreamNonBlocking);
  cu.eventCreate(&fork, cuda::kEventDisableTiming);
  cu.eventCreate(&join, cuda::kEventDisableTiming);
  for (bool joins : {false, true}) {
    ASSERT_EQ(cu.streamBeginCapture(origin, cuda::kCaptureThreadLocal), 0);
    ASSERT_EQ(cu.eventRecord(fork, origin), 0);
    ASSERT_EQ(cu.streamWaitEvent(branch, fork, 0), 0);
    stream = branch;
    ASSERT_EQ(launch(add, 1, 1, memory, 5), 0);
    stream = origin;
    if (joins) {
      ASSERT_EQ(cu.eventRecord(join, branch), 0);
      ASSERT_EQ(cu.streamWaitEvent(origin, join, 0), 0);
    }
    cuda::Graph graph = nullptr;
    EXPECT_EQ(cu.streamEndCapture(origin, &graph), joins ? 0 : kUnjoined);
    EXPECT_EQ(graph != nullptr, joins);
    if (joins)
      cu.graphLaunch(instantiate(graph), origin);
  }
  EXPECT_THAT(download<int>(memory, 1), ElementsAre(5));
}

TEST_F(FakeGraphs, EventsOfAGraphTimeItsReplays) {
  cuda::Function add = load(kAdd);
  cuda::Pointer memory = upload(std::vector<int>{0});
  cuda::Event start = nullptr, end = nullptr;
  cu.eventCreate(&start, 0);
  cu.eventCreate(&end, 0);
  cuda::Graph graph = nullptr;
  ASSERT_EQ(cu.streamBeginCapture(stream, cuda::kCaptureThreadLocal), 0);
  ASSERT_EQ(cu.eventRecordWithFlags(start, stream, cuda::kEventRecordExternal), 0);
  ASSERT_EQ(launch(add, 1, 1, memory, 5), 0);
  ASSERT_EQ(cu.eventRecordWithFlags(end, stream, cuda::kEventRecordExternal), 0);
  ASSERT_EQ(cu.streamEndCapture(stream, &graph), 0);
  cu.graphLaunch(instantiate(graph), stream);
  ASSERT_EQ(cu.eventSynchronize(end), 0);
  EXPECT_EQ(*reinterpret_cast<int *>(memory), 5);
  float milliseconds = 0;
  EXPECT_EQ(cu.eventElapsedTime(&milliseconds, start, end), 0);
  EXPECT_GT(milliseconds, 0);
}

TEST_F(FakeGraphs, WhatACaptureForbidsSpoilsIt) {
  cuda::Pointer memory = 0;
  cuda::Graph graph = nullptr;
  ASSERT_EQ(cu.streamBeginCapture(stream, cuda::kCaptureThreadLocal), 0);
  EXPECT_EQ(cu.memAlloc(&memory, 16), kCaptureUnsupported);
  EXPECT_EQ(cu.streamEndCapture(stream, &graph), kCaptureInvalidated);
  ASSERT_EQ(cu.streamBeginCapture(stream, cuda::kCaptureThreadLocal), 0);
  EXPECT_EQ(cu.streamSynchronize(stream), kCaptureUnsupported);
  EXPECT_EQ(cu.streamEndCapture(stream, &graph), kCaptureInvalidated);
}

int main(int argc, char **argv) {
  fakes::use();
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
