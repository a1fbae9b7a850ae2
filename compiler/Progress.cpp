// SPDX-License-Identifier: Apache-2.0
#include "compiler/Progress.h"

#include <fmt/format.h>
#include <unistd.h>

namespace ditc {

Progress::Progress(Mode mode) : terminal(mode == Mode::Auto && isatty(STDERR_FILENO)), verbose(mode == Mode::Verbose) {}

void Progress::step(const std::string &what) {
  done();
  current = what;
  started = Clock::now();
  if (terminal)
    fmt::print(stderr, "\r\033[K{} ...", what);
}

void Progress::part(size_t done, size_t total) {
  if (!terminal || done == 0)
    return;
  double seconds = std::chrono::duration<double>(Clock::now() - started).count();
  fmt::print(stderr, "\r\033[K{} ... {} of {}, about {:.0f} s left", current, done, total, seconds / static_cast<double>(done) * static_cast<double>(total - done));
}

void Progress::done() {
  if (current.empty())
    return;
  double seconds = std::chrono::duration<double>(Clock::now() - started).count();
  if (terminal)
    fmt::print(stderr, "\r\033[K");
  if (verbose)
    fmt::print(stderr, "{:7.3f} s  {}\n", seconds, current);
  current.clear();
}

} // namespace ditc
