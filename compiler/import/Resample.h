// SPDX-License-Identifier: Apache-2.0
//
// Resampling along one dimension at a time: by a matrix of weights, or by choosing elements.
#pragma once

#include "compiler/import/OpContext.h"

#include <vector>

namespace ditc {

/// A matrix of `outputs` rows: each output is a weighted sum of inputs.
struct Weights {
  Weights(int64_t outputs, int64_t inputs) : outputs(outputs), inputs(inputs), values(outputs * inputs, 0.0) {}
  void add(int64_t output, int64_t input, double weight) { values[output * inputs + input] += weight; }

  int64_t outputs, inputs;
  std::vector<double> values;
};

/// The product of dimension `axis` with the matrix, in f32 (f64 for f64), whatever the type of `value`.
Value resampleAxis(Emit &emit, Value value, int64_t axis, const Weights &weights);

/// Rows of AtenResample.cpp.
std::vector<OpRow> resampleRows();

} // namespace ditc
