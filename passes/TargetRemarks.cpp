// SPDX-License-Identifier: Apache-2.0
#include "passes/TargetRemarks.h"

#include "dialects/Locations.h"

#include "mlir/IR/Remarks.h"

using namespace mlir;

namespace ditc {

void remarkDeviation(Operation *anchor, StringRef family, Deviation deviation, const Verdict &verdict) {
  auto pathOf = [](Location loc) { return writeNodeName(nameOf(loc)); };
  remark::missed(anchor->getLoc(), remark::RemarkOpts::name("TargetKernels").category("fusion"))
      << remark::reason("{0}", StringRef(nameOf(verdict.reason))) << remark::metric("Kernel", family) << remark::metric("Anchor", pathOf(anchor->getLoc()))
      << remark::metric("Deviation", deviation == Deviation::TakenApart ? "taken_apart" : "slower_kernel")
      << remark::metric("Operand", verdict.operand ? pathOf(verdict.operand.getLoc()) : "");
}

} // namespace ditc
