// SPDX-License-Identifier: Apache-2.0
//
// Bodies of gemm kernels for tests: products with what follows them in diffusion transformers.
#pragma once

#include "tests/unit/CudaFamilies.h"

namespace ditc::test {

/// A value of a body under construction.
struct GemmValue {
  std::string name;
  std::vector<int64_t> shape;
  std::string element;
  std::string type() const;
};

/// Writes the operations of a body, which are its reference as well.
class GemmBody {
public:
  explicit GemmBody(std::string element) : element(std::move(element)) {}

  GemmValue input(std::vector<int64_t> shape, std::vector<int64_t> strides = {}, const std::string &type = "");
  /// A linear layer: weight and bias are inputs.
  GemmValue linear(const GemmValue &x, int64_t columns, bool bias = true);
  /// The same of fp8 numbers, with a scale for each row of either side.
  GemmValue scaledLinear(const GemmValue &x, int64_t columns);
  /// `code` uses %a, %b, ... for the inputs and yields %z.
  GemmValue map(const std::vector<GemmValue> &inputs, const std::string &code);
  GemmValue cast(const GemmValue &x, const std::string &type);
  GemmValue norm(const GemmValue &x, const std::string &kind, bool weight);
  GemmValue view(const GemmValue &x, std::vector<int64_t> shape);
  GemmValue permute(const GemmValue &x, std::vector<int64_t> order);
  /// Elements begin … end - 1 of a dimension.
  GemmValue slice(const GemmValue &x, size_t dim, int64_t begin, int64_t end);
  GemmValue concat(const std::vector<GemmValue> &parts, size_t axis);
  GemmValue add(const GemmValue &a, const GemmValue &b) { return map({a, b}, "%z = arith.addf %a, %b : f32"); }
  GemmValue gelu(const GemmValue &x);
  GemmValue silu(const GemmValue &x);
  GemmValue times(const GemmValue &a, const GemmValue &b) { return map({a, b}, "%z = arith.mulf %a, %b : f32"); }
  GemmValue gated(const GemmValue &x, const GemmValue &gate, const GemmValue &residual);
  /// x · cos + turned(x) · sin on [batch, rows, heads, size].
  GemmValue rotary(const GemmValue &x, const GemmValue &cosine, const GemmValue &sine, bool interleaved);
  void output(const GemmValue &value, std::vector<int64_t> strides = {});

  /// The case, with a tolerance that covers the rounding of every operation in the reference.
  CudaCase build() const;

private:
  GemmValue add(std::vector<int64_t> shape, const std::string &operation, const std::vector<GemmValue> &operands, bool arrowOnly = false,
                const std::string &region = "");

  std::string element, lines;
  std::vector<CudaArg> inputs, outputs;
  std::vector<GemmValue> results;
  int values = 0;
};

/// One linear layer of [batches, rows, k].
CudaCase plainGemm(const std::string &element, int64_t batches, int64_t rows, int64_t columns, int64_t k, bool bias);
/// GELU behind a linear layer of fp8 numbers; `element` is the result's.
CudaCase fp8Gelu(const std::string &element, int64_t rows, int64_t columns, int64_t k);
/// Queries, keys and values of one layer of fp8 numbers, normed and turned.
CudaCase fp8Heads(const std::string &element, int64_t rows, int64_t heads, int64_t head);
CudaCase biasGelu(const std::string &element, int64_t rows, int64_t columns, int64_t k);
/// residual + gate · (x Wᵀ + bias), the gate per batch or per token.
CudaCase gateResidual(const std::string &element, int64_t rows, int64_t columns, int64_t k, bool perToken);
/// Queries, keys and values of `heads` heads with norm and rotation, in head layout; one weight or three.
CudaCase qkvHeads(const std::string &element, int64_t rows, int64_t heads, int64_t head, bool interleaved, bool oneWeight, const std::string &norm = "rms");
/// How a model turns heads, and what it does beside.
struct HeadOptions {
  bool interleaved = false;            ///< pairs 2j, 2j + 1; else j and j + half
  int sections = 1;                    ///< of a head, each turned by itself: the axes of an image
  bool halfTables = false;             ///< cosines and sines of half the columns
  bool bias = true, weight = true;     ///< of the product, of the norm
  bool norm = true, normLast = false;  ///< before or behind the rotation
};
/// A product's heads, turned.
CudaCase turnedHeads(const std::string &element, int64_t rows, int64_t heads, int64_t head, const HeadOptions &options);
/// Image and text tokens in one launch: gate and residual each.
CudaCase twoStreams(const std::string &element, int64_t rows, int64_t otherRows, int64_t columns, int64_t k);
/// concat(a, b) before a linear layer, with a residual.
CudaCase twoRanges(const std::string &element, int64_t rows, int64_t columns, int64_t k, int64_t otherK);

/// How a model spells act(x Wg) * (x Wu), `columns` wide: one linear layer of twice the width that is cut in two, with the gate in
/// front or behind, or two layers.
enum class GateSpelling { GateFirst, GateLast, TwoLayers };
CudaCase gatedMlp(const std::string &element, int64_t rows, int64_t columns, int64_t k, GateSpelling spelling, bool bias, bool gelu = false);
/// Image and text tokens in one launch, each with a gated MLP.
CudaCase gatedStreams(const std::string &element, int64_t rows, int64_t otherRows, int64_t columns, int64_t k);

} // namespace ditc::test
