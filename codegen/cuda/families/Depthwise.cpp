// SPDX-License-Identifier: Apache-2.0
#include "codegen/cuda/families/Depthwise.h"

#include "dialects/dit/Dit.h"

#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

#include <numeric>

using namespace mlir;

namespace ditc {
namespace {

constexpr int64_t kThreads = 128; // conv_depthwise.cuh
constexpr int64_t kRows = 4;      // input rows are read 1.5 times with a window of 3, mostly from L1
constexpr int64_t kEnoughThreads = 1 << 15, kLimit = int64_t(1) << 31;
constexpr int64_t kTapsOfPlane = 64, kTaps = 128;
constexpr int64_t kX = 4, kY = 3, kZ = 2; // dimensions

int64_t strideOf(MemRefType type, int64_t dim) { return plan::layoutOf(type).strides[dim]; }
int64_t tapsOfPlane(MemRefType filter) { return filter.getDimSize(kY) * filter.getDimSize(kX); }

/// The rules of the header, but for how operands lie.
bool isDepthwise(const ConvProblem &p) {
  Type element = p.input.getElementType();
  bool types = (element.isF32() || element.isBF16() || element.isF16()) && p.filter.getElementType() == element && p.output.getElementType() == element;
  auto isOne = [](int64_t n) { return n == 1; };
  bool plain = llvm::all_of(p.steps, isOne) && llvm::all_of(p.dilations, isOne);
  bool ofEach = p.channels() == 1 && p.outChannels() == 1 && p.input.getDimSize(1) == p.groups;
  bool small = tapsOfPlane(p.filter) <= kTapsOfPlane && p.depth() <= kTaps;
  return types && plain && ofEach && small && p.depth() > 0 && p.input.getNumElements() > 0 && p.output.getNumElements() > 0;
}

MemRefType withOrder(MemRefType type, ArrayRef<int64_t> order) {
  SmallVector<int64_t> shape(type.getShape()), strides = plan::layoutOf(type).strides, oldShape = shape, oldStrides = strides;
  for (int64_t i = 0; i < 3; ++i)
    shape[kZ + i] = oldShape[order[i]], strides[kZ + i] = oldStrides[order[i]];
  return plan::makeMemRef(shape, type.getElementType(), {strides, 0});
}

/// z and x become one dimension x.
MemRefType withoutZ(MemRefType type) {
  SmallVector<int64_t> shape(type.getShape()), strides = plan::layoutOf(type).strides;
  shape[kX] *= shape[kZ];
  shape[kZ] = 1, strides[kZ] = 0;
  return plan::makeMemRef(shape, type.getElementType(), {strides, 0});
}

/// Puts the dimensions of an image into the order in which the template does best. Taps keep theirs: windows of 1 alone move.
class Dimensions {
public:
  explicit Dimensions(DepthwiseConv &conv) : c(conv) {}

