// SPDX-License-Identifier: Apache-2.0
//
// Reads the directory of a stored zip and checks all of it before anything is used. The central directory
// is the truth: torch's local headers have neither sizes nor CRC. A file is refused as a whole, because an
// archive with one impossible member has no trustworthy other one.
#include "runtime/Error.h"
#include "runtime/MappedFile.h"
#include "runtime/Text.h"
#include "runtime/ZipFormat.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>
#include <zlib.h>

namespace ditc {

using namespace zip;

struct ZipReader::State {
  std::shared_ptr<const MappedFile> file;
  std::vector<ZipEntry> entries;
  std::unordered_map<std::string_view, size_t> byName; ///< views into entries
};

namespace {

// DiTs have some thousand members; a million is a file made to hurt.
constexpr uint64_t kMaxEntries = uint64_t{1} << 20;

/// One pass over the directory of the zip in `bytes`; offsets in the records count from there.
class DirectoryReader {
public:
  DirectoryReader(std::span<const uint8_t> bytes, uint64_t base, std::string label)
      : bytes(bytes), base(base), label(std::move(label)) {}

  std::vector<ZipEntry> read();

private:
  struct Directory {
    uint64_t offset = 0, size = 0, count = 0;
    uint64_t limit = 0; ///< start of the record behind the directory
  };
  struct Range {
    uint64_t begin, end; ///< header to end of payload
  };

  template <typename... Args> [[noreturn]] void damaged(fmt::format_string<Args...> format, Args &&...args) {
    fail("'{}': {}; the file is damaged or was changed, copy or save it again", label,
         fmt::format(format, std::forward<Args>(args)...));
  }

  uint64_t findEnd();
  Directory readEnd();
  void readEnd64(uint64_t endOffset, Directory &directory);
  void checkDirectory(const Directory &directory);
  /// Reads the entry at `position` and moves it behind; nothing for a folder.
  std::optional<ZipEntry> readEntry(uint64_t &position, const Directory &directory);
  void checkStored(const uint8_t *header, std::string_view name);
  void readZip64Field(std::span<const uint8_t> extra, std::string_view name, uint64_t &size, uint64_t &packedSize,
                      uint64_t &headerOffset);
  uint64_t payloadOffset(uint64_t headerOffset, const ZipEntry &entry);
  void checkRanges();

