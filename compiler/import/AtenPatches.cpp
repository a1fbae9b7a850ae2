// SPDX-License-Identifier: Apache-2.0
//
// Sliding windows of images as columns, and columns summed back into images.
#include "compiler/import/AtenHelpers.h"

#include "runtime/Error.h"

using namespace mlir;

namespace ditc {

using Results = std::vector<Value>;

namespace {

/// Window geometry in both image dimensions.
struct Windows {
  std::vector<int64_t> kernel, dilation, padding, stride;
  int64_t count[2]; ///< windows along each dimension

  Windows(const OpContext &ctx, int64_t height, int64_t width)
      : kernel(ctx.integers("kernel_size")), dilation(ctx.integers("dilation")), padding(ctx.integers("padding")),
        stride(ctx.integers("stride")) {
    for (std::vector<int64_t> *list : {&kernel, &dilation, &padding, &stride})
      list->resize(2, list->empty() ? 1 : list->front());
    int64_t size[2] = {height, width};
    for (int d = 0; d < 2; ++d)
      count[d] = (size[d] + 2 * padding[d] - dilation[d] * (kernel[d] - 1) - 1) / stride[d] + 1;
  }

  /// Padded position of element `k` of window `w` along `d`.
  int64_t position(int d, int64_t k, int64_t w) const { return k * dilation[d] + w * stride[d]; }

  std::vector<int64_t> positions(int d) const {
    std::vector<int64_t> result;
    for (int64_t k = 0; k < kernel[d]; ++k)
      for (int64_t w = 0; w < count[d]; ++w)
        result.push_back(position(d, k, w));
    return result;
  }
};

} // namespace

/// [N, C, H, W] to [N, C kh kw, windows].
static Results im2col(OpContext &ctx) {
  Emit &emit = ctx.emit;
  Value image = ctx.tensor("self");
  bool batched = Emit::rankOf(image) == 4;
  if (!batched)
    image = emit.unsqueeze(image, 0);
  SmallVector<int64_t> shape(Emit::shapeOf(image));
  Windows windows(ctx, shape[2], shape[3]);
  SmallVector<int64_t> amounts{0, 0, windows.padding[0], windows.padding[1]};
  Value padded = emit.pad(image, amounts, amounts, Scalar::of(int64_t{0}));
  Value rows = emit.gather(padded, windows.positions(0), 2);
  Value all = emit.gather(rows, windows.positions(1), 3);
  Value split =
      emit.view(all, {shape[0], shape[1], windows.kernel[0], windows.count[0], windows.kernel[1], windows.count[1]});
  return {emit.view(emit.permute(split, {0, 1, 2, 4, 3, 5}), ctx.resultType().getShape())};
}

/// [N, C kh kw, windows] to [N, C, H, W]; where windows overlap, elements add up.
static Results col2im(OpContext &ctx) {
  Emit &emit = ctx.emit;
  Value columns = ctx.tensor("self");
  std::vector<int64_t> output = ctx.integers("output_size");
  Windows windows(ctx, output[0], output[1]);
  int64_t batch = Emit::rankOf(columns) == 3 ? Emit::shapeOf(columns)[0] : 1;
  int64_t taps = windows.kernel[0] * windows.kernel[1], places = windows.count[0] * windows.count[1];
  int64_t channels = Emit::typeOf(columns).getNumElements() / std::max<int64_t>(1, batch * taps * places);
  int64_t height = output[0] + 2 * windows.padding[0], width = output[1] + 2 * windows.padding[1];
  std::vector<int64_t> targets;
  for (int64_t i = 0; i < windows.kernel[0]; ++i)
    for (int64_t j = 0; j < windows.kernel[1]; ++j)
      for (int64_t y = 0; y < windows.count[0]; ++y)
        for (int64_t x = 0; x < windows.count[1]; ++x)
          targets.push_back(windows.position(0, i, y) * width + windows.position(1, j, x));
  Value updates = emit.permute(emit.view(columns, {batch, channels, taps * places}), {2, 0, 1});
  Value base = emit.full({height * width, batch, channels}, Emit::elementOf(columns), Scalar::of(int64_t{0}));
  Value sums =
      emit.scatter(base, emit.integers({static_cast<int64_t>(targets.size())}, targets), updates, /*add=*/true);
  Value image = emit.view(emit.permute(sums, {1, 2, 0}), {batch, channels, height, width});
  image = emit.slice(image, 2, windows.padding[0], height - windows.padding[0]);
  image = emit.slice(image, 3, windows.padding[1], width - windows.padding[1]);
  return {emit.view(image, ctx.resultType().getShape())};
}

std::vector<OpRow> atenPatches() {
  return {
      {"aten.im2col.default", im2col},
      {"aten.col2im.default", col2im},
  };
}

} // namespace ditc
