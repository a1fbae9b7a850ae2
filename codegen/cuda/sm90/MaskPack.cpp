// SPDX-License-Identifier: Apache-2.0
//
// attention_mask_pack.cuh for one plan.kernel of a family that PlanAttention makes: "mask_pack" of (mask, words, verdicts),
// and "mask_judge" of (additive mask, verdicts).
#include "codegen/cuda/ScalarText.h"
#include "codegen/cuda/sm90/Hopper.h"
#include "dialects/Locations.h"

#include <fmt/format.h>

#include <cstddef>

using namespace mlir;

namespace ditc {

namespace {

/// MaskPackParams as it lies in memory.
struct Params {
  uint64_t mask, words, verdicts;
  int64_t batchStride, headStride, rowStride, keyStride;
  int32_t heads, rows, keys, tileRows, blockKeys;
};
static_assert(offsetof(Params, heads) == 56 && sizeof(Params) == 80);

/// BiasJudgeParams as it lies in memory.
struct JudgeParams {
  uint64_t bias, verdicts;
  int64_t batchStride, headStride;
  int32_t heads, keys, blockKeys;
};
static_assert(offsetof(JudgeParams, heads) == 32 && sizeof(JudgeParams) == 48);

} // namespace

FailureOr<CudaUnit> emitMaskJudge(plan::KernelOp kernel) {
  MemRefType bias = kernel.getArgType(0), verdicts = kernel.getArgType(1);
  plan::Layout layout = plan::layoutOf(bias);
  JudgeParams params{};
  params.batchStride = bias.getDimSize(0) == 1 ? 0 : layout.strides[0], params.headStride = bias.getDimSize(1) == 1 ? 0 : layout.strides[1];
  params.heads = bias.getDimSize(1), params.keys = bias.getDimSize(3), params.blockKeys = kernel.getConfig().getAs<IntegerAttr>("tile_keys").getInt();
  CudaUnit unit;
  unit.text = fmt::format(R"(#include "attention_mask_pack.cuh"
using namespace ditc;

// {}
// {}x{} masks of {} keys in blocks of {}
extern "C" __global__ void __launch_bounds__(128)
{}(const BiasJudgeParams p) {{
  judgeBias<{}>(p);
}}
)",
                          writeNodeName(nameOf(kernel.getLoc())), bias.getDimSize(0), bias.getDimSize(1), params.keys, params.blockKeys, kernel.getSymName().str(),
                          cudaTypeName(bias.getElementType()));
  unit.launch.grid = {static_cast<uint32_t>(verdicts.getDimSize(0) * verdicts.getDimSize(1)), 1, 1};
  unit.launch.threads = 128;
  unit.launch.overlapsPrevious = true;
  const auto *bytes = reinterpret_cast<const uint8_t *>(&params);
  unit.parameters.push_back({{bytes, bytes + sizeof params}, {}});
  for (uint32_t arg = 0; arg < 2; ++arg)
    unit.parameters[0].patches.push_back({static_cast<uint32_t>(arg * sizeof(uint64_t)), cuda::PointerPatch{arg, 0}});
  return unit;
}

FailureOr<CudaUnit> emitMaskPack(plan::KernelOp kernel) {
  auto number = [&](StringRef name) { return kernel.getConfig().getAs<IntegerAttr>(name).getInt(); };
  MemRefType mask = kernel.getArgType(0), verdicts = kernel.getArgType(2);
  plan::Layout layout = plan::layoutOf(mask);
  auto stride = [&](unsigned d) { return mask.getDimSize(d) == 1 ? int64_t(0) : layout.strides[d]; };
  Params params{};
  params.batchStride = stride(0), params.headStride = stride(1), params.rowStride = stride(2), params.keyStride = stride(3);
  params.heads = mask.getDimSize(1), params.rows = mask.getDimSize(2), params.keys = number("keys");
  params.tileRows = number("tile_rows"), params.blockKeys = number("tile_keys");

  CudaUnit unit;
  unit.text = fmt::format(R"(#include "attention_mask_pack.cuh"
using namespace ditc;

// {}
// mask {}x{}x{}, {} keys; tiles of {} rows and {} keys
extern "C" __global__ void __launch_bounds__(128)
{}(const MaskPackParams p) {{
  packMask(p);
}}
)",
                          writeNodeName(nameOf(kernel.getLoc())), mask.getDimSize(0), mask.getDimSize(1), mask.getDimSize(2), params.keys, params.tileRows, params.blockKeys,
                          kernel.getSymName().str());
  ArrayRef<int64_t> tiles = verdicts.getShape();
  unit.launch.grid = {static_cast<uint32_t>(tiles[3]), static_cast<uint32_t>(tiles[2]), static_cast<uint32_t>(tiles[0] * tiles[1])};
  unit.launch.threads = 128;
  unit.launch.overlapsPrevious = true;
  const auto *bytes = reinterpret_cast<const uint8_t *>(&params);
  unit.parameters.push_back({{bytes, bytes + sizeof params}, {}});
  for (uint32_t arg = 0; arg < 3; ++arg) // mask, words, verdicts
    unit.parameters[0].patches.push_back({static_cast<uint32_t>(arg * sizeof(uint64_t)), cuda::PointerPatch{arg, 0}});
  return unit;
}

} // namespace ditc
