// SPDX-License-Identifier: Apache-2.0
#include "dialects/reference/Elements.h"

#include "dialects/dit/Dit.h"
#include "dialects/dit/Tensors.h"

#include "mlir/IR/AsmState.h"
#include "mlir/IR/DialectResourceBlobManager.h"

using namespace mlir;

namespace ditc::dit {

ElementKind kindOf(Type type) {
  if (type.isF64())
    return ElementKind::F64;
  if (type.isF32())
    return ElementKind::F32;
  if (type.isF16())
    return ElementKind::F16;
  if (type.isBF16())
    return ElementKind::BF16;
  if (is8BitFloat(type))
    return ElementKind::F8;
  switch (type.getIntOrFloatBitWidth()) {
  case 64: return ElementKind::I64;
  case 32: return ElementKind::I32;
  case 16: return ElementKind::I16;
  case 1: return ElementKind::I1;
  default: return type.isUnsignedInteger() ? ElementKind::U8 : ElementKind::I8;
  }
}

int64_t bytesOf(ElementKind kind) {
  switch (kind) {
  case ElementKind::F64:
  case ElementKind::I64: return 8;
  case ElementKind::F32:
  case ElementKind::I32: return 4;
  case ElementKind::F16:
  case ElementKind::BF16:
  case ElementKind::I16: return 2;
  default: return 1;
  }
}

float halfToFloat(uint16_t bits) {
  uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  uint32_t rest = bits & 0x7fff;
  if (rest >= 0x7c00) // infinity, NaN
    return std::bit_cast<float>(sign | 0x7f800000 | ((rest & 0x3ff) << 13));
  if (rest >= 0x0400)
    return std::bit_cast<float>(sign | ((rest << 13) + ((127 - 15) << 23)));
  float magnitude = static_cast<float>(rest) * 0x1p-24f; // zero and subnormals
  return sign ? -magnitude : magnitude;
}

uint16_t floatToHalf(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  uint32_t rest = bits & 0x7fffffff;
  if (rest > 0x7f800000)
    return sign | 0x7e00;
  if (rest >= 0x477ff000) // rounds to 65536 or more
    return sign | 0x7c00;
  if (rest >= 0x38800000) { // normal in f16
    uint32_t shifted = rest - ((127 - 15) << 23);
    return sign | static_cast<uint16_t>((shifted + 0xfff + ((shifted >> 13) & 1)) >> 13);
  }
  // Subnormal: adding 0.5 makes the float's own rounding drop all bits below 2^-24.
  float aligned = std::bit_cast<float>(rest) + 0.5f;
  return sign | static_cast<uint16_t>(std::bit_cast<uint32_t>(aligned) - std::bit_cast<uint32_t>(0.5f));
}

float float8ToFloat(uint8_t bits) {
  int exponent = (bits >> 3) & 15, fraction = bits & 7;
  float magnitude = exponent == 0 ? std::ldexp(static_cast<float>(fraction), -9) : std::ldexp(static_cast<float>(8 + fraction), exponent - 10);
  if ((bits & 0x7f) == 0x7f)
    magnitude = std::numeric_limits<float>::quiet_NaN();
  return std::copysign(magnitude, bits & 0x80 ? -1.0f : 1.0f);
}

uint8_t floatToFloat8(float value) {
  constexpr int kSmallestExponent = -6;
  constexpr float kLast = 464; // halfway between 448 and what would be 480: the even one is 448
  uint8_t sign = std::signbit(value) ? 0x80 : 0;
  float magnitude = std::fabs(value);
  if (!(magnitude <= kLast))
    return sign | 0x7f;
  int exponent = magnitude == 0 ? kSmallestExponent : std::max(std::ilogb(magnitude), kSmallestExponent);
  // Neighbours are 2^(exponent - 3) apart; 16 of these steps are the first number of the next exponent.
  auto steps = static_cast<int>(std::lrint(std::ldexp(magnitude, 3 - exponent)));
  return sign | static_cast<uint8_t>(8 * (exponent - kSmallestExponent) + steps);
}

template <typename Stored, typename T> static void loadAs(const uint8_t *source, int64_t count, T *numbers) {
  for (int64_t i = 0; i < count; ++i) {
    Stored element;
    std::memcpy(&element, source + i * sizeof(Stored), sizeof(Stored));
    numbers[i] = convertNumber<T>(element);
  }
}

template <typename T> void loadElements(const uint8_t *source, ElementKind kind, int64_t count, T *numbers) {
  auto loadSmall = [&]<typename Bits>(float (*toFloat)(Bits)) {
    for (int64_t i = 0; i < count; ++i) {
      Bits bits;
      std::memcpy(&bits, source + sizeof(Bits) * i, sizeof(Bits));
      numbers[i] = convertNumber<T>(toFloat(bits));
    }
  };
  switch (kind) {
  case ElementKind::F64: return loadAs<double>(source, count, numbers);
  case ElementKind::F32: return loadAs<float>(source, count, numbers);
  case ElementKind::F16: return loadSmall(halfToFloat);
  case ElementKind::BF16: return loadSmall(brainToFloat);
  case ElementKind::F8: return loadSmall(float8ToFloat);
  case ElementKind::I64: return loadAs<int64_t>(source, count, numbers);
  case ElementKind::I32: return loadAs<int32_t>(source, count, numbers);
  case ElementKind::I16: return loadAs<int16_t>(source, count, numbers);
  case ElementKind::I8: return loadAs<int8_t>(source, count, numbers);
  case ElementKind::U8:
  case ElementKind::I1: return loadAs<uint8_t>(source, count, numbers);
  }
}

template <typename Stored, typename T> static void storeAs(const T *numbers, int64_t count, uint8_t *target) {
  for (int64_t i = 0; i < count; ++i) {
    Stored element;
    if constexpr (std::is_floating_point_v<Stored>)
      element = static_cast<Stored>(numbers[i]);
    else
      element = static_cast<Stored>(convertNumber<int64_t>(numbers[i]));
    std::memcpy(target + i * sizeof(Stored), &element, sizeof(Stored));
  }
}

template <typename T> void storeElements(const T *numbers, ElementKind kind, int64_t count, uint8_t *target) {
  auto storeSmall = [&]<typename Bits>(Bits (*fromFloat)(float)) {
    for (int64_t i = 0; i < count; ++i) {
      Bits bits = fromFloat(static_cast<float>(numbers[i]));
      std::memcpy(target + sizeof(Bits) * i, &bits, sizeof(Bits));
    }
  };
  switch (kind) {
  case ElementKind::F64: return storeAs<double>(numbers, count, target);
  case ElementKind::F32: return storeAs<float>(numbers, count, target);
  case ElementKind::F16: return storeSmall(floatToHalf);
  case ElementKind::BF16: return storeSmall(floatToBrain);
  case ElementKind::F8: return storeSmall(floatToFloat8);
  case ElementKind::I64: return storeAs<int64_t>(numbers, count, target);
  case ElementKind::I32: return storeAs<int32_t>(numbers, count, target);
  case ElementKind::I16: return storeAs<int16_t>(numbers, count, target);
  case ElementKind::I8: return storeAs<int8_t>(numbers, count, target);
  case ElementKind::U8: return storeAs<uint8_t>(numbers, count, target);
  case ElementKind::I1:
    for (int64_t i = 0; i < count; ++i)
      target[i] = convertNumber<uint8_t>(numbers[i]);
  }
}

template void loadElements(const uint8_t *, ElementKind, int64_t, double *);
template void loadElements(const uint8_t *, ElementKind, int64_t, float *);
template void loadElements(const uint8_t *, ElementKind, int64_t, int64_t *);
template void loadElements(const uint8_t *, ElementKind, int64_t, uint8_t *);
template void storeElements(const double *, ElementKind, int64_t, uint8_t *);
template void storeElements(const float *, ElementKind, int64_t, uint8_t *);
template void storeElements(const int64_t *, ElementKind, int64_t, uint8_t *);
template void storeElements(const uint8_t *, ElementKind, int64_t, uint8_t *);

SmallVector<int64_t> denseStrides(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;)
    strides[i - 1] = strides[i] * shape[i];
  return strides;
}

