// SPDX-License-Identifier: Apache-2.0
#include "compiler/WeightSource.h"

#include "runtime/Error.h"

#include <filesystem>
#include <fmt/ranges.h>
#include <numeric>

namespace ditc {

namespace fs = std::filesystem;

static std::string describe(DType dtype, const std::vector<int64_t> &shape) { return fmt::format("{} [{}]", nameOf(dtype), fmt::join(shape, ", ")); }

WeightSource::WeightSource(const std::vector<Pt2Archive> &archives, const std::vector<std::string> &safetensorsPaths) {
  for (const Pt2Archive &archive : archives)
    addArchive(archive);
  for (const SafetensorsFile &file : openSafetensors(safetensorsPaths))
    addExternal(file);
  if (!problems.empty())
    fail("{} weights do not fit the model:\n  {}", problems.size(), fmt::join(problems, "\n  "));
}

void WeightSource::addArchive(const Pt2Archive &archive) {
  std::map<std::string, StoredTensor> tensors = archive.weights();
  for (const auto &[name, tensor] : archive.constants()) // tables without bytes come with the weights
    if (!tensor.hasBytes())
      tensors.try_emplace(name, tensor);
  for (const auto &[name, tensor] : tensors) {
    auto [entry, isNew] = declared.try_emplace(name, tensor);
    if (isNew)
      continue;
    StoredTensor &known = entry->second;
    if (known.dtype != tensor.dtype || known.sizes != tensor.sizes)
      problems.push_back(fmt::format("'{}' is {} in {} and {} in {}: exports of one package must be of one model", name, describe(known.dtype, known.sizes), known.file,
                                     describe(tensor.dtype, tensor.sizes), tensor.file));
    else if (known.hasBytes() && tensor.hasBytes() && readContiguous(known) != readContiguous(tensor))
      problems.push_back(fmt::format("'{}' has other values in {} than in {}: exports of one package must share their weights", name, known.file, tensor.file));
    else if (!known.hasBytes())
      known = tensor;
  }
}

void WeightSource::addExternal(const SafetensorsFile &file) {
  for (const auto &[name, view] : file.tensors()) {
    auto weight = declared.find(name);
    if (weight == declared.end()) {
      extra.push_back(name);
      continue;
    }
    const StoredTensor &expected = weight->second;
    if (expected.dtype != view.dtype || expected.sizes != view.shape)
      problems.push_back(fmt::format("'{}' is {} in {}, the model has {}", name, describe(view.dtype, view.shape), file.path(), describe(expected.dtype, expected.sizes)));
    if (!external.try_emplace(name, External{file, name}).second)
      problems.push_back(fmt::format("'{}' is in {} and in {}", name, external.at(name).file.path(), file.path()));
  }
}

bool WeightSource::hasAnyBytes() const {
  if (!external.empty())
    return true;
  for (const auto &[name, tensor] : declared)
    if (tensor.hasBytes() && tensor.byteSize > 0)
      return true;
  return false;
}

void WeightSource::checkComplete(const std::set<std::string> &used) const {
  std::vector<std::string> missing;
  for (const std::string &name : used) {
    auto weight = declared.find(name);
    if (!external.contains(name) && (weight == declared.end() || !weight->second.hasBytes()))
      missing.push_back(weight == declared.end() ? name : fmt::format("{}: {}", name, describe(weight->second.dtype, weight->second.sizes)));
  }
  if (missing.empty() || missing.size() == used.size())
    return;
  fail("{} of {} weights have no bytes; give the files that hold them with --weights:\n  {}", missing.size(), used.size(), fmt::join(missing, "\n  "));
}

void WeightSource::embed(const std::string &name, PackageWriter &writer, ManifestWeight &weight, std::map<std::string, std::string> &stored) const {
  if (auto source = external.find(name); source != external.end()) {
    weight.entry = "weights/" + name;
    writer.add(weight.entry, source->second.file.tensors().at(name).bytes);
    return;
  }
  const StoredTensor &tensor = declared.at(name);
  if (!tensor.hasBytes())
    return;
  // Tied weights share a storage: one member serves them all.
  std::string identity = fmt::format("{} {} {} {} {}", tensor.file, tensor.storageId, tensor.storageOffset, fmt::join(tensor.sizes, ","), fmt::join(tensor.strides, ","));
  auto [entry, isNew] = stored.try_emplace(identity, "weights/" + name);
  weight.entry = entry->second;
  if (isNew)
    writer.add(weight.entry, readContiguous(tensor));
}

/// `file` as seen from the folder of the package.
static std::string relativeTo(const std::string &file, const std::string &packagePath) {
  fs::path folder = fs::absolute(packagePath).parent_path();
  return fs::absolute(file).lexically_relative(folder).string();
}

void WeightSource::refer(const std::string &name, const std::string &packagePath, ManifestWeight &weight) const {
  if (auto source = external.find(name); source != external.end()) {
    weight.file = relativeTo(source->second.file.path(), packagePath);
    weight.offset = source->second.file.byteOffset(name);
    weight.bytes = source->second.file.tensors().at(name).bytes.size();
    return;
  }
  const StoredTensor &tensor = declared.at(name);
  if (!tensor.hasBytes())
    return;
  int64_t last = 0;
  for (size_t i = 0; i < tensor.sizes.size(); ++i)
    last += (tensor.sizes[i] - 1) * tensor.strides[i];
  weight.file = relativeTo(tensor.file, packagePath);
  weight.offset = tensor.byteOffset + tensor.storageOffset * byteSize(tensor.dtype);
  weight.bytes = tensor.elementCount() == 0 ? 0 : (last + 1) * byteSize(tensor.dtype);
  weight.strides = tensor.strides;
}

void WeightSource::store(const std::set<std::string> &used, WeightsMode mode, const std::string &packagePath, PackageWriter &writer, Manifest &manifest) const {
  std::map<std::string, std::string> stored;
  for (const std::string &name : used) {
    ManifestWeight &weight = manifest.weights[name];
    auto tensor = declared.find(name);
    if (tensor == declared.end())
      continue; // described by the program alone
    weight.dtype = tensor->second.dtype;
    weight.shape = tensor->second.sizes;
    if (mode == WeightsMode::Embed)
      embed(name, writer, weight, stored);
    else if (mode == WeightsMode::Reference)
      refer(name, packagePath, weight);
  }
}

} // namespace ditc
