// SPDX-License-Identifier: Apache-2.0
//
// Real exports with golden outputs: each program under tests/models is imported, evaluated by the reference
// evaluator, and compared with what PyTorch gave.
#include "compiler/import/Buckets.h"
#include "compiler/import/Importer.h"
#include "dialects/dit/Dit.h"
#include "dialects/reference/Evaluate.h"
#include "runtime/Compare.h"
#include "runtime/Error.h"

#include "mlir/IR/MLIRContext.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

using namespace mlir;
using namespace ditc;
namespace fs = std::filesystem;

namespace {

/// How far apart numbers may be after a few operations in the type.
double toleranceOf(DType dtype) {
  switch (dtype) {
  case DType::bf16: return 2e-2;
  case DType::f16: return 2e-3;
  case DType::f32:
  case DType::c64: return 1e-4;
  case DType::f64:
  case DType::c128: return 1e-10;
  default: return 0;
  }
}

bool isClose(double actual, double expected, double tolerance) {
  if (std::isnan(expected) || std::isnan(actual))
    return std::isnan(expected) && std::isnan(actual);
  return actual == expected || std::abs(actual - expected) <= tolerance * (1 + std::abs(expected));
}

dit::TensorValue toValue(RankedTensorType type, const TensorView &view) {
  dit::TensorValue value = dit::TensorValue::zeros(type);
  EXPECT_EQ(value.bytes->size(), view.bytes.size());
  std::copy(view.bytes.begin(), view.bytes.end(), value.bytes->begin());
  return value;
}

/// The output of a whole model: in bf16 the reference is the f32 run of the same weights.
void expectSimilar(const std::string &name, const dit::TensorValue &actual, const TensorView &expected,
                   double tolerance) {
  double error = 0, norm = 0;
  for (int64_t i = 0; i < actual.type.getNumElements(); ++i) {
    double reference = elementAsDouble(expected.dtype, expected.bytes.data() + i * byteSize(expected.dtype));
    error += (actual.at(i) - reference) * (actual.at(i) - reference);
    norm += reference * reference;
  }
  EXPECT_LE(error == 0 ? 0 : std::sqrt(error / norm), tolerance) << "relative L2 distance of '" << name << "'";
}

/// Operators one by one.
void expectClose(const std::string &name, const dit::TensorValue &actual, const TensorView &expected) {
  size_t unit = byteSize(expected.dtype) / (isComplex(expected.dtype) ? 2 : 1);
  DType part = expected.dtype == DType::c64 ? DType::f32 : expected.dtype == DType::c128 ? DType::f64 : expected.dtype;
  ASSERT_EQ(static_cast<size_t>(actual.type.getNumElements()) * unit, expected.bytes.size()) << name;
  int64_t wrong = 0, first = -1;
  for (int64_t i = 0; i < actual.type.getNumElements(); ++i)
    if (!isClose(actual.at(i), elementAsDouble(part, expected.bytes.data() + i * unit), toleranceOf(expected.dtype))) {
      first = wrong++ == 0 ? i : first;
    }
  EXPECT_EQ(wrong, 0) << "elements of '" << name << "' differ; element " << first << " is "
                      << actual.at(std::max<int64_t>(first, 0)) << ", expected "
                      << elementAsDouble(part, expected.bytes.data() + std::max<int64_t>(first, 0) * unit);
}

/// One program and one set of inputs: "dit/model.pt2" and "_batch4".
struct Case {
  std::string program, variant;

  fs::path file() const { return fs::path(DITC_TEST_MODELS) / program; }
  fs::path tensors(const std::string &what) const { return file().parent_path() / (what + variant + ".safetensors"); }
};

void PrintTo(const Case &which, std::ostream *out) { *out << which.program << which.variant; }

class Models : public testing::TestWithParam<Case> {
protected:
  /// A bucket whose symbols fit the inputs.
  static Bucket bucketFor(const ExportedProgram &program, const SafetensorsFile &inputs) {
    std::string spec = "test:";
    for (const InputSpec &input : program.inputSpecs) {
      auto found = inputs.tensors().find(input.userName);
      if (input.kind != InputSpec::Kind::UserInput || found == inputs.tensors().end())
        continue;
      for (size_t d = 0; d < found->second.shape.size(); ++d)
        spec += (spec.back() == ':' ? "" : ",") + input.userName + "." + std::to_string(d) + "=" +
                std::to_string(found->second.shape[d]);
    }
    return resolveBuckets(program, {spec}).front();
  }

