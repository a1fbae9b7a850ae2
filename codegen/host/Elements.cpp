// SPDX-License-Identifier: Apache-2.0
//
// Loads, stores and roundings of elements as LLVM IR.
#include "codegen/host/Elements.h"

#include "codegen/templates/host/descriptors.h"
#include "dialects/dit/Tensors.h"

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/Module.h"

using namespace mlir;

namespace ditc {

int64_t elementCode(Type type) {
  if (type.isF64())
    return kF64;
  if (type.isF32())
    return kF32;
  if (type.isF16())
    return kF16;
  if (type.isBF16())
    return kBF16;
  if (is8BitFloat(type))
    return kF8;
  switch (type.getIntOrFloatBitWidth()) {
  case 64: return kI64;
  case 32: return kI32;
  case 16: return kI16;
  case 8: return type.isUnsignedInteger() ? kU8 : kI8;
  default: return kBool;
  }
}

llvm::Type *storageType(llvm::LLVMContext &context, Type type) {
  if (type.isF64())
    return llvm::Type::getDoubleTy(context);
  if (type.isF32())
    return llvm::Type::getFloatTy(context);
  return llvm::Type::getIntNTy(context, std::max(8u, type.getIntOrFloatBitWidth()));
}

llvm::Type *scalarType(llvm::LLVMContext &context, Type type) {
  if (type.isF64())
    return llvm::Type::getDoubleTy(context);
  if (isa<FloatType>(type))
    return llvm::Type::getFloatTy(context);
  if (isa<IndexType>(type))
    return llvm::Type::getInt64Ty(context);
  return llvm::Type::getIntNTy(context, type.getIntOrFloatBitWidth());
}

/// e4m3 without infinities, as in codegen/templates/host/blocks.cpp: subnormal numbers are exact products.
static llvm::Value *float8FromBits(llvm::IRBuilderBase &b, llvm::Value *bits) {
  llvm::Value *magnitude = b.CreateZExt(b.CreateAnd(bits, 0x7f), b.getInt32Ty());
  llvm::Value *sign = b.CreateShl(b.CreateZExt(b.CreateAnd(bits, 0x80), b.getInt32Ty()), 24);
  llvm::Value *normal = b.CreateAdd(b.CreateShl(magnitude, 20), b.getInt32((127 - 7) << 23));
  llvm::Value *product = b.CreateFMul(b.CreateSIToFP(magnitude, b.getFloatTy()), llvm::ConstantFP::get(b.getFloatTy(), 0x1p-9));
  llvm::Value *value = b.CreateSelect(b.CreateICmpULT(magnitude, b.getInt32(8)), b.CreateBitCast(product, b.getInt32Ty()), normal);
  value = b.CreateSelect(b.CreateICmpEQ(magnitude, b.getInt32(0x7f)), b.getInt32(0x7fc00000), value);
  return b.CreateBitCast(b.CreateOr(value, sign), b.getFloatTy());
}

/// Normal results round by carrying, those below 2^-6 in the sum with 2^14, whose last place is fp8's. NaN is the number
/// behind the largest, and stands for all that is too large.
static llvm::Value *float8Bits(llvm::IRBuilderBase &b, llvm::Value *value) {
  llvm::Value *bits = b.CreateBitCast(value, b.getInt32Ty());
  llvm::Value *magnitude = b.CreateAnd(bits, 0x7fffffff), *sign = b.CreateAnd(b.CreateLShr(bits, 24), 0x80);
  llvm::Value *lowest = b.CreateAnd(b.CreateLShr(magnitude, 20), 1);
  llvm::Value *rebased = b.CreateSub(magnitude, b.getInt32((127 - 7) << 23));
  llvm::Value *normal = b.CreateLShr(b.CreateAdd(b.CreateAdd(rebased, b.getInt32(0x7ffff)), lowest), 20);
  llvm::Value *sum = b.CreateFAdd(b.CreateBitCast(magnitude, b.getFloatTy()), llvm::ConstantFP::get(b.getFloatTy(), 0x1p14));
  llvm::Value *subnormal = b.CreateSub(b.CreateBitCast(sum, b.getInt32Ty()), b.getInt32((127 + 14) << 23));
  llvm::Value *rounded = b.CreateSelect(b.CreateICmpULT(magnitude, b.getInt32((127 - 6) << 23)), subnormal, normal);
  rounded = b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, rounded, b.getInt32(0x7f));
  return b.CreateTrunc(b.CreateOr(rounded, sign), b.getInt8Ty());
}

