// SPDX-License-Identifier: Apache-2.0
//
// The content hash of package members, pinned inputs and cache entries: XXH3-128 as 32 lower-case hex
// digits. It finds damage and names content; it is no defence against an attacker.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace ditc {

std::string hashHex(std::span<const uint8_t> bytes);
std::string hashHex(std::string_view text);

/// The same hash over bytes that come in pieces.
class Hasher {
public:
  Hasher();
  ~Hasher();
  Hasher(Hasher &&) noexcept;
  Hasher &operator=(Hasher &&) noexcept;

  void update(std::span<const uint8_t> bytes);
  std::string hex() const;

private:
  struct State;
  std::unique_ptr<State> state;
};

} // namespace ditc
