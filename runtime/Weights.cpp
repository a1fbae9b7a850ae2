// SPDX-License-Identifier: Apache-2.0
//
// Where weights come from. On the host, dense ones are used where they are mapped; on a GPU they are uploaded when
// somebody needs them, from where they are mapped.
#include "runtime/Weights.h"

#include "runtime/Error.h"
#include "runtime/Hash.h"
#include "runtime/MappedFile.h"

#include <filesystem>

namespace ditc {

namespace {

/// Dense bytes of a host tensor that is not: a copy.
std::shared_ptr<std::vector<uint8_t>> gather(const TensorRef &tensor) {
  auto dense = std::make_shared<std::vector<uint8_t>>(PortDesc{tensor.name, tensor.dtype, tensor.shape}.bytes());
  copyToDense(reinterpret_cast<char *>(dense->data()), tensor);
  return dense;
}

} // namespace

WeightStore::WeightStore(const Package &package, std::shared_ptr<Device> device, Queue &queue, bool verify)
    : package(package), device(std::move(device)), queue(queue), verify(verify) {}

const ManifestWeight &WeightStore::check(const TensorRef &tensor, std::string_view source) const {
  auto found = package.manifest().weights.find(tensor.name);
  if (found == package.manifest().weights.end())
    fail("{}: '{}' has no weight '{}'; ditc-run info --list-weights lists those it has", source, package.path(), tensor.name);
  const ManifestWeight &weight = found->second;
  if (weight.dtype != tensor.dtype || weight.shape != tensor.shape)
    fail("{}: weight '{}' is {}, '{}' expects {}; convert it or compile the package for it", source, tensor.name,
         describe(tensor.dtype, tensor.shape), package.path(), describe(weight.dtype, weight.shape));
  if (!tensor.strides.empty() && tensor.strides.size() != tensor.shape.size())
    fail("{}: weight '{}' has {} strides for {} dimensions", source, tensor.name, tensor.strides.size(),
         tensor.shape.size());
  if (tensor.onDevice && device->isHost())
    fail("{}: weight '{}' is memory of a GPU, but '{}' is open on the host; open it on 'cuda' or hand over host memory",
         source, tensor.name, package.path());
  if (tensor.onDevice && !tensor.isDense())
    fail("{}: weight '{}' is strided; on a GPU make it contiguous first", source, tensor.name);
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
      Slot &slot = slots[name];
      slot = {nullptr, HostBytes{view.bytes, std::make_shared<SafetensorsFile>(file)}, false, false, slot.version + 1};
    }
  return unknown;
}

//===-- from the package ------------------------------------------------------------------------------===//

HostBytes WeightStore::fileBytes(const std::string &name, const ManifestWeight &weight) {
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
  TensorRef tensor{name, weight.dtype, weight.shape, weight.strides, const_cast<uint8_t *>(range.data())};
  if (tensor.isDense())
    return {range.first(PortDesc{name, weight.dtype, weight.shape}.bytes()), file};
  auto dense = gather(tensor);
  return {*dense, dense};
}

HostBytes WeightStore::packageBytes(const std::string &name) {
  const ManifestWeight &weight = package.manifest().weights.at(name);
  if (!weight.file.empty())
    return fileBytes(name, weight);
  if (weight.entry.empty())
    fail("weight '{}' ({}) is not in '{}'; hand it over", name, describe(weight.dtype, weight.shape), package.path());
  return {verify ? package.bytes(weight.entry) : package.uncheckedBytes(weight.entry), std::make_shared<Package>(package)};
}


//===-- from the caller -------------------------------------------------------------------------------===//

WeightStore::Slot WeightStore::makeSlot(const TensorRef &tensor, Ownership ownership) {
  uint64_t bytes = PortDesc{tensor.name, tensor.dtype, tensor.shape}.bytes();
  auto *data = static_cast<uint8_t *>(tensor.data);
  bool borrow = ownership == Ownership::Borrow && tensor.isDense();
  Slot slot;
  slot.fromPackage = false;
  if (tensor.onDevice && borrow && reinterpret_cast<uintptr_t>(data) % device->alignment() == 0) {
    slot.memory = std::make_shared<BorrowedMemory>(reinterpret_cast<char *>(data), bytes, nullptr);
    slot.borrowed = true;
    return slot;
  }
  if (!tensor.onDevice && borrow) {
    slot.given = HostBytes{{data, bytes}, nullptr};
    return slot;
  }
  if (!tensor.onDevice && (device->isHost() || preparedOnly.contains(tensor.name))) {
    auto dense = gather(tensor);
    slot.given = HostBytes{*dense, dense};
    return slot;
  }
  slot.memory = device->allocate(bytes, fmt::format("weight '{}'", tensor.name));
  write(*slot.memory, tensor);
  return slot;
}

/// The tensor's bytes into device memory. They are there when it returns, so the caller may change its tensor.
void WeightStore::write(DeviceMemory &target, const TensorRef &tensor) {
  uint64_t bytes = PortDesc{tensor.name, tensor.dtype, tensor.shape}.bytes();
  if (tensor.onDevice) {
    queue.copy(target.data(), static_cast<const char *>(tensor.data), bytes);
  } else if (tensor.isDense()) {
    queue.upload(target.data(), {static_cast<const uint8_t *>(tensor.data), bytes});
  } else {
    auto dense = gather(tensor);
    queue.upload(target.data(), *dense);
    queue.wait();
  }
  queue.wait();
}

