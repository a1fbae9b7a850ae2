// SPDX-License-Identifier: Apache-2.0
//
// What the emitters of this folder share: a kernel's arguments as types of the device code (common/tensor.cuh), and
// the frame of a unit: the template's header, a Config structure, and the entry that calls the template.
#pragma once

#include "codegen/cuda/CudaKernel.h"
#include "codegen/host/KernelReader.h"

namespace ditc {

/// The shared memory that a block may have, in bytes.
uint32_t sharedLimitOf(const CudaArch &arch);
/// That of a multiprocessor: each block takes kBlockOverhead more than it asks for.
constexpr uint32_t kBlockOverhead = 1 << 10;
inline uint32_t sharedBytesOf(const CudaArch &arch) { return sharedLimitOf(arch) + kBlockOverhead; }

/// ditc::Tensor<...> of a memref whose element 0 is aligned to `alignment` bytes. A kernel's text says `using namespace
/// ditc`, so names come without it.
std::string tensorTypeText(mlir::MemRefType type, int64_t alignment);

/// A memref of these strides and the shape of `type`, without offset.
mlir::MemRefType withStrides(mlir::MemRefType type, mlir::ArrayRef<int64_t> strides);

/// The same where every dimension of size 1 repeats: for operands that broadcast.
mlir::MemRefType withRepeats(mlir::MemRefType type);

/// A number as a literal of double.
std::string doubleText(double value);

/// Builds the unit of a kernel whose parameters are its arguments in order.
class FamilyUnit {
public:
  explicit FamilyUnit(plan::KernelOp kernel) : kernel(kernel), reader(kernel) {}

  KernelReader &read() { return reader; }
  /// Bytes to which element 0 of an argument is aligned.
  int64_t alignmentOf(unsigned arg);

  /// One line of Config: `using name = Tensor<...>;` of an argument as it lies, or as `type` says.
  void tensor(llvm::StringRef name, unsigned arg) { tensor(name, arg, reader.type(arg)); }
  void tensor(llvm::StringRef name, unsigned arg, mlir::MemRefType type);
  /// `void` where the kernel has none.
  void optionalTensor(llvm::StringRef name, unsigned arg, bool isThere) { isThere ? tensor(name, arg) : config("using " + name + " = void"); }
  /// One line of Config, such as "static constexpr bool CAUSAL = true".
  void config(const llvm::Twine &line) { configText += ("  " + line + ";\n").str(); }
  void constant(llvm::StringRef name, int64_t value) { config("static constexpr int " + name + " = " + llvm::Twine(value)); }
  void flag(llvm::StringRef name, bool value) { config("static constexpr bool " + name + " = " + (value ? "true" : "false")); }

  /// The unit over `header`, calling `space`::run<Config> with one pointer per argument. `parameters` names them in
  /// order; a name that starts with "!" is an operand that is absent: a null pointer in its place.
  /// Errors that reading found become a diagnostic.
  mlir::FailureOr<CudaUnit> finish(llvm::StringRef header, llvm::StringRef space, llvm::ArrayRef<llvm::StringRef> parameters,
                                   int64_t blocks, uint32_t threads, uint32_t sharedBytes = 0);

  /// The same with parameters of the caller's, as the entry declares them and as it passes them on; `parameters` of the unit
  /// that comes back are the caller's to fill.
  mlir::FailureOr<CudaUnit> finish(llvm::StringRef header, llvm::StringRef space, llvm::StringRef declared, llvm::StringRef passed, int64_t blocks,
                                   uint32_t threads, uint32_t sharedBytes);

  mlir::InFlightDiagnostic error() { return kernel.emitError(); }
  /// The diagnostic of what reading found.
  mlir::LogicalResult failure();

private:
  plan::KernelOp kernel;
  KernelReader reader;
  std::string configText;
};

} // namespace ditc
