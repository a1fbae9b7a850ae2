// SPDX-License-Identifier: Apache-2.0
#include "passes/KernelTable.h"

#include "dialects/dit/Dit.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/xxhash.h"

using namespace mlir;

namespace ditc {

namespace {

NamedAttribute named(MLIRContext *context, StringRef name, Attribute value) { return {StringAttr::get(context, name), value}; }

/// Enum attributes become their words, so that a configuration reads the same in every target.
Attribute plainConfig(Attribute attr) {
  if (auto kind = dyn_cast<dit::ReduceKindAttr>(attr))
    return StringAttr::get(attr.getContext(), dit::stringifyReduceKind(kind.getValue()));
  if (auto kind = dyn_cast<dit::NormKindAttr>(attr))
    return StringAttr::get(attr.getContext(), dit::stringifyNormKind(kind.getValue()));
  return attr;
}

/// Facts about optional operands that the argument list alone does not tell.
void addOperandFlags(Operation *op, SmallVectorImpl<NamedAttribute> &config) {
  MLIRContext *context = op->getContext();
  auto flag = [&](StringRef name, bool value) { config.push_back(named(context, name, BoolAttr::get(context, value))); };
  if (auto norm = dyn_cast<dit::NormOp>(op)) {
    flag("has_weight", static_cast<bool>(norm.getWeight()));
    flag("has_bias", static_cast<bool>(norm.getBias()));
  } else if (auto attention = dyn_cast<dit::AttentionOp>(op)) {
    flag("has_mask", static_cast<bool>(attention.getMask()));
    flag("causal", attention.getCausal());
    if (attention.getQuantized()) // other kernels stay what they are called
      flag("quantized", true);
  } else if (auto state = dyn_cast<dit::LinearStateOp>(op)) {
    flag("relu", state.getRelu());
    flag("normaliser", state.getNormaliser());
  } else if (auto apply = dyn_cast<dit::LinearApplyOp>(op)) {
    flag("relu", apply.getRelu());
    flag("normaliser", apply.getNormaliser());
  } else if (auto conv = dyn_cast<dit::ConvOp>(op)) {
    flag("has_bias", static_cast<bool>(conv.getBias()));
  } else if (auto sort = dyn_cast<dit::SortOp>(op)) {
    flag("descending", sort.getDescending());
  } else if (auto scatter = dyn_cast<dit::ScatterOp>(op)) {
    flag("add", scatter.getAdd());
  }
}

} // namespace

KernelSpec kernelSpecOf(Operation *op) {
  if (auto map = dyn_cast<dit::MapOp>(op))
    return {.family = "map", .body = &map.getBody()};
  SmallVector<NamedAttribute> config;
  for (NamedAttribute attr : op->getAttrDictionary()) {
    StringRef name = attr.getName().getValue();
    if (name != "operandSegmentSizes" && !isa<UnitAttr>(attr.getValue()))
      config.push_back(named(op->getContext(), name, plainConfig(attr.getValue())));
  }
  addOperandFlags(op, config);
  return {.family = op->getName().stripDialect(), .config = DictionaryAttr::get(op->getContext(), config)};
}

KernelTable::KernelTable(ModuleOp module) : module(module) {
  for (plan::KernelOp kernel : module.getOps<plan::KernelOp>())
    known.insert(kernel.getSymNameAttr());
}

/// A copy: of scalars for a map, of tensors for a rowwise kernel.
static void buildIdentityBody(OpBuilder &b, Location loc, Region &region, bool rowwise, MemRefType from, MemRefType to) {
  Block *body = b.createBlock(&region);
  assert(from.getElementType() == to.getElementType() && "an identity kernel copies; casts are maps");
  Type type = rowwise ? Type(RankedTensorType::get(from.getShape(), from.getElementType())) : dit::computeType(from.getElementType());
  Value value = body->addArgument(type, loc);
  dit::YieldOp::create(b, loc, value);
}

FlatSymbolRefAttr KernelTable::get(Location loc, const KernelSpec &spec, ArrayRef<MemRefType> types) {
  MLIRContext *context = module.getContext();
  OpBuilder b = OpBuilder::atBlockEnd(module.getBody());
  SmallVector<Attribute> typeAttrs;
  for (MemRefType type : types)
    typeAttrs.push_back(TypeAttr::get(type));
  auto config = spec.config ? spec.config : DictionaryAttr::get(context, {});
  auto kernel = plan::KernelOp::create(b, loc, b.getStringAttr("kernel"), b.getStringAttr(spec.family), b.getArrayAttr(typeAttrs), b.getI64IntegerAttr(spec.outputs), config);
  if (spec.body) {
    IRMapping mapping;
    spec.body->cloneInto(&kernel.getBody(), mapping);
  } else if (spec.identity) {
    buildIdentityBody(b, loc, kernel.getBody(), spec.family == "rowwise", types.front(), types.back());
  }

  std::string text;
  llvm::raw_string_ostream stream(text);
  kernel->print(stream, OpPrintingFlags().useLocalScope().printGenericOpForm());
  llvm::XXH128_hash_t hash = llvm::xxh3_128bits(ArrayRef(reinterpret_cast<const uint8_t *>(text.data()), text.size()));
  auto name = b.getStringAttr(spec.family + "_" + llvm::utohexstr(hash.high64, true, 16) + llvm::utohexstr(hash.low64, true, 16).substr(0, 4));
  if (known.insert(name).second)
    kernel.setSymNameAttr(name);
  else
    kernel.erase();
  return FlatSymbolRefAttr::get(name);
}

} // namespace ditc
