// SPDX-License-Identifier: Apache-2.0
//
// Products outside of fusions: calls of the target's BLAS, or a kernel for types that it does not have. The BLAS reads a
// matrix by the stride of its rows or of its columns, so most views cost nothing.
#pragma once

#include "passes/plan/Launches.h"

namespace ditc {

class Products {
public:
  Products(ProgramBuilder &program, Placement &placement, Launches &launches, bool device)
      : program(program), placement(placement), launches(launches), device(device) {}

  void lower(dit::MatmulOp op);

private:
  bool isForBlas(mlir::Type element) const;
  void lowerToBlas(dit::MatmulOp op);
  void lowerToKernel(dit::MatmulOp op);
  mlir::Value blasOperand(mlir::Location loc, mlir::Value source, mlir::ArrayRef<int64_t> batch);
  mlir::Value flattenRows(mlir::Location loc, mlir::Value source, mlir::ArrayRef<int64_t> shape);
  mlir::Value transposed(mlir::Location loc, mlir::Value source);

  ProgramBuilder &program;
  Placement &placement;
  Launches &launches;
  bool device;
};

} // namespace ditc
