// SPDX-License-Identifier: Apache-2.0
//
// Bodies that occur in diffusion transformers, as text of a func.func for RowwiseHarness.h. Shapes are written as in
// tensor types, "2x64xbf16".
#pragma once

#include <string>

namespace ditc::test {

std::string gelu(const std::string &type);
/// The variance of rows about their mean, both written out: one phase asks for the other.
std::string spelledVariance(const std::string &type, const std::string &rowType);
/// y = x + gate * a; y and (LayerNorm(y) * (1 + scale) + shift).
std::string residualNormModulate(const std::string &type, const std::string &rowType);
/// RMSNorm of heads of 128, rotary embedding, and heads in front of the tokens; bf16.
std::string normAndRotary(const std::string &batch, const std::string &tokens, const std::string &heads, bool interleaved);
/// A norm of each of two tensors.
std::string twoStreams(const std::string &first, const std::string &second);
/// Softmax over dimension 1 by maximum, exponential and sum.
std::string tablesPlusOne(const std::string &type, const std::string &tableType, int count); ///< each of `count` tables + one tensor

std::string softmax(const std::string &type, const std::string &reducedType);
/// Rows as fp8 with the scale of each, and what that makes of them.
std::string quantise(const std::string &type, const std::string &rowType, const std::string &smallType);
/// A norm with weight and bias, or neither.
std::string norm(const std::string &kind, const std::string &type, const std::string &columnsType);
/// A reduction of one tensor.
std::string reduction(const std::string &kind, const std::string &axes, const std::string &type, const std::string &resultType);
/// A tensor of four dimensions reduced over each of the 15 sets of axes.
std::string reductionsOverAllAxes(const std::string &element);
std::string transposesOfAllTypes();
/// result = op(a, ...) on 600 elements for each of the lines "op|operand types|result type"; unary to ternary. `op` may
/// be a whole expression, with %a0, %a1, ... or $ for all operands.
std::string scalarOperations(const std::string &lines);

} // namespace ditc::test
