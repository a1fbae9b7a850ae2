// SPDX-License-Identifier: Apache-2.0
//
// From an exported program to a module of `dit` IR for one bucket. Symbols are bound first, so every shape
// is a number; in-place ops and writes through views become new values; complex tensors become real ones
// with a trailing dimension of 2; grad-mode and autocast regions are inlined.
#pragma once

#include "compiler/import/ExportedProgram.h"
#include "compiler/import/Pt2Archive.h"
#include "runtime/Safetensors.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <map>
#include <string>
#include <vector>

namespace ditc {

struct ImportOptions {
  std::string bucket = "default";          ///< name of the function
  SymBindings symbols;                     ///< every symbol of the program
  std::map<std::string, HostTensor> pinned; ///< user inputs whose values are part of the bucket
};

/// A target that the table does not know, or an argument form that it refuses, and where.
struct UnsupportedNode {
  std::string target, modulePath, nodeName, reason;
};

/// Everything that stands in the way of importing `program`, without importing it: unknown targets,
/// random ops, data-dependent sizes, higher-order ops, mutations of inputs, unreadable constants in use.
std::vector<UnsupportedNode> findUnsupported(const ExportedProgram &program, const Pt2Archive &archive);

/// The module holds one `func.func` named after the bucket. Arguments carry `dit.name` (the user's name),
/// results too; `dit.complex` marks complex ones, whose last dimension of 2 torch does not count.
/// Parameters and persistent buffers become `dit.weight`; tensor constants and non-persistent buffers with
/// bytes become `dit.constant`. Locations: NameLoc(node name, NameLoc(module path)).
/// Throws Error (Input) that lists all unsupported nodes at once.
mlir::OwningOpRef<mlir::ModuleOp> importProgram(mlir::MLIRContext &context, const ExportedProgram &program,
                                                const Pt2Archive &archive, const ImportOptions &options);

/// Names of the ATen targets that the table knows, sorted.
std::vector<std::string> supportedTargets();

} // namespace ditc
