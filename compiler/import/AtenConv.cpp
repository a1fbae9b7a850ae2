// SPDX-License-Identifier: Apache-2.0
//
// Convolutions and pooling. Pooling windows are gathered along one dimension after the other, so that the
// dialect needs no pooling operation.
#include "compiler/import/Elementwise.h"
#include "compiler/import/Reductions.h"
#include "compiler/import/Resample.h"

#include "runtime/Error.h"

#include <cmath>

using namespace mlir;

namespace ditc {

using Results = std::vector<Value>;

//===-- Convolution -------------------------------------------------------------------------------===//

/// A list argument of one number stands for all spatial dimensions.
static std::vector<int64_t> perDimension(const OpContext &op, std::string_view name, int64_t otherwise, int64_t spatial) {
  std::vector<int64_t> values = op.integers(name, {});
  if (values.empty())
    values.push_back(otherwise);
  if (values.size() == 1)
    values.resize(spatial, values.front());
  if (static_cast<int64_t>(values.size()) != spatial)
    fail("argument '{}' has {} numbers for {} spatial dimensions", name, values.size(), spatial);
  return values;
}

struct Padding {
  std::vector<int64_t> low, high;
};

/// Numbers, or "valid" and "same"; "same" puts an odd element at the high end.
static Padding paddingOf(const OpContext &op, ArrayRef<int64_t> window, ArrayRef<int64_t> dilation) {
  const Argument *argument = op.node.find("padding");
  Padding padding;
  if (!argument || argument->kind != Argument::Kind::String) {
    padding.low = padding.high = perDimension(op, "padding", 0, window.size());
    return padding;
  }
  if (argument->text != "same" && argument->text != "valid")
    fail("padding '{}' is not known, expected 'same' or 'valid'", argument->text);
  for (auto [size, step] : llvm::zip(window, dilation)) {
    int64_t total = argument->text == "same" ? step * (size - 1) : 0;
    padding.low.push_back(total / 2);
    padding.high.push_back(total - total / 2);
  }
  return padding;
}

static Results convolution(OpContext &op) {
  if (op.flag("transposed", false))
    fail("transposed convolutions are not supported; use interpolation and a convolution, or run this part (a VAE decoder?) outside of the package");
  Value input = op.tensor("input"), weight = op.tensor("weight"), bias = op.optionalTensor("bias");
  int64_t spatial = Emit::rankOf(weight) - 2;
  if (spatial < 1 || spatial > 3)
    fail("the convolution has {} spatial dimensions, expected 1 to 3", spatial);
  bool batched = Emit::rankOf(input) == spatial + 2;
  if (!batched)
    input = op.emit.unsqueeze(input, 0);
  ArrayRef<int64_t> window = Emit::shapeOf(weight).drop_front(2);
  std::vector<int64_t> stride = perDimension(op, "stride", 1, spatial), dilation = perDimension(op, "dilation", 1, spatial);
  Padding padding = paddingOf(op, window, dilation);
  SmallVector<int64_t> shape(op.resultType().getShape());
  if (!batched)
    shape.insert(shape.begin(), 1);
  Value result = dit::ConvOp::create(op.emit.builder(), RankedTensorType::get(shape, op.resultElement()), input, weight, bias, stride, padding.low,
                                     padding.high, dilation, op.integer("groups", 1));
  return {op.emit.view(result, op.resultType().getShape())};
}

static Results refuseTransposed(OpContext &) {
  fail("transposed convolutions are not supported; use interpolation and a convolution, or run this part (a VAE decoder?) outside of the package");
}

//===-- Pooling -----------------------------------------------------------------------------------===//

/// Windows along one dimension: element j of window i is at i * stride + j * dilation of the padded input.
struct Pool {
  int64_t axis, size, stride, padding, dilation, outputs;
  int64_t input; ///< size before padding

