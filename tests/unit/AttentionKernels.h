// SPDX-License-Identifier: Apache-2.0
//
// plan.kernels of family "attention" for tests of the Hopper templates, from a few words.
#pragma once

#include "codegen/cuda/sm90/AttentionProblem.h"
#include "codegen/cuda/sm90/Hopper.h"
#include "dialects/dit/Dit.h"

#include "mlir/Parser/Parser.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace ditc::test {

/// Heads lie inside tokens, as a projection leaves them.
struct AttentionShape {
  int64_t batch = 1, heads = 2, queries = 256, keys = 256, dim = 64;
  int64_t keyHeads = 0, valueDim = 0;      ///< 0: like heads and dim
  std::string element = "bf16";
  std::string mask = {};                   ///< its memref, or none
  bool causal = false;
  double scale = 0.125;
  std::string extra = {};                  ///< more of the configuration
  std::vector<std::string> scratch = {};   ///< memrefs of the arguments before the output
  std::string key = {};                    ///< another memref for the keys
  int64_t alignment = 16;
};

class AttentionKernels {
public:
  AttentionKernels() {
    mlir::DialectRegistry registry;
    registry.insert<plan::PlanDialect, dit::DitDialect>();
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
  }

  plan::KernelOp parse(const AttentionShape &s) {
    auto head = [&](int64_t heads, int64_t tokens, int64_t columns) {
      return fmt::format("memref<{}x{}x{}x{}x{}, strided<[{}, {}, {}, 1]>>", s.batch, heads, tokens, columns, s.element, tokens * heads * columns, columns, heads * columns);
    };
    int64_t keyHeads = s.keyHeads ? s.keyHeads : s.heads, valueDim = s.valueDim ? s.valueDim : s.dim;
    std::vector<std::string> args = {head(s.heads, s.queries, s.dim), s.key.empty() ? head(keyHeads, s.keys, s.dim) : s.key, head(keyHeads, s.keys, valueDim)};
    if (!s.mask.empty())
      args.push_back(s.mask);
    args.insert(args.end(), s.scratch.begin(), s.scratch.end());
    args.push_back(head(s.heads, s.queries, valueDim));
    return parse("attention", args, 1,
                 fmt::format("scale = {:e} : f64, causal = {}, has_mask = {}, alignments = array<i64: {}>{}", s.scale, s.causal, !s.mask.empty(),
                             fmt::join(std::vector<int64_t>(args.size(), s.alignment), ", "), s.extra));
  }

  plan::KernelOp parse(const std::string &family, const std::vector<std::string> &args, int outputs, const std::string &config) {
    std::string text = fmt::format("plan.kernel @kernel family \"{}\" args [{}] outputs {} config {{{}}} {{}}", family, fmt::join(args, ", "), outputs, config);
    modules.push_back(mlir::parseSourceString<mlir::ModuleOp>(text, &context));
    return *modules.back()->getOps<plan::KernelOp>().begin();
  }

private:
  mlir::MLIRContext context;
  std::vector<mlir::OwningOpRef<mlir::ModuleOp>> modules;
};

} // namespace ditc::test
