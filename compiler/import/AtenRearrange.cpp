// SPDX-License-Identifier: Apache-2.0
//
// ATen ops that put elements elsewhere: repetitions, padding, rolls, shuffles, writes into a slice of a copy.
#include "compiler/import/AtenHelpers.h"

#include "compiler/import/Values.h"
#include "runtime/Error.h"

#include <limits>

using namespace mlir;

namespace ditc {

using Results = std::vector<Value>;

//===-- Repetitions -------------------------------------------------------------------------------===//

/// `value` with dimension i repeated times[i] times; `times` has the rank of `value`.
static Value repeated(Emit &emit, Value value, ArrayRef<int64_t> times) {
  SmallVector<int64_t> apart, wide, whole;
  for (auto [size, count] : llvm::zip_equal(Emit::shapeOf(value), times)) {
    if (count != 1 && size != 1) {
      apart.push_back(1);
      wide.push_back(count);
    }
    apart.push_back(size);
    wide.push_back(size == 1 ? count : size);
    whole.push_back(size * count);
  }
  return emit.view(emit.expand(emit.view(value, apart), wide), whole);
}

static Results repeat(OpContext &ctx, std::string_view name) {
  Value self = ctx.tensor("self");
  int64_t rank = torchRank(ctx, "self", self);
  std::vector<int64_t> times = ctx.integers(name);
  while (static_cast<int64_t>(times.size()) < rank)
    times.insert(times.begin(), 1); // tile
  SmallVector<int64_t> shape(times.size() - rank, 1);
  llvm::append_range(shape, Emit::shapeOf(self));
  if (ctx.isComplex("self"))
    times.push_back(1);
  return {repeated(ctx.emit, ctx.emit.view(self, shape), times)};
}

/// The operand flattened when no dimension is named, and the dimension.
static std::pair<Value, int64_t> alongDim(OpContext &ctx, Value self) {
  if (ctx.has("dim"))
    return {self, dimArgument(ctx, "dim", 0, torchRank(ctx, "self", self))};
  bool isComplex = ctx.isComplex("self");
  int64_t count = Emit::typeOf(self).getNumElements() / (isComplex ? 2 : 1);
  return {ctx.emit.view(self, isComplex ? SmallVector<int64_t>{count, 2} : SmallVector<int64_t>{count}), 0};
}

static Results repeatInterleave(OpContext &ctx) {
  auto [self, dim] = alongDim(ctx, ctx.tensor("self"));
  int64_t repeats = ctx.integer("repeats");
  SmallVector<int64_t> shape(Emit::shapeOf(self));
  shape.insert(shape.begin() + dim + 1, repeats);
  Value wide = ctx.emit.expand(ctx.emit.unsqueeze(self, dim + 1), shape);
  shape.erase(shape.begin() + dim + 1);
  shape[dim] *= repeats;
  return {ctx.emit.view(wide, shape)};
}

/// 0 repeats[0] times, 1 repeats[1] times, ...
static std::vector<int64_t> interleaved(OpContext &ctx, int64_t count) {
  std::optional<std::vector<int64_t>> repeats = constantIntegers(ctx, "repeats");
  if (!repeats)
    fail("the number of repetitions depends on data; pass it as a Python number");
  std::vector<int64_t> positions;
  for (int64_t i = 0; i < count; ++i)
    positions.insert(positions.end(), tableSize((*repeats)[repeats->size() == 1 ? 0 : i]), i);
  return positions;
}

static Results repeatInterleaveTensor(OpContext &ctx) {
  auto [self, dim] = alongDim(ctx, ctx.tensor("self"));
  return {ctx.emit.gather(self, interleaved(ctx, Emit::shapeOf(self)[dim]), dim)};
}

static Results repeatInterleaveIndices(OpContext &ctx) {
  std::vector<int64_t> positions = interleaved(ctx, Emit::typeOf(ctx.tensor("repeats")).getNumElements());
  return {ctx.emit.cast(ctx.emit.integers({static_cast<int64_t>(positions.size())}, positions), ctx.resultElement())};
}

//===-- Padding -----------------------------------------------------------------------------------===//

Value padWith(Emit &emit, Value value, ArrayRef<int64_t> low, ArrayRef<int64_t> high, Scalar fill, bool isComplex) {
  if (!isComplex || fill.number == 0)
    return emit.pad(value, low, high, fill);
  auto part = [&](int64_t i, Scalar filled) {
    return emit.unsqueeze(emit.pad(emit.select(value, -1, i), low.drop_back(), high.drop_back(), filled), -1);
  };
  return emit.concat({part(0, fill), part(1, Scalar::of(0.0))}, -1);
}

static Value padConstant(OpContext &ctx, ArrayRef<int64_t> amounts, Scalar fill) {
  Value self = ctx.tensor("self");
  int64_t rank = torchRank(ctx, "self", self);
  SmallVector<int64_t> low(Emit::rankOf(self), 0), high = low;
  for (size_t i = 0; i + 1 < amounts.size(); i += 2) {
    // Pairs run from the last dimension to the first.
    low[rank - 1 - i / 2] = amounts[i];
    high[rank - 1 - i / 2] = amounts[i + 1];
  }
  return padWith(ctx.emit, self, low, high, fill, ctx.isComplex("self"));
}

/// Where position `i`, maybe outside [0, size), reads by the padding mode.
static int64_t padSource(int64_t i, int64_t size, std::string_view mode) {
  if (mode == "replicate")
    return std::clamp<int64_t>(i, 0, size - 1);
  if (mode == "circular")
    return ((i % size) + size) % size;
  if (i < 0)
    return -i;
  return i >= size ? 2 * size - 2 - i : i;
}

static Value padByMode(OpContext &ctx, ArrayRef<int64_t> amounts, std::string_view mode) {
  Value value = ctx.tensor("self");
  int64_t rank = torchRank(ctx, "self", value);
  for (size_t i = 0; i + 1 < amounts.size(); i += 2) {
    int64_t dim = rank - 1 - i / 2, size = Emit::shapeOf(value)[dim];
    std::vector<int64_t> positions;
    for (int64_t p = -amounts[i]; p < size + amounts[i + 1]; ++p) {
      positions.push_back(padSource(p, size, mode));
      if (positions.back() < 0 || positions.back() >= size)
        fail("{} padding of {} and {} is too wide for size {}", mode, amounts[i], amounts[i + 1], size);
    }
    value = ctx.emit.gather(value, positions, dim);
  }
  return value;
}

static Results pad(OpContext &ctx) {
  std::string mode = ctx.text("mode", "constant");
  std::vector<int64_t> amounts = ctx.integers("pad");
  if (mode == "constant")
    return {padConstant(ctx, amounts, ctx.scalar("value", Scalar::of(0.0)))};
  if (mode != "reflect" && mode != "replicate" && mode != "circular")
    fail("padding mode '{}' is not supported", mode);
  return {padByMode(ctx, amounts, mode)};
}

static Results constantPad(OpContext &ctx) {
  return {padConstant(ctx, ctx.integers("pad"), ctx.scalar("value", Scalar::of(0.0)))};
}
static Results reflectionPad(OpContext &ctx) { return {padByMode(ctx, ctx.integers("padding"), "reflect")}; }
static Results replicationPad(OpContext &ctx) { return {padByMode(ctx, ctx.integers("padding"), "replicate")}; }

//===-- Rolls and shuffles ------------------------------------------------------------------------===//

static Results roll(OpContext &ctx) {
  Value self = ctx.tensor("self"), value = self;
  std::vector<int64_t> shifts = ctx.integers("shifts"), dims = ctx.integers("dims", {});
  if (dims.empty()) { // over the flattened tensor
    SmallVector<int64_t> flat{Emit::typeOf(self).getNumElements()};
    if (ctx.isComplex("self"))
      flat = {flat[0] / 2, 2};
    value = ctx.emit.view(self, flat);
    dims = {0};
  }
  for (auto [shift, dim] : llvm::zip(shifts, dims)) {
    int64_t axis = normaliseDim(dim, Emit::rankOf(value) - ctx.isComplex("self")), size = Emit::shapeOf(value)[axis];
    int64_t cut = size == 0 ? 0 : ((size - shift) % size + size) % size;
    if (cut != 0)
      value = ctx.emit.concat({ctx.emit.slice(value, axis, cut, size), ctx.emit.slice(value, axis, 0, cut)}, axis);
  }
  return {ctx.emit.view(value, Emit::shapeOf(self))};
}

static Value reversed(Emit &emit, Value value, int64_t dim) {
  std::vector<int64_t> positions;
  for (int64_t i = Emit::shapeOf(value)[dim]; i-- > 0;)
    positions.push_back(i);
  return positions.size() < 2 ? value : emit.gather(value, positions, dim);
}

static Results flip(OpContext &ctx) {
  Value value = ctx.tensor("self");
  int64_t rank = torchRank(ctx, "self", value);
  for (int64_t dim : ctx.integers("dims"))
    value = reversed(ctx.emit, value, normaliseDim(dim, rank));
  return {value};
}

static Results flipDim(OpContext &ctx, int64_t dim) { return {reversed(ctx.emit, ctx.tensor("self"), dim)}; }

/// Quarter turns in the plane of two dimensions.
static Results rot90(OpContext &ctx) {
  Value self = ctx.tensor("self");
  std::vector<int64_t> plane = ctx.integers("dims", {0, 1});
  int64_t first = normaliseDim(plane[0], Emit::rankOf(self)), second = normaliseDim(plane[1], Emit::rankOf(self));
  switch (((ctx.integer("k", 1) % 4) + 4) % 4) {
  case 1: return {ctx.emit.transpose(reversed(ctx.emit, self, second), first, second)};
  case 2: return {reversed(ctx.emit, reversed(ctx.emit, self, first), second)};
  case 3: return {ctx.emit.transpose(reversed(ctx.emit, self, first), first, second)};
  default: return {self};
  }
}

/// [.., C r r, H, W] to [.., C, H r, W r], or back.
static Results pixelShuffle(OpContext &ctx) {
  Value self = ctx.tensor("self");
  int64_t r = ctx.integer("upscale_factor"), rank = Emit::rankOf(self);
  SmallVector<int64_t> split(Emit::shapeOf(self).drop_back(3)),
      order = llvm::to_vector(llvm::seq<int64_t>(0, rank - 3));
  ArrayRef<int64_t> image = Emit::shapeOf(self).take_back(3);
  split.append({image[0] / (r * r), r, r, image[1], image[2]});
  for (int64_t dim : {0, 3, 1, 4, 2})
    order.push_back(rank - 3 + dim);
  return {ctx.emit.view(ctx.emit.permute(ctx.emit.view(self, split), order), ctx.resultType().getShape())};
}

static Results pixelUnshuffle(OpContext &ctx) {
  Value self = ctx.tensor("self");
  int64_t r = ctx.integer("downscale_factor"), rank = Emit::rankOf(self);
  SmallVector<int64_t> split(Emit::shapeOf(self).drop_back(3)),
      order = llvm::to_vector(llvm::seq<int64_t>(0, rank - 3));
  ArrayRef<int64_t> image = Emit::shapeOf(self).take_back(3);
  split.append({image[0], image[1] / r, r, image[2] / r, r});
  for (int64_t dim : {0, 2, 4, 1, 3})
    order.push_back(rank - 3 + dim);
  return {ctx.emit.view(ctx.emit.permute(ctx.emit.view(self, split), order), ctx.resultType().getShape())};
}

static Results channelShuffle(OpContext &ctx) {
  Value self = ctx.tensor("self");
  int64_t groups = ctx.integer("groups");
  SmallVector<int64_t> split(Emit::shapeOf(self));
  split[1] /= groups;
  split.insert(split.begin() + 1, groups);
  return {ctx.emit.view(ctx.emit.transpose(ctx.emit.view(self, split), 1, 2), Emit::shapeOf(self))};
}

//===-- Copies with a part replaced ---------------------------------------------------------------===//

static Results sliceScatter(OpContext &ctx) {
  Value self = ctx.tensor("self");
  int64_t dim = dimArgument(ctx, "dim", 0, torchRank(ctx, "self", self)), size = Emit::shapeOf(self)[dim];
  auto clamp = [size](int64_t position) {
    return std::clamp<int64_t>(position < 0 ? position + size : position, 0, size);
  };
  int64_t start = clamp(ctx.integer("start", 0)), end = clamp(ctx.integer("end", std::numeric_limits<int64_t>::max()));
  int64_t step = ctx.integer("step", 1);
  SmallVector<int64_t> shape(Emit::shapeOf(self));
  shape[dim] = std::max<int64_t>(0, (end - start + step - 1) / step);
  Value source = ctx.emit.expand(ctx.emit.cast(ctx.tensor("src"), ctx.resultElement()), shape);
  return {replaceSlice(ctx.emit, self, source, dim, start, step)};
}

static Results selectScatter(OpContext &ctx) {
  Value self = ctx.tensor("self");
  int64_t dim = dimArgument(ctx, "dim", 0, torchRank(ctx, "self", self)), index = ctx.integer("index");
  index = index < 0 ? index + Emit::shapeOf(self)[dim] : index;
  SmallVector<int64_t> shape(Emit::shapeOf(self));
  shape.erase(shape.begin() + dim);
  Value source = ctx.emit.expand(ctx.emit.cast(ctx.tensor("src"), ctx.resultElement()), shape);
  return {replaceSlice(ctx.emit, self, ctx.emit.unsqueeze(source, dim), dim, index, 1)};
}

static Results diagonalScatter(OpContext &ctx) {
  // Rows and columns last and merged, as in takeDiagonal.
  Value self = ctx.tensor("self");
  int64_t rank = Emit::rankOf(self), offset = ctx.integer("offset", 0);
  int64_t rowDim = dimArgument(ctx, "dim1", 0, rank), columnDim = dimArgument(ctx, "dim2", 1, rank);
  SmallVector<int64_t> order, back(rank);
  for (int64_t i = 0; i < rank; ++i)
    if (i != rowDim && i != columnDim)
      order.push_back(i);
  order.append({rowDim, columnDim});
  for (auto [i, from] : llvm::enumerate(order))
    back[from] = i;
  Value matrix = ctx.emit.permute(self, order), flat = mergeDims(ctx.emit, matrix, rank - 2, 2);
  int64_t columns = Emit::shapeOf(matrix)[rank - 1], first = offset >= 0 ? offset : -offset * columns;
  Value source = ctx.emit.cast(ctx.tensor("src"), ctx.resultElement());
  Value written = replaceSlice(ctx.emit, flat, source, rank - 2, first, columns + 1);
  return {ctx.emit.permute(ctx.emit.view(written, Emit::shapeOf(matrix)), back)};
}

std::vector<OpRow> atenRearrange() {
  using enum Aliasing;
  return {
      {"aten.repeat.default", [](OpContext &ctx) { return repeat(ctx, "repeats"); }, Fresh, true},
      {"aten.tile.default", [](OpContext &ctx) { return repeat(ctx, "dims"); }, Fresh, true},
      {"aten.repeat_interleave.self_int", repeatInterleave, Fresh, true},
      {"aten.repeat_interleave.self_Tensor", repeatInterleaveTensor, Fresh, true},
      {"aten.repeat_interleave.Tensor", repeatInterleaveIndices},
      {"aten.pad.default", pad, Fresh, true},
      {"aten.constant_pad_nd.default", constantPad, Fresh, true},
      {"aten.reflection_pad1d.default", reflectionPad},
      {"aten.reflection_pad2d.default", reflectionPad},
      {"aten.reflection_pad3d.default", reflectionPad},
      {"aten.replication_pad1d.default", replicationPad},
      {"aten.replication_pad2d.default", replicationPad},
      {"aten.replication_pad3d.default", replicationPad},
      {"aten.roll.default", roll, Fresh, true},
      {"aten.flip.default", flip, Fresh, true},
      {"aten.fliplr.default", [](OpContext &ctx) { return flipDim(ctx, 1); }},
      {"aten.flipud.default", [](OpContext &ctx) { return flipDim(ctx, 0); }},
      {"aten.rot90.default", rot90},
      {"aten.pixel_shuffle.default", pixelShuffle},
      {"aten.pixel_unshuffle.default", pixelUnshuffle},
      {"aten.channel_shuffle.default", channelShuffle},
      {"aten.slice_scatter.default", sliceScatter, Fresh, true},
      {"aten.diagonal_scatter.default", diagonalScatter},
      {"aten.select_scatter.default", selectScatter, Fresh, true},
  };
}

} // namespace ditc
