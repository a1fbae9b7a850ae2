// SPDX-License-Identifier: Apache-2.0
//
// The pickle machine: the opcodes of torch.save, nothing executed, everything bounded.
#include "ReaderFixture.h"

#include "compiler/import/Pickle.h"

using namespace ditc;
using namespace ditc::test;
using testing::ElementsAre;
using testing::HasSubstr;
using Kind = PickleValue::Kind;

namespace {

PickleDocument parse(const std::string &bytes) { return PickleDocument::parse(asBytes(bytes), "w/data.pkl"); }
std::string parseError(const std::string &bytes) {
  return errorOf([&] { parse(bytes); });
}
std::string parseError(const PickleText &text) { return parseError(text.done()); }

/// Calls module.name with the tuple of values that `args` pushes.
PickleText call(const std::string &module, const std::string &name, const std::function<void(PickleText &)> &args) {
  PickleText text;
  text.global(module, name).op('(');
  args(text);
  return text.op('t').op('R');
}

void pushTensor(PickleText &text) { text.tensor("FloatStorage", "0", 6, 1, {2, 2}, {1, 3}); }

} // namespace

TEST(PickleTest, Constants) {
  PickleText text;
  text.op('(').op('N').op('\x88').op('\x89').add("K\xff").add("M\xff\xff").integer(-5);
  text.add(std::string("\x8a\x02\x00\x80", 4))
      .add(std::string("\x8a\x00", 2))
      .add(std::string("G\x3f\xf8\0\0\0\0\0\0", 9))
      .text("s\xc3\xa4")
      .op(')')
      .op('t');
  PickleDocument document = parse(text.done());
  const auto &items = document.root().items;
  ASSERT_EQ(items.size(), 11u);
  EXPECT_EQ(items[0]->kind, Kind::None);
  EXPECT_EQ(items[1]->integer, 1);
  EXPECT_EQ(items[2]->kind, Kind::Bool);
  EXPECT_EQ(items[3]->integer, 255);
  EXPECT_EQ(items[4]->integer, 65535);
  EXPECT_EQ(items[5]->integer, -5);
  EXPECT_EQ(items[6]->integer, -32768);
  EXPECT_EQ(items[7]->integer, 0);
  EXPECT_EQ(items[8]->number, 1.5);
  EXPECT_EQ(items[9]->text, "s\xc3\xa4");
  EXPECT_EQ(items[10]->kind, Kind::Tuple);
}

TEST(PickleTest, Containers) {
  PickleText text;
  text.op('}').add("q\x01").op('(').text("a").integer(1).text("b").op(']').add(std::string("r\x05\0\0\0", 5));
  text.integer(2).op('a').op('(').integer(3).integer(4).op('e').op('u');
  text.text("c").add(std::string("j\x05\0\0\0", 5)).op('s').text("d").integer(1).integer(2).op('\x86').op('s');
  PickleDocument document = parse(text.done());
  const PickleValue &dict = document.root();
  ASSERT_EQ(dict.kind, Kind::Dict);
  ASSERT_EQ(dict.items.size(), 8u);
  EXPECT_EQ(dict.items[3]->kind, Kind::List);
  EXPECT_EQ(dict.items[3]->items.size(), 3u);
  EXPECT_EQ(dict.items[5], dict.items[3]) << "shared by the memo";
  EXPECT_THAT(*integersOf(*dict.items[7]), ElementsAre(1, 2));
}

TEST(PickleTest, LoopsAreFreed) {
  PickleDocument document = parse(PickleText().op(']').add("q\x01").add("h\x01").op('a').done());
  EXPECT_EQ(document.root().items[0], &document.root());
}

TEST(PickleTest, Tensor) {
  PickleText text;
  pushTensor(text);
  PickleDocument document = parse(text.done());
  const PickleValue &tensor = document.root();
  ASSERT_EQ(tensor.kind, Kind::Tensor);
  EXPECT_EQ(tensor.dtype, DType::f32);
  EXPECT_EQ(tensor.integer, 1);
  EXPECT_EQ(tensor.items[0]->text, "0");
  EXPECT_EQ(tensor.items[0]->integer, 6);
  EXPECT_THAT(*integersOf(*tensor.items[2]), ElementsAre(1, 3));
  EXPECT_FALSE(tensor.isParameter);
}

TEST(PickleTest, TensorWithItsOwnType) {
  auto v3 = [](const char *type) {
    return call("torch._utils", "_rebuild_tensor_v3", [&](PickleText &t) {
      t.storage("UntypedStorage", "0", 4).integer(0).tuple({4}).tuple({1}).op('\x89').op('N').global("torch", type);
    });
  };
  EXPECT_EQ(parse(v3("float8_e4m3fn").done()).root().dtype, DType::f8e4m3);
  EXPECT_EQ(parse(v3("uint16").done()).root().dtype, DType::u16);
  PickleDocument document = parse(v3("float8_e4m3fnuz").done());
  EXPECT_EQ(document.root().kind, Kind::Opaque);
  EXPECT_EQ(document.root().text, "it has the element type torch.float8_e4m3fnuz, which ditc does not support");
}

