// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/LibraryFolders.h"

#include <cstdlib>
#include <filesystem>

namespace ditc::cuda {
namespace {

namespace fs = std::filesystem;

/// Folders of wheels below a Python prefix.
void addWheelFolders(const fs::path &prefix, std::span<const char *const> wheels, std::vector<fs::path> &folders) {
  std::error_code ignored;
  for (const char *lib : {"lib", "lib64"})
    for (const auto &python : fs::directory_iterator(prefix / lib, ignored))
      if (python.path().filename().string().starts_with("python3"))
        for (const char *packages : {"site-packages", "dist-packages"})
          for (const char *wheel : wheels)
            folders.push_back(python.path() / packages / wheel);
}

const char *environment(const char *name) {
  const char *value = std::getenv(name);
  return value && *value ? value : nullptr;
}

} // namespace

std::vector<std::string> libraryFiles(std::span<const char *const> names, std::span<const char *const> wheels) {
  std::vector<fs::path> folders;
  for (const char *variable : {"CUDA_HOME", "CUDA_PATH"})
    if (const char *toolkit = environment(variable))
      folders.push_back(fs::path(toolkit) / "lib64");
  folders.push_back("/usr/local/cuda/lib64");
  for (const char *variable : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    if (const char *prefix = environment(variable))
      addWheelFolders(prefix, wheels, folders);
  if (const char *home = environment("HOME"))
    addWheelFolders(fs::path(home) / ".local", wheels, folders);
  addWheelFolders("/usr/local", wheels, folders);
  addWheelFolders("/usr", wheels, folders);
  // The loader first: it also finds a library that the process has loaded already, which is the right one.
  std::vector<std::string> files(names.begin(), names.end());
  std::error_code ignored;
  for (const fs::path &folder : folders)
    for (const char *name : names)
      if (fs::exists(folder / name, ignored))
        files.push_back((folder / name).string());
  return files;
}

} // namespace ditc::cuda
