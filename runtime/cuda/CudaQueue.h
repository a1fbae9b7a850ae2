// SPDX-License-Identifier: Apache-2.0
//
// A context's work on a GPU: a stream, and for each bucket its program and the CUDA graphs recorded from it. A graph
// holds the addresses of inputs and outputs, so there is one for each set of pointers that comes back; a set that is
// new runs launch by launch first, since it may never be seen again.
#pragma once

#include "runtime/cuda/CudaExecutable.h"
#include "runtime/cuda/PinnedRing.h"

#include <map>

namespace ditc {

class CudaQueue : public Queue {
public:
  CudaQueue(std::shared_ptr<CudaContext> context, bool graphs);
  ~CudaQueue() override;

  void use(void *stream) override;
  void upload(char *target, std::span<const uint8_t> source) override;
  void download(std::span<uint8_t> target, const char *source) override;
  void copy(char *target, const char *source, uint64_t bytes) override;
  void fill(char *target, uint8_t value, uint64_t bytes) override;
  void run(const Executable &executable, OpList list, size_t begin, size_t end, const Addresses &addresses,
           char *scratch) override;
  void step(const Executable &executable, const Addresses &addresses, char *scratch) override;
  std::vector<double> stepTimed(const Executable &executable, const Addresses &addresses, char *scratch) override;
  void wait() override;

  /// Waits for what was queued so far; may be called from another thread while nothing is being queued.
  void waitForLast() const;

private:
  using Key = std::vector<char *>; ///< addresses of inputs and outputs

  struct Recorded {
    Key key;
    cuda::GraphExec graph = nullptr;
    uint64_t lastUse = 0;
  };

  /// One bucket in this context.
  struct StepState {
    std::unique_ptr<CudaProgram> program;
    Addresses fixed; ///< of the last run, without those of inputs and outputs
    std::vector<Recorded> graphs;
    std::vector<Key> seen;  ///< that ran once without a graph, oldest first
    bool ranOnce = false;   ///< libraries load code at their first run, which must not happen while recording
  };

  StepState &stateOf(const CudaExecutable &executable, const Addresses &addresses, Key &key);
  Recorded *findGraph(StepState &state, const Key &key);
  cuda::Graph capture(CudaProgram &program, const std::vector<cuda::Event> *events);
  void record(StepState &state, const Key &key);
  void destroyGraphs(StepState &state);
  void finished();
  /// For this source; null: the driver copies it as it is.
  PinnedRing *ringFor(std::span<const uint8_t> source);

  std::shared_ptr<CudaContext> context;
  const cuda::Driver &driver;
  const bool graphs;
  cuda::Stream own = nullptr, captureStream = nullptr;
  cuda::Stream stream = nullptr; ///< where work goes now
  std::unique_ptr<PinnedRing> ring; ///< from the first large upload on
  bool ringTried = false;
  bool callerRecords = false;    ///< the caller is capturing `stream` into a graph of its own
  cuda::Event last = nullptr;    ///< the end of what was queued
  uint64_t runs = 0;
  Key key, fixedScratch; ///< kept between runs, so that they allocate nothing
  std::map<const CudaExecutable *, StepState> states;
};

} // namespace ditc
