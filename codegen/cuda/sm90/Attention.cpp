// SPDX-License-Identifier: Apache-2.0
//
// attention_sm90.cuh for one plan.kernel: the choice of tiles, the arguments as the template's Params, and the unit.
#include "codegen/cuda/ScalarText.h"
#include "codegen/cuda/sm90/Hopper.h"
#include "dialects/Locations.h"
#include "dialects/dit/Dit.h"

#include <fmt/format.h>

#include <cmath>
#include <cstddef>

using namespace mlir;

namespace ditc {

namespace {

using cuda::TensorMapPatch;

constexpr int kMultiprocessors = 132; // of an H100 or H200; the choice of tiles looks at how well they are filled

/// attention_sm90::Params as it lies in memory.
struct alignas(64) Params {
  uint8_t q[128], k[128], v[128];
  uint64_t out;
  int64_t outBatch, outHead, outRow;
  int32_t batch, heads, headsPerKey, queries, keys;
  float scaleLog2;
  uint64_t parts, counters;
  int32_t splitTiles;
  uint64_t logSumExp;
};

/// The tiles of a head size.
struct Tiles {
  int headDim; ///< up to this
  int consumers, blockN, qkPanel, vPanel;
};

/// Measured on an H200; see attention_sm90.cuh.
constexpr Tiles kTiles[] = {{32, 3, 144, 32, 32}, {40, 3, 128, 64, 64}, {64, 3, 128, 64, 64},  {72, 3, 128, 64, 64},  {80, 3, 112, 64, 64},  {88, 2, 144, 64, 64},
                            {96, 2, 144, 64, 64}, {112, 2, 144, 64, 64}, {128, 2, 128, 64, 64}, {160, 2, 128, 64, 32}, {192, 2, 112, 64, 64}, {256, 2, 80, 64, 64}};

/// The kernel's arguments and sizes, read once.
class Attention {
public:
  explicit Attention(plan::KernelOp kernel) : kernel(kernel) {
    auto flag = [&](StringRef name) { auto attr = kernel.getConfig().getAs<BoolAttr>(name); return attr && attr.getValue(); };
    causal = flag("causal");
    hasMask = flag("has_mask");
    scale = kernel.getConfig().getAs<FloatAttr>("scale").getValueAsDouble();
    ArrayRef<int64_t> q = type(0).getShape(), k = type(1).getShape();
    batch = q[0], heads = q[1], queries = q[2], headDim = q[3];
    keyHeads = k[1], keys = k[2], valueDim = type(2).getShape()[3];
  }

  MemRefType type(unsigned i) const { return kernel.getArgType(i); }
  unsigned outIndex() const { return kernel.getNumArgs() - 1; }

  int64_t alignment(unsigned i) const {
    auto list = kernel.getConfig().getAs<DenseI64ArrayAttr>("alignments");
    return list ? list[i] : dit::elementBytes(type(i).getElementType());
  }

