// SPDX-License-Identifier: Apache-2.0
//
// Values at an index: maps, loads, and what earlier loops left in registers.
#include "codegen/cuda/rowwise/Emitter.h"

#include "codegen/cuda/ScalarText.h"
#include "dialects/Locations.h"
#include "dialects/dit/Tensors.h"

#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace ditc::rowwise {

std::string stemOf(Operation *op, StringRef otherwise) {
  std::string node = nameOf(op->getLoc()).node;
  return node.empty() ? otherwise.str() : node;
}

std::string Emitter::typeName(Type element, bool isChunk) const {
  std::string scalar = scalarTypeName(dit::computeType(element));
  return isChunk ? "Chunk<" + scalar + ", " + std::to_string(scopes.back()->width) + ">" : scalar;
}

/// Nothing but memory takes the value: storing rounds it.
static bool isOnlyStored(Value value) {
  return llvm::all_of(value.getUsers(), [](Operation *user) { return isa<dit::YieldOp>(user) || (dit::isViewOp(user) && isOnlyStored(user->getResult(0))); });
}

std::string Emitter::rounded(Value value, const std::string &text) const {
  Type element = elementOf(value);
  if (isa<FloatType>(element)) {
    bool seen = is8BitFloat(element) ? !isOnlyStored(value) : problem.keepRoundings && is16BitFloat(element);
    return seen ? "rounded<" + elementName(element) + ">(" + text + ")" : text;
  }
  bool isNarrow = !element.isInteger(64) && !element.isInteger(1);
  return isNarrow ? "lowBits<" + elementName(element) + ">(" + text + ")" : text;
}

//===-- Once for every index ------------------------------------------------------------------------===//

Pulled Emitter::pull(Value value, const Index &index) {
  return atLevel(levelOf(index), [&] {
    std::string key = keyOf(value, index);
    for (auto &scope : llvm::reverse(scopes))
      if (auto found = scope->values.find(key); found != scope->values.end())
        return found->second;
    Pulled pulled;
    if (std::optional<Pulled> earlier = findKept(value, index)) {
      pulled = *earlier;
    } else {
      pulled = pullNew(value, index);
      keep(value, index, pulled);
    }
    top().values[key] = pulled;
    return pulled;
  });
}

Pulled Emitter::pullNew(Value value, const Index &index) {
  if (auto argument = dyn_cast<BlockArgument>(value))
    return load(arguments[argument.getArgNumber()], index);
  return llvm::TypeSwitch<Operation *, Pulled>(value.getDefiningOp())
      .Case([&](dit::MapOp op) { return pullMap(op, index); })
      .Case([&](dit::NormOp op) { return pullNorm(op, index); })
      .Case([&](dit::ReduceOp op) { return pullReduce(op, index); })
      .Case([&](dit::ConstantOp op) { return pullConstant(op, index); })
      .Case([&](dit::ViewOp op) { return pullView(op, index); })
      .Case([&](dit::GatherOp op) { return pullGather(op, index); })
      .Case([&](dit::ConcatOp op) { return pullConcat(op, index); })
      .Case([&](dit::PadOp op) { return pullPad(op, index, 0); })
      .Case([&](dit::PermuteOp op) {
        Index input(index.size());
        for (auto [i, dim] : llvm::enumerate(op.getPermutation()))
          input[dim] = index[i];
        return pull(op.getInput(), input);
      })
      .Case([&](dit::SliceOp op) {
        Index input;
        for (auto [linear, offset, step] : llvm::zip(index, op.getOffsets(), op.getSteps()))
          input.push_back(linear * step + constant(offset));
        return pull(op.getInput(), input);
      })
      .Case([&](dit::ExpandOp op) {
        Index input;
        for (auto [linear, size] : llvm::zip(index, shapeOf(op.getInput())))
          input.push_back(size == 1 ? Linear() : linear);
        return pull(op.getInput(), input);
      })
      .Default([&](Operation *) {
        fail();
        return Pulled();
      });
}

//===-- Kept from earlier loops ---------------------------------------------------------------------===//

std::vector<std::string> Emitter::conditionsNow() const {
  std::vector<std::string> conditions;
  for (const auto &scope : scopes)
    if (scope->kind == Scope::Branch && scope->isPerRow)
      conditions.push_back(scope->condition);
  return conditions;
}

void Emitter::keep(Value value, const Index &index, const Pulled &pulled) {
  Scope &scope = top();
  Operation *op = value.getDefiningOp();
  if (!scope.keeps || scope.kind != Scope::Columns || !pulled.isChunk || (op && dit::isViewOp(op)))
    return;
  int64_t rounds = chunksPerThread(scope.columns, scope.width, part->group);
  if (rounds == 1 && scope.columns == scope.width * part->group)
    return; // there is no loop: the value stays in sight
  Kept entry{value, index, scope.columns, scope.width, false, fresh(pulled.text + "_kept"), std::make_shared<bool>(false), conditionsNow(), scope.loop};
  std::string place = rounds > 1 ? "[k]" : "", type = typeName(elementOf(value), true), source = pulled.text;
  if (auto held = heldOf.find(pulled.text); held != heldOf.end()) {
    entry.isHeld = true;
    source = held->second.name;
    type = held->second.type;
  }
  scopes[0]->lines.push_back({type + " " + entry.name + (rounds > 1 ? "[" + std::to_string(rounds) + "]" : "") + ";", entry.needed});
  scope.lines.push_back({entry.name + place + " = " + source + ";", entry.needed});
  kept.push_back(std::move(entry));
}

