// SPDX-License-Identifier: Apache-2.0
//
// OrderLaunches: where a step needs most memory, launches that need not have run yet run later, and launches that would
// free something run earlier. A launch takes along those that depend on it, or that it depends on. The order of the model
// stays wherever another one does not lower the peak by enough to be worth it; the work is the same in any order.
//
// An attention beside another one is an example: both products came first, so Q, K and V of both waited at once.
//
// Before:
//   plan.program @b inputs ["x"] outputs ["y", "z"] {
//     %x = plan.buffer input {index = 0} : memref<1024xf32>
//     %y = plan.buffer output {index = 0} : memref<1024xf32>
//     %z = plan.buffer output {index = 1} : memref<1024xf32>
//     %p = plan.buffer arena : memref<1024xf32>
//     %q = plan.buffer arena : memref<1024xf32>
//     plan.prepare { }
//     plan.step {
//       plan.copy %x -> %p : memref<1024xf32> -> memref<1024xf32>
//       plan.copy %x -> %q : memref<1024xf32> -> memref<1024xf32>
//       plan.copy %p -> %y : memref<1024xf32> -> memref<1024xf32>
//       plan.copy %q -> %z : memref<1024xf32> -> memref<1024xf32>
//     }
//   }
// After:
//   plan.program @b inputs ["x"] outputs ["y", "z"] {
//     %x = plan.buffer input {index = 0} : memref<1024xf32>
//     %y = plan.buffer output {index = 0} : memref<1024xf32>
//     %z = plan.buffer output {index = 1} : memref<1024xf32>
//     %p = plan.buffer arena : memref<1024xf32>
//     %q = plan.buffer arena : memref<1024xf32>
//     plan.prepare { }
//     plan.step {
//       plan.copy %x -> %p : memref<1024xf32> -> memref<1024xf32>
//       plan.copy %p -> %y : memref<1024xf32> -> memref<1024xf32>
//       plan.copy %x -> %q : memref<1024xf32> -> memref<1024xf32>
//       plan.copy %q -> %z : memref<1024xf32> -> memref<1024xf32>
//     }
//   }
#include "passes/Passes.h"
#include "passes/plan/LaunchOrder.h"

using namespace mlir;

namespace ditc {
#define GEN_PASS_DEF_ORDERLAUNCHES
#include "passes/Passes.h.inc"

namespace {

class OrderLaunches : public impl::OrderLaunchesBase<OrderLaunches> {
  void runOnOperation() override {
    for (plan::ProgramOp program : getOperation().getOps<plan::ProgramOp>())
      for (plan::StepOp step : program.getBody().getOps<plan::StepOp>()) {
        Block &block = step.getBody().front();
        for (Operation *op : lowerPeak(block))
          op->moveBefore(&block, block.end());
      }
  }
};

} // namespace
} // namespace ditc
