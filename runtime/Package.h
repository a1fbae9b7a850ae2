// SPDX-License-Identifier: Apache-2.0
//
// The .dita package: a reader that hands out mapped and hash-checked members, and
// the writer that the compiler uses. docs/package-format.md describes the file.
#pragma once

#include "runtime/HostBytes.h"
#include "runtime/Manifest.h"
#include "runtime/Plan.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ditc {

/// "constants/<hash of the bytes>"
std::string constantMember(std::span<const uint8_t> bytes);
/// "buckets/<bucket>/<target>/plan.json"
std::string planMember(std::string_view bucket, std::string_view target);

/// A read-only package, memory-mapped. Copies share the mapping; all members may be called from several
/// threads. Opening checks the version, the manifest, and that every member that it names is there with
/// the size it should have.
class Package {
public:
  /// Throws Error (Input): no such file, not a package, another version, damaged manifest.
  static Package open(const std::string &path);

  const std::string &path() const;
  const Manifest &manifest() const;
  bool has(std::string_view member) const;
  /// The member's bytes, mapped, 64-byte aligned; its hash is checked at the first call. Throws Error
  /// (Input): no such member, its content does not have the hash that the manifest gives, or it is a constant that is
  /// compressed.
  std::span<const uint8_t> bytes(std::string_view member) const;
  std::string_view text(std::string_view member) const;
  /// As bytes(), without the hash.
  std::span<const uint8_t> uncheckedBytes(std::string_view member) const;
  /// As bytes(), also of what is compressed: then in memory of its own, which each call takes and fills anew.
  HostBytes constant(std::string_view member) const;
  /// Throws Error (Input) unless the member has its hash, and what is compressed can be decompressed.
  void verify(std::string_view member) const;
  /// The validated plan, whose weights and constants are checked against the manifest as well. Throws
  /// Error (Input): no such bucket or target (with the list of those there are), or a damaged plan.
  Plan plan(std::string_view bucket, std::string_view target) const;
  /// Names of all members but the manifest.
  std::vector<std::string> members() const;
  /// Bytes that a member has in the file, and when it is not compressed; 0 when there is none.
  uint64_t memberBytes(std::string_view member) const;
  uint64_t unpackedBytes(std::string_view member) const;

private:
  struct State;
  std::shared_ptr<State> state;
};

/// Writes a package. Equal calls give equal bytes. Nothing is at `path` until finish() renames the
/// finished file; a writer that is destroyed before leaves nothing behind. Throws Error (Input) when the
/// file cannot be written.
class PackageWriter {
public:
  explicit PackageWriter(const std::string &path);
  ~PackageWriter();
  PackageWriter(PackageWriter &&) noexcept;

  void add(const std::string &member, std::span<const uint8_t> bytes);
  void add(const std::string &member, std::string_view text);
  /// A member written piece by piece: begin, append..., end.
  void begin(const std::string &member);
  void append(std::span<const uint8_t> bytes);
  void end();
  /// Adds the member constants/<hash> unless it is there already, compressed when that is worth it; its name.
  std::string addConstant(std::span<const uint8_t> bytes);
  /// A constant that compressConstant() made of `unpackedBytes` bytes.
  void addCompressed(const std::string &member, std::span<const uint8_t> frame, uint64_t unpackedBytes);
  /// Validates the plan and adds it as planMember(bucket, target); the member's name.
  std::string addPlan(const std::string &bucket, const std::string &target, const Plan &plan);
  /// Checks that the manifest and the members fit, adds the manifest with the hashes, and renames.
  /// Throws Error (Internal) when they do not fit: that is the compiler's fault.
  void finish(const Manifest &manifest);

private:
  struct State;
  std::unique_ptr<State> state;
};

} // namespace ditc
