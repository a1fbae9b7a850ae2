// SPDX-License-Identifier: Apache-2.0
//
// ditc-run on the (fake) GPU, started as a user would.
#include "CudaFixture.h"

#include "runtime/Safetensors.h"

#include <cstdio>
#include <sys/wait.h>

using namespace ditc;
using namespace ditc::test;

namespace {

class CudaRun : public CudaTest {
protected:
  void SetUp() override {
    writeCudaPackage(path);
    writeSafetensors(inputs, {{"x", {DType::f32, {2, kIn}, bytesOf(inputX(2))}}});
    writeSafetensors(reference, {{"y", {DType::f32, {2, kOut}, bytesOf(expectedY(inputX(2)))}}});
  }

  void expect(const std::string &arguments, int status, const std::vector<std::string> &parts, const std::string &environment = "") {
    FILE *pipe = popen((environment + " " DITC_RUN " " + arguments + " 2>&1").c_str(), "r");
    std::string text;
    char buffer[4096];
    while (size_t count = fread(buffer, 1, sizeof buffer, pipe))
      text.append(buffer, count);
    int found = pclose(pipe);
    EXPECT_EQ(WIFEXITED(found) ? WEXITSTATUS(found) : -1, status) << text;
    for (const std::string &part : parts)
      EXPECT_NE(text.find(part), std::string::npos) << "expected \"" << part << "\" in:\n" << text;
  }

  std::string inputs = folder / "in.safetensors", reference = folder / "ref.safetensors";
  std::string run = "run " + path + " --device cuda --inputs " + inputs + " --check " + reference;
};

} // namespace

TEST_F(CudaRun, RunsAndChecks) {
  expect(run + " --poison --repeat 4", 0, {"bucket   two on cuda", "ok"});
  expect(run + " --no-graphs --no-jit --memory-budget 64MB", 0, {"ok"});
  expect(run + " --memory-budget 1MB", 1, {"GPU 0 has not enough memory", "the memory budget is"});
}

TEST_F(CudaRun, Bench) {
  expect("bench " + path + " --device cuda:0 --repeat 3", 0,
         {"bucket two on cuda:0", "a run takes", "queueing it costs the host", "gemm 2x4x3 f32", "bias_relu_4"});
  expect("bench " + path + " --device cuda --bucket four --repeat 3 --json", 0, {"\"run_seconds\"", "\"host_seconds\""});
}

TEST_F(CudaRun, InfoListsTargets) {
  expect("info " + path, 0, {"target    sm_80", "sm_80   2 ops a run, 1 once for the weights"});
}

TEST_F(CudaRun, PortableCodeOnANewerGpu) { // which lets kernels overlap
  writeCudaPackage(path, {.arch = "compute_80"});
  expect(run + " --repeat 3", 0, {"ok"}, "FAKE_CUDA_CC=9.0");
  expect(run + " --no-graphs", 0, {"ok"}, "FAKE_CUDA_CC=9.0");
  expect(run + " --no-jit", 1, {"allow the driver to compile the portable code", "it has compute_80"});
}

TEST_F(CudaRun, WithoutADriver) {
  expect(run, 1, {"the CUDA driver '/none.so' that DITC_CUDA_DRIVER names cannot be loaded"}, "DITC_CUDA_DRIVER=/none.so");
  expect(run, 1, {"the library '/none.so' that DITC_CUBLASLT names cannot be used"}, "DITC_CUBLASLT=/none.so");
}
