// SPDX-License-Identifier: Apache-2.0
//
// LowerToPlan: each function (a bucket) becomes a plan.program. Tensors become buffers, view operations
// become other shapes and strides of a buffer, every other operation becomes one launch of a kernel, an
// f32 or f64 product becomes a BLAS call. Kernels that are equal (family, configuration, argument shapes
// and strides, body) are one kernel: repeated blocks are compiled once. What depends on weights and
// constants only goes to `prepare`, which runs once per set of weights.
//
// Before:
//   func.func @b(%x: tensor<2x3xf32> {dit.name = "x"}) -> (tensor<3x2xf32> {dit.name = "y"}) {
//     %t = dit.permute %x [1, 0] : tensor<2x3xf32> -> tensor<3x2xf32>
//     %y = dit.map(%t) : (tensor<3x2xf32>) -> tensor<3x2xf32> {
//     ^bb0(%p: f32):
//       %q = math.exp %p : f32
//       dit.yield %q : f32
//     }
//     return %y : tensor<3x2xf32>
//   }
// After:
//   plan.program @b inputs ["x"] outputs ["y"] {
//     %x = plan.buffer input {index = 0 : i64} : memref<2x3xf32>
//     %y = plan.buffer output {index = 0 : i64} : memref<3x2xf32>
//     %t = plan.view %x : memref<2x3xf32> -> memref<3x2xf32, strided<[1, 3]>>
//     plan.prepare { }
//     plan.step {
//       plan.launch @map_b563ed7647d4fba024ef(%t, %y) {plan.work = array<f64: 4.800000e+01, 0.000000e+00, 6.000000e+00>} : memref<3x2xf32, strided<[1, 3]>>, memref<3x2xf32>
//     }
//   }
//   plan.kernel @map_b563ed7647d4fba024ef family "map" args [memref<3x2xf32, strided<[1, 3]>>, memref<3x2xf32>] outputs 1 config {} {
//   ^bb0(%p: f32):
//     %q = math.exp %p : f32
//     dit.yield %q : f32
//   }
//
// For a device (option `device`) a fusion is one launch, and a result is written where it is wanted: in the order of
// dimensions that its reader permutes it to, or into its place in a concat. Its kernels are told which alignment each
// argument has.
#include "passes/LowerToPlan.h"

#include "dialects/fusion/Cost.h"
#include "passes/KernelTable.h"
#include "passes/Passes.h"
#include "passes/Strided.h"

#include "llvm/ADT/TypeSwitch.h"

#include <numeric>

using namespace mlir;

namespace ditc {
#define GEN_PASS_DEF_LOWERTOPLAN
#include "passes/Passes.h.inc"

namespace {

RankedTensorType tensorType(Value value) { return cast<RankedTensorType>(value.getType()); }

/// What the memory of inputs, outputs, weights and the arena is aligned to, in bytes: the widest load of a device.
constexpr int64_t kBufferAlignment = 16;

/// What a buffer is bound to, by space.
struct BufferInfo {
  std::optional<unsigned> index = {};
  StringRef name = {};
  ElementsAttr value = {};
};

class FunctionLowering {
public:
  FunctionLowering(func::FuncOp function, KernelTable &kernels, bool device, bool keepRoundings, const TargetKernels *target)
      : function(function), kernels(kernels), device(device), keepRoundings(keepRoundings), target(target), b(function) {}

  void run() {
    createProgram();
    chooseDestinations();
    for (Operation &op : function.getBody().front().without_terminator())
      lower(&op);
    storeOutputs();
  }

private:
  //===-- Program, buffers, views -----------------------------------------------------------------===//

