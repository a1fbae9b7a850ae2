// SPDX-License-Identifier: Apache-2.0
//
// Which template serves a kernel, and with which descriptor: everything about a kernel that is not a map.
#pragma once

#include "dialects/plan/Plan.h"

#include "llvm/Support/Error.h"

#include <vector>

namespace ditc {

/// `function(args, descriptor[, scratch])` does the kernel's work.
struct TemplateCall {
  std::string library;             ///< file of codegen/templates/host that defines the function
  std::string function;
  std::vector<uint64_t> descriptor; ///< the words of its structure (descriptors.h)
  int64_t scratchBytes = 0;        ///< memory that the kernel reserves and passes as third argument, if any
};

/// An unknown family, or types that the family does not take, are an error that says so.
llvm::Expected<TemplateCall> selectTemplate(plan::KernelOp kernel);

} // namespace ditc
