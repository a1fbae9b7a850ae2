// SPDX-License-Identifier: Apache-2.0
//
// Error measures, and the conversions to double that they need.
#include "runtime/Compare.h"

#include "runtime/Error.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace ditc {
namespace {

template <typename T> T load(const uint8_t *address) {
  T value;
  std::memcpy(&value, address, sizeof(T));
  return value;
}

/// A small float with sign, `exponentBits` and `mantissaBits`. `ieee`: the largest exponent is infinity and
/// NaN; otherwise only all ones is NaN (the e4m3 of neural networks, which has no infinity).
double smallFloat(uint32_t bits, int exponentBits, int mantissaBits, bool ieee) {
  uint32_t mantissa = bits & ((1u << mantissaBits) - 1);
  uint32_t exponent = (bits >> mantissaBits) & ((1u << exponentBits) - 1);
  double sign = (bits >> (mantissaBits + exponentBits)) & 1 ? -1.0 : 1.0;
  uint32_t top = (1u << exponentBits) - 1;
  int bias = (1 << (exponentBits - 1)) - 1;
  if (exponent == top && ieee)
    return mantissa ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
  if (exponent == top && mantissa == (1u << mantissaBits) - 1)
    return std::numeric_limits<double>::quiet_NaN();
  if (exponent == 0)
    return sign * std::ldexp(mantissa, 1 - bias - mantissaBits);
  return sign * std::ldexp(mantissa + (1u << mantissaBits), static_cast<int>(exponent) - bias - mantissaBits);
}

/// The type of the parts that a tensor is compared by.
DType partOf(DType type) {
  switch (type) {
  case DType::c32:
    return DType::f16;
  case DType::c64:
    return DType::f32;
  case DType::c128:
    return DType::f64;
  default:
    return type;
  }
}

std::vector<int64_t> indexOf(uint64_t element, const std::vector<int64_t> &shape) {
  std::vector<int64_t> index(shape.size());
  for (size_t i = shape.size(); i-- > 0; element /= static_cast<uint64_t>(shape[i]))
    index[i] = static_cast<int64_t>(element % static_cast<uint64_t>(shape[i]));
  return index;
}

struct Sums {
  double difference = 0, reference = 0, actual = 0, product = 0;
};

double cosineOf(const Sums &sums) {
  if (sums.actual == 0 || sums.reference == 0)
    return sums.actual == sums.reference ? 1 : 0;
  return sums.product / (std::sqrt(sums.actual) * std::sqrt(sums.reference));
}

double relativeOf(const Sums &sums) {
  if (sums.reference == 0)
    return sums.difference == 0 ? 0 : std::numeric_limits<double>::infinity();
  return std::sqrt(sums.difference / sums.reference);
}

} // namespace

double elementAsDouble(DType type, const uint8_t *address) {
  switch (type) {
  case DType::f64:
    return load<double>(address);
  case DType::f32:
    return load<float>(address);
  case DType::f16:
    return smallFloat(load<uint16_t>(address), 5, 10, true);
  case DType::bf16:
    return std::bit_cast<float>(static_cast<uint32_t>(load<uint16_t>(address)) << 16);
  case DType::f8e4m3:
    return smallFloat(*address, 4, 3, false);
  case DType::f8e5m2:
    return smallFloat(*address, 5, 2, true);
  case DType::i64:
    return static_cast<double>(load<int64_t>(address));
  case DType::i32:
    return load<int32_t>(address);
  case DType::i16:
    return load<int16_t>(address);
  case DType::i8:
    return load<int8_t>(address);
  case DType::u64:
    return static_cast<double>(load<uint64_t>(address));
  case DType::u32:
    return load<uint32_t>(address);
  case DType::u16:
    return load<uint16_t>(address);
  case DType::u8:
  case DType::b1:
    return *address;
  case DType::c32:
  case DType::c64:
  case DType::c128:
    break;
  }
  failInternal("elementAsDouble of the complex type {}", nameOf(type));
}

Comparison compare(const std::string &name, const TensorView &actual, const TensorView &reference) {
  if (actual.shape != reference.shape || isComplex(actual.dtype) != isComplex(reference.dtype))
    fail("'{}' is {} [{}], its reference is {} [{}]; they cannot be compared", name, nameOf(actual.dtype),
         fmt::join(actual.shape, ", "), nameOf(reference.dtype), fmt::join(reference.shape, ", "));
  Comparison out;
  DType actualPart = partOf(actual.dtype), referencePart = partOf(reference.dtype);
  size_t actualStep = byteSize(actualPart), referenceStep = byteSize(referencePart);
  out.count = actual.bytes.size() / actualStep;
  uint64_t worst = 0;
  Sums sums;
  for (uint64_t i = 0; i < out.count; ++i) {
    double a = elementAsDouble(actualPart, actual.bytes.data() + i * actualStep);
    double r = elementAsDouble(referencePart, reference.bytes.data() + i * referenceStep);
    out.nonFinite += !std::isfinite(a);
    out.nonFiniteReference += !std::isfinite(r);
    if (!std::isfinite(a) || !std::isfinite(r))
      continue;
    double difference = std::abs(a - r);
    if (difference > out.maxAbs) {
      out.maxAbs = difference;
      worst = i;
    }
    sums.difference += difference * difference;
    sums.reference += r * r;
    sums.actual += a * a;
    sums.product += a * r;
  }
  out.relativeL2 = relativeOf(sums);
  out.cosine = cosineOf(sums);
  if (out.count > 0)
    out.worst = indexOf(isComplex(actual.dtype) ? worst / 2 : worst, actual.shape);
  return out;
}

} // namespace ditc
