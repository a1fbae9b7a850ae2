// SPDX-License-Identifier: Apache-2.0
//
// The tuning database: which tiles a kernel runs fastest with, as it was measured on a GPU. The compiler looks kernels up
// in it, `ditc-run tune` writes it, `ditc tune --merge` joins several. docs/tuning.md describes the file.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ditc::tuning {

/// Parameters of a template's Config by name. Which names there are is the template's affair; a database keeps them.
using Tiles = std::map<std::string, int64_t>;

/// "128x192 pingpong=1 stages=4": what is not 0 or, of sizes that multiply, not 1.
std::string textOf(const Tiles &tiles);

/// What a measurement is valid for, apart from the GPU. Texts, since they are only compared.
struct Key {
  std::string op;       ///< "gemm"
  std::string arch;     ///< "sm_90a": what the code was compiled for
  std::string dtype;    ///< of the operands
  std::string sizes;    ///< of a gemm: "1x4096x9216x3072" batches x rows x columns x k, products of one launch by ", "
  std::string epilogue; ///< what is done with the accumulators

  auto operator<=>(const Key &) const = default;
  /// "gemm sm_90a bf16 1x4096x9216x3072 (bias)"
  std::string text() const;
};

struct Timed {
  Tiles tiles;
  double microseconds = 0;
  bool operator==(const Timed &) const = default;
};

/// Tiles that gave no result, or a wrong one.
struct Excluded {
  Tiles tiles;
  std::string reason;
  bool operator==(const Excluded &) const = default;
};

struct Entry {
  Key key;
  std::string gpu;        ///< "NVIDIA H200"
  std::string capability; ///< "9.0"
  Timed best;
  std::vector<Timed> others;         ///< the next fastest, by rising time
  std::optional<double> model;       ///< microseconds with the tiles that the compiler takes without a database
  std::optional<double> library;     ///< microseconds that cuBLASLt takes for the products alone
  bool steady = false;               ///< times are those of a GPU at its power limit, else of bursts
  uint32_t candidates = 1;           ///< how many were measured
  std::vector<Excluded> excluded;
  std::string date;                  ///< "2026-11-29T22:31:00Z"
  uint32_t driver = 0;               ///< CUDA version of the driver, 1000 · major + 10 · minor

  bool operator==(const Entry &) const = default;
};

/// Tiles with which a kernel did not end, or broke the GPU's context: not to be tried again on this GPU.
struct Failure {
  Key key;
  std::string gpu;
  Excluded excluded;
  bool operator==(const Failure &) const = default;
};

enum class Change { Added, Replaced, Kept };

class Database {
public:
  /// Throws Error (Input) naming the file, and the entry with its key.
  static Database parse(std::string_view text, std::string_view source);
  /// The same with the content of a file.
  static Database open(const std::string &path);
  /// Equal databases give equal text, one entry a line.
  std::string write() const;

  /// By key, then GPU.
  const std::map<std::pair<Key, std::string>, Entry> &entries() const { return list; }
  /// The entry for a kernel: of the named GPU; where none is named, of the last database that was taken in by overrideBy
  /// and has the kernel, there the one measured last. Null when there is none.
  const Entry *find(const Key &key, std::string_view gpu = {}) const;
  /// The GPUs with entries that have all words of `text` in their names, in any case; the one alone that is called so.
  std::set<std::string> gpusNamed(std::string_view text) const;
  /// Of one key and GPU the later measurement stays; of two at the same time the faster one.
  Change merge(Entry entry);
  /// Takes all of `other`: the user's file goes before what is shipped. Entries of other GPUs stay, for those who name one.
  void overrideBy(const Database &other);

  std::vector<Failure> failures; ///< of an unfinished measurement; merging leaves them behind

private:
  std::map<std::pair<Key, std::string>, Entry> list;
  std::map<std::pair<Key, std::string>, unsigned> ranks; ///< of entries that overrideBy took in: the later, the higher
  unsigned overrides = 0;
};

} // namespace ditc::tuning
