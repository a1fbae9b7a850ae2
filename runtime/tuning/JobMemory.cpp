// SPDX-License-Identifier: Apache-2.0
#include "runtime/tuning/JobMemory.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace ditc::tuning {
namespace {

constexpr uint64_t kMostSets = 8;
constexpr uint64_t kReserve = 512ull << 20; ///< of the GPU's memory, for images and graphs

uint64_t rounded(uint64_t bytes) { return (bytes + 255) / 256 * 256; }

} // namespace

JobMemory::JobMemory(TuningGpu &gpu, const Job &job, bool withLibrary) : gpu(gpu), job(job), withLibrary(withLibrary) {
  uint64_t set = argumentBytes() + libraryBytes();
  uint64_t fixed = outputBytes() + (withLibrary ? cuda::CublasLt::kWorkspaceBytes : 0);
  sets.resize(setsThatFit(fixed, set));
  memory = gpu.allocate(fixed + sets.size() * set, "tuning " + job.key.text());
  next = memory->data();
  workspace = withLibrary ? take(cuda::CublasLt::kWorkspaceBytes) : nullptr;
  for (Set &each : sets)
    place(each);
  for (const Argument &argument : job.arguments)
    kept.push_back(argument.isOutput ? take(argument.bytes) : nullptr);
}

uint64_t JobMemory::argumentBytes() const {
  uint64_t sum = 0;
  for (const Argument &argument : job.arguments)
    sum += rounded(argument.bytes);
  return sum;
}

uint64_t JobMemory::outputBytes() const {
  uint64_t sum = 0;
  for (const Argument &argument : job.arguments)
    sum += argument.isOutput ? rounded(argument.bytes) : 0;
  return sum;
}

uint64_t JobMemory::libraryBytes() const {
  uint64_t sum = 0;
  for (const Product &p : job.products)
    sum += rounded(bytesOf(p.rows * p.k)) + rounded(bytesOf(p.columns * p.k)) + rounded(bytesOf(p.rows * p.columns));
  return withLibrary ? sum : 0;
}

/// As many as exceed the L2 cache twice, if there is room for them.
size_t JobMemory::setsThatFit(uint64_t fixed, uint64_t set) const {
  uint64_t free = gpu.freeBytes(), room = free > kReserve ? free - kReserve : free;
  uint64_t wanted = std::clamp<uint64_t>(1 + 2 * gpu.cacheBytes() / argumentBytes(), 2, kMostSets);
  uint64_t fit = room > fixed ? (room - fixed) / set : 0;
  return static_cast<size_t>(std::clamp<uint64_t>(fit, 1, wanted));
}

void JobMemory::place(Set &set) {
  for (const Argument &a : job.arguments)
    set.args.push_back(a.isOutput ? take(a.bytes) : takeFilled(a.bytes, a.dtype, a.scale));
  if (!withLibrary)
    return;
  for (const Product &p : job.products) {
    char *a = takeFilled(bytesOf(p.rows * p.k), dtype(), 1);
    char *b = takeFilled(bytesOf(p.columns * p.k), dtype(), 1 / std::sqrt(static_cast<double>(p.k)));
    set.products.push_back({a, b, take(bytesOf(p.rows * p.columns)), nullptr});
  }
}

char *JobMemory::take(uint64_t bytes) { return std::exchange(next, next + rounded(bytes)); }

char *JobMemory::takeFilled(uint64_t bytes, DType type, double scale) {
  char *at = take(bytes);
  gpu.fill(at, type, bytes, scale, seed++);
  return at;
}

} // namespace ditc::tuning
