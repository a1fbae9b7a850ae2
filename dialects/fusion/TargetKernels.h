// SPDX-License-Identifier: Apache-2.0
//
// What a target can launch, as passes see it. A fusion that the target does not take is split into parts that it does.
#pragma once

#include "dialects/dit/Dit.h"
#include "dialects/fusion/Reason.h"

namespace ditc {

class TargetKernels {
public:
  virtual ~TargetKernels() = default;

  /// May all of `fusion` be one launch? Its family says by which kernel.
  virtual Verdict takes(dit::FusionOp fusion) const = 0;
};

} // namespace ditc
