// SPDX-License-Identifier: Apache-2.0
//
// The list of ditc's passes. Each is one file of the same name, whose header shows the IR before and after.

#ifndef DITC_PASSES_TD
#define DITC_PASSES_TD

include "mlir/Pass/PassBase.td"

def FoldConstants : Pass<"ditc-fold-constants", "::mlir::func::FuncOp"> {
  let summary = "computes everything that depends on constants only";
  let options = [Option<"maxBytes", "max-bytes", "int64_t", "268435456", "largest table that is folded, in bytes">];
}

def LegalizeForHost : Pass<"ditc-legalize-for-host", "::mlir::func::FuncOp"> {
  let summary = "matrix products become f32 products without bias between maps, as the BLAS takes them";
  let dependentDialects = ["::ditc::dit::DitDialect"];
}

def FuseMaps : Pass<"ditc-fuse-maps", "::mlir::func::FuncOp"> {
  let summary = "element-wise chains become one map: one pass over memory";
  let options = [Option<"keepRoundings", "keep-roundings", "bool", "false", "keep every rounding of the source graph">];
}

def MarkInvariant : Pass<"ditc-mark-invariant", "::mlir::func::FuncOp"> {
  let summary = "marks what gives the same result in every denoising step";
}

def RecogniseNorms : Pass<"ditc-recognise-norms", "::mlir::func::FuncOp"> {
  let summary = "spelled-out RMSNorms become dit.norm";
  let dependentDialects = ["::ditc::dit::DitDialect"];
}

def SinkConcats : Pass<"ditc-sink-concats", "::mlir::func::FuncOp"> {
  let summary = "work on joined text and image tokens moves onto the parts, up to the attention";
}

def GroupKernels : Pass<"ditc-group-kernels", "::mlir::func::FuncOp"> {
  let summary = "decides which operations one launch computes, as the catalogue's templates allow";
  let constructor = "nullptr"; // takes the catalogue: passes/GroupKernels.h
}

def LowerToPlan : Pass<"ditc-lower-to-plan", "::mlir::ModuleOp"> {
  let summary = "tensors become buffers, operations become launches";
  let dependentDialects = ["::ditc::plan::PlanDialect"];
}

def PlanMemory : Pass<"ditc-plan-memory", "::mlir::ModuleOp"> {
  let summary = "lifetimes become offsets in one arena";
}

#endif // DITC_PASSES_TD
