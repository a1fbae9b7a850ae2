// SPDX-License-Identifier: Apache-2.0
#include "runtime/Padding.h"

#include "runtime/Compare.h"
#include "runtime/Error.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace ditc {
namespace {

const PortDesc *findPort(const std::vector<PortDesc> &ports, std::string_view name) {
  auto found = std::find_if(ports.begin(), ports.end(), [&](const PortDesc &p) { return p.name == name; });
  return found == ports.end() ? nullptr : &*found;
}

/// The ports with the sizes in the dimensions of `uses` (inputs or outputs of a rule).
template <typename Use>
std::vector<PortDesc> resized(const Manifest &manifest, std::vector<PortDesc> ports, const PaddedSizes &sizes,
                              std::vector<Use> PaddingRule::*uses) {
  for (const PaddingRule &rule : manifest.padding)
    if (auto size = sizes.find(rule.symbol); size != sizes.end())
      for (const Use &use : rule.*uses)
        for (PortDesc &port : ports)
          if (port.name == use.name && use.dim < port.shape.size())
            port.shape[use.dim] = size->second;
  return ports;
}

/// The size that the inputs have where a rule pads; nothing when the first of them has none that it could have.
std::optional<int64_t> sizeOf(const PaddingRule &rule, const Plan &plan, std::span<const TensorRef> inputs,
                              std::string &misfit) {
  const PaddedInput &use = rule.inputs.front();
  const PortDesc *port = findPort(plan.inputs, use.name);
  for (const TensorRef &tensor : inputs)
    if (port && tensor.name == use.name && use.dim < std::min(tensor.shape.size(), port->shape.size())) {
      int64_t size = tensor.shape[use.dim];
      if (size >= 1 && size <= port->shape[use.dim])
        return size;
      misfit = fmt::format("'{}' has {} in dimension {}, expected 1 to {}", use.name, size, use.dim, port->shape[use.dim]);
      return std::nullopt;
    }
  misfit = fmt::format("'{}' has no dimension {}", use.name, use.dim);
  return std::nullopt;
}

/// Walks the dimensions of a tensor within a larger one. Sizes of one element's subtensor from a dimension on.
struct Blocks {
  Blocks(DType dtype, const std::vector<int64_t> &shape) : bytes(shape.size() + 1, byteSize(dtype)) {
    for (size_t d = shape.size(); d-- > 0;)
      bytes[d] = bytes[d + 1] * static_cast<uint64_t>(shape[d]);
  }
  std::vector<uint64_t> bytes; ///< by dimension
};

template <typename T> std::vector<uint8_t> bytesOf(T number) {
  std::vector<uint8_t> out(sizeof(T));
  std::memcpy(out.data(), &number, sizeof(T));
  return out;
}

/// IEEE half precision of a number that it holds; of others something else.
uint16_t halfOf(double value) {
  uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isinf(value))
    return sign | 0x7c00;
  int exponent = 0;
  double fraction = std::frexp(std::abs(value), &exponent); // in [0.5, 1)
  if (fraction == 0 || exponent < -13 || exponent > 16)
    return sign;
  return static_cast<uint16_t>(sign | ((exponent + 14) << 10) | (static_cast<int>(fraction * 2048) & 0x3ff));
}

/// The code of a number that fp8 holds; of others something else.
uint8_t float8Of(double value) {
  for (int code = 0; code < 256; ++code) {
    auto byte = static_cast<uint8_t>(code);
    if (elementAsDouble(DType::f8e4m3, &byte) == value)
      return byte;
  }
  return 0;
}

std::vector<uint8_t> elementOf(DType dtype, double value) {
  switch (dtype) {
  case DType::f64: return bytesOf(value);
  case DType::f32: return bytesOf(static_cast<float>(value));
  case DType::bf16: return bytesOf(static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(value)) >> 16));
  case DType::f16: return bytesOf(halfOf(value));
  case DType::f8e4m3: return bytesOf(float8Of(value));
  case DType::i64: return bytesOf(static_cast<int64_t>(std::clamp(value, -9e18, 9e18)));
  case DType::i32: return bytesOf(static_cast<int32_t>(std::clamp(value, -2147483648.0, 2147483647.0)));
  case DType::i16: return bytesOf(static_cast<int16_t>(std::clamp(value, -32768.0, 32767.0)));
  case DType::i8: return bytesOf(static_cast<int8_t>(std::clamp(value, -128.0, 127.0)));
  case DType::u8:
  case DType::b1: return bytesOf(static_cast<uint8_t>(std::clamp(value, 0.0, dtype == DType::b1 ? 1.0 : 255.0)));
  default: return {};
  }
}

