// SPDX-License-Identifier: Apache-2.0
#include "dialects/fusion/Reason.h"

#include <array>

namespace ditc {

namespace {

struct Entry {
  Reason reason;
  std::string_view name, text;
};

constexpr std::array<Entry, 17> kEntries{{
    {Reason::Accepted, "accepted", "shares the kernel"},
    {Reason::WouldCycle, "would_cycle", "the fused kernel would have to wait for its own result"},
    {Reason::RowStatistics, "row_statistics", "it needs statistics over a whole row, of which a tile of the product holds only a part"},
    {Reason::HeadSplitsTile, "head_splits_tile", "no tile has whole heads of this size"},
    {Reason::CrossesRows, "crosses_rows", "it moves elements between rows of the tile"},
    {Reason::TooManyOperands, "too_many_operands", "the template has no place for another operand"},
    {Reason::ShapeMismatch, "shape_mismatch", "it iterates over another shape than the kernel"},
    {Reason::TypeUnsupported, "type_unsupported", "the template does not compute with its element type"},
    {Reason::EmptyTiles, "empty_tiles", "the product's rows would come in batches of so few that most of each tile stays empty"},
    {Reason::LayoutUnsupported, "layout_unsupported", "its rows do not lie in the pieces of 16 bytes that the kernel copies"},
    {Reason::KeepsRoundings, "keeps_roundings", "one kernel would skip a rounding of the graph, all of which `--numerics eager` keeps"},
    {Reason::NoSlot, "no_slot", "the template has no slot where it could go"},
    {Reason::NeedsWholeInput, "needs_whole_input", "it reads all of a value that the kernel computes piece by piece"},
    {Reason::RecomputeTooDear, "recompute_too_dear", "it would be computed again for every repetition of its value"},
    {Reason::JoinTooDear, "join_too_dear", "one launch would save too little time for the memory of joined weights, or of results that are kept for later blocks"},
    {Reason::DifferentInput, "different_input", "the products read different inputs"},
    {Reason::AlreadyFused, "already_fused", "it already shares a kernel with another producer"},
}};

} // namespace

std::string_view nameOf(Reason reason) { return kEntries[static_cast<size_t>(reason)].name; }

std::string_view explain(Reason reason) { return kEntries[static_cast<size_t>(reason)].text; }

std::vector<Reason> allReasons() {
  std::vector<Reason> reasons;
  for (const Entry &entry : kEntries)
    if (entry.reason != Reason::Accepted)
      reasons.push_back(entry.reason);
  return reasons;
}

} // namespace ditc
