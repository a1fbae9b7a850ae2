// SPDX-License-Identifier: Apache-2.0
//
// Compiling CUDA kernels without a GPU: every template instantiates with its default holes through NVRTC for its
// architecture, without local memory. Skipped where NVRTC is absent.
#include "codegen/cuda/Nvrtc.h"
#include "codegen/cuda/Templates.h"
#include "runtime/Error.h"

#include <gtest/gtest.h>
#include <thread>

using namespace ditc;

namespace {

/// A unit that instantiates gemm_sm90: a tile, an element of results and of operands, an epilogue, the rest as most kernels have it.
std::string gemmUnit(const std::string &tile, const std::string &element, const std::string &operand, const std::string &epilogue, int problems) {
  std::string count = std::to_string(problems);
  return "#include \"gemm_sm90.cuh\"\n"
         "using namespace ditc;\n"
         "struct Config {\n"
         "  using Element = " + element + ";\n  using Operand = " + operand + ";\n  static constexpr int " + tile + ";\n"
         "  static constexpr int CLUSTER_N = 1, GROUP = 8, OUTPUTS = 4, HEAD = -1;\n"
         "  static constexpr bool EVEN = false, CUT = true, GATED = " + std::string(epilogue.starts_with("SwiGlu") ? "true" : "false") + ", EARLY = true;\n"
         "};\n"
         "using Epilogue = " + epilogue + ";\n"
         "extern \"C\" __global__ void __launch_bounds__(gemm_sm90::Layout<Config>::THREADS, 1)\n"
         "kernel(const __grid_constant__ gemm_sm90::Params<" + count + "> params,\n"
         "       const __grid_constant__ gemm_sm90::Epilogues<Epilogue, " + count + "> epilogues) {\n"
         "  gemm_sm90::run<Config>(params, epilogues);\n"
         "}\n";
}

const char *kPingPong = "BLOCK_M = 128, BLOCK_N = 192, STAGES = 4, CONSUMERS = 2, CLUSTER_M = 1, SPLIT = 1, BOX = 64, BOXES = 2, PINGPONG = 1";
const char *kHeads = "BLOCK_M = 128, BLOCK_N = 128, STAGES = 6, CONSUMERS = 2, CLUSTER_M = 2, SPLIT = 1, BOX = 64, BOXES = 2, PINGPONG = 1";
const char *kCooperative = "BLOCK_M = 128, BLOCK_N = 256, STAGES = 4, CONSUMERS = 2, CLUSTER_M = 2, SPLIT = 1, BOX = 64, BOXES = 2, PINGPONG = 0";
const char *kSplit = "BLOCK_M = 128, BLOCK_N = 144, STAGES = 6, CONSUMERS = 2, CLUSTER_M = 1, SPLIT = 4, BOX = 48, BOXES = 1, PINGPONG = 0";
const char *kSplitTall = "BLOCK_M = 256, BLOCK_N = 144, STAGES = 4, CONSUMERS = 2, CLUSTER_M = 1, SPLIT = 2, BOX = 48, BOXES = 1, PINGPONG = 0";
const char *kSplitHeads = "BLOCK_M = 128, BLOCK_N = 128, STAGES = 6, CONSUMERS = 2, CLUSTER_M = 1, SPLIT = 2, BOX = 64, BOXES = 1, PINGPONG = 0";

struct Unit {
  const char *name, *tile, *element, *epilogue;
  int problems;
  const char *operand = nullptr; ///< the element where it is null
};
const Unit kGemmUnits[] = {
    {"pointwise", kPingPong, "BF16", "Pointwise<BF16>", 1},
    {"cooperative", kCooperative, "F16", "Pointwise<F16>", 1},
    {"gelu", kPingPong, "BF16", "Pointwise<BF16, GeluTanh>", 1},
    {"gelu_erf", kHeads, "BF16", "Pointwise<BF16, GeluErf>", 1},
    {"silu_grouped", kHeads, "F16", "Pointwise<F16, Silu>", 2},
    {"gate_residual", kHeads, "BF16", "GateResidual<BF16>", 1},
    {"gate_per_token", kHeads, "F16", "GateResidual<F16, true>", 1},
    {"swiglu", kHeads, "BF16", "SwiGlu<BF16>", 1},
    {"norm_rope_128", kHeads, "BF16", "HeadNormRope<BF16, 128>", 2},
    {"norm_rope_64_halves", kPingPong, "BF16", "HeadNormRope<BF16, 64, false>", 1},
    {"split", kSplit, "BF16", "GateResidual<BF16>", 1},
    {"split_tall", kSplitTall, "F16", "GateResidual<F16>", 1},
    {"split_heads", kSplitHeads, "BF16", "HeadNormRope<BF16, 128>", 2},
    {"by_columns", kHeads, "BF16", "ByColumns<HeadNormRope<BF16, 128>, Pointwise<BF16, GeluTanh, 128>>", 1},
    {"fp8", kPingPong, "BF16", "Pointwise<BF16>", 1, "E4M3"},
    {"fp8_cooperative", kCooperative, "F16", "GateResidual<F16>", 1, "E4M3"},
    {"fp8_split", kSplit, "BF16", "Pointwise<BF16, NoActivation, 48>", 2, "E4M3"},
};

class GemmTemplate : public testing::TestWithParam<Unit> {};

} // namespace

