// SPDX-License-Identifier: Apache-2.0
//
// Leaves, outputs and the frame of the imported function. Nodes are in Nodes.cpp, nested graphs in
// Regions.cpp, refusals in Unsupported.cpp.
#include "compiler/import/ImporterState.h"

#include "runtime/Error.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include <algorithm>

using namespace mlir;

namespace ditc {

Importer::Importer(MLIRContext &context, const ExportedProgram &program, const Pt2Archive &archive,
                   const ImportOptions &options)
    : context(context), program(program), archive(archive), options(options), symbols(options.symbols),
      builder(UnknownLoc::get(&context), &context), emit(builder), values(emit) {
  context.loadDialect<dit::DitDialect, func::FuncDialect, arith::ArithDialect, math::MathDialect>();
}

OwningOpRef<ModuleOp> Importer::run() {
  createFunction();
  scopes.push_back({&program.graph, {}, std::nullopt});
  bindInputs();
  importNodes();
  finish();
  return std::move(module);
}

/// Elements of a tensor: far above what fits a machine, and far below what overflows when sizes are multiplied.
static constexpr int64_t kLargestTensor = int64_t{1} << 48;

//===-- Names and types ---------------------------------------------------------------------------===//

const TensorMeta &Importer::metaOf(const std::string &name) const {
  auto meta = scopes.back().graph->tensorValues.find(name);
  if (meta == scopes.back().graph->tensorValues.end())
    fail("the program does not describe the value '{}'", name);
  return meta->second;
}

std::vector<int64_t> Importer::sizesOf(const TensorMeta &meta) const {
  std::vector<int64_t> sizes;
  int64_t count = 1;
  for (const SymInt &size : meta.sizes) {
    sizes.push_back(evaluate(size));
    if (sizes.back() < 0 || __builtin_mul_overflow(count, std::max<int64_t>(sizes.back(), 1), &count) || count > kLargestTensor)
      fail("a tensor of shape [{}] is impossible", fmt::join(sizes, ", "));
  }
  return sizes;
}

RankedTensorType Importer::typeOf(const TensorMeta &meta) {
  std::vector<int64_t> sizes = sizesOf(meta);
  if (isComplex(meta.dtype))
    sizes.push_back(2);
  return RankedTensorType::get(sizes, emit.elementType(meta.dtype));
}

SymValue Importer::symbolValue(const std::string &name) const {
  auto symbol = scopes.back().graph->symValues.find(name);
  if (symbol == scopes.back().graph->symValues.end())
    fail("the program does not describe the symbolic value '{}'", name);
  return symbol->second.expr ? ditc::evaluate(*symbol->second.expr, symbols) : symbol->second.value;
}

Values::Id Importer::idOf(const std::string &name) {
  auto known = scope().ids.find(name);
  if (known != scope().ids.end())
    return known->second;
  auto leaf = scopes.size() == 1 ? leaves.find(name) : leaves.end();
  if (leaf == leaves.end())
    fail("reads '{}', a result that ditc does not compute; compute it from what its node reads", name);
  const InputSpec &spec = *leaf->second;
  Origin origin = Origin::Constant;
  if (spec.kind == InputSpec::Kind::Parameter)
    origin = Origin::Parameter;
  else if (spec.kind == InputSpec::Kind::Buffer)
    origin = Origin::Buffer;
  else if (spec.kind == InputSpec::Kind::UserInput)
    origin = Origin::UserInput;
  Values::Id id = values.addBase(leafValue(spec), origin, spec.fqn.empty() ? spec.userName : spec.fqn);
  scope().ids.emplace(name, id);
  return id;
}

Value Importer::read(const std::string &name) { return values.read(idOf(name)); }

//===-- Inputs ------------------------------------------------------------------------------------===//

static void setTensorAttrs(OpBuilder &builder, NamedAttrList &attrs, const std::string &name, DType dtype) {
  attrs.set("dit.name", builder.getStringAttr(name));
  if (isComplex(dtype))
    attrs.set("dit.complex", builder.getUnitAttr());
}

void Importer::createFunction() {
  module = ModuleOp::create(builder.getLoc());
  builder.setInsertionPointToEnd(module->getBody());
  function = func::FuncOp::create(builder, options.bucket, builder.getFunctionType({}, {}));
  builder.setInsertionPointToStart(function.addEntryBlock());
}

void Importer::bindInputs() {
  std::map<std::string, HostTensor> unused = options.pinned;
  for (auto [argument, spec] : llvm::zip_equal(program.graph.inputs, program.inputSpecs)) {
    if (spec.kind == InputSpec::Kind::ConstantInput)
      continue;
    bool isUser = spec.kind == InputSpec::Kind::UserInput;
    if (argument.kind != Argument::Kind::Tensor) {
      if (!isUser)
        fail("'{}' is not a tensor", spec.fqn);
      continue; // a size: bound with the symbols
    }
    if (!isUser || unused.erase(spec.userName)) {
      leaves.emplace(argument.text, &spec);
      continue;
    }
    const TensorMeta &meta = metaOf(argument.text);
    NamedAttrList attrs;
    setTensorAttrs(builder, attrs, spec.userName, meta.dtype);
    Location loc = NameLoc::get(builder.getStringAttr(spec.userName));
    if (failed(function.insertArgument(function.getNumArguments(), typeOf(meta), attrs.getDictionary(&context), loc)))
      failInternal("cannot add the argument '{}'", spec.userName);
    BlockArgument value = function.getArguments().back();
    scope().ids.emplace(argument.text, values.addBase(value, Origin::UserInput, spec.userName));
  }
  if (!unused.empty())
    fail("'{}' is pinned but is not a tensor input of the program", unused.begin()->first);
}

/// A weight or constant, placed behind the ones before it at the top of the function.
Value Importer::leafValue(const InputSpec &spec) {
  OpBuilder::InsertionGuard guard(builder);
  Location before = builder.getLoc();
  if (lastLeaf)
    builder.setInsertionPointAfter(lastLeaf);
  else
    builder.setInsertionPointToStart(&function.getBody().front());
  std::string label = spec.fqn.empty() ? spec.userName : spec.fqn;
  builder.setLoc(NameLoc::get(builder.getStringAttr(label)));
  RankedTensorType type = typeOf(metaOf(spec.valueName));
  Value value;
  if (spec.kind == InputSpec::Kind::UserInput)
    value = pinnedValue(spec, options.pinned.at(spec.userName));
  else if (auto reason = archive.unreadable().find(spec.fqn); reason != archive.unreadable().end())
    fail("'{}' cannot be read: {}", spec.fqn, reason->second);
  else if (spec.kind == InputSpec::Kind::Parameter || (spec.kind == InputSpec::Kind::Buffer && spec.persistent))
    value = dit::WeightOp::create(builder, type, spec.fqn);
  else
    value = storedConstant(spec, type);
  lastLeaf = value.getDefiningOp();
  builder.setLoc(before);
  return value;
}

Value Importer::pinnedValue(const InputSpec &spec, const HostTensor &tensor) {
  const TensorMeta &meta = metaOf(spec.valueName);
  std::vector<int64_t> sizes = sizesOf(meta);
  if (tensor.dtype != meta.dtype || tensor.shape != sizes)
    fail("pinned input '{}' is {} [{}], expected {} [{}]", spec.userName, nameOf(tensor.dtype),
         fmt::join(tensor.shape, ", "), nameOf(meta.dtype), fmt::join(sizes, ", "));
  ArrayRef<char> bytes(reinterpret_cast<const char *>(tensor.bytes.data()), tensor.bytes.size());
  return emit.constant(elementsOf(typeOf(meta), bytes));
}

Value Importer::storedConstant(const InputSpec &spec, RankedTensorType type) {
  const StoredTensor *stored = nullptr;
  for (const auto *tensors : {&archive.constants(), &archive.weights()})
    if (auto entry = tensors->find(spec.fqn); !stored && entry != tensors->end())
      stored = &entry->second;
  // A graph-only export has tables without values: they come with the weights.
  if (!stored || !stored->hasBytes())
    return dit::WeightOp::create(builder, type, spec.fqn);
  const TensorMeta &meta = metaOf(spec.valueName);
  if (stored->dtype != meta.dtype || stored->sizes != sizesOf(meta))
    fail("constant '{}' is stored as {} [{}], the graph uses {} [{}]", spec.fqn, nameOf(stored->dtype),
         fmt::join(stored->sizes, ", "), nameOf(meta.dtype), fmt::join(sizesOf(meta), ", "));
  std::vector<uint8_t> bytes = readContiguous(*stored);
  return emit.constant(elementsOf(type, ArrayRef<char>(reinterpret_cast<const char *>(bytes.data()), bytes.size())));
}

//===-- Constants ---------------------------------------------------------------------------------===//

std::optional<dit::TensorValue> Importer::constantValue(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op || isa<dit::WeightOp>(op))
    return std::nullopt;
  auto [memo, isNew] = folded.try_emplace(op);
  if (isNew) {
    SmallVector<dit::TensorValue> operands;
    for (Value operand : op->getOperands()) {
      std::optional<dit::TensorValue> known = constantValue(operand);
      if (!known)
        return std::nullopt;
      operands.push_back(std::move(*known));
    }
    FailureOr<SmallVector<dit::TensorValue>> results = dit::evaluateOp(op, operands);
    if (failed(results))
      return std::nullopt;
    folded[op].assign(results->begin(), results->end());
  }
  const std::vector<dit::TensorValue> &results = folded[op];
  unsigned index = cast<OpResult>(value).getResultNumber();
  return index < results.size() ? std::optional(results[index]) : std::nullopt;
}

