// SPDX-License-Identifier: Apache-2.0
#include "codegen/cuda/gemm/TileProgram.h"

#include "codegen/cuda/gemm/TileLanes.h"
#include "dialects/dit/Tensors.h"
#include "dialects/fusion/DimRoles.h"

#include "llvm/Support/MathExtras.h"

#include <numeric>

using namespace mlir;

namespace ditc {

namespace {

constexpr size_t kMaxOutputs = 4, kMaxWeights = 4; // of a Problem in the templates

/// Types that tensor cores multiply as they are; sums of e4m3 are scaled by what follows, so they stay f32.
bool isMultiplied(dit::MatmulOp product) {
  Type type = elementOf(product.getLhs());
  return elementOf(product.getRhs()) == type && (is16BitFloat(type) || (is8BitFloat(type) && elementOf(product.getResult()).isF32()));
}

/// Heads of whole groups of eight columns, of which a tile has whole ones.
bool isHeadSize(int64_t size) { return size >= 16 && size <= 128 && size % 8 == 0; }

class Reader {
public:
  Reader(Block &body, TileProgram &program) : body(body), program(program) {}

  Verdict read() {
    program.body = &body;
    for (Operation &op : body.without_terminator()) // nothing to compute, and no size to divide a place by
      if (tensorType(op.getResult(0)).getNumElements() == 0)
        return {Reason::NoSlot, op.getResult(0)};
    for (dit::MatmulOp product : body.getOps<dit::MatmulOp>())
      if (Verdict verdict = readProduct(product); !verdict)
        return verdict;
    for (BlockArgument argument : body.getArguments())
      if (!isLoadable(argument) && !isMultipliedOnly(argument))
        return {Reason::TypeUnsupported, argument};
    if (program.problems.empty() || program.problems.size() > 2)
      return {Reason::NoSlot, body.getTerminator()->getOperand(0)};
    if (program.problems.size() == 2 && (program.problems[0].columns != program.problems[1].columns || program.problems[0].k != program.problems[1].k))
      return {Reason::ShapeMismatch, program.problems[1].product().getRhs()};
    for (Operation &op : body.without_terminator()) {
      cluster.ops.push_back(&op);
      cluster.members.insert(&op);
      if (isa<dit::MatmulOp>(op))
        cluster.anchors.push_back(&op);
    }
    if (Verdict verdict = readOutputs(); !verdict)
      return verdict;
    program.gated = llvm::all_of(program.problems, [&](const TileProblem &problem) { return isGated(problem); });
    for (TileProblem &problem : program.problems) {
      if (problem.weights.size() > kMaxWeights)
        return {Reason::ShapeMismatch, problem.product().getRhs()};
      if (!fitTiles(problem))
        return {program.head > 0 ? Reason::HeadSplitsTile : Reason::ShapeMismatch, problem.product().getRhs()};
      if (Verdict verdict = placeOutputs(problem); !verdict)
        return verdict;
    }
    return {};
  }

private:
  Verdict readProduct(dit::MatmulOp product) {
    auto argumentOf = [](Value value) { return dyn_cast<BlockArgument>(value); };
    int64_t columns = tensorType(product.getResult()).getShape().back();
    TileProblem problem;
    problem.rowShape.assign(tensorType(product.getLhs()).getShape().drop_back().begin(), tensorType(product.getLhs()).getShape().drop_back().end());
    if (!isMultiplied(product) || (program.operands && program.operands != elementOf(product.getLhs())))
      return {Reason::TypeUnsupported, product.getLhs()};
    program.operands = elementOf(product.getLhs());
    int64_t group = 16 / dit::elementBytes(program.operands); // values of k that are copied at once
    if (!product.getTransposeRhs() || !argumentOf(product.getRhs()) || tensorType(product.getRhs()).getRank() != 2 || columns % 8 != 0)
      return {Reason::NoSlot, product.getRhs()};
    TileWeight weight{product, argumentOf(product.getRhs()).getArgNumber(), 0, columns};
    for (TileProblem &known : program.problems)
      if (known.product().getLhs() == product.getLhs()) {
        weight.begin = known.columns;
        known.columns += columns;
        known.weights.push_back(weight);
        return {};
      }
    problem.columns = columns;
    problem.weights.push_back(weight);
    SmallVector<Value> ranges{product.getLhs()};
    if (auto concat = product.getLhs().getDefiningOp<dit::ConcatOp>()) {
      ranges.assign(concat.getInputs().begin(), concat.getInputs().end());
      if (static_cast<int64_t>(concat.getAxis()) + 1 != tensorType(concat.getResult()).getRank() || ranges.size() > 2)
        return {Reason::NoSlot, concat.getResult()};
    }
    for (Value range : ranges) {
      if (!argumentOf(range) || tensorType(range).getShape().back() % group != 0 || tensorType(range).getShape().back() == 0)
        return {Reason::NoSlot, range};
      problem.a.push_back(argumentOf(range).getArgNumber());
      problem.k.push_back(tensorType(range).getShape().back());
    }
    program.problems.push_back(std::move(problem));
    return {};
  }

