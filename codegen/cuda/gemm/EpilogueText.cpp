// SPDX-License-Identifier: Apache-2.0
#include "codegen/cuda/gemm/EpilogueText.h"

#include "codegen/cuda/CudaKernel.h"
#include "codegen/cuda/ScalarText.h"
#include "codegen/cuda/gemm/ElementText.h"
#include "codegen/cuda/gemm/EpilogueParts.h"
#include "codegen/cuda/gemm/TileLanes.h"

#include "llvm/ADT/Sequence.h"
#include <fmt/format.h>

using namespace mlir;

namespace ditc {

namespace {

using Kind = TileExpr::Kind;

class EpilogueWriter {
public:
  EpilogueWriter(const TileProgram &program, const TileProblem &problem, ArrayRef<MemRefType> types, const RowSplit &split, ArrayRef<int64_t> alignments, ResidualBy residualBy)
      : program(program), problem(problem), types(types), split(split), alignments(alignments), residualBy(residualBy), elements(program, types, split, alignments, result) {}

  std::optional<EpilogueText> write() {
    chooseResidual();
    result.columns = result.residual ? 16 : program.head;
    std::vector<EpiloguePart> parts;
    for (const TileOutput &output : problem.outputs) {
      parts.push_back({output.begin, output.columns, bodyOf(output)});
      if (elements.failed())
        return std::nullopt;
    }
    writeType(parts);
    return std::move(result);
  }

private:
  //===-- Structure -------------------------------------------------------------------------------===//

  TilePull pull(const TileOutput &output) const {
    TilePull from = program.pullOf(problem, output, [this](unsigned argument) { return plan::layoutOf(types[argument]).strides; });
    if (storedNorm)
      from.stored = {inputOf(*storedNorm), storedNorm->row, TileIndex::of(output.vars, program.columnVar(output)).times(program.head).plus(TileIndex::of(output.begin))};
    return from;
  }

  static Value inputOf(const TileExpr &norm) { return cast<dit::NormOp>(norm.op).getInput(); }

  /// One full operand of the result's type, which the copy engine can fetch like the result.
  void chooseResidual() {
    if (residualBy != ResidualBy::CopyEngine || program.head > 0 || program.gated || problem.outputs.size() != 1)
      return;
    const TileOutput &output = problem.outputs.front();
    Value value = program.body->getTerminator()->getOperand(output.result);
    TileExprRef expr = pull(output).at(value, program.elementOf(output, 0, 0));
    std::function<void(const TileExpr &)> visit = [&](const TileExpr &e) {
      if (e.kind == Kind::Load && !result.residual && types[e.argument].getElementType() == cast<RankedTensorType>(value.getType()).getElementType() && isFull(output, e) &&
          alignments[e.argument] >= 16)
        result.residual = e.argument;
      for (const TileExprRef &child : e.children)
        visit(*child);
    };
    if (expr)
      visit(*expr);
  }

  bool isFull(const TileOutput &output, const TileExpr &load) const {
    if (load.index.coefficient(program.columnVar(output)) != 2)
      return false;
    SmallVector<int64_t> sizes, strides;
    for (size_t row = 0; row < output.rowDims.size(); ++row) {
      sizes.push_back(output.vars[row].size);
      strides.push_back(load.index.coefficient(row));
      if (strides.back() == 0 || strides.back() % 8 != 0)
        return false;
    }
    return !output.rowDims.empty() && rowStrides(sizes, strides, split); // its copies do not divide rows
  }

  void writeType(const std::vector<EpiloguePart> &parts) {
    std::string members, parameters = fmt::format("float (&x)[COLUMNS / 2], {}const Place &at",
                                                  result.residual ? "const u32 (&residual)[COLUMNS / 4], " : program.gated ? "const float (&up)[COLUMNS / 2], " : "");
    std::vector<std::string> pointerTypes;
    for (auto [i, argument] : llvm::enumerate(result.pointers)) {
      pointerTypes.push_back(cudaTypeName(types[argument].getElementType()).erase(0, elementPrefix(argument)));
      members += fmt::format("  const {} *in{};\n", pointerTypes.back(), i);
    }
    for (size_t i = 0; i < result.strides.size(); ++i)
      members += fmt::format("  int stride{};\n", i);
    std::string columns = result.columns > 0 ? std::to_string(result.columns) : "Config::CHUNK";
    EpilogueFunctions functions = writeParts(parts, pointerTypes, parameters, result.residual ? "x, residual, at" : program.gated ? "x, up, at" : "x, at");
    result.type = fmt::format("struct Epilogue {{\n  static constexpr int COLUMNS = {};\n  static constexpr bool RESIDUAL = {};\n{}\n"
                              "  template <class Place>\n  __device__ void operator()({}) const {{\n{}  }}\n{}}};\n",
                              columns, result.residual ? "true" : "false", members, parameters, functions.dispatch, functions.definitions);
  }

