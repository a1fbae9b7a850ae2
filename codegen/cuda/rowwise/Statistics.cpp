// SPDX-License-Identifier: Apache-2.0
//
// Norms and reductions. Where a statistic belongs to the row, the threads of the row compute it in a phase of its own,
// before the loop that asked for it; elsewhere each thread computes it in a loop of its own.
#include "codegen/cuda/rowwise/Emitter.h"

#include "codegen/cuda/ScalarText.h"
#include "dialects/Locations.h"
#include "dialects/dit/Tensors.h"

using namespace mlir;

namespace ditc::rowwise {

/// Dimensions that a statistic combines; the others say which statistic it is.
static SmallVector<int64_t> combinedDims(Operation *op) {
  if (auto reduce = dyn_cast<dit::ReduceOp>(op))
    return SmallVector<int64_t>(reduce.getAxes());
  SmallVector<int64_t> dims;
  int64_t rank = tensorType(op->getOperand(0)).getRank();
  for (int64_t dim = rank - cast<dit::NormOp>(op).getAxes(); dim < rank; ++dim)
    dims.push_back(dim);
  return dims;
}

static int64_t combinedSize(Operation *op) {
  int64_t size = 1;
  for (int64_t dim : combinedDims(op))
    size *= tensorType(op->getOperand(0)).getDimSize(dim);
  return size;
}

/// The type that a statistic is computed in.
static Type workType(Operation *op) {
  Type input = tensorType(op->getOperand(0)).getElementType(), result = tensorType(op->getResult(0)).getElementType();
  if (isa<dit::NormOp>(op) || input.isF64())
    return dit::computeType(input);
  return dit::computeType(isa<FloatType>(result) || input == result || !isa<FloatType>(input) ? result : input);
}

static StringRef combinerOf(dit::ReduceKind kind, bool isBool) {
  using Kind = dit::ReduceKind;
  if (isBool)
    return kind == Kind::All || kind == Kind::Min || kind == Kind::Prod ? "All" : "Any";
  switch (kind) {
  case dit::ReduceKind::Prod:
    return "Product";
  case dit::ReduceKind::Max:
    return "Max";
  case dit::ReduceKind::Min:
    return "Min";
  case dit::ReduceKind::Any:
    return "Any";
  case dit::ReduceKind::All:
    return "All";
  default:
    return "Sum";
  }
}

/// The dimensions of an element's index that say which statistic it takes.
static Index placeOfStatistic(Operation *op, const Index &index) {
  SmallVector<int64_t> dims = combinedDims(op);
  Index place;
  for (auto [dim, linear] : llvm::enumerate(index))
    if (!llvm::is_contained(dims, static_cast<int64_t>(dim)))
      place.push_back(linear);
  return place;
}

std::optional<Index> Emitter::inputIndex(Operation *op, const Index &place, const Linear &column) {
  SmallVector<int64_t> dims = combinedDims(op), sizes;
  llvm::sort(dims);
  for (int64_t dim : dims)
    sizes.push_back(tensorType(op->getOperand(0)).getDimSize(dim));
  std::optional<Index> inside = splitIndex(*indices, column, sizes);
  if (!inside)
    return std::nullopt;
  Index index;
  const auto *outer = place.begin(), *inner = inside->begin();
  for (int64_t dim = 0; dim < tensorType(op->getOperand(0)).getRank(); ++dim)
    index.push_back(llvm::is_contained(dims, dim) ? *inner++ : *outer++);
  return index;
}

//===-- Values --------------------------------------------------------------------------------------===//

Pulled Emitter::pullNorm(dit::NormOp op, const Index &index) {
  Statistic found = statistic(op, placeOfStatistic(op, index));
  Index inner(ArrayRef(index).take_back(op.getAxes()));
  SmallVector<Pulled> operands = {pull(op.getInput(), index), found.factor};
  bool isLayer = op.getKind() == dit::NormKind::Layer;
  std::string text = operands[0].lane();
  if (isLayer) {
    operands.push_back(found.centre);
    text = "(" + text + " - " + found.centre.lane() + ")";
  }
  text += " * " + found.factor.lane();
  if (op.getWeight()) {
    operands.push_back(pull(op.getWeight(), inner));
    text += " * " + operands.back().lane();
  }
  if (op.getBias()) {
    operands.push_back(pull(op.getBias(), inner));
    text += " + " + operands.back().lane();
  }
  if (prober)
    return {};
  return apply(stemOf(op, "normed"), operands, rounded(op.getResult(), text));
}

Pulled Emitter::pullReduce(dit::ReduceOp op, const Index &index) { return statistic(op, placeOfStatistic(op, index)).centre; }

Statistic Emitter::statistic(Operation *op, const Index &place) {
  if (prober)
    return probeStatistic(op, place);
  bool perRow = llvm::all_of(place, [&](const Linear &linear) { return indices->isPerRow(linear); });
  return part->hasRows && perRow ? groupStatistic(op, place) : serialStatistic(op, place);
}

Statistic Emitter::probeStatistic(Operation *op, const Index &place) {
  if (!scopes[0]->values.try_emplace("statistic" + keyOf(op->getResult(0), place)).second)
    return {};
  int64_t size = combinedSize(op), within = 1;
  std::vector<bool> used;
  for (const Linear &linear : place)
    indices->collect(linear, used);
  for (auto [column, around] : prober->columns)
    if (column < used.size() && used[column])
      within *= prober->uses[around].size;
  prober->uses.push_back({op, place, size, within});
  Linear column = indices->counter("c", size, false);
  bool hasVariable = !column.terms.empty();
  if (hasVariable)
    prober->columns.emplace_back(column.terms[0].first, prober->uses.size() - 1);
  pull(op->getOperand(0), *inputIndex(op, place, column));
  if (hasVariable)
    prober->columns.pop_back();
  return {};
}

//===-- By the threads of the row -------------------------------------------------------------------===//

Statistic Emitter::groupStatistic(Operation *op, const Index &place) {
  std::vector<std::string> conditions = conditionsNow();
  std::string condition;
  for (const std::string &one : conditions)
    condition += (condition.empty() ? "" : " && ") + (conditions.size() > 1 ? "(" + one + ")" : one);
  std::string key = "statistic" + condition + keyOf(op->getResult(0), place);
  if (auto found = scopes[0]->values.find(key); found != scopes[0]->values.end())
    return {found->second, scopes[0]->values[key + "factor"]};
  std::vector<std::pair<Variable, Range>> dropped = indices->dropThreadRestrictions();
  Statistic result = atLevel(0, [&] {
    std::string name = writeNodeName(nameOf(op->getLoc()));
    line("// " + (name.empty() ? op->getName().stripDialect().str() : name) + " over " + std::to_string(combinedSize(op)) + " columns");
    if (condition.empty())
      return computeTotals(op, place, true, false);
    Statistic names = declareStatistic(op, false);
    push(Scope::Branch).condition = condition;
    Statistic values = computeTotals(op, place, true, false);
    for (auto [name, value] : {std::pair(names.centre, values.centre), std::pair(names.factor, values.factor)})
      if (name.text != Pulled().text)
        line(name.text + " = " + value.text + ";");
    pop("if (" + condition + ") {");
    if (part->group > 32)
      line("__syncthreads();"); // whoever skipped the branch may not reach its place in shared memory early
    return names;
  });
  for (auto [variable, range] : dropped)
    indices->restrict(variable, range);
  scopes[0]->values[key] = result.centre;
  scopes[0]->values[key + "factor"] = result.factor;
  return result;
}

Statistic Emitter::declareStatistic(Operation *op, bool isChunk) {
  auto norm = dyn_cast<dit::NormOp>(op);
  std::string type = norm ? scalarTypeName(workType(op)) : typeName(tensorType(op->getResult(0)).getElementType(), isChunk);
  auto declared = [&](StringRef stem) {
    std::string name = fresh(stem);
    line(type + " " + name + " = 0;");
    return Pulled{name, isChunk};
  };
  Statistic names;
  if (!norm || norm.getKind() == dit::NormKind::Layer)
    names.centre = declared(norm ? "mean" : "reduced");
  if (norm)
    names.factor = declared("scale");
  return names;
}

std::string Emitter::combined(StringRef combiner, const std::string &total) {
  std::string group = std::to_string(part->group);
  if (part->group == 1)
    return total;
  if (part->group <= 32)
    return "combineInWarp<" + combiner.str() + ", " + group + ">(" + total + ")";
  usesBlock = true;
  return "combineInBlock<" + combiner.str() + ", " + group + ">(" + total + ", shared[" + std::to_string(reductions++ % 2) + "])";
}

//===-- By one thread -------------------------------------------------------------------------------===//

Statistic Emitter::serialStatistic(Operation *op, const Index &place) {
  return atLevel(levelOf(place), [&]() -> Statistic {
    std::string key = "statistic" + keyOf(op->getResult(0), place);
    for (auto &scope : llvm::reverse(scopes))
      if (auto found = scope->values.find(key); found != scope->values.end())
        return {found->second, scope->values[key + "factor"]};
    bool isChunk = llvm::any_of(place, [](const Linear &linear) { return !linear.isUniform(); });
    Statistic result = computeTotals(op, place, false, isChunk);
    top().values[key] = result.centre;
    top().values[key + "factor"] = result.factor;
    return result;
  });
}

//===-- Both ----------------------------------------------------------------------------------------===//

/// Are the values of a row that a thread keeps, but does not hold as they lie in memory, a large part of its registers?
bool Emitter::keepsMuch(int64_t columns) const {
  int64_t width = chunkWidth(columns, maxWidth), values = chunksPerThread(columns, width, part->group) * width;
  return !part->isHeld && values > 32 && values <= kMostKept;
}

void Emitter::pass(Operation *op, const Index &place, bool overRow, llvm::function_ref<void(const Pulled &)> update) {
  int64_t size = combinedSize(op);
  if (size == 0)
    return;
  Linear column;
  std::string name;
  if (overRow) {
    column = openColumns(size, true);
  } else if (size > 1) {
    name = fresh("i");
    column = indices->counter(name, size, false);
    push(Scope::Serial).declared.insert(column.terms[0].first);
  }
  if (std::optional<Index> index = inputIndex(op, place, column))
    update(pull(op->getOperand(0), *index));
  else
    fail();
  if (overRow) {
    storeWhatIsKnown(size, column);
    return closeColumns();
  }
  if (size == 1)
    return;
  if (size <= 8)
    lineAt(scopes.size() - 2, "#pragma unroll");
  pop("for (Index " + name + " = 0; " + name + " < " + std::to_string(size) + "; ++" + name + ") {");
}

/// One pass: the total of `term` of a thread's values, or in each lane.
std::string Emitter::ownTotal(Operation *op, const Index &place, bool overRow, bool isChunk, StringRef combiner, const std::string &start,
                           llvm::function_ref<std::string(const std::string &)> term) {
  std::string type = scalarTypeName(workType(op)), name = fresh(combiner == "Sum" ? "sum" : "all"), lanes = std::to_string(lanesNow());
  if (isChunk)
    line("auto " + name + " = each<" + lanes + ">([&](int) -> " + type + " { return " + start + "; });");
  else
    line(type + " " + name + " = " + start + ";");
  pass(op, place, overRow, [&](const Pulled &value) {
    std::string call = combiner.str() + "::combine(" + name;
    if (isChunk)
      return line(name + " = each<" + lanes + ">([&](int e) { return " + call + "[e], " + term(value.lane()) + "); });");
    std::string own = term(value.lane());
    if (overRow && lanesNow() > 1) { // a value that repeats in all lanes counts in each
      bool isWhole = value.isChunk && own == value.lane();
      own = "total<" + combiner.str() + ">(" + (isWhole ? value.text : "each<" + std::to_string(lanesNow()) + ">([&](int e) { return " + own + "; })") + ")";
    } else if (value.isChunk) { // of one element
      own = term(value.text + "[0]");
    }
    line((overRow ? guardNow() : "") + name + " = " + call + ", " + own + ");");
  });
  return name;
}

/// The total in all threads of the row, or in each lane.
std::string Emitter::total(Operation *op, const Index &place, bool overRow, bool isChunk, StringRef combiner, const std::string &start,
                           llvm::function_ref<std::string(const std::string &)> term) {
  std::string own = ownTotal(op, place, overRow, isChunk, combiner, start, term);
  return overRow ? combined(combiner, own) : own;
}

/// Do all threads of the row have equally many of its values?
bool Emitter::sharesEvenly(int64_t columns) const {
  return part->group > 1 && columns % (chunkWidth(columns, maxWidth) * part->group) == 0;
}

/// Each thread's own mean and squares, then both for the row, in one exchange instead of two that wait for each other.
Statistic Emitter::joinedMoments(dit::NormOp norm, const Index &place) {
  int64_t columns = combinedSize(norm), own = columns / part->group;
  auto reciprocal = [](int64_t count) { return " * (1 / " + scalarLiteral(static_cast<double>(count), false) + ")"; };
  std::string zero = scalarLiteral(0.0, false);
  std::string sum = ownTotal(norm, place, true, false, "Sum", zero, [](const std::string &value) { return value; });
  std::string middle = define("own", sum + reciprocal(own));
  std::string squares = ownTotal(norm, place, true, false, "Sum", zero, [&](const std::string &value) { return "square(" + value + " - " + middle + ")"; });
  bool isBlock = part->group > 32;
  usesBlock |= isBlock;
  std::string of = isBlock ? ", shared[" + std::to_string(reductions++ % 2) + "]" : "";
  std::string moments = define("moments", std::string(isBlock ? "momentsInBlock<" : "momentsInWarp<") + std::to_string(part->group) + ", " + std::to_string(own) + ">({" + middle +
                                              ", " + squares + "}" + of + ")");
  Statistic result;
  result.centre = {define("mean", moments + ".mean"), false};
  result.factor = {define("scale", "reciprocalRoot(" + moments + ".squares" + reciprocal(columns) + " + " + scalarLiteral(norm.getEps().convertToDouble(), false) + ")"), false};
  return result;
}

/// `text`, an expression of one lane when `isChunk`, under a name.
static std::string perLane(bool isChunk, const std::string &name) { return isChunk ? name + "[e]" : name; }

Statistic Emitter::computeTotals(Operation *op, const Index &place, bool overRow, bool isChunk) {
  bool isDouble = workType(op).isF64();
  std::string count = scalarLiteral(static_cast<double>(combinedSize(op)), isDouble);
  std::string perCount = isDouble ? " / " + count : " * (1 / " + count + ")"; // the quotient is a constant
  std::string lanes = std::to_string(lanesNow());
  auto named = [&](StringRef stem, const std::string &expression) -> Pulled {
    std::string text = isChunk ? "each<" + lanes + ">([&](int e) { return " + expression + "; })" : expression;
    return {define(stem, text), isChunk};
  };
  auto same = [](const std::string &value) { return value; };
  if (auto norm = dyn_cast<dit::NormOp>(op)) {
    if (overRow && !isDouble && norm.getKind() == dit::NormKind::Layer && sharesEvenly(combinedSize(op)))
      return joinedMoments(norm, place);
    Statistic result;
    std::string zero = scalarLiteral(0.0, isDouble);
    std::string minusCentre;
    if (norm.getKind() == dit::NormKind::Layer) {
      result.centre = named("mean", perLane(isChunk, total(op, place, overRow, isChunk, "Sum", zero, same)) + perCount);
      minusCentre = " - " + result.centre.lane();
    }
    std::string sum = total(op, place, overRow, isChunk, "Sum", zero, [&](const std::string &value) { return "square(" + value + minusCentre + ")"; });
    result.factor =
        named("scale", "reciprocalRoot(" + perLane(isChunk, sum) + perCount + " + " + scalarLiteral(norm.getEps().convertToDouble(), isDouble) + ")");
    if (overRow && !isDouble && norm.getKind() == dit::NormKind::Layer && keepsMuch(combinedSize(op)))
      result.centre = named("centre", "again(" + result.centre.text + ", widening.loop[3])"); // or all differences are kept as well
    return result;
  }
  auto reduce = cast<dit::ReduceOp>(op);
  Type work = workType(op), input = dit::computeType(tensorType(reduce.getInput()).getElementType()), element = tensorType(reduce.getResult()).getElementType();
  auto converted = [&](const std::string &value) { return input == work ? value : "static_cast<" + scalarTypeName(work) + ">(" + value + ")"; };
  std::string start = scalarLiteral(dit::reductionIdentity(reduce.getKind(), work));
  std::string text = perLane(isChunk, total(op, place, overRow, isChunk, combinerOf(reduce.getKind(), work.isInteger(1)), start, converted));
  if (reduce.getKind() == dit::ReduceKind::Mean)
    text = isa<FloatType>(work) ? text + perCount
                                : "toInteger(static_cast<double>(" + text + ") / " + scalarLiteral(static_cast<double>(combinedSize(op)), true) + ")";
  if (dit::computeType(element) != work)
    text = "static_cast<" + scalarTypeName(dit::computeType(element)) + ">(" + text + ")";
  return {named(stemOf(op, "reduced"), rounded(reduce.getResult(), text)), {}};
}

} // namespace ditc::rowwise
