// SPDX-License-Identifier: Apache-2.0
//
// manifest.json: the structs that say what a package is, and their JSON. Users of packages include
// runtime/Package.h, which includes this file.
#pragma once

#include "runtime/DType.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace ditc {

/// A size in the manifest: a number, or a symbolic size as text ("s0", "2*s1") for people to read.
using ManifestDim = std::variant<int64_t, std::string>;

/// A tensor that the caller hands over or gets back, over all buckets. Pinned inputs are not among them.
struct ManifestPort {
  std::string name;
  std::string graphName; ///< its name in the exported graph, where that differs; accepted in files
  DType dtype = DType::f32;
  std::vector<ManifestDim> shape;
};

/// The value of an input that is not a tensor and was fixed by the export; monostate is null.
using ConstantValue = std::variant<std::monostate, bool, int64_t, double, std::string>;

/// One weight. Its bytes are a package member (`entry`, dense), or a range of another file (`file`), or
/// nowhere (both empty): then the caller hands it over before the first run.
struct ManifestWeight {
  DType dtype = DType::f32;
  std::vector<int64_t> shape;
  std::string entry;            ///< package member, row-major
  std::string file;             ///< path, relative to the package's folder
  uint64_t offset = 0;          ///< file: bytes from its start to element 0
  uint64_t bytes = 0;           ///< file: bytes from element 0 to the end of the last element
  std::vector<int64_t> strides; ///< file: elements per dimension; empty: row-major
  std::string xxh128;           ///< file: hash of the `bytes` bytes at `offset`; empty: not checked
};

struct ManifestTarget {
  std::string name;   ///< "host", "sm_90a", ...
  std::string object; ///< package member: native code (host), or the kernel file (CUDA: "sm_90a/kernels.json")
  std::string triple; ///< host only
  std::string cpu;    ///< host only
  std::vector<std::string> instructionSets = {}; ///< host only: of x86, what the code may use ("avx2")
};

struct ManifestBucket {
  std::string name;
  std::map<std::string, int64_t> symbols;   ///< the sizes that make this bucket
  std::map<std::string, std::string> plans; ///< package member of each target's plan
};

/// How an input is padded along a dimension: with copies of its last row, or with a value.
struct PaddedInput {
  std::string name;
  uint32_t dim = 0;
  std::optional<double> value = {};
  bool operator==(const PaddedInput &) const = default;
};

/// A dimension of an output whose end is padding.
struct CroppedOutput {
  std::string name;
  uint32_t dim = 0;
  bool operator==(const CroppedOutput &) const = default;
};

/// Buckets run with a smaller size than theirs when the inputs are padded so and the outputs cropped: the compiler has
/// shown that what remains does not depend on the padding.
struct PaddingRule {
  std::string symbol;
  std::vector<PaddedInput> inputs;
  std::vector<CroppedOutput> outputs;
  bool operator==(const PaddingRule &) const = default;
};

/// What the names of members that are constants begin with.
inline constexpr std::string_view kConstantPrefix = "constants/";
/// The version of packages without compressed constants, and the one that may have some.
inline constexpr int kPlainPackageVersion = 2, kPackageVersion = 3;

struct Manifest {
  int version = kPlainPackageVersion; ///< of the file that it was read from; a writer takes the lowest that will do
  std::string producer; ///< "ditc 0.1.0"
  std::string modelName, sourceHash, torchVersion;
  std::vector<ManifestTarget> targets;
  std::map<std::string, ManifestWeight> weights;
  std::vector<ManifestPort> inputs, outputs;
  std::vector<std::string> noneOutputs; ///< parts of the result that are None, by the names that tensors would have
  std::map<std::string, ConstantValue> constantInputs;
  std::vector<std::string> pinned; ///< inputs whose values are compiled in; each plan describes them
  std::vector<ManifestBucket> buckets;
  std::vector<PaddingRule> padding;             ///< of symbols that may be padded, in all buckets
  std::map<std::string, std::string> notPadded; ///< other symbols, and why not

  /// Null when there is none.
  const ManifestBucket *findBucket(std::string_view name) const;
  const ManifestTarget *findTarget(std::string_view name) const;
  /// "512px, 1024px"
  std::string bucketList() const;
  /// "host, sm_90a"; "no targets" when there are none
  std::string targetList() const;
};

/// What the manifest says about another member of the package.
struct MemberRecord {
  uint64_t bytes = 0;         ///< in the file
  std::string xxh128;         ///< of those
  uint64_t unpackedBytes = 0; ///< of a constant that is compressed; 0: it is not
};

/// The manifest as JSON, without `entries`, for people.
std::string writeManifest(const Manifest &manifest);
/// With `entries`: the package's manifest.json.
std::string writeManifest(const Manifest &manifest, const std::map<std::string, MemberRecord> &members);

/// Throws Error (Input): not JSON, another format or version, missing or misfit fields, names twice.
std::pair<Manifest, std::map<std::string, MemberRecord>> parseManifest(std::string_view text,
                                                                       std::string_view source);

} // namespace ditc
