// SPDX-License-Identifier: Apache-2.0
//
// What a compilation is asked for. The only options struct of the compiler; `digest` goes into cache keys.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ditc {

/// How intermediate values are rounded.
enum class Numerics {
  Fast,  ///< fp32 inside a kernel, the graph's type between kernels
  Eager, ///< every rounding of the source graph
};

/// What matrix products with weights multiply.
enum class Quantize {
  None, ///< numbers of the graph's type
  Fp8,  ///< e4m3, with a scale for each row and each column (docs/quantization.md)
};

/// What attention multiplies.
enum class QuantizeAttention {
  None, ///< numbers of the graph's type
  Int8, ///< i8 queries and keys, e4m3 weights and values (docs/quantization.md)
};

/// Where the package takes weights from.
enum class WeightsMode {
  Embed,     ///< bytes are copied into the package
  Reference, ///< the package points into the .pt2 or safetensors file
  None,      ///< the caller hands weights over at run time
};

/// Phases at which `--stop-after` can stop; the IR there satisfies the contract of the same name.
enum class Phase { Imported, Specialised, Fused, Planned };

struct ModelPath {
  std::string bucket; ///< name of its bucket when given as NAME=PATH, else empty
  std::string path;
};

struct CompileOptions {
  std::vector<ModelPath> models;           ///< .pt2 files; several static exports of one model make several buckets
  std::vector<std::string> buckets;        ///< NAME:SYM=VAL,...
  std::vector<std::string> weights;        ///< safetensors files, or an index of shards
  std::map<std::string, std::string> pins; ///< user input -> safetensors file with its value
  std::vector<std::string> invariant;      ///< inputs that are the same in every denoising step, beside positions
  std::vector<std::string> padding;        ///< SYMBOL=batch, SYMBOL=mask:INPUT: what must be shown of a symbol
  std::vector<std::string> targets = {"host"};
  std::string hostCpu;                     ///< LLVM's CPU name; empty: x86-64-v3, or generic elsewhere
  Numerics numerics = Numerics::Fast;
  Quantize quantize = Quantize::None;
  QuantizeAttention quantizeAttention = QuantizeAttention::None;
  std::vector<std::string> quantizeSkip;   ///< patterns of modules whose products and attention stay as they are
  std::vector<std::string> quantizeOnly;   ///< patterns of modules whose products and attention are quantised whatever it saves, and no others
  WeightsMode weightsMode = WeightsMode::Embed;
  std::string output;                      ///< .dita to write
  std::optional<Phase> stopAfter;          ///< print the IR there instead of writing a package
  std::string dumpDirectory;               ///< IR after every pass, and one folder per kernel; empty: none
  bool useCache = true;
  std::vector<std::string> failIf;         ///< conditions on the report's totals under which no package is written
  std::vector<std::string> tuning;         ///< databases of measured tiles that go before the shipped one
  bool useTuning = true;                   ///< else tiles are the analytic model's
  std::string tuningGpu;                   ///< whose measurements are used; empty: the latest
  std::string tuningBundle;                ///< bundle to write for `ditc-run tune` instead of a package; empty: none
  unsigned tuningCandidates = 16;          ///< of each kernel in it
  bool tuningMissingOnly = false;          ///< leave out of it what has measured tiles

  /// Text that differs when two compilations of one model may differ in their result (weights apart).
  std::string digest() const;
};

std::optional<Phase> parsePhase(const std::string &name);

} // namespace ditc
