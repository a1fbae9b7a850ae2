// SPDX-License-Identifier: Apache-2.0
//
// Reading a package. The zip reader has already refused members that are out of range; here the members
// are held against the manifest, and their bytes against their hashes when somebody first asks for them
// (so that opening does not read gigabytes of weights).
#include "runtime/Package.h"

#include "runtime/Compression.h"
#include "runtime/Error.h"
#include "runtime/FileKind.h"
#include "runtime/Hash.h"
#include "runtime/Zip.h"

#include <atomic>
#include <map>

namespace ditc {
namespace {

constexpr std::string_view kManifestName = "manifest.json";

struct Member {
  ZipEntry entry;
  std::string xxh128;
  uint64_t unpackedBytes = 0; ///< 0: it is not compressed
  mutable std::atomic<bool> verified = false;

  uint64_t contentBytes() const { return unpackedBytes > 0 ? unpackedBytes : entry.size; }
};

} // namespace

struct Package::State {
  explicit State(ZipReader zip) : zip(std::move(zip)) {}

  const Member &find(std::string_view name) const {
    auto found = members.find(name);
    if (found == members.end())
      fail("'{}' has no member '{}'; the package is damaged, compile again", zip.path(), name);
    return found->second;
  }

  /// Of a member whose bytes are used as they are in the file.
  const Member &findPlain(std::string_view name) const;
  /// The bytes in the file, after their hash was checked once.
  std::span<const uint8_t> checkedBytes(const Member &member) const;
  void readManifest();
  void checkMember(const std::string &member, std::string_view what, uint64_t bytes) const;
  void checkPorts(const std::vector<PortDesc> &ports, const std::vector<ManifestPort> &expected,
                  std::string_view what, std::string_view source) const;
  void checkConstant(const PlanBuffer &buffer, std::string_view what) const;
  void checkBuffers(const Plan &plan, std::string_view source) const;

