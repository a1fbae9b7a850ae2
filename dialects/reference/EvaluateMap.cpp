// SPDX-License-Identifier: Apache-2.0
//
// dit.map on host tensors: the body becomes a list of block loops, which run over a few hundred elements at
// a time, so that scalars stay in the first-level cache and no operation costs a call per element.
#include "dialects/reference/Elements.h"
#include "dialects/reference/EvaluateOps.h"
#include "dialects/reference/ScalarKernels.h"

#include "dialects/dit/Dit.h"

using namespace mlir;

namespace ditc::dit {
namespace {

constexpr int64_t kBlock = 512;

/// A body, ready to run: registers are buffers of kBlock scalars.
class Body {
public:
  static FailureOr<Body> compile(MapOp op);

  uint8_t *argument(unsigned i) { return registerAt(arguments[i]); }
  const uint8_t *result() const { return memory.data() + yielded * kRegisterBytes; }
  void run(int64_t count);

private:
  static constexpr int64_t kRegisterBytes = kBlock * 8;

  struct Step {
    ScalarKernel kernel;
    unsigned result;
    SmallVector<unsigned, 3> operands;
  };

  unsigned allocate();
  void release(Value value);
  void addConstant(arith::ConstantOp op);
  uint8_t *registerAt(unsigned number) { return memory.data() + number * kRegisterBytes; }

  std::vector<Step> steps;
  SmallVector<unsigned> arguments;
  unsigned yielded = 0;
  std::vector<uint8_t> memory;

  // While compiling.
  unsigned registerCount = 0;
  SmallVector<unsigned> idle;
  llvm::SmallDenseMap<Value, unsigned> registers;
  llvm::SmallDenseMap<Value, unsigned> usesLeft;
  SmallVector<arith::ConstantOp> constants;
};

unsigned Body::allocate() {
  if (idle.empty())
    return registerCount++;
  return idle.pop_back_val();
}

/// Frees the register of `value` after its last use. Arguments and constants keep theirs: they are filled
/// outside of the steps.
void Body::release(Value value) {
  if (--usesLeft[value] == 0 && !isa<BlockArgument>(value) && !value.getDefiningOp<arith::ConstantOp>())
    idle.push_back(registers[value]);
}

void Body::addConstant(arith::ConstantOp op) {
  uint8_t *target = registerAt(registers[op.getResult()]);
  withArithmeticType(op.getType(), [&](auto number) {
    using T = decltype(number);
    T value;
    if (auto attr = dyn_cast<FloatAttr>(op.getValue()))
      value = static_cast<T>(attr.getValueAsDouble());
    else
      value = static_cast<T>(op.getType().isInteger(1) ? cast<IntegerAttr>(op.getValue()).getValue().getZExtValue()
                                                       : cast<IntegerAttr>(op.getValue()).getValue().getSExtValue());
    std::fill_n(reinterpret_cast<T *>(target), kBlock, value);
  });
}

FailureOr<Body> Body::compile(MapOp op) {
  Body body;
  Block &block = op.getBodyBlock();
  for (Operation &inner : block)
    for (Value operand : inner.getOperands())
      ++body.usesLeft[operand];
  for (BlockArgument argument : block.getArguments()) {
    body.arguments.push_back(body.registerCount);
    body.registers[argument] = body.registerCount++;
  }
  for (Operation &inner : block.without_terminator()) {
    if (auto constant = dyn_cast<arith::ConstantOp>(inner)) {
      body.registers[constant.getResult()] = body.registerCount++;
      body.constants.push_back(constant);
      continue;
    }
    ScalarKernel kernel = scalarKernel(&inner);
    if (!kernel)
      return inner.emitOpError("has no reference evaluation for these types");
    Step step{kernel, body.allocate(), {}};
    for (Value operand : inner.getOperands()) {
      step.operands.push_back(body.registers[operand]);
      body.release(operand);
    }
    body.registers[inner.getResult(0)] = step.result;
    if (inner.getResult(0).use_empty())
      body.idle.push_back(step.result);
    body.steps.push_back(step);
  }
  body.yielded = body.registers[block.getTerminator()->getOperand(0)];
  body.memory.resize(body.registerCount * kRegisterBytes);
  for (arith::ConstantOp constant : body.constants)
    body.addConstant(constant);
  return body;
}

void Body::run(int64_t count) {
  for (const Step &step : steps) {
    const void *operands[3] = {};
    for (auto [i, number] : llvm::enumerate(step.operands))
      operands[i] = registerAt(number);
    step.kernel(count, registerAt(step.result), operands);
  }
}

/// One operand of the map, read in the order of the result's elements.
struct Reader {
  const uint8_t *data;
  ElementKind kind;
  Type compute;
  SmallVector<int64_t> strides; ///< 0 along repeated dimensions

