// SPDX-License-Identifier: Apache-2.0
#include "compiler/QuantizeOptions.h"

#include "dialects/ModulePatterns.h"
#include "dialects/dit/Dit.h"
#include "runtime/Error.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <algorithm>
#include <array>
#include <fmt/ranges.h>

using namespace mlir;

namespace ditc {

namespace {

/// Targets that multiply fp8 numbers; the host computes the same numbers to check by.
constexpr std::array<std::string_view, 2> kTargets{"host", "sm_90a"};
/// Modules that are listed where a pattern names none.
constexpr size_t kListedModules = 6;

template <typename... Args> [[noreturn]] void failUsage(fmt::format_string<Args...> format, Args &&...args) {
  throw Error(ErrorKind::Usage, fmt::format(format, std::forward<Args>(args)...));
}

void checkPatternTexts(std::string_view option, const std::vector<std::string> &patterns) {
  for (const std::string &pattern : patterns)
    if (std::string why = ModulePatterns::whyWrong(pattern); !why.empty())
      failUsage("{} '{}': {}; expected a pattern of module paths, such as '*.proj_out' or 'transformer_blocks.0.*'", option, pattern, why);
}

/// Products, and the convolutions that become products.
std::vector<NodeName> productsOf(ModuleOp module) {
  std::vector<NodeName> names;
  module.walk([&](Operation *op) {
    if (isa<dit::MatmulOp, dit::ConvOp>(op))
      names.push_back(nameOf(op->getLoc()));
  });
  return names;
}

/// A few from the beginning, the middle and the end of the model, as neighbours are called alike.
std::vector<std::string> examplesOf(const std::vector<NodeName> &products) {
  std::vector<std::string> modules, listed;
  for (const NodeName &name : products)
    if (std::ranges::find(modules, moduleOf(name)) == modules.end())
      modules.push_back(moduleOf(name));
  if (modules.size() <= kListedModules)
    return modules;
  for (size_t i = 0; i < kListedModules; ++i)
    listed.push_back(modules[i * (modules.size() - 1) / (kListedModules - 1)]);
  return listed;
}

void checkMatches(std::string_view option, const std::vector<std::string> &patterns, const std::vector<NodeName> &products) {
  for (const std::string &pattern : patterns) {
    ModulePatterns one(llvm::ArrayRef<std::string>{pattern});
    if (std::ranges::any_of(products, [&](const NodeName &name) { return one.matches(name); }))
      continue;
    if (products.empty())
      fail("{} '{}': the model has no matrix products to choose from; leave the option out", option, pattern);
    fail("{} '{}': no matrix product of the model is in such a module; products are in {}{}; `ditc report` lists all", option, pattern, fmt::join(examplesOf(products), ", "),
         products.size() > kListedModules ? " and others" : "");
  }
}

} // namespace

void checkQuantizeOptions(const CompileOptions &options) {
  if (options.quantize == Quantize::None) {
    if (!options.quantizeSkip.empty() || !options.quantizeOnly.empty())
      failUsage("--quantize-skip and --quantize-only choose among quantised products; say --quantize fp8 as well");
    return;
  }
  if (options.numerics == Numerics::Eager)
    failUsage("--quantize fp8 and --numerics eager contradict each other: eager keeps every rounding of the source graph; leave one of them out");
  for (const std::string &target : options.targets)
    if (std::ranges::find(kTargets, target) == kTargets.end())
      failUsage("--quantize fp8 has kernels for {}; --target says {}: compile for {} without --quantize", fmt::join(kTargets, " and "), fmt::join(options.targets, ", "), target);
  checkPatternTexts("--quantize-skip", options.quantizeSkip);
  checkPatternTexts("--quantize-only", options.quantizeOnly);
}

void checkQuantizePatterns(ModuleOp imported, const CompileOptions &options) {
  if (options.quantizeSkip.empty() && options.quantizeOnly.empty())
    return;
  std::vector<NodeName> products = productsOf(imported);
  checkMatches("--quantize-skip", options.quantizeSkip, products);
  checkMatches("--quantize-only", options.quantizeOnly, products);
}

} // namespace ditc
