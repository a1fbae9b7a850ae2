// SPDX-License-Identifier: Apache-2.0
//
// torch.einsum as views, sums and matrix products. A dimension is named by a label: a letter of the
// equation, or a number for one that `...` stands for.
#include "compiler/import/Products.h"

#include "runtime/Error.h"

#include "llvm/ADT/SetVector.h"

#include <algorithm>
#include <cctype>

using namespace mlir;

namespace ditc {
namespace {

/// Letters are their codes; dimension i of an ellipsis, counted from the right, is kEllipsis - i.
using Label = int;
using Labels = SmallVector<Label>;
constexpr Label kEllipsis = -1;

struct Term {
  Value value;
  Labels labels; ///< one per dimension
};

bool has(ArrayRef<Label> labels, Label label) { return llvm::is_contained(labels, label); }

class Einsum {
public:
  Einsum(Emit &emit, const std::string &equation, std::vector<Value> operands, Type element);
  Value run();

private:
  Labels parseSide(std::string_view text, int64_t ellipsisRank) const;
  void implicitOutput(const std::vector<std::string> &sides);
  Term takeDiagonals(Term term);
  Term sumOut(Term term, ArrayRef<Label> kept);
  Term dropRepeated(Term term, const Term &other);
  Term contract(Term left, Term right, ArrayRef<Label> kept, Type result);
  Term multiply(Term left, Term right, ArrayRef<Label> kept, ArrayRef<Label> summed, Type result);
  Value arrange(const Term &term, ArrayRef<Label> order);
  SmallVector<int64_t> sizesOf(const Term &term, ArrayRef<Label> labels) const;

