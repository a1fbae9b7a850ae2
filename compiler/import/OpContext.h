// SPDX-License-Identifier: Apache-2.0
//
// What a row of the ATen table works with: the node's arguments by name with the schema's defaults, the
// result types that the export recorded, and the emitter.
#pragma once

#include "compiler/import/Emit.h"
#include "compiler/import/ExportedProgram.h"
#include "dialects/reference/Evaluate.h"

#include <complex>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ditc {

class Importer;

/// One node being imported. All sizes are numbers: symbols are bound before import.
/// Accessors throw Error (Input) that names the argument when it is missing or of another kind.
class OpContext {
public:
  OpContext(Importer &importer, const Node &node, Emit &emit);

  Emit &emit;
  const Node &node;

  bool has(std::string_view name) const; ///< present and not None
  bool isTensor(std::string_view name) const;
  Value tensor(std::string_view name) const;
  Value optionalTensor(std::string_view name) const; ///< null when absent or None
  std::vector<Value> tensors(std::string_view name) const;
  std::vector<Value> optionalTensors(std::string_view name) const; ///< null entries for None
  int64_t integer(std::string_view name) const;
  /// An index that is data (`table[t]` for a tensor t of one number); null when it is a number.
  Value indexFromData(std::string_view name) const;
  int64_t integer(std::string_view name, int64_t otherwise) const;
  std::optional<int64_t> optionalInteger(std::string_view name) const;
  std::vector<int64_t> integers(std::string_view name) const; ///< an int gives a list of one
  std::vector<int64_t> integers(std::string_view name, std::vector<int64_t> otherwise) const;
  std::optional<std::vector<int64_t>> optionalIntegers(std::string_view name) const;
  std::optional<std::vector<double>> optionalNumbers(std::string_view name) const;
  double number(std::string_view name, double otherwise) const;
  std::optional<double> optionalNumber(std::string_view name) const;
  bool flag(std::string_view name, bool otherwise) const;
  std::string text(std::string_view name, std::string otherwise) const;
  Scalar scalar(std::string_view name) const;
  Scalar scalar(std::string_view name, Scalar otherwise) const;
  std::optional<Scalar> optionalScalar(std::string_view name) const;
  std::optional<std::complex<double>> complexNumber(std::string_view name) const; ///< a complex literal

  /// A tensor or Scalar argument ("other" of binary ops) as a tensor; a Scalar becomes a rank-0 splat of
  /// a type that loses nothing (i64, f64 or i1).
  Value tensorOrScalar(std::string_view name) const;

  /// The value of a tensor argument that depends on constants only; nothing otherwise.
  std::optional<dit::TensorValue> constantTensor(std::string_view name) const;
  std::optional<dit::TensorValue> constantValue(Value value) const;

  /// True when the argument is a complex tensor (or holds one): its Value is real with a trailing dimension of 2.
  bool isComplex(std::string_view name) const;
  bool resultIsComplex(size_t i = 0) const;

  /// True for x[mask] where the rows are only computed with one by one and written by the same mask.
  bool isWrittenBack() const;

  /// True when the export recorded row-major strides and no offset for the argument.
  bool isDense(std::string_view name) const;

  /// Type of result `i` as the export recorded it (real with a trailing 2 when complex).
  RankedTensorType resultType(size_t i = 0) const;
  Type resultElement(size_t i = 0) const; ///< known even where a size is not yet
  size_t resultCount() const; ///< of all results, absent ones included; of a Tensor[] result: its length

  const std::string &torchVersion() const;
  /// "'blocks.0.attn', node 'linear_3' (aten.linear.default)". The importer puts it before the text of every
  /// Error that a row throws, so rows need not.
  std::string where() const;

private:
  Importer &importer;
};

/// "'blocks.0.attn', node 'linear_3' (aten.linear.default)": where messages say that something is.
std::string describe(const Node &node);

/// "tensor<2x3xf32>": for messages.
std::string typeText(Type type);

/// Tensor, None and symbolic outputs of a node in order; lists are flattened.
std::vector<const Argument *> flatOutputs(const Node &node);

/// Builds the results of a node: one Value per result tensor (null for absent ones).
using OpImport = std::function<std::vector<Value>(OpContext &)>;

/// Whether results share the storage of an operand, which matters when one of them is written in place.
enum class Aliasing {
  Fresh,     ///< new storage
  View,      ///< views of an operand
  IfStrides, ///< a view where the recorded strides, type and device allow one, else new storage
};

/// One row of the table. In-place targets ("aten.add_.Tensor") have no rows: they are the out-of-place
/// row and a write.
struct OpRow {
  std::string_view target; ///< "aten.add.Tensor", without "torch.ops."
  OpImport import;
  Aliasing aliasing = Aliasing::Fresh;
  bool takesComplex = false; ///< works on complex tensors too: copes with the trailing dimension of 2
};

/// The parts of the table, one per file.
std::vector<OpRow> atenPointwise();
std::vector<OpRow> atenViews();     ///< renamings of elements
std::vector<OpRow> atenCasts();     ///< casts, copies, ops that do nothing
std::vector<OpRow> atenJoins();     ///< one tensor of several
std::vector<OpRow> atenRearrange(); ///< repetitions, padding, shuffles
std::vector<OpRow> atenFactories();
std::vector<OpRow> atenIndexing();  ///< x[i, :, j], rows by index
std::vector<OpRow> atenScatter();   ///< element-wise gathers and scatters
std::vector<OpRow> atenMasks();     ///< triangles, diagonals, one-hot, buckets
std::vector<OpRow> atenPatches();   ///< sliding windows
std::vector<OpRow> atenReductions();
std::vector<OpRow> atenMatmul();   ///< linear, products, einsum, attention
std::vector<OpRow> atenNorms();
std::vector<OpRow> atenConv();     ///< convolution, pooling, upsampling
std::vector<OpRow> atenComplex(); ///< looked up first when an operand or result is complex

} // namespace ditc
