// SPDX-License-Identifier: Apache-2.0
//
// The functions of functions.h under the names by which scalar code calls them. They are inlined into every map that
// uses them; see functions.h for formulas and accuracy.
#include "functions.h"

namespace ditc {

extern "C" __attribute__((always_inline)) float ditc_math_exp(float x) { return exponential(x); }
extern "C" __attribute__((always_inline)) float ditc_math_tanh(float x) { return hyperbolicTangent(x); }
extern "C" __attribute__((always_inline)) float ditc_math_erf(float x) { return errorFunction(x); }

} // namespace ditc
