// SPDX-License-Identifier: Apache-2.0
//
// Reading a plan.kernel: arguments by role, options by name, with the first problem kept as the error. A reader
// that has failed answers with harmless values, so that a family reads everything first and checks once.
#pragma once

#include "codegen/AttentionOptions.h"
#include "dialects/plan/Plan.h"

#include "llvm/Support/Error.h"

#include <string>

namespace ditc {

class KernelReader {
public:
  explicit KernelReader(plan::KernelOp kernel) : kernel(kernel) {}

  /// The kernel must have this many arguments.
  void expectArgs(unsigned count);
  /// Argument `i` must have this rank.
  void expectRank(unsigned i, int64_t rank);
  void expect(bool condition, const llvm::Twine &message);

  mlir::MemRefType type(unsigned i);
  unsigned outputs() { return kernel.getOutputs(); }
  unsigned numArgs() { return kernel.getNumArgs(); }

  int64_t integer(llvm::StringRef name);
  bool flag(llvm::StringRef name); ///< absent: false
  double number(llvm::StringRef name);
  llvm::StringRef word(llvm::StringRef name);
  llvm::SmallVector<int64_t> integers(llvm::StringRef name);
  mlir::Attribute attribute(llvm::StringRef name) { return kernel.getConfig().get(name); }
  AttentionOptions attentionOptions() { return AttentionOptions(kernel); }

  bool failed() const { return !problem.empty(); }
  llvm::Error takeError() { return llvm::createStringError(problem); }

private:
  plan::KernelOp kernel;
  std::string problem;
};

} // namespace ditc