llvm::Value *smallFloatFromBits(llvm::IRBuilderBase &b, Type type, llvm::Value *bits) {
  if (type.isF16())
    return b.CreateFPExt(b.CreateBitCast(bits, b.getHalfTy()), b.getFloatTy());
  if (is8BitFloat(type))
    return float8FromBits(b, bits);
  return b.CreateBitCast(b.CreateShl(b.CreateZExt(bits, b.getInt32Ty()), 16), b.getFloatTy());
}

llvm::Value *smallFloatBits(llvm::IRBuilderBase &b, Type type, llvm::Value *value) {
  if (type.isF16())
    return b.CreateBitCast(b.CreateFPTrunc(value, b.getHalfTy()), b.getInt16Ty());
  if (is8BitFloat(type))
    return float8Bits(b, value);
  // Adding 0x7fff and the lowest kept bit carries into the kept bits exactly when nearest-even rounds up.
  llvm::Value *bits = b.CreateBitCast(value, b.getInt32Ty());
  llvm::Value *lowest = b.CreateAnd(b.CreateLShr(bits, 16), 1);
  llvm::Value *rounded = b.CreateAdd(b.CreateAdd(bits, b.getInt32(0x7fff)), lowest);
  llvm::Value *quiet = b.CreateOr(bits, b.getInt32(0x400000));
  llvm::Value *chosen = b.CreateSelect(b.CreateFCmpUNO(value, value), quiet, rounded);
  return b.CreateTrunc(b.CreateLShr(chosen, 16), b.getInt16Ty());
}

llvm::Value *roundToSmallFloat(llvm::IRBuilderBase &b, Type type, llvm::Value *value) {
  return isSmallFloat(type) ? smallFloatFromBits(b, type, smallFloatBits(b, type, value)) : value;
}

llvm::Value *loadElement(llvm::IRBuilderBase &b, Type type, llvm::Value *pointer, llvm::Instruction **access) {
  llvm::Value *value = b.CreateAlignedLoad(storageType(b.getContext(), type), pointer, std::nullopt);
  *access = cast<llvm::Instruction>(value);
  if (isSmallFloat(type))
    return smallFloatFromBits(b, type, value);
  if (isa<FloatType>(type))
    return value;
  if (type.isInteger(1))
    return b.CreateICmpNE(value, b.getInt8(0));
  return type.isUnsignedInteger() ? b.CreateZExt(value, b.getInt64Ty()) : b.CreateSExt(value, b.getInt64Ty());
}

llvm::Instruction *storeElement(llvm::IRBuilderBase &b, Type type, llvm::Value *value, llvm::Value *pointer) {
  if (isSmallFloat(type))
    value = smallFloatBits(b, type, value);
  else if (isa<IntegerType>(type))
    value = b.CreateZExtOrTrunc(value, storageType(b.getContext(), type));
  return b.CreateStore(value, pointer);
}

//===-- f16 without instructions ------------------------------------------------------------------===//

namespace {

/// Integer arithmetic on the bits of scalars or vectors of any width.
class HalfBits {
public:
  HalfBits(llvm::Instruction *at, llvm::Type *like)
      : b(at), i32(like->getWithNewType(b.getInt32Ty())), i16(like->getWithNewType(b.getInt16Ty())), f32(like->getWithNewType(b.getFloatTy())) {}

  /// A normal or special half is shifted into place and its exponent corrected; a subnormal one is the exact
  /// product of its fraction and 2^-24.
  llvm::Value *extend(llvm::Value *half, llvm::Type *to) {
    llvm::Value *h = b.CreateZExt(b.CreateBitCast(half, i16), i32);
    llvm::Value *sign = b.CreateShl(b.CreateAnd(h, c(0x8000)), c(16));
    llvm::Value *magnitude = b.CreateAnd(h, c(0x7fff));
    llvm::Value *normal = b.CreateAdd(b.CreateShl(magnitude, c(13)), c((127 - 15) << 23));
    llvm::Value *special = b.CreateAdd(normal, c((128 - 16) << 23));
    llvm::Value *quiet = b.CreateSelect(b.CreateICmpUGT(magnitude, c(0x7c00)), b.CreateOr(special, c(0x400000)), special);
    llvm::Value *product = b.CreateFMul(b.CreateUIToFP(magnitude, f32), llvm::ConstantFP::get(f32, 0x1p-24));
    llvm::Value *bits = b.CreateSelect(b.CreateICmpUGE(magnitude, c(0x7c00)), quiet, normal);
    bits = b.CreateSelect(b.CreateICmpULT(magnitude, c(0x400)), b.CreateBitCast(product, i32), bits);
    return b.CreateFPExt(b.CreateBitCast(b.CreateOr(bits, sign), f32), to);
  }

