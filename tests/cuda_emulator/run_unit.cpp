// SPDX-License-Identifier: Apache-2.0
#include "run_unit.h"

#include "LoadedUnit.h"
#include "UnitCompiler.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sys/mman.h>

namespace emulator {
namespace {

namespace fs = std::filesystem;

std::vector<std::pair<std::string, std::string>> headersBelow(const fs::path &folder) {
  std::vector<std::pair<std::string, std::string>> headers;
  for (const auto &entry : fs::recursive_directory_iterator(folder))
    if (entry.path().extension() == ".cuh") {
      std::ifstream in(entry.path(), std::ios::binary);
      headers.emplace_back(fs::relative(entry.path(), folder).generic_string(),
                           std::string{std::istreambuf_iterator<char>(in), {}});
    }
  std::sort(headers.begin(), headers.end()); // folders list in any order; the cache compares
  return headers;
}

const KernelEntry &entryOf(const LoadedUnit &unit, const std::string &name) {
  if (const KernelEntry *entry = unit.find(name))
    return *entry;
  throw LaunchError("the unit has no kernel '" + name + "'");
}

} // namespace

EmulatedUnit::EmulatedUnit(const std::string &text, const std::string &headersFolder,
                           const std::vector<std::string> &options) {
  UnitSource source{"unit.cu", text, {}, "sm_80", options};
  if (!headersFolder.empty())
    source.headers = headersBelow(headersFolder);
  CompiledUnit compiled = compileUnit(source);
  if (!compiled.success)
    throw std::runtime_error("the unit does not compile:\n" + compiled.log);
  unit = std::make_unique<LoadedUnit>(compiled.image.data(), compiled.image.size());
}
EmulatedUnit::~EmulatedUnit() = default;
EmulatedUnit::EmulatedUnit(EmulatedUnit &&) noexcept = default;

void EmulatedUnit::launchWith(const std::string &name, Index grid, Index block, size_t sharedBytes, void **parameters) {
  runKernel(unit->table(), entryOf(*unit, name), {grid, block, sharedBytes, reverse}, parameters);
}

void EmulatedUnit::launch(const std::string &name, const ditc::cuda::LaunchShape &shape,
                          const std::vector<ditc::cuda::KernelParameter> &parameters,
                          const std::vector<void *> &arguments, unsigned multiprocessors) {
  struct alignas(64) Piece {
    uint8_t bytes[64];
  };
  std::vector<std::vector<Piece>> memory;
  std::vector<void *> addresses;
  std::vector<size_t> sizes;
  for (const ditc::cuda::KernelParameter &parameter : parameters) {
    memory.emplace_back(parameter.bytes.size() / sizeof(Piece) + 1);
    auto *bytes = memory.back().data()->bytes;
    std::copy(parameter.bytes.begin(), parameter.bytes.end(), bytes);
    for (const ditc::cuda::ParameterPatch &patch : parameter.patches) {
      const auto *pointer = std::get_if<ditc::cuda::PointerPatch>(&patch.value);
      if (!pointer)
        throw LaunchError("kernel '" + name + "' takes a tensor map");
      char *address = static_cast<char *>(arguments.at(pointer->arg)) + pointer->add;
      memcpy(bytes + patch.offset, &address, sizeof address);
    }
    addresses.push_back(bytes);
    sizes.push_back(parameter.bytes.size());
  }
  checkSizes(name, sizes);
  Index grid{shape.grid[0], shape.grid[1], shape.grid[2]};
  if (shape.blocksPerSm)
    grid.x = std::min(grid.x, std::max(shape.blocksPerSm * multiprocessors / shape.cluster, 1u) * shape.cluster);
  launchWith(name, grid, {shape.threads}, shape.sharedBytes, addresses.data());
}

void EmulatedUnit::checkSizes(const std::string &name, const std::vector<size_t> &sizes) const {
  const KernelEntry &entry = entryOf(*unit, name);
  if (sizes.size() != entry.parameterCount)
    throw LaunchError("kernel '" + name + "' takes " + std::to_string(entry.parameterCount) + " parameters, " +
                      std::to_string(sizes.size()) + " are given");
  for (size_t i = 0; i < sizes.size(); ++i)
    if (sizes[i] != entry.parameterSizes[i])
      throw LaunchError("parameter " + std::to_string(i) + " of kernel '" + name + "' has " +
                        std::to_string(entry.parameterSizes[i]) + " bytes, " + std::to_string(sizes[i]) + " are given");
}

GuardedMemory::GuardedMemory(size_t bytes) {
  constexpr size_t kPage = 4096;
  size_t used = (bytes + 15) / 16 * 16, pages = (used + kPage - 1) / kPage * kPage;
  mappedBytes = pages + 2 * kPage;
  mapping = mmap(nullptr, mappedBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED)
    throw std::bad_alloc();
  char *inner = static_cast<char *>(mapping) + kPage;
  if (pages)
    mprotect(inner, pages, PROT_READ | PROT_WRITE);
  start = inner + pages - used;
  memset(start, 0xFF, used);
}

GuardedMemory::~GuardedMemory() { munmap(mapping, mappedBytes); }

} // namespace emulator