  void createProgram() {
    SmallVector<Attribute> inputs, outputs;
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      inputs.push_back(nameOf(function.getArgAttr(i, "dit.name"), "input", i));
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      outputs.push_back(nameOf(function.getResultAttr(i, "dit.name"), "output", i));
    auto program = plan::ProgramOp::create(b, function.getLoc(), function.getSymNameAttr(), b.getArrayAttr(inputs), b.getArrayAttr(outputs), IntegerAttr(), IntegerAttr());
    OpBuilder::InsertionGuard guard(b);
    b.createBlock(&program.getBody());
    auto prepare = plan::PrepareOp::create(b, function.getLoc());
    prepareBlock = b.createBlock(&prepare.getBody());
    b.setInsertionPointAfter(prepare);
    auto step = plan::StepOp::create(b, function.getLoc());
    stepBlock = b.createBlock(&step.getBody());
    firstPhase = prepare;
    for (BlockArgument argument : function.getArguments())
      memory[argument] = createBuffer(argument.getLoc(), tensorType(argument), plan::Space::Input, {.index = argument.getArgNumber()});
  }

  Attribute nameOf(Attribute given, StringRef prefix, unsigned i) { return given ? given : b.getStringAttr(prefix + Twine(i)); }

  Value createBuffer(Location loc, RankedTensorType type, plan::Space space, BufferInfo info = {}) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(firstPhase);
    return plan::BufferOp::create(b, loc, MemRefType::get(type.getShape(), type.getElementType()), space,
                                  info.index ? b.getI64IntegerAttr(*info.index) : IntegerAttr(), info.name.empty() ? StringAttr() : b.getStringAttr(info.name),
                                  IntegerAttr(), info.value);
  }

  Value createView(Location loc, Value source, ArrayRef<int64_t> shape, const plan::Layout &layout) {
    auto type = plan::makeMemRef(shape, cast<MemRefType>(source.getType()).getElementType(), layout);
    if (type == source.getType())
      return source;
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(firstPhase);
    while (auto inner = source.getDefiningOp<plan::ViewOp>()) // views are absolute: one level is enough
      source = inner.getSource();
    return plan::ViewOp::create(b, loc, type, source);
  }

  /// The value whose elements, in order, `value` has: behind reshapes, and inside fusions that run one by one.
  Value computedValue(Value value) const {
    while (Operation *def = value.getDefiningOp()) {
      if (auto view = dyn_cast<dit::ViewOp>(def))
        value = view.getInput();
      else if (auto fusion = dyn_cast<dit::FusionOp>(def); fusion && !device)
        value = fusion.getBodyBlock().getTerminator()->getOperand(cast<OpResult>(value).getResultNumber());
      else
        break;
    }
    return value;
  }

  /// Returned values are written in place when the operation that computes them can do so.
  void chooseDestinations() {
    auto results = function.getBody().front().getTerminator()->getOperands();
    for (auto [i, value] : llvm::enumerate(results)) {
      outputs.push_back(createBuffer(value.getLoc(), tensorType(value), plan::Space::Output, {.index = static_cast<unsigned>(i)}));
      Value source = computedValue(value);
      if (source.getDefiningOp() && !dit::isViewOp(source.getDefiningOp()) && !destinations.contains(source))
        destinations[source] = createView(value.getLoc(), outputs.back(), tensorType(source).getShape(), {plan::contiguousStrides(tensorType(source).getShape()), 0});
    }
  }

  void storeOutputs() {
    for (auto [value, output] : llvm::zip(function.getBody().front().getTerminator()->getOperands(), outputs)) {
      Value source = memory.lookup(value);
      if (plan::rootBuffer(source) == plan::rootBuffer(output))
        continue;
      auto sourceType = cast<MemRefType>(source.getType());
      if (plan::isContiguous(sourceType)) {
        b.setInsertionPointToEnd(stepBlock);
        plan::CopyOp::create(b, value.getLoc(), source, output);
      } else {
        launchIdentity(value.getLoc(), source, output, /*prepared=*/false);
      }
    }
  }

  //===-- Launches --------------------------------------------------------------------------------===//

  /// True for memory that does not change between runs.
  static bool isStable(Value memref) {
    plan::Space space = plan::rootBuffer(memref).getSpace();
    return space == plan::Space::Weight || space == plan::Space::Constant || space == plan::Space::Prepared;
  }

  Value allocate(Location loc, Value tensor, bool prepared) {
    if (prepared)
      return createBuffer(loc, tensorType(tensor), plan::Space::Prepared);
    if (Value destination = destinations.lookup(tensor))
      return destination;
    if (device)
      if (Value destination = placeForReader(loc, tensor))
        return destination;
    return createBuffer(loc, tensorType(tensor), plan::Space::Arena);
  }