TensorValue TensorValue::zeros(RankedTensorType type) { return {type, std::make_shared<std::vector<uint8_t>>(tensorBytes(type))}; }

double TensorValue::at(int64_t i) const {
  ElementKind kind = kindOf(type.getElementType());
  double number = 0;
  loadElements(bytes->data() + i * bytesOf(kind), kind, 1, &number);
  return number;
}

//===-- Constants ---------------------------------------------------------------------------------===//

TensorValue fromElements(ElementsAttr elements) {
  TensorValue value = TensorValue::zeros(cast<RankedTensorType>(elements.getType()));
  std::vector<uint8_t> &bytes = *value.bytes;
  if (auto resource = dyn_cast<DenseResourceElementsAttr>(elements)) {
    ArrayRef<char> data = resource.getData();
    std::memcpy(bytes.data(), data.data(), std::min(bytes.size(), data.size()));
    return value;
  }
  auto dense = cast<DenseElementsAttr>(elements);
  if (dense.getElementType().isInteger(1)) {
    for (auto [i, flag] : llvm::enumerate(dense.getValues<bool>()))
      bytes[i] = flag;
    return value;
  }
  ArrayRef<char> data = dense.getRawData();
  size_t step = dense.isSplat() ? elementBytes(dense.getElementType()) : bytes.size();
  for (size_t offset = 0; offset < bytes.size(); offset += step)
    std::memcpy(bytes.data() + offset, data.data(), step);
  return value;
}

/// True when all elements have the same bits.
static bool isSplat(const std::vector<uint8_t> &bytes, size_t element) {
  return bytes.size() > element && std::memcmp(bytes.data(), bytes.data() + element, bytes.size() - element) == 0;
}

ElementsAttr toElements(const TensorValue &value) {
  constexpr size_t kLargestText = 1024;
  const std::vector<uint8_t> &bytes = *value.bytes;
  size_t element = elementBytes(value.type.getElementType());
  bool splat = isSplat(bytes, element);
  if (!splat && bytes.size() >= kLargestText) {
    ArrayRef<char> data(reinterpret_cast<const char *>(bytes.data()), bytes.size());
    return DenseResourceElementsAttr::get(value.type, "table", HeapAsmResourceBlob::allocateAndCopyWithAlign(data, 64));
  }
  size_t count = splat ? element : bytes.size();
  if (value.type.getElementType().isInteger(1)) {
    SmallVector<bool> flags;
    for (size_t i = 0; i < count; ++i)
      flags.push_back(bytes[i] != 0);
    return DenseElementsAttr::get(value.type, flags);
  }
  return DenseElementsAttr::getFromRawBuffer(value.type, ArrayRef<char>(reinterpret_cast<const char *>(bytes.data()), count));
}

} // namespace ditc::dit
