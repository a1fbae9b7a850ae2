// SPDX-License-Identifier: Apache-2.0
//
// Tree specs: which leaf has which name.
#include "ReaderFixture.h"

#include "compiler/import/TreeSpec.h"

using namespace ditc;
using ditc::test::errorOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

namespace {

const Json kLeaf = {{"type", nullptr}, {"context", nullptr}, {"children_spec", Json::array()}};

Json node(const char *type, const Json &context, const std::vector<Json> &children) {
  return {{"type", type}, {"context", context}, {"children_spec", children}};
}

TreeSpec parse(const Json &tree) {
  NamedTupleFields fields = {{"my.NT", {"first", "second"}}};
  return parseTreeSpec(Json::array({1, tree}).dump(), fields, JsonReader("m.pt2"));
}
std::vector<std::string> paths(const Json &tree, const std::string &prefix = "") {
  return leafPaths(parse(tree), prefix);
}
std::string parseError(const std::string &text) {
  return errorOf([&] { parseTreeSpec(text, {}, JsonReader("m.pt2")); });
}

} // namespace

TEST(TreeSpecTest, BareLeafHasThePrefix) {
  EXPECT_THAT(paths(kLeaf, "output"), ElementsAre("output"));
  EXPECT_TRUE(parse(kLeaf).type.empty());
}

TEST(TreeSpecTest, PositionsAndKeys) {
  Json dict = node("builtins.dict", "[\"b\", \"a\", 3]", {kLeaf, node("builtins.list", "null", {kLeaf, kLeaf}), kLeaf});
  EXPECT_THAT(paths(dict), ElementsAre("b", "a.0", "a.1", "3"));
  EXPECT_THAT(paths(node("builtins.tuple", "null", {kLeaf, dict}), "output"),
              ElementsAre("output.0", "output.1.b", "output.1.a.0", "output.1.a.1", "output.1.3"));
  EXPECT_THAT(paths(node("collections.OrderedDict", "[\"x\"]", {kLeaf})), ElementsAre("x"));
  EXPECT_THAT(paths(node("collections.defaultdict", "[\"builtins.list\", [\"x\"]]", {kLeaf})), ElementsAre("x"));
  EXPECT_THAT(paths(node("builtins.tuple", "null", {})), IsEmpty());
}

TEST(TreeSpecTest, NamedTuples) {
  EXPECT_THAT(paths(node("collections.namedtuple", "my.NT", {kLeaf, kLeaf})), ElementsAre("first", "second"));
  EXPECT_THAT(paths(node("collections.namedtuple", "other", {kLeaf})), ElementsAre("0"));
  EXPECT_THAT(paths(node("collections.namedtuple", "my.NT", {kLeaf})), ElementsAre("0"))
      << "the wrong number of fields";
}

TEST(TreeSpecTest, DataclassesAndModelOutputs) {
  EXPECT_THAT(paths(node("my.Out", "[[\"sample\"], [\"extra\"]]", {kLeaf})), ElementsAre("sample"));
  EXPECT_THAT(paths(node("diffusers.Output", "[\"sample\", \"text\"]", {kLeaf, kLeaf})), ElementsAre("sample", "text"));
  for (const char *context : {"", "null", "no json [", "[\"one\", \"too many\"]", "[[1, 2]]", "{\"a\": 1}"})
    EXPECT_THAT(paths(node("my.Type", context, {kLeaf})), ElementsAre("0")) << context;
  EXPECT_THAT(paths(node("my.Type", nullptr, {kLeaf})), ElementsAre("0"));
}

TEST(TreeSpecTest, RefusesMalformedSpecs) {
  EXPECT_THAT(parseError("[2, {}]"), HasSubstr("a tree spec has the protocol 2, expected 1"));
  EXPECT_THAT(parseError("{}"), HasSubstr("a tree spec is not a pair of protocol and tree"));
  EXPECT_THAT(parseError("[1"), HasSubstr("'a tree spec' is not valid JSON (error at byte"));
  EXPECT_THAT(parseError("[1, 5]"), HasSubstr("found number where an object with the field 'type' was expected"));
  EXPECT_THAT(parseError("[1, {\"type\": \"builtins.tuple\"}]"), HasSubstr("the field 'children_spec' is missing"));
  EXPECT_THAT(errorOf([] { parse(node("builtins.dict", "[\"a\"]", {kLeaf, kLeaf})); }),
              HasSubstr("a tree spec of type 'builtins.dict' has 1 keys for 2 children"));
  EXPECT_THAT(errorOf([] { paths(node("builtins.dict", Json::array({std::string(2000, 'k')}).dump(), {kLeaf})); }),
              HasSubstr("which is longer than 1024 bytes; rename it and export the model again"));
}

TEST(TreeSpecTest, BoundsDepth) {
  Json tree = kLeaf;
  for (int i = 0; i < 120; ++i)
    tree = node("builtins.tuple", "null", {tree});
  EXPECT_THAT(errorOf([&] { parse(tree); }), HasSubstr("nested deeper than 200 levels"));
}
