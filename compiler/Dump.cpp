// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dump.h"

#include "dialects/plan/Plan.h"
#include "runtime/AtomicFile.h"
#include "runtime/Error.h"

#include "mlir/IR/AsmState.h"

#include <filesystem>

using namespace mlir;

namespace ditc {

/// Tables above this many elements are printed as their first bytes only.
constexpr int64_t kPrintedElements = 16;

std::string printModule(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  OpPrintingFlags flags;
  flags.elideLargeElementsAttrs(kPrintedElements);
  flags.elideLargeResourceString(64);
  flags.printNameLocAsPrefix(true);
  module.print(stream, flags);
  return text + "\n";
}

static void writeText(const std::filesystem::path &path, std::string_view text) {
  AtomicFile file(path.string());
  file.write(text);
  file.commit();
}

static std::filesystem::path kernelFolder(const std::string &directory, StringRef name) {
  std::filesystem::path folder = std::filesystem::path(directory) / "kernels" / name.str();
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    fail("--dump cannot create {}: {}", folder.string(), error.message());
  return folder;
}

static void writeKernelIr(const std::filesystem::path &folder, plan::KernelOp kernel) {
  std::string text;
  llvm::raw_string_ostream(text) << kernel << "\n";
  writeText(folder / "kernel.mlir", text);
}

void dumpKernels(ModuleOp kernels, const std::string &directory, const HostOptions &options) {
  for (plan::KernelOp kernel : kernels.getOps<plan::KernelOp>()) {
    std::filesystem::path folder = kernelFolder(directory, kernel.getSymName());
    writeKernelIr(folder, kernel);
    FailureOr<std::string> ir = printHostKernel(kernel, options);
    if (succeeded(ir))
      writeText(folder / "kernel.ll", *ir);
  }
}

void dumpCudaKernels(const CudaObject &object, ModuleOp kernels, const std::string &directory) {
  for (const CudaKernel &kernel : object.kernels) {
    std::filesystem::path folder = kernelFolder(directory, kernel.name);
    writeKernelIr(folder, kernels.lookupSymbol<plan::KernelOp>(kernel.name));
    writeText(folder / "kernel.cu", kernel.source);
  }
}

} // namespace ditc
