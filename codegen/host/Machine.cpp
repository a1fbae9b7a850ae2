// SPDX-License-Identifier: Apache-2.0
//
// LLVM's optimiser and code generator.
#include "codegen/host/Machine.h"

#include "codegen/host/Elements.h"
#include "runtime/HostDevice.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"

#include <algorithm>
#include <mutex>

namespace ditc {

static void initialiseTargets() {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
  });
}

static std::string hostFeatures() {
  std::vector<std::string> features;
  for (const auto &[feature, enabled] : llvm::sys::getHostCPUFeatures())
    features.push_back((enabled ? "+" : "-") + feature.str());
  std::sort(features.begin(), features.end()); // a hash table's order is not the same everywhere
  return llvm::join(features, ",");
}

llvm::Expected<MachineName> resolveMachine(llvm::StringRef cpu) {
  initialiseTargets();
  MachineName name{llvm::sys::getDefaultTargetTriple(), cpu.str(), "", "", {}};
  llvm::Triple triple(name.triple);
  if (cpu.empty()) {
    name.cpu = triple.getArch() == llvm::Triple::x86_64 ? "x86-64-v3" : "generic";
  } else if (cpu == "native") {
    name.cpu = llvm::sys::getHostCPUName().str();
    name.features = hostFeatures();
  }
  std::string error;
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target)
    return llvm::createStringError(error);
  std::unique_ptr<llvm::MCSubtargetInfo> info(target->createMCSubtargetInfo(triple, "generic", ""));
  if (!info->isCPUStringValid(name.cpu))
    return llvm::createStringError("unknown CPU '" + name.cpu + "' for " + name.triple);
  name.codeCpu = name.cpu;
  if (triple.getArch() != llvm::Triple::x86_64)
    return name;
  info.reset(target->createMCSubtargetInfo(triple, name.cpu, name.features));
  if (!info->checkFeatures("+64bit"))
    return llvm::createStringError("the CPU '" + name.cpu + "' has no 64-bit code, which " + name.triple + " is");
  for (std::string_view set : kInstructionSets)
    if (info->checkFeatures("+" + std::string(set)))
      name.instructionSets.emplace_back(set);
  if (!llvm::StringRef(name.cpu).starts_with("x86-64")) { // a level's instructions are known by its name
    name.codeCpu = "x86-64";
    name.features = name.instructionSets.empty() ? "" : "+" + llvm::join(name.instructionSets, ",+");
  }
  return name;
}

Machine::Machine(const MachineName &name) : name(name) {
  std::string error;
  llvm::Triple triple(name.triple);
  const llvm::Target *found = llvm::TargetRegistry::lookupTarget(triple, error);
  // Standard: what a template marks as contractible is fused, everything else is computed as written.
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Standard;
  target.reset(found->createTargetMachine(triple, name.codeCpu, name.features, options, llvm::Reloc::PIC_, std::nullopt, llvm::CodeGenOptLevel::Default));
}

Machine::~Machine() = default;

void Machine::prepare(llvm::Module &module) const {
  module.setTargetTriple(target->getTargetTriple());
  module.setDataLayout(target->createDataLayout());
  module.setPICLevel(llvm::PICLevel::BigPIC);
}

/// x86-64 before AVX and older ones convert f16 by a call into compiler-rt.
static bool convertsHalf(const llvm::TargetMachine &target) {
  if (target.getTargetTriple().isX86())
    return target.getMCSubtargetInfo()->checkFeatures("+f16c");
  return target.getTargetTriple().isAArch64();
}

void Machine::legalise(llvm::Module &module) const {
  if (!convertsHalf(*target))
    expandHalfConversions(module);
  for (llvm::Function &function : module) {
    if (function.isDeclaration())
      continue;
    function.removeFnAttr("tune-cpu");
    function.addFnAttr("target-cpu", name.codeCpu);
    if (name.codeCpu != name.cpu)
      function.addFnAttr("tune-cpu", name.cpu);
    if (name.features.empty())
      function.removeFnAttr("target-features");
    else
      function.addFnAttr("target-features", name.features);
    function.addFnAttr(llvm::Attribute::NoUnwind);
  }
}

void Machine::optimise(llvm::Module &module) const {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager graphs;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(target.get());
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(graphs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, graphs, modules);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O2).run(module, modules);
}

llvm::Expected<llvm::SmallVector<char, 0>> Machine::compile(llvm::Module &module) const {
  llvm::SmallVector<char, 0> object;
  llvm::raw_svector_ostream stream(object);
  llvm::legacy::PassManager passes;
  if (target->addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::ObjectFile, /*DisableVerify=*/true))
    return llvm::createStringError("LLVM emits no object files for " + name.triple);
  passes.run(module);
  return object;
}

} // namespace ditc
