// SPDX-License-Identifier: Apache-2.0
//
// Reductions that several rows are made of. Everything between operands and result stays in f32 (f64 for
// f64): 16-bit results are rounded once.
#pragma once

#include "compiler/import/OpContext.h"

namespace ditc {

/// The axes of a `dim` argument that may be absent, None, a number or a list; absent and empty mean all.
std::vector<int64_t> axesOf(const OpContext &op, std::string_view name, int64_t rank);

/// f32 for 16-bit floats and integers, else the type itself.
Type wideElement(Emit &emit, Type element);

struct Moments {
  Value mean;     ///< axes stay with size 1, wide type
  Value centered; ///< input - mean, wide type
  Value variance; ///< axes stay, wide type
};

/// Mean and variance over `axes`; squares are divided by max(0, count - correction).
Moments moments(Emit &emit, Value input, ArrayRef<int64_t> axes, double correction);

/// (sum |x|^p)^(1/p) over `axes`, which stay with size 1; p may be 0 and ±infinity. In the wide type.
Value vectorNorm(Emit &emit, Value input, double p, ArrayRef<int64_t> axes);

/// Without `axes` (sizes of 1), or as it is.
Value dropAxes(Emit &emit, Value value, ArrayRef<int64_t> axes, bool keep);

/// Rows of the ATen table for quantiles, medians and modes (AtenQuantiles.cpp).
std::vector<OpRow> quantileRows();

/// Sums that skip NaN, histograms and their like (AtenStatistics.cpp).
std::vector<OpRow> statisticsRows();

} // namespace ditc
