// SPDX-License-Identifier: Apache-2.0
#include "codegen/cuda/Nvrtc.h"

#include "runtime/Error.h"

#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <regex>

namespace ditc {
namespace {

namespace fs = std::filesystem;
using Program = struct OpaqueNvrtcProgram *;
constexpr int kSuccess = 0, kCompilationFailed = 6;

/// Newest first: a newer NVRTC knows all architectures of an older one that ditc targets.
constexpr const char *kNames[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};

/// Folders in which pip puts the wheels nvidia-cuda-nvrtc and nvidia-cuda-nvrtc-cu12, below a Python prefix.
void addWheelFolders(const fs::path &prefix, std::vector<fs::path> &folders) {
  std::error_code ignored;
  for (const char *lib : {"lib", "lib64"})
    for (const auto &python : fs::directory_iterator(prefix / lib, ignored))
      if (python.path().filename().string().starts_with("python3"))
        for (const char *packages : {"site-packages", "dist-packages"})
          for (const char *wheel : {"nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"})
            folders.push_back(python.path() / packages / wheel);
}

/// Where to look, in order. A path that the user gives is the only one.
std::vector<std::string> candidates() {
  std::vector<fs::path> folders;
  std::vector<std::string> files;
  if (const char *given = std::getenv("DITC_NVRTC"); given && *given) {
    if (!fs::is_directory(given))
      return {given};
    folders.push_back(given);
  } else {
    for (const char *variable : {"CUDA_HOME", "CUDA_PATH"})
      if (const char *toolkit = std::getenv(variable); toolkit && *toolkit)
        folders.push_back(fs::path(toolkit) / "lib64");
    folders.push_back("/usr/local/cuda/lib64");
    for (const char *variable : {"VIRTUAL_ENV", "CONDA_PREFIX"})
      if (const char *prefix = std::getenv(variable); prefix && *prefix)
        addWheelFolders(prefix, folders);
    if (const char *home = std::getenv("HOME"); home && *home)
      addWheelFolders(fs::path(home) / ".local", folders);
    addWheelFolders("/usr/local", folders);
    addWheelFolders("/usr", folders);
  }
  std::error_code ignored;
  for (const fs::path &folder : folders)
    for (const char *name : kNames)
      if (fs::exists(folder / name, ignored))
        files.push_back((folder / name).string());
  if (!std::getenv("DITC_NVRTC"))
    files.insert(files.end(), std::begin(kNames), std::end(kNames)); // wherever the loader looks
  return files;
}

template <typename Function>
void resolve(void *library, const char *symbol, Function &function) {
  function = reinterpret_cast<Function>(dlsym(library, symbol));
  if (!function)
    fail("the NVRTC library that was found has no function '{}'; CUDA 12.0 or newer is needed, and DITC_NVRTC, if it is set, must name a libnvrtc.so", symbol);
}

} // namespace

struct Nvrtc::Functions {
  int (*version)(int *, int *);
  const char *(*errorString)(int);
  int (*createProgram)(Program *, const char *, const char *, int, const char *const *, const char *const *);
  int (*destroyProgram)(Program *);
  int (*compileProgram)(Program, int, const char *const *);
  int (*cubinSize)(Program, size_t *);
  int (*cubin)(Program, char *);
  int (*ptxSize)(Program, size_t *);
  int (*ptx)(Program, char *);
  int (*logSize)(Program, size_t *);
  int (*log)(Program, char *);
  int (*architectureCount)(int *); // null when the library has not got them
  int (*architectures)(int *);
};

Nvrtc::Nvrtc() {
  std::string tried;
  void *library = nullptr;
  for (const std::string &file : candidates()) {
    library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library) {
      libraryPath = file;
      break;
    }
    tried += fmt::format("\n  {}", dlerror());
  }
  if (!library)
    fail("NVRTC, which compiles CUDA kernels, was not found: install the CUDA toolkit or 'pip install nvidia-cuda-nvrtc', "
         "or set DITC_NVRTC to the path of libnvrtc.so{}{}",
         tried.empty() ? "" : "; tried:", tried);

