// SPDX-License-Identifier: Apache-2.0
//
// ditc-run bench: where the time of a bucket goes, op by op, under the names of the user's modules.
#include "tools/run/Commands.h"

#include "runtime/Error.h"
#include "runtime/JsonText.h"

#include <algorithm>
#include <bit>
#include <cctype>
#include <chrono>
#include <cmath>
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
  double floor = 0;   ///< seconds below which no kernel can do it, on the GPU of the report; 0: not known
  unsigned count = 1; ///< launches that a row stands for
};

/// Elements that a gemm operand holds: batch dimensions with stride 0 are the same memory.
double elementsOf(const GemmOp &op, const GemmOperand &operand, double matrix) {
  for (size_t i = 0; i < op.batch.size(); ++i)
    if (operand.batchStrides[i] != 0)
      matrix *= static_cast<double>(op.batch[i]);
  return matrix;
}

/// Peak rates of the GPU in the package's report.
struct Peaks {
  std::string gpu; ///< empty: no report
  double bandwidth = 0, matrixFlops = 0, scalarFlops = 0;

  double floorOf(const LaunchWork &work) const {
    if (gpu.empty() || work.bytes == 0)
      return 0;
    return std::max({work.bytes / bandwidth, (work.matrixFlops - work.fp8Flops / 2) / matrixFlops, work.scalarFlops / scalarFlops});
  }
};

Peaks readPeaks(const Package &package) {
  Peaks peaks;
  if (!package.has("report.json"))
    return peaks;
  nlohmann::json report = nlohmann::json::parse(package.text("report.json"), nullptr, /*allow_exceptions=*/false);
  try {
    const nlohmann::json &gpu = report.at("gpu");
    peaks = {gpu.at("name"), gpu.at("bandwidth"), gpu.at("matrix_flops"), gpu.at("scalar_flops")};
  } catch (const nlohmann::json::exception &) { // made by another version: times without a floor
  }
  return peaks.bandwidth > 0 && peaks.matrixFlops > 0 && peaks.scalarFlops > 0 ? peaks : Peaks();
}

struct BucketTimes {
  std::string bucket;
  double seconds = 0;     ///< median of the sum over ops
  double runSeconds = 0;  ///< on a GPU: of a whole run, one queued behind the other
  double hostSeconds = 0; ///< on a GPU: what queueing one run costs the host, median
  Peaks peaks;            ///< on a GPU
  std::vector<OpTime> ops;
};

OpTime describeOp(const Plan &plan, const PlanOp &op, const Peaks &peaks) {
  OpTime out;
  out.where = op.where;
  if (const auto *launch = std::get_if<LaunchOp>(&op.body)) {
    out.what = plan.kernels[launch->kernel];
    out.flops = op.work.matrixFlops + op.work.scalarFlops;
    out.bytes = op.work.bytes;
    out.floor = peaks.floorOf(op.work);
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
    out.floor = peaks.floorOf({out.bytes, out.flops, 0});
  } else {
    out.what = "copy";
    out.bytes = 2.0 * static_cast<double>(std::get<CopyOp>(op.body).bytes);
    out.floor = peaks.floorOf({out.bytes, 0, 0});
  }
  return out;
}

/// An f32 of everyday size as f16, rounded towards 0.
uint16_t halfOf(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  bool tooSmall = std::abs(value) < 6.2e-5f;
  return static_cast<uint16_t>((bits >> 16 & 0x8000) | (tooSmall ? 0 : (bits >> 13 & 0x3ffff) - (112u << 10)));
}

/// Normal numbers, the same in every run, a few thousand of them over and over. Integers are 0, which is in range for
/// any table.
void fillWithNumbers(DType dtype, float deviation, std::vector<uint8_t> &bytes) {
  constexpr size_t kPeriod = 8191;
  std::mt19937 random(42);
  std::normal_distribution<float> normal(0, deviation);
  std::vector<uint8_t> period;
  for (size_t i = 0; i < kPeriod; ++i) {
    float value = normal(random);
    const auto *raw = reinterpret_cast<const uint8_t *>(&value);
    if (dtype == DType::f32)
      period.insert(period.end(), raw, raw + 4);
    else if (dtype == DType::bf16)
      period.insert(period.end(), raw + 2, raw + 4); // the upper half of an f32
    else if (uint16_t half = halfOf(value); dtype == DType::f16)
      period.insert(period.end(), {static_cast<uint8_t>(half), static_cast<uint8_t>(half >> 8)});
    else
      return;
  }
  for (size_t at = 0; at < bytes.size(); at += period.size())
    std::memcpy(bytes.data() + at, period.data(), std::min(period.size(), bytes.size() - at));
}

