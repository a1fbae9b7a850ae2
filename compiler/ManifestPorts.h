// SPDX-License-Identifier: Apache-2.0
//
// What a manifest says of a model's buckets, inputs and outputs.
#pragma once

#include "compiler/import/Buckets.h"
#include "runtime/Manifest.h"
#include "runtime/Plan.h"

#include <string_view>
#include <vector>

namespace ditc {

ManifestBucket describeBucket(const Bucket &bucket);

/// Inputs, outputs and constant inputs, with symbolic sizes where the export has them, and all sizes where buckets are
/// static exports. `plans`: of every bucket.
void describePorts(Manifest &manifest, const ExportedProgram &program, const Plan &firstPlan, const std::vector<Plan> &plans);

/// Buckets of one package have the same ports; Error (Input) names what differs.
void checkSamePorts(std::string_view what, const std::string &bucket, const std::vector<PortDesc> &first, const std::vector<PortDesc> &other);

} // namespace ditc
