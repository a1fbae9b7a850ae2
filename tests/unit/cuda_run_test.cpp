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
  expect(run + " --memory-budget 0.5GB", 0, {"ok"});
  expect(run + " --memory-budget 1.5.GB", 2, {"'1.5.GB' is no size", "1.5GB or 20GB"});
  expect(run + " --memory-budget 1.5", 2, {"'1.5' is no size"});
  expect(run + " --memory-budget 0.0001MB", 1, {"GPU 0 has not enough memory", "the memory budget is"});
}

TEST_F(CudaRun, Bench) {
  expect("bench " + path + " --device cuda:0 --repeat 3", 0,
         {"bucket two on cuda:0", "a run takes", "queueing it costs the host", "gemm 2x4x3 f32", "bias_relu_4"});
  expect("bench " + path + " --device cuda --bucket four --repeat 3 --json", 0, {"\"run_seconds\"", "\"host_seconds\""});
}

TEST_F(CudaRun, BenchWithoutWeightsAndByKernel) {
  writeCudaPackage(path, {.weights = WeightPlace::Absent, .plan = [](Plan &plan) {
                            for (PlanOp &op : plan.step) // twice, in two blocks of a list
                              if (std::holds_alternative<LaunchOp>(op.body)) {
                                op.where = "blocks.0.act (relu_1)";
                                op.work = {4800, 0, 10};
                                plan.step.push_back(op);
                                plan.step.back().where = "blocks.1.act (relu_2)";
                                break;
                              }
                          }});
  expect("bench " + path + " --device cuda --repeat 2", 1, {"w"});
  expect("bench " + path + " --device cuda --repeat 2 --bucket two --random-weights --by-kernel", 0,
         {"bias_relu_2", "2 x ", "blocks.{i}.act\n"});
  expect("bench " + path + " --device cuda --repeat 2 --bucket two --random-weights --by-kernel --json", 0, {"\"count\": 2"});
  expect("bench " + path + " --repeat -1", 2, {"'-1' is no count; expected a whole number from 1 on"});
}

TEST_F(CudaRun, InfoListsTargets) {
  expect("info " + path, 0, {"target    sm_80", "sm_80   2 ops a run, 1 once for the weights"});
}

TEST_F(CudaRun, PortableCodeOnANewerGpu) { // which lets kernels overlap
  writeCudaPackage(path, {.arch = "compute_80"});
  expect(run + " --repeat 3", 0, {"ok"}, "FAKE_CUDA_CC=9.0");
  expect(run + " --no-graphs", 0, {"ok"}, "FAKE_CUDA_CC=9.0");
  expect(run + " --no-jit", 1, {"let the driver compile the portable code (--no-jit", "it has compute_80"});
}

TEST_F(CudaRun, WithoutADriver) {
  expect(run, 1, {"the CUDA driver '/none.so' that DITC_CUDA_DRIVER names cannot be loaded"}, "DITC_CUDA_DRIVER=/none.so");
  expect(run, 1, {"the library '/none.so' that DITC_CUBLASLT names cannot be used"}, "DITC_CUBLASLT=/none.so");
}
