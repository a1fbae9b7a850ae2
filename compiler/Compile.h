// SPDX-License-Identifier: Apache-2.0
//
// The compiler: exported programs in, a package out.
#pragma once

#include "compiler/Options.h"
#include "compiler/Progress.h"

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace ditc {

struct CompileResult {
  std::string path;                  ///< the package or the tuning bundle, or empty with --stop-after
  std::string ir;                    ///< the IR at --stop-after
  bool fromCache = false;
  std::vector<std::string> warnings;
  std::vector<std::string> notes;    ///< for those who look closer: assumptions of the export that do not hold
  nlohmann::json report;             ///< report.json of the package
  std::string summary;               ///< of a tuning bundle: what is in it
};

/// Compiles every model of `options` for every bucket and target. Nothing is left at `options.output` when
/// it throws: Error (Input) for what is wrong with the input, Error (Internal) for a fault of ditc.
CompileResult compile(const CompileOptions &options, Progress &progress);

} // namespace ditc
