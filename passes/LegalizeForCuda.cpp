// SPDX-License-Identifier: Apache-2.0
//
// LegalizeForCuda: after it, every operation of a bucket is one launch, a library call, or a free view. A fusion that the
// target takes stays; a product of several things side by side may come apart by columns into two of them (ColumnParts.h);
// any other is split into its heart (a product, an attention, a convolution) and one rowwise kernel with
// what follows it. Products are a kernel of the target's where it would be no slower than the library's; products of one
// input that are not become one product, whose weights are joined when they are bound, if that is worth the memory. Views
// at the edge stay outside, where they cost nothing. Single operations become rowwise kernels of their own.
//
// Before:
//   func.func @f(%x: tensor<64x32xbf16>) -> tensor<64x128xbf16> {
//     %w = dit.weight "w" : tensor<128x32xbf16>
//     %y = dit.fusion "gemm"(%x, %w) : (tensor<64x32xbf16>, tensor<128x32xbf16>) -> tensor<64x128xbf16> {
//     ^bb0(%a: tensor<64x32xbf16>, %b: tensor<128x32xbf16>):
//       %m = dit.matmul %a, %b transpose_rhs : (tensor<64x32xbf16>, tensor<128x32xbf16>) -> tensor<64x128xbf16>
//       %t = dit.map(%m) : (tensor<64x128xbf16>) -> tensor<64x128xbf16> {
//       ^bb0(%p: f32):
//         %q = math.tanh %p : f32
//         dit.yield %q : f32
//       }
//       dit.yield %t : tensor<64x128xbf16>
//     }
//     return %y : tensor<64x128xbf16>
//   }
// After:
//   func.func @f(%x: tensor<64x32xbf16>) -> tensor<64x128xbf16> {
//     %w = dit.weight "w" : tensor<128x32xbf16>
//     %m = dit.matmul %x, %w transpose_rhs : (tensor<64x32xbf16>, tensor<128x32xbf16>) -> tensor<64x128xbf16>
//     %y = dit.fusion "rowwise"(%m) : (tensor<64x128xbf16>) -> tensor<64x128xbf16> {
//     ^bb0(%a: tensor<64x128xbf16>):
//       %t = dit.map(%a) : (tensor<64x128xbf16>) -> tensor<64x128xbf16> {
//       ^bb0(%p: f32):
//         %q = math.tanh %p : f32
//         dit.yield %q : f32
//       }
//       dit.yield %t : tensor<64x128xbf16>
//     }
//     return %y : tensor<64x128xbf16>
//   }
#include "passes/LegalizeForCuda.h"

#include "passes/ColumnParts.h"
#include "passes/Fusions.h"
#include "passes/Passes.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace ditc {
#define GEN_PASS_DEF_LEGALIZEFORCUDA
#include "passes/Passes.h.inc"

namespace {

RankedTensorType tensorType(Value value) { return cast<RankedTensorType>(value.getType()); }

/// Operations that have kernels of their own, whatever surrounds them.
bool isHeart(Operation *op) { return isa<dit::MatmulOp, dit::AttentionOp, dit::ConvOp, dit::ArgReduceOp, dit::ScanOp, dit::SortOp, dit::ScatterOp>(op); }

/// Known once weights are bound.
bool isStable(Value value) {
  Operation *def = value.getDefiningOp();
  return def && (isa<dit::WeightOp, dit::ConstantOp>(def) || (def->getNumOperands() > 0 && llvm::all_of(def->getOperands(), isStable)));
}

class Legalizer {
public:
  Legalizer(func::FuncOp function, const TargetKernels &kernels) : block(function.getBody().front()), b(function), kernels(kernels) {}

  void run() {
    for (dit::FusionOp fusion : llvm::make_early_inc_range(block.getOps<dit::FusionOp>()))
      legalize(fusion);
    wrapSingles();
    for (dit::ConcatOp concat : llvm::make_early_inc_range(block.getOps<dit::ConcatOp>()))
      absorbConcat(concat);
  }

private:
  void legalize(dit::FusionOp fusion) {
    if (kernels.takes(fusion))
      return;
    if (fusion.getFamily() == "gemm") {
      if (SmallVector<dit::FusionOp> parts = separate(fusion); !parts.empty()) {
        for (dit::FusionOp part : parts)
          legalize(part);
        return;
      }
      if (splitByColumns(b, fusion, kernels))
        return;
      if (!takesProductsAlone(fusion))
        joinProducts(fusion);
      if (kernels.takes(fusion))
        return;
    }
    split(fusion);
  }

