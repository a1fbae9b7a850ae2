// SPDX-License-Identifier: Apache-2.0
//
// From kernels to templates: one function per family reads arguments and options, checks what the template relies
// on, and fills its descriptor. Dimensions are merged on the way, so templates see the fewest loops.
#include "codegen/host/Families.h"

#include "codegen/host/Elements.h"
#include "codegen/host/KernelReader.h"
#include "codegen/host/StridedLoops.h"
#include "codegen/templates/host/attention_blocks.h"

#include "llvm/ADT/StringSwitch.h"

#include <cstring>

using namespace mlir;

namespace ditc {
namespace {

llvm::SmallVector<int64_t> stridesOf(MemRefType type) { return plan::layoutOf(type).strides; }
int64_t codeOf(MemRefType type) { return elementCode(type.getElementType()); }
bool isFloat(MemRefType type) { return isa<FloatType>(type.getElementType()); }

/// Strides of a tensor whose dimensions of size 1 repeat.
llvm::SmallVector<int64_t> repeatingStrides(MemRefType type) {
  llvm::SmallVector<int64_t> strides = stridesOf(type);
  for (int64_t d = 0; d < type.getRank(); ++d)
    if (type.getDimSize(d) == 1)
      strides[d] = 0;
  return strides;
}

/// The template's variant for a compute type: f64 for f64, f32 for other floats, i64 for integers and i1.
std::string variantOf(MemRefType type) {
  if (type.getElementType().isF64())
    return "f64";
  return isFloat(type) ? "f32" : "i64";
}

/// Templates convert between floats, or between integers and booleans, but not from one group to the other.
void expectSameGroup(KernelReader &r, ArrayRef<unsigned> args) {
  for (unsigned i : args)
    r.expect(isFloat(r.type(i)) == isFloat(r.type(args[0])), "argument " + llvm::Twine(i) + " and argument " + llvm::Twine(args[0]) + " must both be floating point or both be integers");
}

/// Loops that a nest of the descriptor holds; too many are an error.
Nest nestOf(KernelReader &r, StridedLoops loops) {
  loops = simplified(std::move(loops));
  r.expect(loops.size() <= kMaxLoops, "more than " + llvm::Twine(kMaxLoops) + " dimensions remain after merging");
  return r.failed() ? Nest{} : toNest(loops);
}

template <class Descriptor> TemplateCall call(std::string library, std::string function, const Descriptor &descriptor, int64_t scratchBytes = 0) {
  static_assert(sizeof(Descriptor) % 8 == 0 && std::is_trivially_copyable_v<Descriptor>);
  std::vector<uint64_t> words(sizeof(Descriptor) / 8);
  std::memcpy(words.data(), &descriptor, sizeof(Descriptor));
  return {std::move(library), std::move(function), std::move(words), scratchBytes};
}

int64_t reduceCode(KernelReader &r) {
  int64_t code = llvm::StringSwitch<int64_t>(r.word("kind"))
                     .Case("sum", kSum)
                     .Case("mean", kMean)
                     .Case("prod", kProd)
                     .Case("max", kMax)
                     .Case("min", kMin)
                     .Case("any", kAny)
                     .Case("all", kAll)
                     .Default(-1);
  r.expect(code >= 0, "unknown kind '" + r.word("kind") + "'");
  return code;
}

int64_t axisOf(KernelReader &r) {
  int64_t axis = r.integer("axis"), rank = r.type(0).getRank();
  r.expect(axis >= 0 && axis < rank, "axis " + llvm::Twine(axis) + " is outside rank " + llvm::Twine(rank));
  return r.failed() ? 0 : axis;
}

//===-- Norm and reductions -----------------------------------------------------------------------===//

/// A memref of `rank` dimensions whose last ones are `type`'s, aligned at the back; those in front have size 1.
MemRefType alignedAtBack(MemRefType type, int64_t rank) {
  if (!type || type.getRank() >= rank)
    return type;
  llvm::SmallVector<int64_t> shape(rank - type.getRank(), 1), strides(rank - type.getRank(), 0);
  llvm::append_range(shape, type.getShape());
  llvm::append_range(strides, stridesOf(type));
  return plan::makeMemRef(shape, type.getElementType(), {strides, 0});
}

TemplateCall norm(KernelReader &r) {
  bool hasWeight = r.flag("has_weight"), hasBias = r.flag("has_bias");
  r.expectArgs(2 + hasWeight + hasBias);
  MemRefType x = r.type(0), out = r.type(r.numArgs() - 1);
  int64_t rank = x.getRank(), axes = r.integer("axes");
  r.expect(isFloat(x) && isFloat(out) && out.getShape() == x.getShape(), "a norm needs floating-point arguments of one shape");
  expectSameGroup(r, {0, r.numArgs() - 1, 1, r.numArgs() - 2});
  r.expect(axes >= 1 && axes <= rank, "normalises " + llvm::Twine(axes) + " of " + llvm::Twine(rank) + " dimensions");
  r.expect(r.word("kind") == "layer" || r.word("kind") == "rms", "unknown kind '" + r.word("kind") + "'");
  if (r.failed())
    return {};
  NormDescriptor d{};
  d.arg_weight = hasWeight ? 1 : -1;
  d.arg_bias = hasBias ? 1 + hasWeight : -1;
  d.arg_out = r.numArgs() - 1;
  MemRefType weight = alignedAtBack(hasWeight ? r.type(d.arg_weight) : x, rank), bias = alignedAtBack(hasBias ? r.type(d.arg_bias) : x, rank);
  d.type_x = codeOf(x), d.type_weight = codeOf(weight), d.type_bias = codeOf(bias), d.type_out = codeOf(out);
  d.rms = r.word("kind") == "rms";
  d.eps = r.number("eps");
  llvm::SmallVector<int64_t> dims = allDims(rank);
  StridedLoops inner = loopsOver({x, weight, bias, out}, ArrayRef(dims).take_back(axes));
  d.count = elementCount(inner);
  d.inner = nestOf(r, inner);
  d.rows = nestOf(r, loopsOver({x, out}, ArrayRef(dims).drop_back(axes)));
  return call("norm", (d.count <= kNormRow ? "ditc_norm_short_" : "ditc_norm_long_") + variantOf(x), d);
}

TemplateCall reduce(KernelReader &r) {
  r.expectArgs(2);
  MemRefType in = r.type(0), out = r.type(1);
  r.expectRank(1, in.getRank());
  expectSameGroup(r, {0, 1});
  llvm::SmallVector<int64_t> axes = r.integers("axes"), kept;
  for (int64_t axis : axes)
    r.expect(axis >= 0 && axis < in.getRank(), "axis " + llvm::Twine(axis) + " is outside rank " + llvm::Twine(in.getRank()));
  for (int64_t d = 0; d < in.getRank(); ++d)
    if (!llvm::is_contained(axes, d))
      kept.push_back(d);
  ReduceDescriptor d{};
  d.type_in = codeOf(in), d.type_out = codeOf(out), d.kind = reduceCode(r);
  if (r.failed())
    return {};
  StridedLoops reduced = loopsOver({in}, axes);
  d.count = elementCount(reduced);
  d.reduced = nestOf(r, reduced);
  d.kept = nestOf(r, loopsOver({in, out}, kept));
  static constexpr llvm::StringLiteral kFunctions[] = {"sum", "sum", "prod", "max", "min", "max", "min"}; // by ReduceCode
  return call("reduce", ("ditc_reduce_" + kFunctions[d.kind] + "_").str() + variantOf(in), d);
}

/// arg_reduce, scan and sort: `function` along one axis of argument 0.
TemplateCall alongAxis(KernelReader &r, llvm::StringRef function, bool hasKind) {
  unsigned args = function == "sort" ? 3 : 2;
  r.expectArgs(args);
  int64_t axis = axisOf(r);
  for (unsigned i = 1; i < args; ++i)
    r.expectRank(i, r.type(0).getRank());
  if (function == "scan")
    expectSameGroup(r, {0, 1});
  else
    r.expect(r.type(args - 1).getElementType().isInteger(64), "positions are i64");
  r.expect(function != "sort" || r.type(1).getElementType() == r.type(0).getElementType(), "a sort keeps the type");
  if (r.failed())
    return {};
  AxisDescriptor d{};
  d.type_in = codeOf(r.type(0)), d.type_out = codeOf(r.type(1));
  d.kind = hasKind ? reduceCode(r) : 0;
  d.descending = r.flag("descending");
  d.size = r.type(0).getDimSize(axis);
  llvm::SmallVector<MemRefType> types;
  for (unsigned i = 0; i < args; ++i) {
    types.push_back(r.type(i));
    d.stride[i] = stridesOf(types[i])[axis];
  }
  llvm::SmallVector<int64_t> dims = allDims(r.type(0).getRank());
  dims.erase(dims.begin() + axis);
  d.outer = nestOf(r, loopsOver(types, dims));
  return call("axis", ("ditc_" + function + "_" + variantOf(r.type(0))).str(), d);
}

//===-- Attention, convolution, products ----------------------------------------------------------===//

TemplateCall attention(KernelReader &r) {
  bool hasMask = r.flag("has_mask");
  r.expectArgs(4 + hasMask);
  for (unsigned i = 0; i < r.numArgs(); ++i)
    r.expectRank(i, 4);
  MemRefType q = r.type(0), k = r.type(1), v = r.type(2), out = r.type(3 + hasMask);
  r.expect(isFloat(q) && isFloat(k) && isFloat(v) && isFloat(out), "attention needs floating-point arguments");
  if (r.failed())
    return {};
  AttentionDescriptor d{};
  d.type_q = codeOf(q), d.type_k = codeOf(k), d.type_v = codeOf(v), d.type_out = codeOf(out);
  d.arg_mask = hasMask ? 3 : -1, d.arg_out = 3 + hasMask;
  AttentionOptions options = r.attentionOptions();
  d.before = options.before, d.after = options.after, d.scale = r.number("scale"), d.soft_cap = options.softCap;
  r.expect(!options.logSumExp, "attention on the host leaves no log-sum-exp");
  d.batch = q.getDimSize(0), d.heads = q.getDimSize(1), d.key_heads = k.getDimSize(1), d.queries = q.getDimSize(2), d.keys = k.getDimSize(2);
  d.dim = q.getDimSize(3), d.value_dim = v.getDimSize(3);
  r.expect(d.key_heads > 0 && d.heads % d.key_heads == 0, llvm::Twine(d.heads) + " query heads do not share " + llvm::Twine(d.key_heads) + " key heads");
  r.expect(d.dim <= kMaxHeadDim && d.value_dim <= kMaxHeadDim, "a head is wider than " + llvm::Twine(kMaxHeadDim));
  llvm::copy(stridesOf(q), d.stride_q);
  llvm::copy(stridesOf(k), d.stride_k);
  llvm::copy(stridesOf(v), d.stride_v);
  llvm::copy(stridesOf(out), d.stride_out);
  if (hasMask) {
    MemRefType mask = r.type(3);
    d.type_mask = codeOf(mask);
    r.expect(isFloat(mask) || mask.getElementType().isInteger(1), "a mask is boolean or floating point");
    llvm::copy(repeatingStrides(mask), d.stride_mask);
  }
  if (options.quantized) {
    r.expect(!q.getElementType().isF64(), "quantised attention computes in f32");
    return call("attention_quantized", "ditc_attention_quantized", d, quantizedAttentionScratchBytes(d.dim, d.value_dim));
  }
  std::string variant = variantOf(q);
  return call("attention", "ditc_attention_" + variant, d, attentionScratchBytes(d.dim, d.value_dim, variant == "f64" ? 8 : 4));
}

/// Copies sizes or options of the spatial dimensions to the back of three; those that are missing keep `fill`.
void fillSpatial(int64_t (&to)[3], ArrayRef<int64_t> from, int64_t fill) {
  std::fill(to, to + 3, fill);
  llvm::copy(from, to + 3 - from.size());
}

/// Strides [N, C, spatial...] as five numbers; missing spatial dimensions do not move.
void fillConvStrides(int64_t (&to)[5], MemRefType type) {
  llvm::SmallVector<int64_t> strides = stridesOf(type);
  std::fill(to, to + 5, 0);
  llvm::copy(ArrayRef(strides).take_front(2), to);
  llvm::copy(ArrayRef(strides).drop_front(2), to + 7 - strides.size());
}

TemplateCall conv(KernelReader &r) {
  bool hasBias = r.flag("has_bias");
  r.expectArgs(3 + hasBias);
  MemRefType in = r.type(0), filter = r.type(1), out = r.type(2 + hasBias);
  int64_t rank = in.getRank();
  r.expect(rank >= 3 && rank <= 5, "a convolution has 1 to 3 spatial dimensions, not " + llvm::Twine(rank - 2));
  r.expectRank(1, rank);
  r.expectRank(2 + hasBias, rank);
  r.expect(isFloat(in), "a convolution needs floating-point arguments");
  expectSameGroup(r, {0, 1, 2, 2u + hasBias});
  ConvDescriptor d{};
  d.groups = r.integer("groups");
  llvm::SmallVector<int64_t> steps = r.integers("strides"), low = r.integers("padding_low"), dilations = r.integers("dilations");
  for (ArrayRef<int64_t> list : {ArrayRef(steps), ArrayRef(low), ArrayRef(dilations)})
    r.expect(static_cast<int64_t>(list.size()) == rank - 2, "strides, padding and dilations need one number for each spatial dimension");
  r.expect(d.groups > 0, "groups must be positive");
  if (r.failed())
    return {};
  d.type_in = codeOf(in), d.type_filter = codeOf(filter), d.type_out = codeOf(out);
  d.arg_bias = hasBias ? 2 : -1, d.arg_out = 2 + hasBias;
  d.batch = in.getDimSize(0), d.in_channels = filter.getDimSize(1), d.out_channels = filter.getDimSize(0) / d.groups;
  fillSpatial(d.in_size, in.getShape().drop_front(2), 1);
  fillSpatial(d.window, filter.getShape().drop_front(2), 1);
  fillSpatial(d.out_size, out.getShape().drop_front(2), 1);
  fillSpatial(d.step, steps, 1);
  fillSpatial(d.padding, low, 0);
  fillSpatial(d.dilation, dilations, 1);
  fillConvStrides(d.stride_in, in);
  fillConvStrides(d.stride_filter, filter);
  fillConvStrides(d.stride_out, out);
  StridedLoops taps = merged(loopsOver({filter}, ArrayRef(allDims(rank)).drop_front()));
  d.filter_step = taps.size() == 1 ? taps[0].strides[0] : taps.empty();
  if (hasBias) {
    d.type_bias = codeOf(r.type(2));
    d.stride_bias = stridesOf(r.type(2)).back();
  }
  return call("conv", "ditc_conv_" + variantOf(in), d);
}

TemplateCall matmul(KernelReader &r) {
  r.expectArgs(3);
  MemRefType a = r.type(0), b = r.type(1), out = r.type(2);
  int64_t rank = out.getRank();
  r.expect(rank >= 2, "a product needs rank 2 or more");
  r.expectRank(0, rank);
  r.expectRank(1, rank);
  expectSameGroup(r, {0, 1, 2});
  if (r.failed())
    return {};
  MatmulDescriptor d{};
  d.type_a = codeOf(a), d.type_b = codeOf(b), d.type_out = codeOf(out);
  d.m = out.getDimSize(rank - 2), d.n = out.getDimSize(rank - 1), d.k = a.getDimSize(rank - 1);
  llvm::copy(ArrayRef(stridesOf(a)).take_back(2), d.stride_a);
  llvm::copy(ArrayRef(stridesOf(b)).take_back(2), d.stride_b);
  llvm::copy(ArrayRef(stridesOf(out)).take_back(2), d.stride_out);
  llvm::SmallVector<int64_t> dims = allDims(rank);
  d.batch = nestOf(r, loopsOver({a, b, out}, ArrayRef(dims).drop_back(2)));
  return call("matmul", "ditc_matmul_" + variantOf(a), d);
}

//===-- Copies ------------------------------------------------------------------------------------===//

int64_t bytesOf(MemRefType type) { return llvm::divideCeil(type.getElementTypeBitWidth(), 8); }

/// Pairs dimensions of two arguments: (`a`, dimension firstA + i) with (`b`, dimension firstB + i).
StridedLoops pairedLoops(MemRefType a, int64_t firstA, MemRefType b, int64_t firstB, int64_t count) {
  StridedLoops loops;
  for (int64_t i = 0; i < count; ++i)
    loops.push_back({b.getDimSize(firstB + i), {stridesOf(a)[firstA + i], stridesOf(b)[firstB + i]}});
  return loops;
}

TemplateCall gather(KernelReader &r) {
  r.expectArgs(3);
  MemRefType table = r.type(0), indices = r.type(1), out = r.type(2);
  int64_t axis = axisOf(r), behind = table.getRank() - axis - 1;
  r.expectRank(2, table.getRank() - 1 + indices.getRank());
  r.expect(table.getElementType() == out.getElementType() && isa<IntegerType>(indices.getElementType()), "a gather needs integer indices and keeps the table's type");
  if (r.failed())
    return {};
  GatherDescriptor d{};
  d.element_bytes = bytesOf(table), d.type_index = codeOf(indices);
  d.table_size = table.getDimSize(axis), d.table_stride = stridesOf(table)[axis];
  d.outer = nestOf(r, pairedLoops(table, 0, out, 0, axis));
  d.indices = nestOf(r, pairedLoops(indices, 0, out, axis, indices.getRank()));
  d.inner = nestOf(r, pairedLoops(table, axis + 1, out, axis + indices.getRank(), behind));
  return call("gather", "ditc_gather", d);
}

TemplateCall scatter(KernelReader &r) {
  r.expectArgs(4);
  MemRefType base = r.type(0), indices = r.type(1), updates = r.type(2), out = r.type(3);
  int64_t rank = base.getRank();
  r.expect(rank >= 1, "a scatter needs rank 1 or more");
  r.expectRank(1, 1);
  r.expectRank(2, rank);
  r.expectRank(3, rank);
  r.expect(base.getElementType() == out.getElementType() && updates.getElementType() == out.getElementType(), "base, updates and output of a scatter have one type");
  if (r.failed())
    return {};
  ScatterDescriptor d{};
  d.type = codeOf(out), d.element_bytes = bytesOf(out), d.type_index = codeOf(indices), d.add = r.flag("add");
  d.table_size = out.getDimSize(0), d.table_stride = stridesOf(out)[0];
  d.updates = indices.getDimSize(0), d.index_stride = stridesOf(indices)[0], d.update_stride = stridesOf(updates)[0];
  d.copy = nestOf(r, pairedLoops(base, 0, out, 0, rank));
  d.inner = nestOf(r, pairedLoops(updates, 1, out, 1, rank - 1));
  return call("gather", "ditc_scatter", d);
}

/// The bits of a border value as its element lies in memory.
int64_t valueBits(KernelReader &r) {
  Attribute value = r.attribute("value");
  if (auto number = dyn_cast_if_present<FloatAttr>(value))
    return static_cast<int64_t>(number.getValue().bitcastToAPInt().getZExtValue());
  if (auto integer = dyn_cast_if_present<IntegerAttr>(value))
    return static_cast<int64_t>(integer.getValue().getZExtValue());
  r.expect(false, "config has no 'value'");
  return 0;
}

TemplateCall pad(KernelReader &r) {
  r.expectArgs(2);
  MemRefType in = r.type(0), out = r.type(1);
  r.expectRank(1, in.getRank());
  llvm::SmallVector<int64_t> low = r.integers("low"), strides = stridesOf(out);
  r.expect(static_cast<int64_t>(low.size()) == in.getRank(), "'low' needs one amount for each dimension");
  r.expect(in.getElementType() == out.getElementType(), "a pad keeps the type");
  auto typed = dyn_cast_if_present<TypedAttr>(r.attribute("value"));
  r.expect(typed && typed.getType() == in.getElementType(), "'value' must have the element type");
  if (r.failed())
    return {};
  PadDescriptor d{};
  d.element_bytes = bytesOf(out), d.value = valueBits(r);
  for (int64_t i = 0; i < in.getRank(); ++i)
    d.offset += low[i] * strides[i];
  d.border = nestOf(r, loopsOver({out}, allDims(out.getRank())));
  StridedLoops inside;
  for (int64_t i = 0; i < in.getRank(); ++i)
    inside.push_back({in.getDimSize(i), {stridesOf(in)[i], strides[i]}});
  d.inside = nestOf(r, inside);
  return call("pad", "ditc_pad", d);
}

using Family = TemplateCall (*)(KernelReader &);

Family familyNamed(llvm::StringRef name) {
  return llvm::StringSwitch<Family>(name)
      .Case("norm", norm)
      .Case("reduce", reduce)
      .Case("arg_reduce", [](KernelReader &r) { return alongAxis(r, "arg_reduce", true); })
      .Case("scan", [](KernelReader &r) { return alongAxis(r, "scan", true); })
      .Case("sort", [](KernelReader &r) { return alongAxis(r, "sort", false); })
      .Case("attention", attention)
      .Case("conv", conv)
      .Case("matmul", matmul)
      .Case("gather", gather)
      .Case("scatter", scatter)
      .Case("pad", pad)
      .Default(nullptr);
}

} // namespace

llvm::Expected<TemplateCall> selectTemplate(plan::KernelOp kernel) {
  Family family = familyNamed(kernel.getFamily());
  if (!family)
    return llvm::createStringError("the host target has no kernel family '" + kernel.getFamily() + "'");
  KernelReader reader(kernel);
  TemplateCall result = family(reader);
  if (reader.failed())
    return reader.takeError();
  return result;
}

} // namespace ditc
