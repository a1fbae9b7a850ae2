// SPDX-License-Identifier: Apache-2.0
//
// Samples at places that are data (deformable attention, triplanes): grid_sample as rows of pixels by index, weighted and
// added; and affine_grid, which makes such places. A corner outside has weight 0 and reads pixel 0, so that no place, NaN
// included, reads beside the image.
#include "compiler/import/AtenHelpers.h"
#include "compiler/import/Elementwise.h"
#include "compiler/import/Num.h"
#include "compiler/import/Reductions.h"
#include "compiler/import/Fourier.h"

#include "runtime/Error.h"

using namespace mlir;

namespace ditc {

using Results = std::vector<Value>;

namespace {

enum class Interpolation : int64_t { Linear, Nearest, Cubic };
enum class Outside : int64_t { Zeros, Border, Reflection };

/// Along one dimension of the image: the coordinate in pixels, and what it means outside.
struct Sampler {
  int64_t size;
  Outside outside;
  bool alignCorners;

  Num pixel(Num place) const {
    return alignCorners ? (place + 1.0) * (static_cast<double>(size - 1) / 2) : ((place + 1.0) * static_cast<double>(size) - 1.0) * 0.5;
  }

  /// NaN becomes 0.
  Num clipped(Num x) const {
    double last = static_cast<double>(size - 1);
    Num low = select(x > 0.0, x, x.constant(0.0));
    return select(low < last, low, x.constant(last));
  }

  Num reflected(Num x) const {
    double low = alignCorners ? 0.0 : -0.5, span = static_cast<double>(alignCorners ? size - 1 : size);
    if (span <= 0)
      return x.constant(0.0);
    Num distance = abs(x - low), rest = fmod(distance, x.constant(span)), half = floor(distance / span) * 0.5;
    return clipped(select(half == floor(half), rest + low, span - rest + low));
  }

  Num inside(Num x) const { return outside == Outside::Border ? clipped(x) : outside == Outside::Reflection ? reflected(x) : x; }
  /// Is a whole position a pixel?
  Num isPixel(Num position) const { return (position >= 0.0) & (position <= static_cast<double>(size - 1)); }
};

/// One of the pixels along a dimension that a sample is made of: at an offset from the pixel below it.
struct Tap {
  Interpolation interpolation;
  int64_t offset;

  static std::vector<Tap> of(Interpolation interpolation) {
    if (interpolation == Interpolation::Nearest)
      return {{interpolation, 0}};
    if (interpolation == Interpolation::Linear)
      return {{interpolation, 0}, {interpolation, 1}};
    return {{interpolation, -1}, {interpolation, 0}, {interpolation, 1}, {interpolation, 2}};
  }

  Num position(const Sampler &sampler, Num place) const {
    Num x = sampler.pixel(place);
    if (interpolation == Interpolation::Nearest)
      return roundEven(sampler.inside(x));
    if (interpolation == Interpolation::Linear)
      return floor(sampler.inside(x)) + static_cast<double>(offset);
    return sampler.inside(floor(x) + static_cast<double>(offset)); // pixels are mirrored one by one
  }

