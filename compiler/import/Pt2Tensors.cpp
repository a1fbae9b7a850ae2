// SPDX-License-Identifier: Apache-2.0
//
// Layout C names a member per storage in a JSON config; layouts A and B hold a whole torch.save zip, whose
// members are mapped through the outer file. The two folders of one archive may differ.
#include "compiler/import/Pt2Tensors.h"

#include "compiler/import/JsonReader.h"
#include "compiler/import/Pickle.h"

#include <set>

namespace ditc {

namespace {

using PickleKind = PickleValue::Kind;

std::string_view nameOf(TensorFolder folder) { return folder == TensorFolder::Weights ? "weights" : "constants"; }

class IndexReader {
public:
  IndexReader(const Pt2Container &file, TensorFolder folder)
      : file(file), folder(folder), reader(file.zip.path()), directory(fmt::format("data/{}/", nameOf(folder))) {}

  TensorIndex read();

private:
  // Layout C.
  void readConfig(const ZipEntry &config);
  void readPayload(const std::string &fqn, const Json &payload);
  bool readMeta(const std::string &fqn, const Json &meta, StoredTensor &tensor);
  int64_t plainInteger(const Json &value, const char *what);

  // Layouts A and B.
  void readPickle(const ZipEntry &member);
  void readPickled(const ZipReader &inner, const std::string &top, const std::string &fqn, const PickleValue &value);

  const ZipEntry *findPickle();
  void add(const std::string &fqn, const StoredTensor &tensor);
  void warnOfLostOffsets();

