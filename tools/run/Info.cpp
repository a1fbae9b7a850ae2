// SPDX-License-Identifier: Apache-2.0
//
// ditc-run info: what a package is, and whether it is whole.
#include "tools/run/Commands.h"

#include "runtime/Package.h"
#include "runtime/JsonText.h"

#include <cstdio>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace ditc::run {
namespace {

using Json = nlohmann::ordered_json;

struct WeightSum {
  size_t inPackage = 0, inFiles = 0, absent = 0;
  uint64_t bytes = 0;
};

uint64_t bytesOf(const std::string &name, const ManifestWeight &weight) {
  return PortDesc{name, weight.dtype, weight.shape}.bytes();
}

/// What was folded from constants and is stored with the package, compressed or not.
struct TableSum {
  size_t count = 0;
  uint64_t bytes = 0, stored = 0;
};

TableSum tablesOf(const Package &package) {
  TableSum sum;
  for (const std::string &member : package.members()) {
    if (!member.starts_with(kConstantPrefix))
      continue;
    ++sum.count;
    sum.bytes += package.unpackedBytes(member);
    sum.stored += package.memberBytes(member);
  }
  return sum;
}

const char *placeOf(const ManifestWeight &weight) {
  return !weight.entry.empty() ? "package" : !weight.file.empty() ? weight.file.c_str() : "not here";
}

WeightSum sumOf(const Manifest &manifest) {
  WeightSum sum;
  for (const auto &[name, weight] : manifest.weights) {
    sum.bytes += bytesOf(name, weight);
    ++(!weight.entry.empty() ? sum.inPackage : !weight.file.empty() ? sum.inFiles : sum.absent);
  }
  return sum;
}

void printBucket(const Package &package, const ManifestBucket &bucket) {
  std::vector<std::string> symbols;
  for (const auto &[name, value] : bucket.symbols)
    symbols.push_back(fmt::format("{}={}", name, value));
  fmt::print("bucket    {}{}{}\n", bucket.name, symbols.empty() ? "" : ": ", fmt::join(symbols, ", "));
  bool first = true; // inputs and outputs are the same for all targets
  for (const auto &[target, member] : bucket.plans) {
    Plan plan = package.plan(bucket.name, target);
    for (const PortDesc &port : plan.inputs)
      if (first)
        fmt::print("  input   {:<28} {}\n", port.name, describe(port.dtype, port.shape));
    for (const PortDesc &port : plan.outputs)
      if (first)
        fmt::print("  output  {:<28} {}\n", port.name, describe(port.dtype, port.shape));
    first = false;
    fmt::print("  {:<7} {} ops a run, {} once for the weights; {} scratch a context, {} prepared weights\n", target,
               plan.step.size(), plan.prepare.size(), formatBytes(plan.arenaBytes), formatBytes(plan.preparedBytes));
  }
}

void printPadding(const Manifest &manifest) {
  for (const PaddingRule &rule : manifest.padding) {
    std::vector<std::string> inputs, outputs;
    for (const PaddedInput &input : rule.inputs)
      inputs.push_back(fmt::format("{} with {}", input.name, input.value ? fmt::format("{}", *input.value) : "rows"));
    for (const CroppedOutput &output : rule.outputs)
      outputs.push_back(output.name);
    fmt::print("padding   {} of a bucket may be smaller: {}{}{}\n", rule.symbol, fmt::join(inputs, ", "),
               outputs.empty() ? "" : "; crops ", fmt::join(outputs, ", "));
  }
  for (const auto &[symbol, reason] : manifest.notPadded)
    fmt::print("padding   {} not: {}\n", symbol, reason);
}

void printText(const Package &package, const InfoArgs &args) {
  const Manifest &manifest = package.manifest();
  WeightSum sum = sumOf(manifest);
  fmt::print("package   {}\nmodel     {}\nmade by   {}, torch {}\n", package.path(), manifest.modelName,
             manifest.producer, manifest.torchVersion.empty() ? "unknown" : manifest.torchVersion);
  for (const ManifestTarget &target : manifest.targets)
    fmt::print("target    {} {} {}\n", target.name, target.triple, target.cpu);
  fmt::print("weights   {} ({}): {} in the package, {} in other files, {} to be handed over\n", manifest.weights.size(),
             formatBytes(sum.bytes), sum.inPackage, sum.inFiles, sum.absent);
  if (TableSum tables = tablesOf(package); tables.count > 0)
    fmt::print("tables    {} ({}): {} in the package\n", tables.count, formatBytes(tables.bytes), formatBytes(tables.stored));
  for (const auto &[name, value] : manifest.constantInputs)
    fmt::print("constant  {} = {}\n", name, describe(value));
  for (const std::string &name : manifest.pinned)
    fmt::print("pinned    {}\n", name);
  for (const ManifestBucket &bucket : manifest.buckets)
    printBucket(package, bucket);
  printPadding(manifest);
  if (args.verify)
    fmt::print("verified  all {} members have the hashes of the manifest\n", package.members().size());
  for (const auto &[name, weight] : manifest.weights)
    if (args.listWeights)
      fmt::print("weight    {:<48} {:<24} {}\n", name, describe(weight.dtype, weight.shape), placeOf(weight));
}

Json portsToJson(const std::vector<PortDesc> &ports) {
  Json out = Json::array();
  for (const PortDesc &port : ports)
    out.push_back({{"name", port.name}, {"dtype", nameOf(port.dtype)}, {"shape", port.shape}});
  return out;
}

void printJson(const Package &package, const InfoArgs &args) {
  Json out = {{"package", package.path()}, {"manifest", Json::parse(writeManifest(package.manifest()))}};
  if (!args.listWeights)
    out["manifest"].erase("weights");
  WeightSum sum = sumOf(package.manifest());
  out["weights"] = {
      {"bytes", sum.bytes}, {"in_package", sum.inPackage}, {"in_files", sum.inFiles}, {"absent", sum.absent}};
  TableSum tables = tablesOf(package);
  out["tables"] = {{"count", tables.count}, {"bytes", tables.bytes}, {"stored_bytes", tables.stored}};
  out["verified"] = args.verify;
  out["buckets"] = Json::array();
  for (const ManifestBucket &bucket : package.manifest().buckets) {
    Json described = {{"name", bucket.name}};
    for (const auto &[target, member] : bucket.plans) {
      Plan plan = package.plan(bucket.name, target);
      described["inputs"] = portsToJson(plan.inputs);
      described["outputs"] = portsToJson(plan.outputs);
      described["plans"][target] = {{"arena_bytes", plan.arenaBytes},
                                    {"prepared_bytes", plan.preparedBytes},
                                    {"step_ops", plan.step.size()},
                                    {"prepare_ops", plan.prepare.size()}};
    }
    out["buckets"].push_back(std::move(described));
  }
  fmt::print("{}\n", jsonText(out, 2));
}

} // namespace

int infoCommand(const InfoArgs &args) {
  Package package = Package::open(args.package);
  for (const std::string &member : package.members())
    if (args.verify)
      package.verify(member);
  if (args.json)
    printJson(package, args);
  else
    printText(package, args);
  return 0;
}

} // namespace ditc::run
