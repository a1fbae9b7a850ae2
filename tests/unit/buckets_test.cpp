// SPDX-License-Identifier: Apache-2.0
//
// Binding of symbolic sizes, and the conditions that an export comes with.
#include "compiler/import/Buckets.h"

#include "compiler/import/Guards.h"
#include "runtime/Error.h"

#include <gmock/gmock.h>

using namespace ditc;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

SymInt size(const std::string &expression, int64_t hint) {
  SymInt result;
  result.value = hint;
  result.expr = parseSymExpr(expression);
  return result;
}

SymInt fixed(int64_t value) {
  SymInt result;
  result.value = value;
  return result;
}

void addInput(ExportedProgram &program, const std::string &name, std::vector<SymInt> sizes) {
  Argument argument;
  argument.kind = Argument::Kind::Tensor;
  argument.text = name;
  program.graph.inputs.push_back(argument);
  program.graph.tensorValues[name].sizes = std::move(sizes);
  InputSpec spec;
  spec.valueName = spec.userName = name;
  program.inputSpecs.push_back(spec);
}

constexpr const char *kBatch = "Symbol('s47', positive=True, integer=True)";
constexpr const char *kEven = "Mul(Integer(2), Symbol('s39', positive=True, integer=True))";

/// image: [batch, 4, 2*s39], text: [batch, s31].
ExportedProgram program() {
  ExportedProgram program;
  addInput(program, "image", {size(kBatch, 2), fixed(4), size(kEven, 18)});
  addInput(program, "cond.text", {size(kBatch, 2), size("Symbol('s31', positive=True, integer=True)", 37)});
  program.ranges["s47"] = {1, 16};
  program.ranges["s39"] = {4, 64};
  program.ranges["s31"] = {2, std::nullopt};
  return program;
}

SymBindings bind(const std::string &spec) { return resolveBuckets(program(), {spec}).front().symbols; }

std::string errorOf(const std::vector<std::string> &specs, const ExportedProgram &from = program()) {
  try {
    resolveBuckets(from, specs);
    return "";
  } catch (const Error &error) {
    return error.what();
  }
}

} // namespace

TEST(Buckets, WithoutTextTheHintsOfTheExport) {
  std::vector<Bucket> buckets = resolveBuckets(program(), {});
  ASSERT_EQ(buckets.size(), 1u);
  EXPECT_EQ(buckets[0].name, "default");
  EXPECT_EQ(buckets[0].symbols, (SymBindings{{"s31", int64_t{37}}, {"s39", int64_t{9}}, {"s47", int64_t{2}}}));
}

TEST(Buckets, ANameAloneTakesTheHints) { EXPECT_EQ(bind("small"), resolveBuckets(program(), {})[0].symbols); }

TEST(Buckets, BindsSymbolsAndInputSizes) {
  SymBindings expected{{"s31", int64_t{5}}, {"s39", int64_t{32}}, {"s47", int64_t{1}}};
  EXPECT_EQ(bind("b:s47=1,s39=32,s31=5"), expected);
  EXPECT_EQ(bind("b:image.0=1,image.2=64,cond.text.1=5"), expected);
  EXPECT_EQ(bind("b:s47=1,image.2=64,cond.text.0=1,cond.text.1=5,image.1=4"), expected);
}

TEST(Buckets, ProgramsWithoutSymbolsHaveOneBucket) {
  ExportedProgram fixedSizes;
  addInput(fixedSizes, "x", {fixed(2)});
  EXPECT_EQ(resolveBuckets(fixedSizes, {}).front().name, "default");
  EXPECT_EQ(resolveBuckets(fixedSizes, {"only"}).front().name, "only");
  EXPECT_THAT(errorOf({"b:s0=2"}, fixedSizes), HasSubstr("bucket 'b' sets 's0', but the sizes of the model are fixed"));
}

TEST(Buckets, RefusesMalformedText) {
  EXPECT_THAT(errorOf({":s47=1"}), HasSubstr("needs a name of letters, digits, '_', '-' and '.'"));
  EXPECT_THAT(errorOf({"a/b"}), HasSubstr("needs a name"));
  EXPECT_THAT(errorOf({"b:s47"}), HasSubstr("'s47' in bucket 'b' is not SYMBOL=VALUE or INPUT.DIM=VALUE"));
  EXPECT_THAT(errorOf({"b:s47=x"}), HasSubstr("'s47=x' in bucket 'b'"));
  EXPECT_THAT(errorOf({"b:s47=2 "}), HasSubstr("'s47=2 ' in bucket 'b'"));
  EXPECT_THAT(errorOf({"b:s47=99999999999999999999"}), HasSubstr("is not SYMBOL=VALUE"));
}

TEST(Buckets, RefusesUnknownNames) {
  EXPECT_THAT(
      errorOf({"b:s1=2"}),
      HasSubstr(
          "bucket 'b' sets 's1', which is no symbol or input of the model; known are s31, s39, s47, image.0, image.2"));
}