  /// Reads `count` elements from `offset`; `stride` is 0 or 1.
  void read(int64_t offset, int64_t stride, int64_t count, uint8_t *target, int64_t at) const {
    const uint8_t *source = data + offset * bytesOf(kind);
    withArithmeticType(compute, [&](auto number) {
      auto *numbers = reinterpret_cast<decltype(number) *>(target) + at;
      if (stride != 0)
        return loadElements(source, kind, count, numbers);
      loadElements(source, kind, 1, &number);
      std::fill_n(numbers, count, number);
    });
  }
};

/// Shape of the result and strides of the readers, with neighbouring dimensions merged where all readers
/// allow it: runs along the last dimension become long.
void mergeDimensions(SmallVectorImpl<int64_t> &shape, MutableArrayRef<Reader> readers) {
  for (size_t i = shape.size(); i-- > 1;) {
    bool mergeable = llvm::all_of(readers, [&](const Reader &reader) { return reader.strides[i - 1] == reader.strides[i] * shape[i]; });
    if (!mergeable)
      continue;
    shape[i - 1] *= shape[i];
    shape.erase(shape.begin() + i);
    for (Reader &reader : readers) {
      reader.strides[i - 1] = reader.strides[i];
      reader.strides.erase(reader.strides.begin() + i);
    }
  }
}

/// Fills the argument with elements [first, first + count) of the result's order.
void readBlock(const Reader &reader, ArrayRef<int64_t> shape, int64_t first, int64_t count, uint8_t *target) {
  SmallVector<int64_t> index(shape.size());
  int64_t rest = first;
  for (size_t i = shape.size(); i-- > 0; rest /= shape[i])
    index[i] = rest % shape[i];
  for (int64_t done = 0; done < count;) {
    int64_t run = std::min(count - done, shape.back() - index.back());
    int64_t offset = 0;
    for (size_t i = 0; i < shape.size(); ++i)
      offset += index[i] * reader.strides[i];
    reader.read(offset, reader.strides.back(), run, target, done);
    done += run;
    index.back() += run;
    for (size_t i = shape.size() - 1; i > 0 && index[i] == shape[i]; --i) {
      index[i] = 0;
      ++index[i - 1];
    }
  }
}

} // namespace

FailureOr<TensorValue> evaluateMap(MapOp op, ArrayRef<TensorValue> operands) {
  FailureOr<Body> body = Body::compile(op);
  if (failed(body))
    return failure();
  auto type = cast<RankedTensorType>(op.getType());
  TensorValue result = TensorValue::zeros(type);
  SmallVector<int64_t> shape(type.getShape());
  if (shape.empty())
    shape.push_back(1);
  SmallVector<Reader> readers;
  for (const TensorValue &operand : operands) {
    Type element = operand.type.getElementType();
    SmallVector<int64_t> own(operand.type.getShape());
    own.resize(shape.size(), 1);
    SmallVector<int64_t> strides = denseStrides(own);
    for (auto [stride, size] : llvm::zip(strides, own))
      stride = size == 1 ? 0 : stride;
    readers.push_back({operand.bytes->data(), kindOf(element), computeType(element), strides});
  }
  // Dimensions of size 1 have no stride worth keeping; without them more neighbours merge.
  for (size_t i = shape.size(); i-- > 0 && shape.size() > 1;)
    if (shape[i] == 1) {
      shape.erase(shape.begin() + i);
      for (Reader &reader : readers)
        reader.strides.erase(reader.strides.begin() + i);
    }
  mergeDimensions(shape, readers);

  ElementKind kind = kindOf(type.getElementType());
  for (int64_t first = 0; first < type.getNumElements(); first += kBlock) {
    int64_t count = std::min(kBlock, type.getNumElements() - first);
    for (auto [i, reader] : llvm::enumerate(readers))
      readBlock(reader, shape, first, count, body->argument(i));
    body->run(count);
    withArithmeticType(computeType(type.getElementType()), [&](auto number) {
      storeElements(reinterpret_cast<const decltype(number) *>(body->result()), kind, count, result.bytes->data() + first * bytesOf(kind));
    });
  }
  return result;
}

} // namespace ditc::dit
