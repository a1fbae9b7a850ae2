// SPDX-License-Identifier: Apache-2.0
//
// Elements of a chunk that are computed alike become one loop over groups of eight columns; what differs between them
// must then be a place that moves by the same step from group to group.
#include "codegen/cuda/gemm/EpilogueText.h"

#include "codegen/cuda/CudaKernel.h"
#include "codegen/cuda/ScalarText.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"
#include <fmt/format.h>

using namespace mlir;

namespace ditc {

namespace {

using Kind = TileExpr::Kind;

/// Constants of an expression's places, in the order of a walk.
void places(const TileExpr &expr, SmallVectorImpl<int64_t> &out) {
  if (expr.kind == Kind::Accumulator || expr.kind == Kind::Load)
    out.push_back(expr.index.constant);
  for (const TileExprRef &child : expr.children)
    places(*child, out);
}

bool isAlike(const TileExpr &a, const TileExpr &b) {
  if (a.kind != b.kind || a.op != b.op || a.argument != b.argument || a.index.terms != b.index.terms || a.children.size() != b.children.size())
    return false;
  for (auto [x, y] : llvm::zip(a.children, b.children))
    if (!isAlike(*x, *y))
      return false;
  return true;
}

/// The two elements of a pair of columns in groups first … last - 1.
struct Run {
  int64_t first = 0, last = 0;
  std::array<TileExprRef, 2> pair; ///< in group `first`
  SmallVector<int64_t> steps;      ///< of each place, from group to group
};

class EpilogueWriter {
public:
  EpilogueWriter(const TileProgram &program, const TileProblem &problem, ArrayRef<MemRefType> types, const RowSplit &split, ArrayRef<int64_t> alignments, ResidualBy residualBy)
      : program(program), problem(problem), types(types), split(split), alignments(alignments), residualBy(residualBy) {}

  std::optional<EpilogueText> write() {
    chooseResidual();
    result.columns = result.residual ? 16 : program.head;
    std::string parts, dispatch;
    for (auto [i, output] : llvm::enumerate(problem.outputs)) {
      std::optional<std::string> part = writePart(output, i);
      if (!part)
        return std::nullopt;
      parts += *part;
      std::string call = fmt::format("part{}(x, {}at)", i, result.residual ? "residual, " : "");
      bool isLast = i + 1 == problem.outputs.size();
      dispatch += isLast ? fmt::format("      {};\n", call) : fmt::format("      if (at.firstColumn < {})\n        return {};\n", output.begin + output.columns, call);
    }
    writeType(parts, dispatch);
    return std::move(result);
  }

private:
  //===-- Structure -------------------------------------------------------------------------------===//

  TilePull pull(const TileOutput &output) const {
    return program.pullOf(problem, output, [this](unsigned argument) { return plan::layoutOf(types[argument]).strides; });
  }

  /// One full operand of the result's type, which the copy engine can fetch like the result.
  void chooseResidual() {
    if (residualBy != ResidualBy::CopyEngine || program.head > 0 || problem.outputs.size() != 1)
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
    for (size_t row = 0; row < output.rowDims.size(); ++row)
      if (int64_t stride = load.index.coefficient(row); stride == 0 || stride % 8 != 0)
        return false;
    return !output.rowDims.empty();
  }

  /// Parameters of the type's call operator and of its parts.
  std::string parameters() const { return fmt::format("float (&x)[COLUMNS / 2], {}const Place &at", result.residual ? "const u32 (&residual)[COLUMNS / 4], " : ""); }

  void writeType(const std::string &parts, const std::string &dispatch) {
    std::string members;
    for (auto [i, argument] : llvm::enumerate(result.pointers))
      members += fmt::format("  const {} *in{};\n", cudaTypeName(types[argument].getElementType()).erase(0, elementPrefix(argument)), i);
    for (size_t i = 0; i < result.strides.size(); ++i)
      members += fmt::format("  int stride{};\n", i);
    std::string columns = result.columns > 0 ? std::to_string(result.columns) : "Config::CHUNK";
    result.type = fmt::format("struct Epilogue {{\n  static constexpr int COLUMNS = {}, OUTPUT = {};\n  static constexpr bool RESIDUAL = {};\n{}\n"
                              "  template <class Place>\n  __device__ void operator()({}) const {{\n{}  }}\n{}}};\n",
                              columns, columns, result.residual ? "true" : "false", members, parameters(), dispatch, parts);
  }

