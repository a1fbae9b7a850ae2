// SPDX-License-Identifier: Apache-2.0
//
// Archives of layout C, the choice of the model, and every file that people take for a .pt2 file.
#include "ReaderFixture.h"

#include "compiler/import/ExportedProgram.h"
#include "compiler/import/Pt2Archive.h"

using namespace ditc;
using namespace ditc::test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

namespace {

const std::string kWeightsConfig = "m/data/weights/model_weights_config.json";

class Pt2ArchiveTest : public testing::Test {
protected:
  Pt2Archive open(const Members &members, const std::string &model = {}) {
    writeBytes(path, makeZip(members));
    return Pt2Archive::open(path, model);
  }
  std::string openError(const Members &members, const std::string &model = {}) {
    return errorOf([&] { open(members, model); });
  }
  std::string fileError(const std::string &bytes) {
    writeBytes(path, bytes);
    return errorOf([&] { Pt2Archive::open(path); });
  }

  std::string &member(const std::string &name) {
    for (auto &[known, bytes] : good)
      if (known == name)
        return bytes;
    return good.emplace_back(name, "").second;
  }
  void drop(const std::string &name) {
    std::erase_if(good, [&](const auto &entry) { return entry.first == name; });
  }
  /// Opens the good archive with the weight's payload record changed.
  Pt2Archive openConfig(const std::function<void(Json &)> &change) {
    Json config = tensorConfig("fc.w", "weight_0", {2, 3}, {3, 1});
    change(config["config"]["fc.w"]);
    member(kWeightsConfig) = config.dump();
    return open(good);
  }
  std::string configError(const std::function<void(Json &)> &change) {
    return errorOf([&] { openConfig(change); });
  }
  /// The values of the weight with these sizes, strides and offset over the storage 1..6.
  std::vector<float> valuesOf(const std::vector<int64_t> &sizes, const std::vector<int64_t> &strides, int64_t offset) {
    member(kWeightsConfig) = tensorConfig("fc.w", "weight_0", sizes, strides, offset).dump();
    std::vector<uint8_t> bytes = readContiguous(open(good).weights().at("fc.w"));
    std::vector<float> values(bytes.size() / sizeof(float));
    std::copy(bytes.begin(), bytes.end(), reinterpret_cast<uint8_t *>(values.data()));
    return values;
  }

  TempFolder folder;
  std::string path = folder / "m.pt2";
  Members good = layoutC(smallProgram());
};

} // namespace

TEST_F(Pt2ArchiveTest, LayoutC) {
  Pt2Archive archive = open(good);
  EXPECT_EQ(archive.layout(), 'C');
  EXPECT_EQ(archive.path(), path);
  EXPECT_EQ(archive.modelName(), "model");
  EXPECT_EQ(archive.programJson(), smallProgram().dump());
  ASSERT_THAT(archive.weights(), SizeIs(1));
  const StoredTensor &weight = archive.weights().at("fc.w");
  EXPECT_EQ(weight.dtype, DType::f32);
  EXPECT_TRUE(weight.isParameter);
  EXPECT_TRUE(weight.hasBytes());
  EXPECT_EQ(weight.elementCount(), 6);
  EXPECT_EQ(weight.byteSize, 24u);
  EXPECT_EQ(weight.byteOffset % 64, 0u);
  EXPECT_EQ(weight.file, path);
  EXPECT_THAT(archive.constants(), IsEmpty());
  EXPECT_THAT(archive.warnings(), IsEmpty());
  EXPECT_EQ(archive.contentHash().size(), 32u);
  EXPECT_EQ(parseExportedProgram(archive.programJson(), archive.path()).graph.nodes.size(), 2u);
}

