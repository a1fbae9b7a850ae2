// SPDX-License-Identifier: Apache-2.0
//
// A loaded package: weights bound once for all buckets, prepared memory per bucket, and contexts in which
// runs happen. A session may be used from several threads; each thread runs in a context of its own.
#pragma once

#include "runtime/Device.h"
#include "runtime/Request.h"
#include "runtime/Weights.h"

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace ditc {

struct SessionOptions {
  std::string device = "host";
  unsigned threads = 0;                 ///< of the BLAS on the host; 0: as many as the hardware has
  std::vector<std::string> weightFiles = {}; ///< safetensors whose tensors take the place of the package's weights
  bool verifyWeights = true;            ///< check the hashes of weights when they are first used
};

/// What the runs of one bucket share: everything but the caller's tensors and scratch. Immutable; runs
/// that started before weights changed keep theirs alive.
struct BoundBucket {
  const Plan *plan = nullptr;
  const Executable *executable = nullptr;
  std::vector<MemoryRef> memories; ///< of weights and constants, by buffer
  MemoryRef prepared;
  Addresses addresses; ///< by buffer; null for inputs, outputs and the arena
};

class Session {
public:
  /// Opens the package and checks all plans. Throws Error (Input): see Package::open, Package::plan,
  /// openDevice and WeightStore::useFiles.
  static std::shared_ptr<Session> open(const std::string &path, const SessionOptions &options);

  const Package &package() const { return loaded; }
  const PlanMap &plans() const { return planMap; }
  Device &device() const { return *kernelDevice; }

  /// Weights that must be set before a run, and names in the weight files that the package does not know.
  std::vector<std::string> missingWeights() const;
  const std::vector<std::string> &unknownWeights() const { return unknown; }
  /// All or none. Runs that began before still use the old weights; buckets prepare again at their next run.
  void setWeights(std::span<const TensorRef> tensors, Ownership ownership);

  /// Loads kernels, binds weights and runs the prepare ops of a bucket, unless that is done. The first run
  /// does the same. Throws Error (Input): missing weights, by name.
  std::shared_ptr<const BoundBucket> bind(const std::string &bucket);

private:
  struct Bucket {
    std::unique_ptr<Executable> executable;
    std::shared_ptr<const BoundBucket> bound;
  };

  Session(Package package, std::shared_ptr<Device> device, bool verifyWeights);
  void checkMissing() const;
  MemoryRef memoryOf(const PlanBuffer &buffer);
  void prepare(BoundBucket &bound, const BoundBucket *previous, const std::string &bucket);

  Package loaded;
  std::shared_ptr<Device> kernelDevice;
  PlanMap planMap;
  std::vector<std::string> unknown;

  mutable std::mutex mutex; ///< guards what follows
  WeightStore weights;
  std::map<std::string, MemoryRef> constants;
  std::map<std::string, Bucket> buckets;
};

struct RunRequest {
  std::string bucket; ///< empty: the one whose shapes the inputs have
  std::span<const TensorRef> inputs;
  std::span<const TensorRef> outputs; ///< all of them, in memory of the caller
  bool timed = false;                 ///< measure each op
  bool poison = false;                ///< fill scratch and outputs with NaN before: shows reads of unwritten memory
};

struct RunReport {
  std::string bucket;
  std::vector<double> opSeconds; ///< one for each step op of the bucket's plan, when timed
};

/// Scratch for runs, one after the other. Keeps its session alive.
class Context {
public:
  explicit Context(std::shared_ptr<Session> session);

  /// Runs a bucket to the end. Throws Error (Input) before anything runs: see checkRequest and
  /// Session::bind; or when another thread is running in this context.
  RunReport run(const RunRequest &request);

private:
  /// `staging` holds a copy where kernels cannot use the caller's memory as it is.
  char *placeTensor(const TensorRef &tensor, bool isInput, std::vector<MemoryRef> &staging);
  void collectOutputs(const CheckedRequest &request, const std::vector<MemoryRef> &staging);
  Addresses addressesFor(const BoundBucket &bound, const std::vector<char *> &inputs,
                         const std::vector<char *> &outputs);

  std::shared_ptr<Session> session;
  MemoryRef arena;
  std::atomic_flag busy;
};

} // namespace ditc
