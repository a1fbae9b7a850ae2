// SPDX-License-Identifier: Apache-2.0
//
// In-place ops: what is seen of a write through which names. Arguments count up from 1.
#include "tests/unit/ImportFixture.h"

#include "mlir/IR/Diagnostics.h"

#include <gmock/gmock.h>

using namespace ditc;
using namespace ditc::test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

namespace {

class InPlace : public ImportTest {
protected:
  InPlace() {
    b.userInput("x", DType::f32, {2, 4});
    b.op("base", "aten.clone.default", {{"self", tensor("x")}}, DType::f32, {2, 4});
  }

  void view(const std::string &name, const std::string &target, GraphBuilder::Inputs inputs,
            std::vector<int64_t> sizes) {
    b.op(name, target, std::move(inputs), DType::f32, sizes);
  }
  void fill(const std::string &name, double value, std::vector<int64_t> sizes) {
    b.op("fill_" + name, "aten.fill_.Scalar", {{"self", tensor(name)}, {"value", number(value)}}, DType::f32, sizes);
  }
  std::vector<double> read(const std::string &name) {
    b.output(name, tensor(name));
    return run(b);
  }

  ProgramBuilder b;
};

} // namespace

TEST_F(InPlace, TheOldNameSeesTheWrite) {
  fill("base", 7, {2, 4});
  EXPECT_THAT(read("base"), ElementsAre(7, 7, 7, 7, 7, 7, 7, 7));
}

