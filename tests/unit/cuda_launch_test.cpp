// SPDX-License-Identifier: Apache-2.0
//
// What is decided before a kernel is launched, without a driver: the target for a GPU, the grid, parameter bytes, and
// whether a kernel stays within its arguments.
#include "RuntimeFixture.h"

#include "runtime/cuda/Launch.h"
#include "runtime/cuda/Target.h"

#include <cstring>

using namespace ditc;
using namespace ditc::cuda;
using namespace ditc::test;

namespace {

std::string chosen(const std::vector<std::string> &targets, ComputeCapability gpu, bool jit = true) {
  Manifest manifest;
  for (const std::string &name : targets)
    manifest.targets.push_back({name, "", "", ""});
  return chooseTarget(manifest, "p.dita", gpu, jit).name;
}

char *address(uintptr_t value) { return reinterpret_cast<char *>(value); }

} // namespace

TEST(CudaTarget, BestOfThePackage) {
  std::vector<std::string> all = {"host", "ptx", "ptx89", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a"};
  EXPECT_EQ(chosen(all, {8, 0}), "sm_80");
  EXPECT_EQ(chosen(all, {8, 6}), "sm_86");
  EXPECT_EQ(chosen(all, {8, 7}), "sm_86"); // made for an older GPU of the generation
  EXPECT_EQ(chosen(all, {8, 9}), "sm_89");
  EXPECT_EQ(chosen(all, {9, 0}), "sm_90a");
  EXPECT_EQ(chosen(all, {10, 0}), "sm_100a");
  EXPECT_EQ(chosen(all, {10, 3}), "ptx89"); // sm_100a runs on 10.0 only
  EXPECT_EQ(chosen(all, {12, 0}), "sm_120a");
}

TEST(CudaTarget, OrderAndPortableCode) {
  EXPECT_EQ(chosen({"sm_90", "sm_90a"}, {9, 0}), "sm_90a");
  EXPECT_EQ(chosen({"compute_90", "compute_80"}, {9, 0}), "compute_90");
  EXPECT_EQ(chosen({"compute_90", "compute_80"}, {8, 9}), "compute_80");
  EXPECT_EQ(chosen({"compute_90", "sm_80"}, {9, 0}), "compute_90");
  EXPECT_EQ(chosen({"ptx89", "ptx"}, {8, 6}), "ptx");
  EXPECT_ERROR(chosen({"ptx89"}, {8, 6}), "no code for this GPU");
  EXPECT_ERROR(chosen({"ptx"}, {9, 0}, false), "let the driver compile the portable code");
  EXPECT_ERROR(chosen({"ptx8x", "ptx_"}, {9, 0}), "no code for this GPU");
}

TEST(CudaTarget, Refused) {
  EXPECT_ERROR(chosen({"host", "sm_90a"}, {8, 6}), "no code for this GPU (compute capability 8.6)", "it has host, sm_90a",
               "compile it with --target sm_86");
  EXPECT_ERROR(chosen({"host"}, {9, 0}), "--target sm_90a");
  EXPECT_ERROR(chosen({"sm_90a"}, {10, 3}), "compile it with --target ptx");
  EXPECT_ERROR(chosen({"sm_90a"}, {8, 7}), "compile it with --target sm_86");
  EXPECT_ERROR(chosen({"sm_90a"}, {7, 5}), "ditc compiles for GPUs from compute capability 8.0 on");
  EXPECT_ERROR(chosen({"compute_80"}, {9, 0}, false), "let the driver compile the portable code (--no-jit, no_jit or allow_jit=False");
  EXPECT_ERROR(chosen({"sm_x", "sm_", "sm_9", "compute_"}, {9, 0}), "no code for this GPU");
  EXPECT_ERROR(chosen({}, {9, 0}), "it has no targets");
}

TEST(CudaLaunch, Grid) {
  LaunchShape shape;
  shape.grid = {1000, 1, 1};
  EXPECT_EQ(gridX(shape, 132), 1000u);
  shape.blocksPerSm = 2;
  EXPECT_EQ(gridX(shape, 132), 264u);
  EXPECT_EQ(gridX(shape, 1000), 1000u);
  shape.blocksPerSm = 1;
  shape.cluster = 8;
  EXPECT_EQ(gridX(shape, 133), 128u); // whole clusters
  EXPECT_EQ(gridX(shape, 4), 8u);     // at least one
}

TEST(CudaLaunch, ParameterBytes) {
  std::vector<KernelParameter> list = {{std::vector<uint8_t>(4, 7), {}},
                                       {std::vector<uint8_t>(24, 1), {{8, PointerPatch{1, -4}}, {16, PointerPatch{0, 5}}}}};
  Parameters parameters(list);
  const DriverFunctions noFunctions = {}; // without a tensor map none is called
  std::vector<char *> args = {address(0x1000), address(0x2000)};
  parameters.patch(args, noFunctions);
  EXPECT_EQ(parameters.bytesOf(0)[3], 7);
  uint64_t words[3];
  std::memcpy(words, parameters.bytesOf(1).data(), 24);
  EXPECT_EQ(words[0], 0x0101010101010101u);
  EXPECT_EQ(words[1], 0x1ffcu);
  EXPECT_EQ(words[2], 0x1005u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(parameters.pointers()[1]) % 64, 0u);
  args[1] = address(0x3000);
  parameters.patch(args, noFunctions);
  std::memcpy(words, parameters.bytesOf(1).data(), 24);
  EXPECT_EQ(words[1], 0x2ffcu);
}

TEST(CudaLaunch, KernelsStayWithinTheirArguments) {
  const std::vector<uint64_t> before = {16}, room = {100};
  auto error = [&](const ParameterPatch &patch) {
    KernelImage kernel{"k", "", {}, {{std::vector<uint8_t>(128), {patch}}}, 1};
    return errorOf([&] { checkPatches(kernel, before, room, "p.dita"); });
  };
  auto map = [](int64_t add, std::vector<uint64_t> sizes, std::vector<uint64_t> strides) {
    return ParameterPatch{0, TensorMapPatch{0, add, DType::bf16, sizes, strides, {}, TensorMapSwizzle::None}};
  };
  EXPECT_EQ(error({0, PointerPatch{0, 100}}), "");
  EXPECT_EQ(error({0, PointerPatch{0, -16}}), "");
  EXPECT_NE(error({0, PointerPatch{0, 101}}).find("reaches outside of its argument 0"), std::string::npos);
  EXPECT_NE(error({0, PointerPatch{0, -17}}), "");
  EXPECT_NE(error({0, PointerPatch{0, INT64_MIN}}), "");
  EXPECT_EQ(error(map(0, {50}, {})), "");
  EXPECT_NE(error(map(2, {50}, {})), "");
  EXPECT_EQ(error(map(-16, {58}, {})), "");
  EXPECT_EQ(error(map(0, {2, 4}, {32})), "");
  EXPECT_NE(error(map(0, {3, 4}, {32})), "");
  EXPECT_NE(error(map(0, {8, uint64_t{1} << 32, uint64_t{1} << 32}, {16, uint64_t{1} << 36})), "");
}
