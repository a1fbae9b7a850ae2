// SPDX-License-Identifier: Apache-2.0
//
// What a compilation reads: exports with their buckets, values of pinned inputs, what the user claims of padding, weights,
// and measured tiles.
#pragma once

#include "codegen/cuda/tuning/TunedTiles.h"
#include "compiler/CompileState.h"
#include "compiler/WeightSource.h"
#include "compiler/import/Buckets.h"
#include "compiler/padding/Padding.h"

#include <map>
#include <string>
#include <vector>

namespace ditc {

struct Model {
  Pt2Archive archive;
  ExportedProgram program;
  std::vector<Bucket> buckets;
};

struct CompileInputs {
  std::vector<Model> models;
  std::map<std::string, HostTensor> pinned;
  PaddingClaims paddingClaims;
};

/// Throws Error (Usage/Input): a file that is no export, buckets that do not fit, equal names, a pin that is not there.
CompileInputs readInputs(CompileState &state);

/// Throws Error (Input) as WeightSource does.
WeightSource readWeights(CompileState &state, const CompileInputs &inputs);

/// Measured tiles: the shipped database, then the user's in the order given.
struct TuningChoice {
  tuning::Database database;
  std::string gpu; ///< the whole name of the GPU whose measurements are used; empty: the latest
  std::string key; ///< hashes of the user's databases in the order given, which the choice depends on
};

/// Throws Error (Input): a file that is no database, a GPU that was not measured.
TuningChoice readTuning(const CompileOptions &options);

} // namespace ditc
