// SPDX-License-Identifier: Apache-2.0
#include "codegen/cuda/families/FamilyUnit.h"

#include "dialects/Locations.h"
#include "dialects/dit/Dit.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"

#include <numeric>

using namespace mlir;

namespace ditc {

uint32_t sharedLimitOf(const CudaArch &arch) {
  if (arch.isPortable())
    return 99 << 10;
  switch (arch.number) {
  case 80: return 163 << 10;
  case 90:
  case 100: return 227 << 10;
  default: return 99 << 10;
  }
}

static std::string dimsText(ArrayRef<int64_t> values) {
  std::string text = "Dims<";
  for (auto [i, value] : llvm::enumerate(values))
    text += (i ? ", " : "") + std::to_string(value);
  return text + ">";
}

/// Without the namespace, which the unit opens.
static std::string elementText(Type type) {
  std::string text = cudaTypeName(type);
  return text.starts_with("ditc::") ? text.substr(6) : text;
}

std::string tensorTypeText(MemRefType type, int64_t alignment) {
  constexpr int64_t kWidestAccess = 16;
  plan::Layout layout = plan::layoutOf(type);
  int64_t bytes = dit::elementBytes(type.getElementType());
  int64_t common = std::gcd(kWidestAccess, alignment);
  for (int64_t dim = 0; dim + 1 < type.getRank(); ++dim)
    if (type.getDimSize(dim) > 1)
      common = std::gcd(common, layout.strides[dim] * bytes);
  std::string text = "Tensor<" + elementText(type.getElementType()) + ", " + dimsText(type.getShape()) + ", " + dimsText(layout.strides);
  return text + (common > bytes ? ", " + std::to_string(common) : "") + ">";
}

MemRefType withStrides(MemRefType type, ArrayRef<int64_t> strides) {
  return plan::makeMemRef(type.getShape(), type.getElementType(), {SmallVector<int64_t>(strides), 0});
}

MemRefType withRepeats(MemRefType type) {
  SmallVector<int64_t> strides = plan::layoutOf(type).strides;
  for (auto [stride, size] : llvm::zip(strides, type.getShape()))
    stride = size == 1 ? 0 : stride;
  return withStrides(type, strides);
}

std::string doubleText(double value) {
  std::string text = llvm::formatv("{0}", llvm::format("%.17g", value));
  return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
}

int64_t FamilyUnit::alignmentOf(unsigned arg) {
  int64_t bytes = dit::elementBytes(reader.type(arg).getElementType());
  auto known = dyn_cast_if_present<DenseI64ArrayAttr>(reader.attribute("alignments"));
  return known && arg < known.size() ? std::max(bytes, known[arg]) : bytes;
}

void FamilyUnit::tensor(StringRef name, unsigned arg, MemRefType type) { config("using " + name + " = " + tensorTypeText(type, alignmentOf(arg))); }

LogicalResult FamilyUnit::failure() { return kernel.emitError(llvm::toString(reader.takeError())); }

FailureOr<CudaUnit> FamilyUnit::finish(StringRef header, StringRef space, ArrayRef<StringRef> parameters, int64_t blocks, uint32_t threads,
                                       uint32_t sharedBytes) {
  if (reader.failed())
    return failure();
  CudaUnit pointers;
  std::string declared, passed;
  unsigned arg = 0, firstOutput = reader.numArgs() - reader.outputs();
  for (StringRef name : parameters) {
    passed += passed.empty() ? "" : ", ";
    if (name.consume_front("!")) {
      passed += "nullptr";
      continue;
    }
    passed += name.str();
    declared += std::string(arg ? ", " : "") + (arg < firstOutput ? "const " : "") + elementText(reader.type(arg).getElementType()) + " *" + name.str();
    pointers.addPointer(arg++);
  }
  FailureOr<CudaUnit> unit = finish(header, space, declared, passed, blocks, threads, sharedBytes);
  if (succeeded(unit))
    unit->parameters = std::move(pointers.parameters);
  return unit;
}

FailureOr<CudaUnit> FamilyUnit::finish(StringRef header, StringRef space, StringRef declared, StringRef passed, int64_t blocks, uint32_t threads,
                                       uint32_t sharedBytes) {
  reader.expect(blocks < int64_t(1) << 31, "needs " + llvm::Twine(blocks) + " blocks, more than a launch has; split the batch");
  if (reader.failed())
    return failure();
  CudaUnit unit;
  std::string path = writeNodeName(nameOf(kernel.getLoc()));
  unit.text = "// " + kernel.getFamily().str() + (path.empty() ? "" : " of " + path) + "\n#include \"" + header.str() +
              "\"\n\nusing namespace ditc;\n\nstruct Config {\n" + configText + "};\n\n";
  unit.text += "extern \"C\" __global__ void __launch_bounds__(" + std::to_string(threads) + ", 1) " + kernel.getSymName().str() + "(" + declared.str() + ") {\n  " +
               space.str() + "::run<Config>(" + passed.str() + ");\n}\n";
  unit.launch = {.grid = {static_cast<uint32_t>(blocks), 1, 1}, .threads = threads, .sharedBytes = sharedBytes, .overlapsPrevious = true};
  return unit;
}

} // namespace ditc
