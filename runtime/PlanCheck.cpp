// SPDX-License-Identifier: Apache-2.0
//
// What the numbers of a plan must satisfy before a byte is touched. All sums and products are checked for
// overflow, since a plan may come from anywhere and an offset that wraps around would pass a naive test.
#include "runtime/Error.h"
#include "runtime/Plan.h"

#include <limits>
#include <optional>
#include <set>

namespace ditc {
namespace {

constexpr std::string_view kAdvice = "the plan is damaged, compile again";
/// BLAS libraries take 32-bit sizes.
constexpr int64_t kMaxBlasInt = std::numeric_limits<int32_t>::max();

std::optional<uint64_t> add(uint64_t a, uint64_t b) {
  uint64_t out;
  return __builtin_add_overflow(a, b, &out) ? std::nullopt : std::optional(out);
}

std::optional<uint64_t> multiply(uint64_t a, uint64_t b) {
  uint64_t out;
  return __builtin_mul_overflow(a, b, &out) ? std::nullopt : std::optional(out);
}

std::string describe(const PlanOp &op, std::string_view list, size_t index) {
  std::string out = fmt::format("{}[{}]", list, index);
  return op.where.empty() ? out : fmt::format("{} ('{}')", out, op.where);
}

class PlanChecker {
public:
  PlanChecker(const Plan &plan, std::string_view source) : plan(plan), source(source) {}

  void run() {
    checkPorts();
    for (size_t i = 0; i < plan.buffers.size(); ++i)
      checkBuffer(i);
    for (size_t i = 0; i < plan.prepare.size(); ++i)
      checkOp(plan.prepare[i], "prepare", i);
    for (size_t i = 0; i < plan.step.size(); ++i)
      checkOp(plan.step[i], "step", i);
  }

private:
  template <typename... Args> [[noreturn]] void refuse(fmt::format_string<Args...> format, Args &&...args) const {
    fail("'{}': {}; {}", source, fmt::format(format, std::forward<Args>(args)...), kAdvice);
  }

  void checkPorts() const {
    std::set<std::string_view> names;
    auto check = [&](const PortDesc &port, std::string_view what) {
      if (port.name.empty())
        refuse("an {} has no name", what);
      if (!names.insert(port.name).second)
        refuse("the name '{}' is given to two inputs or outputs", port.name);
      port.bytes(); // refuses sizes that overflow
    };
    for (const PortDesc &port : plan.inputs)
      check(port, "input");
    for (const PinnedInput &port : plan.pinned)
      check(port, "input");
    names.clear(); // An output may be called like an input.
    for (const PortDesc &port : plan.outputs)
      check(port, "output");
  }

  void checkBuffer(size_t index) const {
    const PlanBuffer &buffer = plan.buffers[index];
    auto within = [&](uint64_t space) {
      std::optional<uint64_t> end = add(buffer.offset, buffer.bytes);
      if (!end || *end > space)
        refuse("buffer {} covers {} bytes at {} of the {} bytes of {}", index, buffer.bytes, buffer.offset, space,
               nameOf(buffer.space));
    };
    switch (buffer.space) {
    case Space::Input:
    case Space::Output: {
      size_t ports = buffer.space == Space::Input ? plan.inputs.size() : plan.outputs.size();
      if (buffer.index >= ports)
        refuse("buffer {} is {} {}, but there are {}", index, nameOf(buffer.space), buffer.index, ports);
      break;
    }
    case Space::Weight:
    case Space::Constant:
      if (buffer.name.empty())
        refuse("buffer {} is a {} without a name", index, nameOf(buffer.space));
      break;
    case Space::Prepared:
      within(plan.preparedBytes);
      break;
    case Space::Arena:
      within(plan.arenaBytes);
      break;
    case Space::Zeroed:
      within(plan.zeroedBytes);
      break;
    }
  }

  /// `bytes` bytes from `pointer` on lie in its buffer; `bytes` is empty when computing it overflowed.
  void checkRange(const PlanPointer &pointer, std::optional<uint64_t> bytes, const std::string &op,
                  std::string_view operand) const {
    if (pointer.buffer >= plan.buffers.size())
      refuse("{}: {} is buffer {}, but there are {}", op, operand, pointer.buffer, plan.buffers.size());
    uint64_t size = bufferBytes(plan, pointer.buffer);
    std::optional<uint64_t> end = bytes ? add(pointer.offset, *bytes) : std::nullopt;
    if (!end)
      refuse("{}: {} covers more bytes than 64 bits can count", op, operand);
    if (*end > size)
      refuse("{}: {} covers {} bytes at {} of buffer {}, which has {}", op, operand, *bytes, pointer.offset,
             pointer.buffer, size);
  }

  /// Prepare ops run without a caller, step ops must leave prepared memory alone.
  void checkAccess(const PlanPointer &pointer, bool writes, bool preparing, const std::string &op,
                   std::string_view operand) const {
    Space space = plan.buffers[pointer.buffer].space;
    bool callers = space == Space::Input || space == Space::Output;
    if (preparing && callers)
      refuse("{}: {} is an {}, which prepare ops have not", op, operand, nameOf(space));
    // Only a kernel that is made for it leaves zeros behind, and nothing that runs outside of a context has some.
    if (space == Space::Zeroed && (writes || preparing))
      refuse("{}: {} is zeroed memory, which only kernels of a step may use", op, operand);
    bool writable = space == Space::Arena || space == (preparing ? Space::Prepared : Space::Output);
    if (writes && !writable)
      refuse("{}: writes {} memory through {}", op, nameOf(space), operand);
  }

