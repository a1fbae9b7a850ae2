// SPDX-License-Identifier: Apache-2.0
//
// The JSON of a program, and of what was read every symbolic size, printed and evaluated.
#include "FuzzInput.h"

#include "compiler/import/ExportedProgram.h"

using namespace ditc;

namespace {

void useExpr(const SymExprPtr &expr) {
  if (!expr)
    return;
  std::set<std::string> symbols;
  collectSymbols(*expr, symbols);
  SymBindings bindings;
  for (const std::string &symbol : symbols)
    bindings[symbol] = int64_t{2};
  toString(*expr);
  fuzz::expectInputErrors([&] { evaluate(*expr, bindings); });
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz::expectInputErrors([&] {
    ExportedProgram program = parseExportedProgram({reinterpret_cast<const char *>(data), size}, "fuzz.json");
    for (const auto &[name, meta] : program.graph.tensorValues)
      for (const SymInt &length : meta.sizes)
        useExpr(length.expr);
    for (const auto &[name, scalar] : program.graph.symValues)
      useExpr(scalar.expr);
  });
  return 0;
}
