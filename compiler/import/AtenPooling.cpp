// SPDX-License-Identifier: Apache-2.0
//
// Pooling. Windows are gathered along one dimension after the other and reduced, so that the dialect needs
// no pooling operation.
#include "compiler/import/Pooling.h"

#include "compiler/import/Elementwise.h"
#include "compiler/import/Reductions.h"
#include "compiler/import/Resample.h"

#include "runtime/Error.h"

#include <cmath>

using namespace mlir;

namespace ditc {

using Results = std::vector<Value>;

/// Windows along one dimension: element j of window i is at places[i * size + j] of the input, where places
/// below 0 and behind the input are padding.
struct Windows {
  int64_t axis, inputs, outputs, size;
  std::vector<int64_t> places;
};

/// What the arguments of a pooling op say about one dimension.
struct PoolArguments {
  std::vector<int64_t> size, stride, padding, dilation;

  PoolArguments(OpContext &op, int64_t spatial)
      : size(perDimension(op, "kernel_size", 1, spatial)), stride(size), padding(perDimension(op, "padding", 0, spatial)),
        dilation(perDimension(op, "dilation", 1, spatial)) {
    if (!op.integers("stride", {}).empty())
      stride = perDimension(op, "stride", 1, spatial);
  }
};

static std::vector<Windows> regularWindows(OpContext &op, Value input, int64_t spatial) {
  PoolArguments arguments(op, spatial);
  int64_t first = Emit::rankOf(input) - spatial;
  std::vector<Windows> result;
  for (int64_t dim = 0; dim < spatial; ++dim) {
    Windows windows{first + dim, Emit::shapeOf(input)[first + dim], op.resultType().getShape()[first + dim], arguments.size[dim], {}};
    for (int64_t i = 0; i < windows.outputs; ++i)
      for (int64_t j = 0; j < windows.size; ++j)
        windows.places.push_back(i * arguments.stride[dim] - arguments.padding[dim] + j * arguments.dilation[dim]);
    result.push_back(std::move(windows));
  }
  return result;
}

/// First and one past the last input of an adaptive window: floor(i * in / out), ceil((i + 1) * in / out).
static std::pair<int64_t, int64_t> adaptiveWindow(int64_t i, int64_t inputs, int64_t outputs) {
  return {i * inputs / outputs, llvm::divideCeil((i + 1) * inputs, outputs)};
}

/// Windows of different sizes are filled up with their last element, which changes no maximum.
static std::vector<Windows> adaptiveWindows(OpContext &op, Value input, int64_t spatial) {
  int64_t first = Emit::rankOf(input) - spatial;
  std::vector<Windows> result;
  for (int64_t axis = first; axis < Emit::rankOf(input); ++axis) {
    Windows windows{axis, Emit::shapeOf(input)[axis], op.resultType().getShape()[axis], 0, {}};
    for (int64_t i = 0; i < windows.outputs; ++i) {
      auto [start, end] = adaptiveWindow(i, windows.inputs, windows.outputs);
      windows.size = std::max(windows.size, end - start);
    }
    for (int64_t i = 0; i < windows.outputs; ++i)
      for (int64_t j = 0; j < windows.size; ++j) {
        auto [start, end] = adaptiveWindow(i, windows.inputs, windows.outputs);
        windows.places.push_back(std::min(start + j, end - 1));
      }
    result.push_back(std::move(windows));
  }
  return result;
}

/// `value` with dimension `axis` replaced by [outputs, size]; padding reads `fill`.
static Value gatherWindows(Emit &emit, Value value, const Windows &windows, int64_t axis, Scalar fill) {
  SmallVector<int64_t> low(Emit::rankOf(value), 0), high(low), shape(Emit::shapeOf(value)), positions;
  for (int64_t place : windows.places) {
    low[axis] = std::max(low[axis], -place);
    high[axis] = std::max(high[axis], place - windows.inputs + 1);
  }
  for (int64_t place : windows.places)
    positions.push_back(place + low[axis]);
  value = emit.gather(emit.pad(value, low, high, fill), positions, axis);
  shape[axis] = windows.outputs;
  shape.insert(shape.begin() + axis + 1, windows.size);
  return emit.view(value, shape);
}

static Value reduceWindows(Emit &emit, Value value, ArrayRef<Windows> all, dit::ReduceKind kind, Scalar fill) {
  for (const Windows &windows : all) {
    Value gathered = gatherWindows(emit, value, windows, windows.axis, fill);
    value = emit.reduce(kind, gathered, {windows.axis + 1}, /*keepDims=*/false, Emit::elementOf(value));
  }
  return value;
}

//===-- Averages ----------------------------------------------------------------------------------===//

/// How many elements each window counts: those within the padded input, or within the input alone. torch
/// clips windows to the padded input even where ceil_mode lets them reach beyond it.
static std::vector<double> windowCounts(const Windows &windows, int64_t padding) {
  std::vector<double> counts;
  for (int64_t i = 0; i < windows.outputs; ++i) {
    int64_t count = 0;
    for (int64_t j = 0; j < windows.size; ++j) {
      int64_t place = windows.places[i * windows.size + j];
      count += place >= -padding && place < windows.inputs + padding;
    }
    counts.push_back(static_cast<double>(count));
  }
  return counts;
}

static OpImport averagePool(int64_t spatial) {
  return [spatial](OpContext &op) -> Results {
    Value input = op.tensor("self");
    std::vector<Windows> all = regularWindows(op, input, spatial);
    Type wide = wideElement(op.emit, Emit::elementOf(input));
    SmallVector<Operand> operands{reduceWindows(op.emit, op.emit.cast(input, wide), all, dit::ReduceKind::Sum, Scalar::of(0.0))};
    if (std::optional<int64_t> divisor = op.optionalInteger("divisor_override")) {
      operands.push_back(Scalar::of(*divisor));
    } else {
      PoolArguments arguments(op, spatial);
      bool countPadding = op.flag("count_include_pad", true);
      for (auto [windows, padding] : llvm::zip(all, arguments.padding)) {
        SmallVector<int64_t> shape(Emit::rankOf(input), 1);
        shape[windows.axis] = windows.outputs;
        operands.push_back(op.emit.doubles(shape, windowCounts(windows, countPadding ? padding : 0)));
      }
    }
    return {elementwise(op.emit, operands, wide, op.resultElement(), [](ArrayRef<Num> x) {
      Num count = x[1];
      for (Num factor : x.drop_front(2))
        count = count * factor;
      return x[0] / count;
    })};
  };
}

/// A product with a matrix of averages along each dimension.
static OpImport adaptiveAverage(int64_t spatial) {
  return [spatial](OpContext &op) -> Results {
    Value value = op.tensor("self");
    ArrayRef<int64_t> shape = op.resultType().getShape();
    for (int64_t axis = shape.size() - spatial; axis < static_cast<int64_t>(shape.size()); ++axis) {
      Weights weights(shape[axis], Emit::shapeOf(value)[axis]);
      for (int64_t i = 0; i < weights.outputs; ++i) {
        auto [start, end] = adaptiveWindow(i, weights.inputs, weights.outputs);
        for (int64_t j = start; j < end; ++j)
          weights.add(i, j, 1.0 / static_cast<double>(end - start));
      }
      value = resampleAxis(op.emit, value, axis, weights);
    }
    return {op.emit.cast(value, op.resultElement())};
  };
}

//===-- Maxima ------------------------------------------------------------------------------------===//

static Scalar lowestOf(Type element) {
  return isa<FloatType>(element) ? Scalar::of(-HUGE_VAL) : Scalar::of(std::numeric_limits<int64_t>::min());
}

/// Where each maximum lies in its (flattened) input image: the place within the window, looked up in a
/// table of the places of all windows.
static Value maximumPlaces(OpContext &op, Value input, ArrayRef<Windows> all) {
  Emit &emit = op.emit;
  int64_t spatial = all.size(), leading = Emit::rankOf(input) - spatial, windowSize = 1, windowCount = 1;
  Value value = input;
  SmallVector<int64_t> order = llvm::to_vector(llvm::seq<int64_t>(0, leading)), inner, shape(Emit::shapeOf(input).take_front(leading));
  for (auto [i, windows] : llvm::enumerate(all)) {
    value = gatherWindows(emit, value, windows, leading + 2 * i, lowestOf(Emit::elementOf(input)));
    order.push_back(leading + 2 * i);
    inner.push_back(leading + 2 * i + 1);
    shape.push_back(windows.outputs);
    windowCount *= windows.outputs;
    windowSize *= windows.size;
  }
  order.append(inner);
  shape.push_back(windowSize);
  value = emit.view(emit.permute(value, order), shape);
  shape.back() = 1;
  ImplicitLocOpBuilder &b = emit.builder();
  Value within = dit::ArgReduceOp::create(b, RankedTensorType::get(shape, b.getI64Type()), value, dit::ReduceKind::Max,
                                          static_cast<int64_t>(shape.size()) - 1);

  std::vector<int64_t> table(windowCount * windowSize), starts(windowCount);
  for (int64_t entry = 0; entry < windowCount * windowSize; ++entry) {
    int64_t window = entry / windowSize, tap = entry % windowSize, scale = 1;
    for (const Windows &windows : llvm::reverse(all)) {
      table[entry] += windows.places[window % windows.outputs * windows.size + tap % windows.size] * scale;
      scale *= windows.inputs;
      window /= windows.outputs;
      tap /= windows.size;
    }
    starts[entry / windowSize] = entry / windowSize * windowSize;
  }
  Value first = emit.integers(ArrayRef<int64_t>(shape).drop_front(leading).drop_back(1), starts);
  Value entries = emit.add(emit.squeeze(within, -1), first, b.getI64Type());
  return emit.gather(emit.integers({static_cast<int64_t>(table.size())}, table), entries, 0);
}

static OpImport maxPool(int64_t spatial, bool adaptive) {
  return [=](OpContext &op) -> Results {
    Value input = op.tensor("self");
    std::vector<Windows> all = adaptive ? adaptiveWindows(op, input, spatial) : regularWindows(op, input, spatial);
    Results results{reduceWindows(op.emit, input, all, dit::ReduceKind::Max, lowestOf(op.resultElement()))};
    if (op.resultCount() > 1)
      results.push_back(maximumPlaces(op, input, all));
    return results;
  };
}

std::vector<OpRow> poolingRows() {
  ElementwiseRows rows;
  rows.row({"aten.avg_pool1d.default"}, averagePool(1));
  rows.row({"aten.avg_pool2d.default"}, averagePool(2));
  rows.row({"aten.avg_pool3d.default"}, averagePool(3));
  rows.row({"aten.max_pool1d.default", "aten.max_pool1d_with_indices.default"}, maxPool(1, false));
  rows.row({"aten.max_pool2d.default", "aten.max_pool2d_with_indices.default"}, maxPool(2, false));
  rows.row({"aten.max_pool3d.default", "aten.max_pool3d_with_indices.default"}, maxPool(3, false));
  rows.row({"aten.adaptive_avg_pool1d.default"}, adaptiveAverage(1));
  rows.row({"aten.adaptive_avg_pool2d.default", "aten._adaptive_avg_pool2d.default"}, adaptiveAverage(2));
  rows.row({"aten.adaptive_avg_pool3d.default", "aten._adaptive_avg_pool3d.default"}, adaptiveAverage(3));
  rows.row({"aten.adaptive_max_pool1d.default"}, maxPool(1, true));
  rows.row({"aten.adaptive_max_pool2d.default"}, maxPool(2, true));
  rows.row({"aten.adaptive_max_pool3d.default"}, maxPool(3, true));
  return rows.take();
}

} // namespace ditc
