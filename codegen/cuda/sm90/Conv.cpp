// SPDX-License-Identifier: Apache-2.0
#include "codegen/cuda/sm90/Conv.h"

#include "codegen/cuda/sm90/Hopper.h"

#include "llvm/Support/MathExtras.h"

#include <numeric>

using namespace mlir;

namespace ditc {
namespace {

using cuda::TensorMapPatch;

constexpr int64_t kStep = 64, kStepBytes = 128; // channels of a step of k
constexpr int64_t kColumnStep = 32;             // of a tile: whole groups that leave together
constexpr int64_t kMostImages = 8;              // that strides make of the input
constexpr int64_t kLargestBox = 256;            // what the copy engine takes along a dimension
constexpr int64_t kMapBytes = 128, kBytes = 2;  // of a tensor map and of an element
constexpr uint32_t kThreads = 384;              // a producer and two consumers
constexpr double kMultipliesPerCycle = 2048;    // of a multiprocessor

/// How tiles may be cut: up to as many columns as accumulators and instructions allow.
struct TileShape {
  int64_t rows, mostColumns;
};
constexpr TileShape kShapes[] = {{128, 160}, {192, 96}, {64, 224}};

/// Images whose windows are one pixel wide along x and y have rows that follow one another: a box need not end with them.
ConvProblem withRowsJoined(const ConvProblem &p) {
  constexpr int kY = 3, kX = 4, kSpatial = 2;
  auto joins = [](MemRefType type) {
    SmallVector<int64_t> strides = plan::layoutOf(type).strides;
    return type.getDimSize(kY) == 1 || strides[kY] == strides[kX] * type.getDimSize(kX);
  };
  bool oneWide = llvm::all_of(std::array{kY, kX}, [&](int dim) { return p.filter.getDimSize(dim) == 1 && p.steps[dim - kSpatial] == 1 && p.low[dim - kSpatial] == 0 && p.input.getDimSize(dim) == p.output.getDimSize(dim); });
  if (!oneWide || !joins(p.input) || !joins(p.output))
    return p;
  auto joined = [](MemRefType type) {
    SmallVector<int64_t> shape(type.getShape()), strides = plan::layoutOf(type).strides;
    shape[kX] *= shape[kY], shape[kY] = 1, strides[kY] = 0;
    return plan::makeMemRef(shape, type.getElementType(), {strides, 0});
  };
  ConvProblem result = p;
  result.input = joined(p.input), result.output = joined(p.output);
  return result;
}

/// The images of a kernel's header that strides make of the input, if it has a pixel for each.
std::optional<int64_t> imagesOf(const ConvProblem &p) {
  int64_t images = 1;
  for (auto [step, size] : llvm::zip(p.steps, p.input.getShape().take_back(3))) {
    images *= step;
    if (step > size || images > kMostImages)
      return std::nullopt;
  }
  return images;
}

/// Of one step of k of a tile: operands of small tiles take longer to arrive than to multiply.
double cyclesOfStep(int64_t rows, int64_t columns) {
  constexpr double kBytesPerCycle = 70, kBetween = 24; // from the L2 cache; until the next step begins
  return kBetween + std::max(rows * columns * kStep / kMultipliesPerCycle, (rows + columns) * kStepBytes / kBytesPerCycle);
}

int64_t stepsOf(const ConvProblem &p) { return p.depth() / p.channels() * llvm::divideCeil(p.channels(), kStep); }

/// Boxes of at most `room` pixels that need the fewest tiles; among equals the longest rows.
class BoxSearch {
public:
  explicit BoxSearch(const ConvProblem &p) : sizes(p.output.getShape().take_back(3)), images(p.output.getDimSize(0)) {}

