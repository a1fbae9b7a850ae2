// SPDX-License-Identifier: Apache-2.0
//
// Writes the code of one part of a rowwise kernel by pulling: for an element of an output it walks back through the
// operations to the arguments, carrying a symbolic index (Indices.h). Every value is computed once for an index and kept
// by name; statistics become phases of their own before the loop that needs them.
//
//   Emitter.cpp     scopes, names, loops, stores
//   Pulls.cpp       values of operations, loads
//   Statistics.cpp  norms and reductions
#pragma once

#include "codegen/cuda/rowwise/Spaces.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <memory>
#include <set>

namespace ditc::rowwise {

/// A value by its name in the code: a scalar, the same in all lanes, or a chunk.
struct Pulled {
  std::string text = "0";
  bool isChunk = false;

  /// Inside a function of the lane `e`.
  std::string lane() const { return isChunk ? text + "[e]" : text; }
};

/// A line, dropped when what it is for turns out not to be needed.
struct Line {
  std::string text;
  std::shared_ptr<bool> needed;
};

struct Scope {
  enum Kind { Part, Columns, Branch, Serial } kind = Part;
  std::vector<Line> lines;
  std::map<std::string, Pulled> values;
  std::set<Variable> declared;
  std::string condition;                                       ///< of a branch
  bool isPerRow = true;                                        ///< the condition is the same for all threads of the row
  int64_t columns = 0, width = 1;                              ///< of a loop over columns
  bool keeps = false;                                          ///< its values may be kept for later loops over the same columns
  std::string guard;                                           ///< condition of a loop over columns that a thread may leave early, for effects
  unsigned loop = 0;                                           ///< number of a loop over columns
  std::vector<std::pair<Variable, std::optional<Range>>> undo; ///< restrictions from before
};

/// A chunk of an earlier loop over columns, in registers.
struct Kept {
  mlir::Value value;
  Index index;
  int64_t columns, width;
  bool isHeld; ///< as the elements lie in memory
  std::string name;
  std::shared_ptr<bool> needed;
  std::vector<std::string> conditions; ///< under which it was computed
  unsigned loop;                       ///< number of the loop over columns that fills it
};

/// A loaded chunk's elements as they lie in memory.
struct HeldElements {
  std::string name, type;
};

/// Names of the results of a statistic: mean and 1 / deviation of a norm, or the reduced value.
struct Statistic {
  Pulled centre, factor;
};

/// Nothing is written; what the search for rows wants to know is collected.
struct Probe {
  struct Use {
    mlir::Operation *op;
    Index place;
    int64_t size;
    int64_t within = 1; ///< StatisticUse::within
    bool isContiguous = false;
  };
  struct Load {
    size_t input;
    Linear address;
  };
  std::vector<Use> uses;
  std::vector<Load> loads;
  mlir::SmallVector<std::pair<Variable, size_t>> columns; ///< variables of the statistics being computed
};

/// The most elements of one access at these addresses, a power of two up to `limit`.
int64_t accessWidth(const Argument &argument, const Linear &address, int64_t limit);
/// Elements from the argument's start.
Linear addressOf(const Indices &indices, const Argument &argument, const Index &index);

/// The node's name, as the beginning of a name in the code.
std::string stemOf(mlir::Operation *op, mlir::StringRef otherwise);
/// A position in row-major order as one index for each dimension; nothing when the lanes part ways at run time.
std::optional<Index> splitIndex(Indices &indices, const Linear &linear, mlir::ArrayRef<int64_t> sizes);

/// Values of one thread that are kept between phases, and loops that are unrolled for it. Held elements take half a register.
inline constexpr int64_t kMostKept = 64, kMostHeld = 160;

class Emitter {
public:
  Emitter(const Problem &problem, Declarations &declarations, mlir::SmallVectorImpl<Argument> &arguments)
      : problem(problem), declarations(declarations), arguments(arguments) {}

