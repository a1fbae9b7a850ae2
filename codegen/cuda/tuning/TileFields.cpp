// SPDX-License-Identifier: Apache-2.0
#include "codegen/cuda/tuning/TileFields.h"

#include "codegen/cuda/families/FamilyUnit.h"
#include "codegen/cuda/sm90/Hopper.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <functional>

using namespace mlir;

namespace ditc {

namespace {

/// Calls visit(name, member) for every field: the one list of them.
template <class Tiles, class Visit> void visitHopper(Tiles &tiles, Visit visit) {
  visit("m", tiles.m), visit("n", tiles.n), visit("stages", tiles.stages), visit("consumers", tiles.consumers);
  visit("cluster_m", tiles.clusterM), visit("cluster_n", tiles.clusterN), visit("pingpong", tiles.pingpong);
  visit("split", tiles.split), visit("group", tiles.group), visit("box", tiles.box), visit("boxes", tiles.boxes);
}

template <class Tiles, class Visit> void visitMma(Tiles &tiles, Visit visit) {
  visit("m", tiles.m), visit("n", tiles.n), visit("k", tiles.k), visit("stages", tiles.stages);
  visit("warps_m", tiles.warpsM), visit("warps_n", tiles.warpsN), visit("group", tiles.group);
}

/// Takes fields into members; what is left over is unknown.
struct Taker {
  tuning::Tiles left;
  template <class Member> void operator()(const char *name, Member &member) {
    auto found = left.find(name);
    if (found == left.end())
      return;
    member = static_cast<Member>(found->second);
    left.erase(found);
  }
  std::string unknown() const { return left.empty() ? "" : left.begin()->first; }
};

bool within(int value, int lowest, int highest) { return value >= lowest && value <= highest; }

} // namespace

tuning::Tiles fieldsOf(const GemmTiles &tiles) {
  tuning::Tiles fields;
  visitHopper(tiles, [&](const char *name, int value) { fields[name] = value; });
  return fields;
}

tuning::Tiles fieldsOf(const MmaTiles &tiles) {
  tuning::Tiles fields;
  visitMma(tiles, [&](const char *name, int value) { fields[name] = value; });
  return fields;
}

GemmTiles hopperTilesOf(const tuning::Tiles &fields, std::string &unknown) {
  Taker taker{fields};
  GemmTiles tiles;
  visitHopper(tiles, std::ref(taker));
  unknown = taker.unknown();
  return tiles;
}

MmaTiles mmaTilesOf(const tuning::Tiles &fields, std::string &unknown) {
  Taker taker{fields};
  MmaTiles tiles;
  visitMma(tiles, std::ref(taker));
  unknown = taker.unknown();
  return tiles;
}

std::string misfit(const GemmTiles &t, ArrayRef<GemmSize> sizes, const GemmNeeds &needs) {
  constexpr int kAccumulators = 200; // of a thread, beside about 40 other registers
  if (!within(t.m, 64, 256) || !within(t.n, 16, 256) || t.n % 16 != 0 || !within(t.stages, 2, 16) || !within(t.group, 1, 64) || !within(t.boxes, 1, 16))
    return "sizes are out of range";
  if (t.consumers != 2 && (t.consumers != 3 || t.pingpong))
    return "there are two consumers, or three without ping-pong";
  int sharers = t.pingpong ? 1 : t.consumers;
  if (t.m % (64 * sharers) != 0)
    return "rows are not those of whole warpgroups";
  if (t.m / 64 / sharers * t.n / 2 > (t.consumers == 3 ? kAccumulators / 2 : kAccumulators))
    return "the accumulators do not fit into registers";
  if (!within(t.clusterM, 1, 2) || !within(t.clusterN, 1, 2) || t.clusterM * t.clusterN > 2 || t.n % (8 * t.clusterM) != 0 || t.m % (8 * t.clusterN) != 0)
    return "at most two blocks share an operand";
  if (!within(t.split, 1, 8) || (t.split > 1 && (t.clusterM * t.clusterN > 1 || t.pingpong || needs.gated)))
    return "k cannot be split this way";
  int width = t.n / (needs.gated ? 2 : 1);
  bool isBox = (t.box == 64 || t.box % 32 == 16 || (needs.head > 0 && t.box % 16 == 8)) && within(t.box, 8, 240) && width % t.box == 0;
  if (!isBox || llvm::any_of(needs.outputBegins, [&](int64_t begin) { return begin % t.box != 0; }) || (needs.head > 0 && needs.head % t.box != 0))
    return "boxes do not divide what is stored";
  if (needs.head > 0 && width % needs.head != 0)
    return "the epilogue sees heads, of which a tile has not whole ones";
  if (llvm::any_of(needs.weightColumns, [&](int64_t columns) { return columns % (t.n * t.clusterN) != 0; }))
    return "tiles would span two weights";
  if (llvm::any_of(sizes, [&](const GemmSize &size) { return static_cast<int64_t>(llvm::divideCeil(size.k, 64)) < t.split; }))
    return "k is too short";
  if (!t.exchangeFits(needs.chunk(t.box)))
    return "the sums of a tile do not fit into the stages";
  return t.sharedBytes() > kHopperSharedBytes ? "the stages do not fit into shared memory" : "";
}

std::string misfit(const MmaTiles &t, const CudaArch &arch, int64_t columns, ArrayRef<int64_t> multiples, bool gated) {
  bool inRange = within(t.m, 16, 256) && within(t.n, 16, 256) && within(t.stages, 2, 8) && within(t.group, 1, 64) && (t.k == 32 || t.k == 64);
  if (!inRange || !within(t.warpsM, 1, 8) || !within(t.warpsN, 1, 8))
    return "sizes are out of range";
  if (t.m % (16 * t.warpsM) != 0 || t.n % ((gated ? 32 : 16) * t.warpsN) != 0 || t.n / t.warpsN % columns != 0)
    return "a warp has not whole chunks of the epilogue";
  int rowsApart = t.threads() / (t.k / 8); // rows that are copied at once
  if (rowsApart % 8 != 0 || t.m % rowsApart != 0 || (gated && t.n / 2 % rowsApart != 0))
    return "rows are not copied evenly";
  if (t.m * t.n / t.threads() > 144 || t.threads() > 256)
    return "the accumulators do not fit into registers";
  if (llvm::any_of(multiples, [&](int64_t width) { return width % t.n != 0; }))
    return "tiles would span two weights";
  return t.sharedBytes() > sharedLimitOf(arch) ? "the stages do not fit into shared memory" : "";
}

} // namespace ditc
