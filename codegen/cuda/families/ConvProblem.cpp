// SPDX-License-Identifier: Apache-2.0
#include "codegen/cuda/families/ConvProblem.h"

#include "dialects/dit/Dit.h"

#include "llvm/Support/FormatVariadic.h"

#include <numeric>

using namespace mlir;

namespace ditc {
namespace {

constexpr int64_t kRank = 5, kLimit = int64_t(1) << 31;

/// Numbers of the last spatial dimensions, with `fill` for the missing ones.
void fillToThree(SmallVector<int64_t> &values, int64_t fill) { values.insert(values.begin(), 3 - values.size(), fill); }

std::string dimsText(ArrayRef<int64_t> values) { return llvm::formatv("Dims<{0}, {1}, {2}>", values[0], values[1], values[2]); }

/// A power of two, up to eight, that divides `run` elements, the alignment, and the strides of all dimensions but `inside`.
int64_t together(MemRefType type, int64_t run, ArrayRef<int64_t> inside, int64_t alignment) {
  int64_t common = std::gcd(std::gcd<int64_t>(8, run), alignment / dit::elementBytes(type.getElementType()));
  for (auto [dim, stride] : llvm::enumerate(plan::layoutOf(type).strides))
    if (type.getDimSize(dim) > 1 && !llvm::is_contained(inside, static_cast<int64_t>(dim)))
      common = std::gcd(common, stride);
  return std::max<int64_t>(1, common);
}

} // namespace

MemRefType withThreeSpatial(MemRefType type) {
  SmallVector<int64_t> shape(type.getShape()), strides = plan::layoutOf(type).strides;
  int64_t missing = kRank - type.getRank();
  shape.insert(shape.begin() + 2, missing, 1);
  strides.insert(strides.begin() + 2, missing, 0);
  return plan::makeMemRef(shape, type.getElementType(), {strides, 0});
}

int64_t positionsTogether(MemRefType type, int64_t alignment) {
  SmallVector<int64_t> strides = plan::layoutOf(type).strides;
  int64_t run = 1;
  for (int64_t dim = kRank - 1; dim >= 2; --dim) { // the innermost dimensions that are one run
    if (type.getDimSize(dim) == 1)
      continue;
    if (strides[dim] != run) {
      SmallVector<int64_t> inside = llvm::to_vector(llvm::seq<int64_t>(dim + 1, kRank));
      return together(type, run, inside, alignment);
    }
    run *= type.getDimSize(dim);
  }
  return together(type, run, {2, 3, 4}, alignment);
}

int64_t rowTogether(MemRefType type, int64_t alignment) {
  constexpr int64_t kX = kRank - 1;
  return plan::layoutOf(type).strides[kX] == 1 ? together(type, type.getDimSize(kX), {kX}, alignment) : 1;
}

int64_t channelsTogether(MemRefType type, int64_t count, int64_t alignment) {
  return plan::layoutOf(type).strides[1] == 1 ? together(type, count, {1}, alignment) : 1;
}

ConvProblem ConvProblem::read(KernelReader &r) {
  ConvProblem p;
  p.hasBias = r.flag("has_bias");
  r.expectArgs(3 + p.hasBias);
  p.input = r.type(0), p.filter = r.type(1), p.output = r.type(p.outputArg());
  int64_t rank = p.input.getRank();
  p.groups = r.integer("groups");
  r.expect(rank >= 3 && rank <= kRank, "a convolution has 1 to 3 spatial dimensions, not " + llvm::Twine(rank - 2));
  r.expectRank(1, rank);
  r.expectRank(p.outputArg(), rank);
  for (unsigned i = 0; i < r.numArgs(); ++i)
    r.expect(isa<FloatType>(r.type(i).getElementType()), "a convolution needs floating-point arguments");
  p.steps = r.integers("strides"), p.low = r.integers("padding_low"), p.dilations = r.integers("dilations");
  for (ArrayRef<int64_t> list : {ArrayRef(p.steps), ArrayRef(p.low), ArrayRef(p.dilations)})
    r.expect(static_cast<int64_t>(list.size()) == rank - 2, "strides, padding and dilations need one number for each spatial dimension");
  r.expect(p.groups > 0 && (r.failed() || p.filter.getDimSize(0) % p.groups == 0), "groups must divide the filters");
  if (r.failed())
    return p;
  p.input = withThreeSpatial(p.input), p.filter = withThreeSpatial(p.filter), p.output = withThreeSpatial(p.output);
  fillToThree(p.steps, 1), fillToThree(p.low, 0), fillToThree(p.dilations, 1);
  r.expect(std::max(p.positions(), p.depth()) < kLimit && ShapedType::getNumElements(p.input.getShape().take_back(3)) < kLimit,
           "an image of more than 2^31 elements");
  return p;
}

void ConvProblem::configure(FamilyUnit &unit) const {
  unit.tensor("Input", 0, input);
  unit.tensor("Filter", 1, filter);
  unit.optionalTensor("Bias", 2, hasBias);
  unit.tensor("Output", outputArg(), output);
  unit.config("using Step = " + dimsText(steps));
  unit.config("using Padding = " + dimsText(low));
  unit.config("using Dilation = " + dimsText(dilations));
  unit.constant("GROUPS", groups);
}

FailureOr<CudaUnit> ConvProblem::finish(FamilyUnit &unit, StringRef header, StringRef space, int64_t blocks, uint32_t threads, uint32_t sharedBytes) const {
  return unit.finish(header, space, {"input", "filter", hasBias ? "bias" : "!bias", "out"}, blocks, threads, sharedBytes);
}

} // namespace ditc
