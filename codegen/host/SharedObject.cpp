// SPDX-License-Identifier: Apache-2.0
//
// Runs ld.lld on temporary files.
#include "codegen/host/SharedObject.h"

#include "llvm/BinaryFormat/ELF.h"
#include "llvm/InterfaceStub/ELFObjHandler.h"
#include "llvm/InterfaceStub/IFSStub.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"

namespace ditc {
namespace {

/// A folder that goes away with everything in it.
class TemporaryFolder {
public:
  TemporaryFolder() : error(llvm::sys::fs::createUniqueDirectory("ditc-host", path)) {}
  ~TemporaryFolder() {
    if (!error)
      llvm::sys::fs::remove_directories(path);
  }
  TemporaryFolder(const TemporaryFolder &) = delete;
  TemporaryFolder &operator=(const TemporaryFolder &) = delete;

  std::error_code getError() const { return error; }
  std::string file(const llvm::Twine &name) const {
    llvm::SmallString<128> result = path;
    llvm::sys::path::append(result, name);
    return result.str().str();
  }

private:
  llvm::SmallString<128> path;
  std::error_code error;
};

llvm::Error writeFile(const std::string &path, llvm::ArrayRef<char> bytes) {
  std::error_code error;
  llvm::raw_fd_ostream stream(path, error);
  if (!error)
    stream.write(bytes.data(), bytes.size());
  stream.close();
  if (!error)
    error = stream.error();
  stream.clear_error();
  return error ? llvm::createStringError("cannot write '" + path + "': " + error.message()) : llvm::Error::success();
}

std::string readText(const std::string &path) {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  return buffer ? (*buffer)->getBuffer().trim().str() : std::string();
}

/// A library without symbols that goes by the name of libm, for the machine of `object`: linking to it makes the loader
/// fetch libm, which need not be in the process where a program opened the runtime with dlopen. Linking to this machine's
/// libm would tie the kernels to versions of its symbols.
llvm::Error writeLibmStub(const std::string &path, llvm::ArrayRef<char> object) {
  llvm::ifs::IFSStub stub;
  stub.SoName = "libm.so.6";
  stub.Target.ObjectFormat = "ELF";
  stub.Target.Arch = llvm::support::endian::read16le(object.data() + offsetof(llvm::ELF::Elf64_Ehdr, e_machine));
  stub.Target.Endianness = llvm::ifs::IFSEndiannessType::Little;
  stub.Target.BitWidth = llvm::ifs::IFSBitWidthType::IFS64;
  return llvm::ifs::writeBinaryStub(path, stub);
}

/// The whole command. Undefined symbols are allowed, which is the default for shared objects; nothing that depends
/// on time, folder or build goes into the file.
llvm::SmallVector<std::string> linkCommand(llvm::StringRef linker, llvm::ArrayRef<std::string> inputs, const std::string &output) {
  llvm::SmallVector<std::string> command{linker.str(), "-shared", "--build-id=none", "--strip-all", "--hash-style=gnu", "-z", "noexecstack", "-o", output};
  command.append(inputs.begin(), inputs.end());
  return command;
}

llvm::Error runLinker(llvm::ArrayRef<std::string> command, const std::string &log) {
  llvm::SmallVector<llvm::StringRef> words(command.begin(), command.end());
  std::optional<llvm::StringRef> redirects[] = {llvm::StringRef(), llvm::StringRef(log), llvm::StringRef(log)};
  std::string problem;
  int status = llvm::sys::ExecuteAndWait(words[0], words, std::nullopt, redirects, 0, 0, &problem);
  if (status == 0)
    return llvm::Error::success();
  return llvm::createStringError("'" + command[0] + "' failed: " + (problem.empty() ? readText(log) : problem));
}

} // namespace

llvm::Expected<std::string> findLinker(llvm::StringRef wanted) {
  if (!wanted.empty()) {
    if (llvm::sys::fs::can_execute(wanted))
      return wanted.str();
    return llvm::createStringError("the linker '" + wanted + "' cannot be executed");
  }
  llvm::SmallString<128> beside(DITC_LLVM_TOOLS_DIR);
  llvm::sys::path::append(beside, "ld.lld");
  if (llvm::sys::fs::can_execute(beside))
    return beside.str().str();
  for (llvm::StringRef name : {"ld.lld-22", "ld.lld"})
    if (auto found = llvm::sys::findProgramByName(name))
      return *found;
  return llvm::createStringError("ld.lld is not found; install the package lld-22 or name the linker");
}

llvm::Expected<std::vector<uint8_t>> linkSharedObject(llvm::ArrayRef<llvm::SmallVector<char, 0>> objects, llvm::StringRef linker) {
  TemporaryFolder folder;
  if (folder.getError()) {
    llvm::SmallString<128> parent;
    llvm::sys::path::system_temp_directory(/*ErasedOnReboot=*/true, parent);
    return llvm::createStringError("cannot make a folder in '" + parent.str() + "': " + folder.getError().message() + "; set TMPDIR to a folder that can be written");
  }
  llvm::SmallVector<std::string> inputs;
  for (size_t i = 0; i < objects.size(); ++i) {
    inputs.push_back(folder.file(llvm::Twine(i) + ".o"));
    if (llvm::Error error = writeFile(inputs.back(), objects[i]))
      return error;
  }
  inputs.push_back(folder.file("libm.so.6"));
  if (llvm::Error error = writeLibmStub(inputs.back(), objects.front()))
    return error;
  std::string output = folder.file("kernels.so");
  if (llvm::Error error = runLinker(linkCommand(linker, inputs, output), folder.file("log")))
    return error;
  auto buffer = llvm::MemoryBuffer::getFile(output);
  if (!buffer)
    return llvm::createStringError("cannot read '" + output + "': " + buffer.getError().message());
  llvm::StringRef bytes = (*buffer)->getBuffer();
  return std::vector<uint8_t>(bytes.bytes_begin(), bytes.bytes_end());
}

} // namespace ditc
