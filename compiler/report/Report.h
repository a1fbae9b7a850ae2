// SPDX-License-Identifier: Apache-2.0
//
// Collects what the compiler did into report.json of the package; docs/report.md describes the fields. Reads
// three moments of a bucket: the graph before fusion, its kernels at contract `fused`, its plan; and the
// fusion remarks. Everything that people read (text, page, explain, diff) is made from the JSON.
#pragma once

#include "compiler/report/Fold.h"
#include "compiler/report/Graph.h"
#include "compiler/report/RemarkCollector.h"
#include "dialects/Contracts.h"
#include "runtime/Plan.h"

#include <nlohmann/json.hpp>

#include <string>

namespace ditc {

inline constexpr int kReportVersion = 4;

class Report {
public:
  explicit Report(mlir::MLIRContext &context) : remarks(context) {}

  /// Looks at the module of the bucket that is being compiled, which satisfies `contract`.
  void observe(Contract contract, mlir::ModuleOp module);
  /// The bucket is fused: what was observed becomes its entry.
  void addBucket(const std::string &name);
  /// The last bucket as planned for one target: its module, before kernels are taken out of it, and its written plan.
  /// The first target's plan is the one of the totals.
  void addPlan(const std::string &target, mlir::ModuleOp planned, const Plan &plan);
  /// All kernels of the package for one target.
  void addKernels(const std::string &target, mlir::ModuleOp kernels);
  /// What the kernels of a target take of a multiprocessor: a list of objects.
  void addResources(const std::string &target, nlohmann::json resources);

  nlohmann::json toJson() const;

private:
  RemarkCollector remarks;
  GraphRecord graph; ///< of the last bucket
  Folded folded;
  UnfusedRecord unfused;
  nlohmann::json buckets = nlohmann::json::array();
  nlohmann::json kernels = nlohmann::json::object();
};

} // namespace ditc
