// SPDX-License-Identifier: Apache-2.0
//
// Programs that are refused, each with its text.
#include "ReaderFixture.h"

#include "compiler/import/ExportedProgram.h"

using namespace ditc;
using namespace ditc::test;
using testing::HasSubstr;

namespace {

std::string parseError(const std::string &text) {
  return errorOf([&] { parseExportedProgram(text, "m.pt2"); });
}

/// What parsing says of the small program after `change`.
std::string changedError(const std::function<void(Json &)> &change) {
  Json program = smallProgram();
  change(program);
  return parseError(program.dump());
}

Json &graphOf(Json &program) { return program["graph_module"]["graph"]; }
Json &signatureOf(Json &program) { return program["graph_module"]["signature"]; }
Json &callOf(Json &program) { return program["graph_module"]["module_call_graph"][0]["signature"]; }

std::string argumentError(const char *text) {
  return changedError([&](Json &p) { graphOf(p)["nodes"][1]["inputs"][0]["arg"] = Json::parse(text); });
}

} // namespace

TEST(ProgramErrorsTest, NotAProgram) {
  EXPECT_THAT(parseError("{\"a\": "), HasSubstr("'m.pt2' is not valid JSON (error at byte"));
  EXPECT_THAT(parseError("{\"a\": 1e999}"), HasSubstr("is not valid JSON"));
  EXPECT_THAT(parseError("\"\\ud800\""), HasSubstr("is not valid JSON"));
  EXPECT_THAT(parseError("[]"),
              HasSubstr("'m.pt2': the JSON is not an exported program, it has no 'graph_module'; save "
                        "the model with torch.export.save"));
}

