// SPDX-License-Identifier: Apache-2.0
#include "codegen/cuda/rowwise/Spaces.h"

#include "codegen/cuda/rowwise/Emitter.h"
#include "dialects/dit/Tensors.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace ditc::rowwise {

/// A thread combines this many values alone; more are work for all threads of a row.
constexpr int64_t kSerial = 4, kSerialStrided = 64;
/// Outputs that keep a GPU busy with one thread each.
constexpr int64_t kManyThreads = 4096;
/// Columns from which on it pays to keep elements as they lie in memory.
constexpr int64_t kLeastHeld = 512;
/// Elements of a transpose from which on it goes by squares, and the side of a square.
constexpr int64_t kTiled = 1 << 16, kTile = 64;
/// Outputs of fewer elements leave most of a GPU idle, so no more than this many go by the same blocks: modulation tables
/// of all blocks of a model are hundreds of outputs of one launch.
constexpr int64_t kFewElements = 1 << 16, kSmallTogether = 8;

//===-- What an output needs ------------------------------------------------------------------------===//

namespace {

/// An output with its factors, and the statistics below it in terms of those.
struct Demand {
  Factors factors;
  std::vector<StatisticUse> uses;
  SmallVector<int64_t> weights;   ///< of each factor in the number of the longest statistic's row
  llvm::DenseSet<Value> values;   ///< all that it is made of
  std::optional<unsigned> across; ///< factor along which a large input lies side by side
};

bool isSerial(const Problem &problem, const StatisticUse &use, int64_t outputs) {
  if (use.size <= kSerial)
    return true;
  if (use.isContiguous)
    return false;
  return use.size <= kSerialStrided || (isa<dit::ReduceOp>(use.op) && outputs >= kManyThreads);
}

void collectValues(Value value, llvm::DenseSet<Value> &values) {
  if (!values.insert(value).second)
    return;
  if (Operation *op = value.getDefiningOp())
    for (Value operand : op->getOperands())
      collectValues(operand, values);
}

/// Cuts a factor where a statistic takes only a quotient of it. True when something was cut.
bool cutFactor(const Indices &indices, const Linear &place, Factors &factors) {
  for (auto [variable, coefficient] : place.terms) {
    const Indices::Info &info = indices.info(variable);
    if (!info.dividend || info.dividend->terms.size() != 1 || info.dividend->terms[0].second != 1 || info.dividend->lanes[0] != 0)
      continue;
    size_t position = info.dividend->terms[0].first;
    if (position >= factors.size() || factors[position].size % info.divisor != 0)
      continue;
    Factor whole = factors[position];
    factors[position] = {whole.dim, whole.size / info.divisor, whole.scale * info.divisor};
    factors.insert(factors.begin() + position + 1, {whole.dim, info.divisor, whole.scale});
    return true;
  }
  return false;
}

/// Factors by the weight that they have in the number of a statistic's row.
SmallVector<int64_t> weightsOf(const Probe::Use &use, size_t factors) {
  SmallVector<int64_t> weights(factors, 0);
  ArrayRef<int64_t> shape = tensorType(use.op->getOperand(0)).getShape();
  auto reduce = dyn_cast<dit::ReduceOp>(use.op);
  size_t place = use.place.size();
  int64_t stride = 1;
  for (size_t dim = shape.size(); dim-- > 0;) {
    bool isCombined = reduce ? llvm::is_contained(reduce.getAxes(), static_cast<int64_t>(dim)) : dim >= use.place.size();
    if (isCombined)
      continue;
    for (auto [variable, coefficient] : use.place[--place].terms)
      if (variable < factors)
        weights[variable] += coefficient * stride;
    stride *= shape[dim];
  }
  return weights;
}

/// The output lies side by side along another dimension than the largest of its inputs: where that one does.
std::optional<unsigned> acrossFactor(const Problem &problem, size_t output, const Factors &factors, const Probe &probe) {
  int64_t most = tensorType(problem.result(output)).getNumElements() / 2;
  std::optional<unsigned> across;
  for (const Probe::Load &load : probe.loads) {
    int64_t elements = tensorType(problem.body->getArgument(load.input)).getNumElements();
    for (auto [variable, coefficient] : load.address.terms)
      if (variable < factors.size() && std::abs(coefficient) == 1 && elements > most) {
        bool isAlong = problem.outputs[output].strides[factors[variable].dim] * factors[variable].scale == 1;
        across = isAlong ? std::nullopt : std::optional<unsigned>(variable);
        most = elements;
      }
  }
  return across;
}

Demand demandOf(const Problem &problem, size_t output) {
  Demand demand;
  Value value = problem.result(output);
  ArrayRef<int64_t> shape = tensorType(value).getShape();
  for (auto [dim, size] : llvm::enumerate(shape))
    if (size > 1)
      demand.factors.push_back({static_cast<unsigned>(dim), size, 1});
  collectValues(value, demand.values);
  for (bool again = true; again;) {
    Indices indices; // variable i is factor i
    Index index(shape.size());
    for (const Factor &factor : demand.factors)
      index[factor.dim] = index[factor.dim] + indices.counter("d", factor.size, false) * factor.scale;
    Probe probe = Emitter::probe(problem, value, indices, index);
    const std::vector<Probe::Use> &uses = probe.uses;
    again = llvm::any_of(uses, [&](const Probe::Use &use) {
      return use.size > kSerial && llvm::any_of(use.place, [&](const Linear &place) { return cutFactor(indices, place, demand.factors); });
    });
    if (again)
      continue;
    demand.across = acrossFactor(problem, output, demand.factors, probe);
    int64_t longest = 0;
    for (const Probe::Use &use : uses) {
      std::vector<bool> used;
      for (const Linear &place : use.place)
        indices.collect(place, used);
      StatisticUse found{use.op, use.size, {}, use.within, use.isContiguous};
      for (unsigned i = 0; i < demand.factors.size() && i < used.size(); ++i)
        if (used[i])
          found.dims.push_back(i);
      demand.uses.push_back(found);
      if (use.size > longest && !isSerial(problem, found, tensorType(value).getNumElements())) {
        longest = use.size;
        demand.weights = weightsOf(use, demand.factors.size());
      }
    }
  }
  return demand;
}

//===-- Parts ---------------------------------------------------------------------------------------===//

int64_t product(const Factors &factors) {
  int64_t size = 1;
  for (const Factor &factor : factors)
    size *= factor.size;
  return size;
}

SmallVector<int64_t> sizesOf(const Factors &factors) {
  return llvm::map_to_vector(factors, [](const Factor &factor) { return factor.size; });
}

struct PartWithValues {
  Part part;
  llvm::DenseSet<Value> values;
};

/// Do they have a tensor of about this size in common?
bool shareLarge(const llvm::DenseSet<Value> &a, const llvm::DenseSet<Value> &b, int64_t elements) {
  return llvm::any_of(a, [&](Value value) { return b.contains(value) && tensorType(value).getNumElements() * 2 >= elements; });
}

void addRowsOutput(const Problem &problem, unsigned output, Demand demand, std::vector<PartWithValues> &parts) {
  int64_t elements = tensorType(problem.result(output)).getNumElements();
  llvm::SmallDenseSet<unsigned> inRows;
  Part part;
  part.hasRows = true;
  for (const StatisticUse &use : demand.uses)
    if (!isSerial(problem, use, elements)) {
      inRows.insert(use.dims.begin(), use.dims.end());
      part.longestRow = std::max(part.longestRow, use.size);
    }
  SmallVector<unsigned> order = llvm::to_vector(llvm::seq<unsigned>(0, demand.factors.size()));
  OutputSpace space{output, {}, {}};
  for (unsigned i : order)
    if (!inRows.contains(i))
      space.columns.push_back(demand.factors[i]);
  // Rows as the longest statistic has them; what it does not know repeats it, outside.
  llvm::stable_sort(order, [&](unsigned a, unsigned b) {
    int64_t first = demand.weights[a], second = demand.weights[b];
    return (first == 0) != (second == 0) ? first == 0 : first > second;
  });
  for (unsigned i : order)
    if (inRows.contains(i))
      space.rows.push_back(demand.factors[i]);
  part.rows = product(space.rows);
  part.columns = product(space.columns);
  part.longestRow = std::max(part.longestRow, part.columns);
  part.statistics = demand.uses;
  for (PartWithValues &other : parts) {
    bool sharesStatistic = llvm::any_of(part.statistics, [&](const StatisticUse &use) {
      return use.size > kSerial && llvm::any_of(other.part.statistics, [&](const StatisticUse &known) { return known.op == use.op; });
    });
    bool sharesColumns = other.part.columns == part.columns || other.part.columns == 1 || part.columns == 1;
    if (!other.part.hasRows || !sharesStatistic || !sharesColumns || sizesOf(other.part.outputs[0].rows) != sizesOf(space.rows))
      continue;
    space.ofRow = part.columns < other.part.columns;
    for (OutputSpace &known : other.part.outputs)
      known.ofRow |= other.part.columns < part.columns;
    other.part.columns = std::max(other.part.columns, part.columns);
    other.part.outputs.push_back(space);
    other.part.longestRow = std::max(other.part.longestRow, part.longestRow);
    llvm::append_range(other.part.statistics, part.statistics);
    other.values.insert(demand.values.begin(), demand.values.end());
    return;
  }
  part.outputs.push_back(space);
  parts.push_back({part, demand.values});
}

/// A transpose: threads of a block take a square, so that what one reads beside its elements is in the cache for others.
void tile(Factors &factors, const Factor &across) {
  Factor along = factors.back();
  auto *other = llvm::find(factors, across);
  if (along.scale != 1 || other == factors.end() || other == &factors.back())
    return;
  int64_t width = chunkWidth(along.size, kTile), height = chunkWidth(across.size, kTile);
  if (width < 8 || height < 8)
    return;
  *other = {across.dim, across.size / height, across.scale * height};
  factors.back() = {along.dim, along.size / width, width};
  factors.push_back({across.dim, height, across.scale});
  factors.push_back({along.dim, width, 1});
}

void addFlatOutput(const Problem &problem, unsigned output, Demand demand, std::vector<PartWithValues> &parts) {
  int64_t elements = tensorType(problem.result(output)).getNumElements();
  OutputSpace space{output, {}, demand.factors};
  for (PartWithValues &other : parts) // what the rows of another output need anyway
    if (other.part.hasRows && other.part.rows * other.part.columns == elements && shareLarge(other.values, demand.values, elements)) {
      space.joined = true;
      other.part.outputs.push_back(space);
      return;
    }
  ArrayRef<int64_t> strides = problem.outputs[output].strides;
  llvm::stable_sort(space.columns, [&](const Factor &a, const Factor &b) { return strides[a.dim] > strides[b.dim]; });
  for (PartWithValues &other : parts)
    if (elements < kFewElements && other.part.outputs.size() >= kSmallTogether)
      continue;
    else if (!other.part.hasRows && sizesOf(other.part.outputs[0].columns) == sizesOf(space.columns) && shareLarge(other.values, demand.values, 0)) {
      other.part.outputs.push_back(space);
      other.values.insert(demand.values.begin(), demand.values.end());
      return;
    }
  if (demand.across && elements >= kTiled)
    tile(space.columns, demand.factors[*demand.across]);
  Part part;
  part.columns = elements;
  part.statistics = demand.uses;
  part.outputs.push_back(space);
  parts.push_back({part, demand.values});
}

/// Elements that lie side by side in all outputs of a flat part.
int64_t commonRun(const Problem &problem, const Part &part) {
  int64_t common = part.columns;
  for (const OutputSpace &space : part.outputs) {
    int64_t run = 1;
    for (const Factor &factor : llvm::reverse(space.columns)) {
      if (problem.outputs[space.output].strides[factor.dim] * factor.scale != run)
        break;
      run *= factor.size;
    }
    common = std::gcd(common, run);
  }
  return common;
}

/// 16 bytes of the smallest type among the tensors that most bytes go through.
int64_t widestChunk(const Problem &problem, const PartWithValues &part) {
  int64_t elements = part.part.rows * part.part.columns, bytes = 8;
  for (const OutputSpace &space : part.part.outputs)
    bytes = std::min(bytes, dit::elementBytes(problem.outputs[space.output].element));
  for (Value value : part.values)
    if (isa<BlockArgument>(value) && tensorType(value).getNumElements() * 4 >= elements)
      bytes = std::min(bytes, dit::elementBytes(tensorType(value).getElementType()));
  return std::min<int64_t>(8, 16 / bytes);
}

/// Does the statistic combine elements of 16 bits as they lie in memory, or something of one of them each (magnitudes)?
bool isOfHeld(const StatisticUse &use) {
  Value value = use.op->getOperand(0);
  while (Operation *op = value.getDefiningOp()) {
    auto map = dyn_cast<dit::MapOp>(op);
    if (!dit::isViewOp(op) && !(map && map.getInputs().size() == 1))
      return false;
    value = op->getOperand(0);
  }
  Type element = tensorType(value).getElementType();
  return is16BitFloat(element);
}

} // namespace

