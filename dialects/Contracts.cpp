// SPDX-License-Identifier: Apache-2.0
#include "dialects/Contracts.h"

#include "dialects/dit/Dit.h"
#include "dialects/plan/Plan.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"

using namespace mlir;

namespace ditc {

std::string_view nameOf(Contract contract) {
  switch (contract) {
  case Contract::Imported: return "imported";
  case Contract::Specialised: return "specialised";
  case Contract::Fused: return "fused";
  case Contract::Planned: return "planned";
  }
  return "unknown";
}

static bool isTensorLevel(Operation *op) {
  StringRef dialect = op->getName().getDialectNamespace();
  return isa<ModuleOp>(op) || dialect == "func" || dialect == "dit" || op->getParentOfType<dit::MapOp>();
}

static bool isPlanned(Operation *op) {
  if (op->getParentOfType<plan::KernelOp>())
    return true;
  if (auto buffer = dyn_cast<plan::BufferOp>(op)) {
    bool placed = llvm::is_contained({plan::Space::Arena, plan::Space::Prepared, plan::Space::Zeroed}, buffer.getSpace());
    return !placed || buffer.getOffset().has_value();
  }
  return isa<ModuleOp>(op) || op->getName().getDialectNamespace() == "plan";
}

LogicalResult verifyContract(ModuleOp module, Contract contract) {
  if (failed(verify(module)))
    return failure();
  bool planned = contract == Contract::Planned;
  WalkResult result = module.walk([&](Operation *op) {
    if (planned ? isPlanned(op) : isTensorLevel(op))
      return WalkResult::advance();
    op->emitError("contract '") << nameOf(contract) << "' is broken: '" << op->getName() << "' must not be here";
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

} // namespace ditc
