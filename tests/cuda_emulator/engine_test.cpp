// SPDX-License-Identifier: Apache-2.0
//
// The emulator itself: what threads, barriers, warps and shared memory do, and that faults of a kernel are reported
// rather than hidden.
#include "run_unit.h"

#include <chrono>
#include <cmath>
#include <gmock/gmock.h>
#include <numeric>

using namespace emulator;
using testing::HasSubstr;

namespace {

/// What a launch throws; empty when it does not.
template <class Function> std::string errorOf(Function function) {
  try {
    function();
  } catch (const LaunchError &error) {
    return error.what();
  }
  return "";
}

EmulatedUnit kernel(const std::string &parameters, const std::string &body) {
  return EmulatedUnit("extern \"C\" __global__ void kernel(" + parameters + ") {\n" + body + "\n}\n");
}

} // namespace

TEST(Emulator, ThreadsKnowTheirIndices) {
  EmulatedUnit unit = kernel("unsigned *out", R"(
    unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    unsigned threads = blockDim.x * blockDim.y * blockDim.z;
    out[block * threads + thread] += block * 1000 + thread;)");
  std::vector<unsigned> out(2 * 3 * 4 * 5 * 6 * 7);
  unit.launch("kernel", {2, 3, 4}, {5, 6, 7}, 0, out.data());
  for (unsigned i = 0; i < out.size(); ++i)
    EXPECT_EQ(out[i], i / 210 * 1000 + i % 210);
}

TEST(Emulator, BarriersOrderAReductionInSharedMemory) {
  EmulatedUnit unit = kernel("const float *in, float *out", R"(
    __shared__ float sums[256];
    sums[threadIdx.x] = in[blockIdx.x * 256 + threadIdx.x];
    for (int step = 128; step; step /= 2) {
      __syncthreads();
      if (threadIdx.x < step)
        sums[threadIdx.x] += sums[threadIdx.x + step];
    }
    if (threadIdx.x == 0)
      out[blockIdx.x] = sums[0];)");
  for (bool reverse : {false, true}) {
    std::vector<float> in(256 * 10), out(10);
    std::iota(in.begin(), in.end(), 0.f);
    unit.runInReverse(reverse);
    unit.launch("kernel", {10}, {256}, 0, in.data(), out.data());
    for (int block = 0; block < 10; ++block)
      EXPECT_EQ(out[block], 256.f * 256 * block + 255 * 128);
  }
}

TEST(Emulator, AMissingBarrierShowsInOneOfTheOrders) {
  EmulatedUnit unit = kernel("int *out", R"(
    __shared__ int values[64];
    values[threadIdx.x] = threadIdx.x;
    out[threadIdx.x] = values[63 - threadIdx.x];)");
  std::vector<int> forward(64), backward(64);
  unit.launch("kernel", {1}, {64}, 0, forward.data());
  unit.runInReverse();
  unit.launch("kernel", {1}, {64}, 0, backward.data());
  EXPECT_EQ(forward[0], -1); // poison: nobody has written it
  EXPECT_EQ(backward[63], -1);
  EXPECT_EQ(backward[0], 63);
}

TEST(Emulator, SharedMemoryIsPoisonInEveryBlock) {
  EmulatedUnit unit = kernel("float *out", R"(
    extern __shared__ alignas(128) float dynamic[];
    __shared__ float fixed[4];
    out[2 * blockIdx.x] = dynamic[3], out[2 * blockIdx.x + 1] = fixed[3];
    dynamic[3] = fixed[3] = 1;)");
  std::vector<float> out(6);
  unit.launch("kernel", {3}, {1}, 16, out.data());
  for (float value : out)
    EXPECT_TRUE(std::isnan(value));
}

