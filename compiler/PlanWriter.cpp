// SPDX-License-Identifier: Apache-2.0
#include "compiler/PlanWriter.h"

#include "dialects/Locations.h"
#include "dialects/dit/Dit.h"
#include "dialects/dit/Tensors.h"
#include "dialects/fusion/Cost.h"
#include "dialects/reference/Evaluate.h"
#include "runtime/Error.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace ditc {

DType dtypeOf(Type type) {
  if (type.isF64()) return DType::f64;
  if (type.isF32()) return DType::f32;
  if (type.isF16()) return DType::f16;
  if (type.isBF16()) return DType::bf16;
  if (is8BitFloat(type)) return DType::f8e4m3;
  if (type.isInteger(1)) return DType::b1;
  if (type.isInteger(8)) return type.isUnsignedInteger() ? DType::u8 : DType::i8;
  if (type.isInteger(16)) return DType::i16;
  if (type.isInteger(32)) return DType::i32;
  if (type.isInteger(64)) return DType::i64;
  std::string text;
  llvm::raw_string_ostream(text) << type;
  failInternal("element type {} has no stored form", text);
}

std::string describeLocation(Location loc) {
  NodeName name = nameOf(loc);
  return name.path.empty() ? name.node : fmt::format("{} ({})", name.path, name.node);
}

namespace {

class ProgramWriter {
public:
  ProgramWriter(plan::ProgramOp program, const StoreConstant &storeConstant) : program(program), storeConstant(storeConstant) {}

  Plan write() {
    result.arenaBytes = program.getArenaBytes().value_or(0);
    result.preparedBytes = program.getPreparedBytes().value_or(0);
    result.inputs.resize(program.getInputNames().size());
    result.outputs.resize(program.getOutputNames().size());
    for (plan::BufferOp buffer : program.getBody().getOps<plan::BufferOp>())
      writeBuffer(buffer);
    for (plan::PrepareOp prepare : program.getBody().getOps<plan::PrepareOp>())
      writeOps(prepare.getBody().front(), result.prepare);
    for (plan::StepOp step : program.getBody().getOps<plan::StepOp>())
      writeOps(step.getBody().front(), result.step);
    return std::move(result);
  }

private:
  static MemRefType typeOf(Value value) { return cast<MemRefType>(value.getType()); }

  void writeBuffer(plan::BufferOp op) {
    MemRefType type = typeOf(op);
    PlanBuffer buffer;
    buffer.space = static_cast<Space>(op.getSpace());
    buffer.index = op.getIndex().value_or(0);
    buffer.offset = op.getOffset().value_or(0);
    buffer.bytes = type.getNumElements() * dit::elementBytes(type.getElementType());
    if (buffer.space == Space::Zeroed)
      result.zeroedBytes = std::max(result.zeroedBytes, buffer.offset + buffer.bytes);
    if (op.getName())
      buffer.name = op.getName()->str();
    if (op.getValue())
      buffer.name = storeConstant(*dit::fromElements(*op.getValue()).bytes);
    if (op.getSpace() == plan::Space::Input)
      result.inputs[buffer.index] = port(type, program.getInputNames()[buffer.index]);
    if (op.getSpace() == plan::Space::Output)
      result.outputs[buffer.index] = port(type, program.getOutputNames()[buffer.index]);
    buffers[op] = result.buffers.size();
    result.buffers.push_back(buffer);
  }

  static PortDesc port(MemRefType type, Attribute name) {
    return {cast<StringAttr>(name).str(), dtypeOf(type.getElementType()), {type.getShape().begin(), type.getShape().end()}};
  }

  PlanPointer pointer(Value value) {
    MemRefType type = typeOf(value);
    bool isEmpty = type.getNumElements() == 0; // a part of a concat without elements may begin behind its end
    uint64_t offset = isEmpty ? 0 : plan::layoutOf(type).offset * dit::elementBytes(type.getElementType());
    return {static_cast<uint32_t>(buffers.at(plan::rootBuffer(value))), offset};
  }

  void writeOps(Block &block, std::vector<PlanOp> &ops) {
    for (Operation &op : block) {
      PlanOp entry;
      entry.where = describeLocation(op.getLoc());
      llvm::TypeSwitch<Operation *>(&op)
          .Case([&](plan::LaunchOp launch) {
            entry.body = writeLaunch(launch);
            if (auto work = launch->getAttrOfType<DenseF64ArrayAttr>(kWorkAttr))
              entry.work = {work[0], work[1], work[2], work.size() > 3 ? work[3] : 0};
          })
          .Case([&](plan::GemmOp gemm) { entry.body = writeGemm(gemm); })
          .Case([&](plan::CopyOp copy) {
            MemRefType type = typeOf(copy.getSource());
            entry.body = CopyOp{pointer(copy.getSource()), pointer(copy.getTarget()), static_cast<uint64_t>(type.getNumElements() * dit::elementBytes(type.getElementType()))};
          })
          .Default([](Operation *other) { failInternal("'{}' cannot be written into a plan", other->getName().getStringRef().str()); });
      ops.push_back(std::move(entry));
    }
  }

  LaunchOp writeLaunch(plan::LaunchOp op) {
    auto [entry, isNew] = kernels.try_emplace(op.getKernelAttr().getAttr(), result.kernels.size());
    if (isNew)
      result.kernels.push_back(op.getKernel().str());
    LaunchOp launch;
    launch.kernel = entry->second;
    for (Value arg : op.getArgs())
      launch.args.push_back(pointer(arg));
    return launch;
  }

  GemmOperand writeOperand(Value value) {
    MemRefType type = typeOf(value);
    plan::BlasMatrix matrix = *plan::blasMatrix(type); // plan.gemm verifies that there is one
    plan::Layout layout = plan::layoutOf(type);
    GemmOperand operand;
    operand.at = pointer(value);
    operand.transposed = matrix.transposed;
    operand.rowStride = matrix.rowStride;
    operand.batchStrides.assign(layout.strides.begin(), layout.strides.end() - 2);
    return operand;
  }

  GemmOp writeGemm(plan::GemmOp op) {
    MemRefType a = typeOf(op.getA()), c = typeOf(op.getC());
    GemmOp gemm;
    gemm.dtype = dtypeOf(c.getElementType());
    gemm.m = c.getDimSize(c.getRank() - 2);
    gemm.n = c.getDimSize(c.getRank() - 1);
    gemm.k = a.getDimSize(a.getRank() - 1);
    gemm.batch.assign(c.getShape().begin(), c.getShape().end() - 2);
    gemm.a = writeOperand(op.getA());
    gemm.b = writeOperand(op.getB());
    gemm.c = writeOperand(op.getC());
    if (op.getBias())
      gemm.bias = pointer(op.getBias());
    return gemm;
  }

  plan::ProgramOp program;
  const StoreConstant &storeConstant;
  Plan result;
  llvm::DenseMap<Operation *, size_t> buffers;
  llvm::DenseMap<StringAttr, uint32_t> kernels;
};

} // namespace

Plan writePlanProgram(plan::ProgramOp program, const StoreConstant &storeConstant) { return ProgramWriter(program, storeConstant).write(); }

} // namespace ditc
