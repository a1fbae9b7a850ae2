// SPDX-License-Identifier: Apache-2.0
//
// Where a value is read from: views and lookups change the index, concatenation and padding choose a piece by it.
#include "codegen/cuda/rowwise/Emitter.h"

#include "codegen/cuda/ScalarText.h"
#include "dialects/dit/Tensors.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace ditc::rowwise {

std::optional<Index> splitIndex(Indices &indices, const Linear &linear, ArrayRef<int64_t> sizes) {
  Index index(sizes.size());
  Linear rest = indices.rejoin(linear);
  size_t outer = 0; // the first dimension that has a size takes what is left
  while (outer < sizes.size() && sizes[outer] == 1)
    ++outer;
  for (size_t i = sizes.size(); i-- > outer + 1;) {
    if (sizes[i] == 1)
      continue;
    std::optional<Indices::Division> division = indices.divide(rest, sizes[i]);
    if (!division)
      return std::nullopt;
    index[i] = division->remainder;
    rest = indices.rejoin(division->quotient);
  }
  if (outer < sizes.size())
    index[outer] = rest;
  return index;
}

/// Runs of dimensions with equal products are renumbered on their own.
Pulled Emitter::pullView(dit::ViewOp op, const Index &index) {
  ArrayRef<int64_t> from = shapeOf(op.getInput()), to = shapeOf(op.getResult());
  Index input;
  size_t i = 0, j = 0;
  while (i < from.size() || j < to.size()) {
    size_t firstFrom = i, firstTo = j;
    int64_t left = i < from.size() ? from[i++] : 1, right = j < to.size() ? to[j++] : 1;
    while (left != right)
      left < right ? left *= from[i++] : right *= to[j++];
    Linear linear;
    for (size_t k = firstTo; k < j; ++k)
      linear = linear * to[k] + index[k];
    std::optional<Index> run = splitIndex(*indices, linear, from.slice(firstFrom, i - firstFrom));
    if (!run) {
      fail();
      return {};
    }
    llvm::append_range(input, *run);
  }
  return pull(op.getInput(), input);
}

Pulled Emitter::pullGather(dit::GatherOp op, const Index &index) {
  size_t axis = op.getAxis(), indexRank = shapeOf(op.getIndices()).size();
  Index place(ArrayRef(index).slice(axis, indexRank));
  if (!llvm::all_of(place, [](const Linear &linear) { return linear.isUniform(); })) {
    fail(); // another row of the table in every lane
    return {};
  }
  Pulled position = pull(op.getIndices(), place);
  int64_t rows = shapeOf(op.getTable())[axis];
  std::string key = keyOf(op.getIndices(), place) + "/" + std::to_string(rows);
  auto [entry, isNew] = lookups.try_emplace(key);
  if (isNew) {
    bool perRow = llvm::all_of(place, [&](const Linear &linear) { return indices->isPerRow(linear); });
    entry->second = indices->addVariable(fresh("row"), {0, std::max<int64_t>(rows - 1, 0)}, perRow);
    indices->dependsOn(entry->second, place);
  }
  Variable row = entry->second;
  if (llvm::none_of(scopes, [&](auto &scope) { return scope->declared.contains(row); })) {
    size_t level = levelOf(place);
    lineAt(level, "const Index " + indices->info(row).name + " = clampIndex(" + position.text + ", " + std::to_string(rows) + ");");
    scopes[level]->declared.insert(row);
  }
  Index table(ArrayRef(index).take_front(axis));
  table.emplace_back().terms.emplace_back(row, 1);
  llvm::append_range(table, ArrayRef(index).drop_front(axis + indexRank));
  return pull(op.getTable(), table);
}

//===-- Pieces --------------------------------------------------------------------------------------===//

Pulled Emitter::pullConcat(dit::ConcatOp op, const Index &index) {
  SmallVector<int64_t> ends, starts;
  for (Value input : op.getInputs()) {
    starts.push_back(ends.empty() ? 0 : ends.back());
    ends.push_back(starts.back() + shapeOf(input)[op.getAxis()]);
  }
  auto piece = [&](size_t i, const Index &of) {
    Index place = of;
    place[op.getAxis()] = place[op.getAxis()] - constant(starts[i]);
    return pull(op.getInputs()[i], place);
  };
  return pullPiece(elementOf(op.getResult()), ends, index, op.getAxis(), piece, 0, ends.size());
}

/// Along each dimension three pieces: the border, the input, the border.
Pulled Emitter::pullPad(dit::PadOp op, Index index, unsigned dim) {
  ArrayRef<int64_t> shape = shapeOf(op.getInput());
  while (dim < shape.size() && op.getLow()[dim] == 0 && op.getHigh()[dim] == 0)
    ++dim;
  if (dim == shape.size())
    return pull(op.getInput(), index);
  int64_t low = op.getLow()[dim], size = shape[dim], high = op.getHigh()[dim];
  auto piece = [&](size_t i, const Index &of) {
    if (i != 1)
      return Pulled{scalarLiteral(op.getValue()), false};
    Index place = of;
    place[dim] = place[dim] - constant(low);
    return pullPad(op, place, dim + 1);
  };
  return pullPiece(elementOf(op.getResult()), {low, low + size, low + size + high}, index, dim, piece, 0, 3);
}

