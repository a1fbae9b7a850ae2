// SPDX-License-Identifier: Apache-2.0
//
// The shared object as a whole: the same bytes every time, what it needs from the process, CPUs, printed kernels, and
// the text of every error.
#include "HostHarness.h"

#include "codegen/host/Machine.h"

#include "llvm/ADT/StringExtras.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <dlfcn.h>
#include <fstream>
#include <sstream>

using namespace ditc;
using namespace ditc::test;

namespace {

/// Kernels of several families; enough maps for more than one group.
std::string mixedModule() {
  Tensor x("bf16", {4, 64}), out("bf16", {4, 64}), sum("bf16", {4, 1}), q("f16", {1, 2, 9, 8});
  std::string text = kernelText("norm", "norm", {&x, &out}, 1, "kind = \"layer\", axes = 1 : i64, eps = 1.0e-6 : f64, has_weight = false, has_bias = false");
  text += kernelText("mean", "reduce", {&x, &sum}, 1, "kind = \"mean\", axes = array<i64: 1>");
  text += kernelText("attention", "attention", {&q, &q, &q, &q}, 1, "scale = 0.5 : f64, causal = true, has_mask = false");
  for (int64_t i = 1; i <= 40; ++i) {
    Tensor y("f16", {i, 24});
    text += kernelText("map" + std::to_string(i), "map", {&y, &y}, 1, "", mapBody({"f32"}, "%r = math.exp %a0 : f32", "f32"));
  }
  return text;
}

TEST(HostTarget, EmitsTheSameBytesEveryTime) {
  HostModule first(mixedModule()), second(mixedModule()), oneThread(mixedModule(), {.threads = 1}), many(mixedModule(), {.threads = 5, .verify = false});
  ASSERT_TRUE(first.isLoaded()) << first.diagnostics();
  EXPECT_EQ(first.object().sharedObject, second.object().sharedObject);
  EXPECT_EQ(first.object().sharedObject, oneThread.object().sharedObject);
  EXPECT_EQ(first.object().sharedObject, many.object().sharedObject);
}

TEST(HostTarget, CompilesForOtherCpus) {
  for (const std::string cpu : {"x86-64", "x86-64-v2", "x86-64-v3", "native"}) {
    HostModule module(mixedModule(), {.cpu = cpu});
    EXPECT_TRUE(module.isLoaded()) << module.diagnostics();
    if (cpu == "native")
      EXPECT_NE(module.object().cpu, "native");
    else
      EXPECT_EQ(module.object().cpu, cpu);
    EXPECT_FALSE(module.object().triple.empty());
  }
}

/// Whatever a processor has, code for it has what the manifest says and a runtime asks for, no more.
TEST(HostTarget, CodeHasNoInstructionsBeyondTheManifest) {
  llvm::Expected<MachineName> machine = resolveMachine("diamondrapids"); // with AVX512-FP16, AVX10, AMX and APX
  ASSERT_TRUE(bool(machine));
  EXPECT_EQ(machine->cpu, "diamondrapids");
  EXPECT_EQ(machine->codeCpu, "x86-64");
  EXPECT_EQ(machine->features, "+" + llvm::join(machine->instructionSets, ",+"));
  EXPECT_NE(machine->features.find("+avx512f,"), std::string::npos) << machine->features;
  EXPECT_EQ(machine->features.find("fp16"), std::string::npos) << machine->features;
  llvm::Expected<MachineName> level = resolveMachine("");
  ASSERT_TRUE(bool(level));
  EXPECT_EQ(level->codeCpu, level->cpu);
  llvm::Expected<MachineName> narrow = resolveMachine("pentium4");
  ASSERT_FALSE(bool(narrow));
  EXPECT_EQ(llvm::toString(narrow.takeError()).rfind("the CPU 'pentium4' has no 64-bit code", 0), 0u);
}

/// In a namespace of its own an object finds only the libraries that it names, as in a program without libm.
TEST(HostTarget, NamesTheLibrariesThatItNeeds) {
  HostModule module(mixedModule());
  std::string path = testing::TempDir() + "/ditc-host-namespace.so";
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char *>(module.object().sharedObject.data()), module.object().sharedObject.size());
  void *library = dlmopen(LM_ID_NEWLM, path.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  EXPECT_NE(dlsym(library, "attention"), nullptr);
  dlclose(library);
}

/// The undefined symbols of an object: all must be libm's or libc's, on every CPU.
TEST(HostTarget, NeedsNothingButLibmAndLibc) {
  for (const std::string cpu : {"x86-64", "x86-64-v3"}) {
    HostModule module(mixedModule(), {.cpu = cpu});
    std::string path = testing::TempDir() + "/ditc-host-symbols.so";
    std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char *>(module.object().sharedObject.data()), module.object().sharedObject.size());
    EXPECT_EQ(std::system(("! nm -D --undefined-only '" + path + "' | grep -vE ' (memcpy|memset|memmove|[a-z0-9]+f?)$'").c_str()), 0);
    EXPECT_EQ(std::system(("! nm -D --undefined-only '" + path + "' | grep -E '__|ditc'").c_str()), 0);
    EXPECT_EQ(std::system(("test $(nm -D --defined-only '" + path + "' | wc -l) = 43").c_str()), 0); // the kernels alone
  }
}

