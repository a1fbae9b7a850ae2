// SPDX-License-Identifier: Apache-2.0
//
// The `dit` dialect: what a diffusion transformer computes, on static ranked tensors. No memory, no device.

#ifndef DITC_DIALECTS_DIT_TD
#define DITC_DIALECTS_DIT_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/RegionKindInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"

def Dit_Dialect : Dialect {
  let name = "dit";
  let cppNamespace = "::ditc::dit";
  let summary = "Tensor operations of diffusion transformers";
  let description = [{
    Values are ranked tensors with static shapes (sizes are bound at import, one function per bucket). Element types: f64, f32, f16, bf16, f8E4M3FN, i64, i32,
    i16, i8, ui8, i1. Complex tensors are imported as real tensors with a trailing dimension of 2.

    All element-wise work is `dit.map`, whose region is scalar `arith`/`math` code on *compute types*: f64 for f64, f32 for every other float type, i64
    for every integer type, i1 for i1. Loading converts to the compute type; yielding rounds to the result's element type.
  }];
  let hasConstantMaterializer = 1;
  let useDefaultAttributePrinterParser = 1;
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::math::MathDialect"];
}

class Dit_Op<string mnemonic, list<Trait> traits = []> : Op<Dit_Dialect, mnemonic, traits>;

def Dit_Tensor : StaticShapeTensorOf<[F64, F32, F16, BF16, F8E4M3FN, I64, I32, I16, I8, UI8, I1]>;
def Dit_FloatTensor : StaticShapeTensorOf<[F64, F32, F16, BF16, F8E4M3FN]>;
def Dit_IntTensor : StaticShapeTensorOf<[I64, I32, I16, I8, UI8]>;
def Dit_ScalarType : AnyTypeOf<[F64, F32, I64, I1]>;

//===-- Leaves ------------------------------------------------------------------------------------===//

def Dit_ConstantOp : Dit_Op<"constant", [Pure, ConstantLike, AllTypesMatch<["value", "result"]>]> {
  let summary = "a tensor whose value is known at compile time";
  let arguments = (ins ElementsAttr:$value);
  let results = (outs Dit_Tensor:$result);
  let assemblyFormat = "attr-dict $value";
  let hasFolder = 1;
  let extraClassDeclaration = [{
    static bool isBuildableWith(::mlir::Attribute value, ::mlir::Type type);
  }];
  let builders = [OpBuilder<(ins "::mlir::ElementsAttr":$value), [{ build($_builder, $_state, value.getType(), value); }]>];
}

def Dit_WeightOp : Dit_Op<"weight", [Pure]> {
  let summary = "a parameter or buffer of the model, by its name";
  let description = [{ Its bytes are bound when a package is opened; nothing that depends on it is folded at compile time. }];
  let arguments = (ins StrAttr:$name);
  let results = (outs Dit_Tensor:$result);
  let assemblyFormat = "$name attr-dict `:` type($result)";
}

//===-- Element-wise ------------------------------------------------------------------------------===//

def Dit_MapOp : Dit_Op<"map", [Pure, IsolatedFromAbove, SingleBlock]> {
  let summary = "element-wise computation; the region is the scalar body";
  let description = [{
    All operands have the result's rank; a dimension of size 1 is repeated. The body takes one scalar per operand, of the compute type of the operand's
    elements, and yields one scalar of the compute type of the result's elements.

    ```mlir
    %y = dit.map(%x, %s) : (tensor<2x8x64xbf16>, tensor<2x1x64xbf16>) -> tensor<2x8x64xbf16> {
    ^bb0(%a: f32, %b: f32):
      %m = arith.mulf %a, %b : f32
      dit.yield %m : f32
    }
    ```
  }];
  let arguments = (ins Variadic<Dit_Tensor>:$inputs);
  let results = (outs Dit_Tensor:$result);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "`(` $inputs `)` attr-dict `:` functional-type($inputs, $result) $body";
  let hasVerifier = 1;
  let hasCanonicalizer = 1;
  let hasFolder = 1;
  let extraClassDeclaration = [{
    ::mlir::Block &getBodyBlock() { return getBody().front(); }
    /// True when the body yields its only argument unchanged (a cast, or a copy).
    bool isIdentity();
  }];
}

