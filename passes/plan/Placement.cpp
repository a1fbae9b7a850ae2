// SPDX-License-Identifier: Apache-2.0
#include "passes/plan/Placement.h"

#include "passes/Strided.h"

using namespace mlir;

namespace ditc {

/// The layout of a view's input, given that of its result.
static std::optional<plan::Layout> layoutBefore(Operation *view, const plan::Layout &layout) {
  ArrayRef<int64_t> from = tensorType(view->getOperand(0)).getShape(), to = tensorType(view->getResult(0)).getShape();
  auto permute = dyn_cast<dit::PermuteOp>(view);
  if (!permute)
    return reshapeLayout(to, layout, from);
  plan::Layout result{SmallVector<int64_t>(from.size()), layout.offset};
  for (auto [i, dim] : llvm::enumerate(permute.getPermutation()))
    result.strides[dim] = layout.strides[i];
  return result;
}

/// The value whose elements, in order, `value` has: behind reshapes, and inside fusions that run one by one.
Value Placement::computedValue(Value value) const {
  while (Operation *def = value.getDefiningOp()) {
    if (auto view = dyn_cast<dit::ViewOp>(def))
      value = view.getInput();
    else if (auto fusion = dyn_cast<dit::FusionOp>(def); fusion && !device)
      value = fusion.getBodyBlock().getTerminator()->getOperand(cast<OpResult>(value).getResultNumber());
    else
      break;
  }
  return value;
}

/// Returned values are written in place when the operation that computes them can do so.
Placement::Placement(func::FuncOp function, ProgramBuilder &program, bool device) : program(program), device(device) {
  auto results = function.getBody().front().getTerminator()->getOperands();
  for (auto [i, value] : llvm::enumerate(results)) {
    outputs.push_back(program.createBuffer(value.getLoc(), tensorType(value), plan::Space::Output, {.index = static_cast<unsigned>(i)}));
    Value source = computedValue(value);
    if (source.getDefiningOp() && dit::isViewOp(source.getDefiningOp()))
      returnedViews.try_emplace(source, outputs.back());
    else if (source.getDefiningOp() && !destinations.contains(source))
      destinations[source] = denseView(value.getLoc(), outputs.back(), source);
  }
}

/// `buffer` seen as the elements of `tensor` in order.
Value Placement::denseView(Location loc, Value buffer, Value tensor) {
  ArrayRef<int64_t> shape = tensorType(tensor).getShape();
  return program.createView(loc, buffer, shape, {plan::contiguousStrides(shape), 0});
}

Value Placement::denseDestination(Value tensor) {
  Value output = returnedViews.lookup(tensor);
  return output ? denseView(tensor.getLoc(), output, tensor) : Value();
}

Value Placement::allocate(Location loc, Value tensor, bool prepared) {
  if (prepared)
    return program.createResult(loc, tensorType(tensor), prepared);
  if (Value destination = destinations.lookup(tensor))
    return destination;
  if (device) {
    if (Value destination = placeForReader(loc, tensor))
      return destination;
    if (Value destination = placeLikeInput(tensor))
      return destination;
  }
  return program.createBuffer(loc, tensorType(tensor), plan::Space::Arena);
}

/// Results of a kernel that takes rows together, whose threads have elements side by side: stored in an order that has rows
/// innermost, each of them would be an access of its own (12 times slower), which readers of such a view are not.
static bool isOfRows(Value tensor) {
  auto fusion = tensor.getDefiningOp<dit::FusionOp>();
  return fusion && fusion.getFamily() == "rowwise" && llvm::any_of(fusion.getBodyBlock(), llvm::IsaPred<dit::NormOp, dit::ReduceOp>);
}

static bool movesColumns(dit::PermuteOp permute) {
  ArrayRef<int64_t> from = tensorType(permute.getInput()).getShape();
  auto last = [&](auto dims) { return *llvm::find_if(dims, [&](int64_t dim) { return from[dim] > 1; }); };
  bool isOne = llvm::all_of(from, [](int64_t size) { return size == 1; });
  return !isOne && last(llvm::reverse(permute.getPermutation())) != last(llvm::reverse(llvm::to_vector(llvm::seq<int64_t>(0, from.size()))));
}

/// Memory for `tensor` as its reader wants it to lie: the place in a concat, or the dense layout of a permuted view.
/// Null when no reader has such a wish.
Value Placement::placeForReader(Location loc, Value tensor) {
  if (Value known = program.memoryOf(tensor))
    return known;
  for (OpOperand &use : tensor.getUses())
    if (auto concat = dyn_cast<dit::ConcatOp>(use.getOwner()))
      if (Value place = placeInConcat(concat, use.getOperandNumber()))
        return place;
  if (!tensor.hasOneUse() || !isa<dit::ViewOp, dit::PermuteOp>(*tensor.user_begin()))
    return {};
  Operation *view = *tensor.user_begin();
  Value result = view->getResult(0);
  Value place = destinations.lookup(result);
  if (!place)
    place = placeForReader(loc, result);
  auto permute = dyn_cast<dit::PermuteOp>(view);
  bool wanted = place || (permute && !(isOfRows(tensor) && movesColumns(permute)));
  if (!wanted)
    return {};
  if (!place)
    place = program.createBuffer(loc, tensorType(result), plan::Space::Arena);
  std::optional<plan::Layout> layout = layoutBefore(view, plan::layoutOf(memoryType(place)));
  return layout ? program.createView(loc, place, tensorType(tensor).getShape(), *layout) : Value();
}

/// An image that is read by maps only, on its way to tokens: whatever lies side by side in their result are its channels.
static bool becomesTokens(Value image) {
  return !image.use_empty() && llvm::all_of(image.getUses(), [&](OpOperand &use) {
    Operation *reader = use.getOwner();
    if (auto fusion = dyn_cast<dit::FusionOp>(reader))
      return fusion.getFamily() == "rowwise" && becomesTokens(fusion.getBodyBlock().getArgument(use.getOperandNumber()));
    if (auto permute = dyn_cast<dit::PermuteOp>(reader))
      return permute.getPermutation().back() == 1;
    return isa<dit::MapOp>(reader) && tensorType(reader->getResult(0)).getShape() == tensorType(image).getShape() && becomesTokens(reader->getResult(0));
  });
}

/// A depthwise convolution of an image that has its channels last gives such an image: a kernel that turned it would wait for
/// its stores, and what follows goes element by element. Any other one does where its result becomes tokens, and stores its sums
/// as well in that order. Null for everything else.
Value Placement::placeLikeInput(Value tensor) {
  auto conv = tensor.getDefiningOp<dit::ConvOp>();
  ArrayRef<int64_t> shape = tensorType(tensor).getShape();
  bool isDepthwise = conv && conv.getGroups() == tensorType(conv.getInput()).getDimSize(1) && conv.getGroups() == shape[1];
  if (!isDepthwise && !(conv && becomesTokens(tensor)))
    return {};
  if (plan::layoutOf(memoryType(program.memoryOf(conv.getInput()))).strides[1] != 1)
    return {};
  Value image = program.createBuffer(tensor.getLoc(), tensorType(tensor).clone(channelsLastShape(shape)), plan::Space::Arena);
  return program.createView(tensor.getLoc(), image, shape, {channelsLastStrides(shape), 0});
}

/// The slice of the concat's memory that operand `index` takes; null when the concat has the part twice.
Value Placement::placeInConcat(dit::ConcatOp concat, unsigned index) {
  if (llvm::count(concat.getInputs(), concat.getInputs()[index]) > 1)
    return {};
  Value whole = memoryForConcat(concat);
  plan::Layout layout = plan::layoutOf(memoryType(whole));
  for (Value input : concat.getInputs().take_front(index))
    layout.offset += layout.strides[concat.getAxis()] * tensorType(input).getDimSize(concat.getAxis());
  return program.createView(concat.getLoc(), whole, tensorType(concat.getInputs()[index]).getShape(), layout);
}

Value Placement::memoryForConcat(dit::ConcatOp concat) {
  Value whole = concatMemory.lookup(concat);
  if (!whole)
    whole = destinations.lookup(concat.getResult());
  if (!whole)
    whole = placeForReader(concat.getLoc(), concat.getResult());
  if (!whole)
    whole = createConcatBuffer(concat);
  return concatMemory[concat] = whole;
}

/// Parts that all come permuted alike (tokens and heads change places) are joined in the order they had before.
Value Placement::createConcatBuffer(dit::ConcatOp concat) {
  auto first = concat.getInputs().front().getDefiningOp<dit::PermuteOp>();
  bool alike = first && llvm::all_of(concat.getInputs(), [&](Value input) {
    auto permute = input.getDefiningOp<dit::PermuteOp>();
    return permute && permute.getPermutation() == first.getPermutation();
  });
  auto type = tensorType(concat.getResult());
  if (!alike)
    return program.createBuffer(concat.getLoc(), type, plan::Space::Arena);
  SmallVector<int64_t> shape(type.getRank());
  for (auto [i, dim] : llvm::enumerate(first.getPermutation()))
    shape[dim] = type.getDimSize(i);
  Value buffer = program.createBuffer(concat.getLoc(), type.clone(shape), plan::Space::Arena);
  plan::Layout before = plan::layoutOf(memoryType(buffer)), layout{SmallVector<int64_t>(type.getRank()), 0};
  for (auto [i, dim] : llvm::enumerate(first.getPermutation()))
    layout.strides[i] = before.strides[dim];
  return program.createView(concat.getLoc(), buffer, type.getShape(), layout);
}

} // namespace ditc
