// SPDX-License-Identifier: Apache-2.0
//
// The program ditc-run, started as a user would: exit status, texts, JSON.
#include "RuntimeFixture.h"

#include "runtime/Cache.h"
#include "runtime/Hash.h"
#include "runtime/Safetensors.h"

#include <cstdio>
#include <cstdlib>
#include <limits>
#include <sys/wait.h>

using namespace ditc;
using namespace ditc::test;

namespace {

struct Result {
  int status;
  std::string text; ///< standard output, and standard error unless it was left out
};

Result ditcRun(const std::string &arguments, bool errors = true) {
  FILE *pipe = popen((std::string(DITC_RUN) + " " + arguments + (errors ? " 2>&1" : " 2>/dev/null")).c_str(), "r");
  Result result{-1, ""};
  char buffer[4096];
  while (size_t count = fread(buffer, 1, sizeof buffer, pipe))
    result.text.append(buffer, count);
  int status = pclose(pipe);
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return result;
}

class DitcRunTest : public testing::Test {
protected:
  void SetUp() override {
    writeTestPackage(package);
    write(inputs, "x", inputX(2), {2, kIn});
    write(reference, "y", expectedY(inputX(2)), {2, kOut});
  }

  static void write(const std::string &path, const std::string &name, const std::vector<float> &values,
                    std::vector<int64_t> shape) {
    writeSafetensors(path, {{name, {DType::f32, std::move(shape), bytesOf(values)}}});
  }

  void expect(const Result &result, int status, const std::vector<std::string> &parts) {
    EXPECT_EQ(result.status, status) << result.text;
    for (const std::string &part : parts)
      EXPECT_NE(result.text.find(part), std::string::npos) << "expected \"" << part << "\" in:\n" << result.text;
  }

  TempFolder folder;
  std::string package = folder / "p.dita", inputs = folder / "in.safetensors";
  std::string reference = folder / "ref.safetensors", outputs = folder / "out.safetensors";
  std::string run = "run " + package + " --inputs " + inputs;
};

} // namespace

TEST_F(DitcRunTest, RunWritesOutputs) {
  expect(ditcRun(run + " --outputs " + outputs), 0, {"bucket   two on host", "output   y", "f32 [2, 4]", "time "});
  SafetensorsFile file = SafetensorsFile::open(outputs);
  EXPECT_EQ(hashHex(file.tensors().at("y").bytes), hashHex(bytesOf(expectedY(inputX(2)))));
}

TEST_F(DitcRunTest, CheckPasses) {
  expect(ditcRun(run + " --check " + reference + " --repeat 3 --threads 1 --poison"), 0,
         {"relative L2 0.000e+00", "cosine 1.0", "ok", "(median of 3)"});
}

TEST_F(DitcRunTest, CheckFails) {
  std::vector<float> wrong = expectedY(inputX(2));
  wrong[6] += 1;
  write(reference, "y", wrong, {2, kOut});
  expect(ditcRun(run + " --check " + reference), 1, {"max abs 1.000e+00 at [1, 2]", "FAILED", "the tolerance is 1.000e-03"});
  expect(ditcRun(run + " --check " + reference + " --tolerance 0.5"), 0, {"ok"});
}

TEST_F(DitcRunTest, NotANumberFails) {
  std::vector<float> bad = inputX(2);
  bad[0] = std::numeric_limits<float>::infinity();
  write(inputs, "x", bad, {2, kIn});
  expect(ditcRun(run + " --check " + reference + " --tolerance 1e30"), 1, {"elements of the output are NaN or infinite", "FAILED"});
}

TEST_F(DitcRunTest, ReferenceInAnotherType) {
  std::vector<double> values;
  for (float value : expectedY(inputX(2)))
    values.push_back(value);
  writeSafetensors(reference, {{"y", {DType::f64, {2, kOut}, bytesOf(values)}}});
  expect(ditcRun(run + " --check " + reference), 0, {"ok"});
}

