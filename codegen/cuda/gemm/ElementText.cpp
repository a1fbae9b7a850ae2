// SPDX-License-Identifier: Apache-2.0
#include "codegen/cuda/gemm/ElementText.h"

#include "codegen/cuda/ScalarText.h"
#include "codegen/cuda/gemm/TileLanes.h"

#include "llvm/ADT/StringExtras.h"
#include <fmt/format.h>

using namespace mlir;

namespace ditc {

using Kind = TileExpr::Kind;

/// The value of each thread of a quad, as code; an empty one is any.
static std::string perThread(SmallVector<std::string> values) {
  for (size_t i = 1; i < values.size(); ++i)
    if (values[i].empty())
      values[i] = values[i - 1];
  for (size_t i = values.size() - 1; i-- > 0;)
    if (values[i].empty())
      values[i] = values[i + 1];
  std::string text = values.back();
  for (size_t i = values.size() - 1; i > 0; --i)
    if (values[i] != values[i - 1])
      text = fmt::format("(quad < {} ? {} : {})", i, values[i - 1], text);
  return text;
}

void ElementText::begin(const TileOutput &output) {
  current = &output;
  failedAddress = biasIsAdded = fromBegin = false;
  appliedNorm = nullptr;
}

std::string ElementText::loop(const ElementRun &written, HalfLoop half, llvm::function_ref<std::string(int, const std::string &)> store) {
  run = &written;
  nextPlace = 0;
  loads.clear();
  for (const TileExprRef &expr : run->pair)
    visitLoads(*expr);
  nextPlace = 0;
  std::string first = print(*run->pair[0]), second = print(*run->pair[1]);
  std::string indent(half == HalfLoop::Around ? 6 : 4, ' '), ofColumns, ofRows;
  for (auto &[key, load] : loads)
    (load.ofRow ? ofRows : ofColumns) += fmt::format("{}  {}{}\n", indent, half == HalfLoop::Inside && load.ofRow ? "  " : "", load.definition);
  std::string head = fmt::format("#pragma unroll\n{}for (int i = {}; i < {}; ++i) {{\n", indent, run->first, program.head > 0 ? std::to_string(run->last) : "COLUMNS / 8");
  if (half == HalfLoop::Around)
    return fmt::format("{}{}{}{}  {}\n{}  {}\n{}}}\n", head, ofColumns, ofRows, indent, store(0, first), indent, store(1, second), indent);
  std::string row = ofRows.empty() ? "" : "        int row = at.row(half);\n";
  return fmt::format("{}{}#pragma unroll\n      for (int half = 0; half < 2; ++half) {{\n{}{}        {}\n        {}\n      }}\n    }}\n", head, ofColumns, row, ofRows, store(0, first), store(1, second));
}

//===-- Loads -------------------------------------------------------------------------------------------===//

/// Neighbours of one pair are loaded together.
void ElementText::visitLoads(const TileExpr &expr) {
  if (expr.kind == Kind::Accumulator || expr.kind == Kind::Load) {
    int64_t move = run->steps[nextPlace++];
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

bool ElementText::isPairable(const TileExpr &load, int64_t move) const {
  int64_t bytes = dit::elementBytes(types[load.argument].getElementType());
  return move % 2 == 0 && alignments[load.argument] >= 2 * bytes && llvm::all_of(load.index.terms, [](auto term) { return term.second % 2 == 0; }) &&
         llvm::all_of(load.lanes, [](int64_t offset) { return offset % 2 == 0; });
}

std::string ElementText::addLoad(const TileExpr &load, int64_t move) {
  bool pair = isPairable(load, move);
  int64_t odd = pair ? load.index.constant % 2 : 0;
  LoadKey key{load.argument, load.index.plus(TileIndex::of(-odd)), load.lanes, move};
  auto [entry, isNew] = loads.try_emplace(key);
  if (isNew) {
    std::string name = fmt::format("v{}", loads.size() - 1), place = address(key), from = fmt::format("in{} + {}", pointer(load.argument), place);
    entry->second = {name, pair ? fmt::format("float2 {} = loadPair({});", name, from) : fmt::format("float {} = loadOne({});", name, from), place.find("row") != std::string::npos};
    result.loadsRows |= entry->second.ofRow;
  }
  return pair ? entry->second.variable + (odd ? ".y" : ".x") : entry->second.variable;
}

//===-- Addresses ---------------------------------------------------------------------------------------===//

size_t ElementText::pointer(unsigned argument) {
  auto found = llvm::find(result.pointers, argument);
  if (found == result.pointers.end()) {
    result.pointers.push_back(argument);
    return result.pointers.size() - 1;
  }
  return found - result.pointers.begin();
}

/// A stride of rows or batches: a number, or a member where two products share this code.
std::string ElementText::strideText(unsigned argument, bool ofBatch, int64_t stride) {
  if (program.problems.size() == 1)
    return std::to_string(stride);
  auto [entry, isNew] = strideMembers.try_emplace({argument, ofBatch}, result.strides.size());
  if (isNew)
    result.strides.push_back(static_cast<int32_t>(stride));
  return fmt::format("stride{}", entry->second);
}

/// What the tile's row adds to the address, or its batch and row; where they are no runs, quotients and remainders of the row.
std::string ElementText::rowTerms(unsigned argument, const TileIndex &index) {
  std::string text;
  auto addTerm = [&](const std::string &term) { text += (text.empty() ? "" : " + ") + term; };
  SmallVector<int64_t> sizes, strides;
  for (size_t i = 0; i < current->rowDims.size(); ++i) {
    sizes.push_back(current->vars[i].size);
    strides.push_back(index.coefficient(i));
  }
  if (auto found = rowStrides(sizes, strides, split)) {
    auto [ofRow, ofBatch] = *found;
    if (split.batches > 1 && ofBatch != 0)
      addTerm("at.batch * " + strideText(argument, true, ofBatch));
    if (ofRow != 0)
      addTerm("row * " + strideText(argument, false, ofRow));
    return text;
  }
  if (!split.divides || program.problems.size() > 1) { // products that share this code may have other lengths
    failedAddress = true;
    return text;
  }
  int64_t inner = 1;
  SmallVector<RowRun> runs = rowRuns(sizes, strides);
  for (size_t i = runs.size(); i-- > 0; inner *= runs[i].size)
    if (runs[i].stride != 0)
      addTerm(fmt::format("row{}{} * {}", inner > 1 ? fmt::format(" / {}", inner) : "", i > 0 ? fmt::format(" % {}", runs[i].size) : "", runs[i].stride));
  return text;
}

/// Elements from the start, as code.
std::string ElementText::address(const LoadKey &key) {
  const auto &[argument, index, lanes, move] = key;
  std::string text = rowTerms(argument, index);
  auto addTerm = [&](const std::string &term) { text += (text.empty() ? "" : " + ") + term; };
  unsigned var = program.columnVar(*current);
  int64_t first = index.coefficient(var);
  if (program.head == 0) {
    if (first != 0)
      addTerm(fmt::format("(at.column(i) - BEGIN){}", first == 2 ? "" : fmt::format(" * {}", first / 2)));
  } else {
    if (first != 0)
      addTerm(fmt::format("head * {}", first));
    if (int64_t quad = index.coefficient(var + 1))
      addTerm(fmt::format("quad * {}", quad));
    if (move != 0)
      addTerm(fmt::format("i * {}", move));
    if (!lanes.empty())
      addTerm(perThread(llvm::map_to_vector(lanes, [](int64_t offset) { return std::to_string(offset); })));
  }
  int64_t constant = index.constant - (program.head > 0 ? move * run->first : 0) - (fromBegin ? current->begin : 0);
  if (constant != 0)
    text += fmt::format("{}{}", text.empty() ? "" : constant < 0 ? " - " : " + ", text.empty() ? constant : std::abs(constant));
  if (fromBegin)
    addTerm("BEGIN");
  return text.empty() ? "0" : text;
}

//===-- Expressions -------------------------------------------------------------------------------------===//

std::string ElementText::print(const TileExpr &expr) {
  switch (expr.kind) {
  case Kind::Load: {
    int64_t move = run->steps[nextPlace++];
    if (expr.argument == result.residual)
      return fmt::format("residualOf<Element>(residual[2 * i + half], {})", expr.index.constant % 2);
    return addLoad(expr, move);
  }
  case Kind::Accumulator: return printAccumulator(expr);
  case Kind::Call: {
    std::string arguments;
    for (const TileExprRef &child : expr.children)
      arguments += (arguments.empty() ? "" : ", ") + print(*child);
    return fmt::format("{}({})", functionOf(cast<dit::MapOp>(expr.op)), arguments);
  }
  case Kind::Norm: return printNorm(expr);
  case Kind::Choice: return printChoice(expr);
  }
  return "";
}

/// An accumulator by its place among the columns of the range.
std::string ElementText::accumulator(int64_t place, int64_t move) const {
  std::string i = "i";
  if (program.head > 0) {
    int64_t group = place / 8 - move / 8 * run->first;
    i = move == 0 ? std::to_string(place / 8) : group == 0 ? "i" : fmt::format("(i {} {})", group < 0 ? "-" : "+", std::abs(group));
  }
  bool isUp = program.gated && place >= current->columns;
  return fmt::format("{}[4 * {} + 2 * half{}]", isUp ? "up" : "x", i, place % 2 ? " + 1" : "");
}

/// Every thread gives one accumulator and takes another's.
std::string ElementText::printExchange(const TileExpr &expr, int64_t move) {
  QuadExchange exchange = *exchangeOf(expr);
  SmallVector<std::string> given, source;
  std::optional<int64_t> across; // the same change of every thread's number
  bool isMirror = true;
  for (int64_t lane = 0; lane < kQuad; ++lane) {
    given.push_back(exchange.given[lane] ? accumulator(*exchange.given[lane] - current->begin, move) : "");
    source.push_back(exchange.source[lane] ? std::to_string(*exchange.source[lane]) : "");
    if (exchange.source[lane])
      isMirror &= across.value_or(*exchange.source[lane] ^ lane) == (*exchange.source[lane] ^ lane), across = *exchange.source[lane] ^ lane;
  }
  return fmt::format("ofQuad({}, {})", perThread(given), isMirror ? fmt::format("quad ^ {}", *across) : perThread(source));
}

/// All alternatives are computed: they exchange accumulators.
std::string ElementText::printChoice(const TileExpr &expr) {
  SmallVector<std::string> values;
  for (const TileExprRef &child : expr.children)
    values.push_back(print(*child));
  std::string text = values.back();
  for (size_t i = values.size() - 1; i-- > 0;) {
    int threads = 0;
    for (auto [lane, child] : llvm::enumerate(expr.lanes))
      threads |= (child == static_cast<int64_t>(i)) << lane;
    bool isFirst = llvm::isMask_32(threads);
    text = fmt::format("either({}, {}, {})", isFirst ? fmt::format("quad < {}", llvm::popcount(static_cast<unsigned>(threads))) : fmt::format("{} >> quad & 1", threads), values[i], text);
  }
  return text;
}

std::string ElementText::printAccumulator(const TileExpr &expr) {
  int64_t move = run->steps[nextPlace++];
  std::string text = expr.lanes.empty() ? accumulator(expr.index.constant - current->begin, move) : printExchange(expr, move);
  if (expr.children.empty())
    return text;
  if (biasIsAdded) {
    ++nextPlace; // the bias's own place
    return text;
  }
  return fmt::format("({} + {})", text, print(*expr.children.front()));
}

std::string ElementText::printNorm(const TileExpr &expr) {
  auto op = cast<dit::NormOp>(expr.op);
  unsigned number = norms[expr.op];
  size_t child = 0;
  std::string text = print(*expr.children[child++]);
  if (expr.op == appliedNorm) {
    nextPlace += expr.children.size() - 1; // the places of weight and bias
    return text;
  }
  if (op.getKind() == dit::NormKind::Layer)
    text = fmt::format("({} - mean{}[half])", text, number);
  text = fmt::format("{} * inverse{}[half]", text, number);
  if (op.getWeight())
    text = fmt::format("{} * {}", text, print(*expr.children[child++]));
  if (op.getBias())
    text = fmt::format("({} + {})", text, print(*expr.children[child++]));
  return text;
}

/// Maps with equal bodies are one function. Transcendental functions are the hardware's: their error lies below the
/// rounding of 16-bit results.
std::string ElementText::functionOf(dit::MapOp map) {
  std::string text = printScalarFunction("NAME", map.getBodyBlock(), SigmoidDivision::Approximate);
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

} // namespace ditc
