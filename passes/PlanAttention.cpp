// SPDX-License-Identifier: Apache-2.0
//
// PlanAttention: gives the launches of attention what the target's kernels want beside their tensors. A boolean mask is
// packed into bits, with a verdict for each tile (nothing, a part, or all of it is visible); that is one launch for each
// mask, whatever number of attentions reads it. An additive mask that all queries share gets verdicts alone, one for
// each block of keys. Where the tiles do not fill the last round of blocks, all blocks share
// those that are left: their parts meet in scratch, counted in zeroed memory. Where 8-bit numbers are to be multiplied
// (`quantized`), two launches make them in the arena. The sizes are the target's to say (TargetKernels::needsOf); a target
// that wants nothing leaves the launch as it was.
//
// Before:
//   plan.program @b inputs ["q", "k", "v", "m"] outputs ["y"] {
//     %q = plan.buffer input {index = 0 : i64} : memref<1x2x64x64xbf16>
//     %k = plan.buffer input {index = 1 : i64} : memref<1x2x200x64xbf16>
//     %v = plan.buffer input {index = 2 : i64} : memref<1x2x200x64xbf16>
//     %m = plan.buffer input {index = 3 : i64} : memref<1x1x1x200xi1>
//     %y = plan.buffer output {index = 0 : i64} : memref<1x2x64x64xbf16>
//     plan.prepare {
//     }
//     plan.step {
//       plan.launch @attention(%q, %k, %v, %m, %y) : memref<1x2x64x64xbf16>, memref<1x2x200x64xbf16>, memref<1x2x200x64xbf16>, memref<1x1x1x200xi1>, memref<1x2x64x64xbf16>
//     }
//   }
//   plan.kernel @attention family "attention" args [memref<1x2x64x64xbf16>, memref<1x2x200x64xbf16>, memref<1x2x200x64xbf16>, memref<1x1x1x200xi1>, memref<1x2x64x64xbf16>] outputs 1
//     config {alignments = array<i64: 16, 16, 16, 16, 16>, causal = false, has_mask = true, scale = 0.125 : f64} {
//   }
// After:
//   plan.program @b inputs ["q", "k", "v", "m"] outputs ["y"] {
//     %q = plan.buffer input {index = 0 : i64} : memref<1x2x64x64xbf16>
//     %k = plan.buffer input {index = 1 : i64} : memref<1x2x200x64xbf16>
//     %v = plan.buffer input {index = 2 : i64} : memref<1x2x200x64xbf16>
//     %m = plan.buffer input {index = 3 : i64} : memref<1x1x1x200xi1>
//     %y = plan.buffer output {index = 0 : i64} : memref<1x2x64x64xbf16>
//     %words = plan.buffer arena : memref<1x1x1x8xi32>
//     %verdicts = plan.buffer arena : memref<1x1x1x4xi8>
//     plan.prepare {
//     }
//     plan.step {
//       plan.launch @mask_pack_a95d29c23563b7165b61(%m, %words, %verdicts) : memref<1x1x1x200xi1>, memref<1x1x1x8xi32>, memref<1x1x1x4xi8>
//       plan.launch @attention_a6e3970e6524df44ce34(%q, %k, %v, %words, %verdicts, %y) : memref<1x2x64x64xbf16>, memref<1x2x200x64xbf16>, memref<1x2x200x64xbf16>, memref<1x1x1x8xi32>, memref<1x1x1x4xi8>, memref<1x2x64x64xbf16>
//     }
//   }
//   plan.kernel @mask_pack_a95d29c23563b7165b61 family "mask_pack" args [memref<1x1x1x200xi1>, memref<1x1x1x8xi32>, memref<1x1x1x4xi8>] outputs 2 config {keys = 200 : i64, tile_keys = 64 : i64, tile_rows = 64 : i64} {
//   }
//   plan.kernel @attention_a6e3970e6524df44ce34 family "attention" args [memref<1x2x64x64xbf16>, memref<1x2x200x64xbf16>, memref<1x2x200x64xbf16>, memref<1x1x1x8xi32>, memref<1x1x1x4xi8>, memref<1x2x64x64xbf16>] outputs 1 config {alignments = array<i64: 16, 16, 16, 16, 16, 16>, causal = false, has_mask = true, packed_mask = true, scale = 1.250000e-01 : f64} {
//   }
//
// With shared tiles the arguments before the result are the parts (f32, in the arena) and the counters (i32, zeroed), and
// the configuration says `shared_tiles = true`. Both are written, so the kernel has three outputs.
//
// Quantised operands take the places of those that they are made of, and their scales come behind the mask:
//   attention_survey   (k, v) -> means of k and largest magnitudes of v, by chunk of tokens and column
//   attention_quantize (q, k, v, those) -> i8 q and k, e4m3 v with its columns as rows, scales of rows, of keys, of columns
//   attention          (q8, k8, v8, [mask, verdicts], scales of q, k, v, [parts, counters], result)
#include "passes/PlanAttention.h"