std::map<std::string, HostTensor> makeInputs(const Plan &plan) {
  std::map<std::string, HostTensor> tensors = allocate(plan.inputs);
  for (const PortDesc &port : plan.inputs)
    fillWithNumbers(port.dtype, 1, tensors[port.name].bytes);
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
  BucketTimes out{bucket, medianOf(totals), 0, 0, {}, {}};
  if (!session->device().isHost())
    out.peaks = readPeaks(session->package());
  for (size_t op = 0; op < samples.size(); ++op) {
    out.ops.push_back(describeOp(plan, plan.step[op], out.peaks));
    out.ops.back().seconds = medianOf(samples[op]);
  }
  if (!session->device().isHost())
    measureRuns(session, inputs, outputRefs, args, out);
  return out;
}

/// "blocks.{i}.attn" for "blocks.3.attn (linear_12)": the same place in every element of a list.
std::string placeOfAll(const std::string &where) {
  std::string out, path = where.substr(0, where.find(" ("));
  for (size_t i = 0; i < path.size(); ++i) {
    size_t end = i;
    while (path[i] == '.' && end + 1 < path.size() && std::isdigit(static_cast<unsigned char>(path[end + 1])))
      ++end;
    bool index = end > i && (end + 1 == path.size() || path[end + 1] == '.');
    out += index ? ".{i}" : std::string(1, path[i]);
    i = index ? end : i;
  }
  return out;
}

/// Launches of one kernel as one row.
std::vector<OpTime> byKernel(const std::vector<OpTime> &ops) {
  std::vector<OpTime> out;
  std::map<std::string, size_t> rows;
  for (const OpTime &op : ops) {
    auto [row, isNew] = rows.emplace(op.what, out.size());
    if (isNew) {
      out.push_back(op);
      continue;
    }
    OpTime &sum = out[row->second];
    if (op.where != sum.where)
      sum.where = placeOfAll(sum.where);
    sum.seconds += op.seconds;
    sum.flops += op.flops;
    sum.bytes += op.bytes;
    sum.floor += op.floor;
    ++sum.count;
  }
  return out;
}

void printRow(const OpTime &op, double total, bool floors) {
  auto rate = [&](double amount) {
    return amount > 0 && op.seconds > 0 ? fmt::format("{:.1f}", amount / op.seconds * 1e-9) : std::string("-");
  };
  std::string count = op.count > 1 ? fmt::format("{} x {}", op.count, formatSeconds(op.seconds / op.count)) : "";
  fmt::print("{:>11} {:>6.1f}% ", formatSeconds(op.seconds), total > 0 ? op.seconds / total * 100 : 0);
  if (floors)
    fmt::print("{:>11} {:>6} ", op.floor > 0 ? formatSeconds(op.floor) : "-",
               op.floor > 0 && op.seconds > 0 ? fmt::format("{:.0f}%", op.floor / op.seconds * 100) : "-");
  fmt::print("{:>9} {:>7}  {:<36} {:>16}  {}\n", rate(op.flops), rate(op.bytes), op.what, count, op.where);
}

