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

def SplitMaps : Pass<"ditc-split-maps", "::mlir::func::FuncOp"> {
  let summary = "maps of large values that are read by parts are computed where the parts are read";
}

def MarkInvariant : Pass<"ditc-mark-invariant", "::mlir::func::FuncOp"> {
  let summary = "marks what gives the same result in every denoising step";
}

def ConvToMatmul : Pass<"ditc-conv-to-matmul", "::mlir::func::FuncOp"> {
  let summary = "convolutions with disjoint windows (patch embedding, 1x1) become matrix products";
  let dependentDialects = ["::ditc::dit::DitDialect"];
}

def RecogniseAttention : Pass<"ditc-recognise-attention", "::mlir::func::FuncOp"> {
  let summary = "spelled-out softmax attention becomes dit.attention";
  let options = [Option<"keepRoundings", "keep-roundings", "bool", "false", "keep every rounding of the source graph">];
  let dependentDialects = ["::ditc::dit::DitDialect"];
}

def RecogniseLinearAttention : Pass<"ditc-recognise-linear-attention", "::mlir::func::FuncOp"> {
  let summary = "two f32 products over the tokens become the state of linear attention and its use";
  let dependentDialects = ["::ditc::dit::DitDialect"];
}

def SimplifyAttention : Pass<"ditc-simplify-attention", "::mlir::func::FuncOp"> {
  let summary = "repeated key heads become grouped queries, masks that hide nothing go";
  let dependentDialects = ["::ditc::dit::DitDialect"];
}

def RecogniseNorms : Pass<"ditc-recognise-norms", "::mlir::func::FuncOp"> {
  let summary = "spelled-out LayerNorms and RMSNorms become dit.norm";
  let options = [Option<"keepRoundings", "keep-roundings", "bool", "false", "keep every rounding of the source graph">];
  let dependentDialects = ["::ditc::dit::DitDialect"];
}

def NarrowTables : Pass<"ditc-narrow-tables", "::mlir::func::FuncOp"> {
  let summary = "f32 and 16-bit activations that meet finished f64 tables are computed in f32";
  let dependentDialects = ["::ditc::dit::DitDialect"];
}

def RotateAllRows : Pass<"ditc-rotate-all-rows", "::mlir::func::FuncOp"> {
  let summary = "a rotary embedding of some tokens becomes one of all, by tables that leave the others as they are";
}

def HoistSlices : Pass<"ditc-hoist-slices", "::mlir::func::FuncOp"> {
  let summary = "a part of a rearranged value is a rearranged part: queries, keys and values are told apart at their product";
}

def PadAddends : Pass<"ditc-pad-addends", "::mlir::func::FuncOp"> {
  let summary = "what is added to some rows of a value is padded and added to all: no rows are put together again";
}

def NarrowAttention : Pass<"ditc-narrow-attention", "::mlir::func::FuncOp"> {
  let summary = "attention on f32 copies of 16-bit operands reads the operands themselves";
}

def SinkConcats : Pass<"ditc-sink-concats", "::mlir::func::FuncOp"> {
  let summary = "work on joined text and image tokens moves onto the parts, up to the attention";
}

def SinkRepeats : Pass<"ditc-sink-repeats", "::mlir::func::FuncOp"> {
  let summary = "what is repeated for groups of rows is computed before it is repeated";
}

def ArrangeRows : Pass<"ditc-arrange-rows", "::mlir::func::FuncOp"> {
  let summary = "rows of products are in the order in which that costs nothing";
  let dependentDialects = ["::ditc::dit::DitDialect"];
}

def QuantizeProducts : Pass<"ditc-quantize-products", "::mlir::func::FuncOp"> {
  let summary = "with --quantize: products with weights multiply fp8 numbers, scaled by rows of both sides";
  let options = [ListOption<"skip", "skip", "std::string", "modules whose products stay as they are, by patterns of their paths">,
                 ListOption<"only", "only", "std::string", "modules whose products are quantised, whatever it saves, and no others">];
  let dependentDialects = ["::ditc::dit::DitDialect"];
}

def QuantizeAttention : Pass<"ditc-quantize-attention", "::mlir::func::FuncOp"> {
  let summary = "with --quantize-attention: attention multiplies i8 queries and keys, e4m3 weights and values";
  let options = [ListOption<"skip", "skip", "std::string", "modules whose attention stays as it is, by patterns of their paths">,
                 ListOption<"only", "only", "std::string", "modules whose attention is quantised, whatever it saves, and no others">];
  let dependentDialects = ["::ditc::dit::DitDialect"];
}

def GroupKernels : Pass<"ditc-group-kernels", "::mlir::func::FuncOp"> {
  let summary = "decides which operations one launch computes, as the catalogue's templates allow";
  let constructor = "nullptr"; // takes the catalogue: passes/GroupKernels.h
}

def LegalizeForCuda : Pass<"ditc-legalize-for-cuda", "::mlir::func::FuncOp"> {
  let summary = "every operation is one launch of a CUDA kernel, a library call, or a free view";
  let constructor = "nullptr"; // takes what the target can launch: passes/LegalizeForCuda.h
  let dependentDialects = ["::ditc::dit::DitDialect"];
}

def LowerToPlan : Pass<"ditc-lower-to-plan", "::mlir::ModuleOp"> {
  let summary = "tensors become buffers, operations become launches";
  let options = [Option<"device", "device", "bool", "false", "for kernels that take whole fusions and write any strides, and a BLAS for all float types">,
                 Option<"keepRoundings", "keep-roundings", "bool", "false", "kernels round every result of an operation to its type">];
  let dependentDialects = ["::ditc::plan::PlanDialect"];
}

def PlanAttention : Pass<"ditc-plan-attention", "::mlir::ModuleOp"> {
  let summary = "launches of attention get packed masks, and memory for tiles that blocks share";
  let constructor = "nullptr"; // takes what the target wants: passes/PlanAttention.h
  let dependentDialects = ["::ditc::plan::PlanDialect"];
}

def SplitNorms : Pass<"ditc-split-norms", "::mlir::func::FuncOp"> {
  let summary = "norms over few, very long rows get their statistics from many blocks";
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::math::MathDialect"];
}

def SplitSums : Pass<"ditc-split-sums", "::mlir::func::FuncOp"> {
  let summary = "sums over what lies apart in memory get their parts from many threads";
}

def PlanConvolutions : Pass<"ditc-plan-convolutions", "::mlir::ModuleOp"> {
  let summary = "images and filters of convolutions are laid out as tensor cores read them";
  let constructor = "nullptr"; // takes what the target wants: passes/PlanConvolutions.h
  let dependentDialects = ["::ditc::plan::PlanDialect"];
}

def OrderLaunches : Pass<"ditc-order-launches", "::mlir::ModuleOp"> {
  let summary = "launches move away from where a step needs most memory";
}

def PlanMemory : Pass<"ditc-plan-memory", "::mlir::ModuleOp"> {
  let summary = "lifetimes become offsets in one arena";
}

#endif // DITC_PASSES_TD
