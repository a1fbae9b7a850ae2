// SPDX-License-Identifier: Apache-2.0
//
// PlanConvolutions: lays out the operands of convolutions as the target's fastest kernel reads them, with channels as the
// innermost dimension, filled up with zeros. A filter is laid out once, when weights are bound; an image by a launch in
// front of the first convolution that reads it. What lies so already (tokens that became an image) stays where it is. The
// target says what it wants (TargetKernels::needsOfConv); the kernel's own arguments keep their shapes, only strides differ.
//
// Before:
//   plan.program @b inputs ["x"] outputs ["y"] {
//     %x = plan.buffer input {index = 0 : i64} : memref<1x12x8x8xbf16>
//     %w = plan.buffer weight {name = "w"} : memref<16x12x3x3xbf16>
//     %y = plan.buffer output {index = 0 : i64} : memref<1x16x8x8xbf16>
//     plan.prepare {
//     }
//     plan.step {
//       plan.launch @conv(%x, %w, %y) : memref<1x12x8x8xbf16>, memref<16x12x3x3xbf16>, memref<1x16x8x8xbf16>
//     }
//   }
//   plan.kernel @conv family "conv" args [memref<1x12x8x8xbf16>, memref<16x12x3x3xbf16>, memref<1x16x8x8xbf16>] outputs 1
//     config {alignments = array<i64: 16, 16, 16>, dilations = array<i64: 1, 1>, groups = 1 : i64, has_bias = false, padding_high = array<i64: 1, 1>, padding_low = array<i64: 1, 1>, strides = array<i64: 1, 1>} {
//   }
// After:
//   plan.program @b inputs ["x"] outputs ["y"] {
//     %x = plan.buffer input {index = 0 : i64} : memref<1x12x8x8xbf16>
//     %w = plan.buffer weight {name = "w"} : memref<16x12x3x3xbf16>
//     %y = plan.buffer output {index = 0 : i64} : memref<1x16x8x8xbf16>
//     %image = plan.buffer arena : memref<1x8x8x16xbf16>
//     %pixels = plan.view %image : memref<1x8x8x16xbf16> -> memref<1x16x8x8xbf16, strided<[1024, 1, 128, 16]>>
//     %laid = plan.buffer prepared : memref<16x3x3x16xbf16>
//     %filter = plan.view %laid : memref<16x3x3x16xbf16> -> memref<16x16x3x3xbf16, strided<[144, 1, 48, 16]>>
//     plan.prepare {
//       plan.launch @channels_last_c4a1d08f1fd445991c74(%w, %laid) : memref<16x12x3x3xbf16>, memref<16x3x3x16xbf16>
//     }
//     plan.step {
//       plan.launch @channels_last_145d8361a7d56ac001bd(%x, %image) : memref<1x12x8x8xbf16>, memref<1x8x8x16xbf16>
//       plan.launch @conv_3b6edd566b8f7e5f2ed6(%pixels, %filter, %y) : memref<1x16x8x8xbf16, strided<[1024, 1, 128, 16]>>, memref<16x16x3x3xbf16, strided<[144, 1, 48, 16]>>, memref<1x16x8x8xbf16>
//     }
//   }
//   plan.kernel @channels_last_145d8361a7d56ac001bd family "channels_last" args [memref<1x12x8x8xbf16>, memref<1x8x8x16xbf16>] outputs 1 config {alignments = array<i64: 16, 16>} {
//   }
//   plan.kernel @channels_last_c4a1d08f1fd445991c74 family "channels_last" args [memref<16x12x3x3xbf16>, memref<16x3x3x16xbf16>] outputs 1 config {alignments = array<i64: 16, 16>} {
//   }
//   plan.kernel @conv_3b6edd566b8f7e5f2ed6 family "conv" args [memref<1x16x8x8xbf16, strided<[1024, 1, 128, 16]>>, memref<16x16x3x3xbf16, strided<[144, 1, 48, 16]>>, memref<1x16x8x8xbf16>] outputs 1 config {alignments = array<i64: 16, 16, 16>, dilations = array<i64: 1, 1>, groups = 1 : i64, has_bias = false, padding_high = array<i64: 1, 1>, padding_low = array<i64: 1, 1>, strides = array<i64: 1, 1>} {
//   }
#include "passes/PlanConvolutions.h"

