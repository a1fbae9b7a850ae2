// SPDX-License-Identifier: Apache-2.0
//
// Elements in memory and as numbers: conversion between an element type and the types that arithmetic
// runs in (float, double, int64_t, and uint8_t for i1). Internal to the evaluator.
#pragma once

#include "dialects/reference/Evaluate.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

namespace ditc::dit {

enum class ElementKind : uint8_t { F64, F32, F16, BF16, F8, I64, I32, I16, I8, U8, I1 };

ElementKind kindOf(mlir::Type elementType);
int64_t bytesOf(ElementKind kind);

float halfToFloat(uint16_t bits);
/// Rounds to nearest, ties to even; NaN stays NaN.
uint16_t floatToHalf(float value);

inline float brainToFloat(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

inline uint16_t floatToBrain(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  bool isNan = (bits & 0x7fffffff) > 0x7f800000;
  return static_cast<uint16_t>(isNan ? (bits >> 16) | 0x40 : rounded);
}

/// e4m3 without infinities.
float float8ToFloat(uint8_t bits);
/// Rounds to nearest, ties to even; what rounds to more than 448 and infinities become NaN. (Newer versions of torch make them 448.)
uint8_t floatToFloat8(float value);

/// Number to number. Conversion of floats to integers saturates, NaN gives 0; conversion to uint8_t means
/// i1 and asks for "not zero".
template <typename To, typename From> To convertNumber(From value) {
  if constexpr (std::is_same_v<To, uint8_t>) {
    return value != From(0);
  } else if constexpr (std::is_same_v<To, int64_t> && std::is_floating_point_v<From>) {
    constexpr From kLimit = 9223372036854775808.0; // 2^63
    if (value >= -kLimit && value < kLimit)
      return static_cast<int64_t>(value);
    if (value != value)
      return 0;
    return value < 0 ? std::numeric_limits<int64_t>::min() : std::numeric_limits<int64_t>::max();
  } else {
    return static_cast<To>(value);
  }
}

/// Reads `count` elements that lie one behind the other.
template <typename T> void loadElements(const uint8_t *source, ElementKind kind, int64_t count, T *numbers);
/// Writes `count` elements; integers wrap, floats round to nearest even.
template <typename T> void storeElements(const T *numbers, ElementKind kind, int64_t count, uint8_t *target);

/// All elements of a tensor as numbers.
template <typename T> std::vector<T> numbersOf(const TensorValue &value) {
  std::vector<T> numbers(value.type.getNumElements());
  loadElements(value.bytes->data(), kindOf(value.type.getElementType()), numbers.size(), numbers.data());
  return numbers;
}

template <typename T> TensorValue fromNumbers(mlir::RankedTensorType type, const std::vector<T> &numbers) {
  TensorValue result = TensorValue::zeros(type);
  storeElements(numbers.data(), kindOf(type.getElementType()), numbers.size(), result.bytes->data());
  return result;
}

/// Calls `function` with a value of the arithmetic type of `elementType`: double, float, int64_t or, for
/// i1, uint8_t.
template <typename Function> auto withArithmeticType(mlir::Type elementType, Function function) {
  if (elementType.isF64())
    return function(double());
  if (mlir::isa<mlir::FloatType>(elementType))
    return function(float());
  if (elementType.isInteger(1))
    return function(uint8_t());
  return function(int64_t());
}

/// Strides, in elements, of a dense row-major tensor.
mlir::SmallVector<int64_t> denseStrides(mlir::ArrayRef<int64_t> shape);

} // namespace ditc::dit
