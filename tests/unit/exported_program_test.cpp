// SPDX-License-Identifier: Apache-2.0
//
// Programs: what each field of the JSON becomes.
#include "ReaderFixture.h"

#include "compiler/import/ExportedProgram.h"

#include <cmath>
#include <limits>

using namespace ditc;
using namespace ditc::test;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;
using Kind = Argument::Kind;

namespace {

ExportedProgram parse(const Json &program) { return parseExportedProgram(program.dump(), "m.pt2"); }

Json &graphOf(Json &program) { return program["graph_module"]["graph"]; }

/// The argument that `json` becomes as an input of the last node.
Argument argumentOf(const Json &json) {
  Json program = smallProgram();
  Json &graph = graphOf(program);
  for (const char *key : {"sym_int_values", "sym_float_values", "sym_bool_values"})
    graph[key]["n"] = {{"as_int", 3}};
  Json size = {{"target", "torch.ops.aten.sym_size.int"},
               {"inputs", Json::array()},
               {"metadata", Json::object()},
               {"outputs", Json::array({Json{{"as_sym_int", {{"as_name", "n"}}}}})}};
  graph["nodes"].insert(graph["nodes"].begin(), size);
  graph["nodes"][2]["inputs"].push_back({{"name", "other"}, {"arg", json}});
  return *parse(program).graph.nodes[2].find("other");
}

Argument argumentOf(const char *text) { return argumentOf(Json::parse(text)); }

std::vector<Kind> kindsOf(const std::vector<Argument> &items) {
  std::vector<Kind> kinds;
  for (const Argument &item : items)
    kinds.push_back(item.kind);
  return kinds;
}

} // namespace

TEST(ExportedProgramTest, Root) {
  ExportedProgram program = parse(smallProgram());
  EXPECT_EQ(program.torchVersion, "2.14.1");
  EXPECT_EQ(program.schemaMajor, 8);
  EXPECT_EQ(program.schemaMinor, 20);
  EXPECT_EQ(program.verifier, "TRAINING");
  EXPECT_THAT(program.guards, ElementsAre("L['x'].size()[0] != 3"));
  ASSERT_THAT(program.ranges, SizeIs(1)) << "bare symbols only";
  EXPECT_EQ(program.ranges["s0"].min, 2);
  EXPECT_EQ(program.ranges["s0"].max, std::nullopt);
}

TEST(ExportedProgramTest, BoundsThatNoSizeReachesAreNone) {
  Json root = smallProgram();
  root["range_constraints"]["s0"]["max_val"] = 9457559217478041600u; // torch's, of an unbacked symbol
  EXPECT_EQ(parse(root).ranges["s0"].max, std::nullopt);
}

TEST(ExportedProgramTest, NodesAndTheirModules) {
  Graph graph = parse(smallProgram()).graph;
  ASSERT_THAT(graph.nodes, SizeIs(2));
  const Node &linear = graph.nodes[0];
  EXPECT_EQ(linear.target, "torch.ops.aten.linear.default");
  EXPECT_EQ(linear.name, "linear");
  EXPECT_EQ(linear.modulePath, "blocks.0.fc") << "the innermost module";
  ASSERT_NE(linear.find("weight"), nullptr);
  EXPECT_EQ(linear.find("weight")->text, "p_w");
  EXPECT_EQ(linear.find("bias"), nullptr);
  EXPECT_EQ(linear.outputs[0].text, "linear");
}

TEST(ExportedProgramTest, NodeNamesFallBack) {
  Json program = smallProgram();
  graphOf(program)["nodes"][0].erase("name");
  graphOf(program)["nodes"][0]["metadata"] = Json::object();
  Json check = {
      {"target", "torch.ops.aten._assert_scalar.default"}, {"inputs", Json::array()}, {"outputs", Json::array()}};
  graphOf(program)["nodes"].push_back(check);
  check["target"] = "_operator.add";
  graphOf(program)["nodes"].push_back(check);
  Graph graph = parse(program).graph;
  EXPECT_EQ(graph.nodes[0].name, "linear") << "the first output";
  EXPECT_EQ(graph.nodes[0].modulePath, "");
  EXPECT_EQ(graph.nodes[2].name, "_assert_scalar") << "the target";
  EXPECT_EQ(graph.nodes[3].name, "add");
}