#include "passes/PlanRewriter.h"
#include "passes/Passes.h"
#include "passes/TargetRemarks.h"

#include "llvm/Support/MathExtras.h"

#include <map>
#include <tuple>

using namespace mlir;

namespace ditc {
#define GEN_PASS_DEF_PLANATTENTION
#include "passes/Passes.h.inc"

namespace {

class ProgramRewriter : public PlanRewriter {
public:
  ProgramRewriter(plan::ProgramOp program, KernelTable &table, const TargetKernels &target) : PlanRewriter(program, table), target(target) {}

  void run() {
    forEachLaunch("attention", [&](plan::LaunchOp launch, plan::KernelOp kernel) { rewrite(launch, kernel); });
  }

private:
  struct Packed {
    Value words, verdicts;
  };
  struct Quantized {
    std::array<Value, 3> operands, scales; ///< of queries, keys and values
  };

  void rewrite(plan::LaunchOp launch, plan::KernelOp kernel) {
    if (Verdict verdict = target.takesFast(kernel); !verdict)
      remarkDeviation(launch, kernel.getFamily(), Deviation::SlowerKernel, verdict);
    AttentionNeeds needs = target.needsOf(kernel);
    bool packs = needs.maskRows > 0, judges = needs.biasKeys > 0, shares = needs.parts > 0 && !isPrepared(launch); // zeroed memory belongs to a step
    bool quantizes = needs.quantizedKeys > 0;
    if (!packs && !judges && !shares && !quantizes)
      return;
    Location loc = launch.getLoc();
    SmallVector<Value> args(launch.getArgs());
    SmallVector<int64_t> alignments(kernel.getConfig().getAs<DenseI64ArrayAttr>("alignments").asArrayRef());
    NamedAttrList config(kernel.getConfig());
    auto insert = [&](size_t at, Value value) {
      args.insert(args.begin() + at, value);
      alignments.insert(alignments.begin() + at, kAlignment);
    };
    if (packs) {
      Packed packed = pack(launch, typeOf(args[1]).getDimSize(2), needs);
      args[3] = packed.words;
      alignments[3] = kAlignment;
      insert(4, packed.verdicts);
      config.set("packed_mask", b.getBoolAttr(true));
    }
    if (judges) {
      insert(4, judge(launch, needs.biasKeys));
      config.set("judged_mask", b.getBoolAttr(true));
    }
    if (quantizes) {
      Quantized numbers = quantize(launch, needs);
      std::copy(numbers.operands.begin(), numbers.operands.end(), args.begin());
      size_t at = 3 + (kernel.getConfig().getAs<BoolAttr>("has_mask").getValue() ? 1 : 0) + (packs || judges);
      for (size_t i = 0; i < numbers.scales.size(); ++i)
        insert(at + i, numbers.scales[i]);
    }
    if (shares) {
      size_t at = args.size() - 1;
      insert(at, createBuffer(loc, needs.parts, b.getF32Type(), plan::Space::Arena));
      insert(at + 1, createBuffer(loc, needs.counters, b.getI32Type(), plan::Space::Zeroed));
      config.set("shared_tiles", b.getBoolAttr(true));
    }
    config.set("alignments", b.getDenseI64ArrayAttr(alignments));
    plan::LaunchOp changed = createLaunch(launch, {.family = "attention", .config = config.getDictionary(b.getContext()), .outputs = static_cast<unsigned>(kernel.getOutputs()) + (shares ? 2u : 0u)}, args);
    changed->setDiscardableAttrs(launch->getDiscardableAttrDictionary()); // its work is what it was
    launch.erase();
  }

