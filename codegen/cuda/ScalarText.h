// SPDX-License-Identifier: Apache-2.0
//
// The scalar code of a dit.map as a CUDA C++ function. Values are held as float (also for f16, bf16 and fp8, which exist as
// rounded floats), double, long long (all integers, sign extended) and bool; the dialect's meaning where C++ has none is
// in templates/cuda/common/scalars.cuh.
#pragma once

#include "mlir/IR/Block.h"
#include "mlir/IR/BuiltinAttributes.h"

#include <string>

namespace ditc {

/// How device code holds a scalar of this type: "float", "double", "long long", "bool".
std::string scalarTypeName(mlir::Type type);

/// A number as a literal of the type that holds it.
std::string scalarLiteral(mlir::Attribute value);
std::string scalarLiteral(double value, bool isDouble);

/// The first operation that has no spelling in CUDA C++; null when all have one.
mlir::Operation *firstUnprintableScalar(mlir::Block &body);

/// Division by c + exp(x) with a positive c, as in sigmoids: exact, or by the special function unit's reciprocal, as divideApprox.
enum class SigmoidDivision { Exact, Approximate };

/// `__device__ inline float name(float a, float b) { return ...; }`
std::string printScalarFunction(mlir::StringRef name, mlir::Block &body, SigmoidDivision division = SigmoidDivision::Exact);

} // namespace ditc
