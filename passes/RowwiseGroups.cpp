// SPDX-License-Identifier: Apache-2.0
#include "passes/RowwiseGroups.h"

#include "dialects/dit/Tensors.h"
#include "passes/Fusions.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace ditc {

/// The kernel, whether the target takes it or not.
dit::FusionOp RowwiseGroups::fuse(ArrayRef<Operation *> ops, Operation *next) {
  b.setInsertionPoint(next);
  return makeFusion(b, "rowwise", ops, resultsReadOutside(ops));
}

/// Views of what is not among `members`.
static bool onlyViews(Operation *op, const llvm::SmallPtrSetImpl<Operation *> &members) {
  if (!dit::isViewOp(op))
    return false;
  Operation *source = op->getOperand(0).getDefiningOp();
  return !source || !members.contains(source) || onlyViews(source, members);
}

/// The kernel's operations become neighbours at the end, behind the views that stay outside.
static void moveBehind(ArrayRef<Operation *> inside, Operation *next) {
  llvm::SmallPtrSet<Operation *, 16> moved(inside.begin(), inside.end());
  SmallVector<Operation *> readers; // views of results that were inlined between
  for (Operation *op = inside.front(); op != next; op = op->getNextNode())
    if (!moved.contains(op) &&
        llvm::any_of(op->getOperands(), [&](Value operand) { return operand.getDefiningOp() && moved.contains(operand.getDefiningOp()); })) {
      readers.push_back(op);
      moved.insert(op);
    }
  for (Operation *op : inside)
    op->moveBefore(next);
  for (Operation *op : readers)
    op->moveBefore(next);
}

void RowwiseGroups::group(ArrayRef<Operation *> ops, Operation *next) {
  llvm::SmallPtrSet<Operation *, 16> members(ops.begin(), ops.end());
  llvm::SmallPtrSet<Operation *, 16> computing; // operations that a value needs which is not a mere view
  for (Operation *op : llvm::reverse(ops)) {
    bool feeds = llvm::any_of(op->getUsers(), [&](Operation *user) { return computing.contains(user); });
    if (feeds || !onlyViews(op, members))
      computing.insert(op);
  }
  SmallVector<Operation *> inside;
  for (Operation *op : ops) {
    if (!computing.contains(op))
      continue;
    bool isRead = llvm::any_of(op->getUsers(), [&](Operation *user) { return !computing.contains(user); });
    if (isRead && onlyViews(op, members)) { // the same view for those outside, where it is free
      b.setInsertionPoint(op);
      Operation *copy = b.clone(*op);
      op->replaceUsesWithIf(copy, [&](OpOperand &use) { return !computing.contains(use.getOwner()); });
    }
    inside.push_back(op);
  }
  if (inside.empty())
    return;
  moveBehind(inside, next);
  dit::FusionOp fusion = fuse(inside, inside.back()->getNextNode());
  if (!kernels.takes(fusion))
    inlineFusion(fusion);
}

/// The rowwise fusion that computes all parts of a concat, each read by it alone, and the views on the way; null when there
/// is none.
static dit::FusionOp commonSource(dit::ConcatOp concat, llvm::SetVector<Operation *> &views) {
  dit::FusionOp source;
  for (Value part : concat.getInputs()) {
    Operation *def = part.getDefiningOp();
    SmallVector<Operation *> chain;
    while (def && isa<dit::ViewOp, dit::PermuteOp>(def) && def->hasOneUse()) {
      chain.push_back(def);
      part = def->getOperand(0);
      def = part.getDefiningOp();
    }
    auto fusion = dyn_cast_or_null<dit::FusionOp>(def);
    if (!fusion || fusion.getFamily() != "rowwise" || (source && source != fusion) || !part.hasOneUse())
      return {};
    source = fusion;
    views.insert(chain.rbegin(), chain.rend());
  }
  return source;
}

void RowwiseGroups::absorb(dit::ConcatOp concat) {
  llvm::SetVector<Operation *> views;
  dit::FusionOp source = commonSource(concat, views);
  if (!source)
    return;
  SmallVector<Operation *> ops = inlineFusion(source);
  size_t count = ops.size();
  Operation *next = ops.back()->getNextNode();
  for (Operation *view : views) {
    view->moveBefore(next);
    ops.push_back(view);
  }
  concat->moveBefore(next);
  ops.push_back(concat);
  dit::FusionOp whole = fuse(ops, next);
  if (kernels.takes(whole))
    return;
  ops = inlineFusion(whole); // as it was
  fuse(ArrayRef(ops).take_front(count), ops[count]);
}

void RowwiseGroups::wrap(Operation *op) {
  b.setInsertionPointAfter(op);
  dit::FusionOp fusion = makeFusion(b, "rowwise", {op}, {op->getResult(0)});
  if (!kernels.takes(fusion))
    inlineFusion(fusion);
}

/// The rowwise kernel that reads a result of `maps` before anything else does; null when something else is first.
static dit::FusionOp firstReader(dit::FusionOp maps) {
  Operation *first = nullptr;
  for (Operation *user : maps->getUsers())
    if (!first || user->isBeforeInBlock(first))
      first = user;
  auto reader = dyn_cast_or_null<dit::FusionOp>(first);
  return reader && reader.getFamily() == "rowwise" ? reader : dit::FusionOp();
}

/// Has each place of its one result a value of its own, made of what stands there?
static bool isPlaceByPlace(dit::FusionOp maps) {
  return maps->getNumResults() == 1 && llvm::all_of(maps.getBodyBlock().without_terminator(), [&](Operation &op) {
           return isa<dit::MapOp>(op) && tensorType(op.getResult(0)).getShape() == tensorType(maps.getResult(0)).getShape();
         });
}

/// Does it read each place of `value` for that place, or for the statistics of its row? Then nothing is computed twice.
static bool readsPlaceByPlace(dit::FusionOp reader, Value value) {
  for (auto [argument, input] : llvm::zip(reader.getBodyBlock().getArguments(), reader.getInputs()))
    if (input == value && !llvm::all_of(argument.getUsers(), [&](Operation *user) {
          return isa<dit::MapOp, dit::NormOp>(user) && tensorType(user->getResult(0)).getShape() == tensorType(value).getShape();
        }))
      return false;
  return true;
}

void RowwiseGroups::joinReader(dit::FusionOp maps) {
  dit::FusionOp reader = firstReader(maps);
  if (!reader || !isPlaceByPlace(maps) || !readsPlaceByPlace(reader, maps.getResult(0)))
    return;
  bool isKept = llvm::any_of(maps->getUsers(), [&](Operation *user) { return user != reader; });
  b.setInsertionPoint(reader);
  auto first = cast<dit::FusionOp>(b.clone(*maps)), second = cast<dit::FusionOp>(b.clone(*reader));
  second->replaceUsesOfWith(maps.getResult(0), first.getResult(0));
  SmallVector<Value> results(first.getBodyBlock().getTerminator()->getOperands().take_front(isKept));
  llvm::append_range(results, second.getBodyBlock().getTerminator()->getOperands());
  SmallVector<Operation *> ops = inlineFusion(first);
  llvm::append_range(ops, inlineFusion(second));
  dit::FusionOp whole = makeFusion(b, "rowwise", ops, results);
  if (!kernels.takes(whole)) {
    whole.erase();
    return;
  }
  reader->replaceAllUsesWith(whole.getResults().drop_front(isKept));
  reader.erase();
  if (isKept)
    maps.getResult(0).replaceAllUsesWith(whole.getResult(0));
  maps.erase();
}

} // namespace ditc