  mutable plan::KernelOp kernel; ///< MLIR's accessors are not const
  bool causal = false, hasMask = false;
  double scale = 1;
  int64_t batch, heads, keyHeads, queries, keys, headDim, valueDim;
};

bool is16Bit(Type type) { return type.isBF16() || type.isF16(); }

/// Rows of 16-byte pieces, and no dimension that is repeated.
bool isReadableByCopies(const Attention &a, unsigned i) {
  plan::Layout layout = plan::layoutOf(a.type(i));
  ArrayRef<int64_t> shape = a.type(i).getShape();
  if (a.alignment(i) < 16 || (layout.strides[3] != 1 && shape[3] > 1))
    return false;
  for (unsigned d = 0; d < 3; ++d)
    if (shape[d] > 1 && (layout.strides[d] <= 0 || layout.strides[d] % 8 != 0))
      return false;
  return true;
}

Tiles tilesFor(const Attention &a) {
  int64_t size = std::max(a.headDim, a.valueDim);
  Tiles tiles = *llvm::find_if(kTiles, [&](const Tiles &t) { return size <= t.headDim; });
  if (a.causal || a.hasMask)
    tiles.blockN = tiles.blockN / 32 * 32;
  // Few tiles: smaller ones fill more multiprocessors. Short sequences want short blocks as well.
  auto count = [&](int consumers) { return a.batch * a.heads * llvm::divideCeil(a.queries, 64 * consumers); };
  while (tiles.consumers > 1 && (count(tiles.consumers) < kMultiprocessors || a.queries <= 64 * (tiles.consumers - 1)))
    --tiles.consumers;
  if (tiles.consumers == 1)
    tiles.blockN = std::min(tiles.blockN, 64);
  while (tiles.blockN > 32 && tiles.blockN - 32 >= a.keys)
    tiles.blockN -= 32;
  return tiles;
}

uint32_t sharedBytes(const Attention &a, const Tiles &t, int stages) {
  int64_t qk = llvm::divideCeil(a.headDim, t.qkPanel) * t.qkPanel, v = llvm::divideCeil(a.valueDim, t.vPanel) * t.vPanel;
  return 2 * (64 * t.consumers * qk + stages * t.blockN * (qk + v)) + 8 * (2 * t.consumers + 4 * stages) + 4 * stages + 1024;
}

/// (column, token, head, batch); a dimension of size 1 may have any stride.
TensorMapPatch tensorMap(const Attention &a, unsigned arg, int panel, int rows) {
  MemRefType type = a.type(arg);
  plan::Layout layout = plan::layoutOf(type);
  TensorMapPatch map;
  map.arg = arg;
  map.dtype = type.getElementType().isBF16() ? DType::bf16 : DType::f16;
  map.swizzle = panel == 64 ? cuda::TensorMapSwizzle::Bytes128 : panel == 32 ? cuda::TensorMapSwizzle::Bytes64 : cuda::TensorMapSwizzle::Bytes32;
  for (int d = 3; d >= 0; --d) {
    map.sizes.push_back(type.getDimSize(d));
    if (d < 3)
      map.strides.push_back(2 * (type.getDimSize(d) == 1 ? std::max<int64_t>(llvm::alignTo(type.getDimSize(3), 8), 8) : layout.strides[d]));
  }
  map.box = {static_cast<uint32_t>(panel), static_cast<uint32_t>(rows), 1, 1};
  return map;
}

cuda::KernelParameter parameters(const Attention &a, const Tiles &tiles) {
  plan::Layout out = plan::layoutOf(a.type(a.outIndex()));
  Params p{};
  p.outBatch = out.strides[0], p.outHead = out.strides[1], p.outRow = out.strides[2];
  p.batch = a.batch, p.heads = a.heads, p.headsPerKey = a.heads / a.keyHeads, p.queries = a.queries, p.keys = a.keys;
  p.scaleLog2 = static_cast<float>(a.scale * 1.4426950408889634);
  const auto *bytes = reinterpret_cast<const uint8_t *>(&p);
  cuda::KernelParameter parameter{{bytes, bytes + sizeof p}, {}};
  parameter.patches.push_back({offsetof(Params, q), tensorMap(a, 0, tiles.qkPanel, 64)});
  parameter.patches.push_back({offsetof(Params, k), tensorMap(a, 1, tiles.qkPanel, tiles.blockN)});
  parameter.patches.push_back({offsetof(Params, v), tensorMap(a, 2, tiles.vPanel, tiles.blockN)});
  parameter.patches.push_back({offsetof(Params, out), cuda::PointerPatch{a.outIndex(), 0}});
  return parameter;
}

/// The mask's type, and how it is made from the kernel's parameters.
std::pair<std::string, std::string> maskOf(const Attention &a) {
  std::string causal = "Causal{{}, 0}";
  if (!a.hasMask)
    return a.causal ? std::pair<std::string, std::string>{"", causal} : std::pair<std::string, std::string>{"", "NoMask{}"};
  MemRefType mask = a.type(3);
  plan::Layout layout = plan::layoutOf(mask);
  auto stride = [&](unsigned d) { return mask.getDimSize(d) == 1 ? int64_t(0) : layout.strides[d]; };
  std::string bias = fmt::format("AdditiveMask<{}>{{{{}}, bias, {}, {}, {}, {}, {}, {}}}", cudaTypeName(mask.getElementType()), stride(0), stride(1), stride(2),
                                 a.queries, a.keys, scalarLiteral(1 / a.scale, false));
  if (a.causal)
    bias = fmt::format("Both<AdditiveMask<{}>, Causal>{{{}, {}}}", cudaTypeName(mask.getElementType()), bias, causal);
  return {", const void *bias", bias};
}

std::string unitText(const Attention &a, const Tiles &tiles, int stages) {
  auto [argument, mask] = maskOf(a);
  return fmt::format(R"(#include "attention_sm90.cuh"
using namespace ditc;

// {}
// q {}x{}x{}x{}, {} keys of {} heads, values of {}
struct Config {{
  using Element = {};
  static constexpr int HEAD_DIM = {}, V_DIM = {}, BLOCK_N = {}, CONSUMERS = {};
  static constexpr int STAGES = {}, QK_PANEL = {}, V_PANEL = {};
  static constexpr bool ORDERED = true;
}};

extern "C" __global__ void __launch_bounds__({}, 1)
{}(const __grid_constant__ attention_sm90::Params p{}) {{
  attention_sm90::run<Config>(p, {}, StorePlain{{}});
}}
)",
                     writeNodeName(nameOf(a.kernel.getLoc())), a.batch, a.heads, a.queries, a.headDim, a.keys, a.keyHeads, a.valueDim, cudaTypeName(a.type(0).getElementType()).substr(6),
                     a.headDim, a.valueDim, tiles.blockN, tiles.consumers, stages, tiles.qkPanel, tiles.vPanel, 128 * (tiles.consumers + 1), a.kernel.getSymName().str(), argument, mask);
}

} // namespace