  Num weight(const Sampler &sampler, Num place) const {
    Num x = sampler.pixel(place), one = x.constant(1.0);
    if (interpolation == Interpolation::Nearest)
      return one;
    if (interpolation == Interpolation::Linear) {
      Num inside = sampler.inside(x), rest = inside - floor(inside);
      return offset == 1 ? rest : one - rest;
    }
    Num distance = abs(x - floor(x) - static_cast<double>(offset)); // Keys' cubic convolution
    constexpr double a = -0.75;
    Num near = ((a + 2) * distance - (a + 3)) * distance * distance + 1.0, far = (((distance - 5.0) * distance + 8.0) * distance - 4.0) * a;
    return offset == 0 || offset == 1 ? near : far;
  }
};

/// Index of a pixel along its dimension, or its weight.
Value indexOf(Emit &emit, Value places, const Sampler &sampler, Tap tap) {
  return emit.map(places, emit.builder().getI64Type(), [&](ImplicitLocOpBuilder &body, ValueRange v) -> Value {
    Num position = tap.position(sampler, {body, v[0]});
    return select(sampler.isPixel(position), position, position.constant(0.0)).to(body.getI64Type()).value();
  });
}

Value weightOf(Emit &emit, Value places, const Sampler &sampler, Tap tap) {
  return emit.map(places, Emit::elementOf(places), [&](ImplicitLocOpBuilder &body, ValueRange v) -> Value {
    Num place(body, v[0]), weight = tap.weight(sampler, place);
    return select(sampler.isPixel(tap.position(sampler, place)), weight, weight.constant(0.0)).value();
  });
}

} // namespace

static Results gridSample(OpContext &ctx) {
  Emit &emit = ctx.emit;
  Value image = ctx.tensor("input"), grid = ctx.tensor("grid");
  int64_t spatial = Emit::rankOf(image) - 2, batch = Emit::shapeOf(image)[0], channels = Emit::shapeOf(image)[1];
  auto interpolation = static_cast<Interpolation>(ctx.integer("interpolation_mode", 0));
  auto outside = static_cast<Outside>(ctx.integer("padding_mode", 0));
  Type wide = wideElement(emit, Emit::elementOf(image)), whole = emit.builder().getI64Type();
  grid = emit.cast(grid, wide);

  SmallVector<int64_t> order{0}, sizes(Emit::shapeOf(image).drop_front(2)), back{0, spatial + 1};
  for (int64_t i = 0; i < spatial; ++i)
    order.push_back(2 + i), back.push_back(1 + i);
  order.push_back(1);
  int64_t pixels = ShapedType::getNumElements(sizes);
  Value rows = emit.view(emit.cast(emit.permute(image, order), wide), {batch * pixels, channels});
  Value first = emit.mul(iota(emit, batch, 0, spatial + 1), emit.number(Scalar::of(pixels)), whole);

  std::vector<Tap> taps = Tap::of(interpolation);
  int64_t corners = 1;
  for (int64_t i = 0; i < spatial; ++i)
    corners *= static_cast<int64_t>(taps.size());
  Value sum;
  for (int64_t corner = 0; corner < corners; ++corner) {
    Value index = first, weight;
    int64_t rest = corner, stride = 1;
    for (int64_t i = spatial; i-- > 0;) { // the grid has the last dimension first
      Value places = emit.select(grid, -1, spatial - 1 - i);
      Sampler sampler{sizes[i], outside, ctx.flag("align_corners", false)};
      Tap tap = taps[rest % taps.size()];
      rest /= static_cast<int64_t>(taps.size());
      index = emit.add(index, emit.mul(indexOf(emit, places, sampler, tap), emit.number(Scalar::of(stride)), whole), whole);
      Value own = weightOf(emit, places, sampler, tap);
      weight = weight ? emit.mul(weight, own, wide) : own;
      stride *= sizes[i];
    }
    Value term = emit.mul(emit.gather(rows, index, 0), emit.unsqueeze(weight, -1), wide);
    sum = sum ? emit.add(sum, term, wide) : term;
  }
  return {emit.cast(emit.permute(sum, back), ctx.resultElement())};
}

/// theta times the homogeneous coordinates of the pixels' centres, -1 to 1.
static Results affineGrid(OpContext &ctx) {
  Emit &emit = ctx.emit;
  Value theta = ctx.tensor("theta");
  Type wide = wideElement(emit, Emit::elementOf(theta));
  SmallVector<int64_t> sizes(ctx.resultType().getShape().drop_front().drop_back());
  int64_t dims = static_cast<int64_t>(sizes.size()), count = tableSize(ShapedType::getNumElements(sizes) * (dims + 1));
  bool alignCorners = ctx.flag("align_corners", false);
  std::vector<double> places(count, 1.0); // the last one stays 1
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i / (dims + 1), column = i % (dims + 1);
    for (int64_t dim = dims; dim-- > 0; rest /= sizes[dim])
      if (dims - 1 - dim == column) {
        double centre = static_cast<double>(2 * (rest % sizes[dim]) + 1 - sizes[dim]), span = static_cast<double>(alignCorners ? sizes[dim] - 1 : sizes[dim]);
        places[i] = span > 0 ? centre / span : 0.0;
      }
  }
  Value base = emit.cast(emit.doubles({1, count / (dims + 1), 1, dims + 1}, places), wide);
  Value terms = emit.mul(base, emit.unsqueeze(emit.cast(theta, wide), 1), wide);
  return {emit.view(emit.reduce(dit::ReduceKind::Sum, terms, {-1}, false, ctx.resultElement()), ctx.resultType().getShape())};
}

std::vector<OpRow> sampleRows() {
  return {
      {"aten.grid_sampler.default", gridSample},
      {"aten.grid_sampler_2d.default", gridSample},
      {"aten.grid_sampler_3d.default", gridSample},
      {"aten.affine_grid_generator.default", affineGrid},
  };
}

} // namespace ditc