TEST(HostTarget, AModuleWithoutKernelsLoads) {
  HostModule module("module {}");
  EXPECT_TRUE(module.isLoaded()) << module.diagnostics();
}

TEST(HostTarget, PrintsOneKernel) {
  HostModule module(mixedModule());
  std::string map = module.printKernel("map3"), norm = module.printKernel("norm");
  EXPECT_NE(map.find("define void @map3(ptr"), std::string::npos) << map;
  EXPECT_EQ(map.find("@map4"), std::string::npos);
  EXPECT_NE(norm.find("define void @norm(ptr"), std::string::npos) << norm;
}

//===-- Errors ------------------------------------------------------------------------------------===//

void expectError(const std::string &text, const std::string &message, const HostOptions &options = {}) {
  HostModule module(text, options);
  EXPECT_FALSE(module.isLoaded());
  EXPECT_NE(module.diagnostics().find(message), std::string::npos) << module.diagnostics();
}

TEST(HostTargetErrors, Environment) {
  expectError("module {}", "host target: unknown CPU 'z80' for ", {.cpu = "z80"});
  expectError("module {}", "host target: the linker '/nowhere/ld.lld' cannot be executed", {.linker = "/nowhere/ld.lld"});
  expectError("module {}", "host target: '/bin/false' failed: ", {.linker = "/bin/false"});
}

TEST(HostTargetErrors, Kernels) {
  Tensor x("f32", {4}), out("f32", {4}), integers("i32", {4}), column("f32", {4, 1}), wide("f32", {5});
  expectError(kernelText("k", "fft", {&x, &out}, 1, ""), "kernel 'k': the host target has no kernel family 'fft'");
  expectError(kernelText("k", "map", {&x, &out}, 1, "", mapBody({"f32"}, "%r = arith.constant dense<1.0> : vector<2xf32>", "f32", "%a0")), "the body of a map is scalar, but 'arith.constant'");
  expectError(kernelText("k", "map", {&x, &out}, 1, "", mapBody({"f32"}, "%s, %r = math.sincos %a0 : f32", "f32")), "kernel 'k': the host target has no scalar code for 'math.sincos'");
  expectError(kernelText("k", "map", {&x, &out}, 1, ""), "a map needs a body with one argument for each input");
  expectError(kernelText("k", "map", {&column, &out}, 1, "", mapBody({"f32"}, "", "f32", "%a0")), "the arguments of a map must have one rank");
  expectError(kernelText("k", "map", {&wide, &out}, 1, "", mapBody({"f32"}, "", "f32", "%a0")), "the arguments of a map must broadcast to its output");
  expectError(kernelText("k", "reduce", {&x, &out}, 1, "axes = array<i64: 0>"), "kernel 'k': config has no word 'kind'");
  expectError(kernelText("k", "reduce", {&x, &out}, 1, "kind = \"median\", axes = array<i64: 0>"), "unknown kind 'median'");
  expectError(kernelText("k", "reduce", {&x, &out}, 1, "kind = \"sum\", axes = array<i64: 3>"), "axis 3 is outside rank 1");
  expectError(kernelText("k", "reduce", {&x, &integers}, 1, "kind = \"sum\", axes = array<i64: 0>"), "must both be floating point or both be integers");
  expectError(kernelText("k", "reduce", {&x, &out, &out}, 1, "kind = \"sum\", axes = array<i64: 0>"), "family 'reduce' takes 2 arguments here, not 3");
  expectError(kernelText("k", "attention", {&x, &x, &x, &out}, 1, "scale = 1.0 : f64"), "argument 0 has rank 1, expected 4");
  expectError(kernelText("k", "pad", {&x, &wide}, 1, "low = array<i64: 1>, value = 1 : i32"), "'value' must have the element type");
}

TEST(HostTargetErrors, Arguments) {
  expectError("plan.kernel @k family \"map\" args [memref<?xf32>, memref<?xf32>] outputs 1 config {} {}", "argument 0 of 'k' is 'memref<?xf32>'; the host target needs a static shape");
  expectError("plan.kernel @k family \"map\" args [memref<4xi4>, memref<4xi4>] outputs 1 config {} {}", "and a known element type");
  expectError("plan.kernel @k family \"map\" args [memref<4xf32, strided<[1], offset: 3>>, memref<4xf32>] outputs 1 config {} {}", "needs strides without an offset");
}

} // namespace