  size_t elementPrefix(unsigned argument) const { return types[argument].getElementType().isF32() ? 0 : 6; } // "ditc::"

  //===-- Parts -----------------------------------------------------------------------------------===//

  std::optional<std::string> writePart(const TileOutput &output, size_t number) {
    TilePull from = pull(output);
    Value value = program.body->getTerminator()->getOperand(output.result);
    auto element = [&](int64_t i, int64_t e) { return from.at(value, program.elementOf(output, i, e)); };
    current = &output;
    failedAddress = false;
    std::string body;
    std::vector<TileExprRef> normList = normsOf(output, value);
    biasIsAdded = false;
    if (!normList.empty()) // the sum is needed twice
      body += addBias(output);
    appliedNorm = nullptr;
    for (const TileExprRef &norm : normList) {
      body += writeStatistics(*norm);
      if (normList.size() == 1 && isAllNormalised(output, value, norm->op))
        body += applyNorm(*norm);
    }
    std::vector<Run> runs = runsOf(element);
    bool mixes = llvm::any_of(runs, [&](const Run &run) { return !staysInPair(run); });
    if (mixes)
      body += "      float y[COLUMNS / 4];\n";
    for (const Run &run : runs)
      body += writeRun(run, [&](int e, const std::string &text) {
        if (mixes)
          return fmt::format("y[2 * i{}] = {};", e ? " + 1" : "", text);
        return e == 0 ? fmt::format("float first = {};", text) : fmt::format("float second = {};\n        x[4 * i + 2 * half] = first, x[4 * i + 2 * half + 1] = second;", text);
      });
    if (mixes)
      body += "#pragma unroll\n      for (int i = 0; i < COLUMNS / 4; ++i)\n        x[i / 2 * 4 + 2 * half + i % 2] = y[i];\n";
    if (failedAddress)
      return std::nullopt;
    std::string places = fmt::format("{}{}", body.find("head") != std::string::npos ? fmt::format("    int head = {} / {};\n", output.begin ? fmt::format("(at.firstColumn - {})", output.begin) : "at.firstColumn", program.head) : "",
                                     body.find("quad") != std::string::npos ? "    int quad = threadIdx.x % 4;\n" : "");
    std::string row = body.find("row") != std::string::npos ? "      int row = at.row(half);\n" : "";
    return fmt::format("\n  /// Columns {} to {}.\n  template <class Place>\n  __device__ void part{}({}) const {{\n{}#pragma unroll\n    for (int half = 0; half < 2; ++half) {{\n{}{}    }}\n  }}\n",
                       output.begin, output.begin + output.columns - 1, number, parameters(), places, row, body);
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
    for (const Run &run : runsOf(element))
      text += writeRun(run, [](int e, const std::string &value) { return fmt::format("x[4 * i + 2 * half{}] += {};", e ? " + 1" : "", value); });
    biasIsAdded = true;
    return text;
  }

  /// True when the two elements of a group depend on no other accumulators than their own.
  bool staysInPair(const Run &run) const {
    if (program.head == 0)
      return true;
    bool isOne = run.last - run.first == 1, stays = true;
    size_t place = 0;
    std::function<void(const TileExpr &)> visit = [&](const TileExpr &expr) {
      if (expr.kind == Kind::Accumulator)
        stays &= (expr.index.constant - current->begin) / 8 == run.first && (isOne || run.steps[place] == 8); // moves with the groups
      place += expr.kind == Kind::Accumulator || expr.kind == Kind::Load;
      for (const TileExprRef &child : expr.children)
        visit(*child);
    };
    visit(*run.pair[0]);
    visit(*run.pair[1]);
    return stays;
  }

  /// Groups that are computed alike, as runs. Without heads one group speaks for all.
  std::vector<Run> runsOf(llvm::function_ref<TileExprRef(int64_t, int64_t)> element) const {
    int64_t groups = program.head > 0 ? program.head / 8 : 1;
    std::vector<Run> runs;
    SmallVector<int64_t> before;
    for (int64_t i = 0; i < groups; ++i) {
      std::array<TileExprRef, 2> pair{element(i, 0), element(i, 1)};
      SmallVector<int64_t> here;
      places(*pair[0], here);
      places(*pair[1], here);
      if (!runs.empty() && isAlike(*pair[0], *runs.back().pair[0]) && isAlike(*pair[1], *runs.back().pair[1])) {
        SmallVector<int64_t> steps;
        for (auto [a, b] : llvm::zip(here, before))
          steps.push_back(a - b);
        bool isSecond = i == runs.back().first + 1;
        if (isSecond || steps == runs.back().steps) {
          runs.back().steps = steps;
          runs.back().last = i + 1;
          before = here;
          continue;
        }
      }
      runs.push_back({i, i + 1, pair, SmallVector<int64_t>(here.size(), 0)});
      before = here;
    }
    return runs;
  }

