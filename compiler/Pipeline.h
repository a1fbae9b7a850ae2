// SPDX-License-Identifier: Apache-2.0
//
// The compiler's passes in order. Pipeline.cpp is the table of contents.
#pragma once

#include "compiler/Options.h"
#include "dialects/Contracts.h"

#include "mlir/IR/BuiltinOps.h"

#include <functional>

namespace mlir {
class OpPassManager;
}

namespace ditc {

/// A stretch of the pipeline and what holds after it.
struct PhaseSteps {
  Phase phase;
  Contract contract;
  void (*build)(mlir::OpPassManager &pm, const CompileOptions &options, const std::string &target);
};

/// All phases after import, in order.
mlir::ArrayRef<PhaseSteps> pipelinePhases();

/// Called when a phase is done and its contract holds.
using PhaseObserver = std::function<void(Contract contract, mlir::ModuleOp module)>;

/// Runs the phases that all targets share, up to `fused` or `options.stopAfter`, checking each contract. `dumpFolder`:
/// folder for the IR after every pass, or empty.
mlir::LogicalResult runPipeline(mlir::ModuleOp module, const CompileOptions &options, const std::string &dumpFolder, const PhaseObserver &observe = {});

/// Plans a fused module for one target ("host", "sm_90a", ...).
mlir::LogicalResult runPlanPhase(mlir::ModuleOp module, const CompileOptions &options, const std::string &target, const std::string &dumpFolder);

/// The passes by phase with their summaries, for `ditc passes`.
std::string describePipeline();

} // namespace ditc
