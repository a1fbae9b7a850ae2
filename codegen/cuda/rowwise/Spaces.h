// SPDX-License-Identifier: Apache-2.0
//
// What the threads of a rowwise kernel iterate over. A kernel has parts; a part is a set of outputs with one space:
// rows times columns where statistics of rows are needed, else a flat run of elements.
#pragma once

#include "codegen/cuda/rowwise/Arguments.h"
#include "codegen/cuda/rowwise/Indices.h"

namespace ditc::rowwise {

/// A factor of a dimension: index[dim] += scale * (0 ... size - 1).
struct Factor {
  unsigned dim;
  int64_t size, scale;

  bool operator==(const Factor &) const = default;
};
using Factors = mlir::SmallVector<Factor, 6>;

/// How an output's elements are numbered by the part's rows and columns.
struct OutputSpace {
  unsigned output;
  Factors rows, columns; ///< outermost first; a flat part has columns only
  bool joined = false;   ///< `columns` are numbered by row * (columns of the part) + column
  bool ofRow = false;    ///< one element for each row of a part with more columns: a statistic, or what is made of it
};

/// A statistic that an output depends on, as the search for its rows found it.
struct StatisticUse {
  mlir::Operation *op;
  int64_t size;                     ///< elements that are combined
  mlir::SmallVector<unsigned> dims; ///< factors of the output (by position) that its place depends on
  int64_t within = 1;               ///< elements of other statistics for each of which it is computed
  bool isContiguous = false;        ///< what is combined lies side by side in memory
};

struct Part {
  bool hasRows = false;
  std::vector<OutputSpace> outputs;
  int64_t rows = 1, columns = 1;
  std::vector<StatisticUse> statistics;
  int64_t longestRow = 1;  ///< of the outputs and of what statistics combine
  int64_t widestChunk = 1; ///< elements that make 16 bytes of the smallest large type
  bool isHeld = false;     ///< statistics combine elements of 16 bits, which stay as they lie in memory between the phases

  /// Rows about as large as an L2 cache of 50 MB, where marking them as the first to leave it was measured to gain 3 to 5 %
  /// (and the product that reads them not to lose). Smaller ones stay for the next kernel, larger ones gain nothing.
  bool fillsCache() const { return rows * longestRow * 2 >= 16 << 20 && rows * longestRow * 2 <= 64 << 20; }

  // Chosen at emission.
  int64_t group = 1; ///< threads of a row
  int64_t width = 1; ///< elements of a chunk
  int64_t rowsEach = 1; ///< rows of a thread, one after another in the code but under way together
};

/// Sorts the outputs into parts.
std::vector<Part> findParts(const Problem &problem);

/// How often the input of a statistic is read: 1 when every element belongs to one row only.
double recomputation(const Problem &problem, const Part &part);

/// Chunks of a row that one thread holds.
inline int64_t chunksPerThread(int64_t columns, int64_t width, int64_t group) { return (columns / width + group - 1) / group; }

/// The largest power of two up to `limit` that divides `size`.
int64_t chunkWidth(int64_t size, int64_t limit);

/// Threads of a block; sets the group of every part.
int64_t chooseThreads(mlir::MutableArrayRef<Part> parts);

/// The part with one chunk of a row in each thread instead of two: better where threads take several rows, unless a
/// thread needs both.
std::optional<Part> withOneChunk(const Part &part);

/// Blocks that a multiprocessor should hold at least, which bounds the registers: enough of them for what a thread keeps.
int64_t residentBlocks(mlir::ArrayRef<Part> parts, int64_t threads);

/// Indices of an output at a place of the part. Nothing when lanes part ways at run time.
std::optional<Index> placeOf(Indices &indices, const Part &part, const OutputSpace &space, size_t rank, const Linear &row, const Linear &column);

} // namespace ditc::rowwise
