// SPDX-License-Identifier: Apache-2.0
//
// The conditions that torch.export found while it traced (guards_code): Python expressions over input sizes,
// such as "(L['x'].size()[2] // 2) != 8".
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace ditc {

/// Gives a size by "input.dim", or an integer input by "input".
using SizeLookup = std::function<std::optional<int64_t>(const std::string &)>;

/// The truth of `guard`; nothing when it uses something that this reader does not know.
std::optional<bool> evaluateGuard(std::string_view guard, const SizeLookup &sizes);

/// The guard in ditc's words: "(x.2 // 2) != 8".
std::string readableGuard(std::string_view guard);

} // namespace ditc
