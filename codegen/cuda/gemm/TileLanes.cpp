// SPDX-License-Identifier: Apache-2.0
#include "codegen/cuda/gemm/TileLanes.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <limits>

using namespace mlir;

namespace ditc {

namespace {

using Kind = TileExpr::Kind;
using Places = std::array<std::optional<int64_t>, kQuad>;      // nothing: of another alternative
using Alternative = std::array<const TileExpr *, kQuad>; // the same with null

constexpr int64_t kNoPlace = std::numeric_limits<int64_t>::min();

/// The thread that holds a column, and the column that thread 0 holds at the same place.
int64_t threadOf(int64_t column) { return llvm::mod(column, 8) / 2; }

Places placesOf(const Alternative &lanes) {
  Places places;
  for (auto [place, lane] : llvm::zip(places, lanes))
    if (lane)
      place = lane->index.constant;
  return places;
}

int64_t firstOf(const Places &places) { return **llvm::find_if(places, [](const auto &place) { return place.has_value(); }); }

void addStep(TileExpr &expr, unsigned quad, int64_t step) {
  if (step != 0)
    expr.index = expr.index.plus({0, {{quad, step}}});
}

/// All threads want what they have; or each place by itself.
void placeAccumulator(TileExpr &expr, const Places &places, unsigned quad) {
  SmallVector<int64_t> own;
  for (auto [lane, place] : llvm::enumerate(places))
    if (place)
      own.push_back(threadOf(*place) == static_cast<int64_t>(lane) ? *place - 2 * static_cast<int64_t>(lane) : kNoPlace);
  if (llvm::all_equal(own) && own.front() != kNoPlace) {
    expr.index.constant = own.front();
    return addStep(expr, quad, 2);
  }
  expr.index.constant = firstOf(places);
  for (const auto &place : places)
    expr.lanes.push_back(place ? *place - expr.index.constant : kNoPlace);
}

/// The step from thread to thread that leaves the fewest places beside it. A thread of another alternative loads as well, where
/// one of this alternative does.
void placeLoad(TileExpr &expr, const Places &places, unsigned quad) {
  std::array<int64_t, kQuad> all;
  for (size_t lane = 0; lane < all.size(); ++lane)
    all[lane] = places[lane].value_or(places[lane ^ 2].value_or(firstOf(places)));
  int64_t best = 0, fewest = kQuad;
  for (int64_t step : {all[1] - all[0], all[3] - all[2], int64_t(0)}) {
    int64_t changes = 0;
    for (int lane = 1; lane < kQuad; ++lane)
      changes += all[lane] - all[lane - 1] != step;
    if (step >= 0 && changes < fewest)
      best = step, fewest = changes;
  }
  expr.index.constant = all[0];
  addStep(expr, quad, best);
  for (int64_t lane = 0; fewest > 0 && lane < kQuad; ++lane)
    expr.lanes.push_back(all[lane] - all[0] - best * lane);
}

TileExprRef join(const Alternative &lanes, unsigned quad) {
  const TileExpr &model = **llvm::find_if(lanes, [](const TileExpr *lane) { return lane; });
  TileExpr joined = model;
  if (model.kind == Kind::Accumulator)
    placeAccumulator(joined, placesOf(lanes), quad);
  else if (model.kind == Kind::Load)
    placeLoad(joined, placesOf(lanes), quad);
  for (auto [i, child] : llvm::enumerate(joined.children)) {
    Alternative below{};
    for (auto [to, lane] : llvm::zip(below, lanes))
      to = lane ? lane->children[i].get() : nullptr;
    child = join(below, quad);
  }
  return std::make_shared<TileExpr>(std::move(joined));
}

} // namespace

bool isAlike(const TileExpr &a, const TileExpr &b) {
  if (a.kind != b.kind || a.op != b.op || a.argument != b.argument || a.index.terms != b.index.terms || a.lanes != b.lanes || a.children.size() != b.children.size())
    return false;
  for (auto [x, y] : llvm::zip(a.children, b.children))
    if (!isAlike(*x, *y))
      return false;
  return true;
}

bool staysInThreads(const TileExpr &expr, unsigned quad) {
  if (expr.kind == Kind::Accumulator && (expr.index.coefficient(quad) != 2 || threadOf(expr.index.constant) != 0))
    return false;
  return llvm::all_of(expr.children, [quad](const TileExprRef &child) { return staysInThreads(*child, quad); });
}

TileExprRef joinLanes(const std::array<TileExprRef, kQuad> &lanes, unsigned quad) {
  SmallVector<Alternative> alternatives;
  TileExpr choice{Kind::Choice, nullptr, 0, {}, {}};
  for (auto [lane, expr] : llvm::enumerate(lanes)) {
    auto found = llvm::find_if(alternatives, [&expr = expr](const Alternative &each) { return isAlike(*expr, **llvm::find_if(each, [](const TileExpr *of) { return of; })); });
    choice.lanes.push_back(found - alternatives.begin());
    if (found == alternatives.end())
      found = &alternatives.emplace_back();
    (*found)[lane] = expr.get();
  }
  for (const Alternative &each : alternatives)
    choice.children.push_back(join(each, quad));
  return choice.children.size() == 1 ? choice.children.front() : std::make_shared<TileExpr>(std::move(choice));
}

std::optional<QuadExchange> exchangeOf(const TileExpr &accumulator) {
  QuadExchange exchange;
  for (auto [lane, offset] : llvm::enumerate(accumulator.lanes)) {
    if (offset == kNoPlace)
      continue;
    int64_t column = accumulator.index.constant + offset, thread = threadOf(column);
    std::optional<int64_t> &given = exchange.given[thread];
    if (given && *given != column)
      return std::nullopt;
    exchange.source[lane] = thread;
    given = column;
  }
  return exchange;
}

} // namespace ditc