  /// Memory for `tensor` as its reader wants it to lie: the place in a concat, or the dense layout of a permuted view.
  /// Null when no reader has such a wish.
  Value placeForReader(Location loc, Value tensor) {
    if (Value known = memory.lookup(tensor))
      return known;
    for (OpOperand &use : tensor.getUses())
      if (auto concat = dyn_cast<dit::ConcatOp>(use.getOwner()))
        if (Value place = placeInConcat(concat, use.getOperandNumber()))
          return place;
    if (!tensor.hasOneUse() || !isa<dit::ViewOp, dit::PermuteOp>(*tensor.user_begin()))
      return {};
    Operation *view = *tensor.user_begin();
    Value result = view->getResult(0);
    Value place = destinations.lookup(result);
    if (!place)
      place = placeForReader(loc, result);
    bool wanted = place || isa<dit::PermuteOp>(view);
    if (!wanted)
      return {};
    if (!place)
      place = createBuffer(loc, tensorType(result), plan::Space::Arena);
    std::optional<plan::Layout> layout = layoutBefore(view, plan::layoutOf(cast<MemRefType>(place.getType())));
    return layout ? createView(loc, place, tensorType(tensor).getShape(), *layout) : Value();
  }

  /// The layout of a view's input, given that of its result.
  static std::optional<plan::Layout> layoutBefore(Operation *view, const plan::Layout &layout) {
    ArrayRef<int64_t> from = tensorType(view->getOperand(0)).getShape(), to = tensorType(view->getResult(0)).getShape();
    auto permute = dyn_cast<dit::PermuteOp>(view);
    if (!permute)
      return reshapeLayout(to, layout, from);
    plan::Layout result{SmallVector<int64_t>(from.size()), layout.offset};
    for (auto [i, dim] : llvm::enumerate(permute.getPermutation()))
      result.strides[dim] = layout.strides[i];
    return result;
  }

  /// The slice of the concat's memory that operand `index` takes; null for parts that are known early.
  Value placeInConcat(dit::ConcatOp concat, unsigned index) {
    if (llvm::count(concat.getInputs(), concat.getInputs()[index]) > 1)
      return {};
    Value &whole = concatMemory[concat];
    if (!whole)
      whole = destinations.lookup(concat.getResult());
    if (!whole)
      whole = placeForReader(concat.getLoc(), concat.getResult());
    if (!whole)
      whole = createConcatBuffer(concat);
    plan::Layout layout = plan::layoutOf(cast<MemRefType>(whole.getType()));
    for (Value input : concat.getInputs().take_front(index))
      layout.offset += layout.strides[concat.getAxis()] * tensorType(input).getDimSize(concat.getAxis());
    return createView(concat.getLoc(), whole, tensorType(concat.getInputs()[index]).getShape(), layout);
  }

  void setPhase(bool prepared) { b.setInsertionPointToEnd(prepared ? prepareBlock : stepBlock); }

  /// Null when there is nothing to write.
  plan::LaunchOp launch(Location loc, KernelSpec spec, ArrayRef<Value> args, bool prepared) {
    for (Value arg : args)
      if (cast<MemRefType>(arg.getType()).getNumElements() == 0 && llvm::is_contained(ArrayRef(args).take_back(spec.outputs), arg))
        return {};
    SmallVector<MemRefType> types;
    for (Value arg : args)
      types.push_back(plan::withoutOffset(cast<MemRefType>(arg.getType())));
    if (device)
      spec.config = deviceConfig(spec, args, prepared);
    FlatSymbolRefAttr kernel = kernels.get(loc, spec, types);
    setPhase(prepared);
    return plan::LaunchOp::create(b, loc, kernel, args);
  }