  ZipReader zip;
  Manifest manifest;
  std::map<std::string, Member, std::less<>> members;
};

void Package::State::readManifest() {
  const ZipEntry *entry = zip.find(kManifestName);
  if (!entry)
    fail("'{}' has no manifest.json; it is not a ditc package (those end in .dita)", zip.path());
  if (!zip.checkCrc(*entry))
    fail("'{}': manifest.json is damaged (its checksum differs); copy or compile the package again", zip.path());
  std::string source = fmt::format("{}: manifest.json", zip.path());
  auto [parsed, records] = parseManifest(zip.text(*entry), source);
  manifest = std::move(parsed);
  for (const ZipEntry &found : zip.entries()) {
    if (found.name == kManifestName)
      continue;
    auto record = records.find(found.name);
    if (record == records.end())
      fail("'{}': member '{}' is not in the manifest; the package was changed, compile again", zip.path(),
           found.name);
    if (record->second.bytes != found.size)
      fail("'{}': member '{}' has {} bytes, the manifest says {}; the package is damaged, compile again", zip.path(),
           found.name, found.size, record->second.bytes);
    Member &member = members[found.name];
    member.entry = found;
    member.xxh128 = record->second.xxh128;
    member.unpackedBytes = record->second.unpackedBytes;
  }
  for (const auto &[name, record] : records)
    find(name);
}

/// `bytes` = UINT64_MAX: any size.
void Package::State::checkMember(const std::string &member, std::string_view what, uint64_t bytes) const {
  uint64_t found = findPlain(member).entry.size;
  if (bytes != UINT64_MAX && found != bytes)
    fail("'{}': {} needs {} bytes, its member '{}' has {}; the package is damaged, compile again", zip.path(), what,
         bytes, member, found);
}

const Member &Package::State::findPlain(std::string_view name) const {
  const Member &member = find(name);
  if (member.unpackedBytes > 0)
    fail("'{}': the member '{}' is compressed and is no constant of a plan, which alone may be; the package is damaged, compile "
         "again",
         zip.path(), name);
  return member;
}

Package Package::open(const std::string &path) {
  auto state = readAs(FileKind::Package, path, [&] {
    auto opened = std::make_shared<State>(ZipReader::open(path));
    opened->readManifest();
    return opened;
  });
  const Manifest &manifest = state->manifest;
  for (const ManifestTarget &target : manifest.targets)
    if (!target.object.empty())
      state->checkMember(target.object, fmt::format("target '{}'", target.name), UINT64_MAX);
  for (const ManifestBucket &bucket : manifest.buckets)
    for (const auto &[target, plan] : bucket.plans)
      state->checkMember(plan, fmt::format("bucket '{}'", bucket.name), UINT64_MAX);
  for (const auto &[name, weight] : manifest.weights)
    if (!weight.entry.empty())
      state->checkMember(weight.entry, fmt::format("weight '{}'", name),
                         PortDesc{name, weight.dtype, weight.shape}.bytes());
  Package package;
  package.state = std::move(state);
  return package;
}

const std::string &Package::path() const { return state->zip.path(); }
const Manifest &Package::manifest() const { return state->manifest; }
bool Package::has(std::string_view member) const { return state->members.contains(member); }

uint64_t Package::memberBytes(std::string_view member) const {
  auto found = state->members.find(member);
  return found == state->members.end() ? 0 : found->second.entry.size;
}

uint64_t Package::unpackedBytes(std::string_view member) const {
  auto found = state->members.find(member);
  return found == state->members.end() ? 0 : found->second.contentBytes();
}

std::vector<std::string> Package::members() const {
  std::vector<std::string> names;
  for (const auto &[name, member] : state->members)
    names.push_back(name);
  return names;
}

std::span<const uint8_t> Package::uncheckedBytes(std::string_view member) const {
  return state->zip.bytes(state->findPlain(member).entry);
}

std::span<const uint8_t> Package::State::checkedBytes(const Member &member) const {
  std::span<const uint8_t> bytes = zip.bytes(member.entry);
  // Two threads may both hash; that is harmless and needs no lock.
  if (!member.verified.load(std::memory_order_acquire)) {
    if (hashHex(bytes) != member.xxh128)
      fail("'{}': the content of member '{}' does not have the hash in the manifest; the package is damaged, copy or "
           "compile it again",
           zip.path(), member.entry.name);
    member.verified.store(true, std::memory_order_release);
  }
  return bytes;
}

std::span<const uint8_t> Package::bytes(std::string_view member) const {
  return state->checkedBytes(state->findPlain(member));
}

HostBytes Package::constant(std::string_view name) const {
  const Member &member = state->find(name);
  std::span<const uint8_t> stored = state->checkedBytes(member);
  if (member.unpackedBytes == 0)
    return {stored, state};
  return decompressConstant(stored, member.unpackedBytes, fmt::format("'{}': member '{}'", path(), name));
}

void Package::verify(std::string_view member) const { constant(member); }

std::string_view Package::text(std::string_view member) const {
  std::span<const uint8_t> content = bytes(member);
  return {reinterpret_cast<const char *>(content.data()), content.size()};
}

void Package::State::checkPorts(const std::vector<PortDesc> &ports, const std::vector<ManifestPort> &expected,
                                std::string_view what, std::string_view source) const {
  bool same = ports.size() == expected.size();
  for (size_t i = 0; same && i < ports.size(); ++i) {
    same = ports[i].name == expected[i].name && ports[i].dtype == expected[i].dtype &&
           ports[i].shape.size() == expected[i].shape.size();
    for (size_t d = 0; same && d < ports[i].shape.size(); ++d) {
      const int64_t *number = std::get_if<int64_t>(&expected[i].shape[d]);
      same = !number || *number == ports[i].shape[d];
    }
  }
  if (!same)
    fail("'{}': the {} differ from those of the manifest; the package is damaged, compile again", source, what);
}

/// So what a compressed constant states is what the plan needs, before anyone takes memory for it.
void Package::State::checkConstant(const PlanBuffer &buffer, std::string_view what) const {
  const Member &member = find(buffer.name);
  if (member.contentBytes() != buffer.bytes)
    fail("'{}': {} needs {} bytes, its member '{}' has {}{}; the package is damaged, compile again", zip.path(), what,
         buffer.bytes, buffer.name, member.contentBytes(), member.unpackedBytes > 0 ? " uncompressed" : "");
}

void Package::State::checkBuffers(const Plan &plan, std::string_view source) const {
  for (size_t i = 0; i < plan.buffers.size(); ++i) {
    const PlanBuffer &buffer = plan.buffers[i];
    if (buffer.space == Space::Constant)
      checkConstant(buffer, fmt::format("buffer {} of '{}'", i, source));
    if (buffer.space != Space::Weight)
      continue;
    auto weight = manifest.weights.find(buffer.name);
    if (weight == manifest.weights.end())
      fail("'{}': weight '{}' is not in the manifest; the package is damaged, compile again", source, buffer.name);
    uint64_t expected = PortDesc{buffer.name, weight->second.dtype, weight->second.shape}.bytes();
    if (buffer.bytes != expected)
      fail("'{}': weight '{}' has {} bytes, the manifest says {}; the package is damaged, compile again", source,
           buffer.name, buffer.bytes, expected);
  }
}

Plan Package::plan(std::string_view bucket, std::string_view target) const {
  const ManifestBucket *found = manifest().findBucket(bucket);
  if (!found)
    fail("'{}' has no bucket '{}'; it has {}", path(), bucket, manifest().bucketList());
  auto member = found->plans.find(std::string(target));
  if (member == found->plans.end())
    fail("'{}' was not compiled for '{}'; it has {}", path(), target, manifest().targetList());
  std::string source = fmt::format("{}: {}", path(), member->second);
  Plan plan = parsePlan(text(member->second), source);
  state->checkPorts(plan.inputs, manifest().inputs, "inputs", source);
  state->checkPorts(plan.outputs, manifest().outputs, "outputs", source);
  state->checkBuffers(plan, source);
  return plan;
}

} // namespace ditc
