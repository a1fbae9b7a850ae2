// SPDX-License-Identifier: Apache-2.0
#include "compiler/CorePackage.h"

#include "runtime/Compression.h"
#include "runtime/Error.h"

#include <cstring>

namespace ditc {

namespace {

/// The cache checks a hash over all bytes, so a short read here is a fault of ditc.
class Reader {
public:
  explicit Reader(std::span<const uint8_t> bytes) : rest(bytes) {}

  std::span<const uint8_t> take(uint64_t count) {
    if (count > rest.size())
      failInternal("a cached package ends early");
    auto result = rest.first(count);
    rest = rest.subspan(count);
    return result;
  }

  uint64_t number() {
    uint64_t value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }

  std::string text() {
    auto bytes = take(number());
    return {bytes.begin(), bytes.end()};
  }

private:
  std::span<const uint8_t> rest;
};

void appendNumber(std::vector<uint8_t> &out, uint64_t value) {
  const auto *bytes = reinterpret_cast<const uint8_t *>(&value);
  out.insert(out.end(), bytes, bytes + sizeof value);
}

template <typename Bytes>
void appendBlock(std::vector<uint8_t> &out, const Bytes &bytes) {
  appendNumber(out, bytes.size());
  out.insert(out.end(), bytes.begin(), bytes.end());
}

} // namespace

void CorePackage::addConstant(const std::string &name, std::span<const uint8_t> bytes) {
  if (std::optional<std::vector<uint8_t>> frame = compressConstant(bytes))
    members.push_back({name, *std::move(frame), bytes.size()});
  else
    add(name, bytes);
}

std::vector<uint8_t> CorePackage::serialise() const {
  std::vector<uint8_t> out;
  appendBlock(out, writeManifest(manifest, {}));
  appendNumber(out, weightNames.size());
  for (const std::string &name : weightNames)
    appendBlock(out, name);
  appendNumber(out, members.size());
  for (const Member &member : members) {
    appendBlock(out, member.name);
    appendBlock(out, member.bytes);
    appendNumber(out, member.unpackedBytes);
  }
  return out;
}

CorePackage CorePackage::parse(std::span<const uint8_t> bytes) {
  Reader reader(bytes);
  CorePackage core;
  core.manifest = parseManifest(reader.text(), "cached package").first;
  for (uint64_t i = reader.number(); i > 0; --i)
    core.weightNames.insert(reader.text());
  for (uint64_t i = reader.number(); i > 0; --i) {
    std::string name = reader.text();
    core.add(name, reader.take(reader.number()));
    core.members.back().unpackedBytes = reader.number();
  }
  return core;
}

} // namespace ditc
