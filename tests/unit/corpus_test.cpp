// SPDX-License-Identifier: Apache-2.0
//
// Real files: everything opens or is refused with one message, tensors are equal in all layouts, expressions
// evaluate to the hints that torch wrote. Skipped without DITC_PT2_CORPUS_DIR and DITC_ZOO_DIR.
#include "ReaderFixture.h"

#include "compiler/import/ExportedProgram.h"
#include "compiler/import/Pickle.h"
#include "compiler/import/Pt2Archive.h"
#include "compiler/import/Pt2Tensors.h"
#include "runtime/Zip.h"

#include <cmath>
#include <filesystem>

using namespace ditc;
using namespace ditc::test;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

class CorpusTest : public testing::Test {
protected:
  void SetUp() override {
    files = filesOf("DITC_PT2_CORPUS_DIR");
    std::vector<std::string> zoo = filesOf("DITC_ZOO_DIR");
    hasCorpus = !files.empty();
    files.insert(files.end(), zoo.begin(), zoo.end());
    if (files.empty())
      GTEST_SKIP() << "DITC_PT2_CORPUS_DIR and DITC_ZOO_DIR are not set";
  }
  std::string corpus(const std::string &name) {
    return std::string(std::getenv("DITC_PT2_CORPUS_DIR")) + "/" + name + ".pt2";
  }
  ExportedProgram parse(const std::string &path) {
    Pt2Archive archive = Pt2Archive::open(path);
    return parseExportedProgram(archive.programJson(), path);
  }

  std::vector<std::string> files;
  bool hasCorpus = false;
};

class NamedCorpusTest : public CorpusTest {
protected:
  void SetUp() override {
    CorpusTest::SetUp();
    if (!hasCorpus && !IsSkipped())
      GTEST_SKIP() << "DITC_PT2_CORPUS_DIR is not set";
  }
};

void bindHints(const Graph &graph, SymBindings &bindings) {
  for (const auto &[name, meta] : graph.tensorValues)
    for (const SymInt &size : meta.sizes)
      if (size.expr && size.hasHint && size.expr->function == "Symbol")
        bindings[size.expr->text] = size.value;
  for (const auto &[name, scalar] : graph.symValues)
    if (scalar.expr && scalar.hasHint && scalar.expr->function == "Symbol")
      bindings[scalar.expr->text] = scalar.value;
}

/// Checks all hints of the graph and its subgraphs; their number.
size_t checkHints(const Graph &graph, const SymBindings &bindings, const std::string &file) {
  size_t count = 0;
  auto check = [&](const SymInt &size) {
    if (!size.expr || !size.hasHint)
      return;
    ++count;
    EXPECT_EQ(evaluateInt(*size.expr, bindings), size.value) << file << ": " << toString(*size.expr);
  };
  for (const auto &[name, meta] : graph.tensorValues) {
    std::for_each(meta.sizes.begin(), meta.sizes.end(), check);
    std::for_each(meta.strides.begin(), meta.strides.end(), check);
    check(meta.storageOffset);
  }
  for (const auto &[name, scalar] : graph.symValues) {
    if (!scalar.expr || !scalar.hasHint)
      continue;
    ++count;
    EXPECT_EQ(evaluate(*scalar.expr, bindings), scalar.value) << file << ": " << toString(*scalar.expr);
  }
  for (const Node &node : graph.nodes)
    for (const NamedArgument &input : node.inputs)
      if (input.value.graph)
        count += checkHints(*input.value.graph, bindings, file);
  return count;
}

std::map<std::string, std::vector<uint8_t>> contentsOf(const std::map<std::string, StoredTensor> &tensors) {
  std::map<std::string, std::vector<uint8_t>> contents;
  for (const auto &[name, tensor] : tensors)
    if (tensor.hasBytes())
      contents[name] = readContiguous(tensor);
  return contents;
}

std::vector<std::string> userNames(const std::vector<InputSpec> &specs) {
  std::vector<std::string> names;
  for (const InputSpec &spec : specs)
    if (!spec.userName.empty())
      names.push_back(spec.userName);
  return names;
}

std::vector<std::string> userNames(const std::vector<OutputSpec> &specs) {
  std::vector<std::string> names;
  for (const OutputSpec &spec : specs)
    if (!spec.userName.empty())
      names.push_back(spec.userName);
  return names;
}

/// Value `index` of the tensor as a float.
double valueAt(const std::vector<uint8_t> &bytes, DType type, size_t index) {
  if (type == DType::bf16) {
    uint32_t bits = uint32_t{bytes[2 * index]} << 16 | uint32_t{bytes[2 * index + 1]} << 24;
    float value;
    std::memcpy(&value, &bits, sizeof(value));
    return value;
  }
  float value;
  std::memcpy(&value, bytes.data() + index * sizeof(value), sizeof(value));
  return value;
}

} // namespace