TEST(PickleTest, Parameters) {
  auto parameter = [](const char *name, bool hasState) {
    return call("torch._utils", name, [&](PickleText &t) {
      pushTensor(t);
      t.op('\x88').op('N');
      if (hasState)
        t.op('}');
    });
  };
  EXPECT_TRUE(parse(parameter("_rebuild_parameter", false).done()).root().isParameter);
  EXPECT_TRUE(parse(parameter("_rebuild_parameter_with_state", true).done()).root().isParameter);
  EXPECT_THAT(parseError(parameter("_rebuild_parameter", true)),
              HasSubstr("it calls torch._utils._rebuild_parameter with arguments that torch does not give it"));
}

TEST(PickleTest, TensorWithAttributes) {
  auto fromType = [](const char *module, const char *type) {
    return call("torch._tensor", "_rebuild_from_type_v2", [&](PickleText &t) {
      t.global("torch._utils", "_rebuild_tensor_v2").global(module, type).op('(');
      t.storage("HalfStorage", "0", 4).integer(0).tuple({4}).tuple({1}).op('\x89').op('N').op('t').op('}');
    });
  };
  EXPECT_EQ(parse(fromType("torch", "Tensor").done()).root().dtype, DType::f16);
  EXPECT_EQ(parse(fromType("torch.nn.parameter", "Parameter").done()).root().dtype, DType::f16);
  EXPECT_EQ(parse(fromType("torchao", "AffineQuantizedTensor").done()).root().text,
            "it is stored as an object of torchao.AffineQuantizedTensor, which is not a plain tensor");
}

TEST(PickleTest, LazyViewsAreOpaque) {
  PickleText text = call("torch._utils", "_rebuild_tensor_v2", [](PickleText &t) {
    t.storage("ComplexFloatStorage", "0", 4).integer(0).tuple({4}).tuple({1}).op('\x89').op('N');
    t.op('}').text("conj").op('\x88').op('s');
  });
  PickleDocument document = parse(text.done());
  EXPECT_THAT(document.root().text, HasSubstr("call resolve_conj() or resolve_neg() on it before the export"));
}

TEST(PickleTest, NothingIsExecuted) {
  PickleText text = call("os", "system", [](PickleText &t) { t.text("touch /tmp/owned"); });
  PickleDocument document = parse(text.done());
  EXPECT_EQ(document.root().kind, Kind::Opaque);
  EXPECT_EQ(document.root().text, "it is stored as an object of os.system, which is not a plain tensor");
}

TEST(PickleTest, OrderedDictDropsItsState) {
  PickleText text;
  text.global("collections", "OrderedDict").op(')').op('R').text("k").integer(1).op('s').op('}').op('b');
  EXPECT_EQ(parse(text.done()).root().items.size(), 2u);
  PickleText state;
  EXPECT_THAT(parseError(state.integer(1).op('}').op('b')), HasSubstr("sets attributes of something that has none"));
  EXPECT_THAT(parseError(call("collections", "OrderedDict", [](PickleText &t) { t.integer(1); })),
              HasSubstr("with arguments that torch does not give it"));
}

TEST(PickleTest, RefusesArgumentsThatTorchDoesNotGive) {
  auto rebuild = [](const std::function<void(PickleText &)> &args) {
    return parseError(call("torch._utils", "_rebuild_tensor_v2", args));
  };
  const auto refused = HasSubstr("it calls torch._utils._rebuild_tensor_v2 with arguments that torch does not give it");
  EXPECT_THAT(rebuild([](PickleText &t) { t.integer(1); }), refused) << "too few";
  EXPECT_THAT(rebuild([](PickleText &t) { t.op('N').integer(0).tuple({4}).tuple({1}).op('\x89').op('N'); }), refused)
      << "no storage";
  EXPECT_THAT(
      rebuild([](PickleText &t) {
        t.storage("FloatStorage", "0", 4).integer(0).tuple(std::vector<int32_t>(65, 1)).tuple({1}).op('\x89').op('N');
      }),
      refused)
      << "65 dimensions";
  EXPECT_THAT(rebuild([](PickleText &t) {
                t.storage("FloatStorage", "0", 4).integer(0).op('(').text("4").op('t').tuple({1}).op('\x89').op('N');
              }),
              refused)
      << "a size that is a string";
  EXPECT_THAT(parseError(call("torch._tensor", "_rebuild_from_type_v2", [](PickleText &t) { t.op('N'); })),
              HasSubstr("it calls torch._tensor._rebuild_from_type_v2 with arguments"));
  EXPECT_THAT(
      parseError(call("torch._tensor", "_rebuild_from_type_v2",
                      [](PickleText &t) {
                        t.global("torch._tensor", "_rebuild_from_type_v2").global("torch", "Tensor").op(')').op('}');
                      })),
      HasSubstr("it calls torch._tensor._rebuild_from_type_v2 with arguments"))
      << "it would nest";
}

