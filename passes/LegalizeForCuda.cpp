// SPDX-License-Identifier: Apache-2.0
//
// LegalizeForCuda: after it, every operation of a bucket is one launch, a library call, or a free view. A fusion that the
// target takes stays; a product of several things side by side may come apart by columns into two of them (ColumnParts.h);
// any other is split into its heart (a product, an attention, a convolution) and one rowwise kernel with
// what follows it, which the norm that reads it next belongs to. The first maps behind a product stay with it if the target
// takes them so, and results of few tokens for each head, runs of which would leave tiles empty, are stored by tokens
// (RowsFirst.h). Products are kernels of the target's, all as one or those of one input together, where that would be no
// slower than the library's; products of one input that are not become one product, whose weights are joined when they are
// bound, if that is worth the memory. A product whose result becomes an image for a convolution stays in its own layout, which
// the convolution reads. Views at the edge stay outside, where they cost nothing. Single operations become
// rowwise kernels of their own.
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

#include "dialects/dit/Tensors.h"
#include "passes/ColumnParts.h"
#include "passes/Fusions.h"
#include "passes/JoinedProducts.h"
#include "passes/MarkInvariant.h"
#include "passes/Passes.h"
#include "passes/Rewriting.h"
#include "passes/RowsFirst.h"
#include "passes/RowwiseGroups.h"
#include "passes/StreamParts.h"
#include "passes/TargetRemarks.h"
#include "passes/TrailingViews.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace ditc {
#define GEN_PASS_DEF_LEGALIZEFORCUDA
#include "passes/Passes.h.inc"

namespace {

/// Operations that have kernels of their own, whatever surrounds them.
bool isHeart(Operation *op) { return isa<dit::MatmulOp, dit::AttentionOp, dit::LinearStateOp, dit::LinearApplyOp, dit::ConvOp, dit::ArgReduceOp, dit::ScanOp, dit::SortOp, dit::ScatterOp>(op); }

class Legalizer {
public:
  Legalizer(func::FuncOp function, const TargetKernels &kernels) : function(function), block(function.getBody().front()), b(function), kernels(kernels), rowwise(b, kernels) {}

  void run() {
    for (dit::FusionOp fusion : llvm::make_early_inc_range(block.getOps<dit::FusionOp>())) {
      if (putViewsBehind(b, fusion, kernels) || (fusion.getFamily() == "gemm" && putRowsFirst(b, fusion, kernels)))
        continue;
      tellWhatComesApart(fusion);
      legalize(fusion);
    }
    for (dit::MatmulOp product : block.getOps<dit::MatmulOp>())
      giveOneType(product);
    for (Operation &op : llvm::make_early_inc_range(block.without_terminator()))
      if (isa<dit::MapOp, dit::NormOp, dit::ReduceOp, dit::GatherOp, dit::PadOp>(op))
        rowwise.wrap(&op);
    for (dit::ConcatOp concat : llvm::make_early_inc_range(block.getOps<dit::ConcatOp>()))
      rowwise.absorb(concat);
    joinBehindProducts();
  }

private:
  /// What came off a product (a residual in f32 behind one of bf16) goes with the norm that reads it: the stream is loaded once less.
  void joinBehindProducts() {
    llvm::DenseSet<Value> invariant = stepInvariantValues(function);
    auto all = llvm::to_vector(block.getOps<dit::FusionOp>());
    for (dit::FusionOp maps : llvm::reverse(all)) // a reader, which is erased, stands behind
      if (maps.getFamily() == "rowwise" && !invariant.contains(maps.getResult(0)) && llvm::any_of(maps.getInputs(), isProductAlone))
        rowwise.joinReader(maps);
  }

  /// Is it the result of products with nothing behind them, or a view of it?
  static bool isProductAlone(Value value) {
    Operation *source = value.getDefiningOp();
    while (source && dit::isViewOp(source))
      source = source->getOperand(0).getDefiningOp();
    if (auto fusion = dyn_cast_or_null<dit::FusionOp>(source))
      return llvm::all_of(fusion.getBodyBlock().without_terminator(), llvm::IsaPred<dit::MatmulOp>);
    return isa_and_nonnull<dit::MatmulOp>(source);
  }

  /// Families of which the target has fused kernels; others are a heart and rowwise kernels by their nature.
  void tellWhatComesApart(dit::FusionOp fusion) {
    if (fusion.getFamily() != "gemm" && fusion.getFamily() != "rowwise")
      return;
    Verdict verdict = kernels.takes(fusion);
    if (verdict)
      return;
    Block &body = fusion.getBodyBlock();
    auto heart = llvm::find_if(body.without_terminator(), [](Operation &op) { return isHeart(&op); });
    remarkDeviation(heart == body.without_terminator().end() ? &body.front() : &*heart, fusion.getFamily(), Deviation::TakenApart, verdict);
  }

  void legalize(dit::FusionOp fusion) {
    if (kernels.takes(fusion))
      return;
    if (fusion.getFamily() == "gemm") {
      if (SmallVector<dit::FusionOp> parts = separateStreams(b, fusion); !parts.empty()) {
        for (dit::FusionOp part : parts)
          legalize(part);
        return;
      }
      if (splitByColumns(b, fusion, kernels))
        return;
      if (!takesProductsAlone(fusion))
        joinProducts(b, fusion, kernels);
      if (kernels.takes(fusion))
        return;
    }
    split(fusion);
  }

