// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/ImportFixture.h"

#include "compiler/import/Emit.h"
#include "dialects/dit/Dit.h"
#include "runtime/Error.h"

#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace ditc::test {

//===-- Arguments ---------------------------------------------------------------------------------===//

static Argument ofKind(Argument::Kind kind) {
  Argument argument;
  argument.kind = kind;
  return argument;
}

Argument none() { return ofKind(Argument::Kind::None); }

Argument tensor(std::string name) {
  Argument argument = ofKind(Argument::Kind::Tensor);
  argument.text = std::move(name);
  return argument;
}

Argument tensors(std::vector<std::string> names) {
  Argument argument = ofKind(Argument::Kind::Tensors);
  for (std::string &name : names)
    argument.items.push_back(name.empty() ? none() : tensor(std::move(name)));
  return argument;
}

Argument integer(int64_t value) {
  Argument argument = ofKind(Argument::Kind::Int);
  argument.integer = value;
  return argument;
}

Argument number(double value) {
  Argument argument = ofKind(Argument::Kind::Float);
  argument.number = value;
  return argument;
}

Argument flag(bool value) {
  Argument argument = ofKind(Argument::Kind::Bool);
  argument.flag = value;
  return argument;
}

Argument text(std::string value) {
  Argument argument = ofKind(Argument::Kind::String);
  argument.text = std::move(value);
  return argument;
}

Argument type(DType dtype) {
  Argument argument = ofKind(Argument::Kind::ScalarType);
  argument.dtype = dtype;
  return argument;
}

Argument integers(std::vector<int64_t> values) {
  Argument argument = ofKind(Argument::Kind::List);
  for (int64_t value : values)
    argument.items.push_back(integer(value));
  return argument;
}

Argument symInt(std::string name) {
  Argument argument = ofKind(Argument::Kind::SymInt);
  argument.text = std::move(name);
  return argument;
}

Argument graph(Graph value) {
  Argument argument = ofKind(Argument::Kind::Graph);
  argument.graph = std::make_shared<Graph>(std::move(value));
  return argument;
}

SymInt symbolic(const std::string &expression, int64_t hint) {
  SymInt size;
  size.expr = parseSymExpr(expression);
  size.value = hint;
  return size;
}

//===-- Graphs ------------------------------------------------------------------------------------===//

static SymInt constant(int64_t value) {
  SymInt size;
  size.value = value;
  return size;
}

void GraphBuilder::value(const std::string &name, DType dtype, const std::vector<SymInt> &sizes) {
  TensorMeta meta;
  meta.dtype = dtype;
  meta.sizes = sizes;
  meta.device = "cpu";
  int64_t stride = 1;
  for (size_t i = sizes.size(); i-- > 0; stride *= sizes[i].value)
    meta.strides.insert(meta.strides.begin(), constant(stride));
  graph.tensorValues[name] = meta;
}

void GraphBuilder::value(const std::string &name, DType dtype, const std::vector<int64_t> &sizes) {
  std::vector<SymInt> symbolicSizes;
  for (int64_t size : sizes)
    symbolicSizes.push_back(constant(size));
  value(name, dtype, symbolicSizes);
}

void GraphBuilder::input(const std::string &name, DType dtype, const std::vector<int64_t> &sizes) {
  value(name, dtype, sizes);
  graph.inputs.push_back(tensor(name));
}

Node &GraphBuilder::op(const std::string &name, const std::string &target, Inputs inputs, DType dtype,
                       const std::vector<int64_t> &sizes) {
  value(name, dtype, sizes);
  return op(name, target, std::move(inputs), {tensor(name)});
}

Node &GraphBuilder::op(const std::string &name, const std::string &target, Inputs inputs,
                       std::vector<Argument> outputs) {
  Node node;
  node.name = name;
  node.target = "torch.ops." + target;
  node.modulePath = modulePath;
  node.inputs = std::move(inputs);
  node.outputs = std::move(outputs);
  graph.nodes.push_back(std::move(node));
  return graph.nodes.back();
}

void ProgramBuilder::placeholder(InputSpec spec) {
  graph.inputs.push_back(tensor(spec.valueName));
  program.inputSpecs.push_back(std::move(spec));
}

