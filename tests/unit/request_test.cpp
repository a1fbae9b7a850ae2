// SPDX-License-Identifier: Apache-2.0
//
// Calls that are refused before anything runs, and what the refusals say.
#include "RuntimeFixture.h"

#include "runtime/Hash.h"
#include "runtime/Session.h"

using namespace ditc;
using namespace ditc::test;

namespace {

class RequestTest : public testing::Test {
protected:
  void SetUp() override {
    std::vector<int64_t> ids{4, 5};
    writeTestPackage(folder / "p.dita",
                     {.manifest =
                          [](Manifest &m) {
                            m.pinned = {"ids"};
                            m.constantInputs["scale"] = 1.5;
                            m.constantInputs["count"] = int64_t{3};
                            m.constantInputs["mode"] = std::string("fast");
                            m.constantInputs["none"] = std::monostate();
                          },
                      .plan = [&](Plan &p) { p.pinned = {{{"ids", DType::i64, {2}}, hashHex(bytesOf(ids))}}; }});
    session = Session::open(folder / "p.dita", {});
  }

  std::string runError(std::vector<TensorRef> inputs, std::vector<TensorRef> outputs, const std::string &bucket = "") {
    Context context(session);
    return errorOf([&] { context.run({bucket, inputs, outputs}); });
  }
  /// With the right x and y, and one input more.
  std::string extraError(const TensorRef &extra) { return runError({in, extra}, {out}); }

  void expect(const std::string &text, const std::string &part) {
    EXPECT_NE(text.find(part), std::string::npos) << "expected \"" << part << "\" in \"" << text << "\"";
  }

  TempFolder folder;
  std::shared_ptr<Session> session;
  std::vector<float> x = inputX(4), y = std::vector<float>(64);
  TensorRef in = tensor("x", x, {2, kIn}), out = tensor("y", y, {2, kOut});
};

} // namespace

TEST_F(RequestTest, Names) {
  EXPECT_EQ(runError({in}, {out}), "");
  expect(runError({}, {out}), "input 'x' is missing; '");
  expect(runError({}, {out}), "has 'x' f32 [rows, 3]");
  expect(runError({in, in}, {out}), "input 'x' is given twice");
  expect(runError({in, tensor("z", x, {1})}, {out}), "unknown input 'z'; '");
  expect(runError({in}, {}), "output 'y' is missing; '");
  expect(runError({in}, {out, tensor("w", x, {1})}), "unknown output 'w'; '");
}

TEST_F(RequestTest, TypesAndShapes) {
  TensorRef half = in;
  half.dtype = DType::bf16;
  expect(runError({half}, {out}), "input 'x' is bf16, expected f32; convert it before the call");
  expect(runError({tensor("x", x, {3, kIn})}, {out}), "no bucket of '");
  expect(runError({tensor("x", x, {3, kIn})}, {out}),
         "takes these shapes: two expects 'x' [2, 3], got [3, 3]; four expects 'x' [4, 3], got [3, 3];");
  expect(runError({in}, {out}, "four"), "bucket 'four' expects 'x' [4, 3], got [2, 3]; '");
  expect(runError({in}, {out}, "four"), "has the buckets two, four");
  expect(runError({in}, {out}, "six"), "has no bucket 'six'; it has two, four");
  expect(runError({in}, {tensor("y", y, {4, kOut})}), "bucket 'two' expects 'y' [2, 4], got [4, 4]; allocate the output");
}

TEST_F(RequestTest, Memory) {
  TensorRef null = in;
  null.data = nullptr;
  expect(runError({null}, {out}), "input 'x' has no data (null pointer)");
  TensorRef strides = in;
  strides.strides = {1};
  expect(runError({strides}, {out}), "input 'x' has 1 strides for 2 dimensions");
  TensorRef same = out;
  same.strides = {0, 1};
  expect(runError({in}, {same}), "output 'y' has stride 0 in dimension 0");
  TensorRef none{"y", DType::f32, {0, kOut}, {0, 0}, nullptr}; // as numpy has it
  EXPECT_TRUE(none.isEmpty() && none.isDense());
  EXPECT_FALSE(same.isEmpty() || same.isDense());
  TensorRef over = out;
  over.data = x.data() + 5;
  expect(runError({in}, {over}), "output 'y' overlaps input 'x' in memory");
  over.data = x.data() + 6;
  EXPECT_EQ(runError({in}, {TensorRef{"y", DType::f32, {2, kOut}, {}, y.data() + 8}}), "");
}

TEST_F(RequestTest, OutputsThatOverlap) {
  writeTestPackage(folder / "q.dita", {.manifest = [](Manifest &m) { m.outputs.push_back({"z", "", DType::f32, {kOut}}); },
                                       .plan = [](Plan &p) { p.outputs.push_back({"z", DType::f32, {kOut}}); }});
  session = Session::open(folder / "q.dita", {});
  expect(runError({in}, {out, tensor("z", y, {kOut})}), "output 'y' overlaps output 'z' in memory");
}

TEST_F(RequestTest, ConstantInputs) {
  uint8_t no = 0, yes = 1;
  EXPECT_EQ(extraError({"return_dict", DType::b1, {}, {}, &no}), "");
  expect(extraError({"return_dict", DType::b1, {}, {}, &yes}), "input 'return_dict' is compiled into '");
  expect(extraError({"return_dict", DType::b1, {}, {}, &yes}), "as false; leave it out, give that value");
  float scale = 1.5f;
  double exact = 1.25;
  int64_t count = 3;
  EXPECT_EQ(extraError({"scale", DType::f32, {1}, {}, &scale}), "");
  expect(extraError({"scale", DType::f64, {1}, {}, &exact}), "as 1.5;");
  EXPECT_EQ(extraError({"count", DType::i64, {}, {}, &count}), "");
  expect(extraError({"count", DType::i64, {2}, {}, y.data()}), "as 3;");
  expect(extraError({"mode", DType::i64, {}, {}, &count}), "as \"fast\";");
  expect(extraError({"none", DType::i64, {}, {}, &count}), "as null;");
  expect(extraError({"count", DType::c64, {}, {}, y.data()}), "as 3;");
}

TEST_F(RequestTest, PinnedInputs) {
  std::vector<int64_t> ids{4, 5}, others{4, 6}, spread{4, 0, 5};
  EXPECT_EQ(extraError({"ids", DType::i64, {2}, {}, ids.data()}), "");
  EXPECT_EQ(extraError({"ids", DType::i64, {2}, {2}, spread.data()}), "");
  expect(extraError({"ids", DType::i64, {2}, {}, others.data()}), "input 'ids' has other values than those that");
  expect(extraError({"ids", DType::i64, {1}, {}, ids.data()}), "input 'ids' is i64 [1], but '");
  expect(extraError({"ids", DType::i64, {1}, {}, ids.data()}), "pinned as i64 [2];");
}

TEST_F(RequestTest, ChoosingNeedsNoData) {
  TensorRef shape{"x", DType::f32, {4, kIn}, {}, nullptr};
  EXPECT_EQ(chooseBucket(session->package(), session->plans(), "", {&shape, 1}).bucket, "four");
  EXPECT_ERROR(session->bind("six"), "has no bucket 'six'; it has two, four");
}
