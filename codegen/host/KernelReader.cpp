// SPDX-License-Identifier: Apache-2.0
//
// Checked access to the parts of a plan.kernel.
#include "codegen/host/KernelReader.h"

using namespace mlir;

namespace ditc {

void KernelReader::expect(bool condition, const llvm::Twine &message) {
  if (!condition && problem.empty())
    problem = message.str();
}

void KernelReader::expectArgs(unsigned count) {
  expect(kernel.getNumArgs() == count, "family '" + kernel.getFamily() + "' takes " + llvm::Twine(count) + " arguments here, not " + llvm::Twine(kernel.getNumArgs()));
}

void KernelReader::expectRank(unsigned i, int64_t rank) {
  expect(type(i).getRank() == rank, "argument " + llvm::Twine(i) + " has rank " + llvm::Twine(type(i).getRank()) + ", expected " + llvm::Twine(rank));
}

/// A missing argument reads as the last one: expectArgs has reported it.
MemRefType KernelReader::type(unsigned i) { return kernel.getArgType(std::min(i, kernel.getNumArgs() - 1)); }

int64_t KernelReader::integer(llvm::StringRef name) {
  auto attr = dyn_cast_if_present<IntegerAttr>(attribute(name));
  expect(static_cast<bool>(attr), "config has no integer '" + name + "'");
  return attr ? attr.getInt() : 0;
}

bool KernelReader::flag(llvm::StringRef name) {
  Attribute attr = attribute(name);
  if (auto value = dyn_cast_if_present<BoolAttr>(attr))
    return value.getValue();
  return isa_and_present<UnitAttr>(attr);
}

double KernelReader::number(llvm::StringRef name) {
  auto attr = dyn_cast_if_present<FloatAttr>(attribute(name));
  expect(static_cast<bool>(attr), "config has no number '" + name + "'");
  return attr ? attr.getValueAsDouble() : 0;
}

llvm::StringRef KernelReader::word(llvm::StringRef name) {
  auto attr = dyn_cast_if_present<StringAttr>(attribute(name));
  expect(static_cast<bool>(attr), "config has no word '" + name + "'");
  return attr ? attr.getValue() : llvm::StringRef();
}

llvm::SmallVector<int64_t> KernelReader::integers(llvm::StringRef name) {
  Attribute attr = attribute(name);
  if (auto values = dyn_cast_if_present<DenseI64ArrayAttr>(attr))
    return llvm::SmallVector<int64_t>(values.asArrayRef());
  expect(false, "config has no list of integers '" + name + "'");
  return {};
}

} // namespace ditc
