// SPDX-License-Identifier: Apache-2.0
//
// What the steps of one compilation share: options, progress, the MLIR context, and what the user is told.
#pragma once

#include "compiler/Compile.h"
#include "runtime/Cache.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"

#include <string>
#include <vector>

namespace ditc {

struct CompileState {
  CompileState(const CompileOptions &options, Progress &progress);

  /// A folder that cannot be written is told of once, whatever could not be stored there.
  void takeWarnings(Cache &cache);

  const CompileOptions &options;
  Progress &progress;
  mlir::MLIRContext context;
  CompileResult result;
};

/// Collects MLIR diagnostics: errors become the text of an Error, warnings are told to the user.
class DiagnosticText {
public:
  explicit DiagnosticText(CompileState &state);

  const std::string &text() const { return errors; }
  /// Throws Error (Input) with the errors; when there are none, with `otherwise`.
  [[noreturn]] void fail(const std::string &otherwise) const;

private:
  std::string errors;
  mlir::ScopedDiagnosticHandler handler;
};

} // namespace ditc
