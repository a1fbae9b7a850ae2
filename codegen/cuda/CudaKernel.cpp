// SPDX-License-Identifier: Apache-2.0
#include "codegen/cuda/CudaKernel.h"

#include "mlir/IR/BuiltinTypes.h"

using namespace mlir;

namespace ditc {

void CudaUnit::addPointer(uint32_t arg) { parameters.push_back({std::vector<uint8_t>(sizeof(uint64_t)), {{0, cuda::PointerPatch{arg, 0}}}}); }

std::string cudaTypeName(Type type) {
  if (type.isBF16())
    return "ditc::BF16";
  if (type.isF16())
    return "ditc::F16";
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