/// Lane of `entry` that holds what lane `e` of `index` asks for, `shift` further in variable `round`.
static std::optional<int> laneInKept(const Index &index, const Index &entry, size_t e, size_t width, Variable round, int64_t shift) {
  for (size_t lane = 0; lane < width; ++lane)
    if (llvm::all_of(llvm::zip(index, entry), [&](auto pair) {
          const auto &[asked, held] = pair;
          return asked.lane(e) == held.lane(lane) + shift * held.factorOf(round);
        }))
      return lane;
  return std::nullopt;
}

std::optional<Pulled> Emitter::findKept(Value value, const Index &index) {
  auto loop = llvm::find_if(llvm::reverse(scopes), [](auto &scope) { return scope->kind == Scope::Columns; });
  if (loop == scopes.rend())
    return std::nullopt;
  std::vector<std::string> conditions = conditionsNow();
  size_t width = (*loop)->width;
  int64_t rounds = chunksPerThread((*loop)->columns, width, part ? part->group : 1);
  for (Kept &entry : kept) {
    bool sameLoop = entry.columns == (*loop)->columns && entry.width == (*loop)->width;
    bool holds = llvm::all_of(entry.conditions, [&](const std::string &condition) { return llvm::is_contained(conditions, condition); });
    bool sameTerms = llvm::all_of(llvm::zip(index, entry.index), [](auto pair) { return std::get<0>(pair).terms == std::get<1>(pair).terms; });
    if (entry.value != value || !sameLoop || !holds || !sameTerms || llvm::is_contained(openLoops, entry.loop))
      continue;
    Linear chunk = columnForms[{entry.columns, entry.width}];
    bool canShift = rounds > 1 && (*loop)->columns / width % part->group == 0;
    Variable round = canShift ? chunk.terms.back().first : 0;
    for (auto [variable, factor] : chunk.terms)
      if (canShift && thread.factorOf(variable) == 0)
        round = variable;
    Range range = canShift ? indices->rangeOf(round) : Range{0, 0};
    for (int64_t shift = canShift ? -range.low : 0; shift <= (canShift ? rounds - 1 - range.high : 0); ++shift) {
      SmallVector<int> lanes;
      for (size_t e = 0; e < width; ++e)
        if (std::optional<int> lane = laneInKept(index, entry.index, e, width, round, canShift ? shift : 0))
          lanes.push_back(*lane);
      if (lanes.size() != width)
        continue;
      *entry.needed = true;
      mixed |= shift != 0;
      std::string text = entry.name;
      if (rounds > 1)
        text += shift == 0 ? "[k]" : shift > 0 ? "[k + " + std::to_string(shift) + "]" : "[k - " + std::to_string(-shift) + "]";
      if (entry.isHeld) {
        auto [values, isNew] = top().values.try_emplace(text);
        if (isNew)
          values->second = {define("again", widened(text)), true};
        text = values->second.text;
      }
      return pickLanes(text, lanes, entry.width);
    }
  }
  return std::nullopt;
}

Pulled Emitter::pickLanes(const std::string &text, ArrayRef<int> lanes, int64_t count) {
  bool isAll = count == static_cast<int64_t>(lanes.size());
  std::string list;
  for (auto [e, lane] : llvm::enumerate(lanes)) {
    isAll &= lane == static_cast<int>(e);
    list += (e ? ", " : "") + std::to_string(lane);
  }
  return {isAll ? text : define("picked", "pick<" + list + ">(" + text + ")"), true};
}

//===-- Loads ---------------------------------------------------------------------------------------===//

Pulled Emitter::load(Argument &argument, const Index &index) {
  argument.used = true;
  Linear address = addressOf(*indices, argument, index);
  if (prober) {
    prober->loads.push_back({static_cast<size_t>(&argument - arguments.begin()), address});
    for (auto [variable, use] : prober->columns)
      for (auto [term, factor] : address.terms) {
        std::vector<bool> used;
        Linear one;
        one.terms.emplace_back(term, 1);
        indices->collect(one, used);
        prober->uses[use].isContiguous |= std::abs(factor) == 1 && used[variable];
      }
    return {};
  }
  std::string stem = StringRef(argument.name).starts_with("in") ? "x" + argument.name.substr(2) : "entry";
  if (address.isUniform())
    return {define(stem, "load(" + printAddress(argument, address) + ")"), false};
  return loadChunk(argument, address, stem);
}

