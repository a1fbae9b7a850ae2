// SPDX-License-Identifier: Apache-2.0
//
// A loaded package: weights bound once for all buckets, prepared memory shared by the buckets that prepare the
// same, and contexts in which runs happen. A session may be used from several threads; each thread runs in a
// context of its own.
#pragma once

#include "runtime/Device.h"
#include "runtime/Request.h"
#include "runtime/Weights.h"

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <span>
#include <string>
#include <vector>

namespace ditc {

struct SessionOptions {
  std::string device = "host";               ///< "host", "cuda", "cuda:1"
  unsigned threads = 0;                      ///< of the BLAS on the host; 0: as many as the hardware has
  std::vector<std::string> weightFiles = {}; ///< safetensors whose tensors take the place of the package's weights
  bool verifyWeights = true;                 ///< check the hashes of weights when they are first used
  uint64_t memoryBudget = 0;                 ///< bytes that may be taken on a GPU; 0: what is free
  bool graphs = true;                        ///< replay a bucket's launches from a CUDA graph
  bool jit = true;                           ///< let the CUDA driver compile portable code
};

/// What the runs of one bucket share: everything but the caller's tensors and scratch. It changes only while no
/// run is under way; runs that started before weights were set anew keep theirs alive.
struct BoundBucket {
  const Plan *plan = nullptr;
  const Executable *executable = nullptr;
  std::vector<MemoryRef> memories; ///< of weights and constants that runs read, by buffer
  MemoryRef prepared;
  std::vector<uint64_t> versions; ///< of weights, by buffer
  Addresses addresses;            ///< by buffer; null for inputs, outputs and scratch

  /// Scratch that a context needs for this bucket.
  uint64_t scratchBytes() const;
  /// Where the executable's part of it begins.
  uint64_t libraryScratchOffset() const;
};

struct SessionMemory {
  uint64_t weights = 0, prepared = 0, context = 0;
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
  /// All or none, in place where the device has the weights already; waits for runs that began before. See
  /// WeightStore::update.
  void updateWeights(std::span<const TensorRef> tensors);
  void revertWeights();

  /// Loads kernels, binds weights and runs the prepare ops of a bucket, unless that is done. The first run
  /// does the same. Throws Error (Input): missing weights, by name.
  std::shared_ptr<const BoundBucket> bind(const std::string &bucket);
  /// Changes when a bucket that was bound may have to be bound again.
  uint64_t generation() const { return changes.load(std::memory_order_acquire); }
  SessionMemory memory() const;

  /// Held during a run, so that weights are not updated under it.
  class RunGuard {
  public:
    explicit RunGuard(Session &session);

  private:
    std::shared_lock<std::shared_mutex> lock;
  };

private:
  struct Bucket {
    std::unique_ptr<Executable> executable;
    std::shared_ptr<BoundBucket> bound;
  };
  /// Prepared memory; buckets whose prepare ops are the same share it.
  struct Prepared {
    MemoryRef memory;
    std::map<std::string, uint64_t> versions; ///< of the weights that it was made from
  };

  Session(Package package, std::shared_ptr<Device> device, bool verifyWeights);
  void readPlans();
  void checkMissing() const;
  std::shared_ptr<BoundBucket> bindLocked(const std::string &name);
  void checkRoom(const std::string &name, const Bucket &bucket);
  MemoryRef memoryOf(const PlanBuffer &buffer, bool keep);
  void bindPrepared(BoundBucket &bound, const std::string &bucket);
  void runPrepare(const BoundBucket &bound, const std::string &bucket);
  /// Brings bound buckets up to date: what was made from weights that changed is made again, in place.
  void refreshBound();
  template <typename Change> void changeInPlace(Change change);

  Package loaded;
  std::shared_ptr<Device> kernelDevice;
  PlanMap planMap;
  std::map<std::string, std::string> prepareKeys; ///< by bucket; equal keys mean equal preparation
  std::vector<std::string> unknown;
  std::atomic<uint64_t> changes = 0;

  std::mutex turnstile; ///< taken for a moment by runs, held by updates: these would wait forever otherwise
  std::shared_mutex running;

  mutable std::mutex mutex; ///< guards what follows
  std::unique_ptr<Queue> queue;
  WeightStore weights;
  std::map<std::string, MemoryRef> constants;
  std::map<std::string, Prepared> prepared; ///< by key
  std::map<std::string, Bucket> buckets;
};

/// The default stream of CUDA under a name that is not null (CU_STREAM_LEGACY).
inline void *const kDefaultStream = reinterpret_cast<void *>(1);

struct RunRequest {
  std::string bucket; ///< empty: the one whose shapes the inputs have
  std::span<const TensorRef> inputs;
  std::span<const TensorRef> outputs; ///< all of them, in memory of the caller
  bool timed = false;                 ///< measure each op
  bool poison = false;                ///< fill scratch and outputs with NaN before: shows reads of unwritten memory
  void *stream = nullptr;             ///< queue the run there and do not wait; all tensors are on the device then
  bool pad = false;                   ///< inputs that no bucket has may be padded, by the package's rules
};

struct RunReport {
  std::string bucket;
  std::vector<double> opSeconds; ///< one for each step op of the bucket's plan, when timed
};

/// Scratch for runs, one after the other. Keeps its session alive.
class Context {
public:
  explicit Context(std::shared_ptr<Session> session);

  /// Runs a bucket to the end, or queues it on the request's stream. Throws Error (Input) before anything runs: see
  /// checkRequest and Session::bind; or when another thread is running in this context.
  RunReport run(const RunRequest &request);

private:
  /// A bucket as this context last saw it.
  struct Known {
    std::shared_ptr<const BoundBucket> bound;
    uint64_t generation = 0;
  };

  /// Memory of the device in place of the caller's, kept between runs.
  struct Staging {
    MemoryRef memory;
    std::vector<int64_t> paddedFrom, paddedTo; ///< sizes for which there is a value where the padding is
  };

  const BoundBucket &boundBucket(const std::string &name);
  std::vector<TensorRef> readFixedInputs(const RunRequest &request);
  /// Where kernels find the tensor: in place, or in `staging`.
  char *placeTensor(const TensorRef &tensor, bool isInput, Staging &staging);
  void refuseOnDevice(const TensorRef &tensor) const;
  /// A smaller tensor than the port, padded.
  char *placePadded(const TensorRef &tensor, const PortDesc &port, Staging &staging);
  void placeTensors(const CheckedRequest &request, const Plan &plan);
  char *stage(Staging &staging, uint64_t bytes, const std::string &name);
  void cropOutputs(const CheckedRequest &request, const Plan &plan);
  void collectOutputs(const CheckedRequest &request, const Plan &plan);
  void bindAddresses(const BoundBucket &bound);
  void fillWithNaN(const Plan &plan);

  std::shared_ptr<Session> session;
  MemoryRef arena, zeroed; ///< zeroed: of buffers in Space::Zeroed, null while no bucket has some
  std::unique_ptr<Queue> queue; ///< behind the memory that its work uses: it ends first
  std::map<std::string, Known> known;
  std::vector<Staging> inputStaging, outputStaging; ///< by port
  std::vector<std::vector<uint8_t>> hostCopies;       ///< that uploads of this run read
  std::vector<char *> inputs, outputs;
  std::vector<bool> outputStaged;
  Addresses addresses;
  std::set<std::pair<std::string, const void *>> checkedOnDevice; ///< fixed inputs whose values were compared
  std::atomic_flag busy;
};

} // namespace ditc
