// SPDX-License-Identifier: Apache-2.0
//
// Writing a package: hashes are taken while the members pass by, so the manifest that lists them comes
// last. The zip writer gives fixed time stamps, alignment and the rename at the end.
#include "runtime/Compression.h"
#include "runtime/Error.h"
#include "runtime/Hash.h"
#include "runtime/Package.h"
#include "runtime/Zip.h"

#include <map>
#include <optional>
#include <set>

namespace ditc {

struct PackageWriter::State {
  explicit State(const std::string &path) : zip(path) {}

  void need(const std::string &member, std::string_view who) const {
    if (!members.contains(member))
      failInternal("{} names the member '{}', which was not added to the package", who, member);
  }
  void checkPlan(const std::string &member, const Plan &plan, const Manifest &manifest) const;
  void checkManifest(const Manifest &manifest) const;

  ZipWriter zip;
  std::map<std::string, MemberRecord> members;
  std::map<std::string, Plan> plans; ///< by member
  std::string open;                  ///< the member between begin and end
  Hasher hasher;
  uint64_t bytes = 0;
};

PackageWriter::PackageWriter(const std::string &path) : state(std::make_unique<State>(path)) {}
PackageWriter::~PackageWriter() = default;
PackageWriter::PackageWriter(PackageWriter &&) noexcept = default;

void PackageWriter::begin(const std::string &member) {
  if (!state->open.empty() || state->members.contains(member) || member.empty())
    failInternal("package member '{}' begins inside '{}', twice, or without a name", member, state->open);
  state->zip.begin(member);
  state->open = member;
  state->hasher = Hasher();
  state->bytes = 0;
}

void PackageWriter::append(std::span<const uint8_t> bytes) {
  state->hasher.update(bytes);
  state->bytes += bytes.size();
  state->zip.append(bytes);
}

void PackageWriter::end() {
  state->zip.end();
  state->members[state->open] = {state->bytes, state->hasher.hex()};
  state->open.clear();
}

void PackageWriter::add(const std::string &member, std::span<const uint8_t> bytes) {
  begin(member);
  append(bytes);
  end();
}

void PackageWriter::add(const std::string &member, std::string_view text) {
  add(member, std::span(reinterpret_cast<const uint8_t *>(text.data()), text.size()));
}

std::string PackageWriter::addConstant(std::span<const uint8_t> bytes) {
  std::string member = constantMember(bytes);
  if (state->members.contains(member))
    return member;
  if (std::optional<std::vector<uint8_t>> frame = compressConstant(bytes))
    addCompressed(member, *frame, bytes.size());
  else
    add(member, bytes);
  return member;
}

void PackageWriter::addCompressed(const std::string &member, std::span<const uint8_t> frame, uint64_t unpackedBytes) {
  add(member, frame);
  state->members[member].unpackedBytes = unpackedBytes;
}

std::string constantMember(std::span<const uint8_t> bytes) { return std::string(kConstantPrefix) + hashHex(bytes); }

std::string planMember(std::string_view bucket, std::string_view target) {
  return fmt::format("buckets/{}/{}/plan.json", bucket, target);
}

std::string PackageWriter::addPlan(const std::string &bucket, const std::string &target, const Plan &plan) {
  std::string member = planMember(bucket, target);
  try {
    validatePlan(plan, member);
  } catch (const Error &error) {
    failInternal("{}", error.what());
  }
  add(member, writePlan(plan));
  state->plans[member] = plan;
  return member;
}

void PackageWriter::State::checkPlan(const std::string &member, const Plan &plan, const Manifest &manifest) const {
  if (plan.inputs.size() != manifest.inputs.size() || plan.outputs.size() != manifest.outputs.size())
    failInternal("'{}' has {} inputs and {} outputs, the manifest has {} and {}", member, plan.inputs.size(),
                 plan.outputs.size(), manifest.inputs.size(), manifest.outputs.size());
  for (const PlanBuffer &buffer : plan.buffers) {
    if (buffer.space == Space::Constant)
      need(buffer.name, member);
    if (buffer.space == Space::Weight && !manifest.weights.contains(buffer.name))
      failInternal("'{}' names the weight '{}', which is not in the manifest", member, buffer.name);
  }
}

void PackageWriter::State::checkManifest(const Manifest &manifest) const {
  for (const ManifestTarget &target : manifest.targets)
    if (!target.object.empty())
      need(target.object, fmt::format("target '{}'", target.name));
  for (const ManifestBucket &bucket : manifest.buckets)
    for (const auto &[target, member] : bucket.plans) {
      need(member, fmt::format("bucket '{}'", bucket.name));
      if (auto plan = plans.find(member); plan != plans.end())
        checkPlan(member, plan->second, manifest);
    }
  for (const auto &[name, weight] : manifest.weights) {
    if (weight.entry.empty())
      continue;
    need(weight.entry, fmt::format("weight '{}'", name));
    uint64_t expected = PortDesc{name, weight.dtype, weight.shape}.bytes();
    if (uint64_t found = members.at(weight.entry).bytes; found != expected)
      failInternal("weight '{}' has {} bytes, its member '{}' has {}", name, expected, weight.entry, found);
  }
}

void PackageWriter::finish(const Manifest &manifest) {
  if (!state->open.empty())
    failInternal("package member '{}' was not ended", state->open);
  state->checkManifest(manifest);
  std::string text = writeManifest(manifest, state->members);
  try {
    parseManifest(text, "manifest.json");
  } catch (const Error &error) {
    failInternal("{}", error.what());
  }
  state->zip.add("manifest.json", text);
  state->zip.finish();
}

} // namespace ditc
