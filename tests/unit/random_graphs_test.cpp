// SPDX-License-Identifier: Apache-2.0
//
// The safety net of the passes: random graphs give the same numbers before and after fusion (by the
// reference evaluator), and from the host target, fusions and memory plan included.
#include "tests/unit/RandomGraph.h"

#include "codegen/host/HostTarget.h"
#include "compiler/Pipeline.h"
#include "compiler/PlanWriter.h"
#include "dialects/dit/Dit.h"
#include "dialects/plan/Plan.h"
#include "runtime/Session.h"

#include "mlir/IR/Verifier.h"

#include <cmath>
#include <filesystem>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

using namespace ditc;
using namespace ditc::test;
using namespace mlir;

namespace {

using Outputs = SmallVector<dit::TensorValue>;

class RandomGraphs : public testing::TestWithParam<uint32_t> {
protected:
  RandomGraphs() : context(MLIRContext::Threading::DISABLED) {
    context.loadDialect<dit::DitDialect, plan::PlanDialect, arith::ArithDialect, math::MathDialect, func::FuncDialect>();
    module = randomGraph(context, GetParam());
    auto function = *module->getOps<func::FuncOp>().begin();
    arguments = randomArguments(function, GetParam());
    expected = evaluate();
  }

  Outputs evaluate() {
    auto function = *module->getOps<func::FuncOp>().begin();
    FailureOr<Outputs> outputs = dit::evaluateFunction(function, arguments, [](StringRef) { return dit::TensorValue(); });
    EXPECT_TRUE(succeeded(outputs));
    return succeeded(outputs) ? *outputs : Outputs();
  }

  void expectClose(const Outputs &actual) {
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t k = 0; k < actual.size(); ++k) {
      double error = 0, size = 1e-12;
      for (int64_t i = 0; i < expected[k].type.getNumElements(); ++i) {
        double difference = actual[k].at(i) - expected[k].at(i);
        error += difference * difference;
        size += expected[k].at(i) * expected[k].at(i);
      }
      EXPECT_LE(std::sqrt(error / size), 1e-4) << "output " << k << " of seed " << GetParam();
    }
  }

  /// The package of the planned module, run by a session.
  Outputs runOnHost() {
    std::string path = fmt::format("{}/random-{}-{}.dita", std::filesystem::temp_directory_path().string(), getpid(), GetParam());
    writePackage(path);
    Outputs outputs;
    std::vector<TensorRef> in, out;
    std::shared_ptr<Session> session = Session::open(path, {});
    const Plan &plan = session->plans().at("random");
    for (size_t i = 0; i < arguments.size(); ++i)
      in.push_back(refTo(plan.inputs[i].name, {DType::f32, plan.inputs[i].shape, *arguments[i].bytes}));
    for (size_t i = 0; i < expected.size(); ++i) {
      outputs.push_back(dit::TensorValue::zeros(expected[i].type));
      TensorRef ref = refTo(plan.outputs[i].name, {DType::f32, plan.outputs[i].shape, *outputs.back().bytes});
      ref.data = outputs.back().bytes->data();
      out.push_back(ref);
    }
    Context run(session);
    run.run({"random", in, out, false, /*poison=*/true});
    std::filesystem::remove(path);
    return outputs;
  }

  void writePackage(const std::string &path) {
    PackageWriter writer(path);
    Plan plan = writePlanProgram(*module->getOps<plan::ProgramOp>().begin(), [&](std::span<const uint8_t> bytes) { return writer.addConstant(bytes); });
    FailureOr<HostObject> object = emitHost(*module);
    ASSERT_TRUE(succeeded(object));
    writer.add("host/kernels.so", object->sharedObject);
    Manifest manifest;
    manifest.producer = "test";
    manifest.targets.push_back({.name = "host", .object = "host/kernels.so", .triple = object->triple, .cpu = object->cpu});
    manifest.buckets.push_back({.name = "random", .symbols = {}, .plans = {{"host", writer.addPlan("random", "host", plan)}}});
    for (const auto &[ports, list] : {std::pair(&plan.inputs, &manifest.inputs), std::pair(&plan.outputs, &manifest.outputs)})
      for (const PortDesc &port : *ports)
        list->push_back({.name = port.name, .graphName = "", .dtype = port.dtype, .shape = {port.shape.begin(), port.shape.end()}});
    writer.finish(manifest);
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  std::vector<dit::TensorValue> arguments;
  Outputs expected;
};

class RandomGraphsOnHost : public RandomGraphs {};

TEST_P(RandomGraphs, FusionKeepsTheNumbers) {
  CompileOptions options;
  options.stopAfter = Phase::Fused;
  ASSERT_TRUE(succeeded(runPipeline(*module, options, "")));
  expectClose(evaluate());
}

TEST_P(RandomGraphsOnHost, GiveTheNumbers) {
  ASSERT_TRUE(succeeded(runPipeline(*module, CompileOptions(), "")));
  ASSERT_TRUE(succeeded(runPlanPhase(*module, CompileOptions(), "host", "")));
  Outputs first = runOnHost();
  expectClose(first);
  Outputs second = runOnHost();
  for (size_t i = 0; i < first.size(); ++i)
    EXPECT_EQ(*first[i].bytes, *second[i].bytes) << "two runs differ";
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomGraphs, testing::Range(uint32_t{0}, uint32_t{120}));
INSTANTIATE_TEST_SUITE_P(Seeds, RandomGraphsOnHost, testing::Range(uint32_t{1000}, uint32_t{1012})); // compiling takes longer

} // namespace
