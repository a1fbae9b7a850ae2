// SPDX-License-Identifier: Apache-2.0
//
// Archives of layouts A and B, whose tensors lie in a torch.save zip inside of the zip.
#include "ReaderFixture.h"

#include "compiler/import/Pt2Archive.h"

using namespace ditc;
using namespace ditc::test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

namespace {

/// A state dict of whatever `entries` pushes as key, value, key, value...
std::string stateDict(const std::function<void(PickleText &)> &entries,
                      const Members &storages = {{"0", "abcdefghijklmnop"}}) {
  PickleText text;
  text.op('}').op('(');
  entries(text);
  return makeTorchSave(text.op('u').done(), storages);
}

void pushParameter(PickleText &text, const char *fqn) {
  text.text(fqn).global("torch._utils", "_rebuild_parameter").op('(');
  text.tensor("FloatStorage", "0", 4, 0, {2, 2}, {2, 1}).op('\x88').op('N').op('t').op('R');
}

class Pt2PickledTest : public testing::Test {
protected:
  Members layoutA(const std::string &weights) {
    return {{"serialized_exported_program.json", "{}"},
            {"serialized_state_dict.pt", weights},
            {"serialized_constants.pt", stateDict([](PickleText &) {}, {})},
            {"serialized_example_inputs.pt", ""},
            {"version", "8.2"}};
  }
  Members layoutB(const std::string &weights) {
    return {{"top/models/model.json", "{}"},
            {"top/data/weights/model.pt", weights},
            {"top/data/constants/model.pt", ""},
            {"top/archive_format", "pt2"},
            {"top/archive_version", "0"}};
  }
  Pt2Archive open(const Members &members) {
    writeBytes(path, makeZip(members, members[0].first[0] == 's' ? ZipStyle::Python : ZipStyle::Torch));
    return Pt2Archive::open(path);
  }
  std::string weightError(const std::function<void(PickleText &)> &entries) {
    return errorOf([&] { open(layoutA(stateDict(entries))); });
  }

  TempFolder folder;
  std::string path = folder / "m.pt2";
};

std::string contentOf(const StoredTensor &tensor) {
  std::vector<uint8_t> bytes = readContiguous(tensor);
  return {bytes.begin(), bytes.end()};
}

} // namespace

TEST_F(Pt2PickledTest, LayoutsAAndB) {
  std::string weights = stateDict([](PickleText &t) {
    pushParameter(t, "fc.w");
    t.text("view").tensor("FloatStorage", "0", 4, 1, {2}, {2});
  });
  for (const Members &members : {layoutA(weights), layoutB(weights)}) {
    Pt2Archive archive = open(members);
    EXPECT_EQ(archive.layout(), members[0].first[0] == 's' ? 'A' : 'B');
    EXPECT_EQ(archive.programJson(), "{}");
    EXPECT_EQ(archive.modelName(), "model");
    ASSERT_THAT(archive.weights(), SizeIs(2));
    const StoredTensor &parameter = archive.weights().at("fc.w"), &view = archive.weights().at("view");
    EXPECT_TRUE(parameter.isParameter);
    EXPECT_FALSE(view.isParameter);
    EXPECT_EQ(parameter.storageId, view.storageId);
    EXPECT_EQ(contentOf(parameter), "abcdefghijklmnop");
    EXPECT_EQ(contentOf(view), "efghmnop");
    EXPECT_THAT(archive.constants(), IsEmpty());
  }
}

TEST_F(Pt2PickledTest, OldNamesOfLayoutA) {
  Members members = layoutA(stateDict([](PickleText &t) { pushParameter(t, "fc.w"); }));
  members[1].first = "serialized_state_dict.json";
  members[2].first = "serialized_constants.json";
  EXPECT_THAT(open(members).weights(), SizeIs(1));
}

TEST_F(Pt2PickledTest, OnlyOneModelInLayoutA) {
  open(layoutA(stateDict([](PickleText &) {})));
  EXPECT_THAT(errorOf([&] { Pt2Archive::open(path, "vae"); }), HasSubstr("has no model 'vae'; it holds 'model'"));
}

TEST_F(Pt2PickledTest, RecordsWhatItCannotRead) {
  Pt2Archive archive = open(layoutA(stateDict([](PickleText &t) {
    pushParameter(t, "fc.w");
    t.text("quant").global("torchao", "Quantized").op(')').op('R').op('}').op('b');
    t.text("number").integer(3);
  })));
  EXPECT_THAT(archive.weights(), SizeIs(1));
  EXPECT_EQ(archive.unreadable().at("quant"),
            "it is stored as an object of torchao.Quantized, which is not a plain tensor");
  EXPECT_EQ(archive.unreadable().at("number"), "it is not a tensor");
}

