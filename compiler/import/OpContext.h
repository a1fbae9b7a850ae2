// SPDX-License-Identifier: Apache-2.0
//
// What a row of the ATen table works with: the node's arguments by name with the schema's defaults, the
// result types that the export recorded, and the emitter.
#pragma once

#include "compiler/import/Emit.h"
#include "compiler/import/ExportedProgram.h"

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
  Value tensor(std::string_view name) const;
  Value optionalTensor(std::string_view name) const; ///< null when absent or None
  std::vector<Value> tensors(std::string_view name) const;
  std::vector<Value> optionalTensors(std::string_view name) const; ///< null entries for None
  int64_t integer(std::string_view name) const;
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

  /// A tensor or Scalar argument ("other" of binary ops) as a tensor; a Scalar becomes a rank-0 splat of
  /// a type that loses nothing (i64, f64 or i1).
  Value tensorOrScalar(std::string_view name) const;

  /// True when the argument is a complex tensor: its Value is real with a trailing dimension of 2.
  bool isComplex(std::string_view name) const;
  bool resultIsComplex(size_t i = 0) const;

  /// Type of result `i` as the export recorded it (real with a trailing 2 when complex).
  RankedTensorType resultType(size_t i = 0) const;
  Type resultElement(size_t i = 0) const { return resultType(i).getElementType(); }
  size_t resultCount() const; ///< of a Tensor[] result: its length

  const std::string &torchVersion() const;
  /// "'blocks.0.attn' (aten.linear)": for messages.
  std::string where() const;

private:
  Importer &importer;
};

/// Builds the results of a node: one Value per result tensor (null for absent ones).
using OpImport = std::function<std::vector<Value>(OpContext &)>;

/// One row of the table.
struct OpRow {
  std::string_view target; ///< "aten.add.Tensor", without "torch.ops."
  OpImport import;
};

/// The parts of the table, one per file.
std::vector<OpRow> atenPointwise();
std::vector<OpRow> atenViews();
std::vector<OpRow> atenFactories();
std::vector<OpRow> atenIndexing();
std::vector<OpRow> atenReductions();
std::vector<OpRow> atenMatmul();   ///< linear, products, einsum, attention
std::vector<OpRow> atenNorms();
std::vector<OpRow> atenConv();     ///< convolution, pooling, upsampling
std::vector<OpRow> atenComplex();

} // namespace ditc