TEST(ProgramErrorsTest, BoundsDepth) {
  EXPECT_THAT(parseError(std::string(100'000, '[')), HasSubstr("the JSON is nested deeper than 200 levels"));
  std::string deep = "{\"nodes\": [{\"metadata\": " + std::string(100'000, '[');
  EXPECT_THAT(parseError(deep), HasSubstr("the JSON is nested deeper than 200 levels")) << "in what is dropped, too";
}

TEST(ProgramErrorsTest, Versions) {
  EXPECT_THAT(changedError([](Json &p) { p["schema_version"]["major"] = 9; }),
              HasSubstr("the program was written by torch 2.14.1 with schema 9.20; ditc reads schema 8 (torch 2.6 and "
                        "newer), export the model again with such a torch"));
  EXPECT_THAT(changedError([](Json &p) { p["schema_version"] = 3; }), HasSubstr("with schema 3.0"));
  EXPECT_THAT(changedError([](Json &p) { p.erase("schema_version"); }),
              HasSubstr("the field 'schema_version' is missing; the file is damaged or of an unknown version"));
  EXPECT_THAT(changedError([](Json &p) { p["verifiers"] = {"EDGE"}; }),
              HasSubstr("the program is in the dialect [\"EDGE\"]; ditc reads TRAINING and ATEN programs"));
  EXPECT_THAT(changedError([](Json &p) { p["verifiers"] = {"ATEN", "EDGE"}; }), HasSubstr("is in the dialect"));
}

TEST(ProgramErrorsTest, FieldTypes) {
  EXPECT_THAT(changedError([](Json &p) { p["torch_version"] = 3; }),
              HasSubstr("the field 'torch_version' is number, expected a string"));
  EXPECT_THAT(changedError([](Json &p) { p["graph_module"] = 3; }),
              HasSubstr("the field 'graph_module' is number, expected an object"));
  EXPECT_THAT(changedError([](Json &p) { graphOf(p)["nodes"] = Json::object(); }),
              HasSubstr("'m.pt2', graph: the field 'nodes' is object, expected a list"));
  EXPECT_THAT(changedError([](Json &p) { graphOf(p)["nodes"][0] = 5; }),
              HasSubstr("found number where an object with the field 'target' was expected"));
  EXPECT_THAT(changedError([](Json &p) { graphOf(p)["nodes"][0].erase("inputs"); }),
              HasSubstr("node 'linear' (torch.ops.aten.linear.default): the field 'inputs' is missing"));
  EXPECT_THAT(changedError([](Json &p) {
                signatureOf(p)["input_specs"][0] = {
                    {"buffer", {{"arg", {{"name", "p_w"}}}, {"buffer_name", "b"}, {"persistent", 1}}}};
              }),
              HasSubstr("the field 'persistent' is number, expected true or false"));
}

TEST(ProgramErrorsTest, Arguments) {
  EXPECT_THAT(argumentError(R"({})"),
              HasSubstr("node 'relu' (torch.ops.aten.relu.default): 'argument' is an object with "
                        "0 keys, expected an object with one key"));
  EXPECT_THAT(argumentError(R"({"as_int": 1, "as_float": 2})"), HasSubstr("is an object with 2 keys"));
  EXPECT_THAT(argumentError(R"(5)"), HasSubstr("'argument' is number, expected an object with one key"));
  EXPECT_THAT(argumentError(R"({"as_int": 1.5})"), HasSubstr("the field 'as_int' is 1.5, expected a 64-bit integer"));
  EXPECT_THAT(argumentError(R"({"as_int": -9223372036854775809})"), HasSubstr("expected a 64-bit integer"));
  EXPECT_THAT(argumentError(R"({"as_float": "much"})"), HasSubstr("the field 'as_float' is string, expected a number"));
  EXPECT_THAT(argumentError(R"({"as_sym_int": {"as_tensor": 1}})"),
              HasSubstr("a symbolic argument is 'as_tensor', expected a name or a number"));
  EXPECT_THAT(argumentError(R"({"as_optional_tensors": [{"as_int": 1}]})"),
              HasSubstr("an optional tensor is 'as_int', expected 'as_tensor' or 'as_none'"));
  EXPECT_THAT(argumentError(R"({"as_memory_format": "curly"})"),
              HasSubstr("the field 'as_memory_format' is 'curly', which is not a known name"));
  EXPECT_THAT(argumentError(R"({"as_scalar_type": []})"), HasSubstr("the element type is array, expected a number"));
}

TEST(ProgramErrorsTest, TensorTypes) {
  auto metaError = [](const std::function<void(Json &)> &change) {
    return changedError([&](Json &p) { change(graphOf(p)["tensor_values"]["x"]); });
  };
  EXPECT_THAT(
      metaError([](Json &m) { m["dtype"] = 31; }),
      HasSubstr("'m.pt2', value 'x': its element type float8_e4m3fnuz (31) is not supported; convert the tensor"));
  EXPECT_THAT(metaError([](Json &m) { m["dtype"] = 99; }), HasSubstr("its element type 99 is not supported"));
  EXPECT_THAT(
      metaError([](Json &m) { m["layout"] = 1; }),
      HasSubstr("its layout 1 is not dense; ditc takes strided tensors only, call to_dense() before the export"));
  EXPECT_THAT(metaError([](Json &m) { m["sizes"].erase(0); }), HasSubstr("a tensor has 1 sizes and 2 strides"));
  EXPECT_THAT(metaError([](Json &m) { m["sizes"][1] = {{"as_int", -3}}; }),
              HasSubstr("'sizes' holds the negative number -3"));
  EXPECT_THAT(metaError([](Json &m) { m["sizes"][1] = {{"as_float", 3}}; }),
              HasSubstr("a size is 'as_float', expected 'as_int' or 'as_expr'"));
  EXPECT_THAT(metaError([](Json &m) { m["sizes"] = std::vector<Json>(65, {{"as_int", 1}}); }),
              HasSubstr("a tensor has 65 dimensions, more than 64"));
  EXPECT_THAT(metaError([](Json &m) { m["sizes"][0]["as_expr"]["expr_str"] = "s0 + 1"; }),
              HasSubstr("symbolic size 's0 + 1'"));
  EXPECT_THAT(changedError([](Json &p) { graphOf(p)["sym_int_values"]["n"] = {{"as_string", "x"}}; }),
              HasSubstr("a symbolic value is 'as_string', expected a number or an expression"));
}

TEST(ProgramErrorsTest, Names) {
  EXPECT_THAT(changedError([](Json &p) { graphOf(p)["nodes"][1]["inputs"][0]["arg"]["as_tensor"]["name"] = "y"; }),
              HasSubstr("'relu' uses the value 'y', which nothing before it defines"));
  EXPECT_THAT(changedError([](Json &p) { std::swap(graphOf(p)["nodes"][0], graphOf(p)["nodes"][1]); }),
              HasSubstr("'relu' uses the value 'linear', which nothing before it defines"));
  EXPECT_THAT(changedError([](Json &p) { graphOf(p)["nodes"].push_back(graphOf(p)["nodes"][0]); }),
              HasSubstr("the value 'linear' is defined twice"));
  EXPECT_THAT(changedError([](Json &p) { graphOf(p)["tensor_values"].erase("linear"); }),
              HasSubstr("the value 'linear' of 'linear' has no type"));
  EXPECT_THAT(changedError([](Json &p) { graphOf(p)["nodes"].erase(1); }),
              HasSubstr("'graph output' uses the value 'relu', which nothing before it defines"));
}

TEST(ProgramErrorsTest, SubgraphNames) {
  EXPECT_THAT(changedError([](Json &p) {
                Json inner = graphOf(p);
                inner["inputs"].erase(1);
                graphOf(p)["nodes"][1]["inputs"].push_back(
                    {{"name", ""}, {"arg", {{"as_graph", {{"name", "submod"}, {"graph", inner}}}}}});
              }),
              HasSubstr("'linear' uses the value 'x', which nothing before it defines"));
}

TEST(ProgramErrorsTest, Signature) {
  EXPECT_THAT(changedError([](Json &p) { signatureOf(p)["input_specs"].erase(0); }),
              HasSubstr("'m.pt2', signature: the signature has 2 inputs, the graph has 3"));
  EXPECT_THAT(changedError([](Json &p) { signatureOf(p)["output_specs"] = Json::array(); }),
              HasSubstr("the signature has 0 outputs, the graph has 1"));
  EXPECT_THAT(changedError([](Json &p) { signatureOf(p)["input_specs"][0]["parameter"]["arg"]["name"] = "q"; }),
              HasSubstr("the signature calls the input of 'fc.w' 'q', the graph does not"));
  EXPECT_THAT(
      changedError([](Json &p) { signatureOf(p)["input_specs"][1]["user_input"]["arg"]["as_tensor"]["name"] = "q"; }),
      HasSubstr("the signature has the user input 'q', the graph does not"));
  EXPECT_THAT(changedError([](Json &p) { signatureOf(p)["input_specs"][1]["user_input"]["arg"] = {{"as_int", 3}}; }),
              HasSubstr("a user input is neither a tensor nor a symbolic number"));
  EXPECT_THAT(
      changedError([](Json &p) { signatureOf(p)["input_specs"][0] = {{"custom_obj", {{"arg", {{"name", "o"}}}}}}; }),
      HasSubstr("an input of the model is a 'custom_obj'; ditc takes tensors, numbers and constants"));
  EXPECT_THAT(
      changedError([](Json &p) { signatureOf(p)["output_specs"][0]["user_output"]["arg"]["as_tensor"]["name"] = "x"; }),
      HasSubstr("the signature and the graph disagree on the output 'x'"));
  EXPECT_THAT(changedError([](Json &p) {
                signatureOf(p)["output_specs"][0] = {
                    {"buffer_mutation", {{"arg", {{"name", "x"}}}, {"buffer_name", "b"}}}};
              }),
              HasSubstr("the signature and the graph disagree on the new value of 'b'"));
}

TEST(ProgramErrorsTest, CallingConvention) {
  std::string leaf = R"({"type": null, "context": null, "children_spec": []})";
  EXPECT_THAT(changedError([&](Json &p) { callOf(p)["in_spec"] = "[1, " + leaf + "]"; }),
              HasSubstr("in_spec is not a pair of positional and keyword arguments"));
  std::string empty = R"({"type": "builtins.tuple", "context": "null", "children_spec": []})";
  std::string none =
      R"([1, {"type": "builtins.tuple", "context": "null", "children_spec": [)" + empty + "," + empty + "]}]";
  EXPECT_THAT(
      changedError([&](Json &p) { callOf(p)["in_spec"] = none; }),
      HasSubstr("'m.pt2', calling convention: the call has 0 arguments, but the signature lists 2 user inputs"));
  EXPECT_THAT(changedError([&](Json &p) { callOf(p)["out_spec"] = none; }),
              HasSubstr("the result has 0 leaves, but the signature lists 1 user outputs"));
  EXPECT_THAT(changedError([](Json &p) {
                callOf(p)["forward_arg_names"] = {"flag"};
                signatureOf(p)["input_specs"][2]["constant_input"]["name"] = "flag";
              }),
              HasSubstr("two inputs are called 'flag'; rename one and export the model again"));
}

TEST(ProgramErrorsTest, EveryTruncationIsAnError) {
  std::string text = smallProgram().dump();
  for (size_t size = 0; size < text.size(); size += 7)
    EXPECT_EQ(kindOf([&] { parseExportedProgram(text.substr(0, size), "m.pt2"); }), ErrorKind::Input) << size;
}

// Any value of the tree may be of any type: no text but an Error may come out.
TEST(ProgramErrorsTest, EveryFieldMayBeAnything) {
  Json flat = smallProgram().flatten();
  for (const auto &[pointer, original] : flat.items()) {
    for (const Json &value : {Json(nullptr), Json(5), Json("text"), Json(-1.5), Json::array({1}), Json{{"a", 1}}}) {
      Json program = smallProgram();
      program[Json::json_pointer(pointer)] = value;
      std::optional<ErrorKind> kind = kindOf([&] { parseExportedProgram(program.dump(), "m.pt2"); });
      EXPECT_TRUE(!kind || kind == ErrorKind::Input) << pointer;
    }
  }
}
