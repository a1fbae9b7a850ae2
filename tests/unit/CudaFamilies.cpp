// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/CudaFamilies.h"

#include "dialects/dit/Dit.h"
#include "dialects/reference/Elements.h"
#include "tests/cuda_emulator/run_unit.h"

#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

#include <random>

using namespace mlir;

namespace ditc::test {
namespace {

using dit::TensorValue;

std::string dims(const std::vector<int64_t> &shape) {
  std::string text;
  for (int64_t size : shape)
    text += std::to_string(size) + "x";
  return text;
}

std::string tensorText(const CudaArg &arg) { return "tensor<" + dims(arg.shape) + arg.element + ">"; }

std::vector<int64_t> stridesOf(const CudaArg &arg) {
  if (!arg.strides.empty())
    return arg.strides;
  SmallVector<int64_t> dense = plan::contiguousStrides(arg.shape);
  return {dense.begin(), dense.end()};
}

std::string memrefText(const CudaArg &arg) {
  std::string text = "memref<" + dims(arg.shape) + arg.element + ", strided<[";
  for (auto [i, stride] : llvm::enumerate(stridesOf(arg)))
    text += (i ? ", " : "") + std::to_string(stride);
  return text + "]>>";
}

template <class Function> std::string joined(size_t count, Function function) {
  std::string text;
  for (size_t i = 0; i < count; ++i)
    text += (i ? ", " : "") + function(i);
  return text;
}

/// Memory of an argument; its elements in row-major order lie at `offsets`, in bytes.
struct Memory {
  std::unique_ptr<emulator::GuardedMemory> bytes;
  std::vector<int64_t> offsets;
  int64_t elementBytes = 0, size = 0;

  void clear() { std::memset(bytes->data(), 0xFF, size); }
  /// Nothing but the elements was written since the memory was cleared.
  bool gapsAreIntact() const {
    std::vector<bool> isElement(size, false);
    for (int64_t offset : offsets)
      std::fill_n(isElement.begin() + offset, elementBytes, true);
    for (int64_t i = 0; i < size; ++i)
      if (!isElement[i] && bytes->as<uint8_t>()[i] != 0xFF)
        return false;
    return true;
  }

