// SPDX-License-Identifier: Apache-2.0
//
// The proof tries ways to fill the inputs, each by a walk (PaddingWalk.h), until one hides padding from every row.
#include "compiler/padding/PaddingProof.h"

#include "compiler/padding/PaddingWalk.h"

#include <fmt/format.h>
#include <limits>

using namespace mlir;

namespace ditc {

namespace {

/// A mask below this leaves a key nothing beside any other key's score, masked by -10000 or not.
constexpr double kSurelyMasked = -1e9;
/// What models add for "masked"; enough as long as a row has one real key.
constexpr double kUsuallyMasked = -1e4;

//===-- Ways to fill inputs ---------------------------------------------------------------------------===//

/// Values that may mean "masked" in an input of this type, in the order in which they are tried.
std::vector<double> maskValues(Type element) {
  if (element.isInteger(1) || is8BitFloat(element)) // which has no infinity, nor anything else that masks
    return {0, 1};
  if (isa<FloatType>(element))
    return {0, -std::numeric_limits<double>::infinity(), 1};
  // Far below every mask, and -10000 times it is a number in every type.
  return element.getIntOrFloatBitWidth() >= 32 ? std::vector<double>{0, -1073741824, 1} : std::vector<double>{0, 1};
}

/// Of inputs that may be masks; complex ones are not.
std::map<std::string, Type> typesOfInputs(func::FuncOp function) {
  std::map<std::string, Type> types;
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (auto name = function.getArgAttrOfType<StringAttr>(i, "dit.name"); name && !function.getArgAttr(i, "dit.complex"))
      types[name.str()] = elementOf(function.getArgument(i));
  return types;
}

/// Rows everywhere, then a value in one input, then in two.
std::vector<Fills> waysToFill(const std::map<std::string, Type> &types, const InputDims &inputDims) {
  std::vector<Fills> ways = {{}};
  std::vector<Fills> single;
  for (const auto &[name, dims] : inputDims)
    for (double value : types.contains(name) ? maskValues(types.at(name)) : std::vector<double>{})
      single.push_back({{name, value}});
  ways.insert(ways.end(), single.begin(), single.end());
  for (const Fills &a : single)
    for (const Fills &b : single)
      if (a.begin()->first < b.begin()->first)
        ways.push_back({*a.begin(), *b.begin()});
  return ways;
}

std::vector<Fills> waysToFill(const std::map<std::string, Type> &types, const PaddingClaim &claim) {
  std::vector<Fills> ways;
  if (!claim.mask)
    return {{}};
  for (double value : types.contains(*claim.mask) ? maskValues(types.at(*claim.mask)) : std::vector<double>{})
    ways.push_back({{*claim.mask, value}});
  return ways;
}

PaddingRule ruleOf(const std::string &symbol, const InputDims &inputDims, const Fills &fills, std::vector<CroppedOutput> crops) {
  PaddingRule rule{symbol, {}, std::move(crops)};
  for (const auto &[name, dims] : inputDims)
    for (unsigned dim : dims) {
      auto fill = fills.find(name);
      rule.inputs.push_back({name, dim, fill == fills.end() ? std::nullopt : std::optional(fill->second)});
    }
  return rule;
}

//===-- Trying them ---------------------------------------------------------------------------------------===//

class Prover {
public:
  Prover(func::FuncOp function, func::FuncOp other, const SymbolSizes &symbol, const InputDims &inputDims)
      : function(function), other(other), symbol(symbol), inputDims(inputDims) {}

  /// Why there is no rule goes to `reason`, if that says more than what stands there.
  std::optional<PaddingRule> attempt(const Fills &fills, double highestMask, bool isClaimed, std::string &reason) const {
    try {
      std::vector<double> added;
      std::vector<CroppedOutput> crops = walk(fills, highestMask, added);
      if (!isClaimed && !isBelowOwnMasks(fills, added))
        throw Refusal{"a row whose keys are all masked would see padding like them; if every row has a key, claim it with --pad", true};
      return ruleOf(symbol.symbol, inputDims, fills, std::move(crops));
    } catch (const Refusal &refusal) {
      if (reason.empty() || refusal.isNear)
        reason = refusal.text;
      return std::nullopt;
    }
  }

private:
  std::vector<CroppedOutput> walk(const Fills &fills, double highestMask, std::vector<double> &added) const {
    PaddingWalk walk(symbol, highestMask);
    std::vector<CroppedOutput> crops = walk.run(function, other, inputDims, fills);
    added = walk.added();
    return crops;
  }

  /// Lower than what the model adds for its own hidden keys, which may be all that a row has.
  bool isBelowOwnMasks(const Fills &fills, const std::vector<double> &added) const {
    for (double own : added.empty() ? std::vector<double>{} : std::vector<double>{0, 1}) {
      Fills ownFills = fills;
      for (auto &[name, value] : ownFills)
        value = own;
      std::vector<double> ownAdded;
      walk(ownFills, std::numeric_limits<double>::infinity(), ownAdded);
      for (size_t i = 0; i < added.size(); ++i)
        if (added[i] != -std::numeric_limits<double>::infinity() && !(added[i] < ownAdded[i] && added[i] <= ownAdded[i] + kSurelyMasked))
          return false;
    }
    return true;
  }

  func::FuncOp function, other;
  const SymbolSizes &symbol;
  const InputDims &inputDims;
};

} // namespace

PaddingProof provePadding(ModuleOp bucket, ModuleOp other, const SymbolSizes &symbol, const std::map<std::string, std::vector<unsigned>> &inputDims,
                          const std::optional<PaddingClaim> &claim) {
  func::FuncOp function = *bucket.getOps<func::FuncOp>().begin();
  std::map<std::string, Type> types = typesOfInputs(function);
  if (claim && claim->mask && !inputDims.contains(*claim->mask))
    return {{}, fmt::format("input '{}' has no dimension {}, so it cannot mask it", *claim->mask, symbol.symbol)};
  Prover prover(function, *other.getOps<func::FuncOp>().begin(), symbol, inputDims);
  PaddingProof proof;
  for (double highestMask : {kSurelyMasked, kUsuallyMasked}) {
    if (highestMask == kUsuallyMasked && !claim)
      break;
    for (const Fills &fills : claim ? waysToFill(types, *claim) : waysToFill(types, inputDims))
      if (proof.rule = prover.attempt(fills, highestMask, claim.has_value(), proof.reason); proof.rule)
        return {proof.rule, ""};
  }
  return proof;
}

} // namespace ditc
