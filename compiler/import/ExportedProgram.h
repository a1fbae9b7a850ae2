// SPDX-License-Identifier: Apache-2.0
//
// The program of a .pt2 file as plain structs, before any MLIR: what `models/<name>.json` says, with
// shared encodings decoded (unions, enums, non-finite floats) and metadata dropped except names.
// Format: docs/pt2-format.md.
#pragma once

#include "compiler/import/SymExpr.h"
#include "runtime/DType.h"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

namespace ditc {

/// An integer that may depend on symbols. `expr` null: the constant `value`. Otherwise `value` is the
/// hint of the export when `hasHint`.
struct SymInt {
  int64_t value = 0;
  SymExprPtr expr;
  bool hasHint = true;

  bool isConstant() const { return !expr; }
};

/// Shape and type of a tensor value. Strides and offset are in elements.
struct TensorMeta {
  DType dtype = DType::f32;
  std::vector<SymInt> sizes;
  std::vector<SymInt> strides;
  SymInt storageOffset;
  std::string device; ///< "cpu", "cuda"
};

/// A sym_int/sym_float/sym_bool value: an expression, or a constant when `expr` is null.
struct SymScalar {
  SymValue value = int64_t{0}; ///< the constant, or the hint of the export when `hasHint`
  SymExprPtr expr;
  bool hasHint = true;
};

struct Graph;

/// A value of a node input, node output, graph input or graph output. Names refer to
/// Graph::tensorValues or Graph::symValues.
struct Argument {
  enum class Kind {
    None,
    Tensor,          ///< text = value name
    Tensors,         ///< items, each Tensor or None (Tensor[], Tensor?[])
    Int,             ///< integer
    Float,           ///< number
    Bool,            ///< flag
    String,          ///< text
    Complex,         ///< number, imaginary
    SymInt,          ///< text = sym value name
    SymFloat,        ///< text = sym value name
    SymBool,         ///< text = sym value name
    List,            ///< items: Int/SymInt, Float/SymFloat, Bool/SymBool or String (a homogeneous list)
    ScalarType,      ///< dtype (absent = a type ditc does not know)
    MemoryFormat,    ///< integer: 1 contiguous, 2 channels_last, 3 channels_last_3d, 4 preserve
    Layout,          ///< integer: 7 = strided
    Device,          ///< text
    Graph,           ///< graph (of a higher-order op)
    Unsupported,     ///< text = the variant's name
  };

  Kind kind = Kind::None;
  std::string text;
  int64_t integer = 0;
  double number = 0, imaginary = 0;
  bool flag = false;
  std::optional<DType> dtype;
  std::vector<Argument> items;
  std::shared_ptr<Graph> graph;
};

struct NamedArgument {
  std::string name; ///< the op schema's name; empty for positional arguments of higher-order ops
  Argument value;
};

struct Node {
  std::string target;     ///< "torch.ops.aten.linear.default"
  std::string name;       ///< FX node name (falls back to the first output's name)
  std::string modulePath; ///< FQN of the innermost module, from nn_module_stack; may be empty
  std::vector<NamedArgument> inputs;
  std::vector<Argument> outputs; ///< Tensor, Tensors, None or Sym* values

  /// The argument called `argName`, or null when it was omitted.
  const Argument *find(std::string_view argName) const;
};

struct Graph {
  std::vector<Argument> inputs;
  std::vector<Argument> outputs;
  std::vector<Node> nodes;
  std::unordered_map<std::string, TensorMeta> tensorValues;
  std::unordered_map<std::string, SymScalar> symValues; ///< ints, floats and bools together
};

struct InputSpec {
  enum class Kind { Parameter, Buffer, TensorConstant, UserInput, ConstantInput };
  Kind kind = Kind::UserInput;
  std::string valueName; ///< placeholder in the graph (empty for constants without a name)
  std::string fqn;       ///< of a parameter, buffer or tensor constant
  bool persistent = true; ///< of a buffer
  std::string userName;  ///< of a user or constant input, as the user wrote it: "added_cond_kwargs.text_embeds"
  Argument constant;     ///< of a ConstantInput
};

struct OutputSpec {
  enum class Kind { UserOutput, BufferMutation, UserInputMutation, ParameterMutation, Other };
  Kind kind = Kind::UserOutput;
  Argument value;
  std::string userName; ///< "output", "output.0", "sample": from out_spec
  std::string target;   ///< of a mutation: FQN of the buffer or parameter, or the user input's value name
};

struct SymRange {
  std::optional<int64_t> min, max;
};

/// A torch pytree spec, reduced to what naming needs.
struct TreeSpec {
  std::string type;    ///< empty for a leaf
  std::vector<std::string> keys; ///< of a dict, namedtuple or dataclass, when known
  std::vector<TreeSpec> children;
};

struct ExportedProgram {
  std::string torchVersion; ///< "2.14.1", "<=2.4" when the file does not say
  int64_t schemaMajor = 0, schemaMinor = 0;
  std::string verifier; ///< "TRAINING" or "ATEN"
  Graph graph;
  std::vector<InputSpec> inputSpecs;   ///< parallel to graph.inputs
  std::vector<OutputSpec> outputSpecs; ///< parallel to graph.outputs
  std::map<std::string, SymRange> ranges; ///< of bare symbols
  std::vector<std::string> guards;        ///< guards_code, Python text
  TreeSpec inSpec, outSpec;
};

/// Parses the program JSON. `fileName` is for messages. Throws Error (Input): not JSON, nested too deep,
/// unknown schema major, unsupported verifier, names that do not resolve, arity mismatches.
ExportedProgram parseExportedProgram(std::string_view json, const std::string &fileName);

/// Evaluates `size` under `bindings` (constants need none).
int64_t evaluateSize(const SymInt &size, const SymBindings &bindings);

} // namespace ditc