/// Elements of 16 bits that later loops over the same columns may ask for again.
bool Emitter::holds(const Argument &argument, int64_t width) const {
  const Scope &scope = *scopes.back();
  bool isSmall = is16BitFloat(argument.element);
  return part->isHeld && isSmall && width > 1 && width == scope.width && scope.kind == Scope::Columns && scope.keeps &&
         chunksPerThread(scope.columns, scope.width, part->group) > 1;
}

std::string Emitter::widened(const std::string &held) const {
  auto loop = llvm::find_if(llvm::reverse(scopes), [](auto &scope) { return scope->kind == Scope::Columns; });
  return "widened(" + held + ", widening.loop[" + std::to_string((*loop)->loop % 4) + "])";
}

Pulled Emitter::loadChunk(Argument &argument, const Linear &address, StringRef stem) {
  int64_t low = *llvm::min_element(address.lanes), high = *llvm::max_element(address.lanes);
  Linear base = address;
  base.lanes = {0};
  for (int64_t width = accessWidth(argument, base, 16); width > 1; width /= 2) {
    int64_t first = floorDivide(low, width) * width, count = floorDivide(high, width) * width + width - first;
    std::set<int64_t> touched;
    for (int64_t lane : address.lanes)
      touched.insert(floorDivide(lane, width));
    if (static_cast<int64_t>(touched.size()) * width != count) // reads what nobody needs, perhaps outside of the tensor
      continue;
    base.lanes = {first};
    std::string text = "load<" + std::to_string(count) + ", " + std::to_string(width) + ">(" + printAddress(argument, base) + ")";
    auto scope = llvm::find_if(llvm::reverse(scopes), [&](auto &one) { return one->values.contains(text); });
    auto [whole, isNew] = (scope == scopes.rend() ? top() : **scope).values.try_emplace(text);
    if (isNew && count == width && holds(argument, width)) {
      HeldElements held{define("held", (part->fillsCache() ? "loadHeldOnce<" : "loadHeld<") + std::to_string(width) + ">(" + printAddress(argument, base) + ")"),
                        "Held<" + elementName(argument.element) + ", " + std::to_string(width) + ">"};
      whole->second = {define(stem, widened(held.name)), true};
      heldOf[whole->second.text] = held;
    } else if (isNew) {
      whole->second = {define(stem, text), true};
    }
    SmallVector<int> lanes;
    for (int64_t lane : address.lanes)
      lanes.push_back(lane - first);
    return pickLanes(whole->second.text, lanes, count);
  }
  base.lanes = {low};
  std::string offsets;
  for (int64_t lane : address.lanes)
    offsets += (offsets.empty() ? "" : ", ") + std::to_string(lane - low);
  return {define(stem, "loadAt<" + offsets + ">(" + printAddress(argument, base) + ")"), true};
}

Pulled Emitter::pullConstant(dit::ConstantOp op, const Index &index) {
  auto values = dyn_cast<DenseElementsAttr>(op.getValue());
  if (!values) {
    fail();
    return {};
  }
  if (values.isSplat())
    return {scalarLiteral(values.getSplatValue<Attribute>()), false};
  if (prober)
    return {};
  Argument table = declarations.table(op);
  return load(table, index);
}

//===-- Maps ----------------------------------------------------------------------------------------===//

/// Made of a reduction by maps and views alone.
static bool isOfReduction(Value value, llvm::SmallPtrSetImpl<Operation *> &visited) {
  Operation *op = value.getDefiningOp();
  if (!op || !visited.insert(op).second)
    return false;
  bool isBetween = isa<dit::MapOp>(op) || dit::isViewOp(op);
  return isa<dit::ReduceOp>(op) || (isBetween && llvm::any_of(op->getOperands(), [&](Value operand) { return isOfReduction(operand, visited); }));
}

Pulled Emitter::pullMap(dit::MapOp op, const Index &index) {
  auto pullInput = [&](Value input) {
    Index place;
    for (auto [linear, size] : llvm::zip(index, shapeOf(input)))
      place.push_back(size == 1 ? Linear() : linear);
    return pull(input, place);
  };
  SmallVector<Pulled> operands;
  std::string list;
  for (Value input : op.getInputs()) { // what a reduction combines is in registers afterwards
    llvm::SmallPtrSet<Operation *, 16> visited;
    if (tensorType(input).getNumElements() < op.getType().getNumElements() && isOfReduction(input, visited))
      pullInput(input);
  }
  for (Value input : op.getInputs()) {
    operands.push_back(pullInput(input));
    list += (list.empty() ? "" : ", ") + operands.back().lane();
  }
  if (prober)
    return {};
  Type element = elementOf(op.getResult());
  if (op.isIdentity()) {
    std::string same = operands[0].lane(), text = rounded(op.getResult(), same);
    bool changes = text != same && element != elementOf(op.getInputs()[0]);
    return changes ? apply(stemOf(op, "y"), operands, text) : operands[0];
  }
  return apply(stemOf(op, "y"), operands, rounded(op.getResult(), declarations.function(op) + "(" + list + ")"));
}

} // namespace ditc::rowwise
