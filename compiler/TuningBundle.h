// SPDX-License-Identifier: Apache-2.0
//
// --tuning-bundle: candidates for the tiles of all gemm kernels of all buckets, for `ditc-run tune`, instead of a package.
#pragma once

#include "compiler/BucketCompiler.h"

namespace ditc {

/// The models need not be of one kind: nothing is run. Throws Error (Usage/Input): not one GPU target, nothing to tune.
void compileTuningBundle(CompileState &state, const CompileInputs &inputs, const TuningChoice &tuning);

} // namespace ditc
