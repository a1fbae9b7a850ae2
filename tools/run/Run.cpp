// SPDX-License-Identifier: Apache-2.0
//
// ditc-run run: inputs from a safetensors file, outputs into one, and how far they are from a reference.
#include "tools/run/Commands.h"

#include "runtime/AtomicFile.h"
#include "runtime/Compare.h"
#include "runtime/JsonText.h"
#include "runtime/Error.h"

#include <chrono>
#include <cstdio>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace ditc::run {
namespace {

using Json = nlohmann::ordered_json;

struct Checked {
  std::string name;
  Comparison comparison;
  bool passed = false;
};

/// Every output against its tensor in the reference; both must have the same outputs.
std::vector<Checked> checkOutputs(const RunArgs &args, const std::map<std::string, HostTensor> &outputs,
                                  const Manifest &manifest) {
  SafetensorsFile reference = SafetensorsFile::open(args.check);
  std::map<std::string, TensorView> expected;
  for (const auto &[name, view] : reference.tensors()) {
    std::string port = portOf(name, manifest.outputs, reference.tensors().size());
    if (!outputs.contains(port))
      fail("the reference '{}' has a tensor '{}', which is no output of '{}'", args.check, name, args.package);
    expected[port] = realParts(view);
  }
  std::vector<Checked> out;
  for (const auto &[name, tensor] : outputs) {
    auto found = expected.find(name);
    if (found == expected.end())
      fail("the reference '{}' has no tensor '{}', which '{}' gives as output", args.check, name, args.package);
    Comparison comparison = compare(name, tensor.view(), found->second);
    out.push_back({name, comparison, comparison.within(args.tolerance)});
  }
  return out;
}

Json toJson(const Checked &checked) {
  const Comparison &c = checked.comparison;
  return {{"name", checked.name},
          {"passed", checked.passed},
          {"relative_l2", c.relativeL2},
          {"max_abs", c.maxAbs},
          {"cosine", c.cosine},
          {"non_finite", c.nonFinite},
          {"non_finite_reference", c.nonFiniteReference},
          {"worst", c.worst},
          {"count", c.count}};
}

std::string toText(const Checked &checked, double tolerance) {
  const Comparison &c = checked.comparison;
  std::string out = fmt::format("check    {:<24} relative L2 {:.3e}  max abs {:.3e} at [{}]  cosine {:.8f}  {}\n",
                                checked.name, c.relativeL2, c.maxAbs, fmt::join(c.worst, ", "), c.cosine,
                                checked.passed ? "ok" : "FAILED");
  if (c.nonFinite > 0)
    out += fmt::format("         {} of {} elements of the output are NaN or infinite\n", c.nonFinite, c.count);
  if (c.nonFiniteReference > 0)
    out += fmt::format("         {} of {} elements of the reference are NaN or infinite\n", c.nonFiniteReference,
                       c.count);
  if (!checked.passed && c.nonFinite + c.nonFiniteReference == 0)
    out += fmt::format("         the tolerance is {:.3e} (--tolerance)\n", tolerance);
  return out;
}

struct Outcome {
  std::string bucket;
  std::vector<PortDesc> ports; ///< outputs, without padding
  std::vector<double> seconds; ///< of each run
  std::vector<Checked> checks;
  bool passed = true;
};

void print(const RunArgs &args, const Session &session, const Outcome &outcome) {
  std::vector<std::string> notes = notesOf(session);
  if (args.json) {
    Json out = {{"package", args.package}, {"bucket", outcome.bucket}, {"device", args.device},
                {"seconds", outcome.seconds}, {"notes", notes}, {"outputs", Json::array()}};
    for (const PortDesc &port : outcome.ports)
      out["outputs"].push_back({{"name", port.name}, {"dtype", nameOf(port.dtype)}, {"shape", port.shape}});
    if (!args.check.empty()) {
      out["check"] = {{"reference", args.check}, {"tolerance", args.tolerance}, {"passed", outcome.passed}};
      for (const Checked &checked : outcome.checks)
        out["check"]["outputs"].push_back(toJson(checked));
    }
    fmt::print("{}\n", jsonText(out, 2));
    return;
  }
  for (const std::string &note : notes)
    fmt::print(stderr, "ditc-run: note: {}\n", note);
  fmt::print("bucket   {} on {}\n", outcome.bucket, args.device);
  for (const PortDesc &port : outcome.ports)
    fmt::print("output   {:<24} {}\n", port.name, describe(port.dtype, port.shape));
  fmt::print("time     {}{}\n", formatSeconds(medianOf(outcome.seconds)),
             outcome.seconds.size() > 1 ? fmt::format(" (median of {})", outcome.seconds.size()) : "");
  for (const Checked &checked : outcome.checks)
    fmt::print("{}", toText(checked, args.tolerance));
}

/// No file that is read is written over.
void checkOutputPath(const RunArgs &args) {
  if (args.outputs.empty())
    return;
  for (const std::string &input : {args.package, args.inputs, args.check})
    refuseToReplace(args.outputs, input);
  for (const std::string &input : args.weights)
    refuseToReplace(args.outputs, input);
}

} // namespace

int runCommand(const RunArgs &args) {
  checkOutputPath(args);
  std::shared_ptr<Session> session = openSession(args);
  SafetensorsFile file = SafetensorsFile::open(args.inputs);
  std::vector<TensorRef> inputs = readInputs(file, session->package().manifest());
  Outcome outcome;
  if (args.pad)
    needPadding(session->package());
  BucketChoice choice = chooseBucket(session->package(), session->plans(), args.bucket, inputs,
                                     args.pad ? Padding::Allowed : Padding::No);
  outcome.bucket = choice.bucket;
  outcome.ports = outputPorts(session->package().manifest(), session->plans().at(choice.bucket), choice.sizes);
  session->bind(outcome.bucket); // so that the first time does not count loading
  std::map<std::string, HostTensor> outputs = allocate(outcome.ports);
  std::vector<TensorRef> outputRefs = refsTo(outputs);
  Context context(session);
  RunRequest request{outcome.bucket, inputs, outputRefs, false, args.poison, nullptr, args.pad};
  for (unsigned i = 0; i < args.repeat; ++i) {
    auto start = std::chrono::steady_clock::now();
    context.run(request);
    outcome.seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  if (!args.outputs.empty()) {
    std::map<std::string, TensorView> views;
    for (const auto &[name, tensor] : outputs)
      views[name] = tensor.view();
    writeSafetensors(args.outputs, views);
  }
  if (!args.check.empty())
    outcome.checks = checkOutputs(args, outputs, session->package().manifest());
  for (const Checked &checked : outcome.checks)
    outcome.passed = outcome.passed && checked.passed;
  print(args, *session, outcome);
  return outcome.passed ? 0 : 1;
}

} // namespace ditc::run
