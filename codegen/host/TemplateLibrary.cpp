// SPDX-License-Identifier: Apache-2.0
//
// Linking of template bitcode. The bytes come from template_bitcode.S, which the build generates: for each template
// file X, `ditc_template_X_begin` and `ditc_template_X_end`.
#include "codegen/host/TemplateLibrary.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/Linker/Linker.h"
#include "llvm/Support/MemoryBuffer.h"

// One line per file of codegen/templates/host; host.cmake has the same list.
#define DITC_TEMPLATES(X) X(attention) X(attention_quantized) X(axis) X(blocks) X(conv) X(gather) X(math) X(matmul) X(norm) X(pad) X(reduce)

#define DITC_DECLARE(name) extern "C" const char ditc_template_##name##_begin[], ditc_template_##name##_end[];
DITC_TEMPLATES(DITC_DECLARE)
#undef DITC_DECLARE

namespace ditc {

static llvm::StringRef bitcodeOf(llvm::StringRef library) {
#define DITC_CASE(name)                                                                                                                              \
  if (library == #name)                                                                                                                              \
    return {ditc_template_##name##_begin, static_cast<size_t>(ditc_template_##name##_end - ditc_template_##name##_begin)};
  DITC_TEMPLATES(DITC_CASE)
#undef DITC_CASE
  return {};
}

static llvm::Error linkLibrary(llvm::Module &module, llvm::StringRef library) {
  llvm::StringRef bitcode = bitcodeOf(library);
  if (bitcode.empty())
    return llvm::createStringError("there is no template library '" + library + "'");
  auto parsed = llvm::getLazyBitcodeModule(llvm::MemoryBufferRef(bitcode, library), module.getContext());
  if (!parsed)
    return parsed.takeError();
  (*parsed)->setDataLayout(module.getDataLayout());
  (*parsed)->setTargetTriple(module.getTargetTriple());
  if (llvm::Linker::linkModules(module, std::move(*parsed), llvm::Linker::LinkOnlyNeeded))
    return llvm::createStringError("template library '" + library + "' does not link");
  return llvm::Error::success();
}

/// A template that several kernels use is compiled once; one that a single kernel uses is specialised to its shapes by
/// inlining. Without this, LLVM would make a copy for every kernel, and compile time would grow with their number.
static void keepShared(llvm::Function &function) {
  function.addFnAttr(llvm::Attribute::NoInline);
  function.addFnAttr(llvm::Attribute::NoDuplicate);
}

llvm::Error linkTemplates(llvm::Module &module, const std::set<std::string> &libraries) {
  std::set<std::string> kernels;
  for (const llvm::Function &function : module)
    if (!function.isDeclaration())
      kernels.insert(function.getName().str());
  for (const std::string &library : libraries)
    if (llvm::Error error = linkLibrary(module, library))
      return error;
  if (!libraries.empty()) // every template reads and writes through these
    if (llvm::Error error = linkLibrary(module, "blocks"))
      return error;
  if (llvm::any_of(module, [](const llvm::Function &function) { return function.isDeclaration() && function.getName().starts_with("ditc_math_"); }))
    if (llvm::Error error = linkLibrary(module, "math"))
      return error;
  for (llvm::Function &function : module) {
    if (function.isDeclaration() || kernels.count(function.getName().str()))
      continue;
    function.setLinkage(llvm::Function::InternalLinkage);
    if (!function.hasOneUse() && !function.hasFnAttribute(llvm::Attribute::AlwaysInline))
      keepShared(function);
  }
  return llvm::Error::success();
}

} // namespace ditc