  std::string writeRun(const Run &run, llvm::function_ref<std::string(int, const std::string &)> store) {
    nextPlace = 0;
    loads.clear();
    step = &run.steps;
    firstGroup = run.first;
    collectLoads(run);
    nextPlace = 0;
    std::string lines;
    std::string first = print(*run.pair[0]), second = print(*run.pair[1]);
    for (auto &[key, text] : loads)
      lines += fmt::format("        {}\n", text.second);
    lines += fmt::format("        {}\n        {}\n", store(0, first), store(1, second));
    std::string last = program.head > 0 ? std::to_string(run.last) : "COLUMNS / 8";
    return fmt::format("#pragma unroll\n      for (int i = {}; i < {}; ++i) {{\n{}      }}\n", run.first, last, lines);
  }

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
    norms.clear();
    for (auto [i, norm] : llvm::enumerate(list))
      norms[norm->op] = i;
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

  /// The norm in place, in a loop of its own: with what follows it in one, the loads of both want more registers than
  /// there are.
  std::string applyNorm(const TileExpr &norm) {
    std::string text;
    for (const Run &run : runsOverRow(norm, norm.op->getResult(0)))
      text += writeRun(run, [](int e, const std::string &value) { return fmt::format("x[4 * i + 2 * half{}] = {};", e ? " + 1" : "", value); });
    appliedNorm = norm.op;
    return text;
  }

  /// All elements of the norm's row of `value`, which has the norm's shape.
  std::vector<Run> runsOverRow(const TileExpr &norm, Value value) const {
    TilePull from = pull(*current);
    return runsOf([&](int64_t i, int64_t e) {
      SmallVector<TileIndex> index(norm.row.begin(), norm.row.end());
      index.push_back(TileIndex::of(current->vars, program.columnVar(*current) + 1).times(2).plus(TileIndex::of(8 * i + e)));
      return from.at(value, index);
    });
  }

  std::string writeStatistics(const TileExpr &norm) {
    auto op = cast<dit::NormOp>(norm.op);
    unsigned number = norms[norm.op];
    std::vector<Run> runs = runsOverRow(norm, op.getInput());
    bool isLayer = op.getKind() == dit::NormKind::Layer;
    std::string text;
    auto sum = [&](const std::string &name, const std::string &term) {
      text += fmt::format("      float {} = 0;\n", name);
      for (const Run &run : runs)
        text += writeRun(run, [&](int, const std::string &value) { return fmt::format(fmt::runtime(term), fmt::arg("sum", name), fmt::arg("x", value)); });
      text += fmt::format("      {} = quadSum({});\n", name, name);
    };
    if (isLayer) {
      sum(fmt::format("sum{}", number), "{sum} += {x};");
      text += fmt::format("      float mean{} = sum{} * (1.f / {});\n", number, number, program.head);
      sum(fmt::format("squares{}", number), fmt::format("{{sum}} += square({{x}} - mean{});", number));
    } else {
      sum(fmt::format("squares{}", number), "{sum} += square({x});");
    }
    text += fmt::format("      float inverse{} = rsqrtf(fmaf(squares{}, 1.f / {}, {}));\n", number, number, program.head, scalarLiteral(op.getEps().convertToDouble(), false));
    return text;
  }

  //===-- Expressions -----------------------------------------------------------------------------===//

  struct LoadKey {
    unsigned argument;
    TileIndex index; ///< of the pair's first element
    int64_t step;
    bool operator<(const LoadKey &other) const {
      return std::tie(argument, index.constant, step, index.terms) < std::tie(other.argument, other.index.constant, other.step, other.index.terms);
    }
  };

  /// Neighbours of one pair are loaded together.
  void collectLoads(const Run &run) {
    for (const TileExprRef &expr : run.pair)
      visitLoads(*expr);
  }