  std::span<const uint8_t> bytes;
  uint64_t base;
  std::string label;
  std::vector<Range> ranges;
};

uint64_t DirectoryReader::findEnd() {
  if (bytes.size() >= kEndSize) {
    uint64_t last = bytes.size() - kEndSize;
    uint64_t first = last > kNone16 ? last - kNone16 : 0;
    for (uint64_t at = last + 1; at-- > first;) {
      const uint8_t *record = bytes.data() + at;
      if (load<uint32_t>(record) == kEndSignature && at + kEndSize + load<uint16_t>(record + 20) == bytes.size())
        return at;
    }
  }
  if (bytes.size() >= 4 && load<uint32_t>(bytes.data()) == kLocalSignature)
    fail("'{}' starts like a zip file but ends without a directory: it is truncated; copy or save it again", label);
  fail("'{}' is not a zip file; expected an archive of torch.export.save, a ditc package or a tuning bundle", label);
}

void DirectoryReader::readEnd64(uint64_t endOffset, Directory &directory) {
  const uint8_t *locator = bytes.data() + endOffset - kLocator64Size;
  uint64_t recordOffset = load<uint64_t>(locator + 8);
  uint64_t latest = endOffset - kLocator64Size;
  if (latest < kEnd64Size || recordOffset > latest - kEnd64Size)
    damaged("the zip64 end record lies outside the file");
  const uint8_t *record = bytes.data() + recordOffset;
  if (load<uint32_t>(record) != kEnd64Signature)
    damaged("the zip64 end record is not where its locator says");
  if (load<uint32_t>(record + 16) != 0 || load<uint32_t>(record + 20) != 0)
    damaged("the archive is split over several files");
  auto take = [&](uint64_t plain, uint64_t none, uint64_t wide) { return plain == none ? wide : plain; };
  directory.count = take(directory.count, kNone16, load<uint64_t>(record + 32));
  directory.size = take(directory.size, kNone32, load<uint64_t>(record + 40));
  directory.offset = take(directory.offset, kNone32, load<uint64_t>(record + 48));
  directory.limit = recordOffset;
}

DirectoryReader::Directory DirectoryReader::readEnd() {
  uint64_t endOffset = findEnd();
  const uint8_t *record = bytes.data() + endOffset;
  if (load<uint16_t>(record + 4) != 0 || load<uint16_t>(record + 6) != 0 ||
      load<uint16_t>(record + 8) != load<uint16_t>(record + 10))
    damaged("the archive is split over several files");
  Directory directory;
  directory.count = load<uint16_t>(record + 10);
  directory.size = load<uint32_t>(record + 12);
  directory.offset = load<uint32_t>(record + 16);
  directory.limit = endOffset;
  bool hasLocator = endOffset >= kLocator64Size && load<uint32_t>(record - kLocator64Size) == kLocator64Signature;
  if (hasLocator)
    readEnd64(endOffset, directory);
  else if (directory.size == kNone32 || directory.offset == kNone32)
    damaged("the directory needs a zip64 record, which is missing");
  checkDirectory(directory);
  return directory;
}

void DirectoryReader::checkDirectory(const Directory &directory) {
  if (directory.offset > directory.limit || directory.size > directory.limit - directory.offset)
    damaged("its directory ({} bytes at {}) lies outside the file", directory.size, directory.offset);
  if (directory.count > kMaxEntries)
    damaged("it claims {} members, more than the {} that ditc accepts", directory.count, kMaxEntries);
  if (directory.count > directory.size / kCentralSize)
    damaged("it claims {} members, but its directory has only {} bytes", directory.count, directory.size);
}

void DirectoryReader::checkStored(const uint8_t *header, std::string_view name) {
  uint16_t flags = load<uint16_t>(header + 8), method = load<uint16_t>(header + 10);
  if (flags & (kFlagEncrypted | kFlagStrongEncryption | kFlagMaskedHeader))
    fail("'{}': member '{}' is encrypted; ditc reads plain archives only, save the file without a password", label,
         printable(name));
  if (method != 0)
    fail("'{}': member '{}' is compressed (zip method {}); ditc maps members in place and needs them stored, use the "
         "file as torch.export.save wrote it",
         label, printable(name), method);
}

void DirectoryReader::readZip64Field(std::span<const uint8_t> extra, std::string_view name, uint64_t &size,
                                     uint64_t &packedSize, uint64_t &headerOffset) {
  while (extra.size() >= 4) {
    uint16_t id = load<uint16_t>(extra.data()), length = load<uint16_t>(extra.data() + 2);
    if (length > extra.size() - 4)
      break;
    std::span<const uint8_t> field = extra.subspan(4, length);
    extra = extra.subspan(4 + length);
    if (id != kExtraZip64)
      continue;
    for (uint64_t *value : {&size, &packedSize, &headerOffset}) {
      if (*value != kNone32)
        continue;
      if (field.size() < 8)
        damaged("member '{}' has a zip64 field that is too short", printable(name));
      *value = load<uint64_t>(field.data());
      field = field.subspan(8);
    }
    return;
  }
  if (!extra.empty())
    damaged("member '{}' has a malformed extra field", printable(name));
  if (size == kNone32 || packedSize == kNone32 || headerOffset == kNone32)
    damaged("member '{}' needs a zip64 field, which is missing", printable(name));
}

uint64_t DirectoryReader::payloadOffset(uint64_t headerOffset, const ZipEntry &entry) {
  if (headerOffset > bytes.size() || bytes.size() - headerOffset < kLocalSize)
    damaged("the header of member '{}' lies outside the file", printable(entry.name));
  const uint8_t *header = bytes.data() + headerOffset;
  if (load<uint32_t>(header) != kLocalSignature)
    damaged("member '{}' has no header where the directory says", printable(entry.name));
  uint64_t nameSize = load<uint16_t>(header + 26), extraSize = load<uint16_t>(header + 28);
  uint64_t left = bytes.size() - headerOffset - kLocalSize;
  if (nameSize + extraSize > left || entry.size > left - nameSize - extraSize)
    damaged("member '{}' ({} bytes) reaches past the end of the file", printable(entry.name), entry.size);
  std::string_view name(reinterpret_cast<const char *>(header) + kLocalSize, nameSize);
  if (name != entry.name)
    damaged("member '{}' is called '{}' in its own header", printable(entry.name), printable(name));
  if (load<uint16_t>(header + 8) != 0)
    damaged("member '{}' is stored by the directory but compressed by its own header", printable(entry.name));
  uint32_t localSize = load<uint32_t>(header + 22);
  bool hasSize = !(load<uint16_t>(header + 6) & kFlagDescriptor) && localSize != kNone32;
  if (hasSize && localSize != entry.size)
    damaged("member '{}' has {} bytes by the directory but {} by its own header", printable(entry.name), entry.size,
            localSize);
  return headerOffset + kLocalSize + nameSize + extraSize;
}

std::optional<ZipEntry> DirectoryReader::readEntry(uint64_t &position, const Directory &directory) {
  uint64_t end = directory.offset + directory.size;
  const uint8_t *record = bytes.data() + position;
  if (end - position < kCentralSize || load<uint32_t>(record) != kCentralSignature)
    damaged("its directory is cut short or overwritten");
  uint64_t nameSize = load<uint16_t>(record + 28), extraSize = load<uint16_t>(record + 30);
  uint64_t total = kCentralSize + nameSize + extraSize + load<uint16_t>(record + 32);
  if (total > end - position)
    damaged("its directory is cut short or overwritten");
  position += total;

  ZipEntry entry;
  entry.name.assign(reinterpret_cast<const char *>(record) + kCentralSize, nameSize);
  checkStored(record, entry.name);
  if (std::string_view fault = nameFault(entry.name); !fault.empty())
    damaged("the member name '{}' {}", printable(entry.name), fault);
  entry.crc32 = load<uint32_t>(record + 16);
  uint64_t packedSize = load<uint32_t>(record + 20);
  entry.size = load<uint32_t>(record + 24);
  uint64_t headerOffset = load<uint32_t>(record + 42);
  readZip64Field({record + kCentralSize + nameSize, extraSize}, entry.name, entry.size, packedSize, headerOffset);
  if (packedSize != entry.size)
    damaged("stored member '{}' has two sizes, {} and {}", printable(entry.name), packedSize, entry.size);
  uint64_t payload = payloadOffset(headerOffset, entry);
  ranges.push_back({headerOffset, payload + entry.size});
  if (payload + entry.size > directory.offset)
    damaged("member '{}' overlaps the directory", printable(entry.name));
  entry.payloadOffset = base + payload;
  if (entry.name.back() == '/' && entry.size == 0)
    return std::nullopt;
  return entry;
}

void DirectoryReader::checkRanges() {
  std::sort(ranges.begin(), ranges.end(), [](const Range &a, const Range &b) { return a.begin < b.begin; });
  for (size_t i = 1; i < ranges.size(); ++i)
    if (ranges[i].begin < ranges[i - 1].end)
      damaged("two of its members overlap at byte {}", ranges[i].begin);
}

std::vector<ZipEntry> DirectoryReader::read() {
  Directory directory = readEnd();
  std::vector<ZipEntry> entries;
  entries.reserve(directory.count);
  uint64_t position = directory.offset;
  for (uint64_t i = 0; i < directory.count; ++i)
    if (std::optional<ZipEntry> entry = readEntry(position, directory))
      entries.push_back(*std::move(entry));
  if (position != directory.offset + directory.size)
    damaged("its directory has {} bytes more than its {} members need", directory.offset + directory.size - position,
            directory.count);
  checkRanges();
  return entries;
}

} // namespace

ZipReader ZipReader::open(const std::string &path) {
  std::shared_ptr<const MappedFile> file = MappedFile::open(path);
  return fromRange(file, 0, file->bytes().size(), path);
}

ZipReader ZipReader::openNested(const ZipReader &outer, const ZipEntry &member) {
  outer.bytes(member); // checks the range
  return fromRange(outer.state->file, member.payloadOffset, member.size, outer.path() + "/" + member.name);
}

ZipReader ZipReader::fromRange(std::shared_ptr<const MappedFile> file, uint64_t offset, uint64_t size,
                               const std::string &label) {
  auto state = std::make_shared<State>();
  state->entries = DirectoryReader(file->bytes().subspan(offset, size), offset, label).read();
  for (size_t i = 0; i < state->entries.size(); ++i)
    if (!state->byName.emplace(state->entries[i].name, i).second)
      fail("'{}': the member '{}' is there twice; the file is damaged or was changed, copy or save it again", label,
           printable(state->entries[i].name));
  state->file = std::move(file);
  ZipReader reader;
  reader.state = std::move(state);
  return reader;
}

const std::string &ZipReader::path() const { return state->file->path(); }
const std::vector<ZipEntry> &ZipReader::entries() const { return state->entries; }

const ZipEntry *ZipReader::find(std::string_view name) const {
  auto it = state->byName.find(name);
  return it == state->byName.end() ? nullptr : &state->entries[it->second];
}

std::span<const uint8_t> ZipReader::bytes(const ZipEntry &entry) const {
  std::span<const uint8_t> all = state->file->bytes();
  if (entry.payloadOffset > all.size() || entry.size > all.size() - entry.payloadOffset)
    failInternal("'{}': entry '{}' is not of this archive", path(), printable(entry.name));
  return all.subspan(entry.payloadOffset, entry.size);
}

std::string_view ZipReader::text(const ZipEntry &entry) const {
  std::span<const uint8_t> content = bytes(entry);
  return {reinterpret_cast<const char *>(content.data()), content.size()};
}

bool ZipReader::checkCrc(const ZipEntry &entry) const {
  if (entry.crc32 == 0)
    return true;
  std::span<const uint8_t> content = bytes(entry);
  return ::crc32_z(0, content.data(), content.size()) == entry.crc32;
}

} // namespace ditc