TEST_F(Pt2PickledTest, UntypedStoragesCountBytes) {
  Pt2Archive archive = open(layoutA(stateDict([](PickleText &t) {
    t.text("w").global("torch._utils", "_rebuild_tensor_v3").op('(').storage("UntypedStorage", "0", 16);
    t.integer(0).tuple({16}).tuple({1}).op('\x89').op('N').global("torch", "float8_e5m2").op('t').op('R');
  })));
  EXPECT_EQ(archive.weights().at("w").dtype, DType::f8e5m2);
  EXPECT_EQ(contentOf(archive.weights().at("w")), "abcdefghijklmnop");
}

TEST_F(Pt2PickledTest, FakeWeightsHaveNoBytes) {
  Pt2Archive archive = open(layoutA(stateDict([](PickleText &t) { pushParameter(t, "fc.w"); }, {{"0", ""}})));
  EXPECT_FALSE(archive.weights().at("fc.w").hasBytes());
}

TEST_F(Pt2PickledTest, RefusesTensors) {
  EXPECT_THAT(weightError([](PickleText &t) { t.text("w").tensor("FloatStorage", "9", 4, 0, {4}, {1}); }),
              HasSubstr("weight 'w': its storage '9' is missing"));
  EXPECT_THAT(weightError([](PickleText &t) { t.text("w").tensor("FloatStorage", "0", 5, 0, {4}, {1}); }),
              HasSubstr("weight 'w': its storage '0' has 16 of 20 bytes"));
  EXPECT_THAT(weightError([](PickleText &t) { t.text("w").tensor("FloatStorage", "0", -4, 0, {4}, {1}); }),
              HasSubstr("weight 'w': its storage '0' has an impossible size"));
  EXPECT_THAT(weightError([](PickleText &t) { t.text("w").tensor("FloatStorage", "0", 4, 1, {4}, {1}); }),
              HasSubstr("weight 'w': it needs 20 bytes, but its storage"));
  EXPECT_THAT(weightError([](PickleText &t) { t.text("w").tensor("FloatStorage", "0", 4, -1, {4}, {1}); }),
              HasSubstr("its sizes, strides and offset are not those of a tensor"));
  EXPECT_THAT(weightError([](PickleText &t) { t.text("w").tensor("FloatStorage", "0", 4, 0, {4}, {1, 1}); }),
              HasSubstr("its sizes, strides and offset are not those of a tensor"));
  EXPECT_THAT(weightError([](PickleText &t) { t.integer(1).integer(2); }),
              HasSubstr("holds a dict whose keys are not strings"));
  auto twice = [](PickleText &t) {
    pushParameter(t, "w");
    pushParameter(t, "w");
  };
  EXPECT_THAT(weightError(twice), HasSubstr("weight 'w': it is there twice"));
  EXPECT_THAT(weightError([](PickleText &t) { t.text("w").op('N').text("w").op('N'); }),
              HasSubstr("it is there twice"));
}

TEST_F(Pt2PickledTest, RefusesInnerArchives) {
  auto innerError = [&](const std::string &weights) { return errorOf([&] { open(layoutA(weights)); }); };
  EXPECT_THAT(innerError("garbage"), HasSubstr("m.pt2/serialized_state_dict.pt' is not a zip file"));
  EXPECT_THAT(
      innerError(makeZip({{"archive/version", "3"}})),
      HasSubstr("m.pt2/serialized_state_dict.pt' has no 'data.pkl'; the file is damaged, save the model again"));
  EXPECT_THAT(innerError(makeTorchSave(PickleText().op(']').done(), {})), HasSubstr("does not hold a dict of tensors"));
  EXPECT_THAT(innerError(makeTorchSave("\x80\x05", {})),
              HasSubstr("m.pt2/serialized_state_dict.pt/archive/data.pkl' is not a pickle of protocol 2"));
  EXPECT_THAT(innerError(makeZip({{"archive/data.pkl", "\x80\x02}."}, {"archive/byteorder", "big"}})),
              HasSubstr("its byteorder is 'big', ditc reads little-endian archives only"));
  EXPECT_EQ(open(layoutA(makeZip({{"archive/data.pkl", "\x80\x02}."}}))).weights().size(), 0u)
      << "no byteorder: little";
}