TEST(PickleTest, SizesAndPlainMetadata) {
  PickleDocument size = parse(call("torch", "Size", [](PickleText &t) { t.tuple({2, 3}); }).done());
  EXPECT_THAT(*integersOf(size.root()), ElementsAre(2, 3));
  for (bool hasDict : {true, false}) {
    PickleText text = call("torch._utils", "_rebuild_tensor_v2", [&](PickleText &t) {
      t.storage("ComplexFloatStorage", "0", 4).integer(0).tuple({4}).tuple({1}).op('\x89').op('N');
      if (hasDict)
        t.op('}').text("conj").op('\x89').op('s');
      else
        t.op('N');
    });
    EXPECT_EQ(parse(text.done()).root().kind, Kind::Tensor) << "the flag is off, or absent";
  }
}

TEST(PickleTest, RefusesOtherOpcodes) {
  for (char opcode : {'\x93', '\x81', 'i', 'o', '0', '2', '\x95', '\x8b', 'T', 'U', '\x8f', '\x82'})
    EXPECT_THAT(parseError(PickleText().op('N').op(opcode)),
                HasSubstr("is not among those that torch.save writes for tensors; ditc reads pickled tensors only"));
  EXPECT_THAT(parseError("\x80\x04N."), HasSubstr("is not a pickle of protocol 2, which torch.save writes"));
  EXPECT_THAT(parseError(""), HasSubstr("is not a pickle of protocol 2"));
}

TEST(PickleTest, RefusesMalformedStacks) {
  EXPECT_THAT(parseError(PickleText()), HasSubstr("byte 2: it ends with 0 values, expected one"));
  EXPECT_THAT(parseError(PickleText().op('N').op('N')), HasSubstr("it ends with 2 values"));
  EXPECT_THAT(parseError(PickleText().op('N').op('(')), HasSubstr("it ends with 1 values"));
  EXPECT_THAT(parseError(PickleText().op('\x86')), HasSubstr("it takes a value from an empty stack"));
  EXPECT_THAT(parseError(PickleText().op('N').op('(').op('\x85')), HasSubstr("from an empty stack"))
      << "below the mark";
  EXPECT_THAT(parseError(PickleText().op('t')), HasSubstr("up to a mark that was never set"));
  EXPECT_THAT(parseError(PickleText().op('}').op('N').op('a')),
              HasSubstr("it appends to something that is not a list"));
  EXPECT_THAT(parseError(PickleText().op(']').op('N').op('N').op('s')),
              HasSubstr("it adds items to something that is not a dict"));
  EXPECT_THAT(parseError(PickleText().op('}').op('(').op('N').op('u')), HasSubstr("it adds a key without a value"));
  EXPECT_THAT(parseError(PickleText().add("h\x07")), HasSubstr("it recalls the value 7, which it never stored"));
  EXPECT_THAT(parseError(PickleText().add("q\x07")), HasSubstr("it remembers a value of an empty stack"));
  EXPECT_THAT(parseError(PickleText().op('N').op(')').op('R')),
              HasSubstr("it calls something that is not a named function"));
  EXPECT_THAT(parseError(PickleText().op('N').op('Q')), HasSubstr("a persistent id is not a tensor storage"));
  EXPECT_THAT(parseError(PickleText().storage("QInt8Storage", "0", 1)), HasSubstr("is not a tensor storage"));
  EXPECT_THAT(parseError(PickleText().storage("FloatStorage", std::string(300, 'k'), 1)),
              HasSubstr("is not a tensor storage"));
}

TEST(PickleTest, BoundsLengths) {
  EXPECT_THAT(parseError(PickleText().add("X\xff\xff\xff\x7f")), HasSubstr("a string has 2147483647 bytes, more than"));
  EXPECT_THAT(parseError(PickleText().add(std::string("X\x09\0\0\0", 5))), HasSubstr("bytes are missing at the end"));
  EXPECT_THAT(parseError(PickleText().text("\xff")), HasSubstr("a string is not UTF-8"));
  EXPECT_THAT(parseError(PickleText().add("ctorch")), HasSubstr("a name does not end"));
  EXPECT_THAT(parseError(PickleText().add("\x8a\x09" + std::string(9, '\1'))),
              HasSubstr("an integer has 9 bytes, more than 8"));
  EXPECT_THAT(parseError("\x80\x02"), HasSubstr("1 bytes are missing at the end"));
  EXPECT_THAT(parseError(PickleText().add(std::string(1'000'001, 'N'))),
              HasSubstr("its stack grows beyond 1000000 values"));
  EXPECT_THAT(parseError(PickleText().add(std::string(1'000'001, '('))),
              HasSubstr("its stack grows beyond 1000000 marks"));
  std::string toggles;
  for (int i = 0; i < 500'001; ++i)
    toggles += "(N\x85t"; // four operations
  EXPECT_THAT(parseError(PickleText().add(toggles)), HasSubstr("it has more than 2000000 operations"));
}

TEST(PickleTest, SharingIsNotExpanded) {
  // Thirty pairs of pairs are 2^30 leaves as a tree and thirty values here.
  PickleText text;
  text.op('N').add("q\x01");
  for (int i = 0; i < 30; ++i)
    text.add("h\x01").op('\x86').add("q\x01");
  PickleDocument document = parse(text.done());
  EXPECT_EQ(document.root().items[0], document.root().items[1]);
}
