// SPDX-License-Identifier: Apache-2.0
//
// The matrix products of the host target come from a BLAS that the machine has: found with dlopen when the
// first plan needs one, so programs that link the runtime start without it.
#pragma once

#include "runtime/Plan.h"

#include <memory>
#include <span>
#include <string>

namespace ditc {

class Blas {
public:
  /// Loads the library that DITC_BLAS names, else the first of OpenBLAS, MKL, BLIS and the system's BLAS
  /// that has the C interface, and sets its number of threads (for the whole process; 0: as many as the
  /// hardware has). Throws Error (Input) when there is none, saying what to install.
  static std::shared_ptr<const Blas> load(unsigned threads) { return load(threads, defaultCandidates()); }
  /// The same with other files than the usual ones.
  static std::shared_ptr<const Blas> load(unsigned threads, std::span<const char *const> candidates);
  ~Blas();

  /// The file that was loaded, for reports.
  const std::string &library() const { return path; }
  /// op's product for all its batch elements. The same operands give the same bits.
  void gemm(const GemmOp &op, const char *a, const char *b, char *c) const;

private:
  Blas() = default;
  static std::span<const char *const> defaultCandidates();
  /// `openBlasStop`: why OpenBLAS cannot be loaded here, or nothing.
  bool open(const std::string &file, const std::string &openBlasStop);
  void setThreads(unsigned threads) const;
  template <typename T, typename Function>
  void gemmBatch(Function *function, const GemmOp &op, const T *a, const T *b, T *c) const;

  std::string path, reason; ///< reason: why the last candidate could not be used
  void *library_ = nullptr;
  void *sgemm = nullptr;
  void *dgemm = nullptr;
};

} // namespace ditc
