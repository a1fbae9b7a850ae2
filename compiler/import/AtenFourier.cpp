// SPDX-License-Identifier: Apache-2.0
//
// Fourier transforms as products with tables of cosines and sines, one for each dimension that is transformed. Models that
// mix tokens or filter images by them (FNet, GFNet, Fourier operators, FreeU) have dimensions of tens to hundreds, where a
// product costs no more than a transform of its own would. Complex tensors have a last dimension of 2.
#include "compiler/import/AtenHelpers.h"
#include "compiler/import/Elementwise.h"
#include "compiler/import/Fourier.h"
#include "compiler/import/Products.h"

#include "runtime/Error.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>

using namespace mlir;

namespace ditc {

using Results = std::vector<Value>;

namespace {

constexpr int64_t kLargest = 2048; // a table of 64 MiB in f32

/// One transform along one dimension.
struct Transform {
  int64_t axis, size;
  bool inverse;
  double scale;

  double angle(int64_t i, int64_t k) const {
    double turns = static_cast<double>(i * k % size) / static_cast<double>(size);
    return (inverse ? 2 : -2) * std::numbers::pi * turns;
  }
};

/// value[..., size, (2)] of `axis` times `table`, whose rows and columns are (element, part).
Value transformed(Emit &emit, Value value, bool fromComplex, bool toComplex, int64_t axis, int64_t outputs, ArrayRef<double> table) {
  Type element = Emit::elementOf(value);
  int64_t rank = Emit::rankOf(value) - fromComplex, inputs = Emit::shapeOf(value)[axis] * (fromComplex ? 2 : 1);
  SmallVector<int64_t> order, back;
  for (int64_t i = 0; i < rank; ++i)
    if (i != axis)
      order.push_back(i);
  order.push_back(axis);
  for (int64_t i = 0; i < rank; ++i)
    back.push_back(i == axis ? rank - 1 : i - (i > axis));
  if (fromComplex)
    order.push_back(rank);
  if (toComplex)
    back.push_back(rank);
  value = emit.permute(value, order);
  SmallVector<int64_t> shape(Emit::shapeOf(value).take_front(rank - 1)), rows(shape);
  rows.push_back(inputs);
  int64_t columns = outputs * (toComplex ? 2 : 1);
  value = product(emit, emit.view(value, rows), emit.cast(emit.doubles({inputs, columns}, table), element), element);
  shape.push_back(outputs);
  if (toComplex)
    shape.push_back(2);
  return emit.permute(emit.view(value, shape), back);
}

/// Cut or filled with zeros to `size` elements.
Value resized(Emit &emit, Value value, int64_t axis, int64_t size) {
  int64_t have = Emit::shapeOf(value)[axis];
  SmallVector<int64_t> low(Emit::rankOf(value), 0), high(low);
  high[axis] = std::max<int64_t>(size - have, 0);
  return have >= size ? emit.slice(value, axis, 0, size) : emit.pad(value, low, high, Scalar::of(0.0));
}

Value withImaginary(Emit &emit, Value real) {
  Value part = emit.unsqueeze(real, -1);
  return emit.concat({part, emit.full(Emit::shapeOf(part), Emit::elementOf(part), Scalar::of(0.0))}, -1);
}

} // namespace

static void checkSize(int64_t size) {
  if (size < 1 || size > kLargest)
    fail("transforms {} elements; Fourier transforms of 1 to {} are supported, as products with a table", size, kLargest);
}

/// Complex to complex; all frequencies.
static Value fourier(Emit &emit, Value value, const Transform &t) {
  checkSize(t.size);
  value = resized(emit, value, t.axis, t.size);
  std::vector<double> table(tableSize(4 * t.size * t.size));
  for (int64_t i = 0; i < t.size; ++i)
    for (int64_t k = 0; k < t.size; ++k) {
      double cosine = t.scale * std::cos(t.angle(i, k)), sine = t.scale * std::sin(t.angle(i, k));
      double *real = &table[2 * i * 2 * t.size + 2 * k], *imaginary = real + 2 * t.size;
      real[0] = cosine, real[1] = sine, imaginary[0] = -sine, imaginary[1] = cosine;
    }
  return transformed(emit, value, true, true, t.axis, t.size, table);
}

/// Real to complex; the frequencies up to half the size, or all.
static Value fourierOfReal(Emit &emit, Value value, const Transform &t, bool onesided) {
  checkSize(t.size);
  value = resized(emit, value, t.axis, t.size);
  int64_t outputs = onesided ? t.size / 2 + 1 : t.size;
  std::vector<double> table(tableSize(2 * t.size * outputs));
  for (int64_t i = 0; i < t.size; ++i)
    for (int64_t k = 0; k < outputs; ++k) {
      table[2 * (i * outputs + k)] = t.scale * std::cos(t.angle(i, k));
      table[2 * (i * outputs + k) + 1] = t.scale * std::sin(t.angle(i, k));
    }
  return transformed(emit, value, false, true, t.axis, outputs, table);
}

/// Complex to real: the frequencies up to half the size stand for the others too.
static Value fourierToReal(Emit &emit, Value value, const Transform &t) {
  checkSize(t.size);
  int64_t inputs = t.size / 2 + 1;
  value = resized(emit, value, t.axis, inputs);
  std::vector<double> table(tableSize(2 * inputs * t.size));
  for (int64_t k = 0; k < inputs; ++k)
    for (int64_t i = 0; i < t.size; ++i) {
      bool isAlone = k == 0 || 2 * k == t.size;
      double twice = isAlone ? t.scale : 2 * t.scale;
      table[2 * k * t.size + i] = twice * std::cos(t.angle(i, k));
      table[(2 * k + 1) * t.size + i] = isAlone ? 0 : -twice * std::sin(t.angle(i, k));
    }
  return transformed(emit, value, true, false, t.axis, t.size, table);
}

//===-- The node's transforms ---------------------------------------------------------------------===//

enum class Kind { Complex, FromReal, ToReal };

static double scaleOf(const std::string &norm, int64_t size, bool inverse) {
  double count = static_cast<double>(size);
  if (norm == "ortho")
    return 1 / std::sqrt(count);
  if (norm != "backward" && norm != "forward")
    fail("norm '{}' is not supported", norm);
  return (norm == "backward") == inverse ? 1 / count : 1;
}

/// The dimensions to transform and their sizes, in the order of the node. `one` takes n and dim, others s and dim.
static std::vector<Transform> transformsOf(OpContext &ctx, Value self, int64_t rank, Kind kind, bool inverse, bool one, bool two) {
  std::vector<int64_t> dims, sizes;
  if (one) {
    dims = {ctx.integer("dim", -1)};
    if (std::optional<int64_t> n = ctx.optionalInteger("n"))
      sizes = {*n};
  } else {
    sizes = ctx.optionalIntegers("s").value_or(std::vector<int64_t>());
    std::optional<std::vector<int64_t>> given = ctx.optionalIntegers("dim");
    if (given)
      dims = *given;
    else
      for (int64_t count = two ? 2 : sizes.empty() ? rank : static_cast<int64_t>(sizes.size()), i = -count; i < 0; ++i)
        dims.push_back(i);
  }
  std::vector<Transform> transforms;
  for (size_t i = 0; i < dims.size(); ++i) {
    int64_t axis = normaliseDim(dims[i], rank), have = Emit::shapeOf(self)[axis];
    bool isHalf = kind == Kind::ToReal && i + 1 == dims.size();
    int64_t size = i < sizes.size() && sizes[i] != -1 ? sizes[i] : isHalf ? 2 * (have - 1) : have;
    transforms.push_back({axis, size, inverse, scaleOf(ctx.text("norm", "backward"), size, inverse)});
  }
  return transforms;
}

static OpImport transform(Kind kind, bool inverse, int64_t dims) {
  return [=](OpContext &ctx) -> Results {
    Emit &emit = ctx.emit;
    bool isComplex = ctx.isComplex("self");
    Value value = emit.cast(ctx.tensor("self"), ctx.resultElement());
    int64_t rank = Emit::rankOf(value) - isComplex;
    std::vector<Transform> transforms = transformsOf(ctx, value, rank, kind, inverse, dims == 1, dims == 2);
    if (transforms.empty())
      return {value};
    if (kind == Kind::FromReal) {
      value = fourierOfReal(emit, value, transforms.back(), true);
      transforms.pop_back();
    } else if (!isComplex) {
      value = withImaginary(emit, value);
    }
    std::optional<Transform> last;
    if (kind == Kind::ToReal) {
      last = transforms.back();
      transforms.pop_back();
    }
    for (const Transform &each : transforms)
      value = fourier(emit, value, each);
    return {last ? fourierToReal(emit, value, *last) : value};
  };
}

/// What decompositions have: _fft_r2c, _fft_c2c and _fft_c2r, whose normalization is none, by the root, by the size.
static Results decomposed(OpContext &ctx, Kind kind) {
  Emit &emit = ctx.emit;
  Value value = emit.cast(ctx.tensor("self"), ctx.resultElement());
  int64_t rank = Emit::rankOf(value) - ctx.isComplex("self");
  std::vector<int64_t> dims = ctx.integers("dim");
  bool inverse = kind == Kind::Complex ? !ctx.flag("forward", true) : kind == Kind::ToReal;
  for (size_t i = dims.size(); i-- > 0;) { // the last one is halved: first of all, or after all
    size_t at = kind == Kind::ToReal ? dims.size() - 1 - i : i;
    bool isHalf = at + 1 == dims.size();
    int64_t axis = normaliseDim(dims[at], rank), have = Emit::shapeOf(value)[axis];
    int64_t size = kind == Kind::ToReal && isHalf ? ctx.integer("last_dim_size") : have, mode = ctx.integer("normalization", 0);
    Transform each{axis, size, inverse, mode == 0 ? 1 : mode == 1 ? 1 / std::sqrt(static_cast<double>(size)) : 1 / static_cast<double>(size)};
    if (kind == Kind::FromReal && isHalf)
      value = fourierOfReal(emit, value, each, ctx.flag("onesided", true));
    else
      value = kind == Kind::ToReal && isHalf ? fourierToReal(emit, value, each) : fourier(emit, value, each);
  }
  return {value};
}

/// Frequency 0 to the middle, or back.
static OpImport shift(bool inverse) {
  return [=](OpContext &ctx) -> Results {
    Value value = ctx.tensor("self");
    int64_t rank = Emit::rankOf(value) - ctx.isComplex("self");
    std::vector<int64_t> dims = ctx.integers("dim", {});
    if (dims.empty())
      for (int64_t i = 0; i < rank; ++i)
        dims.push_back(i);
    for (int64_t dim : dims) {
      int64_t axis = normaliseDim(dim, rank), size = Emit::shapeOf(value)[axis], cut = inverse ? size / 2 : size - size / 2;
      if (cut > 0 && cut < size)
        value = ctx.emit.concat({ctx.emit.slice(value, axis, cut, size), ctx.emit.slice(value, axis, 0, cut)}, axis);
    }
    return {value};
  };
}

/// Windows of short-time transforms: `at` says their value for 0 to 1.
static OpImport window(std::function<double(OpContext &, double)> at) {
  return [=](OpContext &ctx) -> Results {
    int64_t length = ctx.integer("window_length"), period = ctx.flag("periodic", true) ? length : length - 1;
    return {tabulate(ctx.emit, ctx.resultType(), [&](int64_t i) { return length == 1 ? 1.0 : at(ctx, static_cast<double>(i) / static_cast<double>(period)); })};
  };
}

/// A transform of each frame of a signal, `hop_length` behind the one before, under a window that stands in the frame's middle.
static Results shortTime(OpContext &ctx) {
  Emit &emit = ctx.emit;
  if (ctx.flag("align_to_window", false))
    fail("stft with align_to_window is not supported; cut the signal before it");
  if (ctx.isComplex("window"))
    fail("stft with a complex window is not supported; multiply frames by it and call fft");
  bool isComplex = ctx.isComplex("self");
  Value signal = emit.cast(ctx.tensor("self"), ctx.resultElement());
  int64_t axis = Emit::rankOf(signal) - 1 - isComplex, size = ctx.integer("n_fft"), hop = ctx.integer("hop_length", size / 4);
  int64_t width = ctx.integer("win_length", size), frames = (Emit::shapeOf(signal)[axis] - size) / hop + 1;
  std::vector<int64_t> positions;
  for (int64_t i = 0; i < tableSize(frames * size); ++i)
    positions.push_back(i / size * hop + i % size);
  Value framed = emit.gather(signal, positions, axis);
  SmallVector<int64_t> shape(Emit::shapeOf(framed));
  shape[axis] = frames;
  shape.insert(shape.begin() + axis + 1, size);
  framed = emit.view(framed, shape);
  int64_t low = (size - width) / 2, high = size - width - low;
  Value window = ctx.optionalTensor("window");
  if (!window)
    window = emit.full({width}, ctx.resultElement(), Scalar::of(1.0));
  window = emit.pad(window, {low}, {high}, Scalar::of(0.0));
  framed = emit.mul(framed, isComplex ? emit.unsqueeze(window, -1) : window, ctx.resultElement());
  Transform each{axis + 1, size, false, ctx.flag("normalized", false) ? 1 / std::sqrt(static_cast<double>(size)) : 1};
  Value result = isComplex ? fourier(emit, framed, each) : fourierOfReal(emit, framed, each, ctx.flag("onesided", true));
  return {emit.transpose(result, axis, axis + 1)};
}

/// first - second · cos(2πt) + third · cos(4πt)
static OpImport cosineWindow(double first, double second, double third = 0) {
  return window([=](OpContext &, double t) { return first - second * std::cos(2 * std::numbers::pi * t) + third * std::cos(4 * std::numbers::pi * t); });
}

static double kaiser(OpContext &ctx, double t) {
  double beta = ctx.number("beta", 12);
  return std::cyl_bessel_i(0, beta * std::sqrt(std::max(0.0, 1 - (2 * t - 1) * (2 * t - 1)))) / std::cyl_bessel_i(0, beta);
}

static double bartlett(OpContext &, double t) { return 1 - std::abs(2 * t - 1); }

std::vector<OpRow> fourierRows() {
  using enum Aliasing;
  return {
      {"aten.fft_fft.default", transform(Kind::Complex, false, 1), Fresh, true},
      {"aten.fft_fft2.default", transform(Kind::Complex, false, 2), Fresh, true},
      {"aten.fft_fftn.default", transform(Kind::Complex, false, 0), Fresh, true},
      {"aten.fft_ifft.default", transform(Kind::Complex, true, 1), Fresh, true},
      {"aten.fft_ifft2.default", transform(Kind::Complex, true, 2), Fresh, true},
      {"aten.fft_ifftn.default", transform(Kind::Complex, true, 0), Fresh, true},
      {"aten.fft_rfft.default", transform(Kind::FromReal, false, 1), Fresh, true},
      {"aten.fft_rfft2.default", transform(Kind::FromReal, false, 2), Fresh, true},
      {"aten.fft_rfftn.default", transform(Kind::FromReal, false, 0), Fresh, true},
      {"aten.fft_irfft.default", transform(Kind::ToReal, true, 1), Fresh, true},
      {"aten.fft_irfft2.default", transform(Kind::ToReal, true, 2), Fresh, true},
      {"aten.fft_irfftn.default", transform(Kind::ToReal, true, 0), Fresh, true},
      {"aten.fft_hfft.default", transform(Kind::ToReal, false, 1), Fresh, true},
      {"aten.fft_hfft2.default", transform(Kind::ToReal, false, 2), Fresh, true},
      {"aten.fft_hfftn.default", transform(Kind::ToReal, false, 0), Fresh, true},
      {"aten.fft_ihfft.default", transform(Kind::FromReal, true, 1), Fresh, true},
      {"aten.fft_ihfft2.default", transform(Kind::FromReal, true, 2), Fresh, true},
      {"aten.fft_ihfftn.default", transform(Kind::FromReal, true, 0), Fresh, true},
      {"aten._fft_c2c.default", [](OpContext &ctx) { return decomposed(ctx, Kind::Complex); }, Fresh, true},
      {"aten._fft_r2c.default", [](OpContext &ctx) { return decomposed(ctx, Kind::FromReal); }, Fresh, true},
      {"aten._fft_c2r.default", [](OpContext &ctx) { return decomposed(ctx, Kind::ToReal); }, Fresh, true},
      {"aten.stft.default", shortTime, Fresh, true},
      {"aten.hann_window.default", cosineWindow(0.5, 0.5)},
      {"aten.hann_window.periodic", cosineWindow(0.5, 0.5)},
      {"aten.hamming_window.default", cosineWindow(0.54, 0.46)},
      {"aten.hamming_window.periodic", cosineWindow(0.54, 0.46)},
      {"aten.blackman_window.default", cosineWindow(0.42, 0.5, 0.08)},
      {"aten.blackman_window.periodic", cosineWindow(0.42, 0.5, 0.08)},
      {"aten.bartlett_window.default", window(bartlett)},
      {"aten.bartlett_window.periodic", window(bartlett)},
      {"aten.kaiser_window.default", window(kaiser)},
      {"aten.kaiser_window.periodic", window(kaiser)},
      {"aten.kaiser_window.beta", window(kaiser)},
      {"aten.fft_fftshift.default", shift(false), Fresh, true},
      {"aten.fft_ifftshift.default", shift(true), Fresh, true},
  };
}

} // namespace ditc