def Dit_YieldOp : Dit_Op<"yield", [Pure, Terminator, ReturnLike]> {
  let summary = "ends the body of a dit.map (one scalar) or a dit.fusion (its tensors)";
  let arguments = (ins Variadic<AnyTypeOf<[Dit_ScalarType, Dit_Tensor]>>:$values);
  let assemblyFormat = "$values attr-dict `:` type($values)";
  let builders = [OpBuilder<(ins), [{ }]>];
}

//===-- Contractions ------------------------------------------------------------------------------===//

def Dit_MatmulOp : Dit_Op<"matmul", [Pure]> {
  let summary = "matrix product with optional bias";
  let description = [{
    `lhs` is [batch..., M, K]; `rhs` is [batch..., K, N], or [batch..., N, K] with `transpose_rhs` (torch's linear weight). `rhs` may have rank 2 whatever
    the rank of `lhs`; otherwise ranks are equal and a batch dimension of 1 is repeated. `bias` is [N] and is added before the result is rounded. Products
    accumulate in fp32 (f64 for f64, i64 for integers).
  }];
  let arguments = (ins Dit_Tensor:$lhs, Dit_Tensor:$rhs, Optional<Dit_Tensor>:$bias, UnitAttr:$transpose_rhs);
  let results = (outs Dit_Tensor:$result);
  let assemblyFormat = [{
    $lhs `,` $rhs (`bias` $bias^)? (`transpose_rhs` $transpose_rhs^)? attr-dict `:` functional-type(operands, $result)
  }];
  let hasVerifier = 1;
  let hasCanonicalizer = 1;
}

def Dit_AttentionOp : Dit_Op<"attention", [Pure]> {
  let summary = "softmax attention";
  let description = [{
    softmax(scale · q kᵀ + mask) v over the last key axis, statistics in fp32. q is [B, H, Nq, D], k [B, G, Nk, D], v [B, G, Nk, Dv] with H a multiple of
    G (grouped-query attention: query head h uses key head h / (H/G)). `mask` broadcasts to [B, H, Nq, Nk]: i1 keeps where true, a float mask is added. With
    `causal`, query i sees keys 0..i (aligned top left); with `window` [before, after] it sees keys i - before..i + after only. With `soft_cap` c a scaled score x
    becomes c · tanh(x / c) before masks are added. A row that has no key, or only keys at -inf, gives exactly 0.

    With `quantized` both products multiply 8-bit numbers; operands have 16 bits, heads up to 248 channels. k' = k - its mean over the tokens, which no softmax
    sees. Rows of q and k' are i8: q8 = round(q · 127 / m), s_q = m / 127 with m = max(max_c |q|, 1e-12), ties to even; v is e4m3 for each batch, head and channel:
    v8 = e4m3(v · 448 / m), s_v = m / 448 with m = max(max_n |v|, 1e-12). Scores are (q8 · k8) · s_k · s_q. A row's weights are e4m3 numbers near
    E(t) = 2^⌊t⌋ (1 + t - ⌊t⌋), t = score · log2(e), a line between powers of two: P = the number with bits round(8 (t - ⌈max t⌉ + 15)), or 0 below that. The
    result is Σ P v8 · s_v / Σ P. A target may let near keys share s_k. Where a row of q or k' or a channel of v has a NaN or an infinity, what sees it is NaN.
  }];
  let arguments = (ins Dit_FloatTensor:$query, Dit_FloatTensor:$key, Dit_FloatTensor:$value, Optional<Dit_Tensor>:$mask, F64Attr:$scale, UnitAttr:$causal,
                   OptionalAttr<F64Attr>:$soft_cap, OptionalAttr<DenseI64ArrayAttr>:$window, UnitAttr:$quantized);
  let results = (outs Dit_FloatTensor:$result);
  let assemblyFormat = [{
    $query `,` $key `,` $value (`mask` $mask^)? (`causal` $causal^)? (`window` $window^)? `scale` $scale (`soft_cap` $soft_cap^)? (`quantized` $quantized^)? attr-dict `:`
    functional-type(operands, $result)
  }];
  let hasVerifier = 1;
}

def Dit_LinearStateOp : Dit_Op<"linear_state", [Pure]> {
  let summary = "what linear attention keeps of all keys and values";
  let description = [{
    state[p, b, h, e, d] = Σ_n φ(key[b, h, n, d]) · value[b, h, n, e] over the tokens n of part p, in fp32; with `normaliser` there is a last row e = E of
    Σ_n φ(key[b, h, n, d]). φ is max(x, 0) with `relu`, else x. key is [B, H, N, D], value [B, H, N, E], the result [parts, B, H, E (+ 1), D] of f32; N is a
    multiple of the parts, of which more than one make more work to do at once.
  }];
  let arguments = (ins Dit_FloatTensor:$key, Dit_FloatTensor:$value, UnitAttr:$relu, UnitAttr:$normaliser);
  let results = (outs Dit_FloatTensor:$state);
  let assemblyFormat = "$key `,` $value (`relu` $relu^)? (`normaliser` $normaliser^)? attr-dict `:` functional-type(operands, $state)";
  let hasVerifier = 1;
}

def Dit_LinearApplyOp : Dit_Op<"linear_apply", [Pure]> {
  let summary = "linear attention's result, of its state";
  let description = [{
    With S = Σ_p state[p]: result[b, h, n, e] = Σ_d φ(query[b, h, n, d]) · S[b, h, e, d], in fp32; with `normaliser` divided by the same of S's last row plus
    `epsilon`. query is [B, H, N, D], state what dit.linear_state gives, the result [B, H, N, E].
  }];
  let arguments = (ins Dit_FloatTensor:$query, Dit_FloatTensor:$state, F64Attr:$epsilon, UnitAttr:$relu, UnitAttr:$normaliser);
  let results = (outs Dit_FloatTensor:$result);
  let assemblyFormat = "$query `,` $state (`relu` $relu^)? (`normaliser` $normaliser^)? `epsilon` $epsilon attr-dict `:` functional-type(operands, $result)";
  let hasVerifier = 1;
}

def Dit_ConvOp : Dit_Op<"conv", [Pure]> {
  let summary = "1-, 2- or 3-dimensional convolution";
  let description = [{
    `input` is [N, C, spatial...], `filter` [O, C/groups, window...], `bias` [O]. `padding_low`, `padding_high`, `strides`, `dilations` have one number per
    spatial dimension. Accumulates in fp32.
  }];
  let arguments = (ins Dit_FloatTensor:$input, Dit_FloatTensor:$filter, Optional<Dit_FloatTensor>:$bias, DenseI64ArrayAttr:$strides,
                   DenseI64ArrayAttr:$padding_low, DenseI64ArrayAttr:$padding_high, DenseI64ArrayAttr:$dilations, I64Attr:$groups);
  let results = (outs Dit_FloatTensor:$result);
  let assemblyFormat = "$input `,` $filter (`bias` $bias^)? attr-dict `:` functional-type(operands, $result)";
  let hasVerifier = 1;
}

//===-- Reductions --------------------------------------------------------------------------------===//

def Dit_NormKind : I32EnumAttr<"NormKind", "which statistics a norm removes", [
  I32EnumAttrCase<"Layer", 0, "layer">, I32EnumAttrCase<"Rms", 1, "rms">]> {
  let cppNamespace = "::ditc::dit";
  let genSpecializedAttr = 0;
}
def Dit_NormKindAttr : EnumAttr<Dit_Dialect, Dit_NormKind, "norm_kind">;

def Dit_NormOp : Dit_Op<"norm", [Pure, AttrSizedOperandSegments]> {
  let summary = "LayerNorm or RMSNorm over trailing dimensions";
  let description = [{
    layer: (x - mean) / sqrt(var + eps) · weight + bias; rms: x / sqrt(mean(x²) + eps) · weight + bias. Statistics and arithmetic in fp32 (f64 for f64). The last
    `axes` dimensions are normalised together; `weight` and `bias` have their shape.
  }];
  let arguments = (ins Dit_FloatTensor:$input, Optional<Dit_FloatTensor>:$weight, Optional<Dit_FloatTensor>:$bias, Dit_NormKindAttr:$kind, I64Attr:$axes, F64Attr:$eps);
  let results = (outs Dit_FloatTensor:$result);
  let assemblyFormat = [{
    $kind $input (`weight` $weight^)? (`bias` $bias^)? `axes` $axes `eps` $eps attr-dict `:` functional-type(operands, $result)
  }];
  let hasVerifier = 1;
}

def Dit_ReduceKind : I32EnumAttr<"ReduceKind", "how elements combine", [
  I32EnumAttrCase<"Sum", 0, "sum">, I32EnumAttrCase<"Mean", 1, "mean">, I32EnumAttrCase<"Prod", 2, "prod">, I32EnumAttrCase<"Max", 3, "max">,
  I32EnumAttrCase<"Min", 4, "min">, I32EnumAttrCase<"Any", 5, "any">, I32EnumAttrCase<"All", 6, "all">]> {
  let cppNamespace = "::ditc::dit";
  let genSpecializedAttr = 0;
}
def Dit_ReduceKindAttr : EnumAttr<Dit_Dialect, Dit_ReduceKind, "reduce_kind">;

def Dit_ReduceOp : Dit_Op<"reduce", [Pure]> {
  let summary = "reduction over axes, which stay with size 1";
  let description = [{
    Works on compute types (`any`/`all` on i1 only). `max` and `min` propagate NaN as torch does. An empty reduction gives the identity (0, 1, -inf, inf, false,
    true; the mean of nothing is NaN).
  }];
  let arguments = (ins Dit_Tensor:$input, Dit_ReduceKindAttr:$kind, DenseI64ArrayAttr:$axes);
  let results = (outs Dit_Tensor:$result);
  let assemblyFormat = "$kind $input `axes` $axes attr-dict `:` functional-type(operands, $result)";
  let hasVerifier = 1;
  let hasCanonicalizer = 1;
}

def Dit_ArgReduceOp : Dit_Op<"arg_reduce", [Pure]> {
  let summary = "index of the largest or smallest element along an axis";
  let description = [{ The axis stays with size 1. The first of equal elements wins; NaN counts as the extreme. }];
  let arguments = (ins Dit_Tensor:$input, Dit_ReduceKindAttr:$kind, I64Attr:$axis);
  let results = (outs StaticShapeTensorOf<[I64]>:$result);
  let assemblyFormat = "$kind $input `axis` $axis attr-dict `:` functional-type(operands, $result)";
  let hasVerifier = 1;
}

def Dit_ScanOp : Dit_Op<"scan", [Pure]> {
  let summary = "inclusive running sum or product along an axis";
  let arguments = (ins Dit_Tensor:$input, Dit_ReduceKindAttr:$kind, I64Attr:$axis);
  let results = (outs Dit_Tensor:$result);
  let assemblyFormat = "$kind $input `axis` $axis attr-dict `:` functional-type(operands, $result)";
  let hasVerifier = 1;
}

def Dit_SortOp : Dit_Op<"sort", [Pure]> {
  let summary = "stable sort along an axis: values and the indices they came from";
  let description = [{ NaN sorts as larger than every number. }];
  let arguments = (ins Dit_Tensor:$input, I64Attr:$axis, UnitAttr:$descending);
  let results = (outs Dit_Tensor:$values, StaticShapeTensorOf<[I64]>:$indices);
  let assemblyFormat = "$input `axis` $axis (`descending` $descending^)? attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

//===-- Indexed access ----------------------------------------------------------------------------===//

def Dit_GatherOp : Dit_Op<"gather", [Pure]> {
  let summary = "rows of a table by index";
  let description = [{
    result[a..., i..., b...] = table[a..., indices[i...], b...], where a are the dimensions before `axis` and b those behind it. Indices are clamped to
    the table (they are never negative: the importer adds the size).
  }];
  let arguments = (ins Dit_Tensor:$table, Dit_IntTensor:$indices, I64Attr:$axis);
  let results = (outs Dit_Tensor:$result);
  let assemblyFormat = "$table `[` $indices `]` `axis` $axis attr-dict `:` functional-type(operands, $result)";
  let hasVerifier = 1;
}

def Dit_ScatterOp : Dit_Op<"scatter", [Pure]> {
  let summary = "a copy of a table with rows replaced or added to";
  let description = [{
    result = base; for i in order: result[indices[i], ...] = (or +=, with `add`) updates[i, ...]. `base` is [A, post...], `indices` [M], `updates`
    [M, post...]. Indices outside the table are skipped.
  }];
  let arguments = (ins Dit_Tensor:$base, Dit_IntTensor:$indices, Dit_Tensor:$updates, UnitAttr:$add);
  let results = (outs Dit_Tensor:$result);
  let assemblyFormat = "$base `[` $indices `]` `,` $updates (`add` $add^)? attr-dict `:` functional-type(operands, $result)";
  let hasVerifier = 1;
}

//===-- Views -------------------------------------------------------------------------------------===//

def Dit_ViewOp : Dit_Op<"view", [Pure]> {
  let summary = "the same elements, in row-major order, under another shape";
  let arguments = (ins Dit_Tensor:$input);
  let results = (outs Dit_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
  let hasCanonicalizer = 1;
}

def Dit_PermuteOp : Dit_Op<"permute", [Pure]> {
  let summary = "result dimension i is input dimension permutation[i]";
  let arguments = (ins Dit_Tensor:$input, DenseI64ArrayAttr:$permutation);
  let results = (outs Dit_Tensor:$result);
  let assemblyFormat = "$input $permutation attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
  let hasCanonicalizer = 1;
}

def Dit_SliceOp : Dit_Op<"slice", [Pure]> {
  let summary = "every steps[i]-th element from offsets[i]; the result's shape says how many";
  let arguments = (ins Dit_Tensor:$input, DenseI64ArrayAttr:$offsets, DenseI64ArrayAttr:$steps);
  let results = (outs Dit_Tensor:$result);
  let assemblyFormat = "$input `offsets` $offsets `steps` $steps attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
  let hasCanonicalizer = 1;
}

def Dit_ConcatOp : Dit_Op<"concat", [Pure]> {
  let summary = "tensors one behind the other along an axis";
  let arguments = (ins Variadic<Dit_Tensor>:$inputs, I64Attr:$axis);
  let results = (outs Dit_Tensor:$result);
  let assemblyFormat = "`(` $inputs `)` `axis` $axis attr-dict `:` functional-type($inputs, $result)";
  let hasVerifier = 1;
  let hasFolder = 1;
  let hasCanonicalizer = 1;
}

def Dit_PadOp : Dit_Op<"pad", [Pure]> {
  let summary = "a border of one value";
  let description = [{ `value` has the element type (a bool for i1). Amounts are not negative. }];
  let arguments = (ins Dit_Tensor:$input, DenseI64ArrayAttr:$low, DenseI64ArrayAttr:$high, TypedAttrInterface:$value);
  let results = (outs Dit_Tensor:$result);
  let assemblyFormat = "$input `low` $low `high` $high `value` $value attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Dit_ExpandOp : Dit_Op<"expand", [Pure]> {
  let summary = "dimensions of size 1 repeated to the result's size";
  let arguments = (ins Dit_Tensor:$input);
  let results = (outs Dit_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

//===-- Fusion ------------------------------------------------------------------------------------===//

def Dit_FusionOp : Dit_Op<"fusion", [Pure, IsolatedFromAbove, SingleBlock]> {
  let summary = "operations that one launch computes";
  let description = [{
    The body computes the results from the operands with `dit` operations; `family` names the kernel template that takes it as one launch (rowwise, gemm,
    attention, gemv, layout). The meaning is that of the body, so a target without that template runs the body's operations one by one.
  }];
  let arguments = (ins StrAttr:$family, Variadic<Dit_Tensor>:$inputs);
  let results = (outs Variadic<Dit_Tensor>:$results);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$family `(` $inputs `)` attr-dict `:` functional-type($inputs, $results) $body";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::Block &getBodyBlock() { return getBody().front(); }
  }];
}

#endif // DITC_DIALECTS_DIT_TD
