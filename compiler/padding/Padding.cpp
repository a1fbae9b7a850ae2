// SPDX-License-Identifier: Apache-2.0
#include "compiler/padding/Padding.h"

#include "runtime/Error.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <set>

using namespace mlir;

namespace ditc {

namespace {

using InputDims = std::map<std::string, std::vector<unsigned>>;

template <typename... Args> [[noreturn]] void usage(fmt::format_string<Args...> format, Args &&...args) {
  throw Error(ErrorKind::Usage, fmt::format(format, std::forward<Args>(args)...));
}

/// Dimensions of tensor inputs that are nothing but a symbol, by symbol and input.
std::map<std::string, InputDims> symbolDims(const ExportedProgram &program, const std::map<std::string, HostTensor> &pinned) {
  std::map<std::string, InputDims> out;
  for (size_t i = 0; i < program.inputSpecs.size(); ++i) {
    const InputSpec &spec = program.inputSpecs[i];
    if (spec.kind != InputSpec::Kind::UserInput || program.graph.inputs[i].kind != Argument::Kind::Tensor || pinned.contains(spec.userName))
      continue;
    const std::vector<SymInt> &sizes = program.graph.tensorValues.at(program.graph.inputs[i].text).sizes;
    for (size_t d = 0; d < sizes.size(); ++d)
      if (sizes[d].expr && sizes[d].expr->function == "Symbol")
        out[toString(*sizes[d].expr)][spec.userName].push_back(d);
  }
  return out;
}

/// The program with the symbol a little smaller or larger, where its sizes still fit together.
OwningOpRef<ModuleOp> importAtOtherSize(MLIRContext &context, const ExportedProgram &program, const Pt2Archive &archive, ImportOptions options, SymbolSizes &symbol) {
  for (int64_t step : {-1, 1, -8, 8, 16, 64}) {
    symbol.other = symbol.size + step;
    if (symbol.other < 2)
      continue;
    options.symbols[symbol.symbol] = symbol.other;
    try {
      return importProgram(context, program, archive, options);
    } catch (const Error &) { // sizes that do not divide; the next one may
    }
  }
  return nullptr;
}

PaddingProof decide(ModuleOp imported, const ExportedProgram &program, const Pt2Archive &archive, const ImportOptions &options, const std::string &name,
                    const InputDims &dims, const std::optional<PaddingClaim> &claim) {
  const auto *value = options.symbols.contains(name) ? std::get_if<int64_t>(&options.symbols.at(name)) : nullptr;
  if (!value || *value < 2)
    return {.rule = {}, .reason = fmt::format("bucket '{}' has {} = 1, so nothing is smaller", options.bucket, name), .hasNothingSmaller = true};
  SymbolSizes symbol{name, *value, 0};
  OwningOpRef<ModuleOp> other = importAtOtherSize(*imported.getContext(), program, archive, options, symbol);
  if (!other)
    return {{}, fmt::format("no other value of {} could be tried beside {}", name, *value)};
  return provePadding(imported, *other, symbol, dims, claim);
}

} // namespace

namespace {

/// "s31 (encoder_hidden_states.1, mask.1), s47 (...)"
std::string listOf(const std::map<std::string, InputDims> &symbols) {
  std::vector<std::string> texts;
  for (const auto &[symbol, inputs] : symbols) {
    std::vector<std::string> uses;
    for (const auto &[input, dims] : inputs)
      for (unsigned dim : dims)
        uses.push_back(fmt::format("{}.{}", input, dim));
    texts.push_back(fmt::format("{} ({})", symbol, fmt::join(uses, ", ")));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

/// What `name` is, if not a dimension that is nothing but a symbol.
std::string describeOther(const ExportedProgram &program, const std::string &name) {
  std::string inside;
  for (size_t i = 0; i < program.inputSpecs.size(); ++i) {
    if (program.inputSpecs[i].kind != InputSpec::Kind::UserInput || program.graph.inputs[i].kind != Argument::Kind::Tensor)
      continue;
    const std::string &input = program.inputSpecs[i].userName;
    const std::vector<SymInt> &sizes = program.graph.tensorValues.at(program.graph.inputs[i].text).sizes;
    if (name == input)
      return fmt::format("'{}' is an input, expected a symbol or one of its dimensions, as in {}.0", name, name);
    for (size_t d = 0; d < sizes.size(); ++d) {
      std::string place = fmt::format("{}.{}", input, d), size = sizes[d].expr ? toString(*sizes[d].expr) : std::to_string(sizes[d].value);
      if (name == place)
        return fmt::format("{} {} {}", name, sizes[d].expr ? "is computed from a symbol:" : "was exported with the fixed size", size);
      std::set<std::string> used;
      if (sizes[d].expr)
        collectSymbols(*sizes[d].expr, used);
      if (used.contains(name) && inside.empty())
        inside = fmt::format("no dimension of an input is {} itself ({} is {})", name, place, size);
    }
  }
  return inside.empty() ? fmt::format("no dimension of an input is '{}'", name) : inside;
}

} // namespace

PaddingClaims parsePaddingClaims(const ExportedProgram &program, const std::vector<std::string> &texts) {
  PaddingClaims claims;
  std::map<std::string, InputDims> symbols = symbolDims(program, {});
  auto symbolOf = [&](const std::string &name) {
    for (const auto &[symbol, inputs] : symbols)
      for (const auto &[input, dims] : inputs)
        for (unsigned dim : dims)
          if (name == symbol || name == fmt::format("{}.{}", input, dim))
            return symbol;
    if (symbols.empty())
      fail("--pad: {}; all sizes of this export are fixed, export it with dynamic_shapes (docs/export.md)", describeOther(program, name));
    fail("--pad: {}; what can be padded is {}", describeOther(program, name), listOf(symbols));
  };
  for (const std::string &text : texts) {
    size_t equals = text.find('=');
    std::string how = equals == std::string::npos ? "" : text.substr(equals + 1);
    bool isMask = how.starts_with("mask:") && how.size() > 5;
    if (equals == 0 || (how != "batch" && !isMask))
      usage("--pad '{}': expected SYMBOL=batch or SYMBOL=mask:INPUT", text);
    std::string symbol = symbolOf(text.substr(0, equals));
    PaddingClaim claim;
    if (isMask)
      claim.mask = how.substr(5);
    if (claim.mask && !symbols[symbol].contains(*claim.mask))
      fail("--pad '{}': input '{}' has no dimension {}, so it cannot mask it; inputs that have it are {}", text, *claim.mask, symbol, listOf({{symbol, symbols[symbol]}}));
    if (!claims.emplace(symbol, claim).second)
      usage("--pad: {} is given twice", symbol);
  }
  return claims;
}

std::map<std::string, PaddingProof> decidePadding(ModuleOp imported, const ExportedProgram &program, const Pt2Archive &archive, const ImportOptions &options,
                                                  const PaddingClaims &claims) {
  std::map<std::string, PaddingProof> proofs;
  for (const auto &[symbol, dims] : symbolDims(program, options.pinned)) {
    auto claim = claims.find(symbol);
    std::optional<PaddingClaim> claimed = claim == claims.end() ? std::nullopt : std::optional(claim->second);
    PaddingProof &proof = proofs[symbol] = decide(imported, program, archive, options, symbol, dims, claimed);
    proof.isClaimed = claimed.has_value();
    if (claimed && !proof.rule && !proof.hasNothingSmaller)
      fail("--pad {}={}: it cannot be shown that padding is harmless in bucket '{}': {}; leave the option out, or change the model there", symbol,
           claimed->mask ? "mask:" + *claimed->mask : "batch", options.bucket, proof.reason);
  }
  return proofs;
}

namespace {

/// An input has one value for all its padding.
bool hasOtherValue(const Manifest &manifest, const PaddingRule &rule) {
  for (const PaddingRule &known : manifest.padding)
    for (const PaddedInput &a : known.inputs)
      for (const PaddedInput &b : rule.inputs)
        if (a.name == b.name && a.value && b.value && a.value != b.value)
          return true;
  return false;
}

} // namespace

void describePadding(const std::vector<std::map<std::string, PaddingProof>> &buckets, Manifest &manifest) {
  if (buckets.empty())
    return;
  for (const auto &[symbol, ofFirst] : buckets.front()) {
    std::string reason = ofFirst.reason; // stays when nothing is smaller in any bucket
    const PaddingProof *first = nullptr;
    for (const std::map<std::string, PaddingProof> &bucket : buckets) {
      const PaddingProof &proof = bucket.at(symbol);
      if (proof.hasNothingSmaller || (first && !reason.empty()))
        continue;
      reason = !proof.rule ? proof.reason : first && proof.rule != first->rule ? "buckets need different padding" : "";
      first = first ? first : &proof;
    }
    if (reason.empty() && hasOtherValue(manifest, *first->rule))
      reason = "a mask would need two values for its padding";
    if (!reason.empty() && first && first->isClaimed)
      fail("--pad: padding of {} cannot be used beside that of other symbols: {}; claim those with the same value, or leave the option out", symbol, reason);
    if (reason.empty())
      manifest.padding.push_back(*first->rule);
    else
      manifest.notPadded[symbol] = reason;
  }
}

} // namespace ditc
