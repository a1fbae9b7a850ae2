// SPDX-License-Identifier: Apache-2.0
//
// The subcommands of ditc-run: options as plain structs, so that the parser lives in one file, and one
// function each that does the work. All return the exit status (0, or 1 when a check failed) and throw
// Error for everything else.
#pragma once

#include "runtime/Plan.h"
#include "runtime/Session.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace ditc::run {

/// What run and bench have in common.
struct SessionArgs {
  std::string package;
  std::string bucket;
  std::string device = "host";
  std::vector<std::string> weights;
  unsigned threads = 0;
  bool skipWeightCheck = false;
  uint64_t memoryBudget = 0;
  bool noGraphs = false;
  bool noJit = false;
  bool json = false;
};

struct RunArgs : SessionArgs {
  std::string inputs, outputs, check;
  double tolerance = 1e-3;
  unsigned repeat = 1;
  bool poison = false;
  bool pad = false; ///< to the next larger bucket, by the package's rules
};

struct BenchArgs : SessionArgs {
  std::string inputs; ///< empty: made up from a fixed seed
  unsigned repeat = 10;
  unsigned warmup = 1;
  unsigned top = 30; ///< rows to print; 0: all
  bool byKernel = false; ///< one row for all launches of a kernel
  bool randomWeights = false; ///< for those without bytes
};

struct InfoArgs {
  std::string package;
  bool verify = false;
  bool listWeights = false;
  bool json = false;
};

enum class CacheAction { List, Verify, Prune, Clear };

struct CacheArgs {
  CacheAction action = CacheAction::List;
  std::optional<uint64_t> maxBytes; ///< prune; default: the limit of the cache
  bool json = false;
};

struct TuneArgs {
  std::string bundle;
  std::string output = "tuning.json";
  std::string device = "cuda";
  unsigned rounds = 7;
  double steady = 0.25; ///< seconds
  unsigned finalists = 8;
  double budget = 0; ///< seconds; 0: as long as it takes
  uint64_t memoryBudget = 0;
  bool again = false;
  bool noLibrary = false;
  bool json = false;
};

/// All that a command line of ditc-run can say.
struct CommandLine {
  RunArgs run;
  BenchArgs bench;
  InfoArgs info;
  CacheArgs cache;
  TuneArgs tune;
  std::string shell; ///< of `completion`
};
/// Declares the subcommands, which write into `line`.
void addCommands(CLI::App &app, CommandLine &line);

int runCommand(const RunArgs &args);
int benchCommand(const BenchArgs &args);
int infoCommand(const InfoArgs &args);
int cacheCommand(const CacheArgs &args);
int tuneCommand(const TuneArgs &args);

//===-- shared pieces ---------------------------------------------------------------------------------===//

std::shared_ptr<Session> openSession(const SessionArgs &args);
/// Notes about a session that do not stop a run: weights in the files that the package does not know.
std::vector<std::string> notesOf(const Session &session);
/// The port that a tensor of a file is for: by its name, by the name that it has in the exported graph, or
/// because there is one port and one tensor. The tensor's own name when there is none.
std::string portOf(const std::string &tensor, const std::vector<ManifestPort> &ports, size_t tensorCount);
/// All tensors of the file under the names of the inputs that they are for.
/// A complex tensor as packages have it: real, with a trailing dimension of 2.
TensorView realParts(TensorView view);
std::vector<TensorRef> readInputs(const SafetensorsFile &file, const Manifest &manifest);
/// Memory for each port, zeroed.
std::map<std::string, HostTensor> allocate(const std::vector<PortDesc> &ports);
std::vector<TensorRef> refsTo(const std::map<std::string, HostTensor> &tensors);
double medianOf(std::vector<double> values);
/// "1.50 GiB", "12.3 ms"
std::string formatBytes(uint64_t bytes);
std::string formatSeconds(double seconds);

} // namespace ditc::run