void printTable(const BucketTimes &times, const BenchArgs &args) {
  fmt::print("bucket {} on {}: {} in {} ops (medians of {} runs)\n", times.bucket, args.device,
             formatSeconds(times.seconds), times.ops.size(), args.repeat);
  if (times.runSeconds > 0)
    fmt::print("a run takes {}, queueing it costs the host {}\n", formatSeconds(times.runSeconds),
               formatSeconds(times.hostSeconds));
  bool floors = !times.peaks.gpu.empty();
  if (floors)
    fmt::print("floor: what bytes or arithmetic take at the rates of an {}, and its share of the time\n", times.peaks.gpu);
  fmt::print("\n");
  fmt::print("{:>11} {:>7} ", "time", "share");
  if (floors)
    fmt::print("{:>11} {:>6} ", "floor", "");
  fmt::print("{:>9} {:>7}  {:<36} {:>16}  {}\n", "GFLOP/s", "GB/s", "op", "", "where");
  std::vector<OpTime> order = args.byKernel ? byKernel(times.ops) : times.ops;
  std::stable_sort(order.begin(), order.end(), [](const OpTime &a, const OpTime &b) { return a.seconds > b.seconds; });
  size_t rows = args.top == 0 ? order.size() : std::min<size_t>(args.top, order.size());
  for (size_t i = 0; i < rows; ++i)
    printRow(order[i], times.seconds, floors);
  if (rows < order.size())
    fmt::print("{:>11} and {} more {} (--top 0 shows all)\n", "", order.size() - rows, args.byKernel ? "kernels" : "ops");
  fmt::print("\n");
}

Json toJson(const OpTime &op, double total) {
  Json row = {{"op", op.what}, {"where", op.where}, {"seconds", op.seconds},
              {"share", total > 0 ? op.seconds / total : 0}};
  if (op.count > 1)
    row["count"] = op.count;
  if (op.flops > 0 && op.seconds > 0)
    row["gflops"] = op.flops / op.seconds * 1e-9;
  if (op.bytes > 0 && op.seconds > 0)
    row["gbytes"] = op.bytes / op.seconds * 1e-9;
  if (op.floor > 0)
    row["floor_seconds"] = op.floor;
  return row;
}

Json toJson(const BucketTimes &times, const BenchArgs &args) {
  Json ops = Json::array();
  for (const OpTime &op : args.byKernel ? byKernel(times.ops) : times.ops)
    ops.push_back(toJson(op, times.seconds));
  Json out = {{"bucket", times.bucket}, {"seconds", times.seconds}};
  if (times.runSeconds > 0) {
    out["run_seconds"] = times.runSeconds;
    out["host_seconds"] = times.hostSeconds;
  }
  if (!times.peaks.gpu.empty())
    out["floor_of"] = times.peaks.gpu;
  out["ops"] = std::move(ops);
  return out;
}

std::vector<BucketTimes> measureAll(const std::shared_ptr<Session> &session, const BenchArgs &args) {
  std::vector<BucketTimes> all;
  if (!args.inputs.empty()) {
    SafetensorsFile file = SafetensorsFile::open(args.inputs);
    std::vector<TensorRef> inputs = readInputs(file, session->package().manifest());
    std::string bucket = chooseBucket(session->package(), session->plans(), args.bucket, inputs).bucket;
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

/// Fills weights that the package has no bytes for: small numbers around 0, the same memory for all of them.
std::map<DType, std::vector<uint8_t>> makeWeights(Session &session) {
  std::map<DType, std::vector<uint8_t>> memory;
  std::vector<TensorRef> tensors;
  const Manifest &manifest = session.package().manifest();
  for (const std::string &name : session.missingWeights()) {
    const ManifestWeight &weight = manifest.weights.at(name);
    std::vector<uint8_t> &bytes = memory[weight.dtype];
    bytes.resize(std::max<uint64_t>(bytes.size(), PortDesc{name, weight.dtype, weight.shape}.bytes()));
    tensors.push_back({name, weight.dtype, weight.shape, {}, nullptr});
  }
  for (auto &[dtype, bytes] : memory)
    fillWithNumbers(dtype, 0.02f, bytes);
  for (TensorRef &tensor : tensors)
    tensor.data = memory.at(tensor.dtype).data();
  session.setWeights(tensors, Ownership::Borrow);
  return memory;
}

int benchCommand(const BenchArgs &args) {
  std::shared_ptr<Session> session = openSession(args);
  std::map<DType, std::vector<uint8_t>> weights; // borrowed by the session
  if (args.randomWeights)
    weights = makeWeights(*session);
  std::vector<BucketTimes> all = measureAll(session, args);
  if (args.json) {
    Json out = {{"package", args.package}, {"device", args.device}, {"repeat", args.repeat},
                {"notes", notesOf(*session)}, {"buckets", Json::array()}};
    for (const BucketTimes &times : all)
      out["buckets"].push_back(toJson(times, args));
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
