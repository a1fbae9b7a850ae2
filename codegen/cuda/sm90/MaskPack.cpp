// SPDX-License-Identifier: Apache-2.0
//
// attention_mask_pack.cuh for one plan.kernel of family "mask_pack", which PlanAttention makes: (mask, words, verdicts).
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

} // namespace

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
  const auto *bytes = reinterpret_cast<const uint8_t *>(&params);
  unit.parameters.push_back({{bytes, bytes + sizeof params}, {}});
  for (uint32_t arg = 0; arg < 3; ++arg) // mask, words, verdicts
    unit.parameters[0].patches.push_back({static_cast<uint32_t>(arg * sizeof(uint64_t)), cuda::PointerPatch{arg, 0}});
  return unit;
}

} // namespace ditc
