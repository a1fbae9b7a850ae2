// SPDX-License-Identifier: Apache-2.0
//
// Why two operations do not share a kernel. Fusers and kernel templates answer with one of these; the report
// counts them, and docs/fusion.md explains each with an example.
#pragma once

#include "mlir/IR/Value.h"
#include "mlir/Support/LLVM.h"

#include <string>
#include <string_view>
#include <vector>

namespace ditc {

enum class Reason {
  Accepted,           ///< no reason against it
  WouldCycle,         ///< the fused kernel would have to wait for its own result
  RowStatistics,      ///< needs statistics over a whole row, of which a tile holds only a part
  HeadSplitsTile,     ///< no tile has whole heads of this size
  CrossesRows,        ///< moves elements between rows of the tile
  TooManyOperands,    ///< the template has no place for another operand
  ShapeMismatch,      ///< iterates over another shape than the kernel
  TypeUnsupported,    ///< element type that the template does not compute with
  EmptyTiles,         ///< rows would come in batches that fill little of a tile
  LayoutUnsupported,  ///< rows do not lie in the pieces that the kernel copies
  KeepsRoundings,     ///< a rounding of the graph would be skipped, and all are to be kept
  NoSlot,             ///< the template has no slot where this could go
  NeedsWholeInput,    ///< reads all of a value that the kernel computes piece by piece
  RecomputeTooDear,   ///< would be computed again for every repetition
  JoinTooDear,        ///< fills the GPU alone, and joining costs more memory than time is worth
  DifferentInput,     ///< the products read different inputs
  AlreadyFused,       ///< shares a kernel with another producer, and a kernel has one tile
};

/// The enum's spelling in reports: "row_statistics".
std::string_view nameOf(Reason reason);
/// A sentence for people.
std::string_view explain(Reason reason);
/// All reasons but Accepted, for documentation and tests.
std::vector<Reason> allReasons();

/// The answer of a template or fuser, with the operand at fault when there is one.
struct Verdict {
  Reason reason = Reason::Accepted;
  mlir::Value operand = {};

  explicit operator bool() const { return reason == Reason::Accepted; }
};

} // namespace ditc
