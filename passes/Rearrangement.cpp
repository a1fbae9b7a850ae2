// SPDX-License-Identifier: Apache-2.0
#include "passes/Rearrangement.h"

#include "dialects/dit/Tensors.h"
#include "passes/Terms.h"

using namespace mlir;

namespace ditc {

std::optional<Rearrangement> Rearrangement::of(Value value, Value source) {
  SmallVector<Operation *> chain;
  while (value != source && isa_and_present<dit::ViewOp, dit::PermuteOp>(value.getDefiningOp())) {
    chain.push_back(value.getDefiningOp());
    value = chain.back()->getOperand(0);
  }
  Rearrangement result;
  result.from = value;
  result.shape.assign(shapeOf(value).begin(), shapeOf(value).end());
  if (llvm::is_contained(result.shape, 0))
    return std::nullopt;
  for (auto [dim, size] : llvm::enumerate(result.shape)) {
    result.to.emplace_back();
    if (size == 1)
      continue;
    result.to.back().push_back(result.parts.size());
    result.parts.push_back({dim, size});
  }
  for (Operation *op : llvm::reverse(chain)) {
    ArrayRef<int64_t> shape = shapeOf(op->getResult(0));
    if (auto permute = dyn_cast<dit::PermuteOp>(op)) {
      auto before = result.to;
      for (auto [i, dim] : llvm::enumerate(permute.getPermutation()))
        result.to[i] = before[dim];
      result.shape.assign(shape.begin(), shape.end());
    } else if (!result.reshape(shape)) {
      return std::nullopt;
    }
  }
  result.joinWhatStaysTogether();
  return result;
}

/// Part `place` becomes two, of which the inner one has `inner` elements.
void Rearrangement::cut(size_t place, int64_t inner) {
  for (SmallVector<size_t> &dim : to)
    for (size_t &part : dim)
      part += part > place;
  parts.insert(parts.begin() + place + 1, {parts[place].dim, inner});
  parts[place].size /= inner;
}

bool Rearrangement::reshape(ArrayRef<int64_t> shape) {
  SmallVector<size_t> all; // parts of the value, in its order
  for (ArrayRef<size_t> dim : to)
    all.append(dim.begin(), dim.end());
  SmallVector<SmallVector<size_t>> result;
  size_t next = 0;
  for (int64_t size : shape) {
    result.emplace_back();
    for (int64_t left = size; left > 1; ++next) {
      int64_t part = parts[all[next]].size;
      if (part > left) {
        if (part % left != 0)
          return false;
        size_t place = all[next];
        to = {all};
        for (ArrayRef<size_t> dim : result)
          to.emplace_back(dim);
        cut(place, part / left);
        all = to.front();
        result.assign(to.begin() + 1, to.end());
        all.insert(all.begin() + next + 1, place + 1);
      } else if (left % part != 0) {
        return false;
      }
      left /= parts[all[next]].size;
      result.back().push_back(all[next]);
    }
  }
  to = std::move(result);
  this->shape.assign(shape.begin(), shape.end());
  return true;
}

/// What only a reshape on the way has cut.
void Rearrangement::joinWhatStaysTogether() {
  for (size_t place = parts.size(); place-- > 1;) {
    auto follows = [&](SmallVector<size_t> &dim) {
      auto found = llvm::find(dim, place);
      return found != dim.end() && found != dim.begin() && *std::prev(found) == place - 1;
    };
    auto dim = llvm::find_if(to, follows);
    if (parts[place].dim != parts[place - 1].dim || dim == to.end())
      continue;
    parts[place - 1].size *= parts[place].size;
    parts.erase(parts.begin() + place);
    dim->erase(llvm::find(*dim, place));
    for (SmallVector<size_t> &others : to)
      for (size_t &part : others)
        part -= part > place;
  }
}

bool Rearrangement::isReshape() const {
  size_t next = 0;
  return llvm::all_of(to, [&](ArrayRef<size_t> dim) { return llvm::all_of(dim, [&](size_t part) { return part == next++; }); });
}

SmallVector<int64_t> Rearrangement::partSizes() const {
  return llvm::map_to_vector(parts, [](const Part &part) { return part.size; });
}

/// The parts in the order of the result.
SmallVector<size_t> Rearrangement::order() const {
  SmallVector<size_t> all;
  for (ArrayRef<size_t> dim : to)
    all.append(dim.begin(), dim.end());
  return all;
}

bool Rearrangement::keepsDimensionsTogether() const {
  SmallVector<size_t> all = order();
  return llvm::all_of(llvm::seq<size_t>(1, std::max<size_t>(all.size(), 1)), [&](size_t i) {
    bool isFirst = all[i] == 0 || parts[all[i]].dim != parts[all[i] - 1].dim;
    return isFirst || all[i - 1] + 1 == all[i];
  }) && (all.empty() || all[0] == 0 || parts[all[0]].dim != parts[all[0] - 1].dim);
}

bool Rearrangement::isInnermost(size_t from, size_t to) const {
  ArrayRef<size_t> dim = this->to[to];
  return !dim.empty() && parts[dim.back()].dim == from && parts[dim.back()].size == shapeOf(this->from)[from];
}

Rearrangement Rearrangement::withoutInnermost(size_t to) const {
  Rearrangement result = *this;
  size_t place = result.to[to].pop_back_val();
  result.shape[to] /= parts[place].size;
  result.parts.erase(result.parts.begin() + place);
  for (SmallVector<size_t> &dim : result.to)
    for (size_t &part : dim)
      part -= part > place;
  return result;
}

bool Rearrangement::keepsColumns() const {
  ArrayRef<int64_t> before = shapeOf(from);
  return !before.empty() && !shape.empty() && before.back() > 1 && before.back() == shape.back() && to.back() == SmallVector<size_t>{parts.size() - 1} && parts.back().dim + 1 == before.size() &&
         parts.back().size == before.back();
}

Value Rearrangement::apply(OpBuilder &b, Location loc, Value value) const {
  SmallVector<int64_t> cuts = partSizes(), whole(shape), dims;
  if (keepsColumns())
    cuts.back() = whole.back() = shapeOf(value).back();
  SmallVector<size_t> all = order();
  if (!keepsDimensionsTogether())
    return viewAs(b, loc, permuted(b, loc, viewAs(b, loc, value, cuts), SmallVector<int64_t>(all.begin(), all.end())), whole);
  for (auto [dim, size] : llvm::enumerate(shapeOf(value)))
    if (llvm::none_of(parts, [dim = dim](const Part &part) { return part.dim == dim; }))
      dims.push_back(dim); // of one element
  for (size_t part : all)
    if (part == 0 || parts[part].dim != parts[part - 1].dim)
      dims.push_back(parts[part].dim);
  return viewAs(b, loc, permuted(b, loc, value, dims), whole);
}

Value inOneStep(OpBuilder &b, Value value) {
  std::optional<Rearrangement> whole = Rearrangement::of(value);
  return whole ? whole->apply(b, value.getLoc(), whole->source()) : value;
}

} // namespace ditc