  /// Would the target take the products of a gemm fusion as a kernel with nothing behind them? What they read must not be
  /// made inside.
  bool takesProductsAlone(dit::FusionOp fusion) {
    auto all = fusion.getBodyBlock().getOps<dit::MatmulOp>();
    if (all.empty() || !llvm::all_of(all, [](dit::MatmulOp op) { return llvm::all_of(op->getOperands(), llvm::IsaPred<BlockArgument>); }))
      return false;
    IRMapping inputs;
    for (auto [argument, input] : llvm::zip(fusion.getBodyBlock().getArguments(), fusion.getInputs()))
      inputs.map(argument, input);
    b.setInsertionPoint(fusion);
    SmallVector<Operation *> products = llvm::map_to_vector(all, [&](dit::MatmulOp op) { return b.clone(*op, inputs); });
    dit::FusionOp alone = makeFusion(b, "gemm", products, llvm::map_to_vector(products, [](Operation *op) -> Value { return op->getResult(0); }));
    bool takes = kernels.takes(alone) && kernels.prefersToLibrary(alone);
    alone.erase();
    return takes;
  }

  //===-- Products of several inputs --------------------------------------------------------------===//

  /// Streams of one launch (image and text tokens) as launches of their own; empty when there is one stream, or when an
  /// operation needs two of them.
  SmallVector<dit::FusionOp> separate(dit::FusionOp fusion) {
    llvm::MapVector<Value, SmallVector<Operation *>> streams; // left side -> operations, in order
    llvm::DenseMap<Operation *, Value> streamOf;
    Block &body = fusion.getBodyBlock();
    for (Operation &op : body.without_terminator()) {
      Value stream = isa<dit::MatmulOp>(op) ? op.getOperand(0) : Value();
      for (Value operand : op.getOperands())
        if (Value other = operand.getDefiningOp() ? streamOf.lookup(operand.getDefiningOp()) : Value()) {
          if (stream && stream != other)
            return {};
          stream = other;
        }
      if (stream) {
        streamOf[&op] = stream;
        streams[stream].push_back(&op);
      }
    }
    if (streams.size() < 2)
      return {};
    for (auto &[stream, ops] : streams) // a left side in two ranges
      if (auto concat = stream.getDefiningOp<dit::ConcatOp>(); concat && concat->hasOneUse())
        ops.insert(ops.begin(), concat);
    SmallVector<SmallVector<Operation *>> lists = llvm::map_to_vector(streams, [](auto &entry) { return entry.second; });
    inlineFusion(fusion);
    SmallVector<dit::FusionOp> parts;
    for (ArrayRef<Operation *> all : lists) {
      b.setInsertionPointAfter(all.back());
      parts.push_back(makeFusion(b, "gemm", all, resultsReadOutside(all)));
    }
    return parts;
  }

  //===-- Products of one input -------------------------------------------------------------------===//

  /// Two products can be columns of one: equal left sides and spelling (transposed right side 1, bias 2).
  using Key = std::pair<Value, unsigned>;

  void joinProducts(dit::FusionOp fusion) {
    llvm::MapVector<Key, SmallVector<dit::MatmulOp>> groups;
    for (dit::MatmulOp op : fusion.getBodyBlock().getOps<dit::MatmulOp>())
      if (isJoinable(fusion, op))
        groups[{op.getLhs(), (op.getTransposeRhs() ? 1 : 0) + (op.getBias() ? 2 : 0)}].push_back(op);
    for (auto &[key, products] : groups)
      if (products.size() > 1 && kernels.joiningPays(products.size(), weightBytes(products)))
        join(fusion, products);
  }

  static int64_t weightBytes(ArrayRef<dit::MatmulOp> products) {
    int64_t bytes = 0;
    for (dit::MatmulOp op : products)
      bytes += dit::tensorBytes(tensorType(op->getOperand(1)));
    return bytes;
  }

  static Value outside(dit::FusionOp fusion, Value value) {
    auto argument = dyn_cast<BlockArgument>(value);
    return argument ? fusion.getInputs()[argument.getArgNumber()] : Value();
  }

  static bool isJoinable(dit::FusionOp fusion, dit::MatmulOp op) {
    auto known = [&](Value value) { Value source = outside(fusion, value); return source && isStable(source); };
    return tensorType(op.getRhs()).getRank() == 2 && known(op.getRhs()) && (!op.getBias() || known(op.getBias()));
  }