TEST_F(Pt2ArchiveTest, ReadsAnyStrides) {
  EXPECT_THAT(valuesOf({2, 3}, {3, 1}, 0), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(valuesOf({3, 2}, {1, 3}, 0), ElementsAre(1, 4, 2, 5, 3, 6)) << "transposed";
  EXPECT_THAT(valuesOf({2, 2}, {2, 1}, 2), ElementsAre(3, 4, 5, 6)) << "a slice";
  EXPECT_THAT(valuesOf({3}, {2}, 1), ElementsAre(2, 4, 6)) << "a column";
  EXPECT_THAT(valuesOf({2, 3}, {0, 1}, 3), ElementsAre(4, 5, 6, 4, 5, 6)) << "expanded";
  EXPECT_THAT(valuesOf({1, 2, 1}, {100, 1, 7}, 4), ElementsAre(5, 6)) << "strides of sizes 1 do not matter";
  EXPECT_THAT(valuesOf({}, {}, 5), ElementsAre(6)) << "a scalar";
  EXPECT_THAT(valuesOf({0, 3}, {3, 1}, 0), IsEmpty());
}

TEST_F(Pt2ArchiveTest, SharedStoragesHaveOneId) {
  Json config = tensorConfig("a", "weight_0", {2, 3}, {3, 1});
  config["config"].update(tensorConfig("b", "weight_0", {3}, {1}, 3)["config"]);
  member(kWeightsConfig) = config.dump();
  Pt2Archive archive = open(good);
  EXPECT_EQ(archive.weights().at("a").storageId, archive.weights().at("b").storageId);
  EXPECT_THAT(archive.warnings(), IsEmpty());
}

TEST_F(Pt2ArchiveTest, WarnsOfLostOffsets) {
  member(kWeightsConfig) = tensorConfig("fc.w", "weight_0", {2}, {1}).dump();
  EXPECT_THAT(open(good).warnings(),
              ElementsAre(HasSubstr("'fc.w' uses the first 8 of 24 stored bytes; torch 2.9 could "
                                    "lose the offset of such a view, call clone()")));
  member(kWeightsConfig) = tensorConfig("fc.w", "weight_0", {2}, {1}, 4).dump();
  EXPECT_THAT(open(good).warnings(), IsEmpty());
}

TEST_F(Pt2ArchiveTest, FakeWeightsHaveNoBytes) {
  member("m/data/weights/weight_0").clear();
  Pt2Archive archive = open(good);
  EXPECT_FALSE(archive.weights().at("fc.w").hasBytes());
  EXPECT_THAT(errorOf([&] { readContiguous(archive.weights().at("fc.w")); }),
              HasSubstr("the bytes of the tensor in 'data/weights/weight_0' are absent, because the model was exported "
                        "with fake weights; give the weights as safetensors with --weights"));
}

TEST_F(Pt2ArchiveTest, NoticesAFileThatShrank) {
  StoredTensor weight = open(good).weights().at("fc.w");
  writeBytes(path, "short");
  EXPECT_THAT(errorOf([&] { readContiguous(weight); }), HasSubstr("is shorter than it was when it was opened"));
}

TEST_F(Pt2ArchiveTest, ConstantsAreApart) {
  member("m/data/constants/tensor_0") = "abcdefgh";
  member("m/data/constants/model_constants_config.json") = tensorConfig("rope", "tensor_0", {2}, {1}).dump();
  Pt2Archive archive = open(good);
  EXPECT_EQ(archive.constants().at("rope").storageId, "data/constants/tensor_0");
  EXPECT_THAT(archive.weights(), SizeIs(1));
}

TEST_F(Pt2ArchiveTest, RecordsWhatItCannotRead) {
  auto whyUnreadable = [&](const std::function<void(Json &)> &change) {
    Pt2Archive archive = openConfig(change);
    EXPECT_THAT(archive.weights(), IsEmpty());
    return archive.unreadable().at("fc.w");
  };
  EXPECT_THAT(whyUnreadable([](Json &w) { w["use_pickle"] = true; }),
              HasSubstr("it is a tensor subclass (as torchao makes) and stored as a pickled object; call "
                        "unwrap_tensor_subclass_parameters or dequantize the model"));
  EXPECT_THAT(whyUnreadable([](Json &w) { w["tensor_meta"] = nullptr; }), HasSubstr("it is a script object"));
  EXPECT_THAT(whyUnreadable([](Json &w) { w["tensor_meta"]["dtype"] = 31; }),
              HasSubstr("it has the element type float8_e4m3fnuz (31), which ditc does not support"));
  EXPECT_THAT(whyUnreadable([](Json &w) { w["tensor_meta"]["layout"] = 2; }), HasSubstr("its layout 2 is not dense"));
}

TEST_F(Pt2ArchiveTest, RefusesConfigs) {
  EXPECT_THAT(
      configError([](Json &w) { w["path_name"] = "weight_9"; }),
      HasSubstr("weight 'fc.w': its bytes should be in the member 'm/data/weights/weight_9', which is missing"));
  EXPECT_THAT(configError([](Json &w) { w["path_name"] = "../../models/model.json"; }), HasSubstr("which is missing"));
  EXPECT_THAT(configError([](Json &w) { w["tensor_meta"]["sizes"][0]["as_int"] = 3; }),
              HasSubstr("weight 'fc.w': it needs 36 bytes, but its storage 'data/weights/weight_0' has 24"));
  EXPECT_THAT(configError([](Json &w) { w["tensor_meta"]["sizes"] = Json::array(); }),
              HasSubstr("its sizes, strides and offset are not those of a tensor"));
  for (const char *field :
       {"/tensor_meta/sizes/0/as_int", "/tensor_meta/strides/1/as_int", "/tensor_meta/storage_offset/as_int"})
    for (int64_t value : {int64_t{-1}, INT64_MAX})
      EXPECT_THAT(configError([&](Json &w) { w[Json::json_pointer(field)] = value; }), HasSubstr("weight 'fc.w'"))
          << field;
  EXPECT_THAT(configError([](Json &w) { w["tensor_meta"]["sizes"][0] = {{"as_expr", 3}}; }),
              HasSubstr("the field 'as_int' is missing"));
  member(kWeightsConfig) = "{\"config\": 3}";
  EXPECT_THAT(openError(good), HasSubstr("the field 'config' is number, expected an object"));
  member(kWeightsConfig) = "{";
  EXPECT_THAT(openError(good), HasSubstr("/m/data/weights/model_weights_config.json' is not valid JSON"));
}

TEST_F(Pt2ArchiveTest, HugeExpandedTensorIsAnError) {
  member(kWeightsConfig) = tensorConfig("fc.w", "weight_0", {int64_t{1} << 58, 2}, {0, 1}).dump();
  Pt2Archive archive = open(good);
  EXPECT_THAT(
      errorOf([&] { readContiguous(archive.weights().at("fc.w")); }),
      HasSubstr("bytes when expanded, more than the 17179869184 that ditc accepts; export it without expand()"));
}

TEST_F(Pt2ArchiveTest, HashNoticesEveryMember) {
  std::string hash = open(good).contentHash();
  writeBytes(folder / "copy.pt2", readBytes(path));
  EXPECT_EQ(Pt2Archive::open(folder / "copy.pt2").contentHash(), hash) << "the path does not count";
  member("m/data/weights/weight_0")[0] ^= 1;
  EXPECT_NE(open(good).contentHash(), hash);
  member("m/data/weights/weight_0")[0] ^= 1;
  member("m/.data/version") = "7\n";
  EXPECT_NE(open(good).contentHash(), hash);
}

TEST_F(Pt2ArchiveTest, HashReadsMembersWithoutCrc) {
  auto hashWithoutCrc = [&] {
    std::string bytes = makeZip(good);
    patch(bytes, centralOf(bytes, "m/data/weights/weight_0") + 16, 0u);
    writeBytes(path, bytes);
    return Pt2Archive::open(path).contentHash();
  };
  std::string hash = hashWithoutCrc();
  member("m/data/weights/weight_0")[0] ^= 1;
  EXPECT_NE(hashWithoutCrc(), hash);
}

TEST_F(Pt2ArchiveTest, ChoosesTheModel) {
  std::string program = smallProgram().dump();
  auto rename = [&](const std::string &name) {
    drop("m/models/model.json");
    member("m/models/" + name + ".json") = program;
    member("m/data/weights/" + name + "_weights_config.json") = "{\"config\": {}}";
  };
  rename("vae");
  EXPECT_EQ(open(good).modelName(), "vae") << "the only one";
  rename("dit");
  EXPECT_THAT(openError(good), HasSubstr("holds 2 models and none is called 'model': 'vae', 'dit'; save each with"));
  EXPECT_EQ(open(good, "dit").modelName(), "dit");
  EXPECT_THAT(openError(good, "unet"), HasSubstr("has no model 'unet'; it holds 'vae', 'dit'"));
  rename("model");
  EXPECT_EQ(open(good).modelName(), "model") << "the usual name";
}

TEST_F(Pt2ArchiveTest, ChecksFormatVersionAndByteOrder) {
  member("m/archive_format") = "pt3";
  EXPECT_THAT(openError(good), HasSubstr("its archive_format is 'pt3', expected 'pt2'"));
  member("m/archive_format") = "pt2\n";
  member("m/archive_version") = "1";
  EXPECT_THAT(openError(good), HasSubstr("its archive_version is '1', ditc reads version 0"));
  member("m/archive_version") = "0";
  member("m/byteorder") = "big";
  EXPECT_THAT(openError(good), HasSubstr("its byteorder is 'big', ditc reads little-endian archives only; export the "
                                         "model on a little-endian machine"));
  drop("m/byteorder");
  drop("m/archive_version");
  EXPECT_EQ(open(good).layout(), 'C');
}

TEST_F(Pt2ArchiveTest, IncompleteArchives) {
  drop("m/models/model.json");
  EXPECT_THAT(openError(good),
              HasSubstr("is incomplete: it has no program under 'm/models/', as when torch.export.save "
                        "stopped with an error half-way; look at that error and save the model again"));
  member("m/data/aotinductor/model/wrapper.so") = "elf";
  EXPECT_THAT(openError(good),
              HasSubstr("is an AOTInductor package: compiled code without a graph; save the model with "
                        "torch.export.save instead of aoti_compile_and_package"));
  good = layoutC(smallProgram());
  drop(kWeightsConfig);
  EXPECT_THAT(openError(good), HasSubstr("it has a program but no index of weights for the model 'model'; the file is "
                                         "incomplete, save the model again"));
}

TEST_F(Pt2ArchiveTest, DamagedProgram) {
  std::string bytes = makeZip(good);
  bytes[bytes.find("torch.ops.aten.relu")] = 'T';
  EXPECT_THAT(fileError(bytes), HasSubstr("its program does not match its checksum; the file is damaged"));
}

TEST_F(Pt2ArchiveTest, OtherZips) {
  EXPECT_THAT(openError({}), HasSubstr("is a zip archive without members"));
  EXPECT_THAT(openError({{"manifest.json", "{}"}}), HasSubstr("is a ditc package and not a model to compile"));
  EXPECT_THAT(openError({{"net/data.pkl", "x"}, {"net/code/m.py", "x"}, {"net/constants.pkl", "x"}}),
              HasSubstr("is a TorchScript archive; expected an archive of torch.export.save"));
  EXPECT_THAT(openError({{"archive/data.pkl", "x"}}), HasSubstr("is a torch.save file: weights without a program"));
  EXPECT_THAT(openError({{"word/document.xml", "x"}}),
              HasSubstr("is a zip archive, but not one of torch.export.save: it has neither "
                        "'serialized_exported_program.json' nor '<folder>/archive_format', its first member is "
                        "'word/document.xml'"));
}

TEST_F(Pt2ArchiveTest, OtherFiles) {
  EXPECT_THAT(fileError(""), HasSubstr("is empty; expected an archive of torch.export.save, save the model again"));
  EXPECT_THAT(fileError("\x1f\x8b..."),
              HasSubstr("is compressed with gzip; expected an archive of torch.export.save, run "
                        "gunzip on it first"));
  EXPECT_THAT(fileError("\x28\xb5\x2f\xfd..."), HasSubstr("is compressed with zstd"));
  EXPECT_THAT(fileError("\x80\x02}q"), HasSubstr("is a bare pickle (an old torch.save)"));
  EXPECT_THAT(fileError("GGUF...."), HasSubstr("is a GGUF file: weights without a program"));
  EXPECT_THAT(fileError("version https://git-lfs.github.com/spec/v1\n"), HasSubstr("run git lfs pull"));
  EXPECT_THAT(fileError(raw<uint64_t>(8) + "{}      "), HasSubstr("is a safetensors file: weights without a program; "
                                                                  "export the model with torch.export.save and give "
                                                                  "this file with --weights"));
  EXPECT_THAT(fileError("hello"), HasSubstr("is not a zip archive; expected an archive of torch.export.save"));
  EXPECT_THAT(errorOf([] { Pt2Archive::open("/no/such.pt2"); }), HasSubstr("cannot open '/no/such.pt2'"));
  std::string bytes = makeZip(good);
  EXPECT_THAT(fileError(bytes.substr(0, bytes.size() / 2)), HasSubstr("it is truncated; copy or save it again"));
}
