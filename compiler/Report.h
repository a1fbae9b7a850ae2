// SPDX-License-Identifier: Apache-2.0
//
// What the compiler did, as report.json of the package.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "runtime/Plan.h"

#include <nlohmann/json.hpp>

#include <string>

namespace ditc {

class Report {
public:
  /// A finished bucket: its plan module, before kernels are taken out of it, and its written plan.
  void addBucket(const std::string &name, mlir::ModuleOp module, const Plan &plan);
  /// All kernels of the package.
  void addKernels(mlir::ModuleOp kernels);

  /// {"version", "buckets": [...], "kernels": {...}}; docs/report.md describes the fields.
  nlohmann::json json() const;

private:
  nlohmann::json buckets = nlohmann::json::array();
  nlohmann::json kernels = nlohmann::json::object();
};

/// One line per bucket, for people.
std::string summarise(const nlohmann::json &report);

} // namespace ditc
