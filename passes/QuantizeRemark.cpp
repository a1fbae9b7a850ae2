// SPDX-License-Identifier: Apache-2.0
#include "passes/QuantizeRemark.h"

#include "dialects/Locations.h"
#include "dialects/fusion/Cost.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Remarks.h"

using namespace mlir;

namespace ditc {

void remarkQuantized(Operation *op, StringRef pass, StringRef kind, QuantizeReason reason) {
  Location loc = op->getLoc();
  auto options = remark::RemarkOpts::name(pass).category("fusion").function(op->getParentOfType<func::FuncOp>().getName());
  std::string name = writeNodeName(nameOf(loc));
  double flops = workOf(op).matrixFlops;
  if (reason == QuantizeReason::Accepted)
    remark::passed(loc, options) << remark::metric(kind, name) << remark::metric("Flops", flops);
  else
    remark::missed(loc, options) << remark::reason("{0}", StringRef(nameOf(reason))) << remark::metric(kind, name) << remark::metric("Flops", flops);
}

} // namespace ditc