  /// One result of half the columns; whether each of its elements needs two that are as far apart is seen later.
  bool isGated(const TileProblem &problem) const {
    auto own = llvm::make_filter_range(outputs, [&](const TileOutput &output) { return isOf(output, problem); });
    int64_t half = problem.columns / 2;
    bool endsInHalves = problem.weights.size() == 1 || (problem.weights.size() == 2 && problem.weights[1].begin == half);
    return program.head == 0 && endsInHalves && half % 8 == 0 && llvm::hasSingleElement(own) && (*own.begin()).columns == half;
  }

  /// Results have one 16-bit type, the operands' where those are of 16 bits: bf16 products made f16 are another kernel's.
  bool isOneType(Value value) {
    Type type = elementOf(value), wanted = program.results ? program.results : is16BitFloat(program.operands) ? program.operands : type;
    program.results = wanted;
    return is16BitFloat(type) && type == wanted;
  }

  bool isOf(const TileOutput &output, const TileProblem &problem) const {
    Value value = body.getTerminator()->getOperand(output.result);
    return llvm::any_of(problem.weights, [&](const TileWeight &weight) { return dependsOn(value, weight.product); });
  }

  /// Tiles do not span weights.
  bool fitTiles(const TileProblem &problem) const {
    int64_t width = narrowestTile(program.head);
    return problem.weights.size() == 1 || program.gated || llvm::all_of(problem.weights, [&](const TileWeight &weight) { return weight.columns % width == 0; });
  }

  /// Results that no program has, whatever their shapes.
  Verdict checkResults(RoleMap &roles) {
    for (Value value : body.getTerminator()->getOperands()) {
      if (!value.getDefiningOp() || !roles.find(value))
        return {Reason::NoSlot, value};
      if (!isOneType(value))
        return {Reason::TypeUnsupported, value};
    }
    if (body.getTerminator()->getNumOperands() > kMaxOutputs * program.problems.size())
      return {Reason::NoSlot, program.problems.front().product().getResult()};
    return {};
  }

  /// Dimensions of each result, and the size of heads when columns are mixed.
  Verdict readOutputs() {
    RoleMap roles(cluster);
    if (Verdict verdict = checkResults(roles); !verdict) // before heads: what is no head is no reason for what else is wrong
      return verdict;
    for (auto [i, value] : llvm::enumerate(body.getTerminator()->getOperands())) {
      TileOutput output;
      output.result = i;
      output.columns = 1;
      for (auto [dim, role] : llvm::enumerate(*roles.find(value)))
        if (role == DimRole::Column) {
          output.columnDims.push_back(dim);
          output.columns *= tensorType(value).getDimSize(dim);
        } else if (role == DimRole::Row) {
          output.rowDims.push_back(dim);
        }
      bool endsInColumns = !output.columnDims.empty() && (output.rowDims.empty() || output.columnDims.back() > output.rowDims.back());
      if (!endsInColumns || output.columnDims.size() > 2) // a row of the tile is stored in whole lines
        return {Reason::NoSlot, value};
      if (output.columnDims.size() == 2)
        if (Verdict verdict = seeTogether(tensorType(value).getDimSize(output.columnDims.back()), value); !verdict)
          return verdict;
      outputs.push_back(std::move(output));
    }
    for (dit::NormOp norm : body.getOps<dit::NormOp>())
      if (Verdict verdict = seeTogether(tensorType(norm.getInput()).getShape().back(), norm.getInput()); !verdict)
        return verdict;
    return {};
  }

