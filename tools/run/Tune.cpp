// SPDX-License-Identifier: Apache-2.0
//
// ditc-run tune: measures the kernels of a tuning bundle on this GPU. Results are written after every kernel, so that what
// is interrupted, or broken by a candidate, goes on where it stopped when it is called again.
#include "tools/run/Commands.h"

#include "runtime/AtomicFile.h"
#include "runtime/Error.h"
#include "runtime/JsonText.h"
#include "runtime/tuning/Tuner.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace ditc::run {
namespace {

using Clock = std::chrono::steady_clock;

int ordinalOf(const std::string &device) {
  if (device == "cuda")
    return 0;
  int number = -1;
  std::string_view digits = std::string_view(device).substr(std::min<size_t>(device.size(), 5));
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (!device.starts_with("cuda:") || error != std::errc() || end != digits.data() + digits.size() || number < 0)
    throw Error(ErrorKind::Usage, fmt::format("--device {}: expected cuda or cuda:N", device));
  return number;
}

tuning::Database readResults(const std::string &path) {
  return std::filesystem::exists(path) ? tuning::Database::open(path) : tuning::Database();
}

class Tuning {
public:
  explicit Tuning(const TuneArgs &args)
      : args(args), file(tuning::BundleFile::open(args.bundle)), results(readResults(args.output)),
        gpu(std::make_unique<tuning::TuningGpu>(file, ordinalOf(args.device), args.memoryBudget)),
        tuner(*gpu, {args.rounds, args.steady, args.finalists, !args.noLibrary}) {}

  int run() {
    const std::vector<tuning::Job> &jobs = file.bundle().jobs;
    say(fmt::format("{} kernels for {} on {} (driver for CUDA {}.{})\n", jobs.size(), file.bundle().arch, gpu->name(),
                    gpu->driverVersion() / 1000, gpu->driverVersion() % 1000 / 10));
    if (!args.noLibrary && !tuner.withoutLibrary().empty())
      fmt::print(stderr, "ditc-run: note: cuBLASLt is not measured: {}\n", tuner.withoutLibrary());
    save(); // what cannot be written is known before anything is measured
    for (size_t i = 0; i < jobs.size(); ++i) {
      if (results.find(jobs[i].key, gpu->name()) && !args.again) {
        ++kept;
        continue;
      }
      if (args.budget > 0 && secondsSince(started) >= args.budget) {
        ++left;
        continue;
      }
      measure(jobs[i], i);
    }
    clearProgress();
    summarise();
    return failed.empty() ? 0 : 1;
  }

private:
  static double secondsSince(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

  void measure(const tuning::Job &job, size_t number) {
    showProgress(number);
    try {
      tuning::Entry entry = tuner.tune(job, excludedBefore(job));
      clearProgress();
      say(lineOf(job, entry));
      results.merge(entry);
      save();
      ++measured;
    } catch (const tuning::CandidateBroke &error) {
      results.failures.push_back({job.key, gpu->name(), error.excluded});
      save();
      clearProgress();
      fmt::print(stderr,
                 "ditc-run: error: {}: the candidate {} {}; it is noted in '{}' and will be left out: call again to go on\n",
                 job.key.text(), tuning::textOf(error.excluded.tiles), error.excluded.reason, args.output);
      std::fflush(stdout);
      std::_Exit(1); // freeing memory would wait for a kernel that never ends, or fail
    } catch (const Error &error) {
      clearProgress();
      failed.push_back(error.what());
      fmt::print(stderr, "ditc-run: warning: not tuned: {}\n", error.what());
    }
  }

  std::vector<tuning::Excluded> excludedBefore(const tuning::Job &job) const {
    std::vector<tuning::Excluded> out;
    for (const tuning::Failure &failure : results.failures)
      if (failure.key == job.key && failure.gpu == gpu->name())
        out.push_back(failure.excluded);
    return out;
  }

  void save() const {
    AtomicFile out(args.output);
    out.write(results.write());
    out.commit(false);
  }

  //===-- what people see -----------------------------------------------------------------------------===//

  void say(const std::string &text) const {
    if (!args.json)
      fmt::print("{}", text);
    std::fflush(stdout);
  }

  std::string lineOf(const tuning::Job &job, const tuning::Entry &entry) const {
    std::string text = fmt::format("{}\n  {:>10.1f} us  {:>4.0f} TFLOP/s  {}\n", job.key.text(), entry.best.microseconds,
                                   job.flop() / entry.best.microseconds * 1e-6, tuning::textOf(entry.best.tiles));
    auto other = [&](const std::optional<double> &time, const char *what) {
      if (time)
        text += fmt::format("  {:>10.1f} us  {:>5.3f} x       {}\n", *time, *time / entry.best.microseconds, what);
    };
    other(entry.model, "the model's tiles");
    other(entry.library, "cuBLASLt, the product alone");
    for (const tuning::Excluded &excluded : entry.excluded)
      text += fmt::format("  left out: {}: {}\n", tuning::textOf(excluded.tiles), excluded.reason);
    return text;
  }

  void showProgress(size_t number) const {
    if (!isatty(STDERR_FILENO) || args.json)
      return;
    size_t total = file.bundle().jobs.size();
    std::string rest = measured == 0 ? ""
                                     : fmt::format(", about {:.0f} s left", secondsSince(started) / double(measured) *
                                                                                double(total - number));
    fmt::print(stderr, "\r\033[Kkernel {} of {}{} ...", number + 1, total, rest);
  }

  void clearProgress() const {
    if (isatty(STDERR_FILENO) && !args.json)
      fmt::print(stderr, "\r\033[K");
  }

  void summarise() const {
    if (args.json) {
      nlohmann::json out = nlohmann::json::parse(results.write());
      out["measured"] = measured, out["known_before"] = kept, out["left"] = left, out["failed"] = failed;
      fmt::print("{}\n", jsonText(out, 2));
      return;
    }
    fmt::print("{} kernels measured in {:.1f} s", measured, secondsSince(started));
    if (kept > 0)
      fmt::print(", {} known before (--again measures them, too)", kept);
    if (left > 0)
      fmt::print(", {} left when the budget of {} s was used up: call again to go on", left, args.budget);
    if (!failed.empty())
      fmt::print(", {} not tuned", failed.size());
    fmt::print("; results in {}\n", args.output);
  }

  const TuneArgs &args;
  tuning::BundleFile file;
  tuning::Database results;
  std::unique_ptr<tuning::TuningGpu> gpu;
  tuning::Tuner tuner;
  Clock::time_point started = Clock::now();
  size_t measured = 0, kept = 0, left = 0;
  std::vector<std::string> failed;
};

} // namespace

int tuneCommand(const TuneArgs &args) {
  refuseToReplace(args.output, args.bundle);
  { AtomicFile probe(args.output); } // fails now, rather than when something was measured
  return Tuning(args).run();
}

} // namespace ditc::run
