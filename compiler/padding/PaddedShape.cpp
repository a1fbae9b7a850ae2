// SPDX-License-Identifier: Apache-2.0
#include "compiler/padding/PaddedShape.h"

#include "llvm/ADT/STLExtras.h"

namespace ditc {

namespace {

/// Neighbours without padding become one, and factors of 1 vanish, so that equal layouts have equal factors.
PaddedDim merged(llvm::ArrayRef<Factor> factors) {
  PaddedDim out;
  for (const Factor &factor : factors) {
    if (!factor.padded() && factor.size == 1)
      continue;
    if (!factor.padded() && !out.empty() && !out.back().padded()) {
      out.back().size *= factor.size;
      out.back().other *= factor.other;
    } else {
      out.push_back(factor);
    }
  }
  return out;
}

} // namespace

PaddedDim plainDim(int64_t size) { return {Factor{.size = size, .other = size}}; }

PaddedDim paddedDim(int64_t size, int64_t other, mlir::Attribute tail) {
  return {Factor{.size = size, .other = other, .pieces = {Piece{size, other, true}}, .tail = tail}};
}

PaddedDim withoutTail(PaddedDim dim) {
  for (Factor &factor : dim)
    factor.tail = {};
  return dim;
}

PaddedShape plainShape(llvm::ArrayRef<int64_t> shape) {
  PaddedShape out;
  for (int64_t size : shape)
    out.dims.push_back(plainDim(size));
  return out;
}

int64_t sizeOf(const PaddedDim &dim) {
  int64_t size = 1;
  for (const Factor &factor : dim)
    size *= factor.size;
  return size;
}

int64_t otherSizeOf(const PaddedDim &dim) {
  int64_t size = 1;
  for (const Factor &factor : dim)
    size *= factor.other;
  return size;
}

bool isPadded(const PaddedDim &dim) { return llvm::any_of(dim, [](const Factor &factor) { return factor.padded(); }); }

bool isPaddedAtEnd(const PaddedDim &dim) {
  PaddedDim factors = merged(dim);
  return factors.size() == 1 && factors[0].pieces.size() == 1;
}

bool sameLayout(const PaddedDim &a, const PaddedDim &b) {
  return llvm::equal(merged(a), merged(b), [](const Factor &x, const Factor &y) { return x.size == y.size && x.other == y.other && x.pieces == y.pieces; });
}

mlir::Attribute tailOf(const PaddedDim &dim) {
  const Factor *found = nullptr;
  for (const Factor &factor : dim)
    if (factor.padded() && std::exchange(found, &factor))
      return {};
  return found ? found->tail : mlir::Attribute();
}

std::optional<PaddedDims> reshapeDims(const PaddedDims &dims, llvm::ArrayRef<int64_t> shape) {
  llvm::SmallVector<Factor> all;
  for (const PaddedDim &dim : dims)
    all.append(dim.begin(), dim.end());
  PaddedDim factors = merged(all);
  PaddedDims out;
  size_t next = 0;
  for (int64_t size : shape) {
    PaddedDim &dim = out.emplace_back();
    for (int64_t left = size; left != 1;) {
      if (next == factors.size() || left == 0)
        return std::nullopt;
      Factor &factor = factors[next];
      if (left % factor.size == 0) {
        dim.push_back(factor);
        left /= factor.size;
        ++next;
      } else if (!factor.padded() && factor.size % left == 0 && factor.size == factor.other) {
        dim.push_back({.size = left, .other = left});
        factor.size = factor.other = factor.size / left;
        left = 1;
      } else {
        return std::nullopt;
      }
    }
  }
  return next == factors.size() ? std::optional(out) : std::nullopt;
}

std::optional<PaddedDim> sliceDim(const PaddedDim &dim, int64_t offset, int64_t otherOffset, int64_t size) {
  if (offset == 0 && otherOffset == 0 && size == sizeOf(dim))
    return dim;
  PaddedDim factors = merged(dim);
  if (factors.size() != 1 || size == 0)
    return std::nullopt;
  Factor out{.size = 0, .other = 0, .pieces = {}, .tail = factors[0].tail};
  int64_t at = 0, otherAt = 0;
  for (const Piece &piece : factors[0].pieces) {
    int64_t begin = std::max(at, offset), end = std::min(at + piece.size, offset + size);
    if (begin < end) {
      bool whole = end - begin == piece.size;
      if ((piece.padded && !whole) || (out.size == 0 && otherAt + begin - at != otherOffset))
        return std::nullopt;
      out.pieces.push_back(whole ? piece : Piece{end - begin, end - begin, false});
      out.size += out.pieces.back().size;
      out.other += out.pieces.back().other;
    }
    at += piece.size;
    otherAt += piece.other;
  }
  if (out.size != size)
    return std::nullopt;
  if (llvm::none_of(out.pieces, [](const Piece &piece) { return piece.padded; }))
    return plainDim(size);
  return PaddedDim{out};
}

std::optional<PaddedDim> concatDims(llvm::ArrayRef<PaddedDim> dims) {
  Factor out{.size = 0, .other = 0};
  bool first = true;
  for (const PaddedDim &dim : dims) {
    PaddedDim factors = merged(dim);
    if (!isPadded(dim)) {
      out.pieces.push_back({sizeOf(dim), otherSizeOf(dim), false});
    } else if (factors.size() == 1) {
      out.pieces.append(factors[0].pieces);
      out.tail = first || out.tail == factors[0].tail ? factors[0].tail : mlir::Attribute();
      first = false;
    } else {
      return std::nullopt;
    }
    out.size += sizeOf(dim);
    out.other += otherSizeOf(dim);
  }
  if (first)
    out.pieces.clear();
  // Pieces without padding side by side are one, so that layouts compare.
  llvm::SmallVector<Piece, 2> pieces;
  for (const Piece &piece : out.pieces)
    if (!piece.padded && !pieces.empty() && !pieces.back().padded) {
      pieces.back().size += piece.size;
      pieces.back().other += piece.other;
    } else {
      pieces.push_back(piece);
    }
  out.pieces = pieces;
  return PaddedDim{out};
}

} // namespace ditc