Pulled Emitter::pullPiece(Type type, ArrayRef<int64_t> ends, const Index &index, unsigned axis, PullPiece piece, size_t first, size_t last) {
  const Linear &at = index[axis];
  auto pieceOf = [&](int64_t position) {
    size_t i = first;
    while (i + 1 < last && position >= ends[i])
      ++i;
    return i;
  };
  SmallVector<int64_t> pieceOfLane;
  for (size_t e = 0; e < at.lanes.size(); ++e) {
    Range range = indices->rangeOf(at, e);
    if (pieceOf(range.low) == pieceOf(range.high))
      pieceOfLane.push_back(pieceOf(range.low));
  }
  if (pieceOfLane.size() == at.lanes.size())
    return llvm::all_equal(pieceOfLane) ? piece(pieceOfLane.front(), index) : pullMerged(pieceOfLane, index, axis, piece);
  for (size_t i = first; i + 1 < last; ++i) {
    std::optional<Sign> below = indices->isBelow(at, ends[i]);
    if (!below)
      break;
    if (below->known)
      continue;
    bool isChunk = llvm::any_of(index, [](const Linear &linear) { return !linear.isUniform(); });
    return pullBranch(
        type, below->form, isChunk, [&] { return pullPiece(type, ends, index, axis, piece, first, i + 1); },
        [&] { return pullPiece(type, ends, index, axis, piece, i + 1, last); });
  }
  fail();
  return {};
}

Pulled Emitter::pullBranch(Type type, const Linear &form, bool isChunk, llvm::function_ref<Pulled()> below, llvm::function_ref<Pulled()> above) {
  std::string name = fresh("part"), condition = printSign(form);
  line(typeName(type, isChunk) + " " + name + ";");
  auto branch = [&](bool isBelow, llvm::function_ref<Pulled()> value) {
    Scope &scope = push(Scope::Branch);
    scope.condition = isBelow ? condition : "!(" + condition + ")";
    scope.isPerRow = indices->isPerRow(form);
    if (form.terms.size() == 1 && std::abs(form.terms[0].second) == 1) { // inside, more is known
      auto [variable, factor] = form.terms[0];
      int64_t bound = -form.lanes[0];
      Range range = indices->rangeOf(variable);
      if (factor > 0)
        (isBelow ? range.high : range.low) = isBelow ? bound - 1 : bound;
      else
        (isBelow ? range.low : range.high) = isBelow ? -bound + 1 : -bound;
      scope.undo.emplace_back(variable, indices->restrict(variable, range));
    }
    Pulled pulled = value();
    std::string text = pulled.text;
    if (isChunk && !pulled.isChunk)
      text = "each<" + std::to_string(lanesNow()) + ">([&](int) { return " + text + "; })";
    line(name + " = " + text + ";");
    return takeScope();
  };
  std::vector<Line> first = branch(true, below), second = branch(false, above);
  line("if (" + condition + ") {");
  llvm::append_range(top().lines, first);
  line("} else {");
  llvm::append_range(top().lines, second);
  line("}");
  return {name, isChunk};
}

/// Which piece a lane reads is known: every piece is pulled for all lanes, those of others repeating a neighbour.
Pulled Emitter::pullMerged(ArrayRef<int64_t> pieceOfLane, const Index &index, unsigned axis, PullPiece piece) {
  size_t width = pieceOfLane.size();
  std::string expression;
  SmallVector<Pulled> operands;
  std::set<int64_t> pieces(pieceOfLane.begin(), pieceOfLane.end());
  for (int64_t i : pieces) {
    unsigned mask = 0;
    Index place = index;
    for (Linear &linear : place) {
      if (linear.isUniform())
        continue;
      SmallVector<int64_t, 8> lanes;
      for (size_t e = 0; e < width; ++e) {
        size_t distance = 0;
        while ((e ^ distance) >= width || pieceOfLane[e ^ distance] != i)
          ++distance;
        lanes.push_back(linear.lanes[e ^ distance]);
      }
      linear.lanes = lanes;
      linear = linear + Linear();
    }
    for (size_t e = 0; e < width; ++e)
      mask |= pieceOfLane[e] == i ? 1u << e : 0;
    operands.push_back(piece(i, place));
    std::string value = operands.back().lane();
    expression = expression.empty() ? value : "0x" + llvm::utohexstr(mask, true) + " >> e & 1 ? " + value + " : " + expression;
  }
  if (prober)
    return {};
  return {define("part", "each<" + std::to_string(width) + ">([&](int e) { return " + expression + "; })"), true};
}

} // namespace ditc::rowwise
