// SPDX-License-Identifier: Apache-2.0
//
// A GPU runs a burst of a few milliseconds at its highest clock, and whole models at the one that its power limit allows,
// where tiles that move less data win. So launches that are long enough to reach the limit have a final: the best of the
// bursts run one after the other, each until its clock is settled, and are timed then.
#include "runtime/tuning/Tuner.h"

#include "runtime/tuning/JobMemory.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <optional>
#include <tuple>
#include <utility>

namespace ditc::tuning {
namespace {

constexpr size_t kOthers = 4;
constexpr double kReplayMilliseconds = 1.5, kWarmMilliseconds = 30, kHopeless = 1.3;
constexpr double kShortMicroseconds = 30;                       ///< shorter launches leave gaps, and do not reach the limit
constexpr double kWithin = 1.12, kClusteredWithin = 1.25;       ///< of the best burst: who takes part in the final
constexpr double kFinalSeconds = 0.06, kFinalGraphSeconds = 4e-3;
constexpr size_t kClusteredFinalists = 2;
constexpr unsigned kFirstRounds = 2, kMostLaunches = 200;

/// Candidates differ in the order of fp32 sums only, which shows in a few roundings of results.
double toleranceOf(DType dtype) { return dtype == DType::bf16 ? 4e-3 : dtype == DType::f16 ? 5e-4 : 1e-5; }

double medianOf(std::vector<double> values) {
  auto middle = values.begin() + static_cast<long>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::string now() {
  std::time_t seconds = std::time(nullptr);
  std::tm parts = {};
  gmtime_r(&seconds, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

} // namespace

//===-- one kernel ------------------------------------------------------------------------------------===//

class Tuner::Contest {
public:
  Contest(Tuner &tuner, const Job &job)
      : tuner(tuner), gpu(tuner.gpu), job(job), memory(tuner.gpu, job, hasLibrary()) {}

  Entry run(std::vector<Excluded> known) {
    excluded = std::move(known);
    for (const Candidate &candidate : job.candidates)
      if (std::none_of(excluded.begin(), excluded.end(), [&](const Excluded &e) { return e.tiles == candidate.tiles; }))
        runners.push_back({&candidate, {}, nullptr, 1, {}, {}});
    if (runners.empty())
      fail("{}: no candidate is left; all {} have failed before", job.key.text(), job.candidates.size());
    prepare();
    agree();
    measure();
    return result();
  }

private:
  /// Products of fp8 are not compared with the library's, which plans do not call.
  bool hasLibrary() const { return tuner.library && parseDType(job.key.dtype) != DType::f8e4m3; }

  /// A candidate, or the library.
  struct Runner {
    const Candidate *candidate; ///< null: the library
    std::vector<std::unique_ptr<cuda::ReadyLaunch>> launches; ///< one for each set
    std::unique_ptr<TuningGpu::Recording> recording;
    unsigned repeats = 1;
    std::vector<double> microseconds; ///< of bursts
    std::optional<double> steady;     ///< microseconds in the final

    double median() const { return medianOf(microseconds); }
    bool isClustered() const {
      auto sharing = [&](const char *name) { return candidate && candidate->tiles.contains(name) && candidate->tiles.at(name) > 1; };
      return sharing("cluster_m") || sharing("cluster_n");
    }
  };

  //===-- agreement -----------------------------------------------------------------------------------===//

  void prepare() {
    for (Runner &runner : runners)
      for (const JobMemory::Set &set : memory.sets)
        runner.launches.push_back(gpu.prepare(*runner.candidate, set.args));
  }

  template <typename Body> auto guarded(const Runner &runner, Body body) {
    try {
      return body();
    } catch (const BrokenGpu &error) {
      if (!runner.candidate)
        throw;
      throw CandidateBroke(*runner.candidate, error);
    }
  }

  void runOnce(Runner &runner) {
    for (size_t i = 0; i < job.arguments.size(); ++i)
      if (job.arguments[i].isOutput)
        gpu.poison(memory.sets[0].args[i], job.arguments[i].bytes);
    guarded(runner, [&] { gpu.run(*runner.launches[0]); });
  }

  /// What is wrong with the results in set 0, beside those that are kept; empty: nothing. `keptLacks` becomes true when
  /// there are results that the kept ones have not got.
  std::string differenceFromKept(bool &keptLacks) {
    for (size_t i = 0; i < job.arguments.size(); ++i) {
      const Argument &argument = job.arguments[i];
      if (!argument.isOutput)
        continue;
      Difference difference = gpu.compare(memory.sets[0].args[i], memory.kept[i], argument.dtype, argument.bytes);
      keptLacks |= difference.onlySecond > 0;
      if (difference.onlyFirst + difference.onlySecond > 0)
        return fmt::format("{} elements of argument {} are NaN where those of other tiles are not, or are not written",
                           difference.onlyFirst + difference.onlySecond, i);
      if (!(difference.relative <= toleranceOf(argument.dtype)))
        return fmt::format("argument {} differs from that of other tiles by {:.2e} in relative L2", i, difference.relative);
    }
    return "";
  }

  /// Looks for a candidate whose results are whole and that more than half of all agree with; leaves the others out.
  void agree() {
    for (Runner &reference : runners) {
      runOnce(reference);
      for (size_t i = 0; i < job.arguments.size(); ++i)
        if (job.arguments[i].isOutput)
          gpu.copy(memory.kept[i], memory.sets[0].args[i], job.arguments[i].bytes);
      std::vector<std::string> complaints;
      bool isPartial = false;
      for (Runner &runner : runners) {
        runOnce(runner);
        complaints.push_back(differenceFromKept(isPartial));
      }
      auto agreeing = static_cast<size_t>(std::count(complaints.begin(), complaints.end(), ""));
      if (isPartial || 2 * agreeing <= runners.size())
        continue;
      keepAgreeing(complaints);
      return;
    }
    fail("{}: the results of its {} candidates do not agree: there is none whose results are whole and that most agree with",
         job.key.text(), runners.size());
  }

  void keepAgreeing(const std::vector<std::string> &complaints) {
    std::vector<Runner> left;
    for (size_t i = 0; i < runners.size(); ++i)
      if (complaints[i].empty())
        left.push_back(std::move(runners[i]));
      else
        excluded.push_back({runners[i].candidate->tiles, complaints[i]});
    runners = std::move(left);
  }

  //===-- times ---------------------------------------------------------------------------------------===//

  void launch(Runner &runner, size_t number, cuda::Stream stream) {
    size_t set = number % memory.sets.size();
    if (runner.candidate) {
      cuda::Result result = runner.launches[set]->launch(stream, number > 0 && gpu.overlaps(), gpu.driver());
      gpu.driver().check(result, "launching a candidate");
      return;
    }
    for (size_t i = 0; i < job.products.size(); ++i)
      tuner.library->run(*products[i], memory.sets[set].products[i], memory.workspace, stream);
  }

  void record(Runner &runner, unsigned repeats) {
    runner.repeats = repeats;
    runner.recording = gpu.record([&](cuda::Stream stream) {
      for (unsigned i = 0; i < repeats; ++i)
        launch(runner, i, stream);
    });
  }

  /// Milliseconds of one replay, which is noted.
  double replay(Runner &runner) {
    double milliseconds = guarded(runner, [&] { return gpu.replay(*runner.recording); });
    runner.microseconds.push_back(1e3 * milliseconds / runner.repeats);
    return milliseconds;
  }

  void addLibrary() {
    if (!hasLibrary())
      return;
    for (size_t i = 0; i < job.products.size(); ++i) {
      const Product &p = job.products[i];
      GemmOp op;
      op.dtype = memory.dtype(), op.m = p.rows, op.n = p.columns, op.k = p.k;
      op.a.rowStride = op.b.rowStride = p.k, op.c.rowStride = p.columns, op.b.transposed = true;
      products.push_back(tuner.library->product(op, memory.sets[0].products[i]));
    }
    runners.push_back({nullptr, {}, nullptr, 1, {}, {}});
    gpu.runQueued([&](cuda::Stream stream) { launch(runners.back(), 0, stream); }); // it loads code at its first run
  }

  void measure() {
    addLibrary();
    record(runners.front(), static_cast<unsigned>(memory.sets.size()));
    double once = 0;
    for (double warm = 0; warm < kWarmMilliseconds; warm += std::max(once, 1.0))
      once = replay(runners.front());
    double wanted = kReplayMilliseconds / std::max(once / runners.front().repeats, 1e-4);
    auto repeats = static_cast<unsigned>(std::clamp<double>(std::ceil(wanted), 2, kMostLaunches));
    for (Runner &runner : runners) {
      record(runner, repeats);
      replay(runner);
      runner.microseconds.clear();
    }
    for (unsigned round = 0; round < tuner.options.rounds; ++round) {
      double best = round < kFirstRounds ? 0 : fastest()->median();
      for (Runner &runner : runners)
        if (round < kFirstRounds || !runner.candidate || runner.median() <= kHopeless * best)
          replay(runner);
    }
    if (tuner.options.steadySeconds > 0 && fastest()->median() >= kShortMicroseconds)
      runFinal();
  }

  /// The best of the bursts, some that share operands though they were a little slower, the model's tiles, the library.
  std::vector<Runner *> chooseFinalists() {
    std::vector<Runner *> order, chosen;
    for (Runner &runner : runners)
      if (runner.candidate)
        order.push_back(&runner);
    std::sort(order.begin(), order.end(), [](const Runner *a, const Runner *b) {
      return std::pair(a->median(), a) < std::pair(b->median(), b);
    });
    double best = order.front()->median();
    size_t clustered = 0;
    for (Runner *runner : order) {
      bool isAmongBest = chosen.size() < tuner.options.finalists && runner->median() <= kWithin * best;
      bool isExtra = runner->isClustered() && clustered < kClusteredFinalists && runner->median() <= kClusteredWithin * best;
      bool isModels = runner->candidate == &job.candidates.front();
      if (!isAmongBest && !isExtra && !isModels)
        continue;
      chosen.push_back(runner);
      clustered += runner->isClustered();
    }
    if (!runners.back().candidate)
      chosen.push_back(&runners.back());
    return chosen;
  }

  void runFinal() {
    bool isFirst = true;
    for (Runner *runner : chooseFinalists()) {
      double expected = runner->median() * 1e-6;
      record(*runner, static_cast<unsigned>(std::clamp(std::ceil(kFinalGraphSeconds / expected), 2.0, double(kMostLaunches))));
      auto graphs = [&](double seconds) { return static_cast<unsigned>(std::ceil(seconds / (expected * runner->repeats))); };
      auto run = [&] { return gpu.replay(*runner->recording, graphs(kFinalSeconds), graphs(tuner.options.steadySeconds)); };
      if (std::exchange(isFirst, false))
        guarded(*runner, run); // it comes from a colder GPU than the others
      runner->steady = 1e3 * guarded(*runner, run) / runner->repeats;
    }
  }

  const Runner *fastest() const {
    const Runner *best = nullptr;
    for (const Runner &runner : runners)
      if (runner.candidate && (!best || runner.median() < best->median()))
        best = &runner;
    return best;
  }

  Entry result() const {
    Entry entry{.key = job.key, .gpu = gpu.name(), .capability = gpu.capability(), .best = {}, .others = {}, .model = {},
                .library = {}, .steady = false, .candidates = 0, .excluded = excluded, .date = now(), .driver = gpu.driverVersion()};
    std::vector<Timed> times;
    entry.steady = std::any_of(runners.begin(), runners.end(), [](const Runner &runner) { return runner.steady.has_value(); });
    for (const Runner &runner : runners) {
      entry.candidates += runner.candidate != nullptr;
      if (entry.steady && !runner.steady)
        continue; // its burst is no match for the others' steady times
      double time = runner.steady.value_or(runner.median());
      if (!runner.candidate) {
        entry.library = time;
        continue;
      }
      times.push_back({runner.candidate->tiles, time});
      if (runner.candidate->tiles == job.candidates.front().tiles)
        entry.model = time;
    }
    std::sort(times.begin(), times.end(), [](const Timed &a, const Timed &b) {
      return std::tie(a.microseconds, a.tiles) < std::tie(b.microseconds, b.tiles);
    });
    entry.best = times.front();
    entry.others.assign(times.begin() + 1, times.begin() + static_cast<long>(std::min(times.size(), 1 + kOthers)));
    return entry;
  }

  Tuner &tuner;
  TuningGpu &gpu;
  const Job &job;
  std::vector<Excluded> excluded;
  JobMemory memory;
  std::vector<std::shared_ptr<const cuda::Product>> products;
  std::vector<Runner> runners;
};

//===-- tuner -----------------------------------------------------------------------------------------===//

Tuner::Tuner(TuningGpu &gpu, const TunerOptions &options) : gpu(gpu), options(options) {
  if (!options.library)
    return;
  try {
    library = cuda::CublasLt::load();
  } catch (const Error &error) {
    libraryMissing = error.what();
  }
}

Entry Tuner::tune(const Job &job, std::vector<Excluded> known) { return Contest(*this, job).run(std::move(known)); }

} // namespace ditc::tuning
