// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/Launch.h"

#include "runtime/Error.h"

#include <algorithm>
#include <cstring>
#include <fmt/ranges.h>

namespace ditc::cuda {
namespace {

TensorMapType mapTypeOf(DType dtype) {
  return dtype == DType::bf16  ? TensorMapType::BF16
         : dtype == DType::f16 ? TensorMapType::F16
         : dtype == DType::f32 ? TensorMapType::F32
                               : TensorMapType::U8;
}

void encode(const TensorMapPatch &map, char *address, uint8_t *target, const DriverFunctions &driver) {
  const std::array<uint32_t, 5> ones = {1, 1, 1, 1, 1};
  TensorMap encoded;
  Result result = driver.tensorMapEncodeTiled(&encoded, mapTypeOf(map.dtype), static_cast<uint32_t>(map.sizes.size()),
                                              address, map.sizes.data(), map.strides.data(), map.box.data(), ones.data(),
                                              kTensorMapInterleaveNone, map.swizzle, kTensorMapPromoteL2To256,
                                              kTensorMapFillZeros);
  if (result != kSuccess)
    fail("the CUDA driver refuses a tensor map (error {}) of sizes [{}] at address {}; the package is damaged, compile "
         "again",
         result, fmt::join(map.sizes, ", "), static_cast<const void *>(address));
  std::memcpy(target, &encoded, sizeof encoded);
}

/// Bytes from a tensor map's start to the end of its last element; nothing on overflow.
std::optional<uint64_t> extentOf(const TensorMapPatch &map) {
  uint64_t last = (map.sizes[0] - 1) * byteSize(map.dtype);
  for (size_t i = 1; i < map.sizes.size(); ++i) {
    uint64_t reach;
    if (__builtin_mul_overflow(map.sizes[i] - 1, map.strides[i - 1], &reach) ||
        __builtin_add_overflow(last, reach, &last))
      return std::nullopt;
  }
  return last + byteSize(map.dtype);
}

} // namespace

uint32_t gridX(const LaunchShape &shape, uint32_t multiprocessors) {
  if (shape.blocksPerSm == 0)
    return shape.grid[0];
  uint64_t most = uint64_t{shape.blocksPerSm} * multiprocessors;
  uint64_t blocks = std::min<uint64_t>(shape.grid[0], most) / shape.cluster * shape.cluster;
  return static_cast<uint32_t>(std::max<uint64_t>(blocks, shape.cluster));
}

//===-- parameters ------------------------------------------------------------------------------------===//

Parameters::Parameters(const std::vector<KernelParameter> &parameters) : list(parameters) {
  std::vector<size_t> starts;
  size_t units = 0;
  for (const KernelParameter &parameter : list) {
    starts.push_back(units);
    units += (parameter.bytes.size() + sizeof(Unit) - 1) / sizeof(Unit);
  }
  storage.resize(units);
  for (size_t i = 0; i < list.size(); ++i) {
    table.push_back(storage.data() + starts[i]);
    std::memcpy(table.back(), list[i].bytes.data(), list[i].bytes.size());
  }
}

void Parameters::patch(std::span<char *const> args, const DriverFunctions &driver) {
  for (size_t i = 0; i < list.size(); ++i)
    for (const ParameterPatch &patch : list[i].patches) {
      uint8_t *target = at(i) + patch.offset;
      if (const auto *map = std::get_if<TensorMapPatch>(&patch.value)) {
        encode(*map, args[map->arg] + map->add, target, driver);
        continue;
      }
      const auto &pointer = std::get<PointerPatch>(patch.value);
      char *address = args[pointer.arg] + pointer.add;
      std::memcpy(target, &address, sizeof address);
    }
}

void checkPatches(const KernelImage &kernel, std::span<const uint64_t> before, std::span<const uint64_t> room,
                  std::string_view where) {
  auto check = [&](uint32_t arg, int64_t add, std::optional<uint64_t> extent) {
    uint64_t back = add < 0 ? uint64_t{0} - static_cast<uint64_t>(add) : 0, forward = add > 0 ? static_cast<uint64_t>(add) : 0;
    bool inside = back <= before[arg] && extent && forward <= room[arg] + back && *extent <= room[arg] + back - forward;
    if (!inside)
      fail("'{}': kernel '{}' reaches outside of its argument {} ({} bytes added, {} bytes there); the package is damaged, "
           "compile again",
           where, kernel.name, arg, add, room[arg]);
  };
  for (const KernelParameter &parameter : kernel.parameters)
    for (const ParameterPatch &patch : parameter.patches) {
      if (const auto *map = std::get_if<TensorMapPatch>(&patch.value))
        check(map->arg, map->add, extentOf(*map));
      else
        check(std::get<PointerPatch>(patch.value).arg, std::get<PointerPatch>(patch.value).add, 0);
    }
}

//===-- launches --------------------------------------------------------------------------------------===//

ReadyLaunch::ReadyLaunch(const KernelImage &kernel, Function function, uint32_t gridX)
    : function(function), parameters(kernel.parameters), canOverlap(kernel.launch.overlapsPrevious) {
  const LaunchShape &shape = kernel.launch;
  config.gridX = gridX;
  config.gridY = shape.grid[1];
  config.gridZ = shape.grid[2];
  config.blockX = shape.threads;
  config.blockY = config.blockZ = 1;
  config.sharedBytes = shape.sharedBytes;
  config.attributes = attributes.data();
  if (shape.cluster > 1) {
    attributes[config.attributeCount].id = LaunchAttributeId::ClusterDimension;
    attributes[config.attributeCount++].clusterDimension = {shape.cluster, 1, 1};
  }
  attributes[config.attributeCount].id = LaunchAttributeId::ProgrammaticStreamSerialization;
  attributes[config.attributeCount].programmaticStreamSerialization = 1;
}

Result ReadyLaunch::launch(Stream stream, bool overlap, const Driver &driver) {
  LaunchConfig used = config;
  used.stream = stream;
  used.attributeCount += overlap && canOverlap;
  if (used.attributeCount == 0)
    used.attributes = nullptr;
  return driver.launchKernelEx(&used, function, parameters.pointers(), nullptr);
}

} // namespace ditc::cuda
