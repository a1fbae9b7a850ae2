// SPDX-License-Identifier: Apache-2.0
//
// Measures the candidates of a bundle's kernels: first whether they agree, then, in turns, how long they take.
#pragma once

#include "runtime/cuda/CublasLt.h"
#include "runtime/tuning/TuningGpu.h"

namespace ditc::tuning {

struct TunerOptions {
  unsigned rounds = 7;         ///< bursts of each candidate, in turns; the median counts
  double steadySeconds = 0.25; ///< that each finalist runs before it is timed, so that the GPU is at its power limit; 0: no finals
  unsigned finalists = 8;
  bool library = true;         ///< also time cuBLASLt
};

/// A candidate that broke the GPU: this process can measure no more.
class CandidateBroke : public Error {
public:
  CandidateBroke(const Candidate &candidate, const BrokenGpu &error)
      : Error(ErrorKind::Input, error.what()), excluded{candidate.tiles, error.what()}, stillRuns(error.stillRuns) {}
  Excluded excluded;
  bool stillRuns;
};

class Tuner {
public:
  Tuner(TuningGpu &gpu, const TunerOptions &options);

  /// `known`: tiles that are not to be tried. Throws Error (Input): no memory, or no candidate is left; CandidateBroke.
  Entry tune(const Job &job, std::vector<Excluded> known);
  /// Why cuBLASLt is not measured; empty when it is.
  const std::string &withoutLibrary() const { return libraryMissing; }

private:
  class Contest;

  TuningGpu &gpu;
  TunerOptions options;
  std::shared_ptr<cuda::CublasLt> library;
  std::string libraryMissing;
};

} // namespace ditc::tuning