  size_t elementPrefix(unsigned argument) const { return StringRef(cudaTypeName(types[argument].getElementType())).starts_with("ditc::") ? 6 : 0; }

  //===-- Parts -----------------------------------------------------------------------------------===//

  std::string bodyOf(const TileOutput &output) {
    current = &output, storedNorm = nullptr;
    TilePull from = pull(output);
    Value value = program.body->getTerminator()->getOperand(output.result);
    elements.begin(output);
    std::string body;
    std::vector<TileExprRef> normList = normsOf(output, value);
    auto hasExchange = [&](int64_t i) { return exchanges(*from.at(value, program.elementOf(output, i, 0))); };
    if (!normList.empty() || llvm::any_of(llvm::seq(program.head / 8), hasExchange)) // the sum is needed twice, or in two threads
      body += addBias(output);
    if (normList.size() == 1 && storesInputOf(normList.front(), output, value)) {
      body += writeElements([&](int64_t i, int64_t e) { return from.at(inputOf(*storedNorm), placeInRow(*storedNorm, i, e)); });
      from.stored = pull(output).stored;
    }
    for (const TileExprRef &norm : normList) {
      body += writeStatistics(*norm);
      if (normList.size() == 1 && isAllNormalised(output, value, norm->op))
        body += applyNorm(*norm);
    }
    body += writeElements([&](int64_t i, int64_t e) { return from.at(value, program.elementOf(output, i, e)); });
    std::string head = body.find("head") != std::string::npos ? fmt::format("    int head = (at.firstColumn - BEGIN) / {};\n", program.head) : "";
    return head + (body.find("quad") != std::string::npos ? "    int quad = threadIdx.x % 4;\n" : "") + body;
  }

  std::string writeElements(llvm::function_ref<TileExprRef(int64_t, int64_t)> element) {
    std::vector<ElementRun> list = runs(element);
    if (llvm::any_of(list, [](const ElementRun &run) { return exchanges(*run.pair[0]) || exchanges(*run.pair[1]); }))
      list = chainOf(element);
    bool mixes = llvm::any_of(list, [&](const ElementRun &run) { return !staysInPair(run); });
    return mixes ? writeMixed(list) : writeInPlace(list);
  }

  std::string writeInPlace(const std::vector<ElementRun> &list) {
    std::string text;
    for (const ElementRun &run : list)
      text += elements.loop(run, HalfLoop::Inside, [](int e, const std::string &value) {
        return e == 0 ? fmt::format("float first = {};", value) : fmt::format("float second = {};\n        x[4 * i + 2 * half] = first, x[4 * i + 2 * half + 1] = second;", value);
      });
    return text;
  }

  /// Elements change places: a row's results are complete before they replace what they were computed from.
  std::string writeMixed(const std::vector<ElementRun> &list) {
    std::string loops;
    for (const ElementRun &run : list)
      loops += elements.loop(run, HalfLoop::Around, [](int e, const std::string &value) { return fmt::format("y[2 * i{}] = {};", e ? " + 1" : "", value); });
    std::string row = loops.find("row") != std::string::npos ? "      int row = at.row(half);\n" : "";
    return fmt::format("#pragma unroll\n    for (int half = 0; half < 2; ++half) {{\n{}      float y[COLUMNS / 4];\n{}"
                       "#pragma unroll\n      for (int i = 0; i < COLUMNS / 4; ++i)\n        x[i / 2 * 4 + 2 * half + i % 2] = y[i];\n    }}\n",
                       row, loops);
  }

  /// The bias joins the accumulators before anything else; "" when products of the part differ in it.
  std::string addBias(const TileOutput &output) {
    const TileWeight *weight = nullptr;
    for (const TileWeight &each : problem.weights)
      if (each.begin <= output.begin && output.begin + output.columns <= each.begin + each.columns)
        weight = &each;
    if (!weight || !dit::MatmulOp(weight->product).getBias())
      return "";
    TilePull from = pull(output);
    unsigned var = program.columnVar(output);
    auto element = [&](int64_t i, int64_t e) {
      TileIndex column = TileIndex::of(output.vars, var).times(program.head).plus(TileIndex::of(output.vars, var + 1).times(2)).plus(TileIndex::of(output.begin - weight->begin + 8 * i + e));
      return from.at(dit::MatmulOp(weight->product).getBias(), {column});
    };
    std::string text;
    elements.fromBegin = problem.weights.size() == 1;
    for (const ElementRun &run : runs(element))
      text += elements.loop(run, HalfLoop::Inside, [](int e, const std::string &value) { return fmt::format("x[4 * i + 2 * half{}] += {};", e ? " + 1" : "", value); });
    elements.fromBegin = false;
    elements.biasIsAdded = true;
    return text;
  }