  Emit &emit;
  Type element, wide;
  std::vector<Term> terms;
  Labels output;
};

//===-- The equation ------------------------------------------------------------------------------===//

std::vector<std::string> splitAt(const std::string &text, char separator) {
  std::vector<std::string> parts(1);
  for (char c : text)
    if (c == separator)
      parts.emplace_back();
    else
      parts.back() += c;
  return parts;
}

Labels Einsum::parseSide(std::string_view text, int64_t ellipsisRank) const {
  Labels labels;
  for (size_t i = 0; i < text.size(); ++i) {
    if (std::isalpha(static_cast<unsigned char>(text[i]))) {
      labels.push_back(text[i]);
    } else if (text.substr(i, 3) == "...") {
      for (int64_t dim = ellipsisRank; dim-- > 0;)
        labels.push_back(kEllipsis - dim);
      i += 2;
    } else {
      fail("einsum does not know '{}' in its equation", text.substr(i, 1));
    }
  }
  return labels;
}

/// Without "->": the dimensions of ellipses, then the letters that appear once, in alphabetical order.
void Einsum::implicitOutput(const std::vector<std::string> &sides) {
  int64_t ellipsis = 0;
  for (const Term &term : terms)
    for (Label label : term.labels)
      ellipsis = std::max<int64_t>(ellipsis, label < 0 ? kEllipsis - label + 1 : 0);
  for (int64_t dim = ellipsis; dim-- > 0;)
    output.push_back(kEllipsis - dim);
  for (int letter = 0; letter < 128; ++letter) {
    int64_t count = 0;
    for (const std::string &side : sides)
      count += std::count(side.begin(), side.end(), static_cast<char>(letter));
    if (std::isalpha(letter) && count == 1)
      output.push_back(letter);
  }
}

Einsum::Einsum(Emit &emit, const std::string &equation, std::vector<Value> operands, Type element)
    : emit(emit), element(element), wide(dit::computeType(element)) {
  std::string text;
  for (char c : equation)
    if (!std::isspace(static_cast<unsigned char>(c)))
      text += c;
  size_t arrow = text.find("->");
  std::vector<std::string> sides = splitAt(text.substr(0, arrow), ',');
  if (sides.size() != operands.size())
    fail("einsum '{}' names {} operands, got {}", equation, sides.size(), operands.size());
  int64_t widest = 0;
  for (auto [side, operand] : llvm::zip(sides, operands)) {
    int64_t letters = llvm::count_if(side, [](char c) { return c != '.'; });
    int64_t rest = Emit::rankOf(operand) - letters;
    bool hasEllipsis = side.find('.') != std::string::npos;
    if (rest < 0 || (rest > 0 && !hasEllipsis))
      fail("einsum '{}' names {} dimensions of an operand of rank {}", equation, letters, Emit::rankOf(operand));
    widest = std::max(widest, rest);
    terms.push_back({operand, parseSide(side, rest)});
  }
  if (arrow == std::string::npos)
    implicitOutput(sides);
  else
    output = parseSide(std::string_view(text).substr(arrow + 2), widest);
}

//===-- Steps -------------------------------------------------------------------------------------===//

/// A label that an operand carries twice: the diagonal of the two dimensions, which goes last.
Term Einsum::takeDiagonals(Term term) {
  for (size_t i = 0; i < term.labels.size(); ++i)
    for (size_t j = i + 1; j < term.labels.size(); ++j) {
      if (term.labels[i] != term.labels[j])
        continue;
      SmallVector<int64_t> order;
      Labels labels;
      for (size_t k = 0; k < term.labels.size(); ++k)
        if (k != i && k != j) {
          order.push_back(k);
          labels.push_back(term.labels[k]);
        }
      labels.push_back(term.labels[i]);
      order.append({static_cast<int64_t>(i), static_cast<int64_t>(j)});
      Value value = emit.permute(term.value, order);
      SmallVector<int64_t> shape(Emit::shapeOf(value));
      int64_t size = shape.pop_back_val();
      if (shape.back() != size)
        fail("einsum takes the diagonal of {} by {} elements", shape.back(), size);
      shape.back() = size * size;
      return takeDiagonals({emit.slice(emit.view(value, shape), -1, 0, size * size, size + 1), labels});
    }
  return term;
}

/// Sums over dimensions whose labels nobody else needs.
Term Einsum::sumOut(Term term, ArrayRef<Label> kept) {
  SmallVector<int64_t> axes;
  Labels labels;
  for (auto [i, label] : llvm::enumerate(term.labels)) {
    if (has(kept, label))
      labels.push_back(label);
    else
      axes.push_back(i);
  }
  if (axes.empty())
    return term;
  return {emit.reduce(dit::ReduceKind::Sum, term.value, axes, /*keepDims=*/false, wide), labels};
}

/// Without dimensions of size 1 that `other` has in full.
Term Einsum::dropRepeated(Term term, const Term &other) {
  for (size_t i = term.labels.size(); i-- > 0;) {
    auto match = llvm::find(other.labels, term.labels[i]);
    if (match == other.labels.end() || Emit::shapeOf(term.value)[i] != 1 || Emit::shapeOf(other.value)[match - other.labels.begin()] == 1)
      continue;
    term.value = emit.squeeze(term.value, i);
    term.labels.erase(term.labels.begin() + i);
  }
  return term;
}

SmallVector<int64_t> Einsum::sizesOf(const Term &term, ArrayRef<Label> labels) const {
  SmallVector<int64_t> sizes;
  for (Label label : labels) {
    auto place = llvm::find(term.labels, label);
    sizes.push_back(place == term.labels.end() ? 1 : Emit::shapeOf(term.value)[place - term.labels.begin()]);
  }
  return sizes;
}

/// The value with its dimensions in this order; labels that the term lacks get size 1.
Value Einsum::arrange(const Term &term, ArrayRef<Label> order) {
  SmallVector<int64_t> permutation;
  for (Label label : order) {
    auto place = llvm::find(term.labels, label);
    if (place != term.labels.end())
      permutation.push_back(place - term.labels.begin());
  }
  return emit.view(emit.permute(term.value, permutation), sizesOf(term, order));
}

/// Products without free dimensions on both sides: a map, and a sum where something is contracted.
Term Einsum::multiply(Term left, Term right, ArrayRef<Label> kept, ArrayRef<Label> summed, Type result) {
  Labels all(kept);
  all.append(summed.begin(), summed.end());
  Value products = emit.mul(arrange(left, all), arrange(right, all), summed.empty() ? result : wide);
  Term term{products, all};
  if (summed.empty())
    return term;
  auto axes = llvm::to_vector(llvm::seq<int64_t>(kept.size(), all.size()));
  return {emit.reduce(dit::ReduceKind::Sum, products, axes, /*keepDims=*/false, result), Labels(kept)};
}

/// One product of matrices: [batch, left, summed] x [batch, summed, right].
Term Einsum::contract(Term left, Term right, ArrayRef<Label> kept, Type result) {
  left = dropRepeated(left, right);
  right = dropRepeated(right, left);
  Labels batch, summed, leftOnly, rightOnly;
  for (Label label : left.labels)
    (!has(right.labels, label) ? leftOnly : has(kept, label) ? batch : summed).push_back(label);
  for (Label label : right.labels)
    if (!has(left.labels, label))
      rightOnly.push_back(label);
  Labels order(batch);
  order.append(leftOnly);
  order.append(rightOnly);
  if (summed.empty() || (leftOnly.empty() && rightOnly.empty()))
    return multiply(left, right, order, summed, result);

  auto shaped = [&](const Term &term, ArrayRef<Label> first, ArrayRef<Label> second) {
    Labels labels(batch);
    labels.append(first.begin(), first.end());
    labels.append(second.begin(), second.end());
    SmallVector<int64_t> shape = sizesOf(term, batch);
    shape.push_back(ShapedType::getNumElements(sizesOf(term, first)));
    shape.push_back(ShapedType::getNumElements(sizesOf(term, second)));
    return emit.view(arrange(term, labels), shape);
  };
  Type operandElement = Emit::elementOf(left.value);
  if (operandElement != Emit::elementOf(right.value)) {
    left.value = emit.cast(left.value, wide);
    right.value = emit.cast(right.value, wide);
  }
  // The right-hand side is laid out as a linear layer's weight, [right, summed], when it lies so already.
  bool liesTransposed = !right.labels.empty() && has(summed, right.labels.back());
  Value rhs = liesTransposed ? emit.transpose(shaped(right, rightOnly, summed), -1, -2) : shaped(right, summed, rightOnly);
  Value value = product(emit, shaped(left, leftOnly, summed), rhs, result);
  SmallVector<int64_t> shape = sizesOf(left, batch);
  llvm::append_range(shape, sizesOf(left, leftOnly));
  llvm::append_range(shape, sizesOf(right, rightOnly));
  return {emit.view(value, shape), order};
}

Value Einsum::run() {
  for (Term &term : terms)
    term = takeDiagonals(term);
  Term total = terms.front();
  for (size_t i = 1; i < terms.size(); ++i) {
    Labels kept(output);
    for (size_t j = i + 1; j < terms.size(); ++j)
      kept.append(terms[j].labels);
    Labels keptLeft(kept), keptRight(kept);
    keptLeft.append(terms[i].labels);
    keptRight.append(total.labels);
    Term left = sumOut(total, keptLeft), right = sumOut(terms[i], keptRight);
    total = contract(left, right, kept, i + 1 == terms.size() ? element : wide);
  }
  total = sumOut(total, output);
  for (Label label : output)
    if (!has(total.labels, label))
      fail("einsum gives a dimension that no operand has");
  return emit.cast(arrange(total, output), element);
}

} // namespace

Value einsumOf(Emit &emit, const std::string &equation, std::vector<Value> operands, Type element) {
  return Einsum(emit, equation, std::move(operands), element).run();
}

} // namespace ditc
