// SPDX-License-Identifier: Apache-2.0
//
// What a caller hands over for one run, held against the package before anything runs: names, types,
// shapes, the bucket they belong to. Every refusal says what was found and what was expected.
#pragma once

#include "runtime/Package.h"
#include "runtime/Padding.h"
#include "runtime/TensorRef.h"

#include <map>
#include <span>
#include <string>
#include <vector>

namespace ditc {

/// The plans of a package by bucket name.
using PlanMap = std::map<std::string, Plan>;

/// A bucket, and how it is used for given inputs.
struct BucketChoice {
  std::string bucket;
  PaddedSizes sizes; ///< empty unless inputs are padded
};

/// A run's tensors in the order of the plan's ports.
struct CheckedRequest {
  BucketChoice choice;
  std::vector<TensorRef> inputs, outputs;
};

/// Whether inputs that no bucket has may be padded to a larger one.
enum class Padding { No, Allowed };

/// The bucket whose shapes the inputs have; with padding allowed else the smallest one that holds them; `named` is
/// taken as it is unless empty. Data is not looked at.
/// Throws Error (Input): unknown, missing or repeated input names, a wrong type, a shape that no bucket (or
/// not the named one) takes.
BucketChoice chooseBucket(const Package &package, const PlanMap &plans, const std::string &named,
                          std::span<const TensorRef> inputs, Padding padding = Padding::No);

/// Whether some bucket has the shapes of the inputs. Throws as chooseBucket does for everything else.
bool fitsSomeBucket(const Package &package, const PlanMap &plans, std::span<const TensorRef> inputs);

/// chooseBucket; constant and pinned inputs, which must have the compiled values; and the outputs: all of
/// them, with the bucket's types and shapes (less what is padding), in memory that overlaps neither the inputs nor
/// each other. Throws Error (Input).
CheckedRequest checkRequest(const Package &package, const PlanMap &plans, const std::string &named,
                            std::span<const TensorRef> inputs, std::span<const TensorRef> outputs,
                            Padding padding = Padding::No);

/// Throws Error (Input) that says why when the package has no rules by which inputs may be padded.
void needPadding(const Package &package);

/// True when the tensor has one element and that equals the value.
bool equalsConstant(const TensorRef &tensor, const ConstantValue &value);
/// "false", "1.5", "\"text\"", "null"
std::string describe(const ConstantValue &value);
/// "bf16 [s0, 4, 32]"
std::string describe(const ManifestPort &port);

} // namespace ditc
