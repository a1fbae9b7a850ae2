// SPDX-License-Identifier: Apache-2.0
//
// Temporary file, fsync, rename, fsync of the folder: the order that survives a power cut.
//
// Who may remove a temporary file: whoever holds its lock and finds that the name still means the locked file.
// A writer keeps the lock from creation to rename, so a lock that can be had is one of a dead writer.
#include "runtime/AtomicFile.h"

#include "runtime/Error.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ditc {

namespace {

// Linux writes at most 0x7ffff000 bytes in one call; smaller pieces keep a signal's delay short.
constexpr size_t kLargestWrite = size_t{1} << 28;
constexpr int kMaxAttempts = 1000;
constexpr std::string_view kTemporary = ".ditc.tmp-"; ///< then a number

std::string folderOf(const std::string &path) {
  size_t slash = path.rfind('/');
  if (slash == std::string::npos)
    return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

/// The file that `path` stands for. Renaming over a device or a pipe would replace it by a regular file, and over a
/// symbolic link would cut the link, so the first is refused and the second followed.
std::string targetOf(const std::string &path) {
  std::error_code error;
  std::filesystem::path target = path;
  std::filesystem::file_status status = std::filesystem::status(target, error); // behind links, such as /dev/stdout
  if (std::filesystem::is_symlink(std::filesystem::symlink_status(target, error)))
    target = std::filesystem::weakly_canonical(target, error);
  bool replaceable = std::filesystem::is_regular_file(status) || std::filesystem::is_directory(status); // renaming onto a folder fails by itself
  if (std::filesystem::exists(status) && !replaceable)
    fail("cannot write '{}': it is a device or a pipe, not a file; choose another path", path);
  return target.string();
}

/// True when the name means the open file, and not another one or none.
bool isFileAt(const std::string &name, int fd) {
  struct stat named, opened;
  return ::lstat(name.c_str(), &named) == 0 && ::fstat(fd, &opened) == 0 && named.st_ino == opened.st_ino &&
         named.st_dev == opened.st_dev;
}

} // namespace

AtomicFile::AtomicFile(const std::string &name) : path(targetOf(name)) {
  int error = EEXIST;
  for (int attempt = 0; attempt < kMaxAttempts && error == EEXIST; ++attempt) {
    temporaryPath = fmt::format("{}{}{}", path, kTemporary, attempt);
    error = create();
    if (error == EEXIST && removeAbandoned(temporaryPath))
      error = create();
  }
  if (error)
    fail("cannot create '{}': {}; check that the folder exists and may be written", path, std::strerror(error));
}

AtomicFile::~AtomicFile() {
  if (!temporaryPath.empty())
    ::unlink(temporaryPath.c_str()); // before the lock goes: afterwards the name may be another writer's
  if (fd >= 0)
    ::close(fd);
}

/// Creates and locks the temporary file. Returns an errno; EEXIST when another writer has the name.
int AtomicFile::create() {
  // O_EXCL and not mkstemp: the file must get the permissions of an ordinary new file (umask), not 0600.
  fd = ::open(temporaryPath.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0)
    return errno;
  // Until it was locked, the file looked abandoned. Where there are no locks, nobody removes it for that.
  bool taken = ::flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  if (!taken && isFileAt(temporaryPath, fd))
    return 0;
  ::close(fd);
  fd = -1;
  return EEXIST;
}

std::string_view AtomicFile::targetOfTemporary(std::string_view name) {
  size_t at = name.rfind(kTemporary);
  bool numbered = at != std::string_view::npos && at + kTemporary.size() < name.size() &&
                  name.find_first_not_of("0123456789", at + kTemporary.size()) == std::string_view::npos;
  return numbered ? name.substr(0, at) : std::string_view();
}

bool AtomicFile::removeAbandoned(const std::string &temporaryPath) {
  int file = ::open(temporaryPath.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (file < 0)
    return false;
  struct stat status;
  bool removed = ::fstat(file, &status) == 0 && S_ISREG(status.st_mode) && ::flock(file, LOCK_EX | LOCK_NB) == 0 &&
                 isFileAt(temporaryPath, file) && ::unlink(temporaryPath.c_str()) == 0;
  ::close(file);
  return removed;
}

void AtomicFile::failWriting(int error) const {
  fail("cannot write '{}' after {} bytes: {}; free some space or choose another path", path, written,
       std::strerror(error));
}

void AtomicFile::write(std::span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    ssize_t count = ::write(fd, bytes.data(), std::min(bytes.size(), kLargestWrite));
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      failWriting(count < 0 ? errno : EIO);
    written += static_cast<uint64_t>(count);
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
}

void AtomicFile::write(std::string_view text) {
  write(std::span(reinterpret_cast<const uint8_t *>(text.data()), text.size()));
}

void AtomicFile::rewrite(uint64_t offset, std::string_view text) {
  while (!text.empty()) {
    ssize_t count = ::pwrite(fd, text.data(), text.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      failWriting(count < 0 ? errno : EIO);
    offset += static_cast<uint64_t>(count);
    text.remove_prefix(static_cast<size_t>(count));
  }
}

void AtomicFile::commit(bool sync) {
  if (sync && ::fsync(fd) != 0)
    failWriting(errno);
  if (::rename(temporaryPath.c_str(), path.c_str()) != 0)
    fail("cannot rename the finished file to '{}': {}; choose another path", path, std::strerror(errno));
  temporaryPath.clear();
  ::close(fd); // after the rename, up to which the lock is needed; all errors of writing came with fsync
  fd = -1;
  if (!sync)
    return;
  // The rename itself is durable only with the folder; some file systems cannot sync folders, which is no
  // reason to fail a finished file.
  int folder = ::open(folderOf(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder >= 0) {
    ::fsync(folder);
    ::close(folder);
  }
}

void refuseToReplace(const std::string &output, const std::string &input) {
  std::error_code error; // of a file that is not there, which others tell
  if (std::filesystem::equivalent(output, input, error))
    fail("'{}' is to be written, but is the same file as '{}', which is read; choose another path", output, input);
}

} // namespace ditc
