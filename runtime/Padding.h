// SPDX-License-Identifier: Apache-2.0
//
// Running a bucket with fewer rows than it was compiled for, as the package's rules allow: which sizes fit, how
// inputs become tensors of the bucket's sizes, and how outputs are cropped. Copies are given as a function, so that
// the same walk serves the host and a GPU's queue.
#pragma once

#include "runtime/Manifest.h"
#include "runtime/Plan.h"
#include "runtime/TensorRef.h"

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ditc {

/// Symbols of a bucket that a run has fewer of. Empty: the bucket as it is.
using PaddedSizes = std::map<std::string, int64_t>;

/// The sizes with which the rules let the bucket take the inputs; nothing when they do not, and `misfit` then says
/// which tensor cannot be padded so. Names are checked before.
std::optional<PaddedSizes> fitByPadding(const Manifest &manifest, const Plan &plan, std::span<const TensorRef> inputs,
                                        std::string &misfit);

/// The ports of a run with these sizes.
std::vector<PortDesc> inputPorts(const Manifest &manifest, const Plan &plan, const PaddedSizes &sizes);
std::vector<PortDesc> outputPorts(const Manifest &manifest, const Plan &plan, const PaddedSizes &sizes);

/// The value for padding of an input along each dimension; nothing where rows are repeated.
std::vector<std::optional<double>> padValues(const Manifest &manifest, const PortDesc &input);

/// `count` elements of a type, all of the value.
std::vector<uint8_t> repeatedValue(DType dtype, double value, uint64_t count);

/// copy(target, source, bytes), without overlap, in order.
using CopyBytes = std::function<void(char *target, const char *source, uint64_t bytes)>;

/// Writes a dense tensor of `shape` at `source` into the port's memory, with copies of the last row behind it in
/// dimensions without a value. What is padded by a value must be there already.
void padTensor(char *target, const PortDesc &port, const char *source, const std::vector<int64_t> &shape,
               const std::vector<std::optional<double>> &values, const CopyBytes &copy);

/// The part of the port's memory that is not padding, dense.
void cropTensor(char *target, const std::vector<int64_t> &shape, const char *source, const PortDesc &port,
                const CopyBytes &copy);

} // namespace ditc
