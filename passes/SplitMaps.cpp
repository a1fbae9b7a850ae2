// SPDX-License-Identifier: Apache-2.0
//
// SplitMaps: a map that is read by parts, of values that are stored whether it is computed or not, becomes a map of each
// part. Each then belongs to its reader (FuseMaps, GroupKernels), which loads the part of what is stored.
//
// Modulation of each token is where that counts: one projection of the timesteps is stored, each block adds a table of its own,
// often in a wider type, and cuts the sum into shifts, scales and gates. Behind the projection, the sums of all blocks would be
// written at the start of a step and wait; as a launch of each block, they would still be written and read again.
//
// It is done where it saves the time of a launch or more. The few rows of one timestep are no bytes to speak of, and stay where
// they are: in the epilogue of their product. Parts that are put together again (a rotation that is written in place: all is
// multiplied by cosines, and each half gets the other one by sines) are one launch, and none for the whole, whatever its size.
//
// Before:
//   func.func @f(%t: tensor<1x4096x2x4096xbf16>, %w: tensor<1x1x2x4096xf32>) -> (tensor<1x4096x4096xf32>, tensor<1x4096x1x4096xf32>) {
//     %a = dit.map(%t, %w) : (tensor<1x4096x2x4096xbf16>, tensor<1x1x2x4096xf32>) -> tensor<1x4096x2x4096xf32> {
//     ^bb0(%p: f32, %q: f32):
//       %r = arith.addf %p, %q : f32
//       dit.yield %r : f32
//     }
//     %s = dit.slice %a offsets [0, 0, 0, 0] steps [1, 1, 1, 1] : tensor<1x4096x2x4096xf32> -> tensor<1x4096x1x4096xf32>
//     %x = dit.view %s : tensor<1x4096x1x4096xf32> -> tensor<1x4096x4096xf32>
//     %y = dit.slice %a offsets [0, 0, 1, 0] steps [1, 1, 1, 1] : tensor<1x4096x2x4096xf32> -> tensor<1x4096x1x4096xf32>
//     return %x, %y : tensor<1x4096x4096xf32>, tensor<1x4096x1x4096xf32>
//   }
// After:
//   func.func @f(%t: tensor<1x4096x2x4096xbf16>, %w: tensor<1x1x2x4096xf32>) -> (tensor<1x4096x4096xf32>, tensor<1x4096x1x4096xf32>) {
//     %t0 = dit.slice %t offsets [0, 0, 0, 0] steps [1, 1, 1, 1] : tensor<1x4096x2x4096xbf16> -> tensor<1x4096x1x4096xbf16>
//     %t1 = dit.view %t0 : tensor<1x4096x1x4096xbf16> -> tensor<1x4096x4096xbf16>
//     %w0 = dit.slice %w offsets [0, 0, 0, 0] steps [1, 1, 1, 1] : tensor<1x1x2x4096xf32> -> tensor<1x1x1x4096xf32>
//     %w1 = dit.view %w0 : tensor<1x1x1x4096xf32> -> tensor<1x1x4096xf32>
//     %x = dit.map(%t1, %w1) : (tensor<1x4096x4096xbf16>, tensor<1x1x4096xf32>) -> tensor<1x4096x4096xf32> {
//     ^bb0(%p: f32, %q: f32):
//       %r = arith.addf %p, %q : f32
//       dit.yield %r : f32
//     }
//     %t2 = dit.slice %t offsets [0, 0, 1, 0] steps [1, 1, 1, 1] : tensor<1x4096x2x4096xbf16> -> tensor<1x4096x1x4096xbf16>
//     %w2 = dit.slice %w offsets [0, 0, 1, 0] steps [1, 1, 1, 1] : tensor<1x1x2x4096xf32> -> tensor<1x1x1x4096xf32>
//     %y = dit.map(%t2, %w2) : (tensor<1x4096x1x4096xbf16>, tensor<1x1x1x4096xf32>) -> tensor<1x4096x1x4096xf32> {
//     ^bb0(%p: f32, %q: f32):
//       %r = arith.addf %p, %q : f32
//       dit.yield %r : f32
//     }
//     return %x, %y : tensor<1x4096x4096xf32>, tensor<1x4096x1x4096xf32>
//   }
#include "dialects/dit/Tensors.h"
#include "dialects/fusion/Cost.h"
#include "passes/Passes.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace ditc {
#define GEN_PASS_DEF_SPLITMAPS
#include "passes/Passes.h.inc"

