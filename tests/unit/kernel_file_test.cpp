// SPDX-License-Identifier: Apache-2.0
//
// kernels.json: both directions, and every way in which a damaged one is refused.
#include "RuntimeFixture.h"

#include "runtime/cuda/KernelFile.h"

using namespace ditc;
using namespace ditc::cuda;
using namespace ditc::test;

namespace {

KernelFile goodFile() {
  KernelFile file{"sm_90a", 12030, {}};
  KernelImage kernel{"gemm_1", "sm_90a/gemm_1.cubin", {{132, 2, 3}, 384, 200000, 2, 1, true}, {}, 3};
  KernelParameter pointers{std::vector<uint8_t>(24), {{0, PointerPatch{0, 0}}, {8, PointerPatch{2, -16}}}};
  pointers.bytes[17] = 0xab;
  KernelParameter map{std::vector<uint8_t>(128), {}};
  map.patches = {{0, TensorMapPatch{1, 32, DType::bf16, {64, 7}, {128}, {64, 64}, TensorMapSwizzle::Bytes128}}};
  kernel.parameters = {pointers, map};
  file.kernels = {kernel, {"copy_2", "sm_90a/copy_2.cubin", {}, {}, 1}};
  return file;
}

std::string errorAfter(const std::function<void(Json &)> &change) {
  Json json = Json::parse(writeKernelFile(goodFile()));
  change(json);
  return errorOf([&] { parseKernelFile(json.dump(), "k"); });
}

struct Case {
  std::function<void(Json &)> change;
  std::string text;
};

} // namespace

TEST(KernelFile, RoundTrip) {
  std::string text = writeKernelFile(goodFile());
  KernelFile read = parseKernelFile(text, "k");
  EXPECT_EQ(writeKernelFile(read), text);
  EXPECT_EQ(read.arch, "sm_90a");
  EXPECT_EQ(read.lowestDriver, 12030);
  EXPECT_EQ(read.find("none"), nullptr);
  const KernelImage *kernel = read.find("gemm_1");
  ASSERT_NE(kernel, nullptr);
  EXPECT_EQ(kernel->launch.grid, (std::array<uint32_t, 3>{132, 2, 3}));
  EXPECT_TRUE(kernel->launch.overlapsPrevious);
  EXPECT_EQ(kernel->parameters[0].bytes, goodFile().kernels[0].parameters[0].bytes);
  EXPECT_EQ(std::get<PointerPatch>(kernel->parameters[0].patches[1].value).add, -16);
  EXPECT_EQ(std::get<TensorMapPatch>(kernel->parameters[1].patches[0].value).sizes, (std::vector<uint64_t>{64, 7}));
  EXPECT_EQ(writeKernelFile(parseKernelFile(writeKernelFile({"sm_80", 0, {}}), "k")), writeKernelFile({"sm_80", 0, {}}));
}

TEST(KernelFile, Refused) {
  auto kernel = [](Json &j) -> Json & { return j["kernels"][0]; };
  auto pointers = [&](Json &j) -> Json & { return kernel(j)["parameters"][0]; };
  auto map = [&](Json &j) -> Json & { return kernel(j)["parameters"][1]["patches"][0]; };
  const Case cases[] = {
      {[](Json &j) { j["version"] = 2; }, "has kernel file version 2, this runtime reads version 1"},
      {[](Json &j) { j.erase("arch"); }, "field 'arch' is missing"},
      {[](Json &j) { j["lowest_driver"] = -1; }, "found -1"},
      {[](Json &j) { j["kernels"][1]["name"] = "gemm_1"; }, "the kernel name 'gemm_1' is empty or not unique"},
      {[&](Json &j) { kernel(j)["args"] = 0; }, "an integer from 1 to 65536"},
      {[&](Json &j) { kernel(j)["grid"] = {1, 1}; }, "three sizes"},
      {[&](Json &j) { kernel(j)["grid"][1] = 65536; }, "an integer from 1 to 65535"},
      {[&](Json &j) { kernel(j)["grid"][0] = 0; }, "an integer from 1 to 2147483647"},
      {[&](Json &j) { kernel(j)["grid"][0] = 131; }, "whole clusters of 2 blocks"},
      {[&](Json &j) { kernel(j)["threads"] = 1025; }, "an integer from 1 to 1024"},
      {[&](Json &j) { kernel(j)["shared_bytes"] = 1 << 21; }, "an integer from 0 to"},
      {[&](Json &j) { kernel(j)["cluster"] = 16; }, "an integer from 1 to 8"},
      {[&](Json &j) { kernel(j)["overlaps_previous"] = 1; }, "true or false"},
      {[&](Json &j) { pointers(j)["size"] = 0; }, "1 to 32764 bytes"},
      {[&](Json &j) { pointers(j)["size"] = 1u << 31; }, "1 to 32764 bytes"},
      {[&](Json &j) { pointers(j)["size"] = 32764; }, "of parameters, a kernel takes at most 32764"},
      {[&](Json &j) { pointers(j)["size"] = 16; }, "two hexadecimal digits"},
      {[&](Json &j) { pointers(j)["bytes"] = "0g"; }, "two hexadecimal digits"},
      {[&](Json &j) { pointers(j)["bytes"] = "abc"; }, "two hexadecimal digits"},
      {[&](Json &j) { pointers(j)["patches"][0] = {20, 0, 0}; }, "8 bytes at 20 of a parameter of 24"},
      {[&](Json &j) { pointers(j)["patches"][0] = {4, 0, 0}; }, "8 bytes at 4 of a parameter of 24"},
      {[&](Json &j) { pointers(j)["patches"][0] = {4294967295u, 0, 0}; }, "8 bytes at 4294967295"},
      {[&](Json &j) { pointers(j)["patches"][0] = {0, 3, 0}; }, "argument 3 of 3"},
      {[&](Json &j) { pointers(j)["patches"][0] = {0, 1}; }, "[offset, argument, added bytes]"},
      {[&](Json &j) { map(j)["offset"] = 64; }, "128 bytes at 64 of a parameter of 128"},
      {[&](Json &j) { map(j)["arg"] = 7; }, "argument 7 of 3"},
      {[&](Json &j) { map(j)["dtype"] = "f64"; }, "tensor maps of f64 do not exist"},
      {[&](Json &j) { map(j)["sizes"] = Json::array(); }, "0 sizes, 1 strides and 2 box sizes"},
      {[&](Json &j) { map(j)["sizes"] = {64, 0}; }, "size 0 is not within 1 and 2^32"},
      {[&](Json &j) { map(j)["strides"] = {120}; }, "stride 120 is not a multiple of 16"},
      {[&](Json &j) { map(j)["box"] = {64, 257}; }, "box size 257 is not within 1 and 256"},
      {[&](Json &j) { map(j)["box"] = {128, 1}; }, "box rows of 256 bytes are not a multiple of 16 within the swizzle"},
      {[&](Json &j) { map(j)["swizzle"] = 4; }, "an integer from 0 to 3"},
  };
  for (const Case &test : cases)
    EXPECT_NE(errorAfter(test.change).find(test.text), std::string::npos)
        << "expected \"" << test.text << "\" in \"" << errorAfter(test.change) << "\"";
  EXPECT_ERROR(parseKernelFile("{", "k"), "'k' is not JSON");
}