std::vector<Part> findParts(const Problem &problem) {
  std::vector<PartWithValues> found;
  std::vector<std::pair<unsigned, Demand>> flat;
  for (unsigned output = 0; output < problem.outputs.size(); ++output) {
    int64_t elements = tensorType(problem.result(output)).getNumElements();
    if (elements == 0)
      continue;
    Demand demand = demandOf(problem, output);
    bool hasRows = llvm::any_of(demand.uses, [&](const StatisticUse &use) { return !isSerial(problem, use, elements); });
    if (hasRows)
      addRowsOutput(problem, output, std::move(demand), found);
    else
      flat.emplace_back(output, std::move(demand));
  }
  for (auto &[output, demand] : flat)
    addFlatOutput(problem, output, std::move(demand), found);
  std::vector<Part> parts;
  for (PartWithValues &entry : found) {
    entry.part.width = widestChunk(problem, entry);
    entry.part.isHeld = entry.part.hasRows && entry.part.longestRow >= kLeastHeld &&
                        llvm::all_of(entry.part.statistics, [](const StatisticUse &use) { return isOfHeld(use); });
    if (!entry.part.hasRows)
      entry.part.width = chunkWidth(commonRun(problem, entry.part), entry.part.width);
    parts.push_back(std::move(entry.part));
  }
  return parts;
}