class Padder {
public:
  Padder(const PortDesc &port, const std::vector<int64_t> &shape, const std::vector<std::optional<double>> &values,
         const CopyBytes &copy)
      : port(port), shape(shape), values(values), copy(copy), large(port.dtype, port.shape), small(port.dtype, shape) {}

  void pad(size_t dim, char *target, const char *source) const {
    if (large.bytes[dim] == small.bytes[dim])
      return copy(target, source, small.bytes[dim]);
    uint64_t row = large.bytes[dim + 1];
    if (row == small.bytes[dim + 1])
      copy(target, source, small.bytes[dim]); // rows are whole: they lie one behind the other
    for (int64_t i = 0; row != small.bytes[dim + 1] && i < shape[dim]; ++i)
      pad(dim + 1, target + i * row, source + i * small.bytes[dim + 1]);
    if (!values[dim])
      repeatLast(target + (shape[dim] - 1) * row, row, port.shape[dim] - shape[dim]);
  }

  void crop(size_t dim, char *target, const char *source) const {
    if (large.bytes[dim] == small.bytes[dim])
      return copy(target, source, small.bytes[dim]);
    if (large.bytes[dim + 1] == small.bytes[dim + 1])
      return copy(target, source, small.bytes[dim]);
    for (int64_t i = 0; i < shape[dim]; ++i)
      crop(dim + 1, target + i * small.bytes[dim + 1], source + i * large.bytes[dim + 1]);
  }

private:
  /// Twice as many each time.
  void repeatLast(char *last, uint64_t row, int64_t count) const {
    for (int64_t done = 0; done < count;) {
      int64_t now = std::min(done + 1, count - done);
      copy(last + (done + 1) * row, last, now * row);
      done += now;
    }
  }

  const PortDesc &port;
  const std::vector<int64_t> &shape;
  const std::vector<std::optional<double>> &values;
  const CopyBytes &copy;
  Blocks large, small;
};

} // namespace

std::optional<PaddedSizes> fitByPadding(const Manifest &manifest, const Plan &plan, std::span<const TensorRef> inputs,
                                        std::string &misfit) {
  PaddedSizes sizes;
  for (const PaddingRule &rule : manifest.padding) {
    std::optional<int64_t> size = sizeOf(rule, plan, inputs, misfit);
    if (!size)
      return std::nullopt;
    const PortDesc *port = findPort(plan.inputs, rule.inputs.front().name);
    if (*size < port->shape[rule.inputs.front().dim])
      sizes[rule.symbol] = *size;
  }
  std::vector<PortDesc> ports = inputPorts(manifest, plan, sizes);
  for (const TensorRef &tensor : inputs)
    if (const PortDesc *port = findPort(ports, tensor.name); port && port->shape != tensor.shape) {
      misfit = fmt::format("expects '{}' {} when padded, got {}", tensor.name, describe(port->shape), describe(tensor.shape));
      return std::nullopt;
    }
  return sizes;
}

std::vector<PortDesc> inputPorts(const Manifest &manifest, const Plan &plan, const PaddedSizes &sizes) {
  return resized(manifest, plan.inputs, sizes, &PaddingRule::inputs);
}

std::vector<PortDesc> outputPorts(const Manifest &manifest, const Plan &plan, const PaddedSizes &sizes) {
  return resized(manifest, plan.outputs, sizes, &PaddingRule::outputs);
}

std::vector<std::optional<double>> padValues(const Manifest &manifest, const PortDesc &input) {
  std::vector<std::optional<double>> values(input.shape.size());
  for (const PaddingRule &rule : manifest.padding)
    for (const PaddedInput &use : rule.inputs)
      if (use.name == input.name && use.dim < values.size())
        values[use.dim] = use.value;
  return values;
}

std::vector<uint8_t> repeatedValue(DType dtype, double value, uint64_t count) {
  std::vector<uint8_t> element = elementOf(dtype, value);
  if (element.empty() || elementAsDouble(dtype, element.data()) != value)
    fail("{} cannot hold {}, the value with which an input is padded; the package is damaged, compile again",
         nameOf(dtype), value);
  std::vector<uint8_t> out(count * element.size());
  for (uint64_t i = 0; i < count; ++i)
    std::copy(element.begin(), element.end(), out.begin() + i * element.size());
  return out;
}

void padTensor(char *target, const PortDesc &port, const char *source, const std::vector<int64_t> &shape,
               const std::vector<std::optional<double>> &values, const CopyBytes &copy) {
  Padder(port, shape, values, copy).pad(0, target, source);
}

void cropTensor(char *target, const std::vector<int64_t> &shape, const char *source, const PortDesc &port,
                const CopyBytes &copy) {
  Padder(port, shape, {}, copy).crop(0, target, source);
}

} // namespace ditc