  /// The packed mask of a launch, made once for each mask and size of tiles.
  Packed pack(plan::LaunchOp launch, int64_t keys, const AttentionNeeds &needs) {
    Value mask = withoutRepeats(launch.getArgs()[3]);
    Packed &packed = masks[{plan::rootBuffer(mask), mask.getType().getAsOpaquePointer(), needs.maskRows, needs.maskKeys, keys}];
    if (packed.words)
      return packed;
    plan::Space space = spaceBeside(mask);
    ArrayRef<int64_t> shape = typeOf(mask).getShape();
    int64_t blocks = llvm::divideCeil(keys, needs.maskKeys), tiles = llvm::divideCeil(shape[2], needs.maskRows);
    packed.words = createBuffer(launch.getLoc(), {shape[0], shape[1], shape[2], blocks * needs.maskKeys / 32}, b.getI32Type(), space);
    packed.verdicts = createBuffer(launch.getLoc(), {shape[0], shape[1], tiles, blocks}, b.getI8Type(), space);
    DictionaryAttr config = b.getDictionaryAttr({b.getNamedAttr("keys", b.getI64IntegerAttr(keys)), b.getNamedAttr("tile_keys", b.getI64IntegerAttr(needs.maskKeys)),
                                                 b.getNamedAttr("tile_rows", b.getI64IntegerAttr(needs.maskRows))});
    createLaunchBefore(launch, {.family = "mask_pack", .config = config, .outputs = 2}, {mask, packed.words, packed.verdicts}, space);
    return packed;
  }

  /// The verdicts of an additive mask, made once for each mask and size of blocks.
  Value judge(plan::LaunchOp launch, int64_t blockKeys) {
    Value mask = withoutRepeats(launch.getArgs()[3]);
    Value &verdicts = masks[{plan::rootBuffer(mask), mask.getType().getAsOpaquePointer(), 0, blockKeys, 0}].verdicts;
    if (verdicts)
      return verdicts;
    plan::Space space = spaceBeside(mask);
    ArrayRef<int64_t> shape = typeOf(mask).getShape();
    int64_t blocks = llvm::divideCeil(shape[3], blockKeys);
    verdicts = createBuffer(launch.getLoc(), {shape[0], shape[1], 1, blocks}, b.getI8Type(), space);
    DictionaryAttr config = b.getDictionaryAttr({b.getNamedAttr("tile_keys", b.getI64IntegerAttr(blockKeys))});
    createLaunchBefore(launch, {.family = "mask_judge", .config = config, .outputs = 1}, {mask, verdicts}, space);
    return verdicts;
  }