  /// True when the two elements of a group depend on no other accumulators than their own.
  bool staysInPair(const ElementRun &run) const {
    if (program.head == 0)
      return true;
    bool isOne = run.last - run.first == 1, stays = true;
    size_t place = 0;
    std::function<void(const TileExpr &)> visit = [&](const TileExpr &expr) {
      if (expr.kind == Kind::Accumulator)
        stays &= expr.lanes.empty() && (expr.index.constant - current->begin) / 8 == run.first && (isOne || run.steps[place] == 8); // moves with the groups
      place += expr.kind == Kind::Accumulator || expr.kind == Kind::Load;
      for (const TileExprRef &child : expr.children)
        visit(*child);
    };
    visit(*run.pair[0]);
    visit(*run.pair[1]);
    return stays;
  }

  static bool exchanges(const TileExpr &expr) {
    return (expr.kind == Kind::Accumulator && !expr.lanes.empty()) || llvm::any_of(expr.children, [](const TileExprRef &child) { return exchanges(*child); });
  }

  /// Groups one by one, each behind one that reads it: then few results wait for the last reader of what they replace.
  std::vector<ElementRun> chainOf(llvm::function_ref<TileExprRef(int64_t, int64_t)> element) const {
    std::vector<ElementRun> chain;
    llvm::SmallDenseSet<int64_t, 16> known;
    std::function<void(int64_t)> follow = [&](int64_t group) {
      if (!known.insert(group).second)
        return;
      chain.push_back(runsOf(1, [&](int64_t, int64_t e) { return element(group, e); }).front());
      chain.back().first = group, chain.back().last = group + 1;
      SmallVector<int64_t> read;
      groupsReadBy(*chain.back().pair[0], read);
      llvm::sort(read, std::greater<>());
      llvm::for_each(read, follow);
    };
    for (int64_t group = 0; group < program.head / 8; ++group)
      follow(group);
    return chain;
  }

  void groupsReadBy(const TileExpr &expr, SmallVectorImpl<int64_t> &groups) const {
    auto add = [&](int64_t column) { groups.push_back((column - current->begin) / 8); };
    if (expr.kind == Kind::Accumulator && expr.lanes.empty())
      add(expr.index.constant);
    else if (expr.kind == Kind::Accumulator)
      for (std::optional<int64_t> column : exchangeOf(expr)->given)
        if (column)
          add(*column);
    for (const TileExprRef &child : expr.children)
      groupsReadBy(*child, groups);
  }

  /// Without heads one group speaks for all.
  std::vector<ElementRun> runs(llvm::function_ref<TileExprRef(int64_t, int64_t)> element) const { return runsOf(program.head > 0 ? program.head / 8 : 1, element); }

  //===-- Norms -----------------------------------------------------------------------------------===//

  /// Norms that the result needs, innermost first.
  std::vector<TileExprRef> normsOf(const TileOutput &output, Value value) {
    std::vector<TileExprRef> list;
    TilePull from = pull(output);
    std::function<void(const TileExprRef &)> visit = [&](const TileExprRef &expr) {
      for (const TileExprRef &child : expr->children)
        visit(child);
      if (expr->kind == Kind::Norm && llvm::none_of(list, [&](const TileExprRef &known) { return known->op == expr->op; }))
        list.push_back(expr);
    };
    for (int64_t i = 0; i < std::max<int64_t>(program.head / 8, 1); ++i)
      for (int64_t e = 0; e < 2; ++e)
        visit(from.at(value, program.elementOf(output, i, e)));
    elements.norms.clear();
    for (auto [i, norm] : llvm::enumerate(list))
      elements.norms[norm->op] = i;
    return list;
  }

  /// True when accumulators are read through the norm only, which takes them as they are.
  bool isAllNormalised(const TileOutput &output, Value value, Operation *norm) const {
    TilePull from = pull(output);
    std::function<bool(const TileExpr &)> check = [&](const TileExpr &expr) {
      if (expr.kind == Kind::Norm && expr.op == norm)
        return expr.children.front()->kind == Kind::Accumulator;
      return expr.kind != Kind::Accumulator && llvm::all_of(expr.children, [&](const TileExprRef &child) { return check(*child); });
    };
    for (int64_t i = 0; i < program.head / 8; ++i)
      for (int64_t e = 0; e < 2; ++e)
        if (!check(*from.at(value, program.elementOf(output, i, e))))
          return false;
    return true;
  }

  //===-- Norms of what is computed ---------------------------------------------------------------===//
  // A rotation across threads in front of a norm, or the scales of fp8 sums: the results take the accumulators' place, so that
  // threads exchange, and operands are loaded, once for the statistics and the result.

