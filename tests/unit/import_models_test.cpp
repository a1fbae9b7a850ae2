// SPDX-License-Identifier: Apache-2.0
//
// Real exports with golden outputs: each program under tests/models is imported, evaluated by the reference
// evaluator, and compared with what PyTorch gave.
#include "compiler/import/Buckets.h"
#include "compiler/import/Importer.h"
#include "dialects/dit/Dit.h"
#include "dialects/reference/Evaluate.h"
#include "runtime/Compare.h"

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
  case DType::f32: case DType::c64: return 1e-4;
  case DType::f64: case DType::c128: return 1e-10;
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
void expectSimilar(const std::string &name, const dit::TensorValue &actual, const TensorView &expected, double tolerance) {
  double error = 0, norm = 0;
  for (int64_t i = 0; i < actual.type.getNumElements(); ++i) {
    double reference = elementAsDouble(expected.dtype, expected.bytes.data() + i * byteSize(expected.dtype));
    error += (actual.at(i) - reference) * (actual.at(i) - reference);
    norm += reference * reference;
  }
  EXPECT_LE(std::sqrt(error / norm), tolerance) << "relative L2 distance of '" << name << "'";
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
  EXPECT_EQ(wrong, 0) << "elements of '" << name << "' differ; element " << first << " is " << actual.at(std::max<int64_t>(first, 0)) << ", expected "
                      << elementAsDouble(part, expected.bytes.data() + std::max<int64_t>(first, 0) * unit);
}

class Models : public testing::TestWithParam<std::string> {};

/// Programs whose inputs are in inputs.safetensors: model.pt2, model_core.pt2.
std::vector<std::string> programs() {
  std::vector<std::string> result;
  for (const fs::directory_entry &folder : fs::directory_iterator(DITC_TEST_MODELS))
    for (const char *file : {"model.pt2", "model_core.pt2"})
      if (fs::exists(folder.path() / file) && fs::exists(folder.path() / "outputs.safetensors"))
        result.push_back((folder.path().filename() / file).string());
  std::sort(result.begin(), result.end());
  return result;
}

std::string testName(const testing::TestParamInfo<std::string> &info) {
  std::string name = info.param.substr(0, info.param.rfind('.'));
  std::replace_if(name.begin(), name.end(), [](unsigned char c) { return !std::isalnum(c); }, '_');
  return name;
}

} // namespace

TEST_P(Models, AgreesWithPyTorch) {
  fs::path file = fs::path(DITC_TEST_MODELS) / GetParam();
  Pt2Archive archive = Pt2Archive::open(file.string());
  ExportedProgram program = parseExportedProgram(archive.programJson(), file.string());
  Bucket bucket = resolveBuckets(program, {}).front();
  MLIRContext context;
  OwningOpRef<ModuleOp> module = importProgram(context, program, archive, {bucket.name, bucket.symbols, {}});
  auto function = *module->getOps<func::FuncOp>().begin();

  SafetensorsFile inputs = SafetensorsFile::open((file.parent_path() / "inputs.safetensors").string());
  SafetensorsFile outputs = SafetensorsFile::open((file.parent_path() / "outputs.safetensors").string());
  SmallVector<dit::TensorValue> arguments;
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    std::string name = function.getArgAttrOfType<StringAttr>(i, "dit.name").str();
    ASSERT_TRUE(inputs.tensors().count(name)) << name;
    arguments.push_back(toValue(cast<RankedTensorType>(function.getArgument(i).getType()), inputs.tensors().at(name)));
  }
  std::map<std::string, RankedTensorType> types;
  function.walk([&](dit::WeightOp weight) { types[weight.getName().str()] = cast<RankedTensorType>(weight.getType()); });
  auto weight = [&](StringRef name) {
    std::vector<uint8_t> bytes = readContiguous(archive.weights().at(name.str()));
    return toValue(types.at(name.str()), {DType::u8, {}, bytes});
  };
  FailureOr<SmallVector<dit::TensorValue>> results = dit::evaluateFunction(function, arguments, weight);
  ASSERT_TRUE(succeeded(results));
  for (unsigned i = 0; i < results->size(); ++i) {
    std::string name = function.getResultAttrOfType<StringAttr>(i, "dit.name").str();
    ASSERT_TRUE(outputs.tensors().count(name)) << name;
    if (GetParam().starts_with("ops_"))
      expectClose(name, (*results)[i], outputs.tensors().at(name));
    else
      expectSimilar(name, (*results)[i], outputs.tensors().at(name), GetParam().find("bf16") == std::string::npos ? 1e-4 : 2e-2);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Models, testing::ValuesIn(programs()), testName);
