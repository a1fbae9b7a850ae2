// SPDX-License-Identifier: Apache-2.0
//
// Keeps the fusion remarks of a compilation. Passes say what they did and why not through MLIR's remarks
// only; the report is made from what arrives here.
#pragma once

#include "mlir/IR/MLIRContext.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace ditc {

struct FusionRemark {
  bool passed = false;
  std::string pass;                         ///< "GroupKernels"
  std::string function;
  std::map<std::string, std::string> facts; ///< "Reason", "Producer", ...

  std::string fact(const std::string &name) const;
  double number(const std::string &name) const;
};

class RemarkCollector {
public:
  /// From now on the remarks of `context` arrive here. The collector's store outlives the context's streamer.
  explicit RemarkCollector(mlir::MLIRContext &context);

  /// What arrived since the last call, in order.
  std::vector<FusionRemark> take();

private:
  std::shared_ptr<std::vector<FusionRemark>> remarks;
};

} // namespace ditc