  /// Takes a norm whose input has exchanges or scales, and through which the result reads all accumulators.
  bool storesInputOf(const TileExprRef &norm, const TileOutput &output, Value value) {
    TilePull before = pull(output);
    auto hasExchange = [&](int64_t i) { return exchanges(*before.at(inputOf(*norm), placeInRow(*norm, i, 0))); };
    bool isScaled = program.operands != program.results;
    if (!isScaled && llvm::none_of(llvm::seq(program.head / 8), hasExchange))
      return false;
    storedNorm = norm;
    TilePull from = pull(output);
    std::function<bool(const TileExpr &)> readsStored = [&](const TileExpr &expr) {
      return (expr.kind != Kind::Accumulator || !expr.op) && llvm::all_of(expr.children, [&](const TileExprRef &child) { return readsStored(*child); });
    };
    for (int64_t i = 0; storedNorm && i < program.head / 8; ++i)
      for (int64_t e = 0; e < 2; ++e)
        if (TileExprRef expr = from.at(value, program.elementOf(output, i, e)); !expr || !readsStored(*expr))
          storedNorm = nullptr;
    return storedNorm != nullptr;
  }

  SmallVector<TileIndex> placeInRow(const TileExpr &norm, int64_t i, int64_t e) const {
    SmallVector<TileIndex> index(norm.row.begin(), norm.row.end());
    index.push_back(TileIndex::of(current->vars, program.columnVar(*current) + 1).times(2).plus(TileIndex::of(8 * i + e)));
    return index;
  }

  /// The norm in place, in a loop of its own: with what follows it in one, the loads of both want more registers than
  /// there are.
  std::string applyNorm(const TileExpr &norm) {
    std::string text;
    for (const ElementRun &run : runsOverRow(norm, norm.op->getResult(0)))
      text += elements.loop(run, HalfLoop::Inside, [](int e, const std::string &value) { return fmt::format("x[4 * i + 2 * half{}] = {};", e ? " + 1" : "", value); });
    elements.appliedNorm = norm.op;
    return text;
  }

  /// All elements of the norm's row of `value`, which has the norm's shape.
  std::vector<ElementRun> runsOverRow(const TileExpr &norm, Value value) const {
    TilePull from = pull(*current);
    return runs([&](int64_t i, int64_t e) { return from.at(value, placeInRow(norm, i, e)); });
  }

  std::string writeStatistics(const TileExpr &norm) {
    auto op = cast<dit::NormOp>(norm.op);
    unsigned number = elements.norms[norm.op];
    bool isLayer = op.getKind() == dit::NormKind::Layer;
    std::string text;
    auto sum = [&](const std::string &name, const std::string &term) {
      text += fmt::format("    float {}[2] = {{}};\n", name);
      for (const ElementRun &run : runsOverRow(norm, op.getInput()))
        text += elements.loop(run, HalfLoop::Inside, [&](int, const std::string &value) { return fmt::format(fmt::runtime(term), fmt::arg("sum", name + "[half]"), fmt::arg("x", value)); });
    };
    auto perRow = [&](const std::string &statement) { text += fmt::format("#pragma unroll\n    for (int half = 0; half < 2; ++half)\n      {}\n", statement); };
    if (isLayer) {
      sum(fmt::format("sum{}", number), "{sum} += {x};");
      text += fmt::format("    float mean{}[2];\n", number);
      perRow(fmt::format("mean{0}[half] = quadSum(sum{0}[half]) * (1.f / {1});", number, program.head));
      sum(fmt::format("squares{}", number), fmt::format("{{sum}} += square({{x}} - mean{}[half]);", number));
    } else {
      sum(fmt::format("squares{}", number), "{sum} += square({x});");
    }
    text += fmt::format("    float inverse{}[2];\n", number);
    perRow(fmt::format("inverse{0}[half] = rsqrtf(fmaf(quadSum(squares{0}[half]), 1.f / {1}, {2}));", number, program.head, scalarLiteral(op.getEps().convertToDouble(), false)));
    return text;
  }

  const TileProgram &program;
  const TileProblem &problem;
  ArrayRef<MemRefType> types;
  RowSplit split;
  ArrayRef<int64_t> alignments;
  ResidualBy residualBy;
  EpilogueText result;
  ElementText elements;
  const TileOutput *current = nullptr;
  TileExprRef storedNorm; ///< whose input has taken the accumulators' place
};

} // namespace

std::optional<EpilogueText> writeEpilogue(const TileProgram &program, const TileProblem &problem, ArrayRef<MemRefType> types, const RowSplit &split, ArrayRef<int64_t> alignments,
                                          ResidualBy residual) {
  return EpilogueWriter(program, problem, types, split, alignments, residual).write();
}

} // namespace ditc