bool acceptsHopperAttention(plan::KernelOp kernel) {
  Attention a(kernel);
  if (a.queries == 0 || a.keys == 0 || a.batch == 0 || a.headDim % 8 != 0 || a.valueDim % 8 != 0 || std::max(a.headDim, a.valueDim) > 256 || a.headDim == 0 || a.valueDim == 0 || !(a.scale > 0))
    return false;
  for (unsigned i : {0u, 1u, 2u, a.outIndex()})
    if (!is16Bit(a.type(i).getElementType()) || a.type(i).getElementType() != a.type(0).getElementType() || !isReadableByCopies(a, i))
      return false;
  if (!a.hasMask)
    return true;
  MemRefType mask = a.type(3);
  plan::Layout layout = plan::layoutOf(mask);
  bool isFloat = is16Bit(mask.getElementType()) || mask.getElementType().isF32();
  return isFloat && mask.getDimSize(3) == a.keys && (layout.strides[3] == 1 || a.keys == 1);
}

FailureOr<CudaUnit> emitHopperAttention(plan::KernelOp kernel) {
  Attention a(kernel);
  Tiles tiles = tilesFor(a);
  int stages = 2;
  while (tiles.blockN > 32 && sharedBytes(a, tiles, stages) > 232448)
    tiles.blockN -= 32;
  CudaUnit unit;
  unit.text = unitText(a, tiles, stages);
  int64_t work = a.batch * a.heads * llvm::divideCeil(a.queries, 64 * tiles.consumers);
  unit.launch.grid = {static_cast<uint32_t>(work), 1, 1};
  unit.launch.blocksPerSm = 1;
  unit.launch.threads = 128 * (tiles.consumers + 1);
  unit.launch.sharedBytes = sharedBytes(a, tiles, stages);
  unit.parameters.push_back(parameters(a, tiles));
  if (a.hasMask)
    unit.addPointer(3);
  return unit;
}

} // namespace ditc