  /// Normal results round by carrying, as bf16 does; results below 2^-14 round in a float addition whose last
  /// place is the half's last place (0.5 has 24 bits behind it).
  llvm::Value *truncate(llvm::Value *value) {
    llvm::Value *bits = b.CreateBitCast(b.CreateFPTrunc(value, f32), i32); // from f64 by way of f32, as torch does
    llvm::Value *sign = b.CreateLShr(b.CreateAnd(bits, c(0x80000000u)), c(16));
    llvm::Value *magnitude = b.CreateAnd(bits, c(0x7fffffff));
    llvm::Value *lowest = b.CreateAnd(b.CreateLShr(magnitude, c(13)), c(1));
    llvm::Value *rebased = b.CreateSub(magnitude, c((127 - 15) << 23));
    llvm::Value *normal = b.CreateLShr(b.CreateAdd(b.CreateAdd(rebased, c(0xfff)), lowest), c(13));
    llvm::Value *sum = b.CreateFAdd(b.CreateBitCast(magnitude, f32), llvm::ConstantFP::get(f32, 0.5));
    llvm::Value *subnormal = b.CreateSub(b.CreateBitCast(sum, i32), c(0x3f000000));
    llvm::Value *nan = b.CreateOr(b.CreateAnd(b.CreateLShr(magnitude, c(13)), c(0x3ff)), c(0x7e00));
    llvm::Value *result = b.CreateSelect(b.CreateICmpULT(magnitude, c(0x38800000)), subnormal, normal);
    result = b.CreateSelect(b.CreateICmpUGE(magnitude, c(0x477ff000)), c(0x7c00), result); // 65520 rounds to infinity
    result = b.CreateSelect(b.CreateICmpUGT(magnitude, c(0x7f800000)), nan, result);
    llvm::Type *half = i16->getWithNewType(b.getHalfTy());
    return b.CreateBitCast(b.CreateTrunc(b.CreateOr(result, sign), i16), half);
  }

private:
  llvm::Constant *c(uint32_t value) { return llvm::ConstantInt::get(i32, value); }

  llvm::IRBuilder<> b;
  llvm::Type *i32, *i16, *f32;
};

/// Comparisons that LLVM narrowed to half compare the extended values instead.
void widenComparison(llvm::FCmpInst *compare) {
  for (llvm::Use &operand : compare->operands()) {
    llvm::Type *half = operand->getType();
    operand.set(HalfBits(compare, half).extend(operand, half->getWithNewType(llvm::Type::getFloatTy(half->getContext()))));
  }
}

} // namespace

void expandHalfConversions(llvm::Module &module) {
  SmallVector<llvm::Instruction *> work;
  for (llvm::Function &function : module)
    for (llvm::Instruction &instruction : llvm::instructions(function))
      if (isa<llvm::FPExtInst, llvm::FPTruncInst, llvm::FCmpInst>(instruction))
        work.push_back(&instruction);
  for (llvm::Instruction *instruction : work) {
    llvm::Value *operand = instruction->getOperand(0), *replacement = nullptr;
    if (isa<llvm::FPExtInst>(instruction) && operand->getType()->getScalarType()->isHalfTy())
      replacement = HalfBits(instruction, operand->getType()).extend(operand, instruction->getType());
    else if (isa<llvm::FPTruncInst>(instruction) && instruction->getType()->getScalarType()->isHalfTy())
      replacement = HalfBits(instruction, operand->getType()).truncate(operand);
    else if (auto *compare = dyn_cast<llvm::FCmpInst>(instruction); compare && operand->getType()->getScalarType()->isHalfTy())
      widenComparison(compare);
    if (!replacement)
      continue;
    instruction->replaceAllUsesWith(replacement);
    instruction->eraseFromParent();
  }
}

} // namespace ditc