TEST_F(InPlace, InputsOfTheCloneDoNot) {
  fill("base", 7, {2, 4});
  EXPECT_THAT(read("x"), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
}

TEST_F(InPlace, WritesThroughSelectReachTheBase) {
  view("row", "aten.select.int", {{"self", tensor("base")}, {"dim", integer(0)}, {"index", integer(-1)}}, {4});
  fill("row", 0, {4});
  EXPECT_THAT(read("base"), ElementsAre(1, 2, 3, 4, 0, 0, 0, 0));
}

TEST_F(InPlace, WritesThroughChainsOfViewsReachTheBase) {
  view("turned", "aten.transpose.int", {{"self", tensor("base")}, {"dim0", integer(0)}, {"dim1", integer(1)}}, {4, 2});
  view("part", "aten.slice.Tensor",
       {{"self", tensor("turned")}, {"dim", integer(0)}, {"start", integer(1)}, {"end", integer(3)}}, {2, 2});
  view("deep", "aten.unsqueeze.default", {{"self", tensor("part")}, {"dim", integer(0)}}, {1, 2, 2});
  fill("deep", 0, {1, 2, 2});
  EXPECT_THAT(read("base"), ElementsAre(1, 0, 0, 4, 5, 0, 0, 8));
}

TEST_F(InPlace, ViewsTakenBeforeSeeWritesToTheBase) {
  view("row", "aten.select.int", {{"self", tensor("base")}, {"dim", integer(0)}, {"index", integer(1)}}, {4});
  fill("base", 3, {2, 4});
  EXPECT_THAT(read("row"), ElementsAre(3, 3, 3, 3));
}

TEST_F(InPlace, OverlappingViewsSeeEachOther) {
  view("left", "aten.slice.Tensor",
       {{"self", tensor("base")}, {"dim", integer(1)}, {"start", integer(0)}, {"end", integer(3)}}, {2, 3});
  view("right", "aten.slice.Tensor",
       {{"self", tensor("base")}, {"dim", integer(1)}, {"start", integer(2)}, {"end", integer(4)}}, {2, 2});
  fill("right", 0, {2, 2});
  EXPECT_THAT(read("left"), ElementsAre(1, 2, 0, 5, 6, 0));
}

TEST_F(InPlace, ViewsCanBeWrittenAgainAfterTheirBaseWas) {
  view("row", "aten.select.int", {{"self", tensor("base")}, {"dim", integer(0)}, {"index", integer(0)}}, {4});
  fill("row", 5, {4});
  fill("base", 3, {2, 4});
  b.op("again", "aten.add_.Tensor", {{"self", tensor("row")}, {"other", integer(1)}}, DType::f32, {4});
  EXPECT_THAT(read("base"), ElementsAre(4, 4, 4, 4, 3, 3, 3, 3));
}

TEST_F(InPlace, StepsThatDivideTheDimensionBecomeColumns) {
  auto every = [&](const char *name, int64_t start) {
    view(name, "aten.slice.Tensor",
         {{"self", tensor("base")},
          {"dim", integer(1)},
          {"start", integer(start)},
          {"end", integer(INT64_MAX)},
          {"step", integer(2)}},
         {2, 2});
  };
  every("even", 0);
  fill("even", 0, {2, 2});
  every("odd", 1);
  fill("odd", -1, {2, 2});
  EXPECT_THAT(print(b.program.outputSpecs.empty() ? (b.output("base", tensor("base")), b) : b),
              Not(HasSubstr("dit.scatter")));
  EXPECT_THAT(run(b), ElementsAre(0, -1, 0, -1, 0, -1, 0, -1));
}

TEST_F(InPlace, OtherStepsAreScattered) {
  view(
      "third", "aten.slice.Tensor",
      {{"self", tensor("base")}, {"dim", integer(1)}, {"start", integer(0)}, {"end", integer(4)}, {"step", integer(3)}},
      {2, 2});
  fill("third", 0, {2, 2});
  EXPECT_THAT(read("base"), ElementsAre(0, 2, 3, 0, 0, 6, 7, 0));
}

TEST_F(InPlace, CastsThatChangeNothingAreAliases) {
  b.op("same", "aten.to.dtype", {{"self", tensor("base")}, {"dtype", type(DType::f32)}}, DType::f32, {2, 4});
  fill("same", 0, {2, 4});
  EXPECT_THAT(read("base"), ElementsAre(0, 0, 0, 0, 0, 0, 0, 0));
}

TEST_F(InPlace, CastsAndAskedForCopiesAreNot) {
  b.op("wide", "aten.to.dtype", {{"self", tensor("base")}, {"dtype", type(DType::f64)}}, DType::f64, {2, 4});
  b.op("fill_wide", "aten.fill_.Scalar", {{"self", tensor("wide")}, {"value", integer(0)}}, DType::f64, {2, 4});
  b.op("copied", "aten.to.dtype", {{"self", tensor("base")}, {"dtype", type(DType::f32)}, {"copy", flag(true)}},
       DType::f32, {2, 4});
  fill("copied", 0, {2, 4});
  EXPECT_THAT(read("base"), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
}

TEST_F(InPlace, ReshapesOfDenseTensorsAreViews) {
  view("flat", "aten.reshape.default", {{"self", tensor("base")}, {"shape", integers({8})}}, {8});
  fill("flat", 0, {8});
  EXPECT_THAT(read("base"), ElementsAre(0, 0, 0, 0, 0, 0, 0, 0));
}

TEST_F(InPlace, ReshapesOfTransposedTensorsAreCopies) {
  view("turned", "aten.transpose.int", {{"self", tensor("base")}, {"dim0", integer(0)}, {"dim1", integer(1)}}, {4, 2});
  b.graph.tensorValues["turned"].strides[0].value = 1;
  b.graph.tensorValues["turned"].strides[1].value = 4;
  view("flat", "aten.reshape.default", {{"self", tensor("turned")}, {"shape", integers({8})}}, {8});
  fill("flat", 0, {8});
  EXPECT_THAT(read("base"), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
}

TEST_F(InPlace, WritesToInputsStayLocal) {
  fill("x", 0, {2, 4});
  EXPECT_THAT(read("base"), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
  b.output("x", tensor("x"));
  EXPECT_THAT(runAll(b)[1], ElementsAre(0, 0, 0, 0, 0, 0, 0, 0));
}

TEST_F(InPlace, WritesToInputsGiveAWarning) {
  fill("x", 0, {2, 4});
  b.output("x", tensor("x"));
  std::string text;
  mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &diagnostic) { text = diagnostic.str(); });
  import(b);
  EXPECT_EQ(text, "writes to an input of the program; the caller's tensor stays as it is");
}

TEST_F(InPlace, CopiesBroadcastAndCast) {
  b.op("column", "aten.arange.default", {{"end", integer(2)}}, DType::i64, {2});
  b.op("columns", "aten.unsqueeze.default", {{"self", tensor("column")}, {"dim", integer(1)}}, DType::i64, {2, 1});
  b.op("copy_", "aten.copy_.default", {{"self", tensor("base")}, {"src", tensor("columns")}}, DType::f32, {2, 4});
  EXPECT_THAT(read("base"), ElementsAre(0, 0, 0, 0, 1, 1, 1, 1));
}

TEST_F(InPlace, ExpandedTensorsAreNotWritten) {
  view("row", "aten.select.int", {{"self", tensor("base")}, {"dim", integer(0)}, {"index", integer(0)}}, {4});
  view("wide", "aten.expand.default", {{"self", tensor("row")}, {"size", integers({3, 4})}}, {3, 4});
  fill("wide", 0, {3, 4});
  b.output("base", tensor("base"));
  EXPECT_THAT(error(b), HasSubstr("writes through an expanded tensor, whose elements share memory; clone it first"));
}

TEST_F(InPlace, ViewsThatCannotBeFollowedAreNotWrittenOrReadLate) {
  view("windows", "aten.unfold.default",
       {{"self", tensor("base")}, {"dimension", integer(1)}, {"size", integer(2)}, {"step", integer(1)}}, {2, 3, 2});
  b.output("windows", tensor("windows"));
  EXPECT_EQ(error(b), "");
  fill("base", 0, {2, 4});
  EXPECT_THAT(error(b), HasSubstr("output 'windows': 'windows' views 'base', which was written since, in a way that "
                                  "cannot be followed; clone it first"));
  b.graph.nodes.pop_back();
  fill("windows", 0, {2, 3, 2});
  EXPECT_THAT(error(b), HasSubstr("writes through 'windows', a view that cannot be followed back to 'base'"));
}

TEST_F(InPlace, ShapesChangeInPlace) {
  b.op("turn_", "aten.transpose_.default", {{"self", tensor("base")}, {"dim0", integer(0)}, {"dim1", integer(1)}},
       DType::f32, {4, 2});
  fill("turn_", 0, {4, 2});
  EXPECT_THAT(read("base"), ElementsAre(0, 0, 0, 0, 0, 0, 0, 0));
}

TEST_F(InPlace, ComplexViewsWriteParts) {
  view("pairs", "aten.view.default", {{"self", tensor("base")}, {"size", integers({2, 2, 2})}}, {2, 2, 2});
  b.op("z", "aten.view_as_complex.default", {{"self", tensor("pairs")}}, DType::c64, {2, 2});
  view("im", "aten.imag.default", {{"self", tensor("z")}}, {2, 2});
  fill("im", 0, {2, 2});
  EXPECT_THAT(read("base"), ElementsAre(1, 0, 3, 0, 5, 0, 7, 0));
}