TEST(ExportedProgramTest, TensorTypes) {
  Graph graph = parse(smallProgram()).graph;
  const TensorMeta &x = graph.tensorValues.at("x");
  EXPECT_EQ(x.dtype, DType::f32);
  EXPECT_EQ(x.device, "cpu");
  ASSERT_THAT(x.sizes, SizeIs(2));
  EXPECT_FALSE(x.sizes[0].isConstant());
  EXPECT_TRUE(x.sizes[0].hasHint);
  EXPECT_EQ(x.sizes[0].value, 2);
  EXPECT_EQ(evaluateSize(x.sizes[0], {{"s0", int64_t{9}}}), 9);
  EXPECT_EQ(evaluateSize(x.sizes[1], {}), 3);
  EXPECT_EQ(x.strides[0].value, 3);
  EXPECT_EQ(x.sizes[0].expr, graph.tensorValues.at("relu").sizes[0].expr) << "equal expressions are shared";
}

TEST(ExportedProgramTest, TypesByName) {
  Json program = smallProgram();
  graphOf(program)["tensor_values"]["x"]["dtype"] = "BFLOAT16";
  graphOf(program)["tensor_values"]["x"]["layout"] = "Strided";
  graphOf(program)["tensor_values"]["linear"]["dtype"] = "float8_e4m3fn";
  Graph graph = parse(program).graph;
  EXPECT_EQ(graph.tensorValues.at("x").dtype, DType::bf16);
  EXPECT_EQ(graph.tensorValues.at("linear").dtype, DType::f8e4m3);
}

TEST(ExportedProgramTest, NullAndMissingAreTheSame) {
  Json program = smallProgram();
  Json &x = graphOf(program)["tensor_values"]["x"];
  x["sizes"][0]["as_expr"]["hint"] = nullptr;
  x["storage_offset"] = nullptr;
  program["guards_code"] = nullptr;
  program["torch_version"] = nullptr;
  graphOf(program)["nodes"][0]["name"] = nullptr;
  program["graph_module"]["treespec_namedtuple_fields"] = nullptr;
  ExportedProgram withNulls = parse(program);
  x["sizes"][0]["as_expr"].erase("hint");
  x.erase("storage_offset");
  program.erase("guards_code");
  program.erase("torch_version");
  ExportedProgram without = parse(program);
  for (const ExportedProgram *parsed : {&withNulls, &without}) {
    EXPECT_FALSE(parsed->graph.tensorValues.at("x").sizes[0].hasHint);
    EXPECT_THAT(parsed->guards, IsEmpty());
    EXPECT_EQ(parsed->torchVersion, "<=2.4");
    EXPECT_EQ(parsed->graph.nodes[0].name, "linear");
  }
}

TEST(ExportedProgramTest, ScalarArguments) {
  EXPECT_EQ(argumentOf(R"({"as_none": true})").kind, Kind::None);
  EXPECT_EQ(argumentOf(R"({"as_int": 9223372036854775807})").integer, std::numeric_limits<int64_t>::max());
  EXPECT_EQ(argumentOf(R"({"as_float": 1e-06})").number, 1e-6);
  EXPECT_EQ(argumentOf(R"({"as_float": 2})").number, 2.0);
  EXPECT_EQ(argumentOf(R"({"as_float": 2})").kind, Kind::Float);
  EXPECT_TRUE(argumentOf(R"({"as_bool": true})").flag);
  EXPECT_EQ(argumentOf(R"({"as_string": "tanh"})").text, "tanh");
  Argument number = argumentOf(R"({"as_complex": {"real": 1.0, "imag": -2.0}})");
  EXPECT_EQ(number.kind, Kind::Complex);
  EXPECT_EQ(number.imaginary, -2.0);
  Argument name = argumentOf(R"({"as_sym_int": {"as_name": "n"}})");
  EXPECT_EQ(name.kind, Kind::SymInt);
  EXPECT_EQ(name.text, "n");
  EXPECT_EQ(argumentOf(R"({"as_sym_int": {"as_int": 4}})").kind, Kind::Int);
  EXPECT_EQ(argumentOf(R"({"as_sym_float": {"as_float": 0.5}})").kind, Kind::Float);
  EXPECT_EQ(argumentOf(R"({"as_sym_bool": {"as_name": "n"}})").kind, Kind::SymBool);
}