  void visitLoads(const TileExpr &expr) {
    if (expr.kind == Kind::Accumulator || expr.kind == Kind::Load) {
      int64_t move = (*step)[nextPlace++];
      if (expr.kind == Kind::Load && expr.argument != result.residual)
        addLoad(expr, move);
    }
    if (expr.kind == Kind::Accumulator && biasIsAdded) {
      nextPlace += expr.children.size();
      return;
    }
    if (expr.kind == Kind::Norm && expr.op == appliedNorm) {
      visitLoads(*expr.children.front());
      nextPlace += expr.children.size() - 1;
      return;
    }
    for (const TileExprRef &child : expr.children)
      visitLoads(*child);
  }

  bool isPairable(const TileExpr &load, int64_t move) const {
    int64_t bytes = dit::elementBytes(types[load.argument].getElementType());
    return move % 2 == 0 && alignments[load.argument] >= 2 * bytes && llvm::all_of(load.index.terms, [](auto term) { return term.second % 2 == 0; });
  }

  std::string addLoad(const TileExpr &load, int64_t move) {
    bool pair = isPairable(load, move);
    int64_t odd = pair ? load.index.constant % 2 : 0;
    LoadKey key{load.argument, load.index.plus(TileIndex::of(-odd)), move};
    auto [entry, isNew] = loads.try_emplace(key);
    if (isNew) {
      std::string name = fmt::format("v{}", loads.size() - 1), from = fmt::format("in{} + {}", pointer(load.argument), address(load.argument, key.index, move));
      entry->second = {name, pair ? fmt::format("float2 {} = loadPair({});", name, from) : fmt::format("float {} = loadOne({});", name, from)};
    }
    return pair ? entry->second.first + (odd ? ".y" : ".x") : entry->second.first;
  }

  size_t pointer(unsigned argument) {
    auto found = llvm::find(result.pointers, argument);
    if (found == result.pointers.end()) {
      result.pointers.push_back(argument);
      return result.pointers.size() - 1;
    }
    return found - result.pointers.begin();
  }

  /// A stride of rows or batches: a number, or a member where two products share this code.
  std::string strideText(unsigned argument, bool ofBatch, int64_t stride) {
    if (program.problems.size() == 1)
      return std::to_string(stride);
    auto [entry, isNew] = strideMembers.try_emplace({argument, ofBatch}, result.strides.size());
    if (isNew)
      result.strides.push_back(static_cast<int32_t>(stride));
    return fmt::format("stride{}", entry->second);
  }

  static void addTerm(std::string &text, const std::string &term) { text += (text.empty() ? "" : " + ") + term; }

  /// Elements from the start, as code. Rows are the tile's row, or its batch and row.
  std::string address(unsigned argument, const TileIndex &index, int64_t move) {
    std::string text;
    SmallVector<int64_t> sizes, strides;
    for (size_t i = 0; i < current->rowDims.size(); ++i) {
      sizes.push_back(current->vars[i].size);
      strides.push_back(index.coefficient(i));
    }
    auto found = rowStrides(sizes, strides, split);
    failedAddress |= !found;
    auto [ofRow, ofBatch] = found.value_or(std::pair<int64_t, int64_t>(0, 0));
    if (split.batches > 1 && ofBatch != 0)
      addTerm(text, "at.batch * " + strideText(argument, true, ofBatch));
    if (ofRow != 0)
      addTerm(text, "row * " + strideText(argument, false, ofRow));
    unsigned var = program.columnVar(*current);
    int64_t first = index.coefficient(var);
    if (program.head == 0) {
      if (first != 0)
        addTerm(text, fmt::format("(at.column(i){}){}", current->begin ? fmt::format(" - {}", current->begin) : "", first == 2 ? "" : fmt::format(" * {}", first / 2)));
    } else {
      if (first != 0)
        addTerm(text, fmt::format("head * {}", first));
      if (int64_t quad = index.coefficient(var + 1))
        addTerm(text, fmt::format("quad * {}", quad));
      if (move != 0)
        addTerm(text, fmt::format("i * {}", move));
    }
    int64_t constant = index.constant - (program.head > 0 ? move * firstGroup : 0);
    if (constant != 0)
      text += fmt::format("{}{}", text.empty() ? "" : constant < 0 ? " - " : " + ", text.empty() ? constant : std::abs(constant));
    return text.empty() ? "0" : text;
  }

