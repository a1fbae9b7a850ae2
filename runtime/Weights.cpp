// SPDX-License-Identifier: Apache-2.0
//
// Where weights come from. Dense ones are used where they are mapped; strided ones are gathered once.
#include "runtime/Weights.h"

#include "runtime/Error.h"
#include "runtime/Hash.h"
#include "runtime/MappedFile.h"

#include <filesystem>

namespace ditc {

WeightStore::WeightStore(const Package &package, std::shared_ptr<Device> device, bool verify)
    : package(package), device(std::move(device)), verify(verify) {}

const ManifestWeight &WeightStore::check(const TensorRef &tensor, std::string_view source) const {
  auto found = package.manifest().weights.find(tensor.name);
  if (found == package.manifest().weights.end())
    fail("{}: '{}' has no weight '{}'; ditc-run info lists its weights", source, package.path(), tensor.name);
  const ManifestWeight &weight = found->second;
  if (weight.dtype != tensor.dtype || weight.shape != tensor.shape)
    fail("{}: weight '{}' is {}, '{}' expects {}; convert it or compile the package for it", source, tensor.name,
         describe(tensor.dtype, tensor.shape), package.path(), describe(weight.dtype, weight.shape));
  if (!tensor.strides.empty() && tensor.strides.size() != tensor.shape.size())
    fail("{}: weight '{}' has {} strides for {} dimensions", source, tensor.name, tensor.strides.size(),
         tensor.shape.size());
  if (!tensor.data && PortDesc{tensor.name, tensor.dtype, tensor.shape}.bytes() > 0)
    fail("{}: weight '{}' has no data (null pointer)", source, tensor.name);
  return weight;
}

std::vector<std::string> WeightStore::useFiles(const std::vector<std::string> &paths) {
  std::vector<std::string> unknown;
  for (const SafetensorsFile &file : openSafetensors(paths))
    for (const auto &[name, view] : file.tensors()) {
      if (!package.manifest().weights.contains(name)) {
        unknown.push_back(name);
        continue;
      }
      check(refTo(name, view), fmt::format("'{}'", file.path()));
      resident[name] = device->makeResident(view.bytes, std::make_shared<SafetensorsFile>(file),
                                            fmt::format("weight '{}'", name));
    }
  return unknown;
}

void WeightStore::set(std::span<const TensorRef> tensors, Ownership ownership) {
  for (const TensorRef &tensor : tensors)
    check(tensor, "set weights");
  for (const TensorRef &tensor : tensors) {
    std::string purpose = fmt::format("weight '{}'", tensor.name);
    uint64_t bytes = PortDesc{tensor.name, tensor.dtype, tensor.shape}.bytes();
    std::span<const uint8_t> source(static_cast<const uint8_t *>(tensor.data), bytes);
    if (tensor.isDense() && ownership == Ownership::Borrow) {
      resident[tensor.name] = device->makeResident(source, nullptr, purpose);
      continue;
    }
    std::vector<uint8_t> dense;
    if (!tensor.isDense()) {
      dense.resize(bytes);
      copyToDense(reinterpret_cast<char *>(dense.data()), tensor);
      source = dense;
    }
    MemoryRef memory = device->allocate(bytes, purpose);
    device->upload(memory->data(), source);
    resident[tensor.name] = memory;
  }
}

std::vector<std::string> WeightStore::missing() const {
  std::vector<std::string> names;
  for (const auto &[name, weight] : package.manifest().weights)
    if (weight.entry.empty() && weight.file.empty() && !resident.contains(name))
      names.push_back(name);
  return names;
}

std::span<const uint8_t> WeightStore::rangeOfFile(const std::string &name, const ManifestWeight &weight,
                                                  std::shared_ptr<const void> &owner) {
  std::string path = (std::filesystem::path(package.path()).parent_path() / weight.file).string();
  std::shared_ptr<const MappedFile> &file = files[path];
  try {
    if (!file)
      file = MappedFile::open(path);
  } catch (const Error &error) {
    fail("weight '{}' is in the file '{}' that belongs to '{}': {}; put the file there, or hand the weights over as "
         "safetensors",
         name, weight.file, package.path(), error.what());
  }
  uint64_t size = file->bytes().size();
  if (weight.offset > size || weight.bytes > size - weight.offset)
    fail("weight '{}' covers {} bytes at {} of '{}', which has {}; it is not the file that the package was compiled "
         "with, put that one there or compile again",
         name, weight.bytes, weight.offset, path, size);
  std::span<const uint8_t> range = file->bytes().subspan(weight.offset, weight.bytes);
  if (verify && !weight.xxh128.empty() && hashHex(range) != weight.xxh128)
    fail("weight '{}' in '{}' does not have the content that the package was compiled with; put the right file there, "
         "hand the weights over as safetensors, or compile again",
         name, path);
  owner = file;
  return range;
}

MemoryRef WeightStore::fromFile(const std::string &name, const ManifestWeight &weight) {
  std::shared_ptr<const void> owner;
  std::span<const uint8_t> range = rangeOfFile(name, weight, owner);
  std::string purpose = fmt::format("weight '{}'", name);
  uint64_t bytes = PortDesc{name, weight.dtype, weight.shape}.bytes();
  TensorRef tensor{name, weight.dtype, weight.shape, weight.strides, const_cast<uint8_t *>(range.data())};
  if (tensor.isDense())
    return device->makeResident(range.first(bytes), owner, purpose);
  std::vector<uint8_t> dense(bytes);
  copyToDense(reinterpret_cast<char *>(dense.data()), tensor);
  MemoryRef memory = device->allocate(bytes, purpose);
  device->upload(memory->data(), dense);
  return memory;
}

MemoryRef WeightStore::get(const std::string &name) {
  if (auto found = resident.find(name); found != resident.end())
    return found->second;
  const ManifestWeight &weight = package.manifest().weights.at(name);
  MemoryRef memory;
  if (!weight.file.empty()) {
    memory = fromFile(name, weight);
  } else if (!weight.entry.empty()) {
    std::span<const uint8_t> bytes = verify ? package.bytes(weight.entry) : package.uncheckedBytes(weight.entry);
    memory = device->makeResident(bytes, std::make_shared<Package>(package), fmt::format("weight '{}'", name));
  } else {
    fail("weight '{}' ({}) is not in '{}'; hand it over", name, describe(weight.dtype, weight.shape), package.path());
  }
  return resident[name] = memory;
}

} // namespace ditc
