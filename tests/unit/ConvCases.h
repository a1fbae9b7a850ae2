// SPDX-License-Identifier: Apache-2.0
//
// Convolutions as cases of CudaFamilies.h: the kernel's arguments with channels innermost in the input and the filter.
#pragma once

#include "tests/unit/CudaFamilies.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace ditc::test {

using Sizes = std::vector<int64_t>;

struct Conv {
  Sizes input, filter; ///< [N, C, spatial...], [O, C / groups, window...]
  Sizes strides, low, high, dilations;
  int64_t groups = 1;
  bool bias = false, outputLast = false;
};

inline Sizes outputOf(const Conv &c) {
  Sizes shape{c.input[0], c.filter[0]};
  for (size_t i = 0; i < c.strides.size(); ++i)
    shape.push_back((c.input[2 + i] + c.low[i] + c.high[i] - c.dilations[i] * (c.filter[2 + i] - 1) - 1) / c.strides[i] + 1);
  return shape;
}

/// Of [N, C, spatial...] with channels innermost.
inline Sizes channelsLast(const Sizes &shape) {
  Sizes strides(shape.size());
  int64_t step = shape[1];
  strides[1] = 1;
  for (size_t dim = shape.size(); dim-- > 2; step *= shape[dim])
    strides[dim] = step;
  strides[0] = step;
  return strides;
}

inline CudaCase caseOf(const Conv &conv, const std::string &element) {
  auto numbers = [](const Sizes &list) { return fmt::format("array<i64: {}>", fmt::join(list, ", ")); };
  std::string options = fmt::format("strides = {}, padding_low = {}, padding_high = {}, dilations = {}, groups = {} : i64", numbers(conv.strides), numbers(conv.low),
                                    numbers(conv.high), numbers(conv.dilations), conv.groups);
  CudaCase c{.family = "conv", .config = options + ", has_bias = " + (conv.bias ? "true" : "false"),
             .args = {{element, conv.input, channelsLast(conv.input)}, {element, conv.filter, channelsLast(conv.filter)}},
             .reference = std::string("dit.conv %0, %1") + (conv.bias ? " bias %2" : "") + " {" + options + "}",
             .tolerance = element == "bf16" ? 4e-3 : 5e-4};
  if (conv.bias)
    c.args.push_back({element, {conv.filter[0]}});
  Sizes output = outputOf(conv);
  c.args.push_back({element, output, conv.outputLast ? channelsLast(output) : Sizes()});
  return c;
}

} // namespace ditc::test
