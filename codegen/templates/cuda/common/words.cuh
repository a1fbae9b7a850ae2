// SPDX-License-Identifier: Apache-2.0
//
// Short names of unsigned words.
#pragma once

namespace ditc {

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;

}  // namespace ditc