namespace {

/// True when something else than `map` computes with the value, or with a view of it.
bool isReadBeside(Value value, Operation *map) {
  return llvm::any_of(value.getUsers(), [&](Operation *user) { return dit::isViewOp(user) ? isReadBeside(user->getResult(0), map) : user != map; });
}

/// Is the operand in memory, whatever becomes of `map`?
bool isStoredAnyway(Value operand, Operation *map) {
  while (Operation *def = operand.getDefiningOp()) {
    if (!dit::isViewOp(def))
      return isa<dit::ConstantOp, dit::WeightOp>(def) || isReadBeside(operand, map);
    operand = def->getOperand(0);
  }
  return true;
}

/// The shape of what an operand of a map contributes to a part of the result: dimensions of one element are repeated.
SmallVector<int64_t> partShape(Value operand, ArrayRef<int64_t> part) {
  SmallVector<int64_t> shape(shapeOf(operand));
  for (auto [size, partSize] : llvm::zip(shape, part))
    size = size == 1 ? 1 : partSize;
  return shape;
}

/// Does the view only drop dimensions of one element? Then a map may as well compute what it yields.
bool dropsOnes(dit::ViewOp view) {
  auto others = [](ArrayRef<int64_t> shape) { return llvm::to_vector(llvm::make_filter_range(shape, [](int64_t size) { return size != 1; })); };
  ArrayRef<int64_t> from = shapeOf(view.getInput()), to = shapeOf(view.getResult());
  return to.size() < from.size() && others(from) == others(to);
}

/// The concat that a part becomes a part of, behind views and maps of its elements; null where something else reads it as well.
dit::ConcatOp concatOf(Value part) {
  while (part.hasOneUse()) {
    Operation *user = *part.user_begin();
    if (auto concat = dyn_cast<dit::ConcatOp>(user))
      return concat;
    bool isOfElements = isa<dit::MapOp, dit::ViewOp, dit::PermuteOp>(user) && tensorType(user->getResult(0)).getNumElements() == tensorType(part).getNumElements();
    if (!isOfElements)
      return {};
    part = user->getResult(0);
  }
  return {};
}

class MapSplitter {
public:
  explicit MapSplitter(dit::MapOp map) : map(map), b(map) {}

  bool pays() {
    if (map->use_empty() || !llvm::all_of(map->getUsers(), llvm::IsaPred<dit::SliceOp>) || !llvm::all_of(map.getInputs(), [&](Value operand) { return isStoredAnyway(operand, map); }))
      return false;
    int64_t elements = 0;
    double saved = 2.0 * dit::tensorBytes(map.getType()); // written, and read by parts
    for (Operation *part : map->getUsers()) {
      elements += tensorType(part->getResult(0)).getNumElements();
      for (Value operand : map.getInputs())
        saved -= dit::tensorBytes(tensorType(operand).clone(partShape(operand, shapeOf(part->getResult(0)))));
    }
    return elements <= map.getType().getNumElements() && (isPutTogether() || saved >= kLaunchSeconds * findGpu("H200")->bandwidth);
  }

  void split() {
    for (Operation *user : llvm::make_early_inc_range(map->getUsers()))
      replace(cast<dit::SliceOp>(user));
    map.erase();
  }

private:
  bool isPutTogether() {
    dit::ConcatOp whole = concatOf((*map->user_begin())->getResult(0));
    return whole && llvm::all_of(map->getUsers(), [&](Operation *part) { return concatOf(part->getResult(0)) == whole; });
  }

  void replace(dit::SliceOp part) {
    auto view = part->hasOneUse() ? dyn_cast<dit::ViewOp>(*part->user_begin()) : dit::ViewOp();
    if (view && !dropsOnes(view))
      view = {};
    Operation *replaced = view ? view.getOperation() : part.getOperation();
    b.setInsertionPoint(replaced);
    IRMapping mapping;
    for (Value operand : map.getInputs())
      mapping.map(operand, operandOf(operand, part, view));
    Operation *own = b.clone(*map, mapping);
    own->getResult(0).setType(map.getType().clone(shapeOf(replaced->getResult(0))));
    replaced->replaceAllUsesWith(own);
    replaced->erase();
    if (view)
      part.erase();
  }

  Value operandOf(Value operand, dit::SliceOp part, dit::ViewOp view) {
    RankedTensorType type = tensorType(operand);
    SmallVector<int64_t> shape = partShape(operand, part.getType().getShape()), offsets(part.getOffsets()), steps(part.getSteps());
    for (auto [i, size] : llvm::enumerate(type.getShape()))
      if (size == 1)
        offsets[i] = 0, steps[i] = 1;
    operand = b.createOrFold<dit::SliceOp>(part.getLoc(), type.clone(shape), operand, offsets, steps);
    return view ? b.createOrFold<dit::ViewOp>(view.getLoc(), type.clone(withoutDropped(shape, part, view)), operand) : operand;
  }

  /// Of an operand's dimensions those that the view keeps of the part's.
  static SmallVector<int64_t> withoutDropped(ArrayRef<int64_t> shape, dit::SliceOp part, dit::ViewOp view) {
    ArrayRef<int64_t> all = part.getType().getShape(), kept = view.getType().getShape();
    SmallVector<int64_t> result;
    for (auto [i, size] : llvm::enumerate(shape)) {
      bool isLast = all.size() - i == kept.size() - result.size(); // nothing left to drop
      if (isLast || (result.size() < kept.size() && kept[result.size()] == all[i]))
        result.push_back(size);
    }
    return result;
  }

  dit::MapOp map;
  OpBuilder b;
};

class SplitMaps : public impl::SplitMapsBase<SplitMaps> {
public:
  void runOnOperation() override {
    SmallVector<dit::MapOp> maps;
    getOperation().walk([&](dit::MapOp map) { maps.push_back(map); });
    for (dit::MapOp map : maps)
      if (MapSplitter splitter(map); splitter.pays())
        splitter.split();
  }
};

} // namespace
} // namespace ditc