  /// A library call has one type, here the widest: where a product is wanted in a wider one than its operands have (what
  /// follows it, as in `baddbmm`, stayed apart), they are widened, which loses nothing. fp8 operands of an f32
  /// product become bf16: its sums are scaled by what follows, and would be f32 only to stay in registers.
  void giveOneType(dit::MatmulOp product) {
    Type own = elementOf(product.getResult()), wide = own;
    if (!isa<FloatType>(own))
      return;
    if (is8BitFloat(own)) // a library's fp8 products want scales, and round otherwise
      wide = b.getF32Type();
    for (Value operand : product->getOperands())
      if (elementOf(operand).getIntOrFloatBitWidth() > wide.getIntOrFloatBitWidth())
        wide = elementOf(operand);
    if (is8BitFloat(elementOf(product.getLhs())) && own.isF32())
      wide = b.getBF16Type();
    b.setInsertionPoint(product);
    for (OpOperand &operand : product->getOpOperands())
      if (elementOf(operand.get()) != wide)
        operand.set(castTo(b, product.getLoc(), operand.get(), wide));
    if (wide == own)
      return;
    product.getResult().setType(product.getType().clone(wide));
    b.setInsertionPointAfter(product);
    Value rounded = castTo(b, product.getLoc(), product.getResult(), own);
    product.getResult().replaceAllUsesExcept(rounded, rounded.getDefiningOp());
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
    bool takes = isOwnLaunch(products);
    for (Operation *op : products)
      op->erase();
    return takes;
  }

  /// Would the target rather have the products, with nothing behind them, as one launch of its own than as calls of the library?
  bool isOwnLaunch(ArrayRef<Operation *> products) {
    b.setInsertionPointAfter(products.back());
    SmallVector<Operation *> copies = llvm::map_to_vector(products, [&](Operation *op) { return b.clone(*op); });
    dit::FusionOp alone = makeFusion(b, "gemm", copies, llvm::map_to_vector(copies, [](Operation *op) -> Value { return op->getResult(0); }));
    bool isOwn = kernels.takes(alone) && kernels.prefersToLibrary(alone);
    alone.erase();
    return isOwn;
  }

  /// Products as launches of the target's own, where it prefers them: all as one, or else those of one input, as many as it takes.
  SmallVector<SmallVector<Operation *>> ownLaunches(ArrayRef<Operation *> products) {
    if (isOwnLaunch(products))
      return {SmallVector<Operation *>(products)};
    SmallVector<SmallVector<Operation *>> launches;
    llvm::DenseMap<Value, size_t> last; // launch of an input
    for (Operation *op : products) {
      Value input = op->getOperand(0);
      if (auto found = last.find(input); found != last.end()) {
        launches[found->second].push_back(op);
        if (isOwnLaunch(launches[found->second]))
          continue;
        launches[found->second].pop_back();
      }
      if (isOwnLaunch({op})) {
        last[input] = launches.size();
        launches.push_back({op});
      }
    }
    return launches;
  }

  //===-- Splitting -------------------------------------------------------------------------------===//

  void split(dit::FusionOp fusion) {
    bool isGemv = fusion.getFamily() == "gemv", isRowwise = fusion.getFamily() == "rowwise";
    bool isGemm = fusion.getFamily() == "gemm";
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
        rowwise.group(ops, next);
      return;
    }
    for (Operation *op : before)
      op->moveBefore(hearts.front());
    if (llvm::none_of(before, llvm::IsaPred<dit::ConcatOp>)) // parts of a concat are written in their place
      rowwise.group(before, hearts.front());
    if (areIndependent(hearts, after)) {
      for (Operation *op : after)
        op->moveBefore(next);
      if (isGemv)
        groupProducts("gemv", hearts);
      if (isGemm && !keepEpilogue(hearts, after))
        for (ArrayRef<Operation *> launch : ownLaunches(hearts))
          groupProducts("gemm", launch);
    }
    rowwise.group(after, next);
  }

  /// The first maps behind a product may be its epilogue where the last ones cannot (behind a permutation of rows): as many as the
  /// target takes, if they store one result. They are taken from `after`.
  bool keepEpilogue(SmallVector<Operation *> &hearts, SmallVector<Operation *> &after) {
    if (hearts.size() != 1)
      return false;
    for (size_t count = after.size(); count-- > 1;) {
      if (!isa<dit::MapOp>(after[count - 1]))
        continue;
      SmallVector<Operation *> ops{hearts.front()};
      llvm::append_range(ops, ArrayRef(after).take_front(count));
      SmallVector<Value> results = resultsReadOutside(ops);
      if (results.size() != 1)
        continue;
      b.setInsertionPoint(after[count]);
      dit::FusionOp fusion = makeFusion(b, "gemm", ops, results);
      if (kernels.takes(fusion)) {
        after.erase(after.begin(), after.begin() + count);
        return true;
      }
      ops = inlineFusion(fusion); // others, in their places
      hearts.front() = ops.front();
      std::copy(ops.begin() + 1, ops.end(), after.begin());
    }
    return false;
  }

  /// Products of which none needs another one's result: such share no launch.
  static bool areIndependent(ArrayRef<Operation *> hearts, ArrayRef<Operation *> after) {
    return llvm::all_of(hearts, [&](Operation *op) {
      return isa<dit::MatmulOp>(op) && llvm::none_of(op->getOperands(), [&](Value operand) { return llvm::is_contained(after, operand.getDefiningOp()) || llvm::is_contained(hearts, operand.getDefiningOp()); });
    });
  }

  /// All products as one launch.
  void groupProducts(StringRef family, ArrayRef<Operation *> products) {
    b.setInsertionPointAfter(products.back());
    makeFusion(b, family, products, llvm::map_to_vector(products, [](Operation *op) -> Value { return op->getResult(0); }));
  }

  func::FuncOp function;
  Block &block;
  OpBuilder b;
  const TargetKernels &kernels;
  RowwiseGroups rowwise;
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
