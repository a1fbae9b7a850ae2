// SPDX-License-Identifier: Apache-2.0
//
// Upsampling and interpolation. Where outputs lie among inputs follows torch's kernels to the rounding:
// scales are computed in f32 (f64 for f64 tensors), from the scale factor when one is given, else from the
// sizes.
#include "compiler/import/Elementwise.h"
#include "compiler/import/Products.h"
#include "compiler/import/Reductions.h"
#include "compiler/import/Resample.h"

#include "runtime/Error.h"

#include <array>
#include <cmath>

using namespace mlir;

namespace ditc {

using Results = std::vector<Value>;

Value resampleAxis(Emit &emit, Value value, int64_t axis, const Weights &weights) {
  Type wide = wideElement(emit, Emit::elementOf(value));
  value = emit.cast(value, wide);
  Value matrix = emit.cast(emit.doubles({weights.outputs, weights.inputs}, weights.values), wide);
  int64_t rank = Emit::rankOf(value);
  if (axis == rank - 1)
    return product(emit, value, emit.transpose(matrix, 0, 1), wide);
  // The dimensions behind the axis are columns.
  ArrayRef<int64_t> shape = Emit::shapeOf(value);
  SmallVector<int64_t> columns(shape.take_front(axis + 1)), result(shape);
  columns.push_back(ShapedType::getNumElements(shape.drop_front(axis + 1)));
  result[axis] = weights.outputs;
  return emit.view(product(emit, matrix, emit.view(value, columns), wide), result);
}

namespace {

/// One dimension of an upsampling.
struct Axis {
  int64_t axis, inputs, outputs;
  std::optional<double> factor; ///< the scale factor that the user gave
  bool alignCorners;
  bool isDouble;

