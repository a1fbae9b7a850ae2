// SPDX-License-Identifier: Apache-2.0
//
// Which symbols of a bucket may be smaller at run time: for each one that sizes inputs, another import of the program
// and a proof. What the user claims with --pad is checked in the same way, and must hold.
#pragma once

#include "compiler/import/Importer.h"
#include "compiler/padding/PaddingProof.h"

namespace ditc {

using PaddingClaims = std::map<std::string, PaddingClaim>;

/// `SYMBOL=batch`, `SYMBOL=mask:INPUT`; a symbol may be written INPUT.DIM. Throws Error (Usage/Input): malformed text,
/// no such symbol or input.
PaddingClaims parsePaddingClaims(const ExportedProgram &program, const std::vector<std::string> &texts);

/// By symbol. Throws Error (Input) when a claim does not hold: the node and the reason.
std::map<std::string, PaddingProof> decidePadding(mlir::ModuleOp imported, const ExportedProgram &program, const Pt2Archive &archive, const ImportOptions &options,
                                                  const PaddingClaims &claims);

/// What holds in all buckets goes into the manifest, and the reasons of what does not.
void describePadding(const std::vector<std::map<std::string, PaddingProof>> &buckets, Manifest &manifest);

} // namespace ditc
