// SPDX-License-Identifier: Apache-2.0
#include "compiler/QuantizeOptions.h"

#include "codegen/cuda/CudaTarget.h"
#include "dialects/ModulePatterns.h"
#include "dialects/dit/Dit.h"
#include "runtime/Error.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <algorithm>
#include <fmt/ranges.h>

using namespace mlir;

namespace ditc {

namespace {

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

/// What patterns may name, and what it is called.
struct Candidates {
  std::vector<NodeName> names;
  std::string_view one, many, these; ///< "matrix product", "matrix products", "products"
};

/// A product of two values that are made from inputs: attention as a model spells it, before it is recognised.
bool isOfActivations(Operation *op) {
  auto product = dyn_cast<dit::MatmulOp>(op);
  return product && !isa_and_present<dit::WeightOp, dit::ConstantOp>(dit::behindViews(product.getRhs()).getDefiningOp());
}

/// Products, and the convolutions that become products; attention and the products that it is made of.
Candidates candidatesOf(ModuleOp module, const CompileOptions &options) {
  bool ofProducts = options.quantize != Quantize::None, ofAttention = options.quantizeAttention != QuantizeAttention::None;
  Candidates found;
  module.walk([&](Operation *op) {
    if ((ofProducts && isa<dit::MatmulOp, dit::ConvOp>(op)) || (ofAttention && (isa<dit::AttentionOp>(op) || isOfActivations(op))))
      found.names.push_back(nameOf(op->getLoc()));
  });
  if (ofProducts && ofAttention)
    found.one = "matrix product or attention", found.many = "matrix products and no attention", found.these = "they";
  else if (ofAttention)
    found.one = "attention", found.many = "attention", found.these = "attentions";
  else
    found.one = "matrix product", found.many = "matrix products", found.these = "products";
  return found;
}

/// A few from the beginning, the middle and the end of the model, as neighbours are called alike.
std::vector<std::string> examplesOf(const std::vector<NodeName> &names) {
  std::vector<std::string> modules, listed;
  for (const NodeName &name : names)
    if (std::ranges::find(modules, moduleOf(name)) == modules.end())
      modules.push_back(moduleOf(name));
  if (modules.size() <= kListedModules)
    return modules;
  for (size_t i = 0; i < kListedModules; ++i)
    listed.push_back(modules[i * (modules.size() - 1) / (kListedModules - 1)]);
  return listed;
}

void checkMatches(std::string_view option, const std::vector<std::string> &patterns, const Candidates &candidates) {
  for (const std::string &pattern : patterns) {
    ModulePatterns one(llvm::ArrayRef<std::string>{pattern});
    if (std::ranges::any_of(candidates.names, [&](const NodeName &name) { return one.matches(name); }))
      continue;
    if (candidates.names.empty())
      fail("{} '{}': the model has no {} to choose from; leave the option out", option, pattern, candidates.many);
    fail("{} '{}': no {} of the model is in such a module; {} are in {}{}; `ditc report` lists all", option, pattern, candidates.one, candidates.these,
         fmt::join(examplesOf(candidates.names), ", "), candidates.names.size() > kListedModules ? " and others" : "");
  }
}

/// The host, which computes the same numbers to check by, and what multiplies 8-bit numbers.
std::vector<std::string> targetsThat(bool (CudaArch::*multiply)() const) {
  std::vector<std::string> able{"host"};
  std::ranges::copy_if(cudaArchNames(), std::back_inserter(able), [&](const std::string &name) { return (*parseCudaArch(name).*multiply)(); });
  return able;
}

/// Options that an option which quantises does not go with. `able`: its targets.
void checkOthers(std::string_view option, std::string_view kind, const std::vector<std::string> &able, const CompileOptions &options) {
  if (options.numerics == Numerics::Eager)
    failUsage("{} {} and --numerics eager contradict each other: eager keeps every rounding of the source graph; leave one of them out", option, kind);
  for (const std::string &target : options.targets)
    if (std::ranges::find(able, target) == able.end())
      failUsage("{} {} has kernels for {}; --target says {}: compile for {} without {}", option, kind, fmt::join(able, ", "), fmt::join(options.targets, ", "), target, option);
}

} // namespace

void checkQuantizeOptions(const CompileOptions &options) {
  bool isQuantized = options.quantize != Quantize::None || options.quantizeAttention != QuantizeAttention::None;
  if (!isQuantized && (!options.quantizeSkip.empty() || !options.quantizeOnly.empty()))
    failUsage("--quantize-skip and --quantize-only choose among what is quantised; say --quantize fp8 or --quantize-attention int8 as well");
  if (options.quantize != Quantize::None)
    checkOthers("--quantize", "fp8", targetsThat(&CudaArch::multipliesFp8), options);
  if (options.quantizeAttention != QuantizeAttention::None)
    checkOthers("--quantize-attention", "int8", targetsThat(&CudaArch::hasWgmma), options);
  checkPatternTexts("--quantize-skip", options.quantizeSkip);
  checkPatternTexts("--quantize-only", options.quantizeOnly);
}

void checkQuantizePatterns(ModuleOp imported, const CompileOptions &options) {
  if (options.quantizeSkip.empty() && options.quantizeOnly.empty())
    return;
  Candidates candidates = candidatesOf(imported, options);
  checkMatches("--quantize-skip", options.quantizeSkip, candidates);
  checkMatches("--quantize-only", options.quantizeOnly, candidates);
}

} // namespace ditc
