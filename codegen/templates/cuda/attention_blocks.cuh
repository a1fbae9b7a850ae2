// SPDX-License-Identifier: Apache-2.0
//
// What a mask leaves of a tile of queries and keys: the verdicts that attention_mask_pack.cuh writes and the kernels read.
#pragma once

namespace ditc {

enum BlockKind : int { Skip = 0, Partial = 1, Full = 2 };

}  // namespace ditc
