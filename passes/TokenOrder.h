// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace ditc {

/// Where a residual stream meets a product whose tokens are in another order (temporal attention: frames of each place), the stream goes
/// on in the product's order, so that the sum is its epilogue: norms, products and maps do the same with each token, and attention
/// gives each query what it gives it anywhere. What needs the order of before reads permuted rows: a residual in the epilogue of
/// another product, or a kernel of norms and maps that writes them in order.
void keepTokenOrder(mlir::func::FuncOp function);

} // namespace ditc