  Verdict seeTogether(int64_t size, Value value) {
    if (!isHeadSize(size) || (program.head != 0 && program.head != size))
      return {Reason::HeadSplitsTile, value};
    program.head = size;
    return {};
  }

  void addVars(TileOutput &output) const {
    ArrayRef<int64_t> shape = tensorType(body.getTerminator()->getOperand(output.result)).getShape();
    for (unsigned dim : output.rowDims)
      output.vars.push_back({"", shape[dim]});
    if (program.head > 0) {
      output.vars.push_back({"head", output.columns / program.head});
      output.vars.push_back({"quad", 4});
    } else {
      output.vars.push_back({"column", output.columns / 2}); // pairs of columns
    }
  }

  /// Which product and which of its columns each result is.
  Verdict placeOutputs(TileProblem &problem) {
    for (TileOutput output : outputs) {
      if (!isOf(output, problem))
        continue;
      Value value = body.getTerminator()->getOperand(output.result);
      if (output.columns % std::max<int64_t>(program.head, 2) != 0)
        return {Reason::HeadSplitsTile, value};
      addVars(output);
      TilePull pull = program.pullOf(problem, output, [](unsigned) { return SmallVector<int64_t>(8, 1); });
      TileExprRef first = pull.at(value, program.elementOf(output, 0, 0));
      std::optional<int64_t> begin = first ? columnOf(*first) : std::nullopt;
      if (!begin)
        return pull.verdict ? Verdict{Reason::NoSlot, value} : pull.verdict;
      output.begin = program.gated ? 0 : program.head > 0 ? *begin / program.head * program.head : *begin;
      problem.outputs.push_back(std::move(output));
    }
    llvm::sort(problem.outputs, [](const TileOutput &a, const TileOutput &b) { return a.begin < b.begin; });
    int64_t next = 0;
    for (const TileOutput &output : problem.outputs) {
      if (output.begin != next)
        return {Reason::NoSlot, body.getTerminator()->getOperand(output.result)};
      next += output.columns;
    }
    bool isMixed = program.head == 0 && problem.outputs.size() > 1 && llvm::any_of(problem.outputs, [](const TileOutput &o) { return o.begin % 64 != 0; });
    if (next != program.outputColumns(problem) || problem.outputs.size() > kMaxOutputs || isMixed)
      return {Reason::NoSlot, problem.product().getResult()};
    return checkElements(problem);
  }

  /// Every element must come from its own chunk, without heads from its own place.
  Verdict checkElements(const TileProblem &problem) const {
    for (const TileOutput &output : problem.outputs) {
      TilePull pull = program.pullOf(problem, output, [](unsigned) { return SmallVector<int64_t>(8, 1); });
      Value value = body.getTerminator()->getOperand(output.result);
      for (int64_t i = 0; i < std::max<int64_t>(program.head / 8, 1); ++i)
        for (int64_t e = 0; e < 2; ++e) {
          TileExprRef element = pull.at(value, program.elementOf(output, i, e));
          if (!element)
            return pull.verdict;
          if (!isInTile(*element, problem, output, 8 * i + e))
            return {Reason::CrossesRows, value};
        }
    }
    return {};
  }

  bool isInTile(const TileExpr &expr, const TileProblem &problem, const TileOutput &output, int64_t place) const {
    if (expr.kind == TileExpr::Kind::Accumulator) {
      unsigned var = program.columnVar(output);
      int64_t inChunk = expr.index.constant - output.begin;
      bool fits = program.head > 0 ? isInHead(expr, output)
                                   : (inChunk == place || (program.gated && inChunk == place + output.columns)) && (output.vars[var].size == 1 || expr.index.coefficient(var) == 2);
      if (!problem.weightOf(expr.op) || !fits)
        return false;
    }
    if (expr.kind == TileExpr::Kind::Norm && tensorType(cast<dit::NormOp>(expr.op).getInput()).getShape().back() != program.head)
      return false;
    return llvm::all_of(expr.children, [&](const TileExprRef &child) { return isInTile(*child, problem, output, place); });
  }

