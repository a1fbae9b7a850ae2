// SPDX-License-Identifier: Apache-2.0
//
// Puts the parts of an archive together, and hashes it: a cache of compiled models must notice every change
// of the file without reading gigabytes, so it goes by the CRCs of the directory.
#include "compiler/import/Pt2Archive.h"

#include "compiler/import/Pt2Container.h"
#include "compiler/import/Pt2Tensors.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <fmt/format.h>

namespace ditc {

struct Pt2Archive::State {
  char layout = 'C';
  std::string path, program, modelName, hash;
  TensorIndex weights, constants;
  std::map<std::string, std::string> unreadable;
  std::vector<std::string> warnings;
};

namespace {

class ArchiveHash {
public:
  ArchiveHash() { XXH3_128bits_reset(&state); }

  void add(std::span<const uint8_t> bytes) {
    number(bytes.size()); // so that "ab" + "c" and "a" + "bc" differ
    XXH3_128bits_update(&state, bytes.data(), bytes.size());
  }
  void add(std::string_view text) { add(std::span(reinterpret_cast<const uint8_t *>(text.data()), text.size())); }
  void number(uint64_t value) { XXH3_128bits_update(&state, &value, sizeof(value)); }

  std::string hex() const {
    XXH128_hash_t value = XXH3_128bits_digest(&state);
    return fmt::format("{:016x}{:016x}", value.high64, value.low64);
  }

private:
  XXH3_state_t state;
};

std::string hashOf(const Pt2Container &file) {
  ArchiveHash hash;
  hash.add(file.modelName);
  hash.add(file.zip.text(*file.program));
  for (const ZipEntry &entry : file.zip.entries()) {
    hash.add(entry.name);
    hash.number(entry.size);
    hash.number(entry.crc32);
    if (entry.crc32 == 0 && entry.size > 0) // torch can be told not to compute CRCs
      hash.add(file.zip.bytes(entry));
  }
  return hash.hex();
}

} // namespace

Pt2Archive Pt2Archive::open(const std::string &path, const std::string &modelName) {
  Pt2Container file = openContainer(path, modelName);
  auto state = std::make_shared<State>();
  state->layout = file.layout;
  state->path = path;
  state->program = file.zip.text(*file.program);
  state->modelName = file.modelName;
  state->weights = readTensorIndex(file, TensorFolder::Weights);
  state->constants = readTensorIndex(file, TensorFolder::Constants);
  for (TensorIndex *index : {&state->weights, &state->constants}) {
    state->unreadable.merge(index->unreadable);
    state->warnings.insert(state->warnings.end(), index->warnings.begin(), index->warnings.end());
  }
  state->hash = hashOf(file);
  Pt2Archive archive;
  archive.state = std::move(state);
  return archive;
}

char Pt2Archive::layout() const { return state->layout; }
const std::string &Pt2Archive::path() const { return state->path; }
const std::string &Pt2Archive::programJson() const { return state->program; }
const std::string &Pt2Archive::modelName() const { return state->modelName; }
const std::map<std::string, StoredTensor> &Pt2Archive::weights() const { return state->weights.tensors; }
const std::map<std::string, StoredTensor> &Pt2Archive::constants() const { return state->constants.tensors; }
const std::vector<std::string> &Pt2Archive::warnings() const { return state->warnings; }
const std::map<std::string, std::string> &Pt2Archive::unreadable() const { return state->unreadable; }
const std::string &Pt2Archive::contentHash() const { return state->hash; }

} // namespace ditc