  std::vector<dit::TensorValue> evaluate(func::FuncOp function, const SafetensorsFile &inputs,
                                         const Pt2Archive &archive) {
    SmallVector<dit::TensorValue> arguments;
    for (unsigned i = 0; i < function.getNumArguments(); ++i) {
      std::string name = function.getArgAttrOfType<StringAttr>(i, "dit.name").str();
      EXPECT_TRUE(inputs.tensors().count(name)) << name;
      arguments.push_back(
          toValue(cast<RankedTensorType>(function.getArgument(i).getType()), inputs.tensors().at(name)));
    }
    std::map<std::string, RankedTensorType> types;
    function.walk(
        [&](dit::WeightOp weight) { types[weight.getName().str()] = cast<RankedTensorType>(weight.getType()); });
    auto weight = [&](StringRef name) {
      std::vector<uint8_t> bytes = readContiguous(archive.weights().at(name.str()));
      return toValue(types.at(name.str()), {DType::u8, {}, bytes});
    };
    FailureOr<SmallVector<dit::TensorValue>> results = dit::evaluateFunction(function, arguments, weight);
    EXPECT_TRUE(succeeded(results));
    return succeeded(results) ? std::vector(results->begin(), results->end()) : std::vector<dit::TensorValue>();
  }
};

/// Every model.pt2 and model_core.pt2 with every inputs*.safetensors beside it that has outputs.
std::vector<Case> cases() {
  std::vector<Case> result;
  for (const fs::directory_entry &folder : fs::directory_iterator(DITC_TEST_MODELS)) {
    if (!folder.is_directory())
      continue;
    for (const char *file : {"model.pt2", "model_core.pt2"})
      for (const fs::directory_entry &entry : fs::directory_iterator(folder)) {
        std::string name = entry.path().stem().string();
        Case found{(folder.path().filename() / file).string(), name.starts_with("inputs") ? name.substr(6) : ""};
        if (name.starts_with("inputs") && fs::exists(found.file()) && fs::exists(found.tensors("outputs")))
          result.push_back(found);
      }
  }
  std::sort(result.begin(), result.end(), [](const Case &a, const Case &b) {
    return std::tie(a.program, a.variant) < std::tie(b.program, b.variant);
  });
  return result;
}

std::string testName(const testing::TestParamInfo<Case> &info) {
  std::string name = info.param.program.substr(0, info.param.program.rfind('.')) + info.param.variant;
  std::replace_if(name.begin(), name.end(), [](unsigned char c) { return !std::isalnum(c); }, '_');
  return name;
}

} // namespace

TEST_P(Models, AgreesWithPyTorch) {
  Pt2Archive archive = Pt2Archive::open(GetParam().file().string());
  ExportedProgram program = parseExportedProgram(archive.programJson(), GetParam().program);
  SafetensorsFile inputs = SafetensorsFile::open(GetParam().tensors("inputs").string());
  SafetensorsFile outputs = SafetensorsFile::open(GetParam().tensors("outputs").string());
  Bucket bucket = bucketFor(program, inputs);
  MLIRContext context;
  OwningOpRef<ModuleOp> module = importProgram(context, program, archive, {bucket.name, bucket.symbols, {}});
  auto function = *module->getOps<func::FuncOp>().begin();
  bool isModel = !GetParam().program.starts_with("ops_");
  auto isLow = [&](const dit::TensorValue &value) { return value.type.getElementTypeBitWidth() == 16 || GetParam().program.starts_with("autocast"); };
  std::vector<dit::TensorValue> results = evaluate(function, inputs, archive);
  for (unsigned i = 0; i < results.size(); ++i) {
    std::string name = function.getResultAttrOfType<StringAttr>(i, "dit.name").str();
    auto expected = outputs.tensors().find(name);
    if (expected == outputs.tensors().end())
      continue; // a number, which safetensors files do not hold
    if (isModel)
      expectSimilar(name, results[i], expected->second, isLow(results[i]) ? 2e-2 : 1e-4);
    else
      expectClose(name, results[i], expected->second);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Models, testing::ValuesIn(cases()), testName);

//===-- Programs that are refused -----------------------------------------------------------------===//

namespace {

/// What importing tests/errors/models/`name` says.
std::string refusal(const std::string &name) {
  std::string file = std::string(DITC_TEST_MODELS) + "/../errors/models/" + name + "/model.pt2";
  Pt2Archive archive = Pt2Archive::open(file);
  ExportedProgram program = parseExportedProgram(archive.programJson(), file);
  MLIRContext context;
  try {
    importProgram(context, program, archive, {"default", resolveBuckets(program, {}).front().symbols, {}});
    return "";
  } catch (const Error &error) {
    return error.what();
  }
}

} // namespace

TEST(Refused, NamesTheModuleTheNodeAndTheReason) {
  const std::map<std::string, std::string> expected{
      {"boolean_index", "node 'index' (aten.index.Tensor): a boolean index makes a size depend on data"},
      {"cond", "node 'cond' (higher_order.cond): its predicate depends on data"},
      {"custom_op", "node 'scale' (ditc_test.scale.default): custom ops are not supported"},
      {"data_size", "node 'item' (aten.item.default): a number of the program depends on data"},
      {"dropout", "node 'dropout' (aten.dropout.default): dropout is switched on"},
      {"unknown_op", "node 'linalg_qr' (aten.linalg_qr.default): this ATen op is not supported"},
      {"item", "node 'item' (aten.item.default): a number of the program depends on data"},
      {"masked_order", "node 'index' (aten.index.Tensor): a boolean index makes a size depend on data"},
      {"nonzero", "node 'nonzero' (aten.nonzero.default): the size of its result depends on data"},
      {"random", "node 'randn_like' (aten.randn_like.default): random numbers are not supported"},
      {"writes_buffer", "node 'add_' (aten.add_.Tensor): it writes to 'blocks.0.steps'"},
  };
  for (const auto &[name, text] : expected)
    EXPECT_NE(refusal(name).find("1 node cannot be imported:\n  'blocks.0', " + text), std::string::npos)
        << name << ": " << refusal(name);
}

TEST(Refused, ButWritesToInputsStayLocal) { EXPECT_EQ(refusal("writes_input"), ""); }