  /// The operands of a launch as 8-bit numbers: keys without their mean, values turned around. Two launches, as means and
  /// largest magnitudes of columns are of all tokens.
  Quantized quantize(plan::LaunchOp launch, const AttentionNeeds &needs) {
    Location loc = launch.getLoc();
    Value q = launch.getArgs()[0], k = launch.getArgs()[1], v = launch.getArgs()[2];
    ArrayRef<int64_t> query = typeOf(q).getShape(), key = typeOf(k).getShape(), value = typeOf(v).getShape();
    int64_t batch = key[0], heads = key[1], chunks = llvm::divideCeil(key[2], needs.chunkKeys), blocks = llvm::divideCeil(key[2], needs.quantizedKeys);
    plan::Space space = isPrepared(launch) ? plan::Space::Prepared : plan::Space::Arena;
    auto scratch = [&](ArrayRef<int64_t> shape, Type element) { return createBuffer(loc, shape, element, space); };
    auto floats = [&](ArrayRef<int64_t> shape) { return scratch(shape, b.getF32Type()); };
    NamedAttribute chunk = b.getNamedAttr("chunk_keys", b.getI64IntegerAttr(needs.chunkKeys)), block = b.getNamedAttr("block_keys", b.getI64IntegerAttr(needs.quantizedKeys));

    Value means = floats({batch, heads, chunks, key[3]}), tops = floats({batch, heads, chunks, value[3]});
    createLaunch(launch, {.family = "attention_survey", .config = b.getDictionaryAttr({chunk}), .outputs = 2}, {k, v, means, tops});
    Quantized result;
    result.operands = {rowsOfBytes(loc, query, space), rowsOfBytes(loc, key, space), scratch({batch, heads, value[3], needs.keyPitch}, Float8E4M3FNType::get(b.getContext()))};
    result.scales = {floats(query.drop_back()), floats({batch, heads, blocks, 4}), floats({batch, heads, value[3]})};
    SmallVector<Value> args{q, k, v, means, tops};
    args.append(result.operands.begin(), result.operands.end());
    args.append(result.scales.begin(), result.scales.end());
    createLaunch(launch, {.family = "attention_quantize", .config = b.getDictionaryAttr({block, chunk}), .outputs = 6}, args);
    return result;
  }

  /// int8 in this shape, rows on 16 bytes as tensor copies want them.
  Value rowsOfBytes(Location loc, ArrayRef<int64_t> shape, plan::Space space) {
    SmallVector<int64_t> padded(shape);
    padded.back() = llvm::alignTo(shape.back(), kAlignment);
    Value buffer = createBuffer(loc, padded, b.getI8Type(), space);
    if (padded.back() == shape.back())
      return buffer;
    return createView(loc, plan::makeMemRef(shape, b.getI8Type(), plan::layoutOf(typeOf(buffer))), buffer);
  }

  /// The mask with size 1 where a batch, head or row repeats the one before.
  Value withoutRepeats(Value mask) {
    MemRefType type = typeOf(mask);
    plan::Layout layout = plan::layoutOf(type);
    SmallVector<int64_t> shape(type.getShape());
    for (size_t d = 3; d-- > 0;)
      if (layout.strides[d] == 0 || shape[d] == 1) { // with the stride of dense memory, so that equal views are equal types
        shape[d] = 1;
        layout.strides[d] = layout.strides[d + 1] * shape[d + 1];
      }
    plan::BufferOp root = plan::rootBuffer(mask);
    MemRefType result = plan::makeMemRef(shape, type.getElementType(), layout);
    if (result == type)
      return mask;
    if (result == root.getType())
      return root;
    return createView(mask.getLoc(), result, root);
  }

  const TargetKernels &target;
  std::map<std::tuple<Operation *, const void *, int64_t, int64_t, int64_t>, Packed> masks; ///< by buffer, type, tiles and keys
};

class PlanAttention : public impl::PlanAttentionBase<PlanAttention> {
public:
  explicit PlanAttention(std::shared_ptr<const TargetKernels> kernels) : kernels(std::move(kernels)) {}

  void runOnOperation() override {
    KernelTable table(getOperation());
    for (plan::ProgramOp program : getOperation().getOps<plan::ProgramOp>())
      ProgramRewriter(program, table, *kernels).run();
    eraseUnusedKernels(getOperation(), "attention");
  }

private:
  std::shared_ptr<const TargetKernels> kernels;
};

} // namespace

std::unique_ptr<Pass> createPlanAttention(std::shared_ptr<const TargetKernels> kernels) { return std::make_unique<PlanAttention>(std::move(kernels)); }

} // namespace ditc
