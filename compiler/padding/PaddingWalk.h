// SPDX-License-Identifier: Apache-2.0
//
// One walk over the two imports of a program, for one way to fill its inputs. Each operation of the bucket is held against
// its counterpart in the other import: both must be the same program, which the symbol's value gets into as a size only.
#pragma once

#include "compiler/padding/PaddingRules.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace ditc {

/// Values for the padding of inputs that are not filled with rows.
using Fills = std::map<std::string, double>;
/// The dimensions that are nothing but the symbol, by input.
using InputDims = std::map<std::string, std::vector<unsigned>>;

class PaddingWalk {
public:
  PaddingWalk(const SymbolSizes &symbol, double highestMask) : symbol(symbol), masks{highestMask, {}} {}

  /// The crops of the outputs. Throws Refusal.
  std::vector<CroppedOutput> run(mlir::func::FuncOp bucket, mlir::func::FuncOp other, const InputDims &inputDims, const Fills &fills);

  /// What masks add to the scores of padding, attention by attention.
  const std::vector<double> &added() const { return masks.added; }

private:
  void readInput(mlir::func::FuncOp function, unsigned index, mlir::Value other, const InputDims &inputDims, const Fills &fills);
  std::vector<CroppedOutput> readOutputs(mlir::func::FuncOp function, mlir::func::ReturnOp op) const;
  void visit(mlir::Operation &op, mlir::Operation &other);
  PaddedShape paddingOfResult(mlir::Operation &op, mlir::Operation &other);
  void setResult(mlir::Operation &op, mlir::Value result, mlir::Value other, const PaddedShape &shape);

  const SymbolSizes &symbol;
  MaskedKeys masks;
  KnownPadding known;
};

} // namespace ditc