void ProgramBuilder::userInput(const std::string &name, DType dtype, const std::vector<int64_t> &sizes) {
  value(name, dtype, sizes);
  InputSpec spec;
  spec.valueName = spec.userName = name;
  placeholder(spec);
}

void ProgramBuilder::userInput(const std::string &name, DType dtype, const std::vector<SymInt> &sizes) {
  value(name, dtype, sizes);
  InputSpec spec;
  spec.valueName = spec.userName = name;
  placeholder(spec);
}

void ProgramBuilder::leaf(InputSpec::Kind kind, const std::string &name, const std::string &fqn, DType dtype,
                          const std::vector<int64_t> &sizes) {
  value(name, dtype, sizes);
  InputSpec spec;
  spec.kind = kind;
  spec.valueName = name;
  spec.fqn = fqn;
  placeholder(spec);
}

void ProgramBuilder::output(const std::string &userName, Argument value) {
  OutputSpec spec;
  spec.value = value;
  spec.userName = userName;
  program.outputSpecs.push_back(spec);
  graph.outputs.push_back(std::move(value));
}

const ExportedProgram &ProgramBuilder::finish() {
  program.torchVersion = "2.14.1";
  program.verifier = "TRAINING";
  program.graph = graph;
  return program;
}

//===-- The fixture -------------------------------------------------------------------------------===//

ImportTest::ImportTest() : archive(Pt2Archive::open(DITC_TEST_MODELS "/ops_views/model.pt2")) {}

OwningOpRef<ModuleOp> ImportTest::import(ProgramBuilder &builder) {
  return importProgram(context, builder.finish(), archive, options);
}

std::string ImportTest::print(ProgramBuilder &builder) {
  std::string text;
  OwningOpRef<ModuleOp> module = import(builder);
  OpPrintingFlags flags;
  llvm::raw_string_ostream stream(text);
  module->print(stream, flags.enableDebugInfo(true, true).printNameLocAsPrefix(true));
  return text;
}

std::vector<std::vector<double>> ImportTest::runAll(ProgramBuilder &builder) {
  OwningOpRef<ModuleOp> module = import(builder);
  auto function = *module->getOps<func::FuncOp>().begin();
  auto counting = [](RankedTensorType type, bool constant) {
    // The evaluator converts for us: cast a table of doubles with an identity map.
    std::vector<double> numbers(type.getNumElements());
    for (size_t i = 0; i < numbers.size(); ++i)
      numbers[i] = constant ? 2 : i + 1;
    OpBuilder builder(type.getContext());
    ImplicitLocOpBuilder here(UnknownLoc::get(type.getContext()), builder);
    OwningOpRef<ModuleOp> scratch = ModuleOp::create(here.getLoc());
    here.setInsertionPointToEnd(scratch->getBody());
    Emit emit(here);
    Value table = emit.doubles(type.getShape(), numbers), cast = emit.cast(table, type.getElementType());
    dit::TensorValue value = dit::fromElements(table.getDefiningOp<dit::ConstantOp>().getValue());
    return cast == table ? value : dit::evaluateOp(cast.getDefiningOp(), {value})->front();
  };
  SmallVector<dit::TensorValue> arguments;
  for (Type type : function.getArgumentTypes())
    arguments.push_back(counting(cast<RankedTensorType>(type), false));
  std::map<std::string, RankedTensorType> weights;
  function.walk(
      [&](dit::WeightOp weight) { weights[weight.getName().str()] = cast<RankedTensorType>(weight.getType()); });
  auto weight = [&](StringRef name) { return counting(weights.at(name.str()), true); };
  FailureOr<SmallVector<dit::TensorValue>> results = dit::evaluateFunction(function, arguments, weight);
  if (failed(results))
    return {};
  std::vector<std::vector<double>> numbers;
  for (const dit::TensorValue &result : *results) {
    numbers.emplace_back();
    for (int64_t i = 0; i < result.type.getNumElements(); ++i)
      numbers.back().push_back(result.at(i));
  }
  return numbers;
}

std::vector<double> ImportTest::run(ProgramBuilder &builder) {
  std::vector<std::vector<double>> results = runAll(builder);
  return results.empty() ? std::vector<double>() : results.front();
}

std::string ImportTest::error(ProgramBuilder &builder) {
  try {
    import(builder);
    return "";
  } catch (const Error &error) {
    return error.what();
  }
}

} // namespace ditc::test