  /// The code of a part; nothing when chunks of part.width do not work. `usesShared` is set when rows are blocks.
  std::optional<std::string> emit(const Part &part, int64_t threads, bool &usesShared);

  /// Does a thread take what it loaded in one round of a loop in another one?
  bool mixesRounds() const { return mixed; }

  /// What `value` depends on at an index: statistics and loads.
  static Probe probe(const Problem &problem, mlir::Value value, Indices &indices, const Index &index);

private:
  // ---- scopes (Emitter.cpp)
  Scope &top() { return *scopes.back(); }
  void line(std::string text) { top().lines.push_back({std::move(text), nullptr}); }
  void lineAt(size_t level, std::string text) { scopes[level]->lines.push_back({std::move(text), nullptr}); }
  Scope &push(Scope::Kind kind);
  /// Closes the innermost scope and hands over its lines, indented.
  std::vector<Line> takeScope();
  /// Closes the innermost scope; its lines go between the two texts.
  void pop(const std::string &head, const std::string &tail = "}");
  /// Runs `body` with the scopes above `level` out of sight.
  template <typename Body> auto atLevel(size_t level, Body body) {
    std::vector<std::unique_ptr<Scope>> rest(std::make_move_iterator(scopes.begin() + level + 1), std::make_move_iterator(scopes.end()));
    scopes.resize(level + 1);
    auto result = body();
    scopes.insert(scopes.end(), std::make_move_iterator(rest.begin()), std::make_move_iterator(rest.end()));
    return result;
  }
  size_t homeOf(Variable variable) const;
  /// The outermost scope in which a value at this index may be computed.
  size_t levelOf(const Index &index) const;
  void declare(Variable variable);
  std::string print(const Linear &index);
  std::string printAddress(const Argument &argument, const Linear &address);
  std::string printSign(const Linear &form);
  std::string fresh(mlir::StringRef stem);
  std::string keyOf(mlir::Value value, const Index &index) const;
  Linear openColumns(int64_t columns, bool keeps);
  void closeColumns();
  std::string define(mlir::StringRef stem, const std::string &expression);
  /// `f(a[e], b)` for every lane, or once.
  Pulled apply(mlir::StringRef stem, mlir::ArrayRef<Pulled> operands, const std::string &expression);
  int64_t lanesNow() const { return scopes.back()->width; }
  int64_t mostKept() const { return part->isHeld ? kMostHeld : kMostKept; }
  /// Before what a thread without a column of its own must not do.
  std::string guardNow() const;
  void fail() { works = false; }
  void storeOutput(const OutputSpace &space, const Linear &row, const Linear &column);
  void storeWhatIsKnown(int64_t columns, const Linear &column);
  void storeRows(const Linear &row, int64_t columns, bool ofRow);
  std::string emitRows(const Part &part, int64_t threads);
  std::string emitFlat(const Part &part, int64_t threads);
  std::string render(const Scope &scope) const;

  // ---- values (Pulls.cpp)
  Pulled pull(mlir::Value value, const Index &index);
  Pulled pullNew(mlir::Value value, const Index &index);
  std::optional<Pulled> findKept(mlir::Value value, const Index &index);
  void keep(mlir::Value value, const Index &index, const Pulled &pulled);
  /// Conditions of the branches around that are the same for the threads of a row.
  std::vector<std::string> conditionsNow() const;
  /// Some lanes of a chunk of `count`.
  Pulled pickLanes(const std::string &text, mlir::ArrayRef<int> lanes, int64_t count);
  Pulled load(Argument &argument, const Index &index);
  Pulled loadChunk(Argument &argument, const Linear &address, mlir::StringRef stem);
  bool holds(const Argument &argument, int64_t width) const;
  std::string widened(const std::string &held) const;
  Pulled pullMap(dit::MapOp op, const Index &index);
  Pulled pullConstant(dit::ConstantOp op, const Index &index);
  Pulled pullView(dit::ViewOp op, const Index &index);
  Pulled pullGather(dit::GatherOp op, const Index &index);
  Pulled pullConcat(dit::ConcatOp op, const Index &index);
  Pulled pullPad(dit::PadOp op, Index index, unsigned dim);
  /// The value of one of several pieces that lie one behind the other along an axis.
  using PullPiece = llvm::function_ref<Pulled(size_t piece, const Index &index)>;
  Pulled pullPiece(mlir::Type type, mlir::ArrayRef<int64_t> ends, const Index &index, unsigned axis, PullPiece piece, size_t first, size_t last);
  Pulled pullBranch(mlir::Type type, const Linear &form, bool isChunk, llvm::function_ref<Pulled()> below, llvm::function_ref<Pulled()> above);
  Pulled pullMerged(mlir::ArrayRef<int64_t> pieceOfLane, const Index &index, unsigned axis, PullPiece piece);
  /// Rounds to what the element type holds, where that is seen.
  std::string rounded(mlir::Value value, const std::string &text) const;
  std::string typeName(mlir::Type element, bool isChunk) const;