#include "passes/Passes.h"
#include "passes/PlanRewriter.h"
#include "passes/Strided.h"

#include <map>
#include <tuple>

using namespace mlir;

namespace ditc {
#define GEN_PASS_DEF_PLANCONVOLUTIONS
#include "passes/Passes.h.inc"

namespace {

class ConvRewriter : public PlanRewriter {
public:
  ConvRewriter(plan::ProgramOp program, KernelTable &table, const TargetKernels &target) : PlanRewriter(program, table), target(target) {}

  void run() {
    forEachLaunch("conv", [&](plan::LaunchOp launch, plan::KernelOp kernel) { rewrite(launch, kernel); });
  }

private:
  void rewrite(plan::LaunchOp launch, plan::KernelOp kernel) {
    ConvNeeds needs = target.needsOfConv(kernel);
    if (!needs.input && !needs.filter)
      return;
    SmallVector<Value> args(launch.getArgs());
    SmallVector<int64_t> alignments(kernel.getConfig().getAs<DenseI64ArrayAttr>("alignments").asArrayRef());
    auto layOut = [&](unsigned arg, int64_t channels) {
      args[arg] = channelsLast(launch, args[arg], channels, alignments[arg]);
      alignments[arg] = kAlignment;
    };
    if (needs.input)
      layOut(0, needs.inputChannels);
    if (needs.filter)
      layOut(1, needs.filterChannels);
    NamedAttrList config(kernel.getConfig());
    config.set("alignments", b.getDenseI64ArrayAttr(alignments));
    plan::LaunchOp changed = createLaunch(launch, {.family = "conv", .config = config.getDictionary(b.getContext())}, args);
    changed->setDiscardableAttrs(launch->getDiscardableAttrDictionary()); // its work is what it was
    launch.erase();
  }

  /// [N, C, spatial...] in memory of its own, made once for each value and number of channels.
  Value channelsLast(plan::LaunchOp launch, Value value, int64_t channels, int64_t alignment) {
    Value &made = laidOut[{plan::rootBuffer(value), value.getType().getAsOpaquePointer(), channels}];
    if (made)
      return made;
    MemRefType type = typeOf(value);
    SmallVector<int64_t> shape(type.getShape());
    shape[1] = channels;
    plan::Space space = spaceBeside(value);
    Value buffer = createBuffer(launch.getLoc(), channelsLastShape(shape), type.getElementType(), space);
    DictionaryAttr config = b.getDictionaryAttr(b.getNamedAttr("alignments", b.getDenseI64ArrayAttr({alignment, kAlignment})));
    createLaunchBefore(launch, {.family = "channels_last", .config = config}, {value, buffer}, space);
    return made = createView(launch.getLoc(), plan::makeMemRef(shape, type.getElementType(), {channelsLastStrides(shape), 0}), buffer);
  }

  const TargetKernels &target;
  std::map<std::tuple<Operation *, const void *, int64_t>, Value> laidOut; ///< by buffer, type and channels
};

class PlanConvolutions : public impl::PlanConvolutionsBase<PlanConvolutions> {
public:
  explicit PlanConvolutions(std::shared_ptr<const TargetKernels> kernels) : kernels(std::move(kernels)) {}

  void runOnOperation() override {
    KernelTable table(getOperation());
    for (plan::ProgramOp program : getOperation().getOps<plan::ProgramOp>())
      ConvRewriter(program, table, *kernels).run();
    eraseUnusedKernels(getOperation(), "conv");
  }

private:
  std::shared_ptr<const TargetKernels> kernels;
};

} // namespace

std::unique_ptr<Pass> createPlanConvolutions(std::shared_ptr<const TargetKernels> kernels) { return std::make_unique<PlanConvolutions>(std::move(kernels)); }

} // namespace ditc
