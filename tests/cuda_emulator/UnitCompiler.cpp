// SPDX-License-Identifier: Apache-2.0
#include "UnitCompiler.h"

#include "UnitText.h"

#include <chrono>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <spawn.h>
#include <stdexcept>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

namespace emulator {
namespace {

namespace fs = std::filesystem;

std::string environment(const char *name, const char *otherwise) {
  const char *value = getenv(name);
  return value ? value : otherwise;
}

std::string readFile(const fs::path &path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void writeFile(const fs::path &path, const std::string &text) {
  fs::create_directories(path.parent_path());
  std::ofstream out(path, std::ios::binary);
  out << text;
  if (!out.flush())
    throw std::runtime_error("cannot write " + path.string());
}

/// A folder of its own that goes when the object goes.
struct TemporaryFolder {
  fs::path path;
  TemporaryFolder() {
    std::string pattern = (fs::temp_directory_path() / "ditc-emulator-XXXXXX").string();
    if (!mkdtemp(pattern.data()))
      throw std::runtime_error("cannot make a temporary folder " + pattern);
    path = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
};

/// Of the object file alone: a driver that only compiles does so in its own process, and linking by way of it costs as
/// much as an average unit's compilation.
std::vector<std::string> compileCommand(const UnitSource &source, const std::string &file) {
  std::vector<std::string> command = {environment("DITC_EMULATOR_CXX", DITC_EMULATOR_DEFAULT_CXX),
                                      "-x",
                                      "c++",
                                      "-std=c++20",
                                      "-O1",
                                      "-fPIC",
                                      "-c",
                                      "-w",
                                      "-I.",
                                      "-ffp-contract=off",
                                      "-fno-math-errno",
                                      "-fvisibility=hidden",
                                      "-fno-exceptions",
                                      "-fno-rtti",
                                      "-fno-strict-aliasing",
                                      "-fwrapv",
                                      "-fno-threadsafe-statics",
                                      "-fno-diagnostics-color",
                                      "-fno-caret-diagnostics",
                                      "-include",
                                      DITC_EMULATOR_FOLDER "/emulator.h"};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c"))
    command.push_back("-march=x86-64-v3"); // else every fmaf is a call
#endif
  command.insert(command.end(), source.options.begin(), source.options.end());
  if (std::string level = environment("DITC_EMULATOR_OPTIMIZE", ""); !level.empty())
    command.push_back("-O" + level);
  command.insert(command.end(), {"-o", "unit.o", file});
  return command;
}

/// Runs the command in the folder, its output in `log`; says whether it ended with 0.
bool runIn(const fs::path &folder, const std::vector<std::string> &command, std::string &log) {
  std::vector<char *> arguments;
  for (const std::string &argument : command)
    arguments.push_back(const_cast<char *>(argument.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addchdir_np(&actions, folder.c_str());
  posix_spawn_file_actions_addopen(&actions, 1, "log", O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t child = 0;
  int error = posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error)
    throw std::runtime_error("cannot run the compiler " + command[0] + "; DITC_EMULATOR_CXX can name another");
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  log = readFile(folder / "log");
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/// unit.o becomes unit.so: by the linker itself, else, where that finds a library missing or is not there, by the driver.
bool link(const fs::path &folder, std::string &log) {
  std::string ignored;
  try {
    if (runIn(folder, {"ld", "-shared", "--no-undefined", "-o", "unit.so", "unit.o", "-lm", "-lc"}, ignored))
      return true;
  } catch (const std::runtime_error &) {
  }
  std::string driver = environment("DITC_EMULATOR_CXX", DITC_EMULATOR_DEFAULT_CXX);
  return runIn(folder, {driver, "-shared", "-o", "unit.so", "unit.o", "-lm"}, log);
}

std::string hashOf(const std::vector<std::string> &parts) {
  uint64_t a = 14695981039346656037u, b = 0x9e3779b97f4a7c15u; // FNV-1a, and the same from another start
  for (const std::string &part : parts)
    for (size_t i = 0; i <= part.size(); ++i) {
      uint8_t byte = i < part.size() ? static_cast<uint8_t>(part[i]) : 0;
      a = (a ^ byte) * 1099511628211u;
      b = (b ^ byte) * 0x2545f4914f6cdd1du + 1;
    }
  char text[40];
  snprintf(text, sizeof text, "%016lx%016lx", static_cast<unsigned long>(a), static_cast<unsigned long>(b));
  return text;
}

std::vector<std::string> ownHeaders() {
  std::vector<std::string> texts;
  for (const char *name : {"abi.h", "emulator.h", "emulator_types.h", "emulator_math.h"})
    texts.push_back(readFile(fs::path(DITC_EMULATOR_FOLDER) / name));
  return texts;
}

/// Where the result is kept; empty when it is not.
fs::path cachedFile(const UnitSource &source, const std::vector<std::string> &command) {
  std::string folder = environment("DITC_EMULATOR_CACHE", DITC_EMULATOR_DEFAULT_CACHE);
  if (folder.empty())
    return {};
  std::vector<std::string> parts = {source.text, source.arch};
  parts.insert(parts.end(), command.begin(), command.end());
  for (const auto &[name, text] : source.headers)
    parts.insert(parts.end(), {name, text});
  std::vector<std::string> own = ownHeaders();
  parts.insert(parts.end(), own.begin(), own.end());
  return fs::path(folder) / (hashOf(parts) + ".so");
}

/// Removes what has not been used for two days, once per process.
void tidy(const fs::path &folder) {
  static const bool done = [&] {
    auto oldest = fs::file_time_type::clock::now() - std::chrono::hours(48);
    std::error_code ignored;
    for (const auto &entry : fs::directory_iterator(folder, ignored))
      if (fs::last_write_time(entry.path(), ignored) < oldest)
        fs::remove(entry.path(), ignored);
    return true;
  }();
  (void)done;
}

/// Whole or not at all, also with several processes at work; a cache that cannot be written is no error.
void keep(const fs::path &cached, const std::string &image) {
  try {
    tidy(cached.parent_path());
    fs::path unfinished = cached;
    unfinished += "." + std::to_string(getpid()) + "." + std::to_string(reinterpret_cast<uintptr_t>(&unfinished));
    writeFile(unfinished, image);
    fs::rename(unfinished, cached);
  } catch (const std::exception &) {
  }
}

/// "unit.cu:2:5: error: ..." as NVRTC writes it, "unit.cu(2): error: ...".
std::string likeNvrtc(const std::string &log) {
  std::string result;
  for (size_t at = 0; at < log.size();) {
    size_t end = std::min(log.find('\n', at), log.size() - 1) + 1;
    std::string line = log.substr(at, end - at);
    size_t colon = line.find(':');
    size_t number = colon + 1, behind = number;
    while (colon != std::string::npos && behind < line.size() && isdigit(static_cast<unsigned char>(line[behind])))
      ++behind;
    if (colon != std::string::npos && behind > number && line[behind] == ':') {
      size_t column = behind + 1;
      while (column < line.size() && isdigit(static_cast<unsigned char>(line[column])))
        ++column;
      line = line.substr(0, colon) + "(" + line.substr(number, behind - number) + ")" + line.substr(column);
    }
    result += line;
    at = end;
  }
  return result;
}

} // namespace

CompiledUnit compileUnit(const UnitSource &source) {
  std::string file = fs::path(source.name).filename().string();
  if (file.empty())
    file = "default_program";
  std::vector<std::string> command = compileCommand(source, file);
  fs::path cached = cachedFile(source, command);
  std::string image = cached.empty() ? "" : readFile(cached);
  CompiledUnit result;
  if (image.empty()) {
    TemporaryFolder folder;
    writeFile(folder.path / file, rewriteUnit(source.text, source.arch));
    for (const auto &[name, text] : source.headers) {
      fs::path relative = fs::path(name).lexically_normal();
      if (relative.is_absolute() || *relative.begin() == "..")
        throw std::runtime_error("the header '" + name + "' lies outside the unit's folder");
      writeFile(folder.path / relative, rewriteHeader(text));
    }
    bool good = runIn(folder.path, command, result.log) && link(folder.path, result.log);
    result.log = likeNvrtc(result.log);
    if (!good)
      return result;
    image = readFile(folder.path / "unit.so");
    if (!cached.empty())
      keep(cached, image);
  } else {
    std::error_code ignored;
    fs::last_write_time(cached, fs::file_time_type::clock::now(), ignored);
  }
  result.success = true;
  result.image.assign(image.begin(), image.end());
  return result;
}

unsigned emulatorVersion() { return static_cast<unsigned>(std::stoul(hashOf(ownHeaders()).substr(0, 4), nullptr, 16)); }

} // namespace emulator