void WeightStore::set(std::span<const TensorRef> tensors, Ownership ownership) {
  for (const TensorRef &tensor : tensors)
    check(tensor, "set weights");
  std::map<std::string, Slot> fresh;
  for (const TensorRef &tensor : tensors)
    fresh[tensor.name] = makeSlot(tensor, ownership);
  for (auto &[name, slot] : fresh) {
    slot.version = slots[name].version + 1;
    slots[name] = std::move(slot);
  }
  lastUpdate.reset();
}

//===-- update and revert -----------------------------------------------------------------------------===//

HostBytes WeightStore::saveBytes(const Slot &slot) {
  auto copy = std::make_shared<std::vector<uint8_t>>(slot.memory->bytes());
  queue.download(*copy, slot.memory->data());
  queue.wait();
  return {*copy, copy};
}

void WeightStore::update(std::span<const TensorRef> tensors) {
  std::set<std::string_view> names;
  for (const TensorRef &tensor : tensors) {
    check(tensor, "update weights");
    if (!names.insert(tensor.name).second)
      fail("update weights: '{}' is given twice", tensor.name);
  }
  std::vector<Undo> done;
  try {
    for (const TensorRef &tensor : tensors) {
      Slot &slot = slots[tensor.name];
      bool inPlace = !device->isHost() && slot.memory && !slot.borrowed;
      Undo undo{tensor.name, slot, inPlace, slot.given};
      if (inPlace && !slot.given && !slot.fromPackage)
        undo.saved = saveBytes(slot);
      if (inPlace) {
        done.push_back(std::move(undo)); // from here on the old bytes are gone
        write(*slot.memory, tensor);
        slot.given.reset();
        slot.fromPackage = false;
      } else {
        Slot fresh = makeSlot(tensor, Ownership::Copy);
        fresh.version = slot.version;
        slot = std::move(fresh);
        done.push_back(std::move(undo));
      }
      ++slot.version;
    }
  } catch (...) {
    undoAll(std::move(done));
    throw;
  }
  lastUpdate = std::move(done);
}

void WeightStore::undoAll(std::vector<Undo> undone) {
  for (auto undo = undone.rbegin(); undo != undone.rend(); ++undo) {
    Slot &slot = slots[undo->name];
    uint64_t version = slot.version + 1;
    if (undo->inPlace) {
      HostBytes old = undo->saved ? *undo->saved : packageBytes(undo->name);
      queue.upload(slot.memory->data(), old.bytes);
      queue.wait();
    }
    slot = std::move(undo->before);
    slot.version = version;
  }
}

void WeightStore::revert() {
  if (!lastUpdate)
    fail("there is no update of weights to take back");
  std::vector<Undo> undone = std::move(*lastUpdate);
  lastUpdate.reset();
  undoAll(std::move(undone));
}

//===-- use -------------------------------------------------------------------------------------------===//

std::vector<std::string> WeightStore::missing() const {
  std::vector<std::string> names;
  for (const auto &[name, weight] : package.manifest().weights) {
    auto slot = slots.find(name);
    bool set = slot != slots.end() && !slot->second.fromPackage;
    if (weight.entry.empty() && weight.file.empty() && !set)
      names.push_back(name);
  }
  return names;
}

uint64_t WeightStore::version(const std::string &name) const {
  auto slot = slots.find(name);
  return slot == slots.end() ? 0 : slot->second.version;
}

bool WeightStore::usableInPlace(const std::string &name, const HostBytes &bytes) const {
  uint64_t unit = byteSize(package.manifest().weights.at(name).dtype);
  return device->isHost() && reinterpret_cast<uintptr_t>(bytes.bytes.data()) % unit == 0;
}

MemoryRef WeightStore::place(const std::string &name, const HostBytes &bytes) {
  if (usableInPlace(name, bytes)) // kernels only read weights
    return std::make_shared<BorrowedMemory>(reinterpret_cast<char *>(const_cast<uint8_t *>(bytes.bytes.data())),
                                            bytes.bytes.size(), bytes.owner);
  MemoryRef memory = device->allocate(bytes.bytes.size(), fmt::format("weight '{}'", name));
  queue.upload(memory->data(), bytes.bytes);
  queue.wait();
  return memory;
}

MemoryRef WeightStore::get(const std::string &name, bool keep) {
  Slot &slot = slots[name];
  if (slot.memory)
    return slot.memory;
  MemoryRef memory = place(name, slot.given ? *slot.given : packageBytes(name));
  if (keep)
    slot.memory = memory;
  return memory;
}

uint64_t WeightStore::bytesToLoad(const std::string &name) const {
  auto slot = slots.find(name);
  if (device->isHost() || (slot != slots.end() && slot->second.memory))
    return 0;
  const ManifestWeight &weight = package.manifest().weights.at(name);
  return PortDesc{name, weight.dtype, weight.shape}.bytes();
}

uint64_t WeightStore::heldBytes() const {
  uint64_t sum = 0;
  for (const auto &[name, slot] : slots)
    if (slot.memory && !slot.borrowed)
      sum += slot.memory->bytes();
  return sum;
}

} // namespace ditc
