// SPDX-License-Identifier: Apache-2.0
//
// Convolutions. A transposed one is a convolution of the input with zeros between its elements.
#include "compiler/import/Elementwise.h"
#include "compiler/import/Fourier.h"
#include "compiler/import/Pooling.h"
#include "compiler/import/Resample.h"

#include "runtime/Error.h"

using namespace mlir;

namespace ditc {

using Results = std::vector<Value>;

std::vector<int64_t> perDimension(const OpContext &op, std::string_view name, int64_t otherwise, int64_t spatial) {
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

/// dit.conv with the node's bias, groups and result: `input` has a batch dimension, `filter` is [outputs, inputs / groups, window].
static Value emitConv(OpContext &op, Value input, Value filter, ArrayRef<int64_t> stride, const Padding &padding,
                      ArrayRef<int64_t> dilation, bool batched) {
  SmallVector<int64_t> shape(op.resultType().getShape());
  if (!batched)
    shape.insert(shape.begin(), 1);
  Value result = dit::ConvOp::create(op.emit.builder(), RankedTensorType::get(shape, op.resultElement()), input, filter,
                                     op.optionalTensor("bias"), stride, padding.low, padding.high, dilation, op.integer("groups", 1));
  return op.emit.view(result, op.resultType().getShape());
}

/// Zeros between the elements of the spatial dimensions: element i moves to i * stride.
static Value spreadOut(Emit &emit, Value input, ArrayRef<int64_t> stride) {
  for (auto [i, step] : llvm::enumerate(stride)) {
    int64_t axis = i + 2, rank = Emit::rankOf(input);
    if (step == 1)
      continue;
    SmallVector<int64_t> shape(Emit::shapeOf(input)), low(rank + 1, 0), high(low);
    high[axis + 1] = step - 1;
    Value apart = emit.pad(emit.unsqueeze(input, axis + 1), low, high, Scalar::of(int64_t{0}));
    shape[axis] *= step;
    input = emit.slice(emit.view(apart, shape), axis, 0, shape[axis] - step + 1);
  }
  return input;
}

/// [inputs, outputs / groups, window] as the filter of the equivalent convolution: channels exchanged within
/// each group, windows reversed.
static Value reversedFilter(Emit &emit, Value weight, int64_t groups) {
  SmallVector<int64_t> shape(Emit::shapeOf(weight)), split{groups, shape[0] / groups};
  split.append(shape.begin() + 1, shape.end());
  Value filter = emit.transpose(emit.view(weight, split), 1, 2);
  std::swap(shape[0], shape[1]);
  shape[0] *= groups;
  shape[1] /= groups;
  filter = emit.view(filter, shape);
  for (size_t axis = 2; axis < shape.size(); ++axis) {
    SmallVector<int64_t> reversed;
    for (int64_t i = shape[axis]; i-- > 0;)
      reversed.push_back(i);
    filter = emit.gather(filter, reversed, axis);
  }
  return filter;
}

/// The input spread out by the stride, convolved with the reversed filter; padding takes away what a
/// convolution's padding adds, output_padding adds zeros at the high end.
static Value transposedConv(OpContext &op, Value input, Value weight, ArrayRef<int64_t> stride, ArrayRef<int64_t> dilation, bool batched) {
  ArrayRef<int64_t> window = Emit::shapeOf(weight).drop_front(2);
  int64_t spatial = window.size();
  std::vector<int64_t> padding = perDimension(op, "padding", 0, spatial), more = perDimension(op, "output_padding", 0, spatial);
  input = spreadOut(op.emit, input, stride);
  Padding around;
  for (int64_t i = 0; i < spatial; ++i) {
    int64_t low = dilation[i] * (window[i] - 1) - padding[i], high = low + more[i];
    int64_t size = Emit::shapeOf(input)[i + 2];
    input = op.emit.slice(input, i + 2, std::max<int64_t>(-low, 0), size - std::max<int64_t>(-high, 0));
    around.low.push_back(std::max<int64_t>(low, 0));
    around.high.push_back(std::max<int64_t>(high, 0));
  }
  std::vector<int64_t> ones(spatial, 1);
  return emitConv(op, input, reversedFilter(op.emit, weight, op.integer("groups", 1)), ones, around, dilation, batched);
}

static OpImport convolution(bool alwaysTransposed) {
  return [alwaysTransposed](OpContext &op) -> Results {
    Value input = op.tensor("input"), weight = op.tensor("weight");
    int64_t spatial = Emit::rankOf(weight) - 2;
    if (spatial < 1 || spatial > 3)
      fail("the convolution has {} spatial dimensions, expected 1 to 3", spatial);
    bool batched = Emit::rankOf(input) == spatial + 2;
    if (!batched)
      input = op.emit.unsqueeze(input, 0);
    std::vector<int64_t> stride = perDimension(op, "stride", 1, spatial), dilation = perDimension(op, "dilation", 1, spatial);
    if (alwaysTransposed || op.flag("transposed", false))
      return {transposedConv(op, input, weight, stride, dilation, batched)};
    Padding padding = paddingOf(op, Emit::shapeOf(weight).drop_front(2), dilation);
    return {emitConv(op, input, weight, stride, padding, dilation, batched)};
  };
}

std::vector<OpRow> atenConv() {
  ElementwiseRows rows;
  rows.row({"aten.conv1d.default", "aten.conv1d.padding", "aten.conv2d.default", "aten.conv2d.padding", "aten.conv3d.default",
            "aten.conv3d.padding", "aten.convolution.default", "aten._convolution.default"},
           convolution(false));
  rows.row({"aten.conv_transpose1d.default", "aten.conv_transpose2d.input", "aten.conv_transpose3d.input"}, convolution(true));
  std::vector<OpRow> result = rows.take();
  llvm::append_range(result, poolingRows());
  llvm::append_range(result, resampleRows());
  llvm::append_range(result, sampleRows());
  llvm::append_range(result, fourierRows());
  return result;
}

} // namespace ditc