  /// What torch rounds its coordinates to.
  double rounded(double number) const { return isDouble ? number : static_cast<double>(static_cast<float>(number)); }
  /// Inputs per output, as area_pixel_compute_scale has it.
  double scale() const {
    if (alignCorners)
      return outputs > 1 ? rounded(rounded(static_cast<double>(inputs - 1)) / static_cast<double>(outputs - 1)) : 0.0;
    return sizeScale();
  }
  double sizeScale() const {
    if (factor && *factor > 0)
      return rounded(1.0 / *factor);
    return rounded(rounded(static_cast<double>(inputs)) / static_cast<double>(outputs));
  }
  /// Where the centre of `output` lies among the inputs.
  double source(int64_t output) const {
    if (alignCorners)
      return rounded(scale() * static_cast<double>(output));
    return rounded(rounded(scale() * rounded(static_cast<double>(output) + 0.5)) - 0.5);
  }
};

} // namespace

/// The upsampled dimensions of the node, first to last. Factors come as a list (".vec") or one by one.
static std::vector<Axis> axesToResample(OpContext &op, Value input, int64_t spatial) {
  static constexpr std::array<const char *, 3> kNames[] = {
      {"scales", "", ""}, {"scales_h", "scales_w", ""}, {"scales_d", "scales_h", "scales_w"}};
  std::optional<std::vector<double>> factors = op.optionalNumbers("scale_factors");
  int64_t first = Emit::rankOf(input) - spatial;
  std::vector<Axis> axes;
  for (int64_t i = 0; i < spatial; ++i) {
    std::optional<double> factor = op.optionalNumber(kNames[spatial - 1][i]);
    if (factors)
      factor = factors->at(i);
    axes.push_back({first + i, Emit::shapeOf(input)[first + i], op.resultType().getShape()[first + i], factor,
                    op.flag("align_corners", false), Emit::elementOf(input).isF64()});
  }
  return axes;
}

//===-- Nearest -----------------------------------------------------------------------------------===//

/// torch computes these positions in f32 for all types.
static std::vector<int64_t> nearestPositions(Axis axis, bool exact) {
  axis.isDouble = false;
  std::vector<int64_t> positions;
  for (int64_t output = 0; output < axis.outputs; ++output) {
    float place = static_cast<float>(output) + (exact ? 0.5f : 0.0f);
    int64_t position = static_cast<int64_t>(std::floor(place * static_cast<float>(axis.sizeScale())));
    if (!exact && axis.outputs == axis.inputs)
      position = output;
    else if (!exact && axis.outputs == 2 * axis.inputs)
      position = output / 2;
    positions.push_back(std::min(position, axis.inputs - 1));
  }
  return positions;
}

/// How often each element is repeated, when it is equally often and in order; else 0.
static int64_t repeatsOf(ArrayRef<int64_t> positions, int64_t inputs) {
  int64_t count = positions.size();
  if (inputs == 0 || count % inputs != 0)
    return 0;
  for (int64_t i = 0; i < count; ++i)
    if (positions[i] != i / (count / inputs))
      return 0;
  return count / inputs;
}

static Value chooseAlong(Emit &emit, Value value, int64_t axis, ArrayRef<int64_t> positions) {
  SmallVector<int64_t> shape(Emit::shapeOf(value));
  int64_t repeats = repeatsOf(positions, shape[axis]);
  if (repeats == 0)
    return emit.gather(value, positions, axis);
  if (repeats == 1)
    return value;
  SmallVector<int64_t> repeated(shape);
  repeated.insert(repeated.begin() + axis + 1, repeats);
  shape[axis] *= repeats;
  return emit.view(emit.expand(emit.unsqueeze(value, axis + 1), repeated), shape);
}

static OpImport nearest(int64_t spatial, bool exact) {
  return [=](OpContext &op) -> Results {
    Value value = op.tensor(op.node.find("input") ? "input" : "self");
    for (const Axis &axis : axesToResample(op, value, spatial))
      value = chooseAlong(op.emit, value, axis.axis, nearestPositions(axis, exact));
    return {value};
  };
}

//===-- Linear and cubic --------------------------------------------------------------------------===//

static Weights linearWeights(const Axis &axis) {
  Weights weights(axis.outputs, axis.inputs);
  for (int64_t output = 0; output < axis.outputs; ++output) {
    double source = axis.inputs == axis.outputs ? static_cast<double>(output) : std::max(axis.source(output), 0.0);
    int64_t low = std::min(static_cast<int64_t>(source), axis.inputs - 1), high = std::min(low + 1, axis.inputs - 1);
    double rest = std::clamp(axis.rounded(source - static_cast<double>(low)), 0.0, 1.0);
    weights.add(output, low, axis.rounded(1.0 - rest));
    weights.add(output, high, rest);
  }
  return weights;
}

/// Keys' cubic convolution with parameter `a` at distance `x`.
static double cubic(double x, double a) {
  x = std::fabs(x);
  if (x <= 1)
    return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0.0;
}

static Weights cubicWeights(const Axis &axis) {
  constexpr double kParameter = -0.75; // torch's, and OpenCV's
  Weights weights(axis.outputs, axis.inputs);
  for (int64_t output = 0; output < axis.outputs; ++output) {
    double source = axis.source(output), low = std::floor(source), rest = axis.rounded(source - low);
    for (int64_t tap = -1; tap <= 2; ++tap) {
      int64_t input = std::clamp<int64_t>(static_cast<int64_t>(low) + tap, 0, axis.inputs - 1);
      weights.add(output, input, cubic(rest - static_cast<double>(tap), kParameter));
    }
  }
  return weights;
}

/// Antialiased: the filter widens with the scale, as in PIL; weights add up to 1.
static Weights antialiasedWeights(const Axis &axis, double support, double (*filter)(double)) {
  Weights weights(axis.outputs, axis.inputs);
  double scale = axis.scale(), radius = support * std::max(scale, 1.0), shrink = scale >= 1 ? 1 / scale : 1.0;
  for (int64_t output = 0; output < axis.outputs; ++output) {
    double center = scale * (static_cast<double>(output) + 0.5);
    int64_t first = std::max<int64_t>(static_cast<int64_t>(center - radius + 0.5), 0);
    int64_t last = std::min<int64_t>(static_cast<int64_t>(center + radius + 0.5), axis.inputs);
    double total = 0;
    auto weightAt = [&](int64_t input) { return filter((static_cast<double>(input) - center + 0.5) * shrink); };
    for (int64_t input = first; input < last; ++input)
      total += weightAt(input);
    for (int64_t input = first; input < last; ++input)
      weights.add(output, input, total != 0 ? weightAt(input) / total : 0.0);
  }
  return weights;
}

static Weights antialiasedLinear(const Axis &axis) {
  return antialiasedWeights(axis, 1, [](double x) { return std::max(0.0, 1 - std::fabs(x)); });
}

static Weights antialiasedCubic(const Axis &axis) {
  return antialiasedWeights(axis, 2, [](double x) { return cubic(x, -0.5); });
}

static OpImport interpolate(int64_t spatial, Weights (*weightsOf)(const Axis &)) {
  return [=](OpContext &op) -> Results {
    Value value = op.tensor(op.node.find("input") ? "input" : "self");
    for (const Axis &axis : axesToResample(op, value, spatial)) {
      Weights weights = weightsOf(axis);
      bool isIdentity = axis.inputs == axis.outputs;
      for (int64_t i = 0; i < axis.outputs && isIdentity; ++i)
        isIdentity = weights.values[i * axis.inputs + i] == 1.0;
      if (!isIdentity)
        value = resampleAxis(op.emit, value, axis.axis, weights);
    }
    return {op.emit.cast(value, op.resultElement())};
  };
}

std::vector<OpRow> resampleRows() {
  ElementwiseRows rows;
  rows.row({"aten.upsample_nearest1d.default", "aten.upsample_nearest1d.vec"}, nearest(1, false));
  rows.row({"aten.upsample_nearest2d.default", "aten.upsample_nearest2d.vec"}, nearest(2, false));
  rows.row({"aten.upsample_nearest3d.default", "aten.upsample_nearest3d.vec"}, nearest(3, false));
  rows.row({"aten._upsample_nearest_exact1d.default", "aten._upsample_nearest_exact1d.vec"}, nearest(1, true));
  rows.row({"aten._upsample_nearest_exact2d.default", "aten._upsample_nearest_exact2d.vec"}, nearest(2, true));
  rows.row({"aten._upsample_nearest_exact3d.default", "aten._upsample_nearest_exact3d.vec"}, nearest(3, true));
  rows.row({"aten.upsample_linear1d.default", "aten.upsample_linear1d.vec"}, interpolate(1, linearWeights));
  rows.row({"aten.upsample_bilinear2d.default", "aten.upsample_bilinear2d.vec"}, interpolate(2, linearWeights));
  rows.row({"aten.upsample_trilinear3d.default", "aten.upsample_trilinear3d.vec"}, interpolate(3, linearWeights));
  rows.row({"aten.upsample_bicubic2d.default", "aten.upsample_bicubic2d.vec"}, interpolate(2, cubicWeights));
  rows.row({"aten._upsample_bilinear2d_aa.default", "aten._upsample_bilinear2d_aa.vec"}, interpolate(2, antialiasedLinear));
  rows.row({"aten._upsample_bicubic2d_aa.default", "aten._upsample_bicubic2d_aa.vec"}, interpolate(2, antialiasedCubic));
  return rows.take();
}

} // namespace ditc