  /// Every buffer starts on a multiple of kBufferAlignment; the offset of a view may lower that. `stable`: what no kernel
  /// of a step writes, so that products need not wait for their weights.
  DictionaryAttr deviceConfig(const KernelSpec &spec, ArrayRef<Value> args, bool prepared) {
    SmallVector<int64_t> alignments, stable;
    for (auto [i, arg] : llvm::enumerate(args)) {
      auto type = cast<MemRefType>(arg.getType());
      alignments.push_back(std::gcd(kBufferAlignment, plan::layoutOf(type).offset * dit::elementBytes(type.getElementType())));
      if (!prepared && isStable(arg))
        stable.push_back(i);
    }
    NamedAttrList list(spec.config ? spec.config : b.getDictionaryAttr({}));
    list.set("alignments", b.getDenseI64ArrayAttr(alignments));
    if (spec.family == "gemm" && !stable.empty())
      list.set("stable", b.getDenseI64ArrayAttr(stable));
    if (keepRoundings && spec.family == "rowwise")
      list.set("keep_roundings", b.getUnitAttr());
    return list.getDictionary(b.getContext());
  }

  void launchIdentity(Location loc, Value source, Value target, bool prepared) {
    launch(loc, {.family = device ? "rowwise" : "map", .identity = true}, {source, target}, prepared);
  }

  /// A dense copy, made once however often it is asked for (Q, K and V read one input). Buffers hold one tensor
  /// each, so what was copied does not change.
  Value makeContiguous(Location loc, Value source) {
    auto type = cast<MemRefType>(source.getType());
    if (plan::isContiguous(type))
      return source;
    return makeDense(loc, source);
  }

  /// The copy, even of what is contiguous.
  Value makeDense(Location loc, Value source) {
    auto type = cast<MemRefType>(source.getType());
    Value &copy = denseCopies[{plan::rootBuffer(source), type}];
    if (copy)
      return copy;
    bool prepared = isStable(source);
    copy = createBuffer(loc, RankedTensorType::get(type.getShape(), type.getElementType()), prepared ? plan::Space::Prepared : plan::Space::Arena);
    launchIdentity(loc, source, copy, prepared);
    return copy;
  }

  /// One launch that reads the operands as they lie and writes the results densely.
  void lowerToLaunch(Operation *op, KernelSpec spec) {
    SmallVector<Value> args;
    for (Value operand : op->getOperands())
      args.push_back(memory.lookup(operand));
    bool prepared = llvm::all_of(args, isStable), forTensorCopies = spec.family == "gemm";
    if (forTensorCopies)
      for (Value &arg : args)
        if (!liesForTensorCopies(arg))
          arg = makeDense(op->getLoc(), arg);
    for (Value result : op->getResults()) {
      Value place = allocate(op->getLoc(), result, prepared);
      if (forTensorCopies && !liesForTensorCopies(place))
        place = createBuffer(op->getLoc(), tensorType(result), prepared ? plan::Space::Prepared : plan::Space::Arena);
      memory[result] = place;
      args.push_back(place);
    }
    if (!areTakenAsTheyLie(op, args))
      makeAllDense(op, args, prepared);
    spec.outputs = op->getNumResults();
    if (plan::LaunchOp launched = launch(op->getLoc(), spec, args, prepared)) {
      Work work = workOf(op);
      launched->setAttr(kWorkAttr, b.getDenseF64ArrayAttr({work.bytes(), work.matrixFlops, work.scalarFlops}));
    }
  }

  bool areTakenAsTheyLie(Operation *op, ArrayRef<Value> args) const {
    auto fusion = dyn_cast<dit::FusionOp>(op);
    return !fusion || !target || target->takesLayouts(fusion, llvm::map_to_vector(args, [](Value arg) { return plan::withoutOffset(cast<MemRefType>(arg.getType())); }));
  }

  /// Operands are copied, results get memory of their own.
  void makeAllDense(Operation *op, MutableArrayRef<Value> args, bool prepared) {
    for (Value &arg : args.take_front(op->getNumOperands()))
      arg = makeContiguous(op->getLoc(), arg);
    for (auto [result, place] : llvm::zip(op->getResults(), args.take_back(op->getNumResults())))
      if (!plan::isContiguous(cast<MemRefType>(place.getType())))
        memory[result] = place = createBuffer(op->getLoc(), tensorType(result), prepared ? plan::Space::Prepared : plan::Space::Arena);
  }

