// SPDX-License-Identifier: Apache-2.0
#include "dialects/fusion/Cost.h"

#include "dialects/dit/Tensors.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/TypeSwitch.h"

#include <algorithm>
#include <array>

using namespace mlir;

namespace ditc {

namespace {

constexpr std::array<GpuPeaks, 7> kGpus{{
    {"H100", 989e12, 67e12, 3.35e12},
    {"H200", 989e12, 67e12, 4.8e12},
    {"A100", 312e12, 19.5e12, 2.04e12},
    {"L40S", 362e12, 91.6e12, 0.864e12},
    {"RTX4090", 165e12, 82.6e12, 1.008e12},
    {"RTX5090", 209e12, 104.8e12, 1.792e12},
    {"B200", 2250e12, 80e12, 8.0e12},
}};

/// Multiply-adds of a product, times two.
double matmulFlops(dit::MatmulOp op) { return 2.0 * tensorType(op.getResult()).getNumElements() * tensorType(op.getLhs()).getShape().back(); }

/// Two products over all pairs of queries and keys; a causal mask leaves half of them.
double attentionFlops(dit::AttentionOp op) {
  auto q = tensorType(op.getQuery()).getShape(), v = tensorType(op.getValue()).getShape();
  double keys = op.getCausal() ? v[2] * 0.5 : v[2];
  if (op.getWindow())
    keys = std::min<double>(keys, (*op.getWindow())[0] + (op.getCausal() ? 0 : (*op.getWindow())[1]) + 1);
  return 2.0 * q[0] * q[1] * q[2] * keys * (q[3] + v[3]);
}

double convFlops(dit::ConvOp op) {
  auto filter = tensorType(op.getFilter());
  return 2.0 * tensorType(op.getResult()).getNumElements() * (filter.getNumElements() / std::max<int64_t>(filter.getDimSize(0), 1));
}

/// Work of products of such numbers: matrix units multiply those of 16 and 8 bits. Full f32, without TF32, and f64 are multiplied
/// by the other units.
Work productWork(double flops, Type element) {
  bool isMatrix = isSmallFloat(element);
  return {.matrixFlops = isMatrix ? flops : 0, .scalarFlops = isMatrix ? 0 : flops, .fp8Flops = is8BitFloat(element) ? flops : 0};
}

/// Arithmetic of one operation, whatever it reads and writes.
Work arithmeticOf(Operation *op) {
  Work work;
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](dit::MatmulOp matmul) { work = productWork(matmulFlops(matmul), elementOf(matmul.getLhs())); })
      .Case([&](dit::AttentionOp attention) {
        work = productWork(attentionFlops(attention), elementOf(attention.getQuery()));
        work.fp8Flops = attention.getQuantized() ? work.matrixFlops : 0;
      })
      .Case([&](dit::LinearStateOp state) { work.scalarFlops = 2.0 * tensorType(state.getKey()).getNumElements() * tensorType(state.getState()).getDimSize(3); })
      .Case([&](dit::LinearApplyOp apply) { work.scalarFlops = 2.0 * tensorType(apply.getQuery()).getNumElements() * tensorType(apply.getState()).getDimSize(3); })
      .Case([&](dit::ConvOp conv) { work = productWork(convFlops(conv), elementOf(conv.getInput())); })
      .Case([&](dit::MapOp map) {
        auto body = map.getBodyBlock().without_terminator();
        auto count = llvm::count_if(body, [](Operation &scalar) { return !isa<arith::ConstantOp>(scalar); });
        work.scalarFlops = static_cast<double>(count) * map.getType().getNumElements();
      })
      .Case([&](dit::NormOp norm) { work.scalarFlops = 6.0 * tensorType(norm.getInput()).getNumElements(); })
      .Case<dit::ReduceOp, dit::ScanOp, dit::ArgReduceOp>([&](Operation *reduce) { work.scalarFlops = tensorType(reduce->getOperand(0)).getNumElements(); });
  return work;
}

/// Bytes that reading `value` moves: a table costs the rows that are taken, an expansion its source.
double bytesReadBy(Operation *reader, Value value) {
  if (auto gather = dyn_cast<dit::GatherOp>(reader); gather && value == gather.getTable())
    return std::min(dit::tensorBytes(tensorType(value)), dit::tensorBytes(tensorType(gather.getResult())));
  while (auto expand = value.getDefiningOp<dit::ExpandOp>())
    value = expand.getInput();
  return dit::tensorBytes(tensorType(value));
}

bool isFree(Operation *op) { return dit::isViewOp(op) || isa<dit::ConstantOp, dit::WeightOp>(op); }

Work fusionWork(dit::FusionOp fusion) {
  Work work;
  Block &body = fusion.getBodyBlock();
  llvm::DenseMap<Value, double> read; // block argument -> most bytes that any reader takes of it
  for (Operation &op : body.without_terminator()) {
    work += arithmeticOf(&op);
    if (isFree(&op))
      continue;
    for (Value operand : op.getOperands())
      if (auto argument = dyn_cast<BlockArgument>(dit::behindViews(operand)))
        read[argument] += bytesReadBy(&op, operand);
  }
  for (auto [argument, bytes] : read)
    work.bytesRead += std::min(bytes, static_cast<double>(dit::tensorBytes(tensorType(argument))));
  for (Value result : fusion.getResults())
    work.bytesWritten += dit::tensorBytes(tensorType(result));
  return work;
}

} // namespace

