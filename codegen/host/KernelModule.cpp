// SPDX-License-Identifier: Apache-2.0
//
// Building one LLVM module of kernels.
#include "codegen/host/KernelModule.h"

#include "codegen/host/MapEmitter.h"
#include "codegen/host/TemplateLibrary.h"

#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Verifier.h"

namespace ditc {

/// void <name>(char *const *args) { <template>(args, &<constant descriptor>[, scratch]); }
void KernelModule::emitTemplateCall(plan::KernelOp kernel, const TemplateCall &call) {
  llvm::IRBuilder<> b(context);
  auto *type = llvm::FunctionType::get(b.getVoidTy(), {b.getPtrTy()}, false);
  auto *function = llvm::Function::Create(type, llvm::Function::ExternalLinkage, kernel.getSymName(), *module);
  b.SetInsertPoint(llvm::BasicBlock::Create(context, "entry", function));
  auto *words = llvm::ConstantDataArray::get(context, call.descriptor);
  auto *descriptor = new llvm::GlobalVariable(*module, words->getType(), /*isConstant=*/true, llvm::GlobalValue::PrivateLinkage, words, kernel.getSymName() + ".descriptor");
  descriptor->setAlignment(llvm::Align(8));
  llvm::SmallVector<llvm::Value *> operands{function->getArg(0), descriptor};
  if (call.scratchBytes > 0) {
    auto *scratch = b.CreateAlloca(llvm::ArrayType::get(b.getInt8Ty(), call.scratchBytes), nullptr, "scratch");
    scratch->setAlignment(llvm::Align(64));
    operands.push_back(scratch);
  }
  llvm::SmallVector<llvm::Type *> types(operands.size(), b.getPtrTy());
  b.CreateCall(module->getOrInsertFunction(call.function, llvm::FunctionType::get(b.getVoidTy(), types, false)), operands);
  b.CreateRetVoid();
}

llvm::Error KernelModule::emit(const HostKernel &kernel) {
  if (!kernel.call)
    return emitMap(*module, kernel.op);
  emitTemplateCall(kernel.op, *kernel.call);
  return llvm::Error::success();
}

bool KernelModule::build(llvm::ArrayRef<HostKernel> kernels) {
  module = std::make_unique<llvm::Module>("ditc", context);
  machine.prepare(*module);
  std::set<std::string> libraries;
  for (const HostKernel &kernel : kernels) {
    if (llvm::Error error = emit(kernel)) {
      problem = {kernel.op, llvm::toString(std::move(error))};
      return false;
    }
    if (kernel.call)
      libraries.insert(kernel.call->library);
  }
  if (llvm::Error error = linkTemplates(*module, libraries)) {
    problem = {kernels.front().op, llvm::toString(std::move(error))};
    return false;
  }
  machine.legalise(*module);
  std::string broken;
  llvm::raw_string_ostream stream(broken);
  if (verify && llvm::verifyModule(*module, &stream)) {
    problem = {kernels.front().op, "generated LLVM IR is not valid: " + broken};
    return false;
  }
  machine.optimise(*module);
  return true;
}

} // namespace ditc
