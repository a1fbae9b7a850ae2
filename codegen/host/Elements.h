// SPDX-License-Identifier: Apache-2.0
//
// Elements in memory and in registers: how an element of each type is loaded, converted to its compute type
// (f64, f32, i64, i1), rounded back, and stored. bf16 and fp8 never appear as LLVM types and f16 only inside a
// conversion, so that no object calls a conversion helper of compiler-rt or libgcc.
#pragma once

#include "mlir/IR/Types.h"
#include "llvm/IR/IRBuilder.h"

#include <cstdint>

namespace ditc {

/// The code by which templates know an element type (element_type in codegen/templates/host/descriptors.h).
int64_t elementCode(mlir::Type type);

/// What memory holds: i8 for i1 and fp8, i16 for bf16 and f16.
llvm::Type *storageType(llvm::LLVMContext &context, mlir::Type type);

/// The register type of a scalar in a body: float for f32 and what is smaller, double for f64, iN for integers.
llvm::Type *scalarType(llvm::LLVMContext &context, mlir::Type type);

/// Loads an element and converts it to its compute type.
llvm::Value *loadElement(llvm::IRBuilderBase &b, mlir::Type type, llvm::Value *pointer, llvm::Instruction **access);

/// Rounds a value of the compute type to `type` (nearest even; a NaN stays a quiet NaN) and stores it.
llvm::Instruction *storeElement(llvm::IRBuilderBase &b, mlir::Type type, llvm::Value *value, llvm::Value *pointer);

/// The f32 value nearest to `value` among those of `type` (bf16, f16 or fp8); other types pass unchanged.
llvm::Value *roundToSmallFloat(llvm::IRBuilderBase &b, mlir::Type type, llvm::Value *value);

/// The bits of an f32 rounded to bf16 or f16, as i16, or to fp8, as i8, and back.
llvm::Value *smallFloatBits(llvm::IRBuilderBase &b, mlir::Type type, llvm::Value *value);
llvm::Value *smallFloatFromBits(llvm::IRBuilderBase &b, mlir::Type type, llvm::Value *bits);

/// Replaces every conversion between half and float in `module` by integer arithmetic, for targets without
/// conversion instructions.
void expandHalfConversions(llvm::Module &module);

} // namespace ditc