  static Functions loaded;
  resolve(library, "nvrtcVersion", loaded.version);
  resolve(library, "nvrtcGetErrorString", loaded.errorString);
  resolve(library, "nvrtcCreateProgram", loaded.createProgram);
  resolve(library, "nvrtcDestroyProgram", loaded.destroyProgram);
  resolve(library, "nvrtcCompileProgram", loaded.compileProgram);
  resolve(library, "nvrtcGetCUBINSize", loaded.cubinSize);
  resolve(library, "nvrtcGetCUBIN", loaded.cubin);
  resolve(library, "nvrtcGetPTXSize", loaded.ptxSize);
  resolve(library, "nvrtcGetPTX", loaded.ptx);
  resolve(library, "nvrtcGetProgramLogSize", loaded.logSize);
  resolve(library, "nvrtcGetProgramLog", loaded.log);
  loaded.architectureCount = reinterpret_cast<int (*)(int *)>(dlsym(library, "nvrtcGetNumSupportedArchs"));
  loaded.architectures = reinterpret_cast<int (*)(int *)>(dlsym(library, "nvrtcGetSupportedArchs"));
  functions = &loaded;
  loaded.version(&major, &minor);
}

const Nvrtc &Nvrtc::get() {
  static const Nvrtc library; // a failed attempt throws and is made again at the next call
  return library;
}

bool Nvrtc::available(std::string *whyNot) {
  try {
    get();
    return true;
  } catch (const Error &error) {
    if (whyNot)
      *whyNot = error.what();
    return false;
  }
}

std::vector<int> Nvrtc::architectures() const {
  int count = 0;
  if (!functions->architectureCount || !functions->architectures || functions->architectureCount(&count) != kSuccess)
    return {};
  std::vector<int> numbers(static_cast<size_t>(count));
  return functions->architectures(numbers.data()) == kSuccess ? numbers : std::vector<int>();
}

std::optional<int> CudaBinary::reported(const std::string &what) const {
  std::smatch match;
  return std::regex_search(log, match, std::regex("(\\d+) " + what)) ? std::optional(std::stoi(match[1])) : std::nullopt;
}

CudaBinary Nvrtc::compile(const CudaSource &source) const {
  auto check = [&](int status, const char *what) {
    if (status != kSuccess)
      fail("NVRTC cannot {} '{}': {}", what, source.name, functions->errorString(status));
  };

  std::vector<const char *> names, texts, options;
  for (const auto &[name, text] : source.headers) {
    names.push_back(name.c_str());
    texts.push_back(text.c_str());
  }
  std::vector<std::string> all = {"--gpu-architecture=" + source.arch, "--std=c++20"};
  all.insert(all.end(), source.options.begin(), source.options.end());
  for (const std::string &option : all)
    options.push_back(option.c_str());

  struct Holder {
    const Functions *functions;
    Program program = nullptr;
    ~Holder() {
      if (program)
        functions->destroyProgram(&program);
    }
  } holder{functions};
  check(functions->createProgram(&holder.program, source.text.c_str(), source.name.c_str(),
                                 static_cast<int>(names.size()), texts.data(), names.data()),
        "read");
  int status = functions->compileProgram(holder.program, static_cast<int>(options.size()), options.data());

  CudaBinary binary;
  size_t size = 0;
  if (functions->logSize(holder.program, &size) == kSuccess && size > 1) {
    binary.log.resize(size);
    functions->log(holder.program, binary.log.data());
    binary.log.resize(size - 1); // the terminating zero
  }
  if (status == kCompilationFailed)
    failInternal("NVRTC {}.{} rejects the kernel '{}' for {}:\n{}", major, minor, source.name, source.arch, binary.log);
  check(status, "compile");

  bool ptx = source.arch.starts_with("compute_");
  check(ptx ? functions->ptxSize(holder.program, &size) : functions->cubinSize(holder.program, &size), "size");
  binary.image.resize(size);
  char *image = reinterpret_cast<char *>(binary.image.data());
  check(ptx ? functions->ptx(holder.program, image) : functions->cubin(holder.program, image), "return");
  return binary;
}

} // namespace ditc
