// SPDX-License-Identifier: Apache-2.0
//
// The order of launches and the places of buffers on random plans: everything is still read after it was written and before
// it is written again, no more memory is in use at once than before, and buffers in use at the same time do not overlap.
#include "dialects/dit/Dit.h"
#include "passes/Passes.h"
#include "passes/plan/LaunchOrder.h"
#include "passes/plan/Lifetimes.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <map>
#include <random>

using namespace ditc;
using namespace mlir;

namespace {

constexpr int kLaunches = 40;

/// Launches that read up to three earlier buffers and write one or a half of two; the half is a view.
std::string randomPlan(std::mt19937 &random) {
  auto upTo = [&](int n) { return static_cast<int>(random() % n); };
  std::string buffers = "  %b0 = plan.buffer input {index = 0 : i64} : memref<16xf32>\n  %y = plan.buffer output {index = 0 : i64} : memref<16xf32>\n", steps, kernels;
  std::vector<std::string> values{"%b0"}, types{"memref<16xf32>"};
  for (int i = 1; i <= kLaunches; ++i) {
    std::string name = std::to_string(i), args, argTypes;
    for (int k = 1 + upTo(3); k > 0; --k) {
      int from = std::max(0, static_cast<int>(values.size()) - 1 - upTo(8));
      args += values[from] + ", ";
      argTypes += types[from] + ", ";
    }
    bool isLast = i == kLaunches, isHalf = !isLast && i > 1 && upTo(6) == 0;
    std::string result = isLast ? "%y" : isHalf ? values.back() : "%b" + name, type = isLast ? "memref<16xf32>" : isHalf ? types.back() : "memref<" + std::to_string(16 << upTo(8)) + "xf32>";
    if (isHalf) { // writes what an earlier launch has written, too
      buffers += "  %v" + name + " = plan.view " + result + " : " + type + " -> memref<8xf32>\n";
      result = "%v" + name;
      type = "memref<8xf32>";
    } else if (!isLast) {
      buffers += "  " + result + " = plan.buffer arena : " + type + "\n";
      values.push_back(result);
      types.push_back(type);
    }
    kernels += "plan.kernel @k" + name + " family \"map\" args [" + argTypes + type + "] outputs 1 config {} {\n}\n";
    steps += "    plan.launch @k" + name + "(" + args + result + ") : " + argTypes + type + "\n";
  }
  return "plan.program @p inputs [\"x\"] outputs [\"y\"] {\n" + buffers + "  plan.prepare {\n  }\n  plan.step {\n" + steps + "  }\n}\n" + kernels;
}

/// What each launch finds in its operands: by operand, the launch that wrote the buffer last.
std::map<Operation *, std::vector<Operation *>> readsOf(ArrayRef<Operation *> operations) {
  std::map<Operation *, std::vector<Operation *>> reads;
  std::map<Operation *, Operation *> writer;
  for (Operation *op : operations) {
    for (Value operand : op->getOperands())
      reads[op].push_back(writer[plan::rootBuffer(operand)]);
    writer[plan::rootBuffer(op->getOperands().back())] = op;
  }
  return reads;
}

int64_t peakOf(ArrayRef<Operation *> operations) { return std::ranges::max(bytesInUse(lifetimesOf(operations, plan::Space::Arena), operations.size())); }

int64_t offsetOf(const Lifetime &lifetime) { return plan::BufferOp(lifetime.buffer).getOffset().value_or(-1); }

class LaunchOrder : public testing::Test {
protected:
  LaunchOrder() { context.loadDialect<dit::DitDialect, plan::PlanDialect>(); }

  plan::ProgramOp read(const std::string &text) {
    module = parseSourceString<ModuleOp>(text, &context);
    return module ? *module->getOps<plan::ProgramOp>().begin() : plan::ProgramOp();
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
};

TEST_F(LaunchOrder, RandomPlansComputeTheSameInLessMemory) {
  std::mt19937 random(7);
  int lowered = 0;
  for (int i = 0; i < 100; ++i) {
    plan::ProgramOp program = read(randomPlan(random));
    ASSERT_TRUE(program);
    std::vector<Operation *> before = operationsOf(program), after = lowerPeak((*program.getBody().getOps<plan::StepOp>().begin()).getBody().front());
    EXPECT_TRUE(std::ranges::is_permutation(before, after));
    EXPECT_EQ(readsOf(before), readsOf(after)) << "plan " << i;
    EXPECT_LE(peakOf(after), peakOf(before)) << "plan " << i;
    lowered += peakOf(after) < peakOf(before);
  }
  EXPECT_GT(lowered, 30);
}

TEST_F(LaunchOrder, BuffersInUseAtOnceDoNotOverlap) {
  std::mt19937 random(8);
  int tight = 0; // plans whose arena is no larger than the most bytes in use at once
  for (int i = 0; i < 100; ++i) {
    plan::ProgramOp program = read(randomPlan(random));
    ASSERT_TRUE(program);
    PassManager pm(&context);
    pm.addPass(createOrderLaunches());
    pm.addPass(createPlanMemory());
    ASSERT_TRUE(succeeded(pm.run(*module)));
    std::vector<Operation *> operations = operationsOf(program);
    std::vector<Lifetime> lifetimes = lifetimesOf(operations, plan::Space::Arena);
    for (Lifetime &a : lifetimes) {
      int64_t begin = offsetOf(a), end = begin + a.bytes;
      EXPECT_LE(end, static_cast<int64_t>(*program.getArenaBytes()));
      for (Lifetime &b : lifetimes)
        EXPECT_TRUE(a.buffer == b.buffer || !a.overlapsInTime(b) || end <= offsetOf(b) || offsetOf(b) + b.bytes <= begin) << "plan " << i;
    }
    tight += static_cast<int64_t>(*program.getArenaBytes()) == peakOf(operations);
  }
  EXPECT_GT(tight, 60); // 50 of them when the large ones go first in every plan
}

} // namespace