  std::string print(const TileExpr &expr) {
    switch (expr.kind) {
    case Kind::Load: {
      int64_t move = (*step)[nextPlace++];
      if (expr.argument == result.residual)
        return fmt::format("residualOf<Element>(residual[2 * i + half], {})", expr.index.constant % 2);
      return addLoad(expr, move);
    }
    case Kind::Accumulator: {
      int64_t move = (*step)[nextPlace++], place = expr.index.constant - current->begin;
      std::string i = "i";
      if (program.head > 0) {
        int64_t group = place / 8 - move / 8 * firstGroup;
        i = move == 0 ? std::to_string(place / 8) : group == 0 ? "i" : fmt::format("(i {} {})", group < 0 ? "-" : "+", std::abs(group));
      }
      std::string text = fmt::format("x[4 * {} + 2 * half{}]", i, place % 2 ? " + 1" : "");
      if (expr.children.empty())
        return text;
      if (biasIsAdded) {
        ++nextPlace; // the bias's own place
        return text;
      }
      return fmt::format("({} + {})", text, print(*expr.children.front()));
    }
    case Kind::Call: {
      std::string arguments;
      for (const TileExprRef &child : expr.children)
        arguments += (arguments.empty() ? "" : ", ") + print(*child);
      return fmt::format("{}({})", functionOf(cast<dit::MapOp>(expr.op)), arguments);
    }
    case Kind::Norm: return printNorm(expr);
    }
    return "";
  }

  std::string printNorm(const TileExpr &expr) {
    auto op = cast<dit::NormOp>(expr.op);
    unsigned number = norms[expr.op];
    size_t child = 0;
    std::string text = print(*expr.children[child++]);
    if (expr.op == appliedNorm) {
      nextPlace += expr.children.size() - 1; // the places of weight and bias
      return text;
    }
    if (op.getKind() == dit::NormKind::Layer)
      text = fmt::format("({} - mean{})", text, number);
    text = fmt::format("{} * inverse{}", text, number);
    if (op.getWeight())
      text = fmt::format("{} * {}", text, print(*expr.children[child++]));
    if (op.getBias())
      text = fmt::format("({} + {})", text, print(*expr.children[child++]));
    return text;
  }

  /// Maps with equal bodies are one function. Transcendental functions are the hardware's: their error lies below the
  /// rounding of 16-bit results.
  std::string functionOf(dit::MapOp map) {
    std::string text = printScalarFunction("NAME", map.getBodyBlock());
    for (auto [from, to] : {std::pair<std::string, std::string>{"tanhf(", "fastTanh<Element>("}, {"expf(", "fastExp("}, {"exp2f(", "exp2Approx("}})
      for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
        if (at == 0 || !llvm::isAlnum(text[at - 1]))
          text.replace(at, from.size(), to);
    auto [entry, isNew] = functions.insert({text, fmt::format("f{}", functions.size())});
    if (isNew) {
      std::string definition = text;
      definition.replace(definition.find("NAME"), 4, entry->second);
      result.functions += definition + "\n";
    }
    return entry->second;
  }

  const TileProgram &program;
  const TileProblem &problem;
  ArrayRef<MemRefType> types;
  RowSplit split;
  ArrayRef<int64_t> alignments;
  ResidualBy residualBy;
  EpilogueText result;
  llvm::MapVector<std::string, std::string, std::map<std::string, unsigned>> functions; ///< text -> name
  std::map<std::pair<unsigned, bool>, size_t> strideMembers; ///< argument, of the batch -> number in result.strides
  const TileOutput *current = nullptr;
  llvm::DenseMap<Operation *, unsigned> norms;
  std::map<LoadKey, std::pair<std::string, std::string>> loads; ///< -> variable, its definition
  const SmallVector<int64_t> *step = nullptr;
  size_t nextPlace = 0;
  int64_t firstGroup = 0;
  Operation *appliedNorm = nullptr; ///< the norm that the accumulators have gone through
  bool failedAddress = false, biasIsAdded = false;
};

} // namespace

std::optional<EpilogueText> writeEpilogue(const TileProgram &program, const TileProblem &problem, ArrayRef<MemRefType> types, const RowSplit &split, ArrayRef<int64_t> alignments,
                                          ResidualBy residual) {
  return EpilogueWriter(program, problem, types, split, alignments, residual).write();
}

} // namespace ditc
