// SPDX-License-Identifier: Apache-2.0
//
// plan.kernels of family "attention" for tests of the Hopper templates, from a few words.
#pragma once

#include "codegen/cuda/sm90/AttentionProblem.h"
#include "codegen/cuda/sm90/Hopper.h"
#include "dialects/dit/Dit.h"

#include "llvm/Support/MathExtras.h"
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
    return parse("attention", args, 1, configOf(s, args.size()));
  }

  /// The launch as PlanAttention leaves it: the mask packed or judged, operands of 8-bit numbers with their scales, and shared tiles.
  plan::KernelOp parseQuantized(AttentionShape s) {
    s.extra += ", quantized = true";
    plan::KernelOp plain = parse(s);
    AttentionProblem p(plain);
    AttentionNeeds needs = hopperAttentionNeeds(plain);
    auto rows = [&](int64_t heads, int64_t tokens) {
      int64_t row = llvm::alignTo(p.headDim, 16);
      return fmt::format("memref<{}x{}x{}x{}xi8, strided<[{}, {}, {}, 1]>>", p.batch, heads, tokens, p.headDim, heads * tokens * row, tokens * row, row);
    };
    int64_t pitch = llvm::alignTo(llvm::alignTo(p.keys, needs.quantizedKeys), 128);
    std::vector<std::string> args = {rows(p.heads, p.queries), rows(p.keyHeads, p.keys), fmt::format("memref<{}x{}x{}x{}xf8E4M3FN>", p.batch, p.keyHeads, p.valueDim, pitch)};
    if (needs.maskRows > 0) {
      llvm::ArrayRef<int64_t> mask = p.type(3).getShape();
      int64_t blocks = llvm::divideCeil(p.keys, needs.maskKeys);
      args.push_back(fmt::format("memref<{}x{}x{}x{}xi32>", mask[0], mask[1], mask[2], blocks * needs.maskKeys / 32));
      args.push_back(fmt::format("memref<{}x{}x{}x{}xi8>", mask[0], mask[1], llvm::divideCeil(mask[2], needs.maskRows), blocks));
      s.extra += ", packed_mask = true";
    } else if (!s.mask.empty()) {
      args.push_back(s.mask);
    }
    if (needs.biasKeys > 0) {
      llvm::ArrayRef<int64_t> mask = p.type(3).getShape();
      args.push_back(fmt::format("memref<{}x{}x1x{}xi8>", mask[0], mask[1], llvm::divideCeil(p.keys, needs.biasKeys)));
      s.extra += ", judged_mask = true";
    }
    args.push_back(fmt::format("memref<{}x{}x{}xf32>", p.batch, p.heads, p.queries));
    args.push_back(fmt::format("memref<{}x{}x{}x4xf32>", p.batch, p.keyHeads, llvm::divideCeil(p.keys, needs.quantizedKeys)));
    args.push_back(fmt::format("memref<{}x{}x{}xf32>", p.batch, p.keyHeads, p.valueDim));
    if (needs.parts > 0) {
      args.insert(args.end(), {fmt::format("memref<{}xf32>", needs.parts), fmt::format("memref<{}xi32>", needs.counters)});
      s.extra += ", shared_tiles = true";
    }
    args.push_back(fmt::format("memref<{0}x{1}x{2}x{3}x{4}, strided<[{5}, {3}, {6}, 1]>>", p.batch, p.heads, p.queries, p.valueDim, s.element, p.queries * p.heads * p.valueDim, p.heads * p.valueDim));
    return parse("attention", args, needs.parts > 0 ? 3 : 1, configOf(s, args.size()));
  }

  plan::KernelOp parse(const std::string &family, const std::vector<std::string> &args, int outputs, const std::string &config) {
    std::string text = fmt::format("plan.kernel @kernel family \"{}\" args [{}] outputs {} config {{{}}} {{}}", family, fmt::join(args, ", "), outputs, config);
    modules.push_back(mlir::parseSourceString<mlir::ModuleOp>(text, &context));
    return *modules.back()->getOps<plan::KernelOp>().begin();
  }

private:
  static std::string configOf(const AttentionShape &s, size_t args) {
    return fmt::format("scale = {:e} : f64, causal = {}, has_mask = {}, alignments = array<i64: {}>{}", s.scale, s.causal, !s.mask.empty(), fmt::join(std::vector<int64_t>(args, s.alignment), ", "), s.extra);
  }

  mlir::MLIRContext context;
  std::vector<mlir::OwningOpRef<mlir::ModuleOp>> modules;
};

} // namespace ditc::test