  /// An accumulator of the element's own head.
  bool isInHead(const TileExpr &expr, const TileOutput &output) const {
    auto isInside = [&](int64_t column) { return column >= output.begin && column < output.begin + program.head; };
    unsigned var = program.columnVar(output);
    if (output.vars[var].size != 1 && expr.index.coefficient(var) != program.head)
      return false;
    if (expr.lanes.empty())
      return isInside(expr.index.constant);
    std::optional<QuadExchange> exchange = exchangeOf(expr);
    return exchange && llvm::all_of(exchange->given, [&](const auto &column) { return !column || isInside(*column); });
  }

  static bool isMultipliedOnly(Value value) { return is8BitFloat(elementOf(value)) && llvm::all_of(value.getUsers(), llvm::IsaPred<dit::MatmulOp, dit::ConcatOp>); }

  /// Booleans choose, as between gates of two kinds of tokens.
  static bool isLoadable(Value value) { return is16BitFloat(elementOf(value)) || elementOf(value).isF32() || elementOf(value).isInteger(1); }

  static std::optional<int64_t> columnOf(const TileExpr &expr) {
    if (expr.kind == TileExpr::Kind::Accumulator)
      return expr.index.constant;
    for (const TileExprRef &child : expr.children)
      if (std::optional<int64_t> column = columnOf(*child))
        return column;
    return std::nullopt;
  }

  static bool dependsOn(Value value, dit::MatmulOp product) {
    Operation *op = value.getDefiningOp();
    return op && (op == product.getOperation() || llvm::any_of(op->getOperands(), [&](Value operand) { return dependsOn(operand, product); }));
  }

  Block &body;
  TileProgram &program;
  Cluster cluster;
  SmallVector<TileOutput> outputs;
};

} // namespace

TilePull TileProgram::pullOf(const TileProblem &problem, const TileOutput &output, TilePull::Strides strides) const {
  SmallVector<TileIndex> rows;
  SmallVector<int64_t> sizes;
  for (size_t i = 0; i < output.rowDims.size(); ++i) {
    rows.push_back(TileIndex::of(output.vars, i));
    sizes.push_back(output.vars[i].size);
  }
  TileIndex row = linearise(rows, sizes);
  SmallVector<int64_t> productRows(problem.rowShape);
  auto columnInRow = [row, productRows, &problem](dit::MatmulOp product, ArrayRef<TileIndex> index) -> std::optional<int64_t> {
    const TileWeight *weight = problem.weightOf(product);
    return weight && linearise(index, productRows) == row ? std::optional(weight->begin) : std::nullopt;
  };
  std::optional<unsigned> quad = head > 0 ? std::optional(columnVar(output) + 1) : std::nullopt;
  return TilePull(output.vars, quad, columnInRow, std::move(strides));
}

const TileWeight *TileProblem::weightOf(Operation *product) const {
  auto found = llvm::find_if(weights, [&](const TileWeight &weight) { return dit::MatmulOp(weight.product) == product; });
  return found == weights.end() ? nullptr : &*found;
}

SmallVector<TileIndex> TileProgram::elementOf(const TileOutput &output, int64_t i, int64_t e) const {
  ArrayRef<int64_t> shape = tensorType(body->getTerminator()->getOperand(output.result)).getShape();
  SmallVector<TileIndex> index(shape.size());
  for (auto [var, dim] : llvm::enumerate(output.rowDims))
    index[dim] = TileIndex::of(output.vars, var);
  unsigned var = columnVar(output);
  TileIndex column = TileIndex::of(output.vars, var).times(head > 0 ? head : 2).plus(TileIndex::of(8 * i + e));
  if (head > 0)
    column = column.plus(TileIndex::of(output.vars, var + 1).times(2));
  SmallVector<int64_t> columnShape;
  for (unsigned dim : output.columnDims)
    columnShape.push_back(shape[dim]);
  SmallVector<TileIndex> columns = *delinearise(column, columnShape, output.vars); // heads divide columns
  for (auto [dim, part] : llvm::zip(output.columnDims, columns))
    index[dim] = part;
  return index;
}

int64_t narrowestTile(int64_t head) {
  constexpr int64_t kNarrowest = 64, kStep = 16; // of the tensor cores' instructions
  return llvm::alignTo(kNarrowest, head > 0 ? std::lcm(head, kStep) : kStep);
}

Verdict readTileProgram(Block &body, TileProgram &program) { return Reader(body, program).read(); }

} // namespace ditc
