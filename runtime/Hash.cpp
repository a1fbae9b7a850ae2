// SPDX-License-Identifier: Apache-2.0
//
// XXH3-128 from the xxHash header, compiled into this file so that nothing has to be linked.
#define XXH_INLINE_ALL
#include "runtime/Hash.h"

#include <fmt/format.h>
#include <new>
#include <xxhash.h>

namespace ditc {

static std::string toHex(XXH128_hash_t hash) { return fmt::format("{:016x}{:016x}", hash.high64, hash.low64); }

std::string hashHex(std::span<const uint8_t> bytes) { return toHex(XXH3_128bits(bytes.data(), bytes.size())); }

std::string hashHex(std::string_view text) { return toHex(XXH3_128bits(text.data(), text.size())); }

struct Hasher::State {
  XXH3_state_t *xxh;
};

Hasher::Hasher() : state(new State{XXH3_createState()}) {
  if (!state->xxh)
    throw std::bad_alloc();
  XXH3_128bits_reset(state->xxh);
}

Hasher::~Hasher() {
  if (state)
    XXH3_freeState(state->xxh);
}

Hasher::Hasher(Hasher &&) noexcept = default;

Hasher &Hasher::operator=(Hasher &&other) noexcept {
  std::swap(state, other.state);
  return *this;
}

void Hasher::update(std::span<const uint8_t> bytes) { XXH3_128bits_update(state->xxh, bytes.data(), bytes.size()); }

std::string Hasher::hex() const { return toHex(XXH3_128bits_digest(state->xxh)); }

} // namespace ditc
