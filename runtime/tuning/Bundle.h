// SPDX-License-Identifier: Apache-2.0
//
// A tuning bundle: for every kernel to be tuned all candidates, compiled, and what they are launched on. The compiler
// writes it where there is no GPU, `ditc-run tune` measures it where there is one. A zip file: bundle.json with what is
// here as structs, <arch>/kernels.json with one kernel for each candidate (several may share an image), and the images.
#pragma once

#include "runtime/DType.h"
#include "runtime/cuda/KernelFile.h"
#include "runtime/tuning/Database.h"

#include <memory>
#include <span>

namespace ditc {
class ZipReader;
}

namespace ditc::tuning {

/// Memory for one argument of the launches; results come last.
struct Argument {
  DType dtype = DType::bf16;
  uint64_t bytes = 0;
  bool isOutput = false;
  double scale = 1; ///< standard deviation of an input's random values
};

/// One product as a library computes it.
struct Product {
  int64_t rows = 1, columns = 1, k = 1;
};

struct Candidate {
  std::string kernel; ///< in the kernel file
  std::string entry;  ///< the function's name in the image
  Tiles tiles;
};

/// One kernel, to be tuned.
struct Job {
  Key key;
  std::string where;     ///< the module that it is first used by
  uint32_t launches = 1; ///< of it in all plans of the bundle
  std::vector<Argument> arguments;
  std::vector<Product> products;
  std::vector<Candidate> candidates; ///< what the compiler takes without a database is the first

  double flop() const;
};

struct Bundle {
  std::string producer; ///< "ditc 0.1.0"
  std::string arch;
  std::vector<Job> jobs; ///< by falling share of all work, so that what is left out matters least
};

/// The kernel file's functions that fill arguments and compare results (templates/cuda/tuning_tools.cuh).
inline constexpr const char *kFillKernel = "tuning_fill", *kCompareKernel = "tuning_compare";

std::string writeBundle(const Bundle &bundle);
/// Throws Error (Input).
Bundle parseBundle(std::string_view text, std::string_view source);

/// An opened file. What it holds fits together.
class BundleFile {
public:
  /// Throws Error (Input): no such file, not a bundle, damaged.
  static BundleFile open(const std::string &path);
  ~BundleFile();
  BundleFile(BundleFile &&) noexcept;

  const std::string &path() const { return name; }
  const Bundle &bundle() const { return content; }
  const cuda::KernelFile &kernels() const { return kernelFile; }
  /// An image with a zero behind it. Its checksum is compared.
  std::string image(const std::string &member) const;

private:
  BundleFile() = default;
  void check() const;

  std::string name;
  std::unique_ptr<ZipReader> zip;
  Bundle content;
  cuda::KernelFile kernelFile;
};

} // namespace ditc::tuning
