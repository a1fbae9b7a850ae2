// SPDX-License-Identifier: Apache-2.0
//
// IR as text for people: values named after the graph's nodes, large tables left out.
#pragma once

#include "codegen/cuda/CudaTarget.h"
#include "codegen/host/HostTarget.h"

#include "mlir/IR/BuiltinOps.h"

#include <string>

namespace ditc {

std::string printModule(mlir::ModuleOp module);

/// One folder per kernel under `directory`/kernels: its plan.kernel and its LLVM IR.
void dumpKernels(mlir::ModuleOp kernels, const std::string &directory, const HostOptions &options);

/// A folder for each CUDA kernel: its IR and its source.
void dumpCudaKernels(const CudaObject &object, mlir::ModuleOp kernels, const std::string &directory);

} // namespace ditc