  int64_t start(int64_t output) const { return output * stride - padding; }
  /// One past the last padded place that the last window reads.
  int64_t reach() const { return (outputs - 1) * stride + (size - 1) * dilation + 1; }
};

static std::vector<Pool> poolsOf(OpContext &op, Value input, int64_t spatial) {
  std::vector<int64_t> size = perDimension(op, "kernel_size", 1, spatial), padding = perDimension(op, "padding", 0, spatial);
  std::vector<int64_t> stride = op.integers("stride", {}).empty() ? size : perDimension(op, "stride", 1, spatial);
  std::vector<int64_t> dilation = perDimension(op, "dilation", 1, spatial);
  int64_t first = Emit::rankOf(input) - spatial;
  std::vector<Pool> pools;
  for (int64_t i = 0; i < spatial; ++i)
    pools.push_back({first + i, size[i], stride[i], padding[i], dilation[i], op.resultType().getShape()[first + i], Emit::shapeOf(input)[first + i]});
  return pools;
}

/// The windows of all dimensions reduced; places outside of the input read `fill`.
static Value reduceWindows(Emit &emit, Value value, ArrayRef<Pool> pools, dit::ReduceKind kind, Scalar fill) {
  SmallVector<int64_t> low(Emit::rankOf(value), 0), high(low);
  for (const Pool &pool : pools) {
    low[pool.axis] = pool.padding;
    high[pool.axis] = std::max<int64_t>(0, pool.reach() - pool.padding - pool.input);
  }
  value = emit.pad(value, low, high, fill);
  for (const Pool &pool : pools) {
    SmallVector<int64_t> positions, shape(Emit::shapeOf(value));
    for (int64_t i = 0; i < pool.outputs; ++i)
      for (int64_t j = 0; j < pool.size; ++j)
        positions.push_back(i * pool.stride + j * pool.dilation);
    value = emit.gather(value, positions, pool.axis);
    shape[pool.axis] = pool.outputs;
    shape.insert(shape.begin() + pool.axis + 1, pool.size);
    value = emit.reduce(kind, emit.view(value, shape), {pool.axis + 1}, /*keepDims=*/false, Emit::elementOf(value));
  }
  return value;
}

/// Elements that each window of a dimension counts: of the padded input, or of the input alone.
static std::vector<double> windowCounts(const Pool &pool, bool countPadding) {
  std::vector<double> counts;
  for (int64_t i = 0; i < pool.outputs; ++i) {
    int64_t start = pool.start(i), end = std::min(start + pool.size, pool.input + pool.padding);
    if (!countPadding) {
      start = std::max<int64_t>(start, 0);
      end = std::min(end, pool.input);
    }
    counts.push_back(static_cast<double>(end - start));
  }
  return counts;
}

static OpImport averagePool(int64_t spatial) {
  return [spatial](OpContext &op) -> Results {
    Value input = op.tensor("self");
    std::vector<Pool> pools = poolsOf(op, input, spatial);
    Type wide = wideElement(op.emit, Emit::elementOf(input));
    SmallVector<Operand> operands{{reduceWindows(op.emit, op.emit.cast(input, wide), pools, dit::ReduceKind::Sum, Scalar::of(0.0)), {}}};
    if (std::optional<int64_t> divisor = op.optionalInteger("divisor_override")) {
      operands.push_back({{}, Scalar::of(*divisor)});
    } else {
      for (const Pool &pool : pools) {
        SmallVector<int64_t> shape(Emit::rankOf(input), 1);
        shape[pool.axis] = pool.outputs;
        operands.push_back({op.emit.doubles(shape, windowCounts(pool, op.flag("count_include_pad", true))), {}});
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

/// The places of the maxima, a second result of some forms, stay absent.
static OpImport maxPool(int64_t spatial) {
  return [spatial](OpContext &op) -> Results {
    Value input = op.tensor("self");
    Scalar lowest = isa<FloatType>(op.resultElement()) ? Scalar::of(-HUGE_VAL) : Scalar::of(std::numeric_limits<int64_t>::min());
    return {reduceWindows(op.emit, input, poolsOf(op, input, spatial), dit::ReduceKind::Max, lowest)};
  };
}

/// Window i is from floor(i * in / out) to ceil((i + 1) * in / out): a product with a matrix of averages.
static OpImport adaptivePool(int64_t spatial) {
  return [spatial](OpContext &op) -> Results {
    Value value = op.tensor("self");
    ArrayRef<int64_t> shape = op.resultType().getShape();
    for (int64_t axis = shape.size() - spatial; axis < static_cast<int64_t>(shape.size()); ++axis) {
      int64_t inputs = Emit::shapeOf(value)[axis], outputs = shape[axis];
      Weights weights(outputs, inputs);
      for (int64_t i = 0; i < outputs; ++i) {
        int64_t start = i * inputs / outputs, end = llvm::divideCeil((i + 1) * inputs, outputs);
        for (int64_t j = start; j < end; ++j)
          weights.add(i, j, 1.0 / static_cast<double>(end - start));
      }
      value = resampleAxis(op.emit, value, axis, weights);
    }
    return {op.emit.cast(value, op.resultElement())};
  };
}

std::vector<OpRow> atenConv() {
  ElementwiseRows rows;
  rows.row({"aten.conv1d.default", "aten.conv1d.padding", "aten.conv2d.default", "aten.conv2d.padding", "aten.conv3d.default",
            "aten.conv3d.padding", "aten.convolution.default", "aten._convolution.default"}, convolution);
  rows.row({"aten.conv_transpose1d.default", "aten.conv_transpose2d.input", "aten.conv_transpose3d.input"}, refuseTransposed);
  rows.row({"aten.avg_pool1d.default"}, averagePool(1));
  rows.row({"aten.avg_pool2d.default"}, averagePool(2));
  rows.row({"aten.avg_pool3d.default"}, averagePool(3));
  rows.row({"aten.max_pool1d.default", "aten.max_pool1d_with_indices.default"}, maxPool(1));
  rows.row({"aten.max_pool2d.default", "aten.max_pool2d_with_indices.default"}, maxPool(2));
  rows.row({"aten.max_pool3d.default", "aten.max_pool3d_with_indices.default"}, maxPool(3));
  rows.row({"aten.adaptive_avg_pool1d.default"}, adaptivePool(1));
  rows.row({"aten.adaptive_avg_pool2d.default", "aten._adaptive_avg_pool2d.default"}, adaptivePool(2));
  rows.row({"aten.adaptive_avg_pool3d.default", "aten._adaptive_avg_pool3d.default"}, adaptivePool(3));
  std::vector<OpRow> result = rows.take();
  llvm::append_range(result, resampleRows());
  return result;
}

} // namespace ditc
