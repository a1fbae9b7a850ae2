// SPDX-License-Identifier: Apache-2.0
//
// The `plan` dialect: how a bucket runs. One operation for each thing that the runtime does; no decisions are left in it.

#ifndef DITC_DIALECTS_PLAN_TD
#define DITC_DIALECTS_PLAN_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/IR/RegionKindInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Plan_Dialect : Dialect {
  let name = "plan";
  let cppNamespace = "::ditc::plan";
  let summary = "Buffers, kernels and launches";
  let useDefaultAttributePrinterParser = 1;
  let description = [{
    A bucket is one `plan.program`: buffers, then the operations that run once per weight set (`plan.prepare`) and those that run each time (`plan.step`).
    Buffers and views of them are `memref`s with static shapes and strided layouts, in elements.
  }];
}

class Plan_Op<string mnemonic, list<Trait> traits = []> : Op<Plan_Dialect, mnemonic, traits>;

def Plan_MemRef : MemRefOf<[AnyType]>;

def Plan_Space : I32EnumAttr<"Space", "where a buffer's memory comes from", [
  I32EnumAttrCase<"Input", 0, "input">, I32EnumAttrCase<"Output", 1, "output">, I32EnumAttrCase<"Weight", 2, "weight">,
  I32EnumAttrCase<"Constant", 3, "constant">, I32EnumAttrCase<"Prepared", 4, "prepared">, I32EnumAttrCase<"Arena", 5, "arena">,
  I32EnumAttrCase<"Zeroed", 6, "zeroed">]> {
  let cppNamespace = "::ditc::plan";
  let genSpecializedAttr = 0;
}
def Plan_SpaceAttr : EnumAttr<Plan_Dialect, Plan_Space, "space">;

def Plan_ProgramOp : Plan_Op<"program", [Symbol, IsolatedFromAbove, NoTerminator, SingleBlock, NoRegionArguments]> {
  let summary = "the plan of one bucket";
  let description = [{ `arena_bytes` and `prepared_bytes` are set by the memory planner. `input_names` and `output_names` follow the buffers' indices. }];
  let arguments = (ins SymbolNameAttr:$sym_name, StrArrayAttr:$input_names, StrArrayAttr:$output_names,
                   OptionalAttr<I64Attr>:$arena_bytes, OptionalAttr<I64Attr>:$prepared_bytes);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name `inputs` $input_names `outputs` $output_names attr-dict-with-keyword $body";
}

def Plan_BufferOp : Plan_Op<"buffer", [Pure]> {
  let summary = "memory of a tensor";
  let description = [{
    `index` is the position among inputs or outputs, `name` the weight's name, `value` the constant, `offset` the byte offset in the arena, the prepared or
    the zeroed memory once planned. Zeroed memory holds zeros whenever an operation begins: kernels that use it put them back.
  }];
  let arguments = (ins Plan_SpaceAttr:$space, OptionalAttr<I64Attr>:$index, OptionalAttr<StrAttr>:$name, OptionalAttr<I64Attr>:$offset, OptionalAttr<ElementsAttr>:$value);
  let results = (outs Plan_MemRef:$result);
  let assemblyFormat = "$space attr-dict `:` type($result)";
}

def Plan_ViewOp : Plan_Op<"view", [Pure]> {
  let summary = "the same memory under another shape, strides and offset (all in the result type)";
  let arguments = (ins Plan_MemRef:$source);
  let results = (outs Plan_MemRef:$result);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($result)";
}

def Plan_PrepareOp : Plan_Op<"prepare", [NoTerminator, SingleBlock, NoRegionArguments]> {
  let summary = "operations that run once when weights are bound";
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "attr-dict-with-keyword $body";
}

def Plan_StepOp : Plan_Op<"step", [NoTerminator, SingleBlock, NoRegionArguments]> {
  let summary = "operations that run each time";
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "attr-dict-with-keyword $body";
}

def Plan_KernelOp : Plan_Op<"kernel", [Symbol, IsolatedFromAbove]> {
  let summary = "a kernel: its family, its configuration and the types of its arguments";
  let description = [{
    The last `outputs` arguments are written. `family` names an emitter of the target; `config` holds what it needs beside the types. A body is the scalar code
    of a map, as in `dit.map`.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, StrAttr:$family, TypeArrayAttr:$arg_types, I64Attr:$outputs, DictionaryAttr:$config);
  let regions = (region AnyRegion:$body);
  let assemblyFormat = "$sym_name `family` $family `args` $arg_types `outputs` $outputs `config` $config attr-dict-with-keyword $body";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::MemRefType getArgType(unsigned i) { return ::mlir::cast<::mlir::MemRefType>(::mlir::cast<::mlir::TypeAttr>(getArgTypes()[i]).getValue()); }
    unsigned getNumArgs() { return getArgTypes().size(); }
  }];
}

def Plan_LaunchOp : Plan_Op<"launch", [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "runs a kernel";
  let arguments = (ins FlatSymbolRefAttr:$kernel, Variadic<Plan_MemRef>:$args);
  let assemblyFormat = "$kernel `(` $args `)` attr-dict `:` type($args)";
}

def Plan_GemmOp : Plan_Op<"gemm"> {
  let summary = "a matrix product by the target's BLAS";
  let description = [{
    c[b..., M, N] = a[b..., M, K] · b[b..., K, N] (+ bias[N]), accumulated in f32 (f64 for f64) and rounded once. The host's BLAS takes f32 and f64 without
    bias. One of the last two strides of `a` and of `b` is 1, the last stride of `c` is 1.
  }];
  let arguments = (ins Plan_MemRef:$a, Plan_MemRef:$b, Plan_MemRef:$c, Optional<Plan_MemRef>:$bias);
  let assemblyFormat = "$a `,` $b `->` $c (`bias` $bias^ `:` type($bias))? attr-dict `:` type($a) `,` type($b) `->` type($c)";
  let hasVerifier = 1;
}

def Plan_CopyOp : Plan_Op<"copy"> {
  let summary = "copies bytes between contiguous buffers of equal type";
  let arguments = (ins Plan_MemRef:$source, Plan_MemRef:$target);
  let assemblyFormat = "$source `->` $target attr-dict `:` type($source) `->` type($target)";
  let hasVerifier = 1;
}

#endif // DITC_DIALECTS_PLAN_TD