  /// A window along one dimension moves to y, where rows are read once for several outputs.
  void forRows() {
    if (isAlone(kX) && c.input.getDimSize(kX) == 1 && strideOf(c.input, kY) == 1)
      reorder({kZ, kX, kY});
    if (isAlone(kY) && !isAlone(kZ))
      reorder({kY, kZ, kX});
    bool together = isAlone(kX) && isAlone(kZ) && c.input.getDimSize(kZ) > 1 && isRun(c.input) && isRun(c.output);
    if (together)
      c.input = withoutZ(c.input), c.output = withoutZ(c.output), c.filter = withoutZ(c.filter);
  }
  /// All dimensions are alike: the windows' are y and x, or y.
  void forChannels() {
    SmallVector<int64_t> order, windows;
    for (int64_t dim : {kZ, kY, kX})
      (isAlone(dim) ? order : windows).push_back(dim);
    order.insert(windows.size() == 1 ? order.end() - 1 : order.end(), windows.begin(), windows.end());
    reorder(order);
  }

private:
  /// A position sees itself alone.
  bool isAlone(int64_t dim) const { return c.filter.getDimSize(dim) == 1 && c.padding[dim - kZ] == 0 && c.input.getDimSize(dim) == c.output.getDimSize(dim); }
  static bool isRun(MemRefType type) { return strideOf(type, kX) == 1 && strideOf(type, kZ) == type.getDimSize(kX); }
  void reorder(ArrayRef<int64_t> order) {
    c.input = withOrder(c.input, order), c.filter = withOrder(c.filter, order), c.output = withOrder(c.output, order);
    c.padding = {c.padding[order[0] - kZ], c.padding[order[1] - kZ], c.padding[order[2] - kZ]};
  }
  DepthwiseConv &c;
};

/// `count` in parts of at most `most`, all about alike.
int64_t evenPart(int64_t count, int64_t most) { return llvm::divideCeil(count, llvm::divideCeil(count, most)); }

/// Lanes that take 128 bytes of channels at once, fewer where many would have none.
int64_t lanesFor(int64_t all, int64_t channels, int64_t bytes) {
  int64_t lanes = 128 / bytes / channels;
  auto computed = [&]() -> int64_t { return llvm::divideCeil(all, lanes * channels) * lanes * channels; };
  while (lanes > 1 && computed() * 4 > all * 5)
    lanes /= 2;
  return lanes;
}

void chooseRows(DepthwiseConv &c, int64_t inputAlignment, int64_t outputAlignment) {
  Dimensions(c).forRows();
  c.strip = 16 / dit::elementBytes(c.input.getElementType());
  c.read = std::gcd(c.strip, rowTogether(c.input, inputAlignment));
  c.storeX = std::gcd(c.strip, rowTogether(c.output, outputAlignment));
}

void chooseChannels(DepthwiseConv &c, int64_t inputAlignment, int64_t outputAlignment) {
  int64_t all = c.input.getDimSize(1), bytes = dit::elementBytes(c.input.getElementType());
  bool intoRows = strideOf(c.output, 1) != 1 && strideOf(c.output, kX) == 1; // whole sectors only if a thread has many positions
  intoRows ? Dimensions(c).forRows() : Dimensions(c).forChannels();
  c.byChannels = true;
  int64_t few = (intoRows ? 4 : 8) / bytes; // more channels would take more than half of the registers
  c.channels = std::gcd(few, channelsTogether(c.input, all, inputAlignment));
  while (c.channels > 1 && c.channels * tapsOfPlane(c.filter) > kTapsOfPlane)
    c.channels /= 2;
  c.lanes = lanesFor(all, c.channels, bytes);
  if (intoRows) {
    c.strip = 16 / bytes;
    c.storeX = std::gcd(c.strip, rowTogether(c.output, outputAlignment));
  } else {
    c.strip = evenPart(c.output.getDimSize(kX), c.filter.getDimSize(kX) > 1 ? 4 : 2);
    c.storeChannels = std::gcd(c.channels, channelsTogether(c.output, all, outputAlignment));
  }
}

} // namespace

int64_t DepthwiseConv::tiles() const {
  return llvm::divideCeil(output.getDimSize(kX), strip) * llvm::divideCeil(output.getDimSize(kY), rows) * output.getDimSize(kZ);
}

int64_t DepthwiseConv::blocks() const {
  int64_t images = output.getDimSize(0), all = output.getDimSize(1);
  return byChannels ? llvm::divideCeil(all, lanes * channels) * llvm::divideCeil(images * tiles(), kThreads / lanes) : llvm::divideCeil(images * all * tiles(), kThreads);
}

std::optional<DepthwiseConv> depthwiseConv(const ConvProblem &p, int64_t inputAlignment, int64_t outputAlignment) {
  bool alongX = strideOf(p.input, kX) == 1, alongChannels = strideOf(p.input, 1) == 1 && p.input.getDimSize(1) > 1;
  if (!isDepthwise(p) || (!alongX && !alongChannels))
    return std::nullopt;
  DepthwiseConv c{.input = p.input, .filter = p.filter, .output = p.output};
  llvm::copy(p.low, c.padding.end() - p.low.size());
  alongChannels ? chooseChannels(c, inputAlignment, outputAlignment) : chooseRows(c, inputAlignment, outputAlignment);
  c.rows = evenPart(c.output.getDimSize(kY), kRows);
  while (c.rows > 1 && c.blocks() * kThreads < kEnoughThreads)
    c.rows = llvm::divideCeil(c.rows, 2);
  if (c.blocks() * kThreads >= kLimit)
    return std::nullopt;
  return c;
}

bool wantsChannelsLast(const ConvProblem &p, int64_t inputAlignment, int64_t outputAlignment) {
  constexpr int64_t kTogether = 4, kPiece = 8; // channels_last.cuh stores pieces, whole ones
  std::optional<DepthwiseConv> c = depthwiseConv(p, inputAlignment, outputAlignment);
  bool leavesAlone = c && !c->byChannels && channelsTogether(p.output, p.output.getDimSize(1), outputAlignment) >= kTogether;
  return leavesAlone && strideOf(p.output, kX) != 1 && p.input.getDimSize(1) % kPiece == 0 && dit::elementBytes(p.input.getElementType()) == 2;
}

FailureOr<CudaUnit> emitDepthwiseConv(plan::KernelOp kernel, FamilyUnit &unit, const ConvProblem &p, const DepthwiseConv &conv) {
  unit.tensor("Input", 0, conv.input);
  unit.tensor("Filter", 1, conv.filter);
  unit.optionalTensor("Bias", 2, p.hasBias);
  unit.tensor("Output", p.outputArg(), conv.output);
  unit.config(llvm::formatv("using Padding = Dims<{0}, {1}, {2}>", conv.padding[0], conv.padding[1], conv.padding[2]).str());
  unit.flag("BY_CHANNELS", conv.byChannels);
  for (auto [name, value] : std::initializer_list<std::pair<StringRef, int64_t>>{{"STRIP", conv.strip}, {"ROWS", conv.rows}, {"CHANNELS", conv.channels}, {"LANES", conv.lanes}, {"READ", conv.read}, {"STORE_X", conv.storeX}, {"STORE_C", conv.storeChannels}})
    unit.constant(name, value);
  FailureOr<CudaUnit> emitted = p.finish(unit, "conv_depthwise.cuh", "conv_depthwise", conv.blocks(), kThreads, 0);
  if (succeeded(emitted))
    emitted->launch.overlapsPrevious = gainsByOverlap(0, argumentBytes(kernel));
  return emitted;
}

} // namespace ditc
