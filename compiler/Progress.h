// SPDX-License-Identifier: Apache-2.0
//
// Progress of long work, on stderr, for people: one line per step with its time when the step took long
// enough to be noticed, or always with `verbose`. Quiet when stderr is no terminal, unless verbose.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace ditc {

class Progress {
public:
  enum class Mode { Quiet, Auto, Verbose };
  explicit Progress(Mode mode);

  /// Ends the running step and starts the next one.
  void step(const std::string &what);
  /// So much of the running step is done: on a terminal with the time that is left.
  void part(size_t done, size_t total);
  /// Ends the running step.
  void done();

private:
  using Clock = std::chrono::steady_clock;
  bool terminal = false, verbose = false;
  std::string current;
  Clock::time_point started;
};

} // namespace ditc
