// SPDX-License-Identifier: Apache-2.0
//
// What a plan.kernel of family "attention" is told beside its types, as the emitters of all targets read it.
#pragma once

#include "dialects/plan/Plan.h"

#include <algorithm>

namespace ditc {

struct AttentionOptions {
  /// A distance that reaches every key.
  static constexpr int64_t kAllKeys = int64_t(1) << 30;

  explicit AttentionOptions(plan::KernelOp kernel) {
    mlir::DictionaryAttr config = kernel.getConfig();
    auto flag = [&](llvm::StringRef name) { auto attr = config.getAs<mlir::BoolAttr>(name); return attr && attr.getValue(); };
    auto number = [&](llvm::StringRef name) { auto attr = config.getAs<mlir::FloatAttr>(name); return attr ? attr.getValueAsDouble() : 0; };
    hasMask = flag("has_mask"), logSumExp = flag("log_sum_exp"), quantized = flag("quantized"), scale = number("scale"), softCap = number("soft_cap");
    if (auto window = config.getAs<mlir::DenseI64ArrayAttr>("window"))
      before = std::min(window[0], kAllKeys), after = std::min(window[1], kAllKeys);
    if (flag("causal"))
      after = 0;
  }

  bool seesAll() const { return before == kAllKeys && after == kAllKeys; }

  bool hasMask = false;
  bool logSumExp = false;                    ///< the argument before the result gets ln Σ exp(score), f32 by batch, head and query
  bool quantized = false;                    ///< INT8 scores and e4m3 values: dit.attention's `quantized`
  double scale = 1;
  double softCap = 0;                        ///< above 0: scaled scores x become softCap · tanh(x / softCap)
  int64_t before = kAllKeys, after = kAllKeys; ///< the keys that a query sees beside the one at its own place
};

} // namespace ditc
