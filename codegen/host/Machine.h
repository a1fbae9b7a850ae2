// SPDX-License-Identifier: Apache-2.0
//
// The machine that the host target compiles for, and LLVM's optimiser and code generator for it.
#pragma once

#include "llvm/ADT/SmallVector.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace llvm {
class TargetMachine;
}

namespace ditc {

/// Triple, CPU and features, resolved: "native" is the machine that ditc runs on, "" the default. Code for an x86 processor by
/// name is tuned for it, but has no instructions that a runtime cannot ask for.
struct MachineName {
  std::string triple, cpu;
  std::string codeCpu, features;            ///< what LLVM may use: the level x86-64 and the sets below, for a processor by name
  std::vector<std::string> instructionSets; ///< of x86: those that code for it may use
};
llvm::Expected<MachineName> resolveMachine(llvm::StringRef cpu);

/// One per thread: LLVM's target machine is not shared.
class Machine {
public:
  explicit Machine(const MachineName &name);
  ~Machine();

  /// Gives `module` the machine's data layout and triple.
  void prepare(llvm::Module &module) const;

  /// Sets CPU and features on every function and replaces what the machine has no instruction for.
  void legalise(llvm::Module &module) const;

  /// LLVM's -O2, without anything that changes the results of floating-point operations.
  void optimise(llvm::Module &module) const;

  /// An object file.
  llvm::Expected<llvm::SmallVector<char, 0>> compile(llvm::Module &module) const;

private:
  const MachineName &name;
  std::unique_ptr<llvm::TargetMachine> target;
};

} // namespace ditc
