// SPDX-License-Identifier: Apache-2.0
//
// attention_sm90.cuh and attention_small.cuh for one plan.kernel: the arguments as the template's Params, and the unit.
#include "codegen/cuda/ScalarText.h"
#include "codegen/cuda/sm90/AttentionProblem.h"
#include "codegen/cuda/sm90/Hopper.h"
#include "dialects/Locations.h"

#include <fmt/format.h>

#include <cstddef>

using namespace mlir;

namespace ditc {

namespace {

using cuda::TensorMapPatch;

constexpr double kLog2E = 1.4426950408889634;

/// attention_sm90::Params as it lies in memory. attention_small::Params has the log-sum-exp in the place of `parts`, and ends.
struct alignas(64) Params {
  uint8_t q[128], k[128], v[128];
  uint64_t out;
  int64_t outBatch, outHead, outRow;
  int32_t batch, heads, headsPerKey, queries, keys;
  float scaleLog2;
  uint64_t parts, counters;
  int32_t splitTiles;
  uint64_t logSumExp, scales[3];
};
constexpr size_t kSmallParamsBytes = 448, kSmallLogSumExp = 440;
static_assert(offsetof(Params, out) == 384 && offsetof(Params, batch) == 416 && offsetof(Params, parts) == 440 && offsetof(Params, scales) == 472 && sizeof(Params) == 512);

/// (column, token, head, batch); a dimension of size 1 may have any stride.
TensorMapPatch tensorMap(const AttentionProblem &p, unsigned arg, ArrayRef<uint32_t> box) {
  MemRefType type = p.type(arg);
  plan::Layout layout = plan::layoutOf(type);
  TensorMapPatch map;
  map.arg = arg;
  int64_t bytes = p.isQuantized ? 1 : 2;
  map.dtype = p.isQuantized ? DType::u8 : type.getElementType().isBF16() ? DType::bf16 : DType::f16;
  map.swizzle = bytes * box[0] == 128 ? cuda::TensorMapSwizzle::Bytes128 : bytes * box[0] == 64 ? cuda::TensorMapSwizzle::Bytes64 : cuda::TensorMapSwizzle::Bytes32;
  for (int d = 3; d >= 0; --d) {
    map.sizes.push_back(type.getDimSize(d));
    if (d < 3)
      map.strides.push_back(type.getDimSize(d) == 1 ? std::max<int64_t>(llvm::alignTo(bytes * type.getDimSize(3), 16), 16) : bytes * layout.strides[d]);
  }
  map.box.assign(box.begin(), box.end());
  return map;
}

Params commonParams(const AttentionProblem &p) {
  plan::Layout out = plan::layoutOf(p.type(p.outIndex()));
  Params params{};
  params.outBatch = out.strides[0], params.outHead = out.strides[1], params.outRow = out.strides[2];
  params.batch = p.batch, params.heads = p.heads, params.headsPerKey = p.heads / p.keyHeads, params.queries = p.queries, params.keys = p.keys;
  params.scaleLog2 = static_cast<float>(p.options.scale * kLog2E);
  return params;
}

cuda::KernelParameter parameter(const AttentionProblem &p, const Params &params, ArrayRef<uint32_t> qBox, ArrayRef<uint32_t> kBox, ArrayRef<uint32_t> vBox) {
  const auto *bytes = reinterpret_cast<const uint8_t *>(&params);
  cuda::KernelParameter parameter{{bytes, bytes + sizeof params}, {}};
  parameter.patches.push_back({offsetof(Params, q), tensorMap(p, 0, qBox)});
  parameter.patches.push_back({offsetof(Params, k), tensorMap(p, 1, kBox)});
  parameter.patches.push_back({offsetof(Params, v), tensorMap(p, 2, vBox)});
  parameter.patches.push_back({offsetof(Params, out), cuda::PointerPatch{p.outIndex(), 0}});
  return parameter;
}

//===-- masks -----------------------------------------------------------------------------------===//

/// Kernel parameters behind Params, and the mask made from them.
struct MaskText {
  std::string parameters, type, value;
};

MaskText bitsText(const AttentionProblem &p) {
  auto stride = [&](unsigned arg, unsigned d) { return p.type(arg).getDimSize(d) == 1 ? int64_t(0) : plan::layoutOf(p.type(arg)).strides[d]; };
  int64_t rows = p.type(3).getDimSize(2);
  return {", const u32 *words, const u8 *verdicts", "BitMask",
          fmt::format("BitMask{{{{}}, words, verdicts, {}, {}, {}, {}, {}, {}, {}}}", stride(3, 0), stride(3, 1), stride(3, 2), stride(4, 0), stride(4, 1),
                      rows == 1 ? 0 : plan::layoutOf(p.type(4)).strides[2], rows)};
}

MaskText biasText(const AttentionProblem &p) {
  std::string element = cudaTypeName(p.type(3).getElementType()), inverse = scalarLiteral(1 / p.options.scale, false);
  if (p.mask == AttentionMask::Rows) {
    std::string type = fmt::format("AdditiveMask<{}>", element);
    return {", const void *bias", type,
            fmt::format("{}{{{{}}, bias, {}, {}, {}, {}, {}, {}}}", type, p.maskStride(0), p.maskStride(1), p.maskStride(2), p.queries, p.keys, inverse)};
  }
  auto stride = [&](unsigned d) { return p.type(4).getDimSize(d) == 1 ? int64_t(0) : plan::layoutOf(p.type(4)).strides[d]; };
  bool pairs = p.alignment(3) >= 4 && p.keys % 2 == 0 && p.maskStride(0) % 2 == 0 && p.maskStride(1) % 2 == 0;
  std::string type = fmt::format("ColumnBias<{}, {}>", element, pairs), value = fmt::format("{}{{{{}}, bias, {}, {}, {}, {}}}", type, p.maskStride(0), p.maskStride(1), p.keys, inverse);
  if (!p.judgedMask)
    return {", const void *bias", type, value};
  std::string judged = fmt::format("JudgedBias<{}, {}>", element, pairs);
  return {", const void *bias, const u8 *verdicts", judged, fmt::format("{}{{{}, verdicts, {}, {}}}", judged, value, stride(0), stride(1))};
}

/// Keys that a query sees by their places.
MaskText placesText(const AttentionOptions &options) {
  if (options.before == AttentionOptions::kAllKeys && options.after == 0)
    return {"", "Causal", "Causal{{}, 0}"};
  return {"", "Window", fmt::format("Window{{{{}}, {}, {}}}", options.before, options.after)};
}

MaskText both(const MaskText &first, const MaskText &second) {
  if (first.type.empty())
    return second;
  std::string type = fmt::format("Both<{}, {}>", first.type, second.type);
  return {first.parameters + second.parameters, type, fmt::format("{}{{{}, {}}}", type, first.value, second.value)};
}

/// The soft cap comes before what hides keys.
MaskText maskText(const AttentionProblem &p) {
  MaskText mask;
  if (double cap = p.options.softCap; cap > 0)
    mask = {"", "SoftCap", fmt::format("SoftCap{{{{}}, {}, {}}}", scalarLiteral(2 * kLog2E * p.options.scale / cap, false), scalarLiteral(cap / p.options.scale, false))};
  if (p.options.hasMask)
    mask = both(mask, p.mask == AttentionMask::Bits ? bitsText(p) : biasText(p));
  if (!p.options.seesAll())
    mask = both(mask, placesText(p.options));
  return mask.type.empty() ? MaskText{"", "NoMask", "NoMask{}"} : mask;
}

void addMaskPointers(const AttentionProblem &p, CudaUnit &unit) {
  if (p.options.hasMask)
    unit.addPointer(3);
  if (p.packedMask || p.judgedMask)
    unit.addPointer(4);
}

//===-- units -----------------------------------------------------------------------------------===//

/// The unit but for the members of Config that a template has for itself.
std::string unitText(const AttentionProblem &p, StringRef space, StringRef config, uint32_t threads, int blocks) {
  MaskText mask = maskText(p);
  return fmt::format(R"(#include "{0}.cuh"
using namespace ditc;

// {1}
// q {2}x{3}x{4}x{5}, {6} keys of {7} heads, values of {8}
struct Config {{
  using Element = {9};
  static constexpr int HEAD_DIM = {5}, V_DIM = {8};
{10}}};

extern "C" __global__ void __launch_bounds__({11}, {12})
{13}(const __grid_constant__ {0}::Params p{14}) {{
  {0}::run<Config>(p, {15}, StorePlain{{}});
}}
)",
                     space.str(), writeNodeName(nameOf(p.kernel.getLoc())), p.batch, p.heads, p.queries, p.headDim, p.keys, p.keyHeads, p.valueDim,
                     cudaTypeName(p.type(p.outIndex()).getElementType()).substr(6), config.str(), threads, blocks, p.kernel.getSymName().str(), mask.parameters, mask.value);
}

CudaUnit emitLarge(const AttentionProblem &p) {
  AttentionTiles tiles = attentionTilesFor(p);
  std::string config = fmt::format("  static constexpr int BLOCK_N = {}, CONSUMERS = {};\n"
                                   "  static constexpr int STAGES = {}, QK_PANEL = {}, V_PANEL = {};\n"
                                   "  static constexpr bool ORDERED = true, SHARES = {};\n",
                                   tiles.blockN, tiles.consumers, tiles.stages, tiles.qkPanel, tiles.vPanel, p.sharedTiles);
  if (p.isQuantized)
    config += "  static constexpr bool QUANTIZED = true;\n";
  CudaUnit unit;
  unit.text = unitText(p, "attention_sm90", config, tiles.threads(), 1);
  int64_t work = p.batch * p.heads * llvm::divideCeil(p.queries, tiles.rows());
  unit.launch.grid = {static_cast<uint32_t>(p.sharedTiles ? kHopperMultiprocessors : work), 1, 1};
  unit.launch.blocksPerSm = 1;
  unit.launch.threads = tiles.threads();
  unit.launch.sharedBytes = tiles.sharedBytes(p);
  unit.launch.overlapsPrevious = gainsByOverlap(p.flop(), 0);

  Params params = commonParams(p);
  if (p.sharedTiles)
    params.splitTiles = attentionSharedTiles(p, tiles);
  auto rows = static_cast<uint32_t>(tiles.blockN), qk = static_cast<uint32_t>(tiles.qkPanel), v = static_cast<uint32_t>(tiles.vPanel);
  if (p.isQuantized) {
    unit.parameters.push_back(parameter(p, params, {2 * qk, 64, 1, 1}, {2 * qk, rows, 1, 1}, {2 * v, static_cast<uint32_t>(p.valueDim), 1, 1}));
    for (unsigned i = 0; i < 3; ++i)
      unit.parameters[0].patches.push_back({static_cast<uint32_t>(offsetof(Params, scales) + 8 * i), cuda::PointerPatch{p.scalesIndex() + i, 0}});
  } else {
    unit.parameters.push_back(parameter(p, params, {qk, 64, 1, 1}, {qk, rows, 1, 1}, {v, rows, 1, 1}));
  }
  if (p.sharedTiles) {
    unit.parameters[0].patches.push_back({offsetof(Params, parts), cuda::PointerPatch{p.outIndex() - 2, 0}});
    unit.parameters[0].patches.push_back({offsetof(Params, counters), cuda::PointerPatch{p.outIndex() - 1, 0}});
  }
  if (p.options.logSumExp)
    unit.parameters[0].patches.push_back({offsetof(Params, logSumExp), cuda::PointerPatch{p.sumsIndex(), 0}});
  addMaskPointers(p, unit);
  return unit;
}

CudaUnit emitSmall(const AttentionProblem &p, const SmallAttentionTiles &tiles) {
  std::string config = fmt::format("  static constexpr int BLOCK_N = {}, SEGMENT = {}, PACK_HEADS = {};\n"
                                   "  static constexpr int PANEL = {}, STAGES = {};\n",
                                   tiles.blockN, tiles.segment, tiles.packHeads, tiles.panel, tiles.stages);
  CudaUnit unit;
  unit.text = unitText(p, "attention_small", config, 128, tiles.blocks);
  int packBatches = tiles.packed() / tiles.packHeads;
  int64_t items = llvm::divideCeil(p.queries, tiles.segment) * (p.heads / tiles.packHeads) * llvm::divideCeil(p.batch, packBatches);
  unit.launch.grid = {static_cast<uint32_t>(items), 1, 1};
  unit.launch.blocksPerSm = tiles.blocks;
  unit.launch.threads = 128;
  unit.launch.sharedBytes = tiles.sharedBytes(p);
  unit.launch.overlapsPrevious = gainsByOverlap(p.flop(), 0);
  auto panel = static_cast<uint32_t>(tiles.panel), heads = static_cast<uint32_t>(tiles.packHeads), batches = static_cast<uint32_t>(packBatches);
  std::array<uint32_t, 4> q = {panel, static_cast<uint32_t>(tiles.segment), heads, batches};
  std::array<uint32_t, 4> keys = {panel, static_cast<uint32_t>(tiles.blockN / tiles.packed()), heads, batches};
  unit.parameters.push_back(parameter(p, commonParams(p), q, keys, keys));
  unit.parameters[0].bytes.resize(kSmallParamsBytes);
  if (p.options.logSumExp)
    unit.parameters[0].patches.push_back({kSmallLogSumExp, cuda::PointerPatch{p.sumsIndex(), 0}});
  addMaskPointers(p, unit);
  return unit;
}

} // namespace

Verdict hopperAttentionVerdict(plan::KernelOp kernel) { return AttentionProblem(kernel).verdict(); }

bool acceptsHopperAttention(plan::KernelOp kernel) {
  AttentionProblem problem(kernel);
  bool hasNumbers = !problem.quantizes() || problem.isQuantized || smallAttentionTilesFor(problem);
  return problem.fits() && hasNumbers && (problem.mask != AttentionMask::Bits || problem.packedMask);
}

FailureOr<CudaUnit> emitHopperAttention(plan::KernelOp kernel) {
  AttentionProblem problem(kernel);
  if (std::optional<SmallAttentionTiles> tiles = smallAttentionTilesFor(problem))
    return emitSmall(problem, *tiles);
  return emitLarge(problem);
}

} // namespace ditc