TEST_F(CorpusTest, EverythingOpensOrSaysWhyNot) {
  std::map<char, size_t> layouts;
  size_t refused = 0;
  for (const std::string &path : files) {
    try {
      ++layouts[Pt2Archive::open(path).layout()];
      parse(path);
    } catch (const Error &error) {
      ++refused;
      EXPECT_THAT(error.what(), testing::AnyOf(HasSubstr("is incomplete: it has no program"),
                                               HasSubstr("its element type float8_e4m3fnuz (31) is not supported")))
          << path;
    }
  }
  if (hasCorpus) {
    EXPECT_GT(layouts['A'], 30u);
    EXPECT_EQ(layouts['B'], 1u);
    EXPECT_GT(layouts['C'], 40u);
    EXPECT_EQ(refused, 7u);
  }
}

TEST_F(CorpusTest, ExpressionsEvaluateToTheirHints) {
  size_t count = 0;
  for (const std::string &path : files) {
    ExportedProgram program;
    try {
      program = parse(path);
    } catch (const Error &) {
      continue; // the test above says which may fail
    }
    SymBindings bindings;
    bindHints(program.graph, bindings);
    count += checkHints(program.graph, bindings, path);
  }
  EXPECT_GT(count, hasCorpus ? 1000u : 0u);
}

TEST_F(CorpusTest, EverySpecHasItsTensor) {
  for (const std::string &path : files) {
    try {
      Pt2Archive archive = Pt2Archive::open(path);
      ExportedProgram program = parseExportedProgram(archive.programJson(), path);
      for (const InputSpec &spec : program.inputSpecs) {
        bool isConstant = spec.kind == InputSpec::Kind::TensorConstant || !spec.persistent;
        const auto &tensors = isConstant ? archive.constants() : archive.weights();
        if (!spec.fqn.empty() && !archive.unreadable().count(spec.fqn)) {
          ASSERT_TRUE(tensors.count(spec.fqn)) << path << ": " << spec.fqn;
          EXPECT_EQ(tensors.at(spec.fqn).dtype, program.graph.tensorValues.at(spec.valueName).dtype);
        }
      }
    } catch (const Error &) {
      continue;
    }
  }
}

TEST_F(NamedCorpusTest, LayoutsHoldEqualTensors) {
  for (const char *model : {"dit32", "ditbf", "mini"}) {
    Pt2Archive a = Pt2Archive::open(corpus(std::string(model) + "-2.6.0"));
    Pt2Archive c = Pt2Archive::open(corpus(std::string(model) + "-2.14.1"));
    EXPECT_EQ(a.layout(), 'A');
    EXPECT_EQ(c.layout(), 'C');
    EXPECT_EQ(contentsOf(a.weights()), contentsOf(c.weights())) << model;
  }
  Pt2Archive b = Pt2Archive::open(corpus("layoutB")), c = Pt2Archive::open(corpus("weights-2.14.1"));
  EXPECT_EQ(b.layout(), 'B');
  EXPECT_EQ(contentsOf(b.weights()), contentsOf(c.weights()));
  EXPECT_EQ(contentsOf(b.constants()), contentsOf(c.constants()));
  EXPECT_GT(b.weights().size(), 20u);
}

TEST_F(NamedCorpusTest, OddWeights) {
  Pt2Archive archive = Pt2Archive::open(corpus("weights-2.14.1"));
  const auto &weights = archive.weights();
  EXPECT_EQ(weights.at("a").storageId, weights.at("tied").storageId);
  EXPECT_EQ(weights.at("v1").storageId, weights.at("v2").storageId);
  EXPECT_THAT(weights.at("cl").strides, ElementsAre(48, 1, 12, 3)) << "channels last";
  EXPECT_THAT(weights.at("expanded").strides, ElementsAre(0, 1));
  EXPECT_EQ(readContiguous(weights.at("expanded")).size(), 48u);
  EXPECT_TRUE(readContiguous(weights.at("empty")).empty());
  EXPECT_TRUE(weights.at("empty").hasBytes());
  EXPECT_EQ(weights.at("scalar").elementCount(), 1);
  EXPECT_TRUE(archive.unreadable().count("float8_e4m3fnuz"));
  Pt2Archive older = Pt2Archive::open(corpus("weights-2.6.0"));
  for (const auto &[name, content] : contentsOf(older.weights()))
    if (!weights.at(name).isParameter) // the parameters are random
      EXPECT_EQ(readContiguous(weights.at(name)), content) << name;
}

TEST_F(NamedCorpusTest, SubclassIsNamed) {
  Pt2Archive archive = Pt2Archive::open(corpus("subc-2.14.1"));
  EXPECT_THAT(archive.unreadable().at("w"), HasSubstr("tensor subclass"));
  EXPECT_TRUE(archive.weights().count("b"));
}

