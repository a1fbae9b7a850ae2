// SPDX-License-Identifier: Apache-2.0
//
// The hand-made package and its numbers.
#include "RuntimeFixture.h"

#include "runtime/Hash.h"
#include "runtime/Zip.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace ditc::test {

namespace fs = std::filesystem;

TempFolder::TempFolder() : path("/tmp/ditc-test-XXXXXX") {
  if (!mkdtemp(path.data()))
    std::abort();
}

TempFolder::~TempFolder() {
  std::error_code ignored;
  fs::remove_all(path, ignored);
}

std::vector<std::string> TempFolder::list() const {
  std::vector<std::string> names;
  for (const fs::directory_entry &entry : fs::directory_iterator(path))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::string readText(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

void writeText(const std::string &path, std::string_view text) {
  std::ofstream(path, std::ios::binary) << text;
}

static std::vector<float> ramp(int64_t count, float start, float step) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i)
    values.push_back(start + step * static_cast<float>(i));
  return values;
}

std::vector<float> weightW() { return ramp(kOut * kIn, -1.0f, 0.25f); }
std::vector<float> weightB() { return ramp(kOut, 0.5f, -0.5f); }
std::vector<float> table() { return ramp(kOut, 10, 1); }
std::vector<float> largeTable() {
  std::vector<float> values = table();
  values.resize(100'000);
  return values;
}
std::vector<float> inputX(int64_t rows) { return ramp(rows * kIn, -2, 0.5f); }

std::vector<float> expectedY(const std::vector<float> &x, const std::vector<float> &w) {
  std::vector<float> y;
  for (size_t m = 0; m < x.size() / kIn; ++m)
    for (size_t n = 0; n < kOut; ++n) {
      float sum = weightB()[n];
      for (size_t k = 0; k < kIn; ++k)
        sum += x[m * kIn + k] * w[n * kIn + k];
      y.push_back(std::max(sum, 0.0f) + table()[n]);
    }
  return y;
}

Plan testPlan(int64_t rows, const std::string &tableMember, uint64_t tableBytes) {
  Plan plan;
  plan.arenaBytes = 64 + static_cast<uint64_t>(rows * kOut) * 4;
  plan.preparedBytes = kIn * kOut * 4;
  plan.inputs = {{"x", DType::f32, {rows, kIn}}};
  plan.outputs = {{"y", DType::f32, {rows, kOut}}};
  plan.buffers = {{Space::Input, 0, "", 0, 0},
                  {Space::Output, 0, "", 0, 0},
                  {Space::Weight, 0, "w", 0, kOut * kIn * 4},
                  {Space::Weight, 0, "b", 0, kOut * 4},
                  {Space::Constant, 0, tableMember, 0, tableBytes},
                  {Space::Prepared, 0, "", 0, kIn * kOut * 4},
                  {Space::Arena, 0, "", 64, static_cast<uint64_t>(rows * kOut) * 4}};
  plan.kernels = {"transpose", rows == 2 ? "bias_relu_2" : "bias_relu_4"};
  GemmOp gemm;
  gemm.m = rows;
  gemm.n = kOut;
  gemm.k = kIn;
  gemm.a = {{0, 0}, kIn, false, {}};
  gemm.b = {{5, 0}, kOut, false, {}};
  gemm.c = {{6, 0}, kOut, false, {}};
  plan.prepare = {{LaunchOp{0, {{2, 0}, {5, 0}}}, "proj"}};
  plan.step = {{gemm, "proj"}, {LaunchOp{1, {{6, 0}, {3, 0}, {4, 0}, {1, 0}}}, "act"}};
  return plan;
}

/// w where the change says, b always in the package.
static void addWeights(PackageWriter &writer, Manifest &manifest, const std::string &path, WeightPlace place) {
  ManifestWeight w{DType::f32, {kOut, kIn}, "", "", 0, 0, {}, ""};
  std::vector<float> values = weightW();
  if (place == WeightPlace::Entry) {
    w.entry = "weights/w";
    writer.add(w.entry, bytesOf(values));
  } else if (place != WeightPlace::Absent) {
    w.file = "model.bin";
    w.offset = 12;
    w.bytes = kOut * kIn * 4;
    std::vector<float> stored = values;
    if (place == WeightPlace::StridedFile) {
      w.strides = {1, kOut};
      for (size_t n = 0; n < kOut; ++n)
        for (size_t k = 0; k < kIn; ++k)
          stored[k * kOut + n] = values[n * kIn + k];
    }
    w.xxh128 = hashHex(bytesOf(stored));
    std::string text(12, '#');
    text.append(reinterpret_cast<const char *>(stored.data()), stored.size() * 4);
    writeText((fs::path(path).parent_path() / w.file).string(), text);
  }
  manifest.weights["w"] = w;
  manifest.weights["b"] = {DType::f32, {kOut}, "weights/b", "", 0, 0, {}, ""};
  writer.add("weights/b", bytesOf(weightB()));
}

void writeTestPackage(const std::string &path, const PackageChange &change) {
  PackageWriter writer(path);
  Manifest manifest;
  manifest.producer = "ditc test";
  manifest.modelName = "affine";
  manifest.targets = {{"host", "host/kernels.so", "", ""}};
  manifest.inputs = {{.name = "x", .graphName = "arg_x", .dtype = DType::f32, .shape = {std::string("rows"), kIn}}};
  manifest.outputs = {{.name = "y", .graphName = "", .dtype = DType::f32, .shape = {std::string("rows"), kOut}}};
  manifest.constantInputs = {{"return_dict", false}};
  writer.add("host/kernels.so", readText(DITC_TEST_KERNELS));
  addWeights(writer, manifest, path, change.weights);
  std::string tableMember = writer.addConstant(bytesOf(change.table));
  for (auto [name, rows] : {std::pair("two", 2), std::pair("four", 4)}) {
    Plan plan = testPlan(rows, tableMember, change.table.size() * sizeof(float));
    change.plan(plan);
    manifest.buckets.push_back({name, {{"rows", rows}}, {{"host", writer.addPlan(name, "host", plan)}}});
  }
  change.manifest(manifest);
  writer.finish(manifest);
}

void forgePackage(const std::string &from, const std::string &to, const std::function<void(Json &)> &manifest,
                  const std::function<void(const std::string &, std::vector<uint8_t> &)> &member,
                  const std::string &extra) {
  ZipReader reader = ZipReader::open(from);
  ZipWriter writer(to);
  for (const ZipEntry &entry : reader.entries()) {
    std::span<const uint8_t> source = reader.bytes(entry);
    std::vector<uint8_t> bytes(source.begin(), source.end());
    if (entry.name == "manifest.json") {
      Json json = Json::parse(bytes);
      manifest(json);
      writer.add(entry.name, json.dump());
      continue;
    }
    if (member)
      member(entry.name, bytes);
    writer.add(entry.name, bytes);
  }
  if (!extra.empty())
    writer.add(extra, std::string_view("extra"));
  writer.finish();
}

std::string errorOf(const std::function<void()> &body) {
  try {
    body();
  } catch (const Error &error) {
    return error.what();
  }
  return "";
}

} // namespace ditc::test
