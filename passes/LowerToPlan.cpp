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

#include "passes/Passes.h"
#include "passes/Strided.h"
#include "passes/plan/Products.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace ditc {
#define GEN_PASS_DEF_LOWERTOPLAN
#include "passes/Passes.h.inc"

namespace {

/// The same elements at the same places; the stride of a dimension of size 1 says nothing.
bool isSameMemory(Value a, Value b) {
  auto first = memoryType(a), second = memoryType(b);
  plan::Layout x = plan::layoutOf(first), y = plan::layoutOf(second);
  if (plan::rootBuffer(a) != plan::rootBuffer(b) || first.getShape() != second.getShape() || x.offset != y.offset)
    return false;
  return llvm::all_of(llvm::seq<size_t>(0, x.strides.size()), [&](size_t i) { return first.getDimSize(i) == 1 || x.strides[i] == y.strides[i]; });
}

class FunctionLowering {
public:
  FunctionLowering(func::FuncOp function, KernelTable &kernels, const PlanTarget &target)
      : function(function), target(target), program(function), placement(function, program, target.device), launches(program, placement, kernels, target),
        products(program, placement, launches, target.device) {}

  void run() {
    for (Operation &op : function.getBody().front().without_terminator())
      lower(&op);
    storeOutputs();
  }

private:
  void lower(Operation *op) {
    if (dit::isViewOp(op))
      return lowerView(op);
    llvm::TypeSwitch<Operation *>(op)
        .Case([&](dit::ConstantOp constant) { bind(constant, plan::Space::Constant, {.value = constant.getValue()}); })
        .Case([&](dit::WeightOp weight) { bind(weight, plan::Space::Weight, {.name = weight.getName()}); })
        .Case([&](dit::MatmulOp matmul) { products.lower(matmul); })
        .Case([&](dit::ConcatOp concat) { lowerConcat(concat); })
        .Case([&](dit::FusionOp fusion) { lowerFusion(fusion); })
        .Default([&](Operation *) { launches.lower(op, kernelSpecOf(op)); });
  }

  void bind(Value tensor, plan::Space space, BufferInfo info) {
    program.setMemory(tensor, program.createBuffer(tensor.getLoc(), tensorType(tensor), space, info));
  }

  /// Where the target has no kernel for whole fusions the body's operations run one by one.
  void lowerFusion(dit::FusionOp op) {
    if (target.device)
      return launches.lower(op, {.family = op.getFamily(), .body = &op.getBody()});
    for (auto [argument, input] : llvm::zip(op.getBodyBlock().getArguments(), op.getInputs()))
      program.setMemory(argument, program.memoryOf(input));
    for (Operation &inner : op.getBodyBlock().without_terminator())
      lower(&inner);
    for (auto [result, value] : llvm::zip(op.getResults(), op.getBodyBlock().getTerminator()->getOperands()))
      program.setMemory(result, program.memoryOf(value));
  }

  void lowerView(Operation *op) {
    Value source = program.memoryOf(op->getOperand(0));
    std::optional<plan::Layout> layout = viewLayout(op, plan::layoutOf(memoryType(source)));
    if (!layout) {
      source = denseFor(op->getOperand(0), source);
      layout = viewLayout(op, plan::layoutOf(memoryType(source)));
    }
    program.setMemory(op->getResult(0), program.createView(op->getLoc(), source, tensorType(op->getResult(0)).getShape(), *layout));
  }

  /// A dense copy of what lies permuted at `source`: in the output that it ends in (patches become an image), or anywhere.
  Value denseFor(Value tensor, Value source) {
    Value destination = isStable(source) ? Value() : placement.denseDestination(tensor);
    if (!destination)
      return launches.makeContiguous(tensor.getLoc(), source);
    launches.copy(tensor.getLoc(), source, destination, /*prepared=*/false);
    return destination;
  }

  void lowerConcat(dit::ConcatOp op) {
    bool prepared = llvm::all_of(op.getInputs(), [&](Value input) { return isStable(program.memoryOf(input)); });
    Value result = placement.concatMemoryOf(op);
    if (!result)
      result = placement.allocate(op.getLoc(), op.getResult(), prepared);
    program.setMemory(op.getResult(), result);
    plan::Layout layout = plan::layoutOf(memoryType(result));
    for (Value input : op.getInputs()) {
      ArrayRef<int64_t> shape = tensorType(input).getShape();
      Value place = program.createView(op.getLoc(), result, shape, layout);
      if (tensorType(input).getNumElements() > 0 && !isSameMemory(program.memoryOf(input), place))
        launches.copy(op.getLoc(), program.memoryOf(input), place, prepared);
      layout.offset += layout.strides[op.getAxis()] * shape[op.getAxis()];
    }
  }

  void storeOutputs() {
    for (auto [value, output] : llvm::zip(function.getBody().front().getTerminator()->getOperands(), placement.outputBuffers())) {
      Value source = program.memoryOf(value);
      if (plan::rootBuffer(source) == plan::rootBuffer(output))
        continue;
      if (plan::isContiguous(memoryType(source))) {
        program.setPhase(/*prepared=*/false);
        plan::CopyOp::create(program.b, value.getLoc(), source, output);
      } else {
        launches.copy(value.getLoc(), source, output, /*prepared=*/false);
      }
    }
  }

  func::FuncOp function;
  const PlanTarget &target;
  ProgramBuilder program;
  Placement placement;
  Launches launches;
  Products products;
};

class LowerToPlan : public impl::LowerToPlanBase<LowerToPlan> {
public:
  using LowerToPlanBase::LowerToPlanBase;
  LowerToPlan(const LowerToPlanOptions &options, std::shared_ptr<const TargetKernels> target) : LowerToPlanBase(options), target(std::move(target)) {}

private:
  void runOnOperation() override {
    KernelTable kernels(getOperation());
    PlanTarget planTarget{device, keepRoundings, target.get()};
    for (func::FuncOp function : llvm::make_early_inc_range(getOperation().getOps<func::FuncOp>())) {
      FunctionLowering(function, kernels, planTarget).run();
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