  void search(int64_t room, int64_t rowMultiple) {
    for (int64_t x = std::min({sizes[2], room, kLargestBox}); x > 0; --x) {
      if (x < sizes[2] && x % rowMultiple != 0)
        continue;
      for (int64_t y = std::min(sizes[1], room / x); y > 0; --y)
        consider({x, y, std::min(sizes[0], room / x / y)});
    }
  }
  std::array<int64_t, 3> best = {1, 1, 1};
  int64_t count = 0; ///< boxes of all images; 0: none was found

private:
  void consider(std::array<int64_t, 3> box) {
    int64_t boxes = images;
    for (int i = 0; i < 3; ++i)
      boxes *= llvm::divideCeil(sizes[2 - i], box[i]);
    if (count == 0 || boxes < count)
      best = box, count = boxes;
  }
  ArrayRef<int64_t> sizes; ///< z, y, x
  int64_t images;
};

/// (channel, x, y, z, image) of every step-th pixel; `which` of the images that steps make, counted with x innermost.
TensorMapPatch mapOfInput(const ConvProblem &p, const HopperConvTiles &tiles, int64_t which) {
  SmallVector<int64_t> strides = plan::layoutOf(p.input).strides;
  TensorMapPatch map{0, 0, dtypeOf(p.input), {static_cast<uint64_t>(p.input.getDimSize(1))}, {}, {kStep}, cuda::TensorMapSwizzle::Bytes128};
  for (int dim : {2, 1, 0}) { // spatial
    int64_t step = p.steps[dim], first = which % step, count = llvm::divideCeil(p.input.getDimSize(2 + dim) - first, step);
    which /= step;
    map.sizes.push_back(count);
    map.strides.push_back(anyStride(kBytes * strides[2 + dim] * step, count));
    map.add += first * strides[2 + dim] * kBytes;
  }
  map.sizes.push_back(p.input.getDimSize(0)), map.strides.push_back(anyStride(kBytes * strides[0], p.input.getDimSize(0)));
  llvm::append_range(map.box, tiles.box);
  map.box.push_back(1);
  return map;
}

/// (channel, tap, output channel)
TensorMapPatch mapOfFilter(const ConvProblem &p, const HopperConvTiles &tiles) {
  uint64_t channels = p.channels(), taps = p.depth() / p.channels(), filters = p.filter.getDimSize(0);
  uint64_t filter = anyStride(kBytes * plan::layoutOf(p.filter).strides[0], filters);
  return {1, 0, dtypeOf(p.filter), {channels, taps, filters}, {channels * kBytes, filter}, {kStep, 1, static_cast<uint32_t>(tiles.channelTile())}, cuda::TensorMapSwizzle::Bytes128};
}

/// conv_sm90::Params: the filter's map, then those of the images.
cuda::KernelParameter mapsOf(const ConvProblem &p, const HopperConvTiles &tiles, int64_t images) {
  cuda::KernelParameter maps;
  maps.bytes.resize(kMapBytes * (1 + images));
  maps.patches.push_back({0, mapOfFilter(p, tiles)});
  for (int64_t image = 0; image < images; ++image)
    maps.patches.push_back({static_cast<uint32_t>(kMapBytes * (1 + image)), mapOfInput(p, tiles, image)});
  return maps;
}

} // namespace

int64_t HopperConvTiles::stages() const {
  constexpr int64_t kBarriersAndAlignment = 2 << 10, kMost = 8;
  return std::min(kMost, (kHopperSharedBytes - kBarriersAndAlignment) / (kStepBytes * (rows + columns)));
}

/// gemm_sm90::Layout::SHARED_BYTES without boxes.
int64_t HopperConvTiles::sharedBytes() const { return stages() * kStepBytes * (rows + columns) + 8 * 2 * stages() + 1024; }

std::optional<HopperConvTiles> hopperConvTiles(const ConvProblem &given, bool channelRows) {
  constexpr double kRateOfMma = 0.45; // of what wgmma reaches
  constexpr int64_t kPiece = 8;       // pixels that leave together
  if (given.groups != 1 || !imagesOf(given))
    return std::nullopt;
  ConvProblem p = withRowsJoined(given);
  HopperConvTiles best;
  for (TileShape shape : kShapes)
    for (int64_t columns = shape.mostColumns; columns > 0; columns -= kColumnStep) {
      HopperConvTiles tiles{.rows = shape.rows, .columns = columns, .channelRows = channelRows};
      BoxSearch boxes(p);
      boxes.search(channelRows ? columns : shape.rows, channelRows ? kPiece : 1);
      tiles.box = boxes.best, tiles.count = boxes.count * llvm::divideCeil(p.outChannels(), tiles.channelTile());
      tiles.cycles = llvm::divideCeil(tiles.count, kHopperMultiprocessors) * stepsOf(p) * cyclesOfStep(shape.rows, columns);
      if (boxes.count > 0 && (best.count == 0 || tiles.cycles < best.cycles))
        best = tiles;
    }
  double needed = double(p.output.getNumElements()) * p.depth() / kMultipliesPerCycle / kHopperMultiprocessors;
  bool exists = best.count > 0 && best.count < int64_t(1) << 31;
  return exists && needed >= best.cycles * kRateOfMma ? std::optional(best) : std::nullopt;
}

FailureOr<CudaUnit> emitHopperConv(FamilyUnit &unit, const ConvProblem &given, const HopperConvTiles &tiles, int64_t alignment) {
  ConvProblem p = withRowsJoined(given);
  int64_t images = *imagesOf(given);
  p.configure(unit);
  unit.config("using Element = Input::Element");
  int64_t together = tiles.channelRows ? std::gcd(rowTogether(p.output, alignment), tiles.box[0]) : channelsTogether(p.output, p.outChannels(), alignment);
  for (auto [name, value] : std::initializer_list<std::pair<StringRef, int64_t>>{{"BLOCK_M", tiles.rows}, {"BLOCK_N", tiles.columns}, {"STAGES", tiles.stages()}, {"BOX_X", tiles.box[0]}, {"BOX_Y", tiles.box[1]}, {"BOX_Z", tiles.box[2]}, {"STORE", together}})
    unit.constant(name, value);
  unit.flag("CHANNEL_ROWS", tiles.channelRows);
  std::string element = cudaTypeName(p.input.getElementType()).substr(6); // the unit opens the namespace
  std::string declared = "const __grid_constant__ conv_sm90::Params<" + std::to_string(images) + "> params, " + (p.hasBias ? "const " + element + " *bias, " : "") + element + " *out";
  FailureOr<CudaUnit> emitted = unit.finish("conv_sm90.cuh", "conv_sm90", declared, p.hasBias ? "params, bias, out" : "params, nullptr, out", tiles.count, kThreads, tiles.sharedBytes());
  if (failed(emitted))
    return failure();
  emitted->parameters.push_back(mapsOf(p, tiles, images));
  for (unsigned arg = 2; arg <= p.outputArg(); ++arg)
    emitted->addPointer(arg);
  emitted->launch.blocksPerSm = 1;
  emitted->launch.overlapsPrevious = gainsByOverlap(2.0 * p.output.getNumElements() * p.depth(), 0);
  return emitted;
}

} // namespace ditc