TEST(ExportedProgramTest, NonFiniteFloats) {
  EXPECT_EQ(argumentOf(R"({"as_float": "-Infinity"})").number, -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(argumentOf(R"({"as_float": "NaN"})").number));
  Json program = smallProgram();
  graphOf(program)["nodes"][1]["inputs"].push_back({{"name", "-Infinity \\\"NaN"}, {"arg", {{"as_float", 12345.5}}}});
  graphOf(program)["nodes"][1]["inputs"].push_back({{"name", "list"}, {"arg", {{"as_floats", {77.5, 78.5}}}}});
  std::string text = program.dump(); // as torch 2.6 writes them: bare tokens
  text.replace(text.find("12345.5"), 7, "-Infinity");
  text.replace(text.find("77.5"), 4, "NaN");
  text.replace(text.find("78.5"), 4, "Infinity");
  ExportedProgram parsed = parseExportedProgram(text, "m.pt2");
  const Node &relu = parsed.graph.nodes[1];
  EXPECT_EQ(relu.find("-Infinity \\\"NaN")->number, -std::numeric_limits<double>::infinity()) << "names stay";
  EXPECT_TRUE(std::isnan(relu.find("list")->items[0].number));
  EXPECT_EQ(relu.find("list")->items[1].number, std::numeric_limits<double>::infinity());
}

TEST(ExportedProgramTest, ListArguments) {
  Argument ints = argumentOf(R"({"as_ints": [1, -1]})");
  EXPECT_EQ(ints.kind, Kind::List);
  EXPECT_EQ(ints.items[1].integer, -1);
  EXPECT_THAT(argumentOf(R"({"as_bools": []})").items, IsEmpty());
  EXPECT_EQ(argumentOf(R"({"as_floats": [2.0]})").items[0].number, 2.0);
  EXPECT_EQ(argumentOf(R"({"as_strings": ["a"]})").items[0].text, "a");
  EXPECT_TRUE(argumentOf(R"({"as_bools": [true]})").items[0].flag);
  Argument mixed = argumentOf(R"({"as_sym_ints": [{"as_name": "n"}, {"as_int": -1}]})");
  EXPECT_THAT(kindsOf(mixed.items), ElementsAre(Kind::SymInt, Kind::Int));
  EXPECT_THAT(kindsOf(argumentOf(R"({"as_sym_floats": [{"as_float": 1.0}]})").items), ElementsAre(Kind::Float));
  EXPECT_THAT(kindsOf(argumentOf(R"({"as_sym_bools": [{"as_bool": true}]})").items), ElementsAre(Kind::Bool));
}

TEST(ExportedProgramTest, TensorArguments) {
  EXPECT_EQ(argumentOf(R"({"as_tensor": {"name": "x"}})").text, "x");
  Argument several = argumentOf(R"({"as_tensors": [{"name": "x"}, {"name": "p_w"}]})");
  EXPECT_EQ(several.kind, Kind::Tensors);
  EXPECT_EQ(several.items[1].text, "p_w");
  Argument optional = argumentOf(R"({"as_optional_tensors": [{"as_none": true}, {"as_tensor": {"name": "x"}}]})");
  EXPECT_EQ(optional.kind, Kind::Tensors);
  EXPECT_THAT(kindsOf(optional.items), ElementsAre(Kind::None, Kind::Tensor));
  EXPECT_EQ(argumentOf(R"({"as_optional_tensor": {"as_tensor": {"name": "x"}}})").kind, Kind::Tensor);
  EXPECT_EQ(argumentOf(R"({"as_optional_tensor": {"as_none": true}})").kind, Kind::None);
}

