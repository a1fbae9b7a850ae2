// SPDX-License-Identifier: Apache-2.0
//
// From the name of a device to the device.
#include "runtime/Error.h"
#include "runtime/HostDevice.h"
#include "runtime/cuda/CudaDevice.h"

#include <charconv>

namespace ditc {
namespace {

constexpr std::string_view kCuda = "cuda";

/// The number of "cuda:1"; 0 for "cuda"; -1 for what is neither.
int cudaOrdinal(std::string_view name) {
  if (name == kCuda)
    return 0;
  std::string_view digits = name.substr(std::min(name.size(), kCuda.size() + 1));
  int ordinal = -1;
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), ordinal);
  bool whole = error == std::errc() && end == digits.data() + digits.size();
  return name.starts_with("cuda:") && whole ? ordinal : -1;
}

} // namespace

std::shared_ptr<Device> openDevice(std::string_view name, const Package &package, const DeviceOptions &options) {
  if (name == "host")
    return std::make_shared<HostDevice>(package, options);
  int ordinal = cudaOrdinal(name);
  if (ordinal < 0)
    fail("this runtime has no device '{}'; it has host, cuda and cuda:N (the N-th GPU)", name);
  return std::make_shared<CudaDevice>(ordinal, package, options);
}

} // namespace ditc