TEST_P(GemmTemplate, CompilesWithoutSpills) {
  std::string whyNot;
  if (!Nvrtc::available(&whyNot))
    GTEST_SKIP() << whyNot;
  const Unit &unit = GetParam();
  std::string text = gemmUnit(unit.tile, unit.element, unit.operand ? unit.operand : unit.element, unit.epilogue, unit.problems);
  CudaBinary binary = Nvrtc::get().compile({std::string(unit.name) + ".cu", text, templatesIncludedBy(text), "sm_90a", {"--ptxas-options=-v"}});
  ASSERT_GT(binary.image.size(), 4u);
  EXPECT_EQ(std::string(binary.image.begin(), binary.image.begin() + 4), "\177ELF");
  EXPECT_NE(binary.log.find("0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads"), std::string::npos)
      << binary.log;
  EXPECT_EQ(binary.log.find("serialized"), std::string::npos) << binary.log; // wgmma's performance warning
}
INSTANTIATE_TEST_SUITE_P(All, GemmTemplate, testing::ValuesIn(kGemmUnits),
                         [](const auto &info) { return std::string(info.param.name); });

/// fp8 has instructions from sm_89 on.
TEST(Nvrtc, CompilesFloat8ForEveryGeneration) {
  std::string whyNot;
  if (!Nvrtc::available(&whyNot))
    GTEST_SKIP() << whyNot;
  std::string text = "#include \"rowwise.cuh\"\nusing namespace ditc;\n"
                     "extern \"C\" __global__ void twice(const E4M3 *x, E4M3 *y, E4M3 *z) {\n"
                     "  auto a = load<8, 8>(x + 8 * threadIdx.x);\n"
                     "  store<8>(y + 8 * threadIdx.x, each<8>([&](int e) { return 2 * a[e]; }));\n"
                     "  store(z + threadIdx.x, rounded<E4M3>(load(x + threadIdx.x)));\n}\n";
  for (const char *arch : {"compute_80", "compute_89", "compute_90"}) {
    CudaBinary binary = Nvrtc::get().compile({"twice.cu", text, templatesIncludedBy(text), arch, {}});
    std::string code(binary.image.begin(), binary.image.end());
    EXPECT_EQ(code.find("cvt.rn.satfinite.e4m3x2.f32") != std::string::npos, std::string(arch) != "compute_80") << arch;
  }
  EXPECT_GT(Nvrtc::get().compile({"twice.cu", text, templatesIncludedBy(text), "sm_90a", {}}).image.size(), 4u);
}

TEST(Nvrtc, CompilesFromSeveralThreads) {
  std::string whyNot;
  if (!Nvrtc::available(&whyNot))
    GTEST_SKIP() << whyNot;
  std::vector<std::vector<uint8_t>> images(4);
  std::vector<std::thread> threads;
  for (auto &image : images)
    threads.emplace_back([&image] {
      image = Nvrtc::get().compile({"twice.cu", "#include \"factor.cuh\"\nextern \"C\" __global__ void twice(float *x) { "
                                                "x[threadIdx.x] *= FACTOR; }",
                                    {{"factor.cuh", "constexpr float FACTOR = 2;"}}, "sm_80", {}})
                  .image;
    });
  for (std::thread &thread : threads)
    thread.join();
  ASSERT_FALSE(images[0].empty());
  for (const auto &image : images)
    EXPECT_EQ(image, images[0]); // the same source gives the same bytes
}

TEST(Nvrtc, GivesPtxForAVirtualArchitecture) {
  std::string whyNot;
  if (!Nvrtc::available(&whyNot))
    GTEST_SKIP() << whyNot;
  CudaBinary binary =
      Nvrtc::get().compile({"empty.cu", "extern \"C\" __global__ void nothing() {}", {}, "compute_80", {}});
  std::string text(binary.image.begin(), binary.image.end());
  EXPECT_NE(text.find(".entry nothing"), std::string::npos);
}

TEST(Nvrtc, RejectionNamesTheKernelAndTheLine) {
  std::string whyNot;
  if (!Nvrtc::available(&whyNot))
    GTEST_SKIP() << whyNot;
  try {
    Nvrtc::get().compile({"wrong.cu", "\n__global__ void wrong() { missing(); }", {}, "sm_80", {}});
    FAIL() << "an undeclared name was accepted";
  } catch (const Error &error) {
    std::string text = error.what();
    EXPECT_EQ(error.kind(), ErrorKind::Internal);
    EXPECT_NE(text.find("rejects the kernel 'wrong.cu' for sm_80"), std::string::npos) << text;
    EXPECT_NE(text.find("wrong.cu(2)"), std::string::npos) << text;
  }
}