//===-- Outputs -----------------------------------------------------------------------------------===//

/// The value of an output, or null for None.
Value Importer::outputValue(const Argument &value) {
  using Kind = Argument::Kind;
  switch (value.kind) {
  case Kind::None: return {};
  case Kind::Tensor: return read(value.text);
  case Kind::Int: return emit.number(Scalar::of(value.integer));
  case Kind::Float: return emit.number(Scalar::of(value.number));
  case Kind::Bool: return emit.number(Scalar::of(value.flag));
  case Kind::SymInt:
  case Kind::SymFloat:
  case Kind::SymBool:
    return emit.number(std::visit([](auto number) { return Scalar::of(number); }, symbolValue(value.text)));
  default: fail("is neither a tensor nor a number");
  }
}

void Importer::finish() {
  SmallVector<Value> results;
  SmallVector<Attribute> attrs;
  for (const OutputSpec &spec : program.outputSpecs) {
    if (spec.kind != OutputSpec::Kind::UserOutput)
      continue; // a mutated user input stays local; the others were refused
    Location loc = NameLoc::get(builder.getStringAttr(spec.userName));
    builder.setLoc(loc);
    Value value;
    try {
      value = outputValue(spec.value);
    } catch (const Error &error) {
      throw Error(error.kind(), fmt::format("output '{}': {}", spec.userName, error.what()));
    }
    if (!value)
      continue;
    NamedAttrList named;
    setTensorAttrs(builder, named, spec.userName,
                   spec.value.kind == Argument::Kind::Tensor ? metaOf(spec.value.text).dtype : DType::f32);
    results.push_back(value);
    attrs.push_back(named.getDictionary(&context));
  }
  if (results.empty())
    fail("the program returns no tensor");
  builder.setLoc(UnknownLoc::get(&context));
  func::ReturnOp::create(builder, results);
  function.setType(builder.getFunctionType(function.getArgumentTypes(), TypeRange(ValueRange(results))));
  function.setResAttrsAttr(builder.getArrayAttr(attrs));
  // What views left behind when their base was written, and results that nothing reads.
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(function.getBody().front())))
    if (isOpTriviallyDead(&op))
      op.erase();
  std::string messages;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    messages += messages.empty() ? diagnostic.str() : "; " + diagnostic.str();
    return success();
  });
  if (failed(verify(*module)))
    fail("the program is not consistent: {}; the file is damaged (export again), or ditc misreads an op (report it)", messages);
}

OwningOpRef<ModuleOp> importProgram(MLIRContext &context, const ExportedProgram &program, const Pt2Archive &archive,
                                    const ImportOptions &options) {
  std::vector<UnsupportedNode> unsupported = findUnsupported(program, archive, options);
  if (!unsupported.empty()) {
    std::string text =
        fmt::format("{} {} cannot be imported:", unsupported.size(), unsupported.size() == 1 ? "node" : "nodes");
    for (const UnsupportedNode &node : unsupported)
      text += fmt::format("\n  {}", toString(node));
    throw Error(ErrorKind::Input, text);
  }
  return Importer(context, program, archive, options).run();
}

} // namespace ditc
