// SPDX-License-Identifier: Apache-2.0
#include "codegen/cuda/CudaKernel.h"

#include "dialects/dit/Dit.h"
#include "dialects/dit/Tensors.h"

#include "mlir/IR/BuiltinTypes.h"

#include <algorithm>

using namespace mlir;

namespace ditc {

void CudaUnit::addPointer(uint32_t arg) { parameters.push_back({std::vector<uint8_t>(sizeof(uint64_t)), {{0, cuda::PointerPatch{arg, 0}}}}); }

bool gainsByOverlap(double flop, double bytes) {
  constexpr double kFlopPerMicrosecond = 600e6, kBytesPerMicrosecond = 4e6;
  return flop / kFlopPerMicrosecond < 45 && bytes / kBytesPerMicrosecond < 10;
}

double argumentBytes(plan::KernelOp kernel) {
  double bytes = 0;
  for (unsigned i = 0; i < kernel.getNumArgs(); ++i)
    bytes += static_cast<double>(kernel.getArgType(i).getNumElements()) * static_cast<double>(dit::elementBytes(kernel.getArgType(i).getElementType()));
  return bytes;
}

std::string cudaTypeName(Type type) {
  if (type.isBF16())
    return "ditc::BF16";
  if (type.isF16())
    return "ditc::F16";
  if (is8BitFloat(type))
    return "ditc::E4M3";
  if (type.isF32())
    return "float";
  if (type.isF64())
    return "double";
  auto integer = cast<IntegerType>(type);
  switch (integer.getWidth()) {
  case 64:
    return "long long";
  case 32:
    return "int";
  case 16:
    return "short";
  case 8:
    return integer.isUnsigned() ? "unsigned char" : "signed char";
  default:
    return "bool";
  }
}

} // namespace ditc
