// SPDX-License-Identifier: Apache-2.0
//
// The tiles of a gemm: what was measured for it, else what the analytic model takes. And the database that ditc is shipped
// with.
#pragma once

#include "codegen/cuda/CudaTarget.h"
#include "codegen/cuda/tuning/GemmTuning.h"

namespace ditc {

/// `database` may be null; `gpu`: see CudaOptions::tuningGpu.
ChosenTiles chooseTiles(const GemmTuning &gemm, const tuning::Database *database, std::string_view gpu);

/// codegen/tuning/*.json, as text inside the program.
tuning::Database shippedTuning();

} // namespace ditc