TEST_F(DitcRunTest, RunJson) {
  Result result = ditcRun(run + " --json --check " + reference, false);
  Json json = Json::parse(result.text);
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(json["bucket"], "two");
  EXPECT_EQ(json["check"]["passed"], true);
  EXPECT_EQ(json["check"]["outputs"][0]["relative_l2"], 0.0);
  EXPECT_EQ(json["seconds"].size(), 1u);
  result = ditcRun("run " + package + " --inputs " + inputs + " --bucket six --json", false);
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(std::string(Json::parse(result.text)["error"]).find("has no bucket 'six'"), std::string::npos);
}

TEST_F(DitcRunTest, FilesThatDoNotFit) {
  std::vector<float> y = expectedY(inputX(2));
  writeSafetensors(reference, {{"y", {DType::f32, {2, kOut}, bytesOf(y)}}, {"z", {DType::f32, {2, kOut}, bytesOf(y)}}});
  expect(ditcRun(run + " --check " + reference), 1, {"has a tensor 'z', which is no output of"});
  writeSafetensors(reference, {});
  expect(ditcRun(run + " --check " + reference), 1, {"has no tensor 'y', which"});
  std::vector<float> x = inputX(2);
  writeSafetensors(inputs, {{"x", {DType::f32, {2, kIn}, bytesOf(x)}}, {"note", {DType::f32, {2, kIn}, bytesOf(x)}}});
  expect(ditcRun(run), 1, {"ditc-run: error: unknown input 'note'; '"});
}

TEST_F(DitcRunTest, NamesOfTheExportedGraph) {
  write(inputs, "arg_x", inputX(2), {2, kIn});
  write(reference, "linear_3", expectedY(inputX(2)), {2, kOut}); // one output, one tensor
  expect(ditcRun(run + " --check " + reference), 0, {"ok"});
  expect(ditcRun("bench " + package + " --inputs " + inputs), 0, {"bucket two"});
}

TEST_F(DitcRunTest, ConstantInputsInTheFile) {
  std::vector<float> x = inputX(2);
  std::vector<uint8_t> no{0};
  writeSafetensors(inputs, {{"x", {DType::f32, {2, kIn}, bytesOf(x)}}, {"return_dict", {DType::b1, {}, bytesOf(no)}}});
  expect(ditcRun(run + " --check " + reference), 0, {"ok"});
}

TEST_F(DitcRunTest, Weights) {
  std::vector<float> w = weightW();
  w[0] = 50;
  std::string file = folder / "w.safetensors";
  writeSafetensors(file, {{"w", {DType::f32, {kOut, kIn}, bytesOf(w)}}, {"vae", {DType::f32, {12}, bytesOf(w)}}});
  write(reference, "y", expectedY(inputX(2), w), {2, kOut});
  expect(ditcRun(run + " --weights " + file + " --check " + reference), 0,
         {"note: 1 tensors of the weight files are not weights of the package and were not used: vae"});
}

TEST_F(DitcRunTest, Usage) {
  expect(ditcRun(""), 2, {"A subcommand is required"});
  expect(ditcRun("run"), 2, {"required"});
  expect(ditcRun("run " + package), 2, {"--inputs is required"});
  expect(ditcRun(run + " --tolerance -1"), 2, {"--tolerance"});
  expect(ditcRun(run + " --repeat 0"), 2, {"--repeat"});
  expect(ditcRun(run + " --nonsense"), 2, {"nonsense"});
  expect(ditcRun("cache"), 2, {"A subcommand is required"});
  expect(ditcRun("--help"), 0, {"Examples:", "ditc-run bench", "Exit status"});
  expect(ditcRun("run --help"), 0, {"Examples:", "--poison"});
  expect(ditcRun("bench --help"), 0, {"Examples:"});
  expect(ditcRun("--version"), 0, {"ditc-run 0.1.0"});
  expect(ditcRun("info /nonexistent.dita"), 1, {"ditc-run: error: ", "/nonexistent.dita"});
}