TEST(Emulator, DynamicSharedMemoryInEverySpelling) {
  EmulatedUnit unit(R"(
    template <class T, int N> struct Tile { T at[N]; };
    extern __shared__ __align__(16) unsigned char bytes[];
    template <class T> __device__ T first() {
      extern __shared__ __align__(1024) Tile<float, 2> tiles[];
      return T(tiles[1].at[0]); // not extern __shared__ T commented[];
    }
    /* extern "C" __global__ void commented(); */
    extern "C" {
    __global__ void kernel(float *out) {
      extern __shared__ alignas(16)
          float values[];
      values[2] = 5;
      out[0] = first<float>();
      out[1] = bytes[11];
    }
    })");
  float out[2] = {};
  unit.launch("kernel", {1}, {1}, 16, &out[0]);
  EXPECT_THAT(out, testing::ElementsAre(5, 0x40));
  EXPECT_THAT(errorOf([&] { unit.launch("commented", {1}, {1}, 0); }), HasSubstr("no kernel"));
}

TEST(Emulator, ShufflesMoveValuesOfFourAndEightBytes) {
  EmulatedUnit unit = kernel("int *out", R"(
    int lane = threadIdx.x;
    int *o = out + lane * 8;
    o[0] = __shfl_sync(~0u, lane, 5);
    o[1] = __shfl_sync(~0u, lane, lane + 1, 8);
    o[2] = __shfl_xor_sync(~0u, lane, 16);
    o[3] = __shfl_up_sync(~0u, lane, 3);
    o[4] = __shfl_down_sync(~0u, lane, 3, 16);
    o[5] = int(__shfl_xor_sync(~0u, double(lane) + 0.5, 1) * 2);
    o[6] = int(__shfl_xor_sync(~0u, (long long)lane << 40, 2) >> 40);
    o[7] = int(__shfl_xor_sync(~0u, float(lane), 4));)");
  std::vector<int> out(32 * 8);
  unit.launch("kernel", {1}, {32}, 0, out.data());
  for (int lane = 0; lane < 32; ++lane) {
    const int *o = &out[lane * 8];
    EXPECT_EQ(o[0], 5);
    EXPECT_EQ(o[1], lane / 8 * 8 + (lane + 1) % 8);
    EXPECT_EQ(o[2], lane ^ 16);
    EXPECT_EQ(o[3], lane < 3 ? lane : lane - 3);
    EXPECT_EQ(o[4], lane % 16 + 3 < 16 ? lane + 3 : lane);
    EXPECT_EQ(o[5], (lane ^ 1) * 2 + 1);
    EXPECT_EQ(o[6], lane ^ 2);
    EXPECT_EQ(o[7], lane ^ 4);
  }
}

TEST(Emulator, HalvesOfAWarpMeetByThemselves) {
  EmulatedUnit unit = kernel("unsigned *out", R"(
    unsigned lane = threadIdx.x % 32, mask = lane < 16 ? 0xffffu : 0xffff0000u;
    unsigned sum = lane;
    if (lane < 16)
      for (int step = 8; step; step /= 2)
        sum += __shfl_xor_sync(mask, sum, step);
    else
      for (int step = 1; step < 16; step *= 2)
        sum += __shfl_xor_sync(mask, sum, step);
    out[threadIdx.x] = sum;)");
  std::vector<unsigned> out(64);
  unit.launch("kernel", {1}, {64}, 0, out.data());
  for (unsigned i = 0; i < 64; ++i)
    EXPECT_EQ(out[i], i % 32 < 16 ? 120u : 376u);
}

TEST(Emulator, VotesAndReductions) {
  EmulatedUnit unit = kernel("unsigned *out", R"(
    unsigned lane = threadIdx.x;
    unsigned ballot = __ballot_sync(~0u, lane % 3 == 0);
    unsigned any = __any_sync(~0u, lane == 7), all = __all_sync(~0u, lane < 31);
    unsigned sum = __reduce_add_sync(~0u, lane), most = __reduce_max_sync(~0u, lane);
    unsigned same = __match_any_sync(~0u, lane % 16);
    int count = __syncthreads_count(lane < 10);
    if (lane == 4)
      out[0] = ballot, out[1] = any, out[2] = all, out[3] = sum, out[4] = most, out[5] = same, out[6] = count;)");
  std::vector<unsigned> out(7);
  unit.launch("kernel", {1}, {32}, 0, out.data());
  EXPECT_THAT(out, testing::ElementsAre(0x49249249u, 1, 0, 496, 31, 1u << 4 | 1u << 20, 10));
}

