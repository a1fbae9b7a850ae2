// SPDX-License-Identifier: Apache-2.0
//
// The host target: all kernels of a module become one shared object, compiled in this process by LLVM and
// linked by lld. Maps are printed as loop nests; the other families call templates (codegen/templates/host)
// that were compiled to bitcode when ditc was built.
#pragma once

#include "codegen/host/HostOptions.h"
#include "dialects/plan/Plan.h"

#include "mlir/IR/BuiltinOps.h"

namespace ditc {

/// Compiles every plan.kernel of `module`. Each becomes `void <name>(char *const *args)`, where args[i] points at
/// element 0 of argument i. Arguments are aligned to their elements and an output overlaps no other argument.
/// Errors are diagnostics at the kernel's location. Equal input gives equal bytes.
mlir::FailureOr<HostObject> emitHost(mlir::ModuleOp module, const HostOptions &options = {});

/// The optimised LLVM IR of one kernel, with the parts of the templates that it uses, for readers.
mlir::FailureOr<std::string> printHostKernel(plan::KernelOp kernel, const HostOptions &options = {});

} // namespace ditc