TEST(ExportedProgramTest, TypeArguments) {
  EXPECT_EQ(argumentOf(R"({"as_scalar_type": 13})").dtype, DType::bf16);
  EXPECT_EQ(argumentOf(R"({"as_scalar_type": "FLOAT"})").dtype, DType::f32);
  Argument unknown = argumentOf(R"({"as_scalar_type": 33})");
  EXPECT_EQ(unknown.dtype, std::nullopt);
  EXPECT_EQ(unknown.text, "float8_e8m0fnu (33)");
  EXPECT_EQ(argumentOf(R"({"as_memory_format": 2})").integer, 2);
  EXPECT_EQ(argumentOf(R"({"as_memory_format": "preserve_format"})").integer, 4);
  EXPECT_EQ(argumentOf(R"({"as_layout": 7})").integer, 7);
  EXPECT_EQ(argumentOf(R"({"as_device": {"type": "cuda", "index": 0}})").text, "cuda");
}

TEST(ExportedProgramTest, UnsupportedArgumentsKeepTheirName) {
  for (const char *variant :
       {"as_custom_obj", "as_operator", "as_nested_tensors", "as_int_lists", "as_string_to_argument"}) {
    Argument argument = argumentOf(Json{{variant, Json::array()}});
    EXPECT_EQ(argument.kind, Kind::Unsupported);
    EXPECT_EQ(argument.text, variant);
  }
}

TEST(ExportedProgramTest, SubgraphsHaveTheirOwnNames) {
  Json program = smallProgram();
  Json inner = graphOf(program);
  inner["inputs"].erase(2);
  graphOf(program)["nodes"][1]["inputs"].push_back(
      {{"name", ""}, {"arg", {{"as_graph", {{"name", "submod_1"}, {"graph", inner}}}}}});
  Graph graph = parse(program).graph;
  const Argument &argument = graph.nodes[1].inputs[1].value;
  EXPECT_EQ(argument.kind, Kind::Graph);
  EXPECT_EQ(argument.text, "submod_1");
  ASSERT_NE(argument.graph, nullptr);
  EXPECT_THAT(argument.graph->nodes, SizeIs(2));
}

TEST(ExportedProgramTest, SymbolicValues) {
  Json program = smallProgram();
  graphOf(program)["sym_int_values"]["n"] = {{"as_int", 17}};
  graphOf(program)["sym_float_values"]["f"] = {
      {"as_expr", {{"expr_str", "ToFloat(Symbol('s0'))"}, {"hint", {{"as_float", 2.0}}}}}};
  graphOf(program)["sym_bool_values"]["b"] = {{"as_expr", {{"expr_str", "true"}, {"hint", nullptr}}}};
  Graph graph = parse(program).graph;
  EXPECT_EQ(graph.symValues.at("n").expr, nullptr);
  EXPECT_EQ(std::get<int64_t>(graph.symValues.at("n").value), 17);
  EXPECT_EQ(std::get<double>(graph.symValues.at("f").value), 2.0);
  EXPECT_FALSE(graph.symValues.at("b").hasHint);
}

TEST(ExportedProgramTest, InputSpecs) {
  ExportedProgram program = parse(smallProgram());
  ASSERT_THAT(program.inputSpecs, SizeIs(3));
  EXPECT_EQ(program.inputSpecs[0].kind, InputSpec::Kind::Parameter);
  EXPECT_EQ(program.inputSpecs[0].fqn, "fc.w");
  EXPECT_EQ(program.inputSpecs[0].valueName, "p_w");
  EXPECT_EQ(program.inputSpecs[1].kind, InputSpec::Kind::UserInput);
  EXPECT_EQ(program.inputSpecs[1].userName, "x");
  EXPECT_EQ(program.inputSpecs[2].kind, InputSpec::Kind::ConstantInput);
  EXPECT_EQ(program.inputSpecs[2].userName, "flag");
  EXPECT_TRUE(program.inputSpecs[2].constant.flag);
  ASSERT_THAT(program.outputSpecs, SizeIs(1));
  EXPECT_EQ(program.outputSpecs[0].userName, "output");
}