  void write(const TensorValue &value) {
    for (auto [i, offset] : llvm::enumerate(offsets))
      std::memcpy(bytes->as<char>() + offset, value.bytes->data() + i * elementBytes, elementBytes);
  }
  TensorValue read(RankedTensorType type) const {
    TensorValue value = TensorValue::zeros(type);
    for (auto [i, offset] : llvm::enumerate(offsets))
      std::memcpy(value.bytes->data() + i * elementBytes, bytes->as<char>() + offset, elementBytes);
    return value;
  }
};

Memory allocate(const CudaArg &arg, Type element) {
  Memory memory;
  memory.elementBytes = dit::elementBytes(element);
  std::vector<int64_t> strides = stridesOf(arg), index(arg.shape.size(), 0);
  int64_t count = ShapedType::getNumElements(arg.shape), last = 0;
  for (int64_t i = 0; i < count; ++i) {
    int64_t offset = 0;
    for (size_t d = 0; d < index.size(); ++d)
      offset += index[d] * strides[d];
    memory.offsets.push_back(offset * memory.elementBytes);
    last = std::max(last, offset + 1);
    for (size_t d = index.size(); d-- > 0 && ++index[d] == arg.shape[d];)
      index[d] = 0;
  }
  memory.size = std::max<int64_t>(16, llvm::alignTo(last * memory.elementBytes, 16));
  memory.bytes = std::make_unique<emulator::GuardedMemory>(memory.size);
  return memory;
}

/// Multiples of 1/64 between -2 and 2, small integers, or booleans.
TensorValue inputValue(const CudaArg &arg, RankedTensorType type, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<double> numbers(type.getNumElements());
  for (auto [i, number] : llvm::enumerate(numbers)) {
    if (arg.value)
      number = arg.value(i);
    else if (type.getElementType().isInteger(1))
      number = random() % 2;
    else if (isa<FloatType>(type.getElementType()))
      number = (static_cast<int>(random() % 257) - 128) / 64.0;
    else
      number = static_cast<int>(random() % 41) - 20;
  }
  if (isa<FloatType>(type.getElementType()))
    return dit::fromNumbers(type, numbers);
  return dit::fromNumbers(type, std::vector<int64_t>(numbers.begin(), numbers.end()));
}

void compare(const TensorValue &expected, const Numbers &actual, double tolerance) {
  double largest = 1e-30;
  for (int64_t i = 0; i < expected.type.getNumElements(); ++i)
    if (std::isfinite(expected.at(i)))
      largest = std::max(largest, std::abs(expected.at(i)));
  int shown = 0;
  for (int64_t i = 0; i < expected.type.getNumElements() && shown < 5; ++i) {
    double e = expected.at(i), a = actual[i];
    bool same = e == a || (std::isnan(e) && std::isnan(a)) || std::abs(e - a) <= tolerance * largest;
    shown += !same;
    EXPECT_TRUE(same) << "element " << i << " is " << a << ", expected " << e;
  }
}

} // namespace

/// The function computes the outputs with the reference operation.
std::string moduleText(const CudaCase &c) {
  size_t inputs = c.args.size() - c.outputs;
  auto type = [&](size_t i) { return tensorText(c.args[i]); };
  std::string results = joined(c.outputs, [&](size_t i) { return type(inputs + i); });
  std::string alignments = joined(c.args.size(), [&](size_t i) { return std::string("256"); });
  std::string config = c.config + (c.aligned ? (c.config.empty() ? "" : ", ") + ("alignments = array<i64: " + alignments + ">") : "");
  std::string text = "plan.kernel @kernel family \"" + c.family + "\" args [" + joined(c.args.size(), [&](size_t i) { return memrefText(c.args[i]); }) +
                     "] outputs " + std::to_string(c.outputs) + " config {" + config + "} " + (c.body.empty() ? "{}" : c.body) + "\n";
  if (c.reference.empty())
    return text;
  text += "func.func @reference(" + joined(inputs, [&](size_t i) { return "%" + std::to_string(i) + ": " + type(i); }) + ") -> (" + results + ") {\n";
  if (c.reference.find('\n') != std::string::npos) // whole lines, which name the results %r0, %r1, ...
    return text + c.reference + "  return " + joined(c.outputs, [&](size_t i) { return "%r" + std::to_string(i); }) + " : " + results + "\n}\n";
  text += "  %r" + (c.outputs > 1 ? ":" + std::to_string(c.outputs) : "") + " = " + c.reference + " : (" + joined(inputs, type) + ") -> " +
          (c.outputs > 1 ? "(" + results + ")" : results) + "\n";
  return text + "  return " + joined(c.outputs, [&](size_t i) { return c.outputs > 1 ? "%r#" + std::to_string(i) : std::string("%r"); }) + " : " + results +
         "\n}\n";
}

struct CudaFamilies::State {
  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  SmallVector<TensorValue> inputs;
  State() { context.loadDialect<dit::DitDialect, plan::PlanDialect, func::FuncDialect, arith::ArithDialect>(); }
};

CudaFamilies::CudaFamilies(CudaEmitter emitter, const std::string &arch)
    : state(std::make_unique<State>()), emitter(emitter), arch{arch, std::atoi(arch.c_str() + 3)} {}
CudaFamilies::~CudaFamilies() = default;

bool CudaFamilies::emit(const CudaCase &c) {
  messages.clear();
  ScopedDiagnosticHandler handler(&state->context, [&](Diagnostic &diagnostic) { messages += diagnostic.str() + "\n"; });
  state->module = parseSourceString<ModuleOp>(moduleText(c), &state->context);
  if (!state->module) {
    messages += moduleText(c);
    return false;
  }
  FailureOr<CudaUnit> emitted = emitter(*state->module->getOps<plan::KernelOp>().begin(), arch);
  if (failed(emitted))
    return false;
  unit = *emitted;
  return true;
}

void CudaFamilies::run(const CudaCase &c) {
  ASSERT_TRUE(emit(c)) << messages;
  plan::KernelOp kernel = *state->module->getOps<plan::KernelOp>().begin();
  std::vector<Memory> memories;
  std::vector<void *> addresses;
  state->inputs.clear();
  for (auto [i, arg] : llvm::enumerate(c.args)) {
    MemRefType memref = kernel.getArgType(i);
    auto type = RankedTensorType::get(memref.getShape(), memref.getElementType());
    memories.push_back(allocate(arg, type.getElementType()));
    addresses.push_back(memories.back().bytes->data());
    if (i >= c.args.size() - c.outputs)
      continue;
    memories.back().write(inputValue(arg, type, 17 + i));
    state->inputs.push_back(memories.back().read(type)); // elements may share memory
  }
  emulator::EmulatedUnit emulated(unit.text, DITC_SOURCE_DIR "/codegen/templates/cuda");
  auto launch = [&] {
    emulated.launch("kernel", unit.launch, unit.parameters, addresses);
    std::vector<TensorValue> outputs;
    for (size_t i = state->inputs.size(); i < memories.size(); ++i) {
      MemRefType memref = kernel.getArgType(i);
      outputs.push_back(memories[i].read(RankedTensorType::get(memref.getShape(), memref.getElementType())));
      EXPECT_TRUE(memories[i].gapsAreIntact()) << unit.text;
      memories[i].clear();
    }
    return outputs;
  };
  std::vector<TensorValue> outputs = launch();
  emulated.runInReverse(); // a barrier that is missing shows in one order or the other
  std::vector<TensorValue> again = launch();
  results.clear();
  for (size_t i = 0; i < outputs.size(); ++i) {
    EXPECT_EQ(*outputs[i].bytes, *again[i].bytes) << "another order of threads gives another result\n" << unit.text;
    results.emplace_back();
    for (int64_t e = 0; e < outputs[i].type.getNumElements(); ++e)
      results.back().push_back(outputs[i].at(e));
  }
}

void CudaFamilies::check(const CudaCase &c) {
  run(c);
  if (testing::Test::HasFatalFailure())
    return;
  SCOPED_TRACE(unit.text);
  auto function = *state->module->getOps<func::FuncOp>().begin();
  FailureOr<SmallVector<TensorValue>> expected = dit::evaluateFunction(function, state->inputs, {});
  ASSERT_TRUE(succeeded(expected));
  for (int i = 0; i < c.outputs; ++i)
    compare((*expected)[i], results[i], c.tolerance);
}

} // namespace ditc::test