Work &Work::operator+=(const Work &other) {
  bytesRead += other.bytesRead;
  bytesWritten += other.bytesWritten;
  matrixFlops += other.matrixFlops;
  scalarFlops += other.scalarFlops;
  fp8Flops += other.fp8Flops;
  return *this;
}

std::span<const GpuPeaks> knownGpus() { return kGpus; }

const GpuPeaks *findGpu(std::string_view name) {
  auto gpu = std::ranges::find(kGpus, name, &GpuPeaks::name);
  return gpu == kGpus.end() ? nullptr : &*gpu;
}

Work workOf(Operation *op) {
  if (auto fusion = dyn_cast<dit::FusionOp>(op))
    return fusionWork(fusion);
  if (isFree(op))
    return {};
  Work work = arithmeticOf(op);
  llvm::SmallSetVector<Value, 8> operands(op->getOperands().begin(), op->getOperands().end());
  for (Value operand : operands)
    work.bytesRead += bytesReadBy(op, operand);
  for (Value result : op->getResults())
    work.bytesWritten += dit::tensorBytes(tensorType(result));
  return work;
}

static std::array<double, 3> floors(const Work &work, const GpuPeaks &gpu) {
  return {work.bytes() / gpu.bandwidth, (work.matrixFlops - work.fp8Flops / 2) / gpu.matrixFlops, work.scalarFlops / gpu.scalarFlops};
}

double rooflineSeconds(const Work &work, const GpuPeaks &gpu) { return std::ranges::max(floors(work, gpu)); }

bool recomputePays(const Work &reader, const Work &producer, double repeats, unsigned others, const GpuPeaks &gpu) {
  Work fused = reader;
  fused.bytesRead += producer.bytesRead - producer.bytesWritten;
  fused.scalarFlops += repeats * producer.scalarFlops;
  double apart = rooflineSeconds(reader, gpu) + (rooflineSeconds(producer, gpu) + kLaunchSeconds) / (others + 1);
  return rooflineSeconds(fused, gpu) <= apart;
}

bool isWorthHolding(double savedMicroseconds, int64_t bytes) {
  constexpr double kMicrosecondsPerMegabyte = 4;
  return savedMicroseconds * 1e6 >= kMicrosecondsPerMegabyte * static_cast<double>(bytes);
}

bool isWorthHoldingShortly(double savedMicroseconds, int64_t bytes) {
  constexpr double kMicrosecondsPerMegabyte = 0.4;
  return savedMicroseconds * 1e6 >= kMicrosecondsPerMegabyte * static_cast<double>(bytes);
}

/// Attention of 8-bit numbers as measured on an H200: attention of 16-bit numbers takes so many times its roofline, of which so much
/// is saved, as the softmax stays; and the two launches that quantise take so long for each byte of operands.
static constexpr double kAttentionRooflines = 1.35, kWideSaving = 0.2, kNarrowSaving = 0.1, kQuantizeSecondsPerByte = 0.6e-12, kQuantizeLaunchesSeconds = 5e-6;
static constexpr int64_t kWideHead = 96;

/// The same product of fp8 numbers.
static Work quantizedWorkOf(dit::MatmulOp product) {
  Work work = workOf(product);
  work.bytesRead -= (dit::tensorBytes(tensorType(product.getLhs())) + dit::tensorBytes(tensorType(product.getRhs()))) / 2;
  work.fp8Flops = work.matrixFlops;
  return work;
}

double quantizingSaves(llvm::ArrayRef<dit::MatmulOp> products, const GpuPeaks &gpu) {
  double saved = 0;
  for (dit::MatmulOp product : products)
    saved += rooflineSeconds(workOf(product), gpu) - rooflineSeconds(quantizedWorkOf(product), gpu);
  dit::MatmulOp first = products.front();
  double inputBytes = dit::tensorBytes(tensorType(first.getLhs()));
  return saved - 1.5 * inputBytes / gpu.bandwidth - kLaunchSeconds; // read whole, written as half as many bytes
}

double quantizingSaves(dit::AttentionOp attention, const GpuPeaks &gpu) {
  double inputBytes = 0;
  for (Value operand : {attention.getQuery(), attention.getKey(), attention.getValue()})
    inputBytes += dit::tensorBytes(tensorType(operand));
  double saving = shapeOf(attention.getQuery()).back() >= kWideHead ? kWideSaving : kNarrowSaving;
  return saving * kAttentionRooflines * rooflineSeconds(workOf(attention), gpu) - inputBytes * kQuantizeSecondsPerByte - kQuantizeLaunchesSeconds;
}

std::string_view boundBy(const Work &work, const GpuPeaks &gpu) {
  constexpr std::array<std::string_view, 3> names{"memory", "matrix", "scalar"};
  auto times = floors(work, gpu);
  return names[std::ranges::max_element(times) - times.begin()];
}

} // namespace ditc
