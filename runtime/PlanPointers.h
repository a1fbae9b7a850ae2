// SPDX-License-Identifier: Apache-2.0
//
// Which buffers the ops of a plan touch.
#pragma once

#include "runtime/Plan.h"

namespace ditc {

/// Calls visit(pointer) for each pointer of an op; `Op` is PlanOp or const PlanOp.
template <typename Op, typename Visit> void forEachPointer(Op &op, Visit visit) {
  if (auto *launch = std::get_if<LaunchOp>(&op.body)) {
    for (auto &arg : launch->args)
      visit(arg);
  } else if (auto *gemm = std::get_if<GemmOp>(&op.body)) {
    visit(gemm->a.at);
    visit(gemm->b.at);
    visit(gemm->c.at);
    if (gemm->bias)
      visit(*gemm->bias);
  } else {
    visit(std::get<CopyOp>(op.body).src);
    visit(std::get<CopyOp>(op.body).dst);
  }
}

/// By buffer: whether the ops touch it.
std::vector<bool> buffersOf(const Plan &plan, const std::vector<PlanOp> &ops);

/// Text that is equal for plans whose prepare ops make the same prepared memory from the same weights.
std::string prepareKey(const Plan &plan);

} // namespace ditc
