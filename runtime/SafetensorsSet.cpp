// SPDX-License-Identifier: Apache-2.0
//
// Sharded safetensors (an index file that names shards beside it), and writing safetensors.
#include "runtime/Safetensors.h"

#include "runtime/AtomicFile.h"
#include "runtime/Error.h"
#include "runtime/MappedFile.h"
#include "runtime/Text.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace ditc {

using nlohmann::json;

namespace {

constexpr std::string_view kIndexSuffix = ".safetensors.index.json";
constexpr uint64_t kMaxIndex = 100'000'000;
constexpr uint64_t kHeaderAlignment = 8; // the format pads its header with spaces to this

json parseIndex(const std::string &path) {
  std::shared_ptr<const MappedFile> file = MappedFile::open(path);
  if (file->bytes().size() > kMaxIndex)
    fail("'{}' has {} bytes, too many for an index of safetensors files; check the path", path, file->bytes().size());
  auto limitDepth = [&](int depth, json::parse_event_t, json &) {
    if (depth > 4)
      fail("'{}' is nested deeper than an index of safetensors files can be; check the path", path);
    return true;
  };
  try {
    return json::parse(file->bytes().begin(), file->bytes().end(), limitDepth);
  } catch (const json::parse_error &error) {
    fail("'{}' is not JSON (error at byte {}); copy or download it again", path, error.byte);
  } catch (const json::out_of_range &) { // 1e999
    fail("'{}' has a number that is too large; copy or download it again", path);
  }
}

/// Opens the shards that the index names, each once, in the order of their names.
void openIndex(const std::string &path, std::vector<SafetensorsFile> &files) {
  json index = parseIndex(path);
  auto weightMap = index.is_object() ? index.find("weight_map") : index.end();
  if (!index.is_object() || weightMap == index.end() || !weightMap->is_object())
    fail("'{}' has no object 'weight_map'; expected an index of safetensors files, check the path", path);
  std::string folder = path.substr(0, path.rfind('/') + 1);
  std::map<std::string, std::vector<std::string>> tensorsOfShard;
  for (const auto &[tensor, shard] : weightMap->items()) {
    std::string name = shard.is_string() ? shard.get<std::string>() : "";
    if (name.empty() || name == "." || name == ".." || name.find_first_of("/\\") != std::string::npos)
      fail("'{}': tensor '{}' is mapped to '{}'; expected the name of a file beside the index", path, printable(tensor),
           printable(name));
    tensorsOfShard[name].push_back(tensor);
  }
  for (const auto &[name, tensors] : tensorsOfShard) {
    SafetensorsFile file = SafetensorsFile::open(folder + name);
    for (const std::string &tensor : tensors)
      if (!file.tensors().count(tensor))
        fail("'{}' says that tensor '{}' is in '{}', but it is not there; index and files are of different "
             "downloads, copy or download them again",
             path, printable(tensor), printable(name));
    files.push_back(std::move(file));
  }
}

uint64_t bytesOf(const std::string &name, const TensorView &tensor) {
  uint64_t bytes = byteSize(tensor.dtype);
  for (int64_t size : tensor.shape)
    if (size < 0 || __builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes))
      failInternal("tensor '{}' to be written has a negative or overflowing size", printable(name));
  if (bytes != tensor.bytes.size())
    failInternal("tensor '{}' to be written has {} bytes, but its shape and type need {}", printable(name),
                 tensor.bytes.size(), bytes);
  return bytes;
}

/// Largest elements first, then by name: every tensor is then aligned to its element, as in files of the
/// format's own library.
std::vector<const std::pair<const std::string, TensorView> *>
fileOrder(const std::map<std::string, TensorView> &tensors) {
  std::vector<const std::pair<const std::string, TensorView> *> order;
  for (const auto &entry : tensors)
    order.push_back(&entry);
  std::sort(order.begin(), order.end(), [](const auto *a, const auto *b) {
    size_t first = byteSize(a->second.dtype), second = byteSize(b->second.dtype);
    return first != second ? first > second : a->first < b->first;
  });
  return order;
}

} // namespace

std::vector<SafetensorsFile> openSafetensors(const std::vector<std::string> &paths) {
  std::vector<SafetensorsFile> files;
  for (const std::string &path : paths) {
    if (path.ends_with(kIndexSuffix))
      openIndex(path, files);
    else
      files.push_back(SafetensorsFile::open(path));
  }
  return files;
}

void writeSafetensors(const std::string &path, const std::map<std::string, TensorView> &tensors) {
  auto order = fileOrder(tensors);
  std::string text; // put together here, because a JSON object would sort its keys
  uint64_t offset = 0;
  for (const auto *entry : order) {
    const auto &[name, tensor] = *entry;
    if (name == "__metadata__" || !isUtf8(name))
      fail("'{}': a tensor may not be called '{}' in a safetensors file; rename it", path, printable(name));
    uint64_t end = offset + bytesOf(name, tensor);
    json fields = {{"dtype", safetensorsName(tensor.dtype)}, {"shape", tensor.shape}, {"data_offsets", {offset, end}}};
    text += (text.empty() ? "{" : ",") + json(name).dump() + ":" + fields.dump();
    offset = end;
  }
  text += text.empty() ? "{}" : "}";
  text.resize((text.size() + kHeaderAlignment - 1) / kHeaderAlignment * kHeaderAlignment, ' ');
  uint64_t length = text.size();
  AtomicFile file(path);
  file.write(std::string_view(reinterpret_cast<const char *>(&length), sizeof(length)));
  file.write(text);
  for (const auto *entry : order)
    file.write(entry->second.bytes);
  file.commit();
}

} // namespace ditc
