// SPDX-License-Identifier: Apache-2.0
//
// Tiles of attention_mma.cuh: by the sizes of an attention, what hides keys, and a GPU's shared memory.
#pragma once

#include "codegen/cuda/CudaTarget.h"

#include "llvm/Support/MathExtras.h"

#include <cstdint>

namespace ditc {

/// Of q, k and v (batch, heads, tokens, columns).
struct AttentionSizes {
  int64_t batch, heads, queries, keys, dim, valueDim;
  int64_t blocks(int64_t rows) const { return llvm::divideCeil(queries, rows) * heads * batch; }
};

/// What hides keys: nothing, their distance from the query, a mask by key or one by query and key.
enum class Hidden { None, ByPlace, ByKey, ByQuery };

/// Config of attention_mma.cuh.
struct MmaAttentionTile {
  int64_t warps, bands, keys, stages;
  int64_t rows() const { return 16 * warps * bands; }
  int64_t sharedBytes(const AttentionSizes &p) const;
};

MmaAttentionTile chooseMmaAttentionTile(const AttentionSizes &p, const CudaArch &arch, Hidden hidden);

} // namespace ditc
