// SPDX-License-Identifier: Apache-2.0
//
// The pickles of torch.save as inert records. A pickle is a program; this reader runs the dozen opcodes that
// build containers and tensors, knows the six functions that torch calls on the way by name, and never calls
// anything. What another function would have made becomes an Opaque value that says which one it was.
#pragma once

#include "runtime/DType.h"

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ditc {

/// One value. Values refer to each other by pointer (a pickle may share, even loop) and are owned by the
/// document, so no walk over them is ever needed to free them.
struct PickleValue {
  enum class Kind : uint8_t {
    None,
    Bool,    ///< integer 0 or 1
    Int,     ///< integer
    Float,   ///< number
    String,  ///< text
    Tuple,   ///< items
    List,    ///< items
    Dict,    ///< items: key, value, key, value...
    Global,  ///< text = "module.name"
    Storage, ///< text = key of the member data/<key>, integer = elements (bytes when dtype is absent)
    Tensor,  ///< items = storage, sizes, strides; integer = offset in elements
    Opaque,  ///< text = why it cannot be read
  };
  Kind kind = Kind::None;
  bool isParameter = false;   ///< of Tensor
  std::optional<DType> dtype; ///< of Storage, Tensor
  int64_t integer = 0;
  double number = 0;
  std::string text;
  std::vector<const PickleValue *> items;
};

class PickleDocument {
public:
  /// Throws Error (Input), naming `source`: opcodes that torch.save does not write for tensors, stack
  /// underflow, lengths past the end, more than two million operations, malformed tensors.
  static PickleDocument parse(std::span<const uint8_t> bytes, const std::string &source);

  const PickleValue &root() const { return *top; }

private:
  std::deque<PickleValue> values; // a deque: addresses stay
  const PickleValue *top = nullptr;
};

/// Sizes or strides: a tuple of at most 64 integers. Nothing when it is something else.
std::optional<std::vector<int64_t>> integersOf(const PickleValue &tuple);

/// The result of calling the function named `callee` with `args`: a Tensor, Dict or Tuple, or an Opaque
/// value. Nothing when a known function has arguments that torch never gives it.
std::optional<PickleValue> applyPickleCall(const std::string &callee, const std::vector<const PickleValue *> &args);

/// The storage that a persistent id ('storage', class, key, location, count) stands for; nothing when it is
/// malformed.
std::optional<PickleValue> storageOf(const PickleValue &persistentId);

} // namespace ditc