TEST(Emulator, ThreadsThatHaveEndedKeepNobodyWaiting) {
  EmulatedUnit unit = kernel("int *out, int live", R"(
    if (threadIdx.x >= live)
      return;
    __syncthreads();
    int value = __shfl_xor_sync(~0u, int(threadIdx.x), 1);
    int gone = __shfl_sync(~0u, 1, 31);
    out[threadIdx.x] = value + (gone == -1 ? 0 : 1000);)");
  std::vector<int> out(40);
  unit.launch("kernel", {1}, {40}, 0, out.data(), 20);
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(out[i], i ^ 1);
}

TEST(Emulator, DeadlockNamesTheThreadsAndWhereTheyWait) {
  EmulatedUnit unit = kernel("int *", R"(
    if (threadIdx.x >= 32 && threadIdx.x < 40)
      __shfl_sync(~0u, 1, 0);
    else if (threadIdx.x < 48)
      __syncthreads();)");
  std::string error = errorOf([&] { unit.launch("kernel", {2}, {50}, 0, static_cast<int *>(nullptr)); });
  EXPECT_THAT(error, HasSubstr("kernel 'kernel', block (0, 0, 0)"));
  EXPECT_THAT(error, HasSubstr("threads 0-31, 40-47 wait at __syncthreads"));
  EXPECT_THAT(error, HasSubstr("threads 32-39 wait at __shfl_sync with mask 0xffffffff"));
  EXPECT_THAT(error, HasSubstr("threads 48-49 have ended"));
}

TEST(Emulator, ThreadsThatPollForEachOtherGoOnOrAreReported) {
  EmulatedUnit unit = kernel("volatile int *flag, int expected", R"(
    if (threadIdx.x == 0) {
      while (*flag != expected)
        __nanosleep(20);
    } else {
      *flag = 1;
    })");
  int flag = 0;
  unit.launch("kernel", {1}, {64}, 0, &flag, 1);
  EXPECT_THAT(errorOf([&] { unit.launch("kernel", {1}, {64}, 0, &flag, 2); }), HasSubstr("wait at __nanosleep"));
}

TEST(Emulator, FaultsAreErrorsAndTheNextLaunchRuns) {
  EmulatedUnit unit(R"(
    __device__ __noinline__ void overflow(int at) {
      volatile char big[1 << 20];
      big[at] = 0;
    }
    extern "C" __global__ void kernel(float *x, int from, int deep) {
      if (deep)
        overflow(deep);
      __syncthreads();
      x[from + threadIdx.x] = 1;
    })");
  GuardedMemory memory(64 * sizeof(float));
  auto launch = [&](int from, int deep) {
    return errorOf([&] { unit.launch("kernel", {1}, {64}, 0, memory.as<float>(), from, deep); });
  };
  EXPECT_EQ(launch(0, 0), "");
  EXPECT_THAT(launch(1, 0), HasSubstr("thread (63, 0, 0): an illegal access to "));
  EXPECT_THAT(launch(0, 5), HasSubstr("illegal access"));
  EXPECT_EQ(launch(0, 0), "");
  EXPECT_EQ(memory.as<float>()[63], 1);
}

