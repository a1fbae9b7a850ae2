// SPDX-License-Identifier: Apache-2.0
#include "codegen/cuda/gemm/ElementRuns.h"

#include "codegen/cuda/gemm/TileLanes.h"

using namespace mlir;

namespace ditc {

namespace {

using Kind = TileExpr::Kind;

/// Constants of an expression's places, in the order of a walk.
void places(const TileExpr &expr, SmallVectorImpl<int64_t> &out) {
  if (expr.kind == Kind::Accumulator || expr.kind == Kind::Load)
    out.push_back(expr.index.constant);
  for (const TileExprRef &child : expr.children)
    places(*child, out);
}

} // namespace

std::vector<ElementRun> runsOf(int64_t groups, llvm::function_ref<TileExprRef(int64_t, int64_t)> element) {
  std::vector<ElementRun> runs;
  SmallVector<int64_t> before;
  for (int64_t i = 0; i < groups; ++i) {
    std::array<TileExprRef, 2> pair{element(i, 0), element(i, 1)};
    SmallVector<int64_t> here;
    places(*pair[0], here);
    places(*pair[1], here);
    if (!runs.empty() && isAlike(*pair[0], *runs.back().pair[0]) && isAlike(*pair[1], *runs.back().pair[1])) {
      SmallVector<int64_t> steps;
      for (auto [a, b] : llvm::zip(here, before))
        steps.push_back(a - b);
      bool isSecond = i == runs.back().first + 1;
      if (isSecond || steps == runs.back().steps) {
        runs.back().steps = steps;
        runs.back().last = i + 1;
        before = here;
        continue;
      }
    }
    runs.push_back({i, i + 1, pair, SmallVector<int64_t>(here.size(), 0)});
    before = here;
  }
  return runs;
}

} // namespace ditc
