// SPDX-License-Identifier: Apache-2.0
//
// A group of kernels as one LLVM module: built, linked with the templates it uses, optimised.
#pragma once

#include "codegen/host/Families.h"
#include "codegen/host/Machine.h"

#include <memory>
#include <optional>

namespace ditc {

/// A kernel and the template that serves it; a map has none.
struct HostKernel {
  plan::KernelOp op;
  std::optional<TemplateCall> call;
};

/// An error and the kernel it is about.
struct KernelProblem {
  plan::KernelOp kernel;
  std::string text;
};

class KernelModule {
public:
  KernelModule(const Machine &machine, bool verify) : machine(machine), verify(verify) {}

  /// Builds and optimises; false with `problem` set when a kernel cannot be compiled.
  bool build(llvm::ArrayRef<HostKernel> kernels);

  llvm::Module &getModule() { return *module; }
  const KernelProblem &getProblem() const { return problem; }

private:
  llvm::Error emit(const HostKernel &kernel);
  void emitTemplateCall(plan::KernelOp kernel, const TemplateCall &call);

  const Machine &machine;
  bool verify;
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> module;
  KernelProblem problem;
};

} // namespace ditc