  const Pt2Container &file;
  TensorFolder folder;
  JsonReader reader;
  std::string directory;
  TensorIndex index;
};

int64_t IndexReader::plainInteger(const Json &value, const char *what) {
  return reader.asInteger(reader.at(value, "as_int"), what);
}

bool IndexReader::readMeta(const std::string &fqn, const Json &meta, StoredTensor &tensor) {
  const Json &type = reader.at(meta, "dtype");
  std::optional<DType> dtype = reader.scalarType(type);
  if (!dtype) {
    index.unreadable[fqn] =
        fmt::format("it has the element type {}, which ditc does not support", JsonReader::scalarTypeText(type));
    return false;
  }
  const Json *layout = reader.find(meta, "layout");
  if (layout && *layout != 7 && *layout != "strided" && *layout != "Strided") {
    index.unreadable[fqn] =
        fmt::format("its layout {} is not dense; call to_dense() on it before the export", printable(layout->dump()));
    return false;
  }
  tensor.dtype = *dtype;
  for (const Json &size : reader.list(meta, "sizes"))
    tensor.sizes.push_back(plainInteger(size, "sizes"));
  for (const Json &stride : reader.list(meta, "strides"))
    tensor.strides.push_back(plainInteger(stride, "strides"));
  if (const Json *offset = reader.find(meta, "storage_offset"))
    tensor.storageOffset = plainInteger(*offset, "storage_offset");
  return true;
}

void IndexReader::readPayload(const std::string &fqn, const Json &payload) {
  reader.place = fmt::format("{} '{}'", folder == TensorFolder::Weights ? "weight" : "constant", fqn);
  const Json *meta = reader.find(payload, "tensor_meta");
  const Json *pickled = reader.find(payload, "use_pickle");
  if (!meta) {
    index.unreadable[fqn] =
        "it is a script object or another Python object; remove it from the model before the export";
    return;
  }
  if (pickled && reader.asFlag(*pickled, "use_pickle")) {
    index.unreadable[fqn] = "it is a tensor subclass (as torchao makes) and stored as a pickled object; call "
                            "unwrap_tensor_subclass_parameters or dequantize the model before the export";
    return;
  }
  StoredTensor tensor;
  if (!readMeta(fqn, *meta, tensor))
    return;
  tensor.storageId = directory + reader.text(payload, "path_name");
  const ZipEntry *member = file.find(tensor.storageId);
  if (!member)
    reader.damaged("its bytes should be in the member '{}', which is missing", printable(file.top + tensor.storageId));
  tensor.byteOffset = member->payloadOffset;
  tensor.byteSize = member->size;
  const Json *isParameter = reader.find(payload, "is_param");
  tensor.isParameter = isParameter && reader.asFlag(*isParameter, "is_param");
  add(fqn, tensor);
}

void IndexReader::add(const std::string &fqn, const StoredTensor &tensor) {
  std::optional<uint64_t> needed = neededBytes(tensor);
  if (!needed)
    reader.damaged("its sizes, strides and offset are not those of a tensor");
  if (tensor.byteSize > 0 && *needed > tensor.byteSize)
    reader.damaged("it needs {} bytes, but its storage '{}' has {}", *needed, printable(tensor.storageId),
                   tensor.byteSize);
  auto [it, isNew] = index.tensors.emplace(fqn, tensor);
  if (!isNew || index.unreadable.count(fqn))
    reader.damaged("it is there twice");
  it->second.file = file.zip.path();
}

/// Early writers of layout C always wrote offset 0, so a view into a larger storage cannot be told from its
/// beginning. A storage that only one tensor uses, and not whole, is the mark of it.
void IndexReader::warnOfLostOffsets() {
  std::map<std::string, int> users;
  for (const auto &[fqn, tensor] : index.tensors)
    ++users[tensor.storageId];
  for (const auto &[fqn, tensor] : index.tensors) {
    std::optional<uint64_t> needed = neededBytes(tensor);
    if (tensor.storageOffset == 0 && users[tensor.storageId] == 1 && *needed > 0 && *needed < tensor.byteSize)
      index.warnings.push_back(fmt::format(
          "'{}' uses the first {} of {} stored bytes; torch 2.9 could lose the offset of such a view, call clone() on "
          "it before the export if the results are wrong",
          printable(fqn), *needed, tensor.byteSize));
  }
}

void IndexReader::readConfig(const ZipEntry &config) {
  Json root = parseTree(file.zip.text(config), file.zip.path() + "/" + config.name);
  reader.place = config.name;
  for (const auto &[fqn, payload] : reader.object(root, "config").items())
    readPayload(fqn, payload);
  warnOfLostOffsets();
}

void IndexReader::readPickled(const ZipReader &inner, const std::string &top, const std::string &fqn,
                              const PickleValue &value) {
  reader.place = fmt::format("{} '{}'", folder == TensorFolder::Weights ? "weight" : "constant", fqn);
  if (value.kind != PickleKind::Tensor) {
    bool isNew =
        index.unreadable.emplace(fqn, value.kind == PickleKind::Opaque ? value.text : "it is not a tensor").second;
    if (!isNew || index.tensors.count(fqn))
      reader.damaged("it is there twice");
    return;
  }
  const PickleValue &storage = *value.items[0];
  StoredTensor tensor;
  tensor.dtype = *value.dtype;
  tensor.storageOffset = value.integer;
  tensor.sizes = *integersOf(*value.items[1]);
  tensor.strides = *integersOf(*value.items[2]);
  tensor.isParameter = value.isParameter;
  tensor.storageId = directory + storage.text;
  const ZipEntry *member = inner.find(top + "data/" + storage.text);
  if (!member)
    reader.damaged("its storage '{}' is missing", printable(storage.text));
  uint64_t item = storage.dtype ? byteSize(*storage.dtype) : 1, declared = 0;
  if (storage.integer < 0 || __builtin_mul_overflow(static_cast<uint64_t>(storage.integer), item, &declared))
    reader.damaged("its storage '{}' has an impossible size", printable(storage.text));
  if (member->size > 0 && member->size < declared) // 0 bytes: exported with fake weights
    reader.damaged("its storage '{}' has {} of {} bytes", printable(storage.text), member->size, declared);
  tensor.byteOffset = member->payloadOffset;
  tensor.byteSize = member->size;
  add(fqn, tensor);
}

void IndexReader::readPickle(const ZipEntry &member) {
  if (member.size == 0)
    return;
  ZipReader inner = ZipReader::openNested(file.zip, member);
  std::string source = file.zip.path() + "/" + member.name;
  const std::string first = inner.entries().empty() ? "" : inner.entries()[0].name;
  std::string top = first.substr(0, first.find('/') == std::string::npos ? 0 : first.find('/') + 1);
  const ZipEntry *pickle = inner.find(top + "data.pkl");
  if (!pickle)
    fail("'{}' has no 'data.pkl'; the file is damaged, save the model again", source);
  const ZipEntry *order = inner.find(top + "byteorder");
  if (order && inner.text(*order) != "little")
    fail("'{}': its byteorder is '{}', ditc reads little-endian archives only; export the model on a little-endian "
         "machine",
         source, printable(inner.text(*order)));
  PickleDocument document = PickleDocument::parse(inner.bytes(*pickle), source + "/" + pickle->name);
  const PickleValue &root = document.root();
  if (root.kind != PickleKind::Dict)
    fail("'{}' does not hold a dict of tensors; the file is damaged, save the model again", source);
  for (size_t i = 0; i + 1 < root.items.size(); i += 2) {
    if (root.items[i]->kind != PickleKind::String)
      fail("'{}' holds a dict whose keys are not strings; the file is damaged, save the model again", source);
    readPickled(inner, top, root.items[i]->text, *root.items[i + 1]);
  }
}

/// Layout A as of torch 2.1 used the ending .json for the same binary content.
const ZipEntry *IndexReader::findPickle() {
  if (file.layout != 'A')
    return file.find(directory + file.modelName + ".pt");
  std::string stem = folder == TensorFolder::Weights ? "serialized_state_dict" : "serialized_constants";
  const ZipEntry *member = file.find(stem + ".pt");
  return member ? member : file.find(stem + ".json");
}

TensorIndex IndexReader::read() {
  const ZipEntry *config = nullptr;
  if (file.layout != 'A')
    config = file.find(fmt::format("{}{}_{}_config.json", directory, file.modelName, nameOf(folder)));
  const ZipEntry *pickle = config ? nullptr : findPickle();
  if (config)
    readConfig(*config);
  else if (pickle)
    readPickle(*pickle);
  else if (folder == TensorFolder::Weights)
    reader.refuse("it has a program but no index of weights for the model '{}'; the file is incomplete, save the model "
                  "again",
                  printable(file.modelName));
  return std::move(index);
}

} // namespace

TensorIndex readTensorIndex(const Pt2Container &file, TensorFolder folder) { return IndexReader(file, folder).read(); }

} // namespace ditc
