// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>

namespace ditc {

/// Bytes in memory of the host, there as long as `owner` lives; of a file that is mapped, or made for this purpose.
struct HostBytes {
  std::span<const uint8_t> bytes;
  std::shared_ptr<const void> owner;
};

} // namespace ditc
