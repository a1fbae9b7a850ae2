// SPDX-License-Identifier: Apache-2.0
#include "compiler/CompileInputs.h"

#include "runtime/Error.h"
#include "runtime/Hash.h"
#include "runtime/MappedFile.h"
#include "runtime/Safetensors.h"

#include <filesystem>
#include <fmt/ranges.h>
#include <unordered_set>

using namespace mlir;

namespace ditc {

/// A static export among several is one bucket, named by the user or after its file.
static void nameAfterModel(const ModelPath &path, std::vector<Bucket> &buckets) {
  std::string name = path.bucket.empty() ? std::filesystem::path(path.path).stem().string() : path.bucket;
  if (buckets.size() == 1)
    buckets.front().name = name;
  else
    for (Bucket &bucket : buckets)
      bucket.name = name + "-" + bucket.name;
}

static void checkBucketNames(const std::vector<Model> &models) {
  std::unordered_set<std::string> names;
  for (const Model &model : models)
    for (const Bucket &bucket : model.buckets)
      if (!names.insert(bucket.name).second)
        fail("two buckets are called '{}'; give the models names: NAME=MODEL.pt2", bucket.name);
}

/// Buckets of one export with equal sizes are the same code twice, and a run by shapes finds the first.
static void warnOfEqualBuckets(CompileState &state, const std::vector<Bucket> &buckets) {
  for (size_t i = 0; i < buckets.size(); ++i)
    for (size_t earlier = 0; earlier < i; ++earlier)
      if (buckets[i].symbols == buckets[earlier].symbols)
        state.result.warnings.push_back(fmt::format("the buckets '{}' and '{}' have the same sizes; inputs find the first, the second runs where it is asked for by name",
                                                    buckets[earlier].name, buckets[i].name));
}

static std::map<std::string, HostTensor> readPins(const CompileOptions &options) {
  std::map<std::string, HostTensor> pins;
  for (const auto &[name, path] : options.pins) {
    SafetensorsFile file = SafetensorsFile::open(path);
    auto tensor = file.tensors().find(name);
    if (tensor == file.tensors().end())
      fail("--pin {}={}: the file has no tensor of that name", name, path);
    const TensorView &view = tensor->second;
    pins[name] = {view.dtype, view.shape, {view.bytes.begin(), view.bytes.end()}};
  }
  return pins;
}

static Model readModel(CompileState &state, const ModelPath &path) {
  state.progress.step("read " + path.path);
  Pt2Archive archive = Pt2Archive::open(path.path);
  ExportedProgram program = parseExportedProgram(archive.programJson(), path.path);
  std::vector<Bucket> buckets = resolveBuckets(program, state.options.buckets);
  if (!path.bucket.empty() || state.options.models.size() > 1)
    nameAfterModel(path, buckets);
  warnOfEqualBuckets(state, buckets);
  for (const std::string &warning : archive.warnings())
    state.result.warnings.push_back(warning);
  return {std::move(archive), std::move(program), std::move(buckets)};
}

CompileInputs readInputs(CompileState &state) {
  CompileInputs inputs;
  for (const ModelPath &path : state.options.models)
    inputs.models.push_back(readModel(state, path));
  checkBucketNames(inputs.models);
  inputs.pinned = readPins(state.options);
  if (!state.options.padding.empty() && inputs.models.size() > 1)
    fail("--pad is for one export with symbolic sizes; {} exports of fixed sizes have none", inputs.models.size());
  inputs.paddingClaims = parsePaddingClaims(inputs.models.front().program, state.options.padding);
  return inputs;
}

WeightSource readWeights(CompileState &state, const CompileInputs &inputs) {
  std::vector<Pt2Archive> archives;
  for (const Model &model : inputs.models)
    archives.push_back(model.archive);
  if (!state.options.weights.empty())
    state.progress.step("read weights");
  WeightSource weights(archives, state.options.weights);
  if (!weights.extraNames().empty())
    state.result.warnings.push_back(
        fmt::format("{} tensors of --weights are not part of the model: {}", weights.extraNames().size(), fmt::join(weights.extraNames(), ", ")));
  return weights;
}

/// The whole name of the GPU that the user named; empty when none is.
static std::string findTuningGpu(const CompileOptions &options, const tuning::Database &database) {
  if (options.tuningGpu.empty())
    return "";
  std::set<std::string> named = database.gpusNamed(options.tuningGpu), all = database.gpusNamed("");
  if (named.size() == 1)
    return *named.begin();
  fail("--tuning-gpu '{}': {}; there are measurements of {}", options.tuningGpu,
       named.empty() ? "no GPU that was measured is called so" : "several GPUs are called so", fmt::join(named.empty() ? all : named, ", "));
}

TuningChoice readTuning(const CompileOptions &options) {
  if (!options.useTuning)
    return {};
  TuningChoice choice{shippedTuning(), {}, {}};
  for (const std::string &path : options.tuning) {
    choice.key += hashHex(MappedFile::open(path)->bytes()) + "\n";
    choice.database.overrideBy(tuning::Database::open(path));
  }
  choice.gpu = findTuningGpu(options, choice.database);
  return choice;
}

} // namespace ditc