TEST(Emulator, LaunchesThatNoGpuAcceptsAreRefused) {
  EmulatedUnit unit("struct C { static constexpr int THREADS = 64; };\ntemplate <class T, int> struct L : T {};\n"
                    "extern \"C\" __global__ void __launch_bounds__(L<C, 1>::THREADS, 1) small(int) {}\n"
                    "extern \"C\" __global__ void writer(int at) { extern __shared__ int s[]; s[at] = 0; }\n"
                    "// extern \"C\" __global__ void gone() {}\n");
  EXPECT_EQ(errorOf([&] { unit.launch("small", {1}, {64}, 0, 1); }), "");
  EXPECT_THAT(errorOf([&] { unit.launch("small", {1}, {128}, 0, 1); }), HasSubstr("its __launch_bounds__ say 64"));
  EXPECT_THAT(errorOf([&] { unit.launch("small", {1}, {64}, 0, 1.0); }), HasSubstr("has 4 bytes, 8 are given"));
  EXPECT_THAT(errorOf([&] { unit.launch("writer", {1}, {1025}, 0, 1); }), HasSubstr("1024 are possible"));
  EXPECT_THAT(errorOf([&] { unit.launch("gone", {1}, {1}, 0); }), HasSubstr("no kernel 'gone'"));
  EXPECT_EQ(errorOf([&] { unit.launch("writer", {1}, {1}, 16, 3); }), "");
  EXPECT_THAT(errorOf([&] { unit.launch("writer", {1}, {1}, 16, 4); }), HasSubstr("behind the 16 bytes"));
}

TEST(Emulator, ParametersOfAPackageAreResolved) {
  EmulatedUnit unit("struct Both { int *to; const int *from; int add; };\n"
                    "extern \"C\" __global__ void kernel(const __grid_constant__ Both p, int n) {\n"
                    "  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)\n"
                    "    p.to[i] = p.from[i] + p.add + 1000 * gridDim.x;\n}\n");
  ditc::cuda::KernelParameter both, count;
  both.bytes.assign(24, 0);
  both.bytes[16] = 7;
  both.patches = {{0, ditc::cuda::PointerPatch{1, 0}}, {8, ditc::cuda::PointerPatch{0, 4}}};
  count.bytes = {3, 0, 0, 0};
  ditc::cuda::LaunchShape shape;
  shape.grid = {100, 1, 1}, shape.threads = 2, shape.blocksPerSm = 1;
  int from[] = {1, 2, 3, 4}, to[3] = {};
  unit.launch("kernel", shape, {both, count}, {from, to}, 2);
  EXPECT_THAT(to, testing::ElementsAre(2009, 2010, 2011));
}

TEST(Emulator, UnitsLiveBesideEachOther) {
  int value = 0;
  EmulatedUnit one = kernel("int *x", "*x += 1;"), ten = kernel("int *x", "*x += 10;");
  one.launch("kernel", {1}, {1}, 0, &value);
  ten.launch("kernel", {1}, {1}, 0, &value);
  EXPECT_EQ(value, 11);
}

TEST(Emulator, AUnitThatDoesNotCompileSaysWhere) {
  try {
    EmulatedUnit unit("\n\nextern \"C\" __global__ void kernel() { missing(); }");
    FAIL();
  } catch (const std::runtime_error &error) {
    EXPECT_THAT(error.what(), HasSubstr("unit.cu(3): error: "));
  }
}

TEST(Emulator, ManyBlocksTakeLittleTime) {
  EmulatedUnit unit = kernel("const float *in, float *out", R"(
    __shared__ float sums[8];
    float value = in[threadIdx.x];
    for (int round = 0; round < 4; ++round) {
      for (int step = 16; step; step /= 2)
        value += __shfl_xor_sync(~0u, value, step);
      if (threadIdx.x % 32 == 0)
        sums[threadIdx.x / 32] = value;
      __syncthreads();
      value = sums[threadIdx.x % 8];
      __syncthreads();
    }
    out[blockIdx.x * 256 + threadIdx.x] = value;)");
  std::vector<float> in(256, 1), out(256 * 500);
  auto start = std::chrono::steady_clock::now();
  unit.launch("kernel", {500}, {256}, 0, in.data(), out.data());
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5)); // measured: 0.2 s
  EXPECT_EQ(out.back(), 32.f * 32 * 32 * 32);
}