  void checkOp(const PlanOp &op, std::string_view list, size_t index) const {
    std::string where = describe(op, list, index);
    bool preparing = list == "prepare";
    std::visit([&](const auto &body) { checkBody(body, preparing, where); }, op.body);
  }

  void checkBody(const LaunchOp &op, bool preparing, const std::string &where) const {
    if (op.kernel >= plan.kernels.size())
      refuse("{}: kernel {} of {}", where, op.kernel, plan.kernels.size());
    if (op.args.empty())
      refuse("{}: launch without arguments", where);
    for (size_t i = 0; i < op.args.size(); ++i) {
      std::string operand = fmt::format("argument {}", i);
      checkRange(op.args[i], 0, where, operand);
      // Only the last argument is known to be an output.
      checkAccess(op.args[i], i + 1 == op.args.size(), preparing, where, operand);
    }
  }

  void checkBody(const CopyOp &op, bool preparing, const std::string &where) const {
    checkRange(op.src, op.bytes, where, "src");
    checkAccess(op.src, false, preparing, where, "src");
    checkRange(op.dst, op.bytes, where, "dst");
    checkAccess(op.dst, true, preparing, where, "dst");
  }

  void checkBody(const GemmOp &op, bool preparing, const std::string &where) const {
    if (op.dtype != DType::f32 && op.dtype != DType::f64 && op.dtype != DType::bf16 && op.dtype != DType::f16)
      refuse("{}: gemm in {}, expected f32, f64, bf16 or f16", where, nameOf(op.dtype));
    for (int64_t size : {op.m, op.n, op.k})
      if (size < 0 || size > kMaxBlasInt)
        refuse("{}: gemm size {} is not within 0 and 2^31-1", where, size);
    checkOperand(op, op.a, op.m, op.k, preparing, where, "a");
    checkOperand(op, op.b, op.k, op.n, preparing, where, "b");
    checkOperand(op, op.c, op.m, op.n, preparing, where, "c");
    if (!op.bias)
      return;
    uint64_t unit = byteSize(op.dtype);
    checkRange(*op.bias, static_cast<uint64_t>(op.n) * unit, where, "bias");
    checkAccess(*op.bias, false, preparing, where, "bias");
    checkAlignment(*op.bias, unit, where, "bias");
  }

  void checkOperand(const GemmOp &op, const GemmOperand &operand, int64_t rows, int64_t columns, bool preparing,
                    const std::string &where, std::string_view name) const {
    if (operand.transposed)
      std::swap(rows, columns);
    if (operand.rowStride < std::max<int64_t>(columns, 1) || operand.rowStride > kMaxBlasInt)
      refuse("{}: ld{} is {}, but rows have {} elements", where, name, operand.rowStride, columns);
    if (operand.batchStrides.size() != op.batch.size())
      refuse("{}: batch_{} has {} strides for {} batch dimensions", where, name, operand.batchStrides.size(),
             op.batch.size());
    bool empty = rows == 0 || columns == 0;
    std::optional<uint64_t> elements = empty ? 0 : multiply(rows - 1, operand.rowStride);
    elements = empty ? elements : add(*elements, columns); // 31-bit factors: cannot overflow
    for (size_t i = 0; i < op.batch.size(); ++i) {
      int64_t stride = operand.batchStrides[i];
      if (stride < 0)
        refuse("{}: batch_{} has the negative stride {}", where, name, stride);
      if (name == "c" && stride == 0 && op.batch[i] > 1)
        refuse("{}: batch_c has stride 0, so results would overwrite each other", where);
      if (op.batch[i] < 0)
        refuse("{}: batch size {} is negative", where, op.batch[i]);
      empty = empty || op.batch[i] == 0;
      std::optional<uint64_t> extent = op.batch[i] == 0 ? 0 : multiply(op.batch[i] - 1, stride);
      elements = elements && extent ? add(*elements, *extent) : std::nullopt;
    }
    uint64_t unit = byteSize(op.dtype);
    checkRange(operand.at, empty ? 0 : elements ? multiply(*elements, unit) : std::nullopt, where, name);
    checkAccess(operand.at, name == "c", preparing, where, name);
    checkAlignment(operand.at, unit, where, name);
  }

  void checkAlignment(const PlanPointer &pointer, uint64_t unit, const std::string &where,
                      std::string_view name) const {
    uint64_t start = pointer.offset + plan.buffers[pointer.buffer].offset;
    if (start % unit != 0)
      refuse("{}: {} starts at byte {}, which is not a multiple of {}", where, name, start, unit);
  }

  const Plan &plan;
  std::string_view source;
};

} // namespace

uint64_t PortDesc::bytes() const {
  // Counted without zero sizes first, so that [2^40, 2^40, 0] is refused as well: strides overflow too.
  uint64_t total = byteSize(dtype);
  bool empty = false;
  for (int64_t size : shape) {
    std::optional<uint64_t> product = size > 0 ? multiply(total, static_cast<uint64_t>(size)) : total;
    if (size < 0 || !product || *product > static_cast<uint64_t>(INT64_MAX))
      fail("'{}': shape [{}] is negative or too large", name, fmt::join(shape, ", "));
    total = *product;
    empty = empty || size == 0;
  }
  return empty ? 0 : total;
}

uint64_t bufferBytes(const Plan &plan, size_t index) {
  const PlanBuffer &buffer = plan.buffers[index];
  if (buffer.space == Space::Input)
    return plan.inputs[buffer.index].bytes();
  if (buffer.space == Space::Output)
    return plan.outputs[buffer.index].bytes();
  return buffer.bytes;
}

void validatePlan(const Plan &plan, std::string_view source) { PlanChecker(plan, source).run(); }

} // namespace ditc