  /// Rows are dense and everything starts on 16 bytes, as the copy engine of a GPU wants it.
  static bool liesForTensorCopies(Value memref) {
    auto type = cast<MemRefType>(memref.getType());
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

  //===-- Operations ------------------------------------------------------------------------------===//

  void lower(Operation *op) {
    if (dit::isViewOp(op))
      return lowerView(op);
    llvm::TypeSwitch<Operation *>(op)
        .Case([&](dit::ConstantOp constant) { memory[constant] = createBuffer(op->getLoc(), tensorType(constant), plan::Space::Constant, {.value = constant.getValue()}); })
        .Case([&](dit::WeightOp weight) { memory[weight] = createBuffer(op->getLoc(), tensorType(weight), plan::Space::Weight, {.name = weight.getName()}); })
        .Case([&](dit::MatmulOp matmul) { lowerMatmul(matmul); })
        .Case([&](dit::ConcatOp concat) { lowerConcat(concat); })
        .Case([&](dit::FusionOp fusion) { lowerFusion(fusion); })
        .Default([&](Operation *) { lowerToLaunch(op, kernelSpecOf(op)); });
  }

  /// Where the target has no kernel for whole fusions the body's operations run one by one.
  void lowerFusion(dit::FusionOp op) {
    if (device)
      return lowerToLaunch(op, {.family = op.getFamily(), .body = &op.getBody()});
    for (auto [argument, input] : llvm::zip(op.getBodyBlock().getArguments(), op.getInputs()))
      memory[argument] = memory.lookup(input);
    for (Operation &inner : op.getBodyBlock().without_terminator())
      lower(&inner);
    for (auto [result, value] : llvm::zip(op.getResults(), op.getBodyBlock().getTerminator()->getOperands()))
      memory[result] = memory.lookup(value);
  }

  void lowerView(Operation *op) {
    Value source = memory.lookup(op->getOperand(0));
    std::optional<plan::Layout> layout = viewLayout(op, plan::layoutOf(cast<MemRefType>(source.getType())));
    if (!layout) {
      source = makeContiguous(op->getLoc(), source);
      layout = viewLayout(op, plan::layoutOf(cast<MemRefType>(source.getType())));
    }
    memory[op->getResult(0)] = createView(op->getLoc(), source, tensorType(op->getResult(0)).getShape(), *layout);
  }

  /// Parts that all come permuted alike (tokens and heads change places) are joined in the order they had before.
  Value createConcatBuffer(dit::ConcatOp concat) {
    auto first = concat.getInputs().front().getDefiningOp<dit::PermuteOp>();
    bool alike = first && llvm::all_of(concat.getInputs(), [&](Value input) {
      auto permute = input.getDefiningOp<dit::PermuteOp>();
      return permute && permute.getPermutation() == first.getPermutation();
    });
    auto type = tensorType(concat.getResult());
    if (!alike)
      return createBuffer(concat.getLoc(), type, plan::Space::Arena);
    SmallVector<int64_t> shape(type.getRank());
    for (auto [i, dim] : llvm::enumerate(first.getPermutation()))
      shape[dim] = type.getDimSize(i);
    Value buffer = createBuffer(concat.getLoc(), type.clone(shape), plan::Space::Arena);
    plan::Layout before = plan::layoutOf(cast<MemRefType>(buffer.getType())), layout{SmallVector<int64_t>(type.getRank()), 0};
    for (auto [i, dim] : llvm::enumerate(first.getPermutation()))
      layout.strides[i] = before.strides[dim];
    return createView(concat.getLoc(), buffer, type.getShape(), layout);
  }

  void lowerConcat(dit::ConcatOp op) {
    bool prepared = llvm::all_of(op.getInputs(), [&](Value input) { return isStable(memory.lookup(input)); });
    Value result = concatMemory.lookup(op);
    if (!result)
      result = allocate(op.getLoc(), op.getResult(), prepared);
    memory[op.getResult()] = result;
    plan::Layout layout = plan::layoutOf(cast<MemRefType>(result.getType()));
    for (Value input : op.getInputs()) {
      ArrayRef<int64_t> shape = tensorType(input).getShape();
      Value place = createView(op.getLoc(), result, shape, layout);
      if (tensorType(input).getNumElements() > 0 && !isSameMemory(memory.lookup(input), place))
        launchIdentity(op.getLoc(), memory.lookup(input), place, prepared);
      layout.offset += layout.strides[op.getAxis()] * shape[op.getAxis()];
    }
  }

  /// The same elements at the same places; the stride of a dimension of size 1 says nothing.
  static bool isSameMemory(Value a, Value b) {
    auto first = cast<MemRefType>(a.getType()), second = cast<MemRefType>(b.getType());
    plan::Layout x = plan::layoutOf(first), y = plan::layoutOf(second);
    if (plan::rootBuffer(a) != plan::rootBuffer(b) || first.getShape() != second.getShape() || x.offset != y.offset)
      return false;
    return llvm::all_of(llvm::seq<size_t>(0, x.strides.size()), [&](size_t i) { return first.getDimSize(i) == 1 || x.strides[i] == y.strides[i]; });
  }

  /// The operand under `shape` (leading dimensions of size 1 repeated), as a matrix that the BLAS can read.
  Value blasOperand(Location loc, Value source, ArrayRef<int64_t> batch) {
    if (!plan::blasMatrix(cast<MemRefType>(source.getType())))
      source = makeContiguous(loc, source);
    auto type = cast<MemRefType>(source.getType());
    plan::Layout layout = plan::layoutOf(type);
    plan::Layout result{SmallVector<int64_t>(batch.size(), 0), layout.offset};
    size_t missing = batch.size() + 2 - type.getRank();
    for (size_t i = missing; i < batch.size(); ++i)
      result.strides[i] = type.getDimSize(i - missing) == 1 ? 0 : layout.strides[i - missing];
    SmallVector<int64_t> shape(batch);
    llvm::append_range(shape, type.getShape().take_back(2));
    llvm::append_range(result.strides, ArrayRef(layout.strides).take_back(2));
    return createView(loc, source, shape, result);
  }

  void lowerMatmul(dit::MatmulOp op) {
    auto type = tensorType(op.getResult());
    bool isForBlas = device ? isa<FloatType>(type.getElementType()) : type.getElementType().isF32() || type.getElementType().isF64();
    if (!isForBlas)
      return lowerGenericMatmul(op);
    Location loc = op.getLoc();
    Value lhs = memory.lookup(op.getLhs()), rhs = memory.lookup(op.getRhs());
    bool prepared = isStable(lhs) && isStable(rhs);
    Value result = allocate(loc, op.getResult(), prepared);
    // A shared right side: the batch joins the rows when the left side lies so, and one product serves all.
    SmallVector<int64_t> batch(type.getShape().drop_back(2));
    int64_t k = tensorType(op.getLhs()).getShape().back(), rows = tensorType(op.getLhs()).getNumElements() / std::max<int64_t>(k, 1);
    bool joinsRows = tensorType(op.getRhs()).getRank() == 2 && !batch.empty() && k > 0;
    if (!isWritableByBlas(result, joinsRows ? ArrayRef<int64_t>{rows, type.getShape().back()} : type.getShape()))
      result = createBuffer(loc, type, prepared ? plan::Space::Prepared : plan::Space::Arena);
    memory[op.getResult()] = result;
    if (type.getNumElements() == 0)
      return;
    if (op.getTransposeRhs())
      rhs = transposed(loc, rhs);
    if (joinsRows) {
      lhs = flattenRows(loc, lhs, {rows, k});
      result = flattenRows(loc, result, {rows, type.getShape().back()});
      batch.clear();
    }
    lhs = blasOperand(loc, lhs, batch);
    rhs = blasOperand(loc, rhs, batch);
    setPhase(prepared);
    plan::GemmOp::create(b, loc, lhs, rhs, result, op.getBias() ? makeContiguous(loc, memory.lookup(op.getBias())) : Value());
  }

  /// Rows of the result lie apart by any stride, but a row is dense.
  static bool isWritableByBlas(Value memref, ArrayRef<int64_t> shape) {
    auto type = cast<MemRefType>(memref.getType());
    std::optional<plan::Layout> layout = reshapeLayout(type.getShape(), plan::layoutOf(type), shape);
    if (!layout)
      return false;
    std::optional<plan::BlasMatrix> matrix = plan::blasMatrix(plan::makeMemRef(shape, type.getElementType(), *layout));
    return matrix && !matrix->transposed;
  }

  /// The same elements as a matrix of `shape`, copied when they do not lie so.
  Value flattenRows(Location loc, Value lhs, ArrayRef<int64_t> shape) {
    auto type = cast<MemRefType>(lhs.getType());
    std::optional<plan::Layout> layout = reshapeLayout(type.getShape(), plan::layoutOf(type), shape);
    if (!layout) {
      lhs = makeContiguous(loc, lhs);
      layout = plan::layoutOf(cast<MemRefType>(lhs.getType()));
      layout->strides = plan::contiguousStrides(shape);
    }
    return createView(loc, lhs, shape, *layout);
  }

  Value transposed(Location loc, Value source) {
    auto type = cast<MemRefType>(source.getType());
    plan::Layout layout = plan::layoutOf(type);
    SmallVector<int64_t> shape(type.getShape());
    std::swap(shape[shape.size() - 1], shape[shape.size() - 2]);
    std::swap(layout.strides[shape.size() - 1], layout.strides[shape.size() - 2]);
    return createView(loc, source, shape, layout);
  }

  /// Integer products, which no BLAS has: a kernel that reads b as [..., K, N] whatever its strides.
  void lowerGenericMatmul(dit::MatmulOp op) {
    Location loc = op.getLoc();
    Value lhs = memory.lookup(op.getLhs()), rhs = memory.lookup(op.getRhs());
    bool prepared = isStable(lhs) && isStable(rhs);
    if (op.getTransposeRhs())
      rhs = transposed(loc, rhs);
    SmallVector<int64_t> batch(tensorType(op.getResult()).getShape().drop_back(2));
    lhs = blasOperand(loc, lhs, batch);
    rhs = blasOperand(loc, rhs, batch);
    memory[op.getResult()] = allocate(loc, op.getResult(), prepared);
    launch(loc, {.family = "matmul", .config = b.getDictionaryAttr({})}, {lhs, rhs, memory[op.getResult()]}, prepared);
  }

  func::FuncOp function;
  KernelTable &kernels;
  bool device, keepRoundings; ///< kernels take whole fusions and write any strides
  const TargetKernels *target; ///< may be null: every layout is taken
  OpBuilder b;
  Operation *firstPhase = nullptr;
  Block *prepareBlock = nullptr, *stepBlock = nullptr;
  SmallVector<Value> outputs;
  llvm::DenseMap<Value, Value> memory;       ///< tensor -> memref that holds it
  llvm::DenseMap<std::pair<Operation *, Type>, Value> denseCopies; ///< buffer and layout -> its dense copy
  llvm::DenseMap<Operation *, Value> concatMemory; ///< concat -> its memory, once a part has been placed in it
  llvm::DenseMap<Value, Value> destinations; ///< returned tensor -> the output that it is written to
};

class LowerToPlan : public impl::LowerToPlanBase<LowerToPlan> {
public:
  using LowerToPlanBase::LowerToPlanBase;
  LowerToPlan(const LowerToPlanOptions &options, std::shared_ptr<const TargetKernels> target) : LowerToPlanBase(options), target(std::move(target)) {}

private:
  void runOnOperation() override {
    KernelTable kernels(getOperation());
    for (func::FuncOp function : llvm::make_early_inc_range(getOperation().getOps<func::FuncOp>())) {
      FunctionLowering(function, kernels, device, keepRoundings, target.get()).run();
      function.erase();
    }
  }

  std::shared_ptr<const TargetKernels> target;
};

} // namespace

std::unique_ptr<Pass> createLowerToPlan(bool keepRoundings, std::shared_ptr<const TargetKernels> kernels) {
  return std::make_unique<LowerToPlan>(LowerToPlanOptions{.device = true, .keepRoundings = keepRoundings}, std::move(kernels));
}

} // namespace ditc
