// SPDX-License-Identifier: Apache-2.0
//
// Stored (uncompressed) zip files, read by their central directory and written with aligned payloads, so
// that tensors can be mapped in place. Serves both .pt2 archives and .dita packages. zip64 both ways.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ditc {

/// One member of a zip file.
struct ZipEntry {
  std::string name;
  uint64_t payloadOffset = 0; ///< from the start of the file
  uint64_t size = 0;          ///< bytes
  uint32_t crc32 = 0;         ///< 0 may mean "not computed"
};

/// A read-only zip file, memory-mapped. Copies share the mapping. Every offset and size is checked
/// against the file when it is opened; throws Error (Input) for what is not a well-formed stored zip:
/// truncation, compression, encryption, overlapping or out-of-range members, duplicate names, names with
/// "..", a leading "/" or a backslash.
class ZipReader {
public:
  static ZipReader open(const std::string &path);
  /// A zip inside a byte range of a file (torch.save payloads in layouts A and B).
  static ZipReader openNested(const ZipReader &outer, const ZipEntry &member);

  const std::string &path() const;
  const std::vector<ZipEntry> &entries() const; ///< in central-directory order
  const ZipEntry *find(std::string_view name) const;
  std::span<const uint8_t> bytes(const ZipEntry &entry) const;
  std::string_view text(const ZipEntry &entry) const;
  /// True when the payload matches the entry's CRC (an entry with CRC 0 and size > 0 counts as unchecked: true).
  bool checkCrc(const ZipEntry &entry) const;

private:
  struct State;
  static ZipReader fromRange(std::shared_ptr<const class MappedFile> file, uint64_t offset, uint64_t size,
                             const std::string &label);

  std::shared_ptr<const State> state;
};

/// Writes a stored zip: payloads 64-byte aligned, fixed time stamps, entries in call order, so equal
/// input gives equal bytes. Writes to a temporary file beside `path`, renamed by `finish`; a writer that
/// is destroyed before leaves nothing behind. Throws Error (Input) when the file cannot be written, or for a
/// member name that ZipReader would refuse or that is there already.
class ZipWriter {
public:
  explicit ZipWriter(const std::string &path);
  ~ZipWriter();
  ZipWriter(const ZipWriter &) = delete;
  ZipWriter &operator=(const ZipWriter &) = delete;

  void add(const std::string &name, std::span<const uint8_t> bytes);
  void add(const std::string &name, std::string_view text);
  /// A member written piece by piece: begin, append..., end.
  void begin(const std::string &name);
  void append(std::span<const uint8_t> bytes);
  void end();
  void finish();

private:
  struct State;
  std::unique_ptr<State> state;
};

} // namespace ditc