TEST_F(DitcRunTest, Bench) {
  expect(ditcRun("bench " + package + " --repeat 3 --top 1"), 0,
         {"bucket two on host", "bucket four on host", "in 2 ops", "GFLOP/s", "and 1 more ops (--top 0 shows all)"});
  expect(ditcRun("bench " + package + " --bucket two --top 0"), 0, {"gemm 2x4x3 f32", "bias_relu_2", "proj", "act"});
  expect(ditcRun("bench " + package + " --bucket six"), 1, {"has no bucket 'six'; it has two, four"});
  Json json = Json::parse(ditcRun("bench " + package + " --json --inputs " + inputs, false).text);
  EXPECT_EQ(json["buckets"].size(), 1u);
  EXPECT_EQ(json["buckets"][0]["ops"][0]["op"], "gemm 2x4x3 f32");
  EXPECT_EQ(json["buckets"][0]["ops"][0]["where"], "proj");
  EXPECT_GT(json["buckets"][0]["ops"][0]["gflops"], 0.0);
}

TEST_F(DitcRunTest, Info) {
  expect(ditcRun("info " + package + " --verify --list-weights"), 0,
         {"model     affine", "weights   2 (64 B): 2 in the package", "constant  return_dict = false",
          "bucket    two: rows=2", "input   x", "f32 [2, 3]", "verified  all 6 members", "weight    w"});
  Json json = Json::parse(ditcRun("info " + package + " --json", false).text);
  EXPECT_EQ(json["buckets"][1]["inputs"][0]["shape"], Json({4, 3}));
  EXPECT_EQ(json["weights"]["in_package"], 2);
  EXPECT_EQ(json["tables"], Json({{"count", 1}, {"bytes", 16}, {"stored_bytes", 16}}));
  writeTestPackage(folder / "large.dita", {.table = largeTable()});
  expect(ditcRun("info --verify " + (folder / "large.dita")), 0, {"tables    1 (390.62 KiB): ", " B in the package", "verified  all 6 members"});
  forgePackage(package, folder / "bad.dita", [](Json &) {}, [](const std::string &name, std::vector<uint8_t> &bytes) {
    if (name == "weights/b")
      bytes[0] ^= 1;
  });
  expect(ditcRun("info " + (folder / "bad.dita")), 0, {});
  expect(ditcRun("info --verify " + (folder / "bad.dita")), 1, {"member 'weights/b' does not have the hash"});
}

TEST_F(DitcRunTest, CacheCommands) {
  setenv("DITC_CACHE_DIR", (folder / "cache").c_str(), 1);
  std::vector<uint8_t> bytes(936);
  std::string first = hashHex(std::string_view("1")), second = hashHex(std::string_view("2"));
  Cache().store(first, bytes);
  Cache().store(second, bytes);
  expect(ditcRun("cache ls"), 0, {first, second, "1000 B", "2 entries, 1.95 KiB of 10.00 GiB"});
  EXPECT_EQ(Json::parse(ditcRun("cache ls --json", false).text)["entries"].size(), 2u);
  writeText(folder / ("cache/" + first.substr(0, 2) + "/" + first), "rubbish");
  expect(ditcRun("cache verify"), 0, {"1 damaged entries removed, 7 B freed; 1 left in"});
  expect(ditcRun("cache prune"), 0, {"0 entries removed"});
  expect(ditcRun("cache prune --max-bytes 10"), 0, {"1 entries removed, 1000 B freed; 0 left in"});
  EXPECT_EQ(Json::parse(ditcRun("cache clear --json", false).text)["kept"], 0);
  setenv("DITC_CACHE_MAX_BYTES", "lots", 1);
  expect(ditcRun("cache ls"), 1, {"DITC_CACHE_MAX_BYTES is 'lots'"});
  unsetenv("DITC_CACHE_MAX_BYTES");
  unsetenv("DITC_CACHE_DIR");
}
