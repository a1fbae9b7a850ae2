// SPDX-License-Identifier: Apache-2.0
//
// Map kernels. The nest walks the output in memory order:
//
//   for each outer dimension:
//     load what does not change in the next loop
//     for i in run:                      <- marked parallel: LLVM vectorises it without alias checks
//       load, convert, body, round, store
//
// A shortest dimension of up to four elements (pairs of a rotation, channels of an image) is written out inside
// the run instead of being the run, so that short rows vectorise too.
#include "codegen/host/MapEmitter.h"

#include "codegen/host/Elements.h"
#include "codegen/host/ScalarOps.h"
#include "codegen/host/StridedLoops.h"

#include "llvm/IR/IRBuilder.h"

namespace ditc {
namespace {

using llvm::Value;
using Pointers = llvm::SmallVector<Value *>;

constexpr int64_t kWrittenOut = 4; ///< longest innermost dimension that is written out

class MapEmitter {
public:
  MapEmitter(llvm::Module &module, plan::KernelOp kernel)
      : module(module), kernel(kernel), context(module.getContext()), b(context), inputs(kernel.getNumArgs() - kernel.getOutputs()),
        accessGroup(llvm::MDNode::getDistinct(context, {})), hoisted(inputs, nullptr) {
    for (unsigned i = 0; i < kernel.getNumArgs(); ++i)
      types.push_back(kernel.getArgType(i));
  }

  llvm::Error run() {
    if (llvm::Error error = check())
      return error;
    loops = simplified(loopsOver(types, allDims(types.back().getRank())));
    if (loops.size() >= 2 && loops.back().size <= kWrittenOut)
      writtenOut = loops.pop_back_val();
    createFunction();
    if (elementCount(loops) > 0)
      if (llvm::Error error = emitLoops(0, arguments()))
        return error;
    b.CreateRetVoid();
    return llvm::Error::success();
  }

private:
  llvm::Error check() {
    if (!kernel.getBody().hasOneBlock() || kernel.getBody().front().getNumArguments() != inputs)
      return llvm::createStringError("a map needs a body with one argument for each input");
    if (kernel.getBody().front().getTerminator()->getNumOperands() != kernel.getOutputs())
      return llvm::createStringError("the body of a map must yield one value for each output");
    for (mlir::MemRefType type : types)
      if (type.getRank() != types.back().getRank())
        return llvm::createStringError("the arguments of a map must have one rank");
    for (mlir::MemRefType type : types)
      for (auto [size, outputSize] : llvm::zip(type.getShape(), types.back().getShape()))
        if (size != outputSize && size != 1)
          return llvm::createStringError("the arguments of a map must broadcast to its output");
    return llvm::Error::success();
  }

  void createFunction() {
    auto *type = llvm::FunctionType::get(b.getVoidTy(), {b.getPtrTy()}, false);
    function = llvm::Function::Create(type, llvm::Function::ExternalLinkage, kernel.getSymName(), module);
    b.SetInsertPoint(llvm::BasicBlock::Create(context, "entry", function));
  }

  Pointers arguments() {
    Pointers pointers;
    for (unsigned i = 0; i < types.size(); ++i)
      pointers.push_back(b.CreateLoad(b.getPtrTy(), b.CreateConstInBoundsGEP1_64(b.getPtrTy(), function->getArg(0), i)));
    return pointers;
  }

  Value *advance(unsigned arg, Value *pointer, Value *index, int64_t stride) {
    if (stride == 0)
      return pointer;
    Value *offset = b.CreateNSWMul(index, b.getInt64(stride));
    return b.CreateInBoundsGEP(storageType(context, types[arg].getElementType()), pointer, offset);
  }

