// SPDX-License-Identifier: Apache-2.0
#include "codegen/cuda/conv/MmaConv.h"

#include "codegen/cuda/families/Depthwise.h"
#include "codegen/cuda/families/Families.h"
#include "codegen/cuda/gemm/MmaTiles.h"
#include "codegen/cuda/sm90/Conv.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace ditc {
namespace {

constexpr int64_t kPiece = 8; // channels in 16 bytes
constexpr int64_t kLimit = int64_t(1) << 31;

int64_t paddedChannels(const ConvProblem &p) { return llvm::alignTo(p.channels(), kPiece); }

/// The rules of the header, but for how operands lie.
bool isForTensorCores(const ConvProblem &p) {
  Type element = p.input.getElementType();
  bool sixteenBits = (element.isBF16() || element.isF16()) && p.filter.getElementType() == element && p.output.getElementType() == element;
  bool enough = p.channels() >= kPiece && p.outChannels() >= kPiece && (p.groups == 1 || p.channels() % kPiece == 0);
  if (!sixteenBits || !enough) // perhaps no channels at all
    return false;
  int64_t inputs = p.input.getNumElements() / p.input.getDimSize(1) * paddedChannels(p) * p.groups;
  bool fits = inputs < kLimit && p.output.getNumElements() < kLimit && p.depth() / p.channels() * paddedChannels(p) < kLimit;
  return fits && p.output.getNumElements() > 0 && inputs > 0;
}

/// Pieces of channels start on 16 bytes.
bool hasChannelsLast(MemRefType type, int64_t alignment) { return type.getDimSize(1) % kPiece == 0 && channelsTogether(type, kPiece, alignment) == kPiece; }

/// The whole reach of the operand can be counted with 31 bits, also where rows lie apart.
bool isNear(MemRefType type) {
  int64_t last = 0;
  for (auto [size, stride] : llvm::zip(type.getShape(), plan::layoutOf(type).strides))
    last += size * stride;
  return last < kLimit;
}

bool hasTapsInOrder(MemRefType filter) {
  SmallVector<int64_t> strides = plan::layoutOf(filter).strides;
  int64_t next = filter.getDimSize(1);
  for (int64_t dim : {4, 3, 2}) {
    if (filter.getDimSize(dim) > 1 && strides[dim] != next)
      return false;
    next *= filter.getDimSize(dim);
  }
  return true;
}

bool inputLies(const ConvProblem &p, int64_t alignment) { return hasChannelsLast(p.input, alignment) && isNear(p.input); }
bool filterLies(const ConvProblem &p, int64_t alignment) { return hasChannelsLast(p.filter, alignment) && hasTapsInOrder(p.filter); }

/// On tensor cores, which operands lie for.
FailureOr<CudaUnit> emitTensorCoreConv(FamilyUnit &unit, const ConvProblem &p, const CudaArch &arch) {
  constexpr int64_t kChunk = 32; // columns that leave together: whole ones in a warp
  int64_t alignment = unit.alignmentOf(p.outputArg());
  int64_t byPositions = positionsTogether(p.output, alignment), byChannels = channelsTogether(p.output, p.outChannels(), alignment);
  bool channelRows = byPositions >= byChannels;
  if (std::optional<HopperConvTiles> tiles = arch.hasWgmma() ? hopperConvTiles(p, channelRows) : std::nullopt)
    return emitHopperConv(unit, p, *tiles, alignment);
  int64_t pixels = p.output.getDimSize(0) * p.positions();
  GemmSize size{.batches = p.groups, .rows = channelRows ? p.outChannels() : pixels, .columns = channelRows ? pixels : p.outChannels(), .k = p.depth()};
  MmaTiles tiles = chooseMmaTiles(arch, size, kChunk, {});
  p.configure(unit);
  unit.config("using Element = Input::Element");
  for (auto [name, value] : std::initializer_list<std::pair<StringRef, int64_t>>{{"BLOCK_M", tiles.m}, {"BLOCK_N", tiles.n}, {"BLOCK_K", tiles.k}, {"STAGES", tiles.stages}, {"WARPS_M", tiles.warpsM}, {"WARPS_N", tiles.warpsN}, {"STORE", std::max(byPositions, byChannels)}})
    unit.constant(name, value);
  unit.flag("CHANNEL_ROWS", channelRows);
  FailureOr<CudaUnit> emitted = p.finish(unit, "conv_mma.cuh", "conv_mma", tileCount(size, tiles), tiles.threads(), tiles.sharedBytes());
  if (succeeded(emitted))
    emitted->launch.overlapsPrevious = gainsByOverlap(flopOf(size), 0);
  return emitted;
}

} // namespace

ConvNeeds convNeeds(plan::KernelOp kernel) {
  FamilyUnit unit(kernel);
  ConvProblem p = ConvProblem::read(unit.read());
  if (unit.read().failed())
    return {};
  if (wantsChannelsLast(p, unit.alignmentOf(0), unit.alignmentOf(p.outputArg())))
    return {.inputChannels = p.input.getDimSize(1), .input = true};
  if (!isForTensorCores(p))
    return {};
  return {.inputChannels = paddedChannels(p) * p.groups, .filterChannels = paddedChannels(p), .input = !inputLies(p, unit.alignmentOf(0)), .filter = !filterLies(p, unit.alignmentOf(1))};
}

FailureOr<CudaUnit> emitBestConv(plan::KernelOp kernel, const CudaArch &arch) {
  FamilyUnit unit(kernel);
  ConvProblem p = ConvProblem::read(unit.read());
  if (unit.read().failed())
    return unit.failure();
  bool lies = isForTensorCores(p) && inputLies(p, unit.alignmentOf(0)) && filterLies(p, unit.alignmentOf(1));
  if (lies)
    return emitTensorCoreConv(unit, p, arch);
  if (std::optional<DepthwiseConv> depthwise = depthwiseConv(p, unit.alignmentOf(0), unit.alignmentOf(p.outputArg())))
    return emitDepthwiseConv(kernel, unit, p, *depthwise);
  return emitConv(kernel, arch);
}

FailureOr<CudaUnit> emitChannelsLast(plan::KernelOp kernel, const CudaArch &) {
  constexpr int64_t kTile = 64; // channels_last.cuh
  FamilyUnit unit(kernel);
  unit.read().expectArgs(2);
  MemRefType input = withThreeSpatial(unit.read().type(0));
  int64_t channels = unit.read().type(1).getShape().back(), positions = ShapedType::getNumElements(input.getShape().take_back(3));
  unit.tensor("Input", 0, input);
  unit.constant("OUT_CHANNELS", channels);
  unit.constant("READ", positionsTogether(input, unit.alignmentOf(0)));
  int64_t blocks = input.getDimSize(0) * llvm::divideCeil(channels, kTile) * llvm::divideCeil(positions, kTile);
  FailureOr<CudaUnit> emitted = unit.finish("channels_last.cuh", "channels_last", {"input", "out"}, blocks, 256);
  if (succeeded(emitted))
    emitted->launch.overlapsPrevious = gainsByOverlap(0, argumentBytes(kernel));
  return emitted;
}

} // namespace ditc