  /// An operand of all products, side by side, as a new input of the fusion.
  Value joinOperands(dit::FusionOp fusion, ArrayRef<Value> operands, int64_t axis) {
    SmallVector<Value> parts;
    SmallVector<int64_t> shape(tensorType(operands.front()).getShape());
    shape[axis] = 0;
    for (Value operand : operands) {
      parts.push_back(outside(fusion, operand));
      shape[axis] += tensorType(operand).getDimSize(axis);
    }
    b.setInsertionPoint(fusion);
    auto type = tensorType(operands.front()).clone(shape);
    Value joined = dit::ConcatOp::create(b, b.getFusedLoc(llvm::map_to_vector(parts, [](Value part) { return part.getLoc(); })), type, parts, axis);
    fusion.getInputsMutable().append(joined);
    return fusion.getBodyBlock().addArgument(type, joined.getLoc());
  }

  void join(dit::FusionOp fusion, ArrayRef<dit::MatmulOp> products) {
    dit::MatmulOp first = products.front();
    Value weights = joinOperands(fusion, llvm::map_to_vector(products, [](dit::MatmulOp op) -> Value { return op.getRhs(); }), first.getTransposeRhs() ? 0 : 1);
    Value bias = first.getBias() ? joinOperands(fusion, llvm::map_to_vector(products, [](dit::MatmulOp op) -> Value { return op.getBias(); }), 0) : Value();
    SmallVector<int64_t> shape(tensorType(first.getResult()).getShape());
    shape.back() = tensorType(weights).getDimSize(first.getTransposeRhs() ? 0 : 1);
    b.setInsertionPoint(first);
    Location loc = b.getFusedLoc(llvm::map_to_vector(products, [](dit::MatmulOp op) { return op.getLoc(); }));
    Value product = dit::MatmulOp::create(b, loc, tensorType(first.getResult()).clone(shape), first.getLhs(), weights, bias, first.getTransposeRhs());
    SmallVector<int64_t> offsets(shape.size(), 0), steps(shape.size(), 1);
    for (dit::MatmulOp op : products) {
      Value part = dit::SliceOp::create(b, op.getLoc(), op.getType(), product, offsets, steps);
      offsets.back() += tensorType(part).getShape().back();
      op.getResult().replaceAllUsesWith(part);
    }
    for (dit::MatmulOp op : products)
      op.erase();
    dropUnusedInputs(fusion);
  }

  static void dropUnusedInputs(dit::FusionOp fusion) {
    Block &body = fusion.getBodyBlock();
    for (unsigned i = body.getNumArguments(); i-- > 0;)
      if (body.getArgument(i).use_empty()) {
        body.eraseArgument(i);
        fusion.getInputsMutable().erase(i);
      }
  }

  //===-- Splitting -------------------------------------------------------------------------------===//

  void split(dit::FusionOp fusion) {
    bool isGemv = fusion.getFamily() == "gemv", isRowwise = fusion.getFamily() == "rowwise";
    bool productsAreKernels = fusion.getFamily() == "gemm" && takesProductsAlone(fusion);
    Operation *next = fusion->getNextNode();
    SmallVector<Operation *> ops = inlineFusion(fusion), before, hearts, after;
    llvm::SmallPtrSet<Operation *, 16> behind;
    for (Operation *op : ops) {
      bool follows = llvm::any_of(op->getOperands(), [&](Value operand) { return operand.getDefiningOp() && behind.contains(operand.getDefiningOp()); });
      (isHeart(op) ? hearts : follows ? after : before).push_back(op);
      if (follows || isHeart(op))
        behind.insert(op);
    }
    if (hearts.empty()) { // rows of many tables, or a rowwise kernel that the target does not take whole
      if (!isRowwise)
        groupRowwise(ops, next);
      return;
    }
    for (Operation *op : before)
      op->moveBefore(hearts.front());
    if (llvm::none_of(before, llvm::IsaPred<dit::ConcatOp>)) // parts of a concat are written in their place
      groupRowwise(before, hearts.front());
    if (isGemv || productsAreKernels)
      groupProducts(isGemv ? "gemv" : "gemm", hearts, after, next);
    groupRowwise(after, next);
  }