TEST(ExportedProgramTest, BuffersAndConstants) {
  Json program = smallProgram();
  Json &spec = program["graph_module"]["signature"]["input_specs"][0];
  spec = {{"buffer", {{"arg", {{"name", "p_w"}}}, {"buffer_name", "pos"}, {"persistent", false}}}};
  InputSpec buffer = parse(program).inputSpecs[0];
  EXPECT_EQ(buffer.kind, InputSpec::Kind::Buffer);
  EXPECT_FALSE(buffer.persistent);
  spec["buffer"].erase("persistent");
  EXPECT_TRUE(parse(program).inputSpecs[0].persistent);
  spec = {{"tensor_constant", {{"arg", {{"name", "p_w"}}}, {"tensor_constant_name", "lifted_tensor_0"}}}};
  InputSpec constant = parse(program).inputSpecs[0];
  EXPECT_EQ(constant.kind, InputSpec::Kind::TensorConstant);
  EXPECT_EQ(constant.fqn, "lifted_tensor_0");
}

TEST(ExportedProgramTest, OutputSpecs) {
  Json program = smallProgram();
  Json mutated = {{"as_tensor", {{"name", "linear"}}}};
  Json &outputs = graphOf(program)["outputs"];
  outputs.insert(outputs.begin(), mutated);
  Json &specs = program["graph_module"]["signature"]["output_specs"];
  specs.insert(specs.begin(), Json{{"buffer_mutation", {{"arg", {{"name", "linear"}}}, {"buffer_name", "state"}}}});
  std::vector<OutputSpec> parsed = parse(program).outputSpecs;
  EXPECT_EQ(parsed[0].kind, OutputSpec::Kind::BufferMutation);
  EXPECT_EQ(parsed[0].target, "state");
  EXPECT_EQ(parsed[0].value.text, "linear");
  EXPECT_EQ(parsed[1].userName, "output");
  specs[0] = {{"user_input_mutation", {{"arg", {{"name", "linear"}}}, {"user_input_name", "x"}}}};
  EXPECT_EQ(parse(program).outputSpecs[0].kind, OutputSpec::Kind::UserInputMutation);
  specs[0] = {{"parameter_mutation", {{"arg", {{"name", "linear"}}}, {"parameter_name", "fc.w"}}}};
  EXPECT_EQ(parse(program).outputSpecs[0].kind, OutputSpec::Kind::ParameterMutation);
  specs[0] = {{"loss_output", {{"arg", {{"name", "linear"}}}}}};
  EXPECT_EQ(parse(program).outputSpecs[0].kind, OutputSpec::Kind::Other);
  EXPECT_EQ(parse(program).outputSpecs[0].target, "loss_output");
}

// torch 2.6 swaps the placeholders of keyword arguments that are passed in another order: the tree is right.
TEST(ExportedProgramTest, KeywordNamesComeFromTheTree) {
  Json program = smallProgram();
  Json &constant = program["graph_module"]["signature"]["input_specs"][2]["constant_input"];
  constant["name"] = "encoder_hidden_states";
  EXPECT_EQ(parse(program).inputSpecs[2].userName, "flag");
}

TEST(ExportedProgramTest, NestedPositionalInputs) {
  Json program = smallProgram();
  Json &signature = program["graph_module"]["module_call_graph"][0]["signature"];
  Json spec = Json::parse(signature["in_spec"].get<std::string>());
  Json &args = spec[1]["children_spec"][0]["children_spec"];
  args[0] = {{"type", "builtins.list"}, {"context", "null"}, {"children_spec", Json::array({args[0]})}};
  signature["in_spec"] = spec.dump();
  EXPECT_EQ(parse(program).inputSpecs[1].userName, "x.0");
  signature["forward_arg_names"] = Json::array();
  EXPECT_EQ(parse(program).inputSpecs[1].userName, "x") << "the placeholder's name";
}

TEST(ExportedProgramTest, PlaceholderNamesWithoutASignature) {
  Json program = smallProgram();
  program["graph_module"]["module_call_graph"][0]["signature"] = nullptr;
  ExportedProgram parsed = parse(program);
  EXPECT_EQ(parsed.inputSpecs[1].userName, "x");
  EXPECT_EQ(parsed.inputSpecs[2].userName, "flag");
  EXPECT_EQ(parsed.outputSpecs[0].userName, "output");
}
