// SPDX-License-Identifier: Apache-2.0
//
// attention_quantize.cuh for one plan.kernel of a family that PlanAttention makes: "attention_survey" of (keys, values, means,
// largest magnitudes), and "attention_quantize" of (queries, keys, values, those two, 8-bit operands, their scales).
#include "codegen/cuda/ScalarText.h"
#include "codegen/cuda/sm90/Hopper.h"
#include "dialects/Locations.h"

#include "llvm/Support/MathExtras.h"

#include <fmt/format.h>

#include <array>
#include <cstddef>

using namespace mlir;

namespace ditc {

namespace {

constexpr uint32_t kThreads = 256;

struct Operand {
  uint64_t data;
  int64_t batch, head, row;
};

/// attention_quantize::Params as it lies in memory.
struct Params {
  Operand q, k, v;
  uint64_t means, tops, q8, k8, v8, qScale, kScale, vScale;
  int32_t heads, keyHeads, queries, keys, keyPitch, chunks, chunkKeys, queryTiles, keyBlocks, valueTiles, problems, keyProblems;
};
static_assert(offsetof(Params, means) == 96 && offsetof(Params, heads) == 160 && sizeof(Params) == 208);

Operand operand(MemRefType type) {
  plan::Layout layout = plan::layoutOf(type);
  auto stride = [&](unsigned d) { return type.getDimSize(d) == 1 ? int64_t(0) : layout.strides[d]; };
  return {0, stride(0), stride(1), stride(2)};
}

Params paramsOf(plan::KernelOp kernel, MemRefType k, MemRefType v, MemRefType means) {
  Params params{};
  params.k = operand(k), params.v = operand(v);
  params.keyHeads = k.getDimSize(1), params.keys = k.getDimSize(2), params.chunks = means.getDimSize(2);
  params.chunkKeys = kernel.getConfig().getAs<IntegerAttr>("chunk_keys").getInt();
  return params;
}

CudaUnit unitOf(plan::KernelOp kernel, MemRefType k, MemRefType v, StringRef function, const Params &params, int64_t blocks, ArrayRef<size_t> pointers) {
  auto block = kernel.getConfig().getAs<IntegerAttr>("block_keys"); // of the launch that quantises
  std::string blockText = block ? fmt::format(", BLOCK_N = {}", block.getInt()) : std::string();
  CudaUnit unit;
  unit.text = fmt::format(R"(#include "attention_quantize.cuh"
using namespace ditc;

// {0}
// {1}x{2}x{3} keys of {4} columns, values of {5}
struct Config {{
  using Element = {6};
  static constexpr int HEAD_DIM = {4}, V_DIM = {5}{10};
}};

extern "C" __global__ void __launch_bounds__({7})
{8}(const attention_quantize::Params p) {{
  attention_quantize::{9}<Config>(p);
}}
)",
                          writeNodeName(nameOf(kernel.getLoc())), k.getDimSize(0), k.getDimSize(1), k.getDimSize(2), k.getDimSize(3), v.getDimSize(3),
                          cudaTypeName(k.getElementType()).substr(6), kThreads, kernel.getSymName().str(), function.str(), blockText);
  unit.launch.grid = {static_cast<uint32_t>(blocks), 1, 1};
  unit.launch.threads = kThreads;
  unit.launch.overlapsPrevious = true;
  const auto *bytes = reinterpret_cast<const uint8_t *>(&params);
  unit.parameters.push_back({{bytes, bytes + sizeof params}, {}});
  for (auto [arg, offset] : llvm::enumerate(pointers))
    unit.parameters[0].patches.push_back({static_cast<uint32_t>(offset), cuda::PointerPatch{static_cast<uint32_t>(arg), 0}});
  return unit;
}

} // namespace

FailureOr<CudaUnit> emitAttentionSurvey(plan::KernelOp kernel) {
  MemRefType k = kernel.getArgType(0), v = kernel.getArgType(1), means = kernel.getArgType(2);
  Params params = paramsOf(kernel, k, v, means);
  int64_t blocks = k.getDimSize(0) * k.getDimSize(1) * params.chunks;
  return unitOf(kernel, k, v, "surveyKeys", params, blocks, {offsetof(Params, k), offsetof(Params, v), offsetof(Params, means), offsetof(Params, tops)});
}

FailureOr<CudaUnit> emitAttentionQuantize(plan::KernelOp kernel) {
  MemRefType q = kernel.getArgType(0), k = kernel.getArgType(1), v = kernel.getArgType(2);
  Params params = paramsOf(kernel, k, v, kernel.getArgType(3));
  params.q = operand(q);
  params.heads = q.getDimSize(1), params.queries = q.getDimSize(2), params.keyPitch = kernel.getArgType(7).getDimSize(3);
  params.queryTiles = llvm::divideCeil(q.getDimSize(2), kQuantizedTile), params.valueTiles = params.keyPitch / kQuantizedTile, params.keyBlocks = kernel.getArgType(9).getDimSize(2);
  params.problems = q.getDimSize(0) * q.getDimSize(1), params.keyProblems = k.getDimSize(0) * k.getDimSize(1);
  int64_t blocks = int64_t(params.problems) * params.queryTiles + int64_t(params.keyProblems) * (params.keyBlocks + params.valueTiles);
  return unitOf(kernel, k, v, "quantizeAttention", params, blocks,
                {offsetof(Params, q), offsetof(Params, k), offsetof(Params, v), offsetof(Params, means), offsetof(Params, tops), offsetof(Params, q8), offsetof(Params, k8),
                 offsetof(Params, v8), offsetof(Params, qScale), offsetof(Params, kScale), offsetof(Params, vScale)});
}

} // namespace ditc
