// SPDX-License-Identifier: Apache-2.0
#include "passes/ColumnParts.h"

#include "dialects/dit/Tensors.h"
#include "passes/Fusions.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace ditc {

namespace {

constexpr size_t kMostParts = 2;

struct Range {
  int64_t begin = 0, end = 0;
};

/// What some results are made of.
struct Part {
  SmallVector<unsigned> results;
  llvm::MapVector<Operation *, Range> columns; ///< by product
  llvm::SmallPtrSet<Operation *, 16> ops;

  void add(const Part &other) {
    llvm::append_range(results, other.results);
    ops.insert(other.ops.begin(), other.ops.end());
    for (auto [product, range] : other.columns)
      add(product, range);
  }
  void add(Operation *product, Range range) {
    Range &known = columns.insert({product, range}).first->second;
    known = {std::min(known.begin, range.begin), std::max(known.end, range.end)};
  }
};

class Splitter {
public:
  Splitter(OpBuilder &b, dit::FusionOp fusion, const TargetKernels &kernels) : b(b), fusion(fusion), body(fusion.getBodyBlock()), kernels(kernels) {}

  bool run() {
    if (!findParts() || parts.size() < 2)
      return false;
    SmallVector<dit::FusionOp> taken;
    SmallVector<Part> groups;
    for (const Part &part : parts) {
      if (!groups.empty()) {
        Part wider = groups.back();
        wider.add(part);
        if (dit::FusionOp made = makeTaken(wider)) {
          discard(taken.back());
          taken.back() = made, groups.back() = std::move(wider);
          continue;
        }
      }
      dit::FusionOp made = taken.size() < kMostParts ? makeTaken(part) : dit::FusionOp();
      if (!made) {
        llvm::for_each(taken, discard);
        return false;
      }
      taken.push_back(made), groups.push_back(part);
    }
    replace(taken, groups);
    return true;
  }

private:
  /// One for each result, by rising columns.
  bool findParts() {
    for (auto [i, value] : llvm::enumerate(body.getTerminator()->getOperands())) {
      Part part;
      part.results.push_back(i);
      if (!visit(value, part) || part.columns.empty())
        return false;
      parts.push_back(std::move(part));
    }
    llvm::stable_sort(parts, [this](const Part &a, const Part &b) { return firstOf(a) < firstOf(b); });
    llvm::DenseMap<Operation *, int64_t> ends;
    for (const Part &part : parts)
      for (auto [product, range] : part.columns)
        if (range.begin < std::exchange(ends[product], range.end)) // read by two results
          return false;
    return true;
  }

  std::pair<size_t, int64_t> firstOf(const Part &part) const {
    auto [product, range] = part.columns.front();
    return {std::distance(body.begin(), product->getIterator()), range.begin};
  }

  /// Goes from a result back to columns of products.
  bool visit(Value value, Part &part) {
    Operation *op = value.getDefiningOp();
    if (!op || part.ops.contains(op))
      return true;
    if (auto product = dyn_cast<dit::MatmulOp>(op)) {
      part.add(product, {0, tensorType(value).getShape().back()});
      return visitProduct(product, part);
    }
    auto slice = dyn_cast<dit::SliceOp>(op);
    if (auto product = slice ? slice.getInput().getDefiningOp<dit::MatmulOp>() : nullptr; product && isOfColumns(slice)) {
      part.ops.insert(op);
      int64_t begin = slice.getOffsets().back();
      part.add(product, {begin, begin + tensorType(value).getShape().back()});
      return visitProduct(product, part);
    }
    part.ops.insert(op);
    return llvm::all_of(op->getOperands(), [&](Value operand) { return visit(operand, part); });
  }

  bool visitProduct(dit::MatmulOp product, Part &part) {
    bool isLinear = product.getTransposeRhs() && isa<BlockArgument>(product.getRhs()) && tensorType(product.getRhs()).getRank() == 2 &&
                    (!product.getBias() || isa<BlockArgument>(product.getBias()));
    part.ops.insert(product);
    return isLinear && visit(product.getLhs(), part);
  }