TEST(Buckets, RefusesEqualNames) { EXPECT_THAT(errorOf({"b", "b"}), HasSubstr("two buckets are called 'b'")); }

TEST(Buckets, RefusesASymbolThatIsSetTwice) {
  EXPECT_THAT(errorOf({"b:s47=1,s47=2"}), HasSubstr("bucket 'b' sets 's47' twice"));
}

TEST(Buckets, RefusesOpenSymbols) {
  EXPECT_THAT(errorOf({"b:s47=1"}),
              HasSubstr("bucket 'b' leaves s31, s39 open; the symbols of the model are: s31 in 2.."));
}

TEST(Buckets, RefusesValuesOutsideTheRange) {
  EXPECT_THAT(errorOf({"b:s47=17,s39=9,s31=5"}), HasSubstr("bucket 'b': s47 = 17 is outside 1..16"));
  EXPECT_THAT(errorOf({"b:s47=1,image.2=4,s31=5"}), HasSubstr("s39 = 2 is outside 4..64"));
  EXPECT_THAT(errorOf({"b:s47=1,s39=9,s31=1"}), HasSubstr("s31 = 1 is outside 2.."));
}

TEST(Buckets, RefusesSizesThatDoNotDivide) {
  EXPECT_THAT(errorOf({"b:s47=1,image.2=33,s31=5"}),
              HasSubstr("bucket 'b': image.2 = 33 does not fit 2*s39: not divisible by 2"));
}

TEST(Buckets, RefusesContradictions) {
  EXPECT_THAT(errorOf({"b:image.0=1,cond.text.0=2,s39=9,s31=5"}),
              HasSubstr("cond.text.0 = 2 contradicts the other sizes, which make it 1"));
  EXPECT_THAT(errorOf({"b:s47=1,s39=9,s31=5,image.1=3"}), HasSubstr("image.1 is 4 in the export, it cannot be 3"));
}

TEST(Buckets, RefusesWhatBreaksAGuard) {
  ExportedProgram guarded = program();
  guarded.guards = {"(L['image'].size()[2] // 2) <= 24", "L['cond']['text'].size()[0] == L['image'].size()[0]"};
  EXPECT_EQ(errorOf({"b:s47=1,s39=9,s31=5"}, guarded), "");
  EXPECT_THAT(errorOf({"b:s47=1,s39=25,s31=5"}, guarded),
              HasSubstr("bucket 'b': the export holds only while (image.2 // 2) <= 24"));
}

TEST(Buckets, NotesInequalitiesThatDoNotHold) {
  ExportedProgram guarded = program();
  guarded.guards = {"(L['image'].size()[2] // 2) != 8", "L['image'].size()[0] != 3"};
  EXPECT_THAT(resolveBuckets(guarded, {"b:s47=1,s39=8,s31=5"})[0].broken, ElementsAre("(image.2 // 2) != 8"));
}

TEST(Buckets, DescribesSymbols) {
  EXPECT_THAT(describeSymbols(program()), ElementsAre("s31 in 2.. (exported with 37): cond.text.1",
                                                      "s39 in 4..64 (exported with 9): image.2 = 2*s39",
                                                      "s47 in 1..16 (exported with 2): image.0, cond.text.0"));
}

TEST(Guards, FollowPython) {
  SizeLookup sizes = [](const std::string &name) -> std::optional<int64_t> {
    if (name == "x.1")
      return 7;
    return name == "a.b.0" ? std::optional<int64_t>(-3) : std::nullopt;
  };
  auto truth = [&](const char *guard) { return evaluateGuard(guard, sizes); };
  EXPECT_EQ(truth("L['x'].size()[1] == 7"), true);
  EXPECT_EQ(truth("L['a']['b'].size()[0] // 2 == -2 and L['a']['b'].size()[0] % 2 == 1"), true);
  EXPECT_EQ(truth("torch.sym_max(1, L['x'].size()[1], 3) == 7 and torch.sym_min(2, 1) == 1"), true);
  EXPECT_EQ(truth("not (1 < L['x'].size()[1] <= 6)"), true);
  EXPECT_EQ(truth("12 + (L['x'].size()[1] // 2) + (((-1)*(L['x'].size()[1] // 2)) // 2) >= 13"), true);
  EXPECT_EQ(truth("2*L['x'].size()[1] - 1 != 13 or False"), false);
  EXPECT_EQ(truth("L['x'].stride()[1] == 1"), std::nullopt);
  EXPECT_EQ(truth("L['y'].size()[1] == 1"), std::nullopt);
  EXPECT_EQ(truth("L['x'].size()[1] // 0 == 1"), std::nullopt);
  EXPECT_EQ(truth("L['x'].size()[1] == 7 if True else 2"), std::nullopt);
  EXPECT_EQ(evaluateGuard(std::string(100000, '('), sizes), std::nullopt);
  EXPECT_EQ(readableGuard("(L['a']['b'].size()[0] // 2) != torch.sym_max(1, 2)"), "(a.b.0 // 2) != max(1, 2)");
}
