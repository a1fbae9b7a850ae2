// SPDX-License-Identifier: Apache-2.0
//
// Convolutions of one to three spatial dimensions, written as three.
#include "codegen/cuda/families/FamilyUnit.h"
#include "codegen/cuda/families/Families.h"

#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace ditc {
namespace {

constexpr int64_t kRank = 5;

/// [N, C, spatial...] with dimensions of size 1 between C and the spatial ones.
MemRefType withThreeSpatial(MemRefType type) {
  SmallVector<int64_t> shape(type.getShape()), strides = plan::layoutOf(type).strides;
  int64_t missing = kRank - type.getRank();
  shape.insert(shape.begin() + 2, missing, 1);
  strides.insert(strides.begin() + 2, missing, 0);
  return plan::makeMemRef(shape, type.getElementType(), {strides, 0});
}

std::string dimsOfThree(ArrayRef<int64_t> values, int64_t fill) {
  SmallVector<int64_t> all(3 - values.size(), fill);
  llvm::append_range(all, values);
  return llvm::formatv("Dims<{0}, {1}, {2}>", all[0], all[1], all[2]);
}

} // namespace

FailureOr<CudaUnit> emitConv(plan::KernelOp kernel, const CudaArch &) {
  constexpr int64_t kTile = 64, kDepth = 16, kThreads = 256; // common/tile_product.cuh
  constexpr int64_t kFewChannels = 8;                        // of a group: a tile would be mostly empty
  FamilyUnit unit(kernel);
  KernelReader &r = unit.read();
  bool hasBias = r.flag("has_bias");
  r.expectArgs(3 + hasBias);
  MemRefType input = r.type(0), filter = r.type(1), out = r.type(2 + hasBias);
  int64_t rank = input.getRank(), groups = r.integer("groups");
  r.expect(rank >= 3 && rank <= kRank, "a convolution has 1 to 3 spatial dimensions, not " + llvm::Twine(rank - 2));
  r.expectRank(1, rank);
  r.expectRank(2 + hasBias, rank);
  for (unsigned i = 0; i < r.numArgs(); ++i)
    r.expect(isa<FloatType>(r.type(i).getElementType()), "a convolution needs floating-point arguments");
  SmallVector<int64_t> steps = r.integers("strides"), low = r.integers("padding_low"), dilations = r.integers("dilations");
  for (ArrayRef<int64_t> list : {ArrayRef(steps), ArrayRef(low), ArrayRef(dilations)})
    r.expect(static_cast<int64_t>(list.size()) == rank - 2, "strides, padding and dilations need one number for each spatial dimension");
  r.expect(groups > 0 && (r.failed() || filter.getDimSize(0) % groups == 0), "groups must divide the filters");
  if (r.failed())
    return unit.failure();
  input = withThreeSpatial(input), filter = withThreeSpatial(filter), out = withThreeSpatial(out);
  int64_t outChannels = filter.getDimSize(0) / groups, positions = ShapedType::getNumElements(out.getShape().take_back(3));
  int64_t depth = ShapedType::getNumElements(filter.getShape().drop_front());
  r.expect(std::max(positions, depth) < int64_t(1) << 31 && ShapedType::getNumElements(input.getShape().take_back(3)) < int64_t(1) << 31,
           "an image of more than 2^31 elements");
  bool direct = outChannels < kFewChannels;
  unit.tensor("Input", 0, input);
  unit.tensor("Filter", 1, filter);
  unit.optionalTensor("Bias", 2, hasBias);
  unit.tensor("Output", 2 + hasBias, out);
  unit.config("using Step = " + dimsOfThree(steps, 1));
  unit.config("using Padding = " + dimsOfThree(low, 0));
  unit.config("using Dilation = " + dimsOfThree(dilations, 1));
  unit.constant("GROUPS", groups);
  unit.flag("DIRECT", direct);
  int64_t tiled = out.getDimSize(0) * groups * llvm::divideCeil(outChannels, kTile) * llvm::divideCeil(positions, kTile);
  int64_t blocks = direct ? llvm::divideCeil(out.getNumElements(), kThreads) : tiled;
  int64_t bytes = r.type(0).getElementType().isF64() ? 8 : 4;
  return unit.finish("conv.cuh", "conv", {"input", "filter", hasBias ? "bias" : "!bias", "out"}, blocks, kThreads,
                     direct ? 0 : 2 * kDepth * (kTile + 4) * bytes);
}

} // namespace ditc