  static bool isOfColumns(dit::SliceOp slice) {
    return llvm::all_of(slice.getSteps(), [](int64_t step) { return step == 1; }) &&
           tensorType(slice.getInput()).getShape().drop_back() == tensorType(slice.getResult()).getShape().drop_back();
  }

  /// The fusion of a part, before the whole; null when the target does not take it.
  dit::FusionOp makeTaken(const Part &part) {
    b.setInsertionPoint(fusion);
    IRMapping mapping;
    for (auto [argument, input] : llvm::zip(body.getArguments(), fusion.getInputs()))
      mapping.map(argument, input);
    SmallVector<Operation *> ops;
    for (Operation &op : body.without_terminator())
      if (part.ops.contains(&op))
        ops.push_back(clone(&op, part, mapping));
    auto results = llvm::map_to_vector(part.results, [&](unsigned i) { return mapping.lookup(body.getTerminator()->getOperand(i)); });
    dit::FusionOp made = makeFusion(b, "gemm", ops, results);
    if (kernels.takes(made))
      return made;
    discard(made);
    return {};
  }

  Operation *clone(Operation *op, const Part &part, IRMapping &mapping) {
    if (auto product = dyn_cast<dit::MatmulOp>(op))
      return cloneProduct(product, part.columns.lookup(op), mapping);
    auto slice = dyn_cast<dit::SliceOp>(op);
    Operation *source = slice ? slice.getInput().getDefiningOp() : nullptr;
    if (!source || !part.columns.contains(source) || !isOfColumns(slice))
      return b.clone(*op, mapping);
    SmallVector<int64_t> offsets(slice.getOffsets());
    offsets.back() -= part.columns.lookup(source).begin;
    Operation *moved = dit::SliceOp::create(b, op->getLoc(), slice.getType(), mapping.lookup(slice.getInput()), offsets, slice.getSteps());
    mapping.map(slice.getResult(), moved->getResult(0));
    return moved;
  }

  Operation *cloneProduct(dit::MatmulOp product, Range columns, IRMapping &mapping) {
    auto rows = [&](Value value) -> Value {
      Value source = value ? mapping.lookup(value) : Value();
      if (!source || columns.end - columns.begin == tensorType(source).getDimSize(0))
        return source;
      SmallVector<int64_t> shape(tensorType(source).getShape()), offsets(shape.size(), 0), steps(shape.size(), 1);
      shape.front() = columns.end - columns.begin, offsets.front() = columns.begin;
      return dit::SliceOp::create(b, source.getLoc(), tensorType(source).clone(shape), source, offsets, steps);
    };
    Value weight = rows(product.getRhs()), bias = rows(product.getBias());
    SmallVector<int64_t> shape(tensorType(product.getResult()).getShape());
    shape.back() = columns.end - columns.begin;
    Operation *made = dit::MatmulOp::create(b, product.getLoc(), tensorType(product.getResult()).clone(shape), mapping.lookup(product.getLhs()), weight, bias, true);
    mapping.map(product.getResult(), made->getResult(0));
    return made;
  }

  /// With the views of weights that were made for it.
  static void discard(dit::FusionOp made) {
    SmallVector<Value> inputs(made.getInputs());
    made.erase();
    for (Value input : inputs)
      if (auto slice = input.getDefiningOp<dit::SliceOp>(); slice && slice->use_empty())
        slice.erase();
  }

  void replace(ArrayRef<dit::FusionOp> taken, ArrayRef<Part> groups) {
    for (auto [made, group] : llvm::zip(taken, groups))
      for (auto [i, result] : llvm::enumerate(group.results))
        fusion.getResult(result).replaceAllUsesWith(made->getResult(i));
    fusion.erase();
  }

  OpBuilder &b;
  dit::FusionOp fusion;
  Block &body;
  const TargetKernels &kernels;
  SmallVector<Part> parts;
};

} // namespace

bool splitByColumns(OpBuilder &b, dit::FusionOp fusion, const TargetKernels &kernels) { return Splitter(b, fusion, kernels).run(); }

} // namespace ditc
