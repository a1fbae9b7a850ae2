// SPDX-License-Identifier: Apache-2.0
//
// Rows of the ATen table for Fourier transforms (AtenFourier.cpp) and samples at places that are data (AtenSample.cpp).
#pragma once

#include "compiler/import/OpContext.h"

#include <vector>

namespace ditc {

std::vector<OpRow> fourierRows();
std::vector<OpRow> sampleRows();

} // namespace ditc
