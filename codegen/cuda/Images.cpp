// SPDX-License-Identifier: Apache-2.0
#include "codegen/cuda/Images.h"

#include "codegen/cuda/Nvrtc.h"
#include "codegen/cuda/Templates.h"
#include "runtime/Error.h"
#include "runtime/Hash.h"

#include <atomic>
#include <cstring>
#include <exception>
#include <fmt/format.h>
#include <mutex>
#include <thread>

namespace ditc {

namespace {

/// Asks for so many blocks beside each other instead.
void setResidentBlocks(CudaKernel &kernel, int blocks) {
  std::string old = kernel.bounds.text();
  size_t at = kernel.source.find(old);
  if (at == std::string::npos)
    failInternal("the unit of '{}' has no {}", kernel.name, old);
  kernel.bounds.blocks = blocks;
  kernel.source.replace(at, old.size(), kernel.bounds.text());
}

/// An image with its resources, as the cache keeps it.
std::vector<uint8_t> packImage(const CudaKernel &kernel) {
  int numbers[5] = {kernel.registers, kernel.sharedBytes, kernel.spillBytes, kernel.bounds.blocks, kernel.serializesProducts};
  std::vector<uint8_t> bytes(sizeof numbers);
  std::memcpy(bytes.data(), numbers, sizeof numbers);
  bytes.insert(bytes.end(), kernel.image.begin(), kernel.image.end());
  return bytes;
}

bool unpackImage(const std::vector<uint8_t> &bytes, CudaKernel &kernel) {
  int numbers[5];
  if (bytes.size() <= sizeof numbers)
    return false;
  std::memcpy(numbers, bytes.data(), sizeof numbers);
  if (numbers[3] < 1 || numbers[3] > kernel.bounds.blocks)
    return false;
  kernel.registers = numbers[0], kernel.sharedBytes = numbers[1], kernel.spillBytes = numbers[2], kernel.serializesProducts = numbers[4] != 0;
  if (numbers[3] != kernel.bounds.blocks)
    setResidentBlocks(kernel, numbers[3]);
  kernel.image.assign(bytes.begin() + sizeof numbers, bytes.end());
  return true;
}

void compileSource(CudaKernel &kernel, const ImageJob &job, const CudaArch &arch) {
  std::vector<std::string> flags;
  if (!arch.isPortable())
    flags.push_back("--ptxas-options=-v");
  CudaBinary binary = Nvrtc::get().compile({kernel.name + ".cu", kernel.source, job.headers, arch.name, flags});
  kernel.image = std::move(binary.image);
  kernel.registers = binary.reported("registers").value_or(0);
  kernel.sharedBytes = binary.reported("bytes smem").value_or(0);
  kernel.spillBytes = binary.reported("bytes spill stores").value_or(0);
  kernel.serializesProducts = binary.serializesProducts();
}

/// How many registers a rowwise kernel wants is an estimate until it is compiled: one that spills gets more of them, from
/// fewer blocks beside each other.
void stopSpilling(CudaKernel &kernel, const ImageJob &job, const CudaArch &arch) {
  for (int blocks = kernel.bounds.blocks; kernel.spillBytes > 0 && blocks > 1;) {
    blocks = blocks * 3 / 4;
    CudaKernel looser = kernel;
    setResidentBlocks(looser, blocks);
    compileSource(looser, job, arch);
    if (looser.spillBytes < kernel.spillBytes)
      kernel = std::move(looser);
  }
}

void compileJob(ImageJob &job, const CudaArch &arch, const CudaOptions &options) {
  CudaKernel &kernel = job.kernel;
  if (options.load)
    if (std::optional<std::vector<uint8_t>> cached = options.load(job.key); cached && unpackImage(*cached, kernel))
      return;
  compileSource(kernel, job, arch);
  stopSpilling(kernel, job, arch);
  if (options.store)
    options.store(job.key, packImage(kernel));
}

} // namespace

std::string nvrtcVersion() {
  if (!Nvrtc::available())
    return "";
  auto [major, minor] = Nvrtc::get().version();
  return fmt::format("{}.{}", major, minor);
}

/// Code of an NVRTC runs on every driver of its major version that knows the architecture; PTX wants a driver as new as its
/// NVRTC.
int lowestDriverOf(const CudaArch &arch) {
  auto [major, minor] = Nvrtc::available() ? Nvrtc::get().version() : std::pair(0, 0);
  int known = arch.number >= 120 ? 12080 : arch.number >= 100 ? 12070 : 12000;
  return std::max(known, 1000 * major + (arch.isPortable() && minor < 10 ? 10 * minor : 0));
}

ImageJob makeImageJob(CudaKernel kernel, const std::string &banner, const std::string &unit, const CudaArch &arch) {
  ImageJob job{std::move(kernel), "", templatesIncludedBy(unit)};
  job.kernel.source = banner + unit;
  std::string text = fmt::format("cuda image, serialised products\n{}\n{}\n{}\n", arch.name, nvrtcVersion(), unit);
  for (const auto &[header, content] : job.headers)
    text += header + "\n" + content;
  job.key = hashHex(text);
  return job;
}

void compileImages(std::vector<ImageJob> &jobs, const CudaArch &arch, const CudaOptions &options) {
  std::atomic<size_t> next = 0;
  size_t done = 0;
  std::mutex mutex; // guards done, failure and the caller's progress
  std::exception_ptr failure;
  auto work = [&] {
    for (size_t i; (i = next++) < jobs.size();) {
      try {
        compileJob(jobs[i], arch, options);
      } catch (...) {
        std::lock_guard lock(mutex);
        failure = failure ? failure : std::current_exception();
        next = jobs.size();
      }
      std::lock_guard lock(mutex);
      ++done;
      if (options.progress)
        options.progress(done, jobs.size());
    }
  };
  std::vector<std::jthread> threads;
  for (size_t i = 0; i < std::min<size_t>(jobs.size(), std::max(1u, std::thread::hardware_concurrency())); ++i)
    threads.emplace_back(work);
  threads.clear();
  if (failure)
    std::rethrow_exception(failure);
}

} // namespace ditc
