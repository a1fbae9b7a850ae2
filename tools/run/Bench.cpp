// SPDX-License-Identifier: Apache-2.0
//
// ditc-run bench: where the time of a bucket goes, op by op, under the names of the user's modules.
#include "tools/run/Commands.h"

#include "runtime/Error.h"
#include "runtime/JsonText.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>

namespace ditc::run {
namespace {

using Json = nlohmann::ordered_json;

struct OpTime {
  std::string what;  ///< kernel's name, "gemm 64x128x32 f32", "copy"
  std::string where;
  double seconds = 0; ///< median
  double flops = 0;   ///< 0: not known
  double bytes = 0;   ///< read and written at least; 0: not known
};

struct BucketTimes {
  std::string bucket;
  double seconds = 0;     ///< median of the sum over ops
  double runSeconds = 0;  ///< on a GPU: of a whole run, one queued behind the other
  double hostSeconds = 0; ///< on a GPU: what queueing one run costs the host, median
  std::vector<OpTime> ops;
};

/// Elements that a gemm operand holds: batch dimensions with stride 0 are the same memory.
double elementsOf(const GemmOp &op, const GemmOperand &operand, double matrix) {
  for (size_t i = 0; i < op.batch.size(); ++i)
    if (operand.batchStrides[i] != 0)
      matrix *= static_cast<double>(op.batch[i]);
  return matrix;
}

OpTime describeOp(const Plan &plan, const PlanOp &op) {
  OpTime out;
  out.where = op.where;
  if (const auto *launch = std::get_if<LaunchOp>(&op.body)) {
    out.what = plan.kernels[launch->kernel];
  } else if (const auto *gemm = std::get_if<GemmOp>(&op.body)) {
    double m = static_cast<double>(gemm->m), n = static_cast<double>(gemm->n), k = static_cast<double>(gemm->k);
    double count = 1;
    for (int64_t size : gemm->batch)
      count *= static_cast<double>(size);
    std::string batch = gemm->batch.empty() ? "" : fmt::format("{}x", fmt::join(gemm->batch, "x"));
    out.what = fmt::format("gemm {}{}x{}x{} {}", batch, gemm->m, gemm->n, gemm->k, nameOf(gemm->dtype));
    out.flops = 2 * m * n * k * count;
    out.bytes = static_cast<double>(byteSize(gemm->dtype)) *
                (elementsOf(*gemm, gemm->a, m * k) + elementsOf(*gemm, gemm->b, k * n) + m * n * count);
  } else {
    out.what = "copy";
    out.bytes = 2.0 * static_cast<double>(std::get<CopyOp>(op.body).bytes);
  }
  return out;
}

/// Values like those of a model's activations, the same in every run. Integers are 0, which is in range
/// for any table.
std::map<std::string, HostTensor> makeInputs(const Plan &plan) {
  std::map<std::string, HostTensor> tensors = allocate(plan.inputs);
  std::mt19937 random(42);
  std::normal_distribution<float> normal;
  for (const PortDesc &port : plan.inputs) {
    std::vector<uint8_t> &bytes = tensors[port.name].bytes;
    for (size_t i = 0; port.dtype == DType::f32 && i + 4 <= bytes.size(); i += 4) {
      float value = normal(random);
      std::memcpy(&bytes[i], &value, 4);
    }
    for (size_t i = 0; port.dtype == DType::bf16 && i + 2 <= bytes.size(); i += 2) {
      float value = normal(random);
      std::memcpy(&bytes[i], reinterpret_cast<const char *>(&value) + 2, 2); // the upper half of an f32
    }
  }
  return tensors;
}

/// Tensors on the device with the contents of host tensors.
struct DeviceTensors {
  std::vector<MemoryRef> memories;
  std::vector<TensorRef> refs;
};

DeviceTensors onDevice(Session &session, std::span<const TensorRef> tensors) {
  DeviceTensors out;
  std::unique_ptr<Queue> queue = session.device().openQueue();
  for (const TensorRef &tensor : tensors) {
    uint64_t bytes = PortDesc{tensor.name, tensor.dtype, tensor.shape}.bytes();
    out.memories.push_back(session.device().allocate(bytes, fmt::format("'{}'", tensor.name)));
    queue->upload(out.memories.back()->data(), {static_cast<const uint8_t *>(tensor.data), bytes});
    queue->wait();
    out.refs.push_back({tensor.name, tensor.dtype, tensor.shape, {}, out.memories.back()->data(), true});
  }
  return out;
}

/// As a service runs: tensors on the GPU, runs queued one behind the other, a CUDA graph unless that is off.
void measureRuns(const std::shared_ptr<Session> &session, std::span<const TensorRef> inputs,
                 std::span<const TensorRef> outputs, const BenchArgs &args, BucketTimes &times) {
  using Clock = std::chrono::steady_clock;
  DeviceTensors in = onDevice(*session, inputs), out = onDevice(*session, outputs);
  Context context(session);
  RunRequest request{times.bucket, in.refs, out.refs, false, false, kDefaultStream};
  for (unsigned i = 0; i < args.warmup + 2; ++i) // the second run records the graph
    context.run(request);
  session->device().waitForQueues();
  std::vector<double> host;
  Clock::time_point start = Clock::now();
  for (unsigned i = 0; i < args.repeat; ++i) {
    Clock::time_point before = Clock::now();
    context.run(request);
    host.push_back(std::chrono::duration<double>(Clock::now() - before).count());
  }
  session->device().waitForQueues();
  times.runSeconds = std::chrono::duration<double>(Clock::now() - start).count() / args.repeat;
  times.hostSeconds = medianOf(host);
}

BucketTimes measure(const std::shared_ptr<Session> &session, const std::string &bucket,
                    std::span<const TensorRef> inputs, const BenchArgs &args) {
  const Plan &plan = session->plans().at(bucket);
  std::map<std::string, HostTensor> outputs = allocate(plan.outputs);
  std::vector<TensorRef> outputRefs = refsTo(outputs);
  Context context(session);
  std::vector<std::vector<double>> samples(plan.step.size());
  std::vector<double> totals;
  for (unsigned i = 0; i < args.warmup + args.repeat; ++i) {
    RunReport report = context.run({bucket, inputs, outputRefs, true, false});
    if (i < args.warmup)
      continue;
    for (size_t op = 0; op < samples.size(); ++op)
      samples[op].push_back(report.opSeconds[op]);
    totals.push_back(std::accumulate(report.opSeconds.begin(), report.opSeconds.end(), 0.0));
  }
  BucketTimes out{bucket, medianOf(totals), 0, 0, {}};
  for (size_t op = 0; op < samples.size(); ++op) {
    out.ops.push_back(describeOp(plan, plan.step[op]));
    out.ops.back().seconds = medianOf(samples[op]);
  }
  if (!session->device().isHost())
    measureRuns(session, inputs, outputRefs, args, out);
  return out;
}

void printTable(const BucketTimes &times, const BenchArgs &args) {
  fmt::print("bucket {} on {}: {} in {} ops (medians of {} runs)\n", times.bucket, args.device,
             formatSeconds(times.seconds), times.ops.size(), args.repeat);
  if (times.runSeconds > 0)
    fmt::print("a run takes {}, queueing it costs the host {}\n", formatSeconds(times.runSeconds),
               formatSeconds(times.hostSeconds));
  fmt::print("\n");
  fmt::print("{:>11} {:>7} {:>9} {:>7}  {:<36} {}\n", "time", "share", "GFLOP/s", "GB/s", "op", "where");
  std::vector<const OpTime *> order;
  for (const OpTime &op : times.ops)
    order.push_back(&op);
  std::sort(order.begin(), order.end(),
            [](auto *a, auto *b) { return a->seconds != b->seconds ? a->seconds > b->seconds : a < b; });
  size_t rows = args.top == 0 ? order.size() : std::min<size_t>(args.top, order.size());
  auto rate = [](double amount, double seconds) {
    return amount > 0 && seconds > 0 ? fmt::format("{:.1f}", amount / seconds * 1e-9) : std::string("-");
  };
  for (size_t i = 0; i < rows; ++i) {
    const OpTime &op = *order[i];
    double share = times.seconds > 0 ? op.seconds / times.seconds * 100 : 0;
    fmt::print("{:>11} {:>6.1f}% {:>9} {:>7}  {:<36} {}\n", formatSeconds(op.seconds), share,
               rate(op.flops, op.seconds), rate(op.bytes, op.seconds), op.what, op.where);
  }
  if (rows < order.size())
    fmt::print("{:>11} and {} more ops (--top 0 shows all)\n", "", order.size() - rows);
  fmt::print("\n");
}

Json toJson(const BucketTimes &times) {
  Json ops = Json::array();
  for (const OpTime &op : times.ops) {
    Json row = {{"op", op.what}, {"where", op.where}, {"seconds", op.seconds},
                {"share", times.seconds > 0 ? op.seconds / times.seconds : 0}};
    if (op.flops > 0 && op.seconds > 0)
      row["gflops"] = op.flops / op.seconds * 1e-9;
    if (op.bytes > 0 && op.seconds > 0)
      row["gbytes"] = op.bytes / op.seconds * 1e-9;
    ops.push_back(std::move(row));
  }
  Json out = {{"bucket", times.bucket}, {"seconds", times.seconds}};
  if (times.runSeconds > 0) {
    out["run_seconds"] = times.runSeconds;
    out["host_seconds"] = times.hostSeconds;
  }
  out["ops"] = std::move(ops);
  return out;
}

std::vector<BucketTimes> measureAll(const std::shared_ptr<Session> &session, const BenchArgs &args) {
  std::vector<BucketTimes> all;
  if (!args.inputs.empty()) {
    SafetensorsFile file = SafetensorsFile::open(args.inputs);
    std::vector<TensorRef> inputs = readInputs(file, session->package().manifest());
    std::string bucket = chooseBucket(session->package(), session->plans(), args.bucket, inputs);
    all.push_back(measure(session, bucket, inputs, args));
    return all;
  }
  const Manifest &manifest = session->package().manifest();
  if (!args.bucket.empty() && !manifest.findBucket(args.bucket))
    fail("'{}' has no bucket '{}'; it has {}", args.package, args.bucket, manifest.bucketList());
  for (const ManifestBucket &bucket : manifest.buckets) {
    if (!args.bucket.empty() && bucket.name != args.bucket)
      continue;
    std::map<std::string, HostTensor> inputs = makeInputs(session->plans().at(bucket.name));
    std::vector<TensorRef> refs = refsTo(inputs);
    all.push_back(measure(session, bucket.name, refs, args));
  }
  return all;
}

} // namespace

int benchCommand(const BenchArgs &args) {
  std::shared_ptr<Session> session = openSession(args);
  std::vector<BucketTimes> all = measureAll(session, args);
  if (args.json) {
    Json out = {{"package", args.package}, {"device", args.device}, {"repeat", args.repeat},
                {"notes", notesOf(*session)}, {"buckets", Json::array()}};
    for (const BucketTimes &times : all)
      out["buckets"].push_back(toJson(times));
    fmt::print("{}\n", jsonText(out, 2));
    return 0;
  }
  for (const std::string &note : notesOf(*session))
    fmt::print(stderr, "ditc-run: note: {}\n", note);
  for (const BucketTimes &times : all)
    printTable(times, args);
  return 0;
}

} // namespace ditc::run
