// SPDX-License-Identifier: Apache-2.0
#include "runtime/FileKind.h"

#include "runtime/MappedFile.h"
#include "runtime/Zip.h"

#include <algorithm>
#include <cstring>
#include <string_view>

namespace ditc {
namespace {

constexpr uint64_t kMostText = 1 << 20; ///< of JSON, to look for a field in

/// What it is called, and which command takes it.
struct Words {
  const char *name, *advice;
};

Words wordsOf(FileKind kind) {
  switch (kind) {
  case FileKind::Package:
    return {"a ditc package", "`ditc run` runs it, `ditc report` says what is in it"};
  case FileKind::TuningBundle:
    return {"a tuning bundle", "`ditc tune` measures it on the machine with the GPU"};
  case FileKind::Export:
    return {"an export of torch.export.save", "`ditc compile` makes a package of it, `ditc inspect` says what is in it"};
  case FileKind::Safetensors:
    return {"a safetensors file", "it goes to --weights, or to --inputs of `ditc run`"};
  case FileKind::SafetensorsIndex:
    return {"an index of safetensors files", "it goes to --weights by a name that ends in .safetensors.index.json"};
  case FileKind::TuningDatabase:
    return {"a tuning database", "`ditc compile --tuning` uses it, `ditc tune --list --database` prints it"};
  case FileKind::Other:
    break;
  }
  return {"no file of ditc", ""};
}

const char *expectationOf(FileKind kind) {
  switch (kind) {
  case FileKind::Package:
    return "a ditc package (.dita)";
  case FileKind::TuningBundle:
    return "what `ditc compile --tuning-bundle` writes";
  case FileKind::Export:
    return "an export (.pt2)";
  case FileKind::TuningDatabase:
    return "what `ditc tune` writes (.json)";
  default:
    return wordsOf(kind).name;
  }
}

FileKind kindOfZip(const std::string &path) {
  ZipReader zip = ZipReader::open(path);
  if (zip.find("manifest.json"))
    return FileKind::Package;
  if (zip.find("bundle.json"))
    return FileKind::TuningBundle;
  bool isExport = std::ranges::any_of(zip.entries(), [](const ZipEntry &entry) {
    return entry.name == "serialized_exported_program.json" || entry.name.ends_with("/archive_format");
  });
  return isExport ? FileKind::Export : FileKind::Other;
}

FileKind kindOfBytes(std::string_view bytes) {
  if (uint64_t length = 0; bytes.size() > sizeof length && bytes[sizeof length] == '{') {
    std::memcpy(&length, bytes.data(), sizeof length);
    if (length <= bytes.size() - sizeof length)
      return FileKind::Safetensors;
  }
  std::string_view text = bytes.substr(0, kMostText);
  if (size_t first = text.find_first_not_of(" \t\r\n"); first == std::string_view::npos || text[first] != '{')
    return FileKind::Other;
  if (text.find("\"ditc_tuning\"") != std::string_view::npos)
    return FileKind::TuningDatabase;
  return text.find("\"weight_map\"") != std::string_view::npos ? FileKind::SafetensorsIndex : FileKind::Other;
}

} // namespace

FileKind kindOf(const std::string &path) {
  try {
    std::shared_ptr<const MappedFile> file = MappedFile::open(path);
    std::string_view bytes(reinterpret_cast<const char *>(file->bytes().data()), file->bytes().size());
    return bytes.starts_with("PK") ? kindOfZip(path) : kindOfBytes(bytes);
  } catch (const Error &) { // not there, or damaged, which its reader has said
    return FileKind::Other;
  }
}

void refuseOtherKind(const std::string &path, FileKind expected) {
  FileKind kind = kindOf(path);
  if (kind == FileKind::Other || kind == expected)
    return;
  Words words = wordsOf(kind);
  fail("'{}' is {}, expected {}; {}", path, words.name, expectationOf(expected), words.advice);
}

} // namespace ditc
