// SPDX-License-Identifier: Apache-2.0
#include "compiler/CompileState.h"

#include "compiler/PlanWriter.h"
#include "dialects/dit/Dit.h"
#include "dialects/plan/Plan.h"
#include "runtime/Error.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;

namespace ditc {

CompileState::CompileState(const CompileOptions &options, Progress &progress)
    : options(options), progress(progress), context(MLIRContext::Threading::DISABLED) {
  DialectRegistry registry;
  registry.insert<dit::DitDialect, plan::PlanDialect, arith::ArithDialect, math::MathDialect, func::FuncDialect>();
  context.appendDialectRegistry(registry);
  context.loadAllAvailableDialects();
}

void CompileState::takeWarnings(Cache &cache) {
  auto isStore = [](const std::string &warning) { return warning.find("not cached: ") != std::string::npos; };
  for (std::string &warning : cache.takeWarnings())
    if (!isStore(warning) || llvm::none_of(result.warnings, isStore))
      result.warnings.push_back(std::move(warning));
}

DiagnosticText::DiagnosticText(CompileState &state)
    : handler(&state.context, [this, &warnings = state.result.warnings](Diagnostic &diagnostic) {
        std::string place = describeLocation(diagnostic.getLocation());
        std::string line = fmt::format("{}{}{}", place, place.empty() ? "" : ": ", diagnostic.str());
        if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
          errors += line + "\n";
        else if (diagnostic.getSeverity() == DiagnosticSeverity::Warning)
          warnings.push_back(line);
        return success();
      }) {}

void DiagnosticText::fail(const std::string &otherwise) const {
  throw Error(ErrorKind::Input, errors.empty() ? otherwise : errors.substr(0, errors.size() - 1));
}

} // namespace ditc
