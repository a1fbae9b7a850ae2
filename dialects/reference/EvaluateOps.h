// SPDX-License-Identifier: Apache-2.0
//
// The evaluator's functions, one per kind of operation. Operands have been verified to fit. Internal to the
// evaluator.
#pragma once

#include "dialects/dit/Dit.h"
#include "dialects/reference/Evaluate.h"

namespace ditc::dit {

// EvaluateMap.cpp
mlir::FailureOr<TensorValue> evaluateMap(MapOp op, mlir::ArrayRef<TensorValue> operands);

// EvaluateProducts.cpp; absent operands are null.
TensorValue evaluateMatmul(MatmulOp op, const TensorValue &lhs, const TensorValue &rhs, const TensorValue *bias);
TensorValue evaluateConv(ConvOp op, const TensorValue &input, const TensorValue &filter, const TensorValue *bias);

// EvaluateAttention.cpp
TensorValue evaluateAttention(AttentionOp op, const TensorValue &query, const TensorValue &key, const TensorValue &value,
                              const TensorValue *mask);

// EvaluateReduce.cpp
TensorValue evaluateNorm(NormOp op, const TensorValue &input, const TensorValue *weight, const TensorValue *bias);
TensorValue evaluateReduce(ReduceOp op, const TensorValue &input);
TensorValue evaluateArgReduce(ArgReduceOp op, const TensorValue &input);
TensorValue evaluateLinearState(LinearStateOp op, const TensorValue &key, const TensorValue &value);
TensorValue evaluateLinearApply(LinearApplyOp op, const TensorValue &query, const TensorValue &state);
TensorValue evaluateScan(ScanOp op, const TensorValue &input);
mlir::SmallVector<TensorValue> evaluateSort(SortOp op, const TensorValue &input);

// EvaluateIndexing.cpp
TensorValue evaluateGather(GatherOp op, const TensorValue &table, const TensorValue &indices);
TensorValue evaluateScatter(ScatterOp op, const TensorValue &base, const TensorValue &indices, const TensorValue &updates);
TensorValue evaluatePermute(PermuteOp op, const TensorValue &input);
TensorValue evaluateSlice(SliceOp op, const TensorValue &input);
TensorValue evaluateConcat(ConcatOp op, mlir::ArrayRef<TensorValue> inputs);
TensorValue evaluatePad(PadOp op, const TensorValue &input);
TensorValue evaluateExpand(ExpandOp op, const TensorValue &input);

} // namespace ditc::dit