  llvm::Error emitLoops(unsigned level, Pointers pointers) {
    if (level == loops.size())
      return emitRunBody(pointers);
    const StridedLoop &loop = loops[level];
    bool isRun = level + 1 == loops.size();
    if (isRun)
      hoistLoads(loop, pointers);
    llvm::BasicBlock *before = b.GetInsertBlock(), *body = llvm::BasicBlock::Create(context, "loop", function);
    b.CreateBr(body);
    b.SetInsertPoint(body);
    llvm::PHINode *index = b.CreatePHI(b.getInt64Ty(), 2);
    index->addIncoming(b.getInt64(0), before);
    for (unsigned i = 0; i < types.size(); ++i)
      pointers[i] = advance(i, pointers[i], index, loop.strides[i]);
    if (llvm::Error error = emitLoops(level + 1, pointers))
      return error;
    Value *next = b.CreateNUWAdd(index, b.getInt64(1));
    index->addIncoming(next, b.GetInsertBlock());
    llvm::BasicBlock *after = llvm::BasicBlock::Create(context, "end", function);
    llvm::BranchInst *branch = b.CreateCondBr(b.CreateICmpULT(next, b.getInt64(loop.size)), body, after);
    if (isRun)
      branch->setMetadata(llvm::LLVMContext::MD_loop, parallelLoop());
    b.SetInsertPoint(after);
    return llvm::Error::success();
  }

  /// No iteration of the run reads what another one writes.
  llvm::MDNode *parallelLoop() {
    llvm::MDNode *parallel = llvm::MDNode::get(context, {llvm::MDString::get(context, "llvm.loop.parallel_accesses"), accessGroup});
    llvm::MDNode *loop = llvm::MDNode::getDistinct(context, {nullptr, parallel});
    loop->replaceOperandWith(0, loop);
    return loop;
  }

  /// Inputs that stay in place during the run are loaded once, before it.
  void hoistLoads(const StridedLoop &run, const Pointers &pointers) {
    for (unsigned i = 0; i < inputs; ++i) {
      llvm::Instruction *access = nullptr;
      bool still = run.strides[i] == 0 && (!writtenOut || writtenOut->strides[i] == 0);
      hoisted[i] = still ? loadElement(b, types[i].getElementType(), pointers[i], &access) : nullptr;
    }
  }

  Value *load(unsigned arg, Value *pointer) {
    llvm::Instruction *access = nullptr;
    Value *value = loadElement(b, types[arg].getElementType(), pointer, &access);
    access->setMetadata(llvm::LLVMContext::MD_access_group, accessGroup);
    return value;
  }

  /// One step of the run: all loads, then all bodies, then all stores.
  llvm::Error emitRunBody(const Pointers &pointers) {
    int64_t copies = writtenOut ? writtenOut->size : 1;
    auto at = [&](unsigned arg, int64_t copy) {
      return writtenOut ? advance(arg, pointers[arg], b.getInt64(copy), copy == 0 ? 0 : writtenOut->strides[arg]) : pointers[arg];
    };
    llvm::SmallVector<llvm::SmallVector<Value *>> values(copies);
    for (unsigned i = 0; i < inputs; ++i)
      for (int64_t copy = 0; copy < copies; ++copy) {
        bool repeated = copy > 0 && writtenOut->strides[i] == 0;
        values[copy].push_back(hoisted[i] ? hoisted[i] : repeated ? values[0][i] : load(i, at(i, copy)));
      }
    for (llvm::SmallVector<Value *> &copy : values) {
      auto results = emitScalarBody(b, kernel.getBody().front(), copy);
      if (!results)
        return results.takeError();
      copy = *results;
    }
    for (int64_t copy = 0; copy < copies; ++copy)
      for (unsigned i = 0; i < kernel.getOutputs(); ++i) {
        unsigned arg = inputs + i;
        llvm::Instruction *store = storeElement(b, types[arg].getElementType(), values[copy][i], at(arg, copy));
        store->setMetadata(llvm::LLVMContext::MD_access_group, accessGroup);
      }
    return llvm::Error::success();
  }

  llvm::Module &module;
  plan::KernelOp kernel;
  llvm::LLVMContext &context;
  llvm::IRBuilder<> b;
  unsigned inputs;
  llvm::MDNode *accessGroup;
  Pointers hoisted;
  llvm::SmallVector<mlir::MemRefType> types;
  StridedLoops loops;
  std::optional<StridedLoop> writtenOut;
  llvm::Function *function = nullptr;
};

} // namespace

llvm::Error emitMap(llvm::Module &module, plan::KernelOp kernel) { return MapEmitter(module, kernel).run(); }

} // namespace ditc