  // ---- statistics (Statistics.cpp)
  Pulled pullNorm(dit::NormOp op, const Index &index);
  Pulled pullReduce(dit::ReduceOp op, const Index &index);
  Statistic statistic(mlir::Operation *op, const Index &place);
  Statistic groupStatistic(mlir::Operation *op, const Index &place);
  Statistic serialStatistic(mlir::Operation *op, const Index &place);
  Statistic probeStatistic(mlir::Operation *op, const Index &place);
  Statistic declareStatistic(mlir::Operation *op, bool isChunk);
  bool keepsMuch(int64_t columns) const;
  bool sharesEvenly(int64_t columns) const;
  Statistic joinedMoments(dit::NormOp norm, const Index &place);
  Statistic computeTotals(mlir::Operation *op, const Index &place, bool overRow, bool isChunk);
  /// One pass over what the statistic combines.
  void pass(mlir::Operation *op, const Index &place, bool overRow, llvm::function_ref<void(const Pulled &)> update);
  std::string ownTotal(mlir::Operation *op, const Index &place, bool overRow, bool isChunk, mlir::StringRef combiner, const std::string &start,
                       llvm::function_ref<std::string(const std::string &)> term);
  std::string total(mlir::Operation *op, const Index &place, bool overRow, bool isChunk, mlir::StringRef combiner, const std::string &start,
                    llvm::function_ref<std::string(const std::string &)> term);
  /// A total of each thread as the total of the row.
  std::string combined(mlir::StringRef combiner, const std::string &total);
  std::optional<Index> inputIndex(mlir::Operation *op, const Index &place, const Linear &column);

  const Problem &problem;
  Declarations &declarations;
  mlir::SmallVectorImpl<Argument> &arguments; ///< the inputs, then the outputs

  Indices ownIndices;
  Indices *indices = &ownIndices;
  std::vector<std::unique_ptr<Scope>> scopes;
  std::vector<Kept> kept;
  std::map<std::string, Variable> lookups; ///< rows of tables, by gather and place
  std::map<std::pair<int64_t, int64_t>, Linear> columnForms;
  std::map<std::string, HeldElements> heldOf; ///< by the name of a loaded chunk
  unsigned loops = 0;                        ///< over columns, so far
  mlir::SmallVector<unsigned> openLoops;     ///< whose text is not complete; what they keep comes too late for a phase before them
  std::map<std::string, unsigned> names;
  const Part *part = nullptr;
  Linear thread;          ///< of the group
  Linear rowNow;
  std::set<size_t> storedEarly; ///< outputs of the part, in a loop over columns of a statistic
  std::string storeGuard; ///< condition before every store
  int64_t maxWidth = 1;
  unsigned reductions = 0; ///< so far, over the block
  bool usesBlock = false;
  bool mixed = false;
  bool works = true;
  Probe *prober = nullptr;
};

} // namespace ditc::rowwise
