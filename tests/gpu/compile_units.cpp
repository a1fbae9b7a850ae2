// SPDX-License-Identifier: Apache-2.0
//
// compile_units ARCH HEADER_FOLDER UNIT.cu...: compiles translation units in parallel, each to UNIT.cubin beside it, and
// prints per unit the registers, spills and time. For the bundles of tests/gpu; it uses the compiler's own NVRTC class.
#include "codegen/cuda/Nvrtc.h"
#include "runtime/Error.h"

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <thread>

using namespace ditc;
namespace fs = std::filesystem;

namespace {

std::string readFile(const fs::path &path) {
  std::ifstream in(path, std::ios::binary);
  if (!in)
    fail("cannot read '{}'", path.string());
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Every .cuh below the folder, by its path from there: the name under which headers include each other.
std::vector<std::pair<std::string, std::string>> readHeaders(const fs::path &folder) {
  std::vector<std::pair<std::string, std::string>> headers;
  for (const auto &entry : fs::recursive_directory_iterator(folder))
    if (entry.path().extension() == ".cuh")
      headers.emplace_back(fs::relative(entry.path(), folder).generic_string(), readFile(entry.path()));
  return headers;
}

/// The number before `what` in the assembler's report, or "?".
std::string number(const CudaBinary &binary, const char *what) {
  std::optional<int> reported = binary.reported(what);
  return reported ? std::to_string(*reported) : "?";
}

} // namespace

int main(int argc, char **argv) try {
  if (argc < 4) {
    fmt::print(stderr, "usage: compile_units ARCH HEADER_FOLDER UNIT.cu...\n");
    return 2;
  }
  auto headers = readHeaders(argv[2]);
  std::vector<fs::path> units(argv + 3, argv + argc);
  std::atomic<size_t> next = 0;
  std::atomic<bool> failed = false;
  std::mutex printing;

  auto work = [&] {
    for (size_t i; !failed && (i = next++) < units.size();)
      try {
        auto start = std::chrono::steady_clock::now();
        CudaBinary binary = Nvrtc::get().compile(
            {units[i].filename(), readFile(units[i]), headers, argv[1], {"--ptxas-options=-v"}});
        double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        std::ofstream(fs::path(units[i]).replace_extension("cubin"), std::ios::binary)
            .write(reinterpret_cast<const char *>(binary.image.data()), static_cast<std::streamsize>(binary.image.size()));
        std::lock_guard lock(printing);
        fmt::print("{:48} {:>4} registers {:>4} stack {:>4} spilled  {:5.2f} s\n", units[i].stem().string(),
                   number(binary, "registers"), number(binary, "bytes stack frame"),
                   number(binary, "bytes spill stores"), seconds);
        if (binary.log.find("warning") != std::string::npos || binary.log.find("(C75") != std::string::npos)
          fmt::print("{}\n", binary.log);
      } catch (const Error &error) {
        std::lock_guard lock(printing);
        fmt::print(stderr, "{}\n", error.what());
        failed = true;
      }
  };
  std::vector<std::jthread> threads;
  for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i)
    threads.emplace_back(work);
  threads.clear();
  return failed ? 1 : 0;
} catch (const Error &error) {
  fmt::print(stderr, "compile_units: {}\n", error.what());
  return 1;
}
