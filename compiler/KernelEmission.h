// SPDX-License-Identifier: Apache-2.0
//
// The kernels of all buckets as code of their target, in the package and in the report.
#pragma once

#include "codegen/cuda/CudaTarget.h"
#include "compiler/CompileInputs.h"
#include "compiler/CorePackage.h"
#include "compiler/report/Report.h"

#include <optional>

namespace ditc {

void emitHostKernels(CompileState &state, mlir::ModuleOp kernels, CorePackage &core);
void emitCudaKernels(CompileState &state, const TuningChoice &tuning, const std::string &target, mlir::ModuleOp kernels, CorePackage &core, Report &report);

/// With the persistent cache, which is opened in `cache`, unless that is off.
CudaOptions cudaOptions(const CompileState &state, const TuningChoice &tuning, std::optional<Cache> &cache);

} // namespace ditc