// The first input as torch.save wrote it, against the values that the exporter printed.
TEST_F(NamedCorpusTest, ExampleInputsAreBitEqual) {
  for (const char *name : {"dit32-2.6.0", "dit32-2.14.1", "ditbf-2.6.0", "ditbf-2.14.1"}) {
    std::string path = corpus(name), top = std::string(name) + "/";
    ZipReader outer = ZipReader::open(path);
    const ZipEntry *member = outer.find("serialized_example_inputs.pt");
    member = member ? member : outer.find(top + "data/sample_inputs/model.pt");
    ZipReader inner = ZipReader::openNested(outer, *member);
    PickleDocument document = PickleDocument::parse(inner.bytes(*inner.find("archive/data.pkl")), name);
    const PickleValue &x = *document.root().items.at(0)->items.at(0);
    ASSERT_EQ(x.kind, PickleValue::Kind::Tensor);
    const ZipEntry &storage = *inner.find("archive/data/" + x.items[0]->text);
    StoredTensor tensor{*x.dtype,
                        *integersOf(*x.items[1]),
                        *integersOf(*x.items[2]),
                        x.integer,
                        path,
                        "x",
                        storage.payloadOffset,
                        storage.size,
                        false};
    std::vector<uint8_t> bytes = readContiguous(tensor);
    Json expected = Json::parse(readBytes(path.substr(0, path.size() - 4) + ".io.json"))["x"];
    EXPECT_EQ(tensor.sizes, expected["shape"].get<std::vector<int64_t>>());
    for (size_t i = 0; i < expected["data"].size(); ++i)
      EXPECT_EQ(valueAt(bytes, tensor.dtype, i), expected["data"][i].get<double>()) << name << " " << i;
  }
}

// fc2(silu(fc1(x))) with the weights of the archive gives the outputs that torch gave.
TEST_F(NamedCorpusTest, StubsComputeTheirReference) {
  for (const char *name : {"stub", "stub--view", "stub--dynamic", "stub--dynamic--view"}) {
    Pt2Archive archive = Pt2Archive::open(corpus(name));
    Json reference = Json::parse(readBytes(corpus(name) + ".ref.json"));
    auto linear = [&](const std::string &layer, const std::vector<double> &x) {
      const StoredTensor &weight = archive.weights().at(layer + ".weight"),
                         &bias = archive.weights().at(layer + ".bias");
      std::vector<uint8_t> w = readContiguous(weight), b = readContiguous(bias);
      std::vector<double> y;
      for (size_t row = 0; row < static_cast<size_t>(weight.sizes[0]); ++row) {
        y.push_back(valueAt(b, bias.dtype, row));
        for (size_t i = 0; i < x.size(); ++i)
          y.back() += valueAt(w, weight.dtype, row * x.size() + i) * x[i];
      }
      return y;
    };
    for (size_t row = 0; row < reference["x"].size(); ++row) {
      std::vector<double> hidden = linear("fc1", reference["x"][row]);
      for (double &value : hidden)
        value /= 1 + std::exp(-value);
      std::vector<double> y = linear("fc2", hidden);
      for (size_t i = 0; i < y.size(); ++i)
        EXPECT_NEAR(y[i], reference["y"][row][i].get<double>(), reference["atol"].get<double>()) << name;
    }
  }
}

TEST_F(NamedCorpusTest, InputNames) {
  for (const char *version : {"-2.6.0", "-2.14.1"}) {
    ExportedProgram in1 = parse(corpus(std::string("in1") + version));
    EXPECT_THAT(userNames(in1.inputSpecs),
                ElementsAre("hidden_states", "timestep", "return_dict", "guidance", "encoder_hidden_states"));
    EXPECT_THAT(userNames(in1.outputSpecs), ElementsAre("output.0"));
    ExportedProgram in2 = parse(corpus(std::string("in2") + version));
    EXPECT_THAT(userNames(in2.inputSpecs), ElementsAre("kw.b", "kw.a", "return_dict", "timestep", "hidden_states"));
    EXPECT_THAT(userNames(in2.outputSpecs), ElementsAre("sample"));
    ExportedProgram in5 = parse(corpus(std::string("in5") + version));
    EXPECT_THAT(userNames(in5.inputSpecs), ElementsAre("a", "args_0", "args_1", "zz", "b", "yy"));
    bool hasFields = std::string(version) == "-2.14.1"; // 2.6 does not write the names of namedtuples
    EXPECT_THAT(userNames(in5.outputSpecs),
                ElementsAre(hasFields ? "output.0.a" : "output.0.0", hasFields ? "output.0.b" : "output.0.1",
                            "output.1.0", "output.1.1.k"));
    ExportedProgram mini = parse(corpus(std::string("mini") + version));
    EXPECT_THAT(userNames(mini.inputSpecs), ElementsAre("x", "scale", "flag", "t.emb.0"));
    EXPECT_THAT(userNames(mini.outputSpecs), ElementsAre("out", "aux.0", "aux.1"));
  }
}

// The trap of torch 2.6: the placeholder of the bool is called like the tensor, the tree names both right.
TEST_F(NamedCorpusTest, MisnamedPlaceholders) {
  ExportedProgram program = parse(corpus("in1-2.6.0"));
  const InputSpec &flag = program.inputSpecs[2], &states = program.inputSpecs[4];
  EXPECT_EQ(flag.valueName, "encoder_hidden_states");
  EXPECT_EQ(flag.userName, "return_dict");
  EXPECT_EQ(flag.constant.kind, Argument::Kind::Bool);
  EXPECT_EQ(states.valueName, "return_dict");
  EXPECT_EQ(states.userName, "encoder_hidden_states");
}