  /// All products as one launch.
  void groupProducts(StringRef family, ArrayRef<Operation *> hearts, ArrayRef<Operation *> after, Operation *next) {
    if (hearts.empty() || !llvm::all_of(hearts, llvm::IsaPred<dit::MatmulOp>))
      return;
    for (Operation *op : hearts) // a product that needs another one's result cannot share its launch
      if (llvm::any_of(op->getOperands(), [&](Value operand) { return llvm::is_contained(after, operand.getDefiningOp()) || llvm::is_contained(hearts, operand.getDefiningOp()); }))
        return;
    for (Operation *op : after)
      op->moveBefore(next);
    SmallVector<Value> results = llvm::map_to_vector(hearts, [](Operation *op) -> Value { return op->getResult(0); });
    b.setInsertionPointAfter(hearts.back());
    makeFusion(b, family, hearts, results);
  }

  static bool onlyViews(Operation *op, const llvm::SmallPtrSetImpl<Operation *> &members) {
    if (!dit::isViewOp(op))
      return false;
    Operation *source = op->getOperand(0).getDefiningOp();
    return !source || !members.contains(source) || onlyViews(source, members);
  }

  /// What stands before or behind the heart becomes one rowwise kernel, but for views that others read.
  void groupRowwise(ArrayRef<Operation *> ops, Operation *next) {
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
    dit::FusionOp fusion = group(inside, inside.back()->getNextNode());
    if (!kernels.takes(fusion))
      inlineFusion(fusion);
  }

  /// The kernel's operations become neighbours at the end, behind the views that stay outside.
  static void moveBehind(ArrayRef<Operation *> inside, Operation *next) {
    llvm::SmallPtrSet<Operation *, 16> moved(inside.begin(), inside.end());
    SmallVector<Operation *> readers; // views of results that were inlined between
    for (Operation *op = inside.front(); op != next; op = op->getNextNode())
      if (!moved.contains(op) && llvm::any_of(op->getOperands(), [&](Value operand) { return operand.getDefiningOp() && moved.contains(operand.getDefiningOp()); })) {
        readers.push_back(op);
        moved.insert(op);
      }
    for (Operation *op : inside)
      op->moveBefore(next);
    for (Operation *op : readers)
      op->moveBefore(next);
  }

  //===-- Concats ---------------------------------------------------------------------------------===//

  /// A concat whose parts one kernel computes (the halves of a rotation, even and odd columns) is written by it whole:
  /// each part in its place would be scattered accesses.
  void absorbConcat(dit::ConcatOp concat) {
    dit::FusionOp source;
    llvm::SetVector<Operation *> views;
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
        return;
      source = fusion;
      views.insert(chain.rbegin(), chain.rend());
    }
    SmallVector<Operation *> ops = inlineFusion(source);
    size_t count = ops.size();
    Operation *next = ops.back()->getNextNode();
    for (Operation *view : views) {
      view->moveBefore(next);
      ops.push_back(view);
    }
    concat->moveBefore(next);
    ops.push_back(concat);
    dit::FusionOp whole = group(ops, next);
    if (kernels.takes(whole))
      return;
    ops = inlineFusion(whole); // as it was
    group(ArrayRef(ops).take_front(count), ops[count]);
  }

  /// One rowwise kernel of `ops` before `next`.
  dit::FusionOp group(ArrayRef<Operation *> ops, Operation *next) {
    b.setInsertionPoint(next);
    return makeFusion(b, "rowwise", ops, resultsReadOutside(ops));
  }

  //===-- Single operations -----------------------------------------------------------------------===//

  void wrapSingles() {
    for (Operation &op : llvm::make_early_inc_range(block.without_terminator())) {
      if (!isa<dit::MapOp, dit::NormOp, dit::ReduceOp, dit::GatherOp, dit::PadOp>(op))
        continue;
      b.setInsertionPointAfter(&op);
      dit::FusionOp fusion = makeFusion(b, "rowwise", {&op}, {op.getResult(0)});
      if (!kernels.takes(fusion))
        inlineFusion(fusion);
    }
  }

  Block &block;
  OpBuilder b;
  const TargetKernels &kernels;
};

class LegalizeForCuda : public impl::LegalizeForCudaBase<LegalizeForCuda> {
public:
  explicit LegalizeForCuda(std::shared_ptr<const TargetKernels> kernels) : kernels(std::move(kernels)) {}
  void runOnOperation() override { Legalizer(getOperation(), *kernels).run(); }

private:
  std::shared_ptr<const TargetKernels> kernels;
};

} // namespace

std::unique_ptr<Pass> createLegalizeForCuda(std::shared_ptr<const TargetKernels> kernels) { return std::make_unique<LegalizeForCuda>(std::move(kernels)); }

} // namespace ditc