double recomputation(const Problem &problem, const Part &part) {
  double most = 1;
  int64_t elements = part.rows * part.columns;
  for (const StatisticUse &use : part.statistics) {
    double input = std::max<double>(1, tensorType(use.op->getOperand(0)).getNumElements());
    bool serial = !part.hasRows || isSerial(problem, use, elements);
    most = std::max(most, static_cast<double>(serial ? elements : part.rows) * static_cast<double>(use.within) * static_cast<double>(use.size) / input);
  }
  return most;
}

//===-- Places --------------------------------------------------------------------------------------===//

std::optional<Index> placeOf(Indices &indices, const Part &part, const OutputSpace &space, size_t rank, const Linear &row, const Linear &column) {
  Index place(rank);
  auto add = [&](const Linear &linear, const Factors &factors) {
    std::optional<Index> split = splitIndex(indices, linear, sizesOf(factors));
    if (!split)
      return false;
    for (auto [factor, of] : llvm::zip(factors, *split))
      place[factor.dim] = place[factor.dim] + of * factor.scale;
    return true;
  };
  bool works = space.joined ? add(row * part.columns + column, space.columns) : add(row, space.rows) && add(column, space.columns);
  if (!works)
    return std::nullopt;
  for (Linear &linear : place)
    linear = indices.rejoin(linear);
  return place;
}

} // namespace ditc::rowwise
