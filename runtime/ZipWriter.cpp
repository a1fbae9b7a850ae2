// SPDX-License-Identifier: Apache-2.0
//
// Writes members in call order. A header is written before its payload and, for members that come piece by
// piece, again behind it, when size and CRC are known: no data descriptors, so any reader can stream it.
#include "runtime/AtomicFile.h"
#include "runtime/Error.h"
#include "runtime/Text.h"
#include "runtime/ZipFormat.h"

#include <unordered_set>
#include <zlib.h>

namespace ditc {

using namespace zip;

struct ZipWriter::State {
  explicit State(const std::string &path) : path(path), file(path) {}

  Member newMember(const std::string &name);
  void take(std::span<const uint8_t> bytes);

  std::string path;
  AtomicFile file;
  std::vector<Member> members;
  std::unordered_set<std::string> names;
  bool isOpen = false; ///< members.back() is being written
  bool isFinished = false;
};

Member ZipWriter::State::newMember(const std::string &name) {
  if (isOpen || isFinished)
    failInternal("'{}': member '{}' begins while the archive is {}", path, printable(name),
                 isOpen ? "writing another one" : "finished");
  if (std::string_view fault = nameFault(name); !fault.empty())
    fail("'{}': the member name '{}' {}; rename the weight or kernel", path, printable(name), fault);
  if (!names.insert(name).second)
    fail("'{}': the member '{}' is added twice; rename one of the two", path, printable(name));
  Member member;
  member.headerOffset = file.size();
  member.entry.name = name;
  member.entry.payloadOffset = payloadOffsetFor(member.headerOffset, name);
  return member;
}

void ZipWriter::State::take(std::span<const uint8_t> bytes) {
  ZipEntry &entry = members.back().entry;
  file.write(bytes);
  entry.crc32 = static_cast<uint32_t>(::crc32_z(entry.crc32, bytes.data(), bytes.size()));
  entry.size += bytes.size();
}

ZipWriter::ZipWriter(const std::string &path) : state(std::make_unique<State>(path)) {}
ZipWriter::~ZipWriter() = default;

void ZipWriter::add(const std::string &name, std::span<const uint8_t> bytes) {
  Member member = state->newMember(name);
  member.entry.size = bytes.size();
  member.entry.crc32 = static_cast<uint32_t>(::crc32_z(0, bytes.data(), bytes.size()));
  state->file.write(renderLocalHeader(member));
  state->file.write(bytes);
  state->members.push_back(std::move(member));
}

void ZipWriter::add(const std::string &name, std::string_view text) {
  add(name, std::span(reinterpret_cast<const uint8_t *>(text.data()), text.size()));
}

void ZipWriter::begin(const std::string &name) {
  Member member = state->newMember(name);
  state->file.write(renderLocalHeader(member));
  state->members.push_back(std::move(member));
  state->isOpen = true;
}

void ZipWriter::append(std::span<const uint8_t> bytes) {
  if (!state->isOpen)
    failInternal("'{}': append outside begin and end", state->path);
  if (!bytes.empty())
    state->take(bytes);
}

void ZipWriter::end() {
  if (!state->isOpen)
    failInternal("'{}': end without begin", state->path);
  state->isOpen = false;
  const Member &member = state->members.back();
  state->file.rewrite(member.headerOffset, renderLocalHeader(member));
}

void ZipWriter::finish() {
  if (state->isOpen || state->isFinished)
    failInternal("'{}': finish while the archive is {}", state->path, state->isOpen ? "writing" : "finished");
  state->file.write(renderDirectory(state->members, state->file.size()));
  state->file.commit();
  state->isFinished = true;
}

} // namespace ditc
