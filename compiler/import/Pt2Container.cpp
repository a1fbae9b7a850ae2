// SPDX-License-Identifier: Apache-2.0
//
// Layouts are told apart by their members, never by a version: A has its program at the root, B and C have
// a top folder and differ in how the weights are stored.
#include "compiler/import/Pt2Container.h"

#include "runtime/Error.h"
#include "runtime/FileKind.h"
#include "runtime/MappedFile.h"
#include "runtime/Text.h"

#include <cstring>

namespace ditc {

namespace {

constexpr std::string_view kProgramA = "serialized_exported_program.json";

bool startsWith(std::span<const uint8_t> bytes, std::string_view magic) {
  return bytes.size() >= magic.size() && std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
}

/// Files that people hand over in place of a .pt2 file and that are not zips.
void refuseOtherFormats(const std::string &path) {
  std::shared_ptr<const MappedFile> file = MappedFile::open(path);
  std::span<const uint8_t> bytes = file->bytes();
  if (bytes.empty())
    fail("'{}' is empty; expected an archive of torch.export.save, save the model again", path);
  if (startsWith(bytes, "PK"))
    return;
  if (startsWith(bytes, "\x1f\x8b"))
    fail("'{}' is compressed with gzip; expected an archive of torch.export.save, run gunzip on it first", path);
  if (startsWith(bytes, "\x28\xb5\x2f\xfd"))
    fail("'{}' is compressed with zstd; expected an archive of torch.export.save, run unzstd on it first", path);
  if (startsWith(bytes, "\x80\x02") || startsWith(bytes, "\x80\x04"))
    fail("'{}' is a bare pickle (an old torch.save); expected an archive of torch.export.save, export the model", path);
  if (startsWith(bytes, "GGUF"))
    fail("'{}' is a GGUF file: weights without a program; export the model with torch.export.save", path);
  if (startsWith(bytes, "version https://git-lfs"))
    fail("'{}' is a Git LFS pointer and not the file itself; run git lfs pull", path);
  if (bytes.size() > 9 && bytes[8] == '{' && bytes[6] == 0 && bytes[7] == 0)
    fail("'{}' is a safetensors file: weights without a program; export the model with torch.export.save and give this "
         "file with --weights",
         path);
  refuseOtherKind(path, FileKind::Export);
  fail("'{}' is not a zip archive; expected an archive of torch.export.save (a .pt2 file)", path);
}

bool hasFolder(const ZipReader &zip, const std::string &prefix) {
  for (const ZipEntry &entry : zip.entries())
    if (entry.name.starts_with(prefix))
      return true;
  return false;
}

/// Zips that are not exported programs.
[[noreturn]] void refuseOtherZip(const ZipReader &zip, const std::string &top) {
  const std::string &path = zip.path();
  if (zip.entries().empty())
    fail("'{}' is a zip archive without members; expected an archive of torch.export.save, save the model again", path);
  if (zip.find("manifest.json"))
    fail("'{}' is a ditc package and not a model to compile; run it with ditc run, or compile the .pt2 file", path);
  if (hasFolder(zip, top + "code/") && zip.find(top + "constants.pkl"))
    fail("'{}' is a TorchScript archive; expected an archive of torch.export.save, export the model with torch.export",
         path);
  if (zip.find(top + "data.pkl"))
    fail("'{}' is a torch.save file: weights without a program; export the model with torch.export.save", path);
  refuseOtherKind(path, FileKind::Export);
  fail(
      "'{}' is a zip archive, but not one of torch.export.save: it has neither '{}' nor '<folder>/archive_format', its "
      "first member is '{}'; save the model with torch.export.save",
      path, kProgramA, printable(zip.entries()[0].name));
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' '))
    text.remove_suffix(1);
  return text;
}

void checkFormat(const Pt2Container &file) {
  const std::string &path = file.zip.path();
  std::string_view format = trimmed(file.zip.text(*file.find("archive_format")));
  if (format != "pt2")
    fail("'{}': its archive_format is '{}', expected 'pt2'; save the model with torch.export.save", path,
         printable(format));
  if (const ZipEntry *version = file.find("archive_version"))
    if (std::string_view text = trimmed(file.zip.text(*version)); text != "0")
      fail("'{}': its archive_version is '{}', ditc reads version 0; save the model with a torch between 2.6 and 2.14",
           path, printable(text));
  if (const ZipEntry *order = file.find("byteorder"))
    if (std::string_view text = trimmed(file.zip.text(*order)); text != "little")
      fail("'{}': its byteorder is '{}', ditc reads little-endian archives only; export the model on a little-endian "
           "machine",
           path, printable(text));
}

std::vector<std::string> listModels(const Pt2Container &file) {
  std::vector<std::string> names;
  std::string folder = file.top + "models/";
  constexpr std::string_view kSuffix = ".json";
  for (const ZipEntry &entry : file.zip.entries())
    if (entry.name.starts_with(folder) && entry.name.ends_with(kSuffix) &&
        entry.name.size() > folder.size() + kSuffix.size())
      names.push_back(entry.name.substr(folder.size(), entry.name.size() - folder.size() - kSuffix.size()));
  return names;
}

std::string joined(const std::vector<std::string> &names) {
  std::string out;
  for (const std::string &name : names)
    out += (out.empty() ? "'" : ", '") + name + "'";
  return printable(out);
}

/// The model that was asked for, the one called "model", or the only one.
std::string chooseModel(const Pt2Container &file, const std::string &wanted) {
  const std::string &path = file.zip.path();
  std::vector<std::string> names = listModels(file);
  if (names.empty() && hasFolder(file.zip, file.top + "data/aotinductor/"))
    fail("'{}' is an AOTInductor package: compiled code without a graph; save the model with torch.export.save instead "
         "of "
         "aoti_compile_and_package",
         path);
  if (names.empty())
    fail("'{}' is incomplete: it has no program under '{}models/', as when torch.export.save stopped with an error "
         "half-way; look at that error and save the model again",
         path, printable(file.top));
  for (const std::string &name : names)
    if (name == (wanted.empty() ? "model" : wanted))
      return name;
  if (!wanted.empty())
    fail("'{}' has no model '{}'; it holds {}", path, printable(wanted), joined(names));
  if (names.size() > 1)
    fail("'{}' holds {} models and none is called 'model': {}; save each with torch.export.save in a file of its own",
         path, names.size(), joined(names));
  return names[0];
}

} // namespace

Pt2Container openContainer(const std::string &path, const std::string &modelName) {
  refuseOtherFormats(path);
  Pt2Container file;
  file.zip = ZipReader::open(path);
  if ((file.program = file.zip.find(kProgramA))) {
    file.layout = 'A';
    file.modelName = "model";
    if (!modelName.empty() && modelName != file.modelName)
      fail("'{}' has no model '{}'; it holds 'model'", path, printable(modelName));
  } else {
    // Only the first entry's folder counts, as in torch's own reader.
    const std::string first = file.zip.entries().empty() ? "" : file.zip.entries()[0].name;
    file.top = first.substr(0, first.find('/') == std::string::npos ? 0 : first.find('/') + 1);
    if (file.top.empty() || !file.find("archive_format"))
      refuseOtherZip(file.zip, file.top);
    checkFormat(file);
    file.modelName = chooseModel(file, modelName);
    file.program = file.find("models/" + file.modelName + ".json");
    file.layout = file.find("data/weights/" + file.modelName + "_weights_config.json") ? 'C' : 'B';
  }
  if (!file.zip.checkCrc(*file.program))
    fail("'{}': its program does not match its checksum; the file is damaged, copy or save it again", path);
  return file;
}

} // namespace ditc
