// SPDX-License-Identifier: Apache-2.0
#include "passes/plan/Launches.h"

#include "dialects/fusion/Cost.h"

#include <numeric>

using namespace mlir;

namespace ditc {

/// Rows are dense and everything starts on 16 bytes, as the copy engine of a GPU wants it. One number of each row (the scale of
/// a quantised input) is loaded by threads: dense numbers are as good as rows.
static bool liesForTensorCopies(Value memref) {
  auto type = memoryType(memref);
  if (type.getRank() > 0 && type.getShape().back() == 1 && plan::isContiguous(type))
    return true;
  plan::Layout layout = plan::layoutOf(type);
  int64_t unit = std::max<int64_t>(kBufferAlignment / dit::elementBytes(type.getElementType()), 1);
  if (layout.offset % unit != 0)
    return false;
  for (auto [i, size] : llvm::enumerate(type.getShape())) {
    bool isLast = i + 1 == type.getShape().size();
    if (size > 1 && (isLast ? layout.strides[i] != 1 : layout.strides[i] == 0 || layout.strides[i] % unit != 0))
      return false;
  }
  return true;
}

void Launches::lower(Operation *op, KernelSpec spec) {
  SmallVector<Value> args;
  for (Value operand : op->getOperands())
    args.push_back(program.memoryOf(operand));
  bool prepared = llvm::all_of(args, isStable), forTensorCopies = spec.family == "gemm";
  if (forTensorCopies)
    for (Value &arg : args)
      if (!liesForTensorCopies(arg))
        arg = makeDense(op->getLoc(), arg);
  for (Value result : op->getResults()) {
    Value place = placement.allocate(op->getLoc(), result, prepared);
    if (forTensorCopies && !liesForTensorCopies(place))
      place = program.createResult(op->getLoc(), tensorType(result), prepared);
    program.setMemory(result, place);
    args.push_back(place);
  }
  if (!areTakenAsTheyLie(op, args)) {
    makeResultsDense(op, args, prepared); // costs nothing
    if (!areTakenAsTheyLie(op, args))
      makeOperandsDense(op, args);
  }
  spec.outputs = op->getNumResults();
  if (plan::LaunchOp launched = launch(op->getLoc(), spec, args, prepared)) {
    Work work = workOf(op);
    SmallVector<double> numbers{work.bytes(), work.matrixFlops, work.scalarFlops};
    if (work.fp8Flops > 0)
      numbers.push_back(work.fp8Flops);
    launched->setAttr(kWorkAttr, program.b.getDenseF64ArrayAttr(numbers));
  }
}

bool Launches::areTakenAsTheyLie(Operation *op, ArrayRef<Value> args) const {
  auto fusion = dyn_cast<dit::FusionOp>(op);
  return !fusion || !target.kernels ||
         target.kernels->takesLayouts(fusion, llvm::map_to_vector(args, [](Value arg) { return plan::withoutOffset(memoryType(arg)); }));
}

void Launches::makeOperandsDense(Operation *op, MutableArrayRef<Value> args) {
  for (Value &arg : args.take_front(op->getNumOperands()))
    arg = makeContiguous(op->getLoc(), arg);
}

/// They get memory of their own.
void Launches::makeResultsDense(Operation *op, MutableArrayRef<Value> args, bool prepared) {
  for (auto [result, place] : llvm::zip(op->getResults(), args.take_back(op->getNumResults())))
    if (!plan::isContiguous(memoryType(place)))
      program.setMemory(result, place = program.createResult(op->getLoc(), tensorType(result), prepared));
}

plan::LaunchOp Launches::launch(Location loc, KernelSpec spec, ArrayRef<Value> args, bool prepared) {
  if (llvm::all_of(args.take_back(spec.outputs), [](Value arg) { return memoryType(arg).getNumElements() == 0; }))
    return {};
  SmallVector<MemRefType> types;
  for (Value arg : args)
    types.push_back(plan::withoutOffset(memoryType(arg)));
  if (target.device)
    spec.config = deviceConfig(spec, args, prepared);
  FlatSymbolRefAttr kernel = kernels.get(loc, spec, types);
  program.setPhase(prepared);
  return plan::LaunchOp::create(program.b, loc, kernel, args);
}

/// Every buffer starts on a multiple of kBufferAlignment; the offset of a view may lower that. `stable`: what no kernel
/// of a step writes, so that products need not wait for their weights.
DictionaryAttr Launches::deviceConfig(const KernelSpec &spec, ArrayRef<Value> args, bool prepared) {
  SmallVector<int64_t> alignments, stable;
  for (auto [i, arg] : llvm::enumerate(args)) {
    auto type = memoryType(arg);
    alignments.push_back(std::gcd(kBufferAlignment, plan::layoutOf(type).offset * dit::elementBytes(type.getElementType())));
    if (!prepared && isStable(arg))
      stable.push_back(i);
  }
  NamedAttrList list(spec.config ? spec.config : program.b.getDictionaryAttr({}));
  list.set("alignments", program.b.getDenseI64ArrayAttr(alignments));
  if (spec.family == "gemm" && !stable.empty())
    list.set("stable", program.b.getDenseI64ArrayAttr(stable));
  if (target.keepRoundings && spec.family == "rowwise")
    list.set("keep_roundings", program.b.getUnitAttr());
  return list.getDictionary(program.b.getContext());
}

void Launches::copy(Location loc, Value from, Value to, bool prepared) {
  launch(loc, {.family = target.device ? "rowwise" : "map", .identity = true}, {from, to}, prepared);
}

Value Launches::makeContiguous(Location loc, Value source) { return plan::isContiguous(memoryType(source)) ? source : makeDense(loc, source); }

/// The copy, even of what is contiguous.
Value Launches::makeDense(Location loc, Value source) {
  auto type = memoryType(source);
  Value &dense = denseCopies[{plan::rootBuffer(source), type}];
  if (dense)
    return dense;
  bool prepared = isStable(source);
  dense = program.createResult(loc, RankedTensorType::get(type.getShape(), type.getElementType()), prepared);
  copy(loc, source, dense, prepared);
  return dense;
}

} // namespace ditc
