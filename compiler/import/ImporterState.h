// SPDX-License-Identifier: Apache-2.0
//
// The import of one program: the walk over nodes and nested graphs, and what each name stands for.
// Internal to compiler/import; the public functions are in Importer.h.
#pragma once

#include "compiler/import/AtenTable.h"
#include "compiler/import/Emit.h"
#include "compiler/import/Importer.h"
#include "compiler/import/MaskedRows.h"
#include "compiler/import/OpContext.h"
#include "compiler/import/Values.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <optional>
#include <unordered_map>

namespace ditc {

/// One graph being walked. A nested graph has its own names.
struct Scope {
  const Graph *graph;
  std::unordered_map<std::string, Values::Id> ids;
  std::optional<DType> autocast; ///< the type of an enabled autocast region
};

/// A higher-order op taken apart.
struct RegionCall {
  std::vector<Argument> settings; ///< before the first graph
  std::vector<const Graph *> graphs;
  std::vector<Argument> operands;
};

bool isInlinedRegion(std::string_view target);
RegionCall regionCall(const Node &node);

/// A loop taken apart: scan(f, carried, scanned, rest), map_impl(f, scanned, rest), while_loop(condition, body, carried, rest).
struct LoopCall {
  std::vector<const Graph *> graphs;
  std::vector<Argument> carried, scanned, rest;
};

bool isUnrolledLoop(std::string_view target);
LoopCall loopCall(const Node &node);

/// True when an operand or a result of `node` is complex.
bool involvesComplex(const Node &node, const Graph &graph);

/// Is the number that `item` takes from a tensor only the place that select reads? Then it may be data.
bool isOnlyIndex(const Node &item, const Graph &graph);

/// The first argument that is a tensor: what in-place ops write and views look at. Null when there is none.
const Argument *firstTensor(const Node &node);

/// Findings of findUnsupported when the inputs in options.pinned are constants.
std::vector<UnsupportedNode> findUnsupported(const ExportedProgram &program, const Pt2Archive &archive,
                                             const ImportOptions &options);
std::string toString(const UnsupportedNode &node);

class Importer {
public:
  Importer(mlir::MLIRContext &context, const ExportedProgram &program, const Pt2Archive &archive,
           const ImportOptions &options);
  mlir::OwningOpRef<mlir::ModuleOp> run();

  // For OpContext.
  Value read(const std::string &name);
  /// The same for an operand of `node`: cast where an autocast region would.
  Value readOperand(const Node &node, const std::string &name);
  const TensorMeta &metaOf(const std::string &name) const;
  SymValue symbolValue(const std::string &name) const;
  RankedTensorType typeOf(const TensorMeta &meta);
  std::vector<int64_t> sizesOf(const TensorMeta &meta) const;
  int64_t evaluate(const SymInt &size) const { return evaluateSize(size, symbols); }
  /// The value of a tensor that depends on constants only; nothing otherwise.
  std::optional<dit::TensorValue> constantValue(Value value);
  bool isWrittenBack(const Node &node) const { return ditc::isWrittenBack(node, *scopes.back().graph, table); }
  const ExportedProgram &exportedProgram() const { return program; }
  /// The tensor that holds an index by this name, where it is data; null otherwise.
  Value indexFromData(const std::string &name);

private:
  // Importer.cpp: leaves, outputs.
  void createFunction();
  void bindInputs();
  void finish();
  Value leafValue(const InputSpec &spec);
  Value pinnedValue(const InputSpec &spec, const HostTensor &tensor);
  Value storedConstant(const InputSpec &spec, RankedTensorType type);
  Value outputValue(const Argument &value);

  // Nodes.cpp: nodes of a graph.
  void importNodes();
  void importNode(const Node &node);
  void importRow(const Node &node, const ResolvedTarget &target);
  void bindResults(const Node &node, const ResolvedTarget &target, ArrayRef<Value> results);
  bool sharesStorage(const Node &node, const TensorMeta &result) const;
  void bindDataSizes(const TensorMeta &meta, ArrayRef<int64_t> shape);
  void importItem(const Node &node);

  // Regions.cpp: nested graphs.
  bool importRegion(const Node &node);
  void inlineGraph(const Node &node, const Graph &graph, ArrayRef<Argument> operands, std::optional<DType> autocast);
  /// Imports the nodes of a nested graph whose inputs are bound; the ids of its outputs, nothing for those that are no tensors.
  std::vector<std::optional<Values::Id>> importScope(Scope inner);
  std::optional<bool> predicateOf(const Argument &value);

  // Loops.cpp: nested graphs that run several times.
  void importLoop(const Node &node);
  std::vector<Values::Id> importStep(const Graph &graph, std::vector<Values::Id> inputs);
  std::vector<Values::Id> importSteps(const LoopCall &call);
  std::vector<Values::Id> importWhile(const LoopCall &call);
  std::vector<Values::Id> idsOf(ArrayRef<Argument> operands);

  Values::Id idOf(const std::string &name);
  mlir::Location locationOf(const Node &node);
  Scope &scope() { return scopes.back(); }

  mlir::MLIRContext &context;
  const ExportedProgram &program;
  const Pt2Archive &archive;
  const ImportOptions &options;
  SymBindings symbols;
  AtenTable table;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::func::FuncOp function;
  mlir::ImplicitLocOpBuilder builder;
  Emit emit;
  Values values;
  std::vector<Scope> scopes;
  std::unordered_map<std::string, Values::Id> dataIndices;   ///< results of item that are data (isOnlyIndex)
  std::unordered_map<std::string, const InputSpec *> leaves; ///< placeholders that no node has read yet
  mlir::Operation *lastLeaf = nullptr;
  bool placed = false; ///< an Error on its way says already where it happened
  std::unordered_map<mlir::Operation *, std::vector<dit::TensorValue>> folded; ///< memo of constantValue
};

} // namespace ditc
