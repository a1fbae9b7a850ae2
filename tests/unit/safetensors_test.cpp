// SPDX-License-Identifier: Apache-2.0
//
// safetensors files: what is written is read, shards come by their index, every lie in a header is refused.
#include "ReaderFixture.h"

#include "runtime/Safetensors.h"

using namespace ditc;
using namespace ditc::test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

namespace {

class SafetensorsTest : public testing::Test {
protected:
  /// A file with `header` and `dataSize` bytes of data.
  std::string file(const std::string &header, size_t dataSize) {
    return raw(static_cast<uint64_t>(header.size())) + header + std::string(dataSize, 'd');
  }
  SafetensorsFile open(const std::string &bytes) {
    writeBytes(path, bytes);
    return SafetensorsFile::open(path);
  }
  std::string openError(const std::string &bytes) {
    return errorOf([&] { open(bytes); });
  }
  /// What opening says of one tensor "w" with these fields over 16 bytes.
  std::string fieldError(const std::string &fields) { return openError(file("{\"w\":{" + fields + "}}", 16)); }

  TempFolder folder;
  std::string path = folder / "test.safetensors";
};

HostTensor tensorOf(DType type, std::vector<int64_t> shape, const std::string &bytes) {
  return {type, std::move(shape), {bytes.begin(), bytes.end()}};
}

} // namespace

TEST_F(SafetensorsTest, RoundTripEveryType) {
  std::vector<HostTensor> owned;
  for (int i = 0; i <= static_cast<int>(DType::f8e5m2); ++i) {
    DType type = static_cast<DType>(i);
    owned.push_back(tensorOf(type, {3, 1}, std::string(3 * byteSize(type), static_cast<char>('a' + i))));
  }
  std::map<std::string, TensorView> tensors;
  for (const HostTensor &tensor : owned)
    tensors[std::string(nameOf(tensor.dtype))] = tensor.view();
  writeSafetensors(path, tensors);
  SafetensorsFile file = SafetensorsFile::open(path);
  ASSERT_EQ(file.tensors().size(), tensors.size());
  std::string content = readBytes(path);
  for (const auto &[name, tensor] : file.tensors()) {
    EXPECT_EQ(tensor.dtype, *parseDType(name));
    EXPECT_THAT(tensor.shape, ElementsAre(3, 1));
    EXPECT_TRUE(std::equal(tensor.bytes.begin(), tensor.bytes.end(), tensors[name].bytes.begin()));
    EXPECT_EQ(file.byteOffset(name) % byteSize(tensor.dtype), 0u) << "aligned to its element";
    EXPECT_EQ(static_cast<uint8_t>(content[file.byteOffset(name)]), tensor.bytes[0]);
  }
  EXPECT_EQ(file.path(), path);
  EXPECT_THAT(folder.list(), ElementsAre("test.safetensors"));
}

TEST_F(SafetensorsTest, ScalarsEmptiesAndOddNames) {
  HostTensor scalar = tensorOf(DType::f32, {}, "abcd"), empty = tensorOf(DType::i64, {0, 5}, "");
  writeSafetensors(path, {{"a \"quoted\" \xc3\xa4", scalar.view()}, {"empty", empty.view()}});
  SafetensorsFile file = SafetensorsFile::open(path);
  EXPECT_THAT(file.tensors().at("a \"quoted\" \xc3\xa4").shape, IsEmpty());
  EXPECT_THAT(file.tensors().at("empty").shape, ElementsAre(0, 5));
  EXPECT_TRUE(file.tensors().at("empty").bytes.empty());
}

TEST_F(SafetensorsTest, NoTensors) {
  writeSafetensors(path, {});
  EXPECT_THAT(SafetensorsFile::open(path).tensors(), IsEmpty());
}

TEST_F(SafetensorsTest, WritesTheFormat) {
  HostTensor tensor = tensorOf(DType::bf16, {2}, "abcd");
  writeSafetensors(path, {{"w", tensor.view()}});
  std::string header = R"({"w":{"data_offsets":[0,4],"dtype":"BF16","shape":[2]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  EXPECT_EQ(readBytes(path), raw(static_cast<uint64_t>(header.size())) + header + "abcd");
}

TEST_F(SafetensorsTest, IgnoresMetadata) {
  SafetensorsFile opened =
      open(file(R"({"__metadata__":{"format":"pt"},"w":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", 2));
  EXPECT_EQ(opened.tensors().size(), 1u);
}

TEST_F(SafetensorsTest, RefusesOtherFiles) {
  EXPECT_THAT(openError("abc"), HasSubstr("it has 3 bytes, too few for a safetensors file; the file is damaged or "
                                          "truncated, copy or download it again"));
  EXPECT_THAT(openError("PK\x03\x04 and so on"), HasSubstr("is not a safetensors file: no JSON header behind"));
  EXPECT_THAT(errorOf([] { SafetensorsFile::open("/no/such/file"); }), HasSubstr("No such file or directory"));
}

TEST_F(SafetensorsTest, RefusesHeaders) {
  EXPECT_THAT(openError(raw<uint64_t>(100'000'001) + "{}"),
              HasSubstr("its header claims 100000001 bytes, more than the 100000000 that the format allows"));
  EXPECT_THAT(openError(raw<uint64_t>(50) + "{}"), HasSubstr("its header claims 50 bytes, but the file has only 10"));
  EXPECT_THAT(openError(raw(UINT64_MAX) + "{}"), HasSubstr("more than the 100000000"));
  EXPECT_THAT(openError(file("{\"w\":}", 0)), HasSubstr("its header is not JSON (error at byte"));
  EXPECT_THAT(openError(file("{} {}", 0)), HasSubstr("its header is not JSON"));
  EXPECT_THAT(openError(file("{\"w\":[[[[[[]]]]]]}", 0)), HasSubstr("its header is nested deeper"));
  EXPECT_THAT(openError(file("{\"w\":" + std::string(200'000, '[') + "}", 0)), HasSubstr("nested deeper"));
  EXPECT_THAT(openError(file("{\"w\":5}", 0)), HasSubstr("the entry 'w' of its header is not an object"));
  EXPECT_THAT(openError(file("{\"w\":6e6000}", 0)), HasSubstr("its header has a number that is too large"));
  EXPECT_THAT(openError(file(R"({"w":{"dtype":"U8","shape":[],"data_offsets":[0,1]},
                                 "w":{"dtype":"U8","shape":[],"data_offsets":[0,1]}})",
                             1)),
              HasSubstr("the tensor 'w' is there twice"));
}

TEST_F(SafetensorsTest, RefusesFields) {
  EXPECT_THAT(fieldError(R"("shape":[4],"data_offsets":[0,16])"), HasSubstr("tensor 'w' has no 'dtype'"));
  EXPECT_THAT(
      fieldError(R"("dtype":"F4","shape":[4],"data_offsets":[0,16])"),
      HasSubstr("tensor 'w' has the element type 'F4', which ditc does not know; convert it, for example to F32"));
  for (const char *shape : {"", R"("shape":4,)", R"("shape":[-4],)", R"("shape":[4.0],)", R"("shape":["4"],)",
                            R"("shape":[18446744073709551615],)"})
    EXPECT_THAT(fieldError(std::string(R"("dtype":"F32",)") + shape + R"("data_offsets":[0,16])"),
                HasSubstr("tensor 'w' has no 'shape' that is a list of sizes"))
        << shape;
  for (const char *offsets :
       {"", R"(,"data_offsets":[0])", R"(,"data_offsets":[0,-16])", R"(,"data_offsets":[0,16.0])"})
    EXPECT_THAT(fieldError(std::string(R"("dtype":"F32","shape":[4])") + offsets),
                HasSubstr("tensor 'w' has no 'data_offsets' that is a pair of positions"))
        << offsets;
}

TEST_F(SafetensorsTest, RefusesPlaces) {
  EXPECT_THAT(fieldError(R"("dtype":"F32","shape":[4],"data_offsets":[1,17])"),
              HasSubstr("tensor 'w' lies at bytes 1 to 17 of 16 bytes of data"));
  EXPECT_THAT(fieldError(R"("dtype":"F32","shape":[4],"data_offsets":[16,0])"), HasSubstr("lies at bytes 16 to 0"));
  EXPECT_THAT(fieldError(R"("dtype":"F32","shape":[3],"data_offsets":[0,16])"),
              HasSubstr("tensor 'w' has 16 bytes, which is not what its shape and type need"));
  EXPECT_THAT(fieldError(R"("dtype":"F32","shape":[4611686018427387904,4611686018427387904],"data_offsets":[0,16])"),
              HasSubstr("not what its shape and type need"));
  EXPECT_THAT(fieldError(R"("dtype":"F32","shape":[9223372036854775807,9223372036854775807,0],"data_offsets":[0,16])"),
              HasSubstr("not what its shape and type need"));
  EXPECT_THAT(fieldError(R"("dtype":"F32","shape":[2],"data_offsets":[0,8])"),
              HasSubstr("its tensors end at byte 8 of 16 bytes of data"));
  EXPECT_THAT(fieldError(R"("dtype":"F32","shape":[2],"data_offsets":[8,16])"),
              HasSubstr("its tensors leave a gap at byte 0 of the data"));
  EXPECT_THAT(openError(file(R"({"v":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},
                                 "w":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})",
                             6)),
              HasSubstr("its tensors overlap at byte 2 of the data"));
}

TEST_F(SafetensorsTest, EveryTruncationIsAnError) {
  HostTensor tensor = tensorOf(DType::f32, {2}, "abcdefgh");
  writeSafetensors(path, {{"w", tensor.view()}});
  std::string bytes = readBytes(path);
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_EQ(kindOf([&] { open(bytes.substr(0, size)); }), ErrorKind::Input) << size;
}

TEST_F(SafetensorsTest, UnknownNameHasAMessage) {
  writeSafetensors(path, {});
  EXPECT_THAT(errorOf([&] { SafetensorsFile::open(path).byteOffset("w"); }), HasSubstr("has no tensor 'w'; it has 0"));
}

TEST_F(SafetensorsTest, WriterRefuses) {
  HostTensor tensor = tensorOf(DType::f32, {2}, "abcd");
  EXPECT_EQ(kindOf([&] { writeSafetensors(path, {{"w", tensor.view()}}); }), ErrorKind::Internal);
  tensor.shape = {-1};
  EXPECT_EQ(kindOf([&] { writeSafetensors(path, {{"w", tensor.view()}}); }), ErrorKind::Internal);
  tensor.shape = {1};
  EXPECT_THAT(errorOf([&] { writeSafetensors(path, {{"__metadata__", tensor.view()}}); }),
              HasSubstr("a tensor may not be called '__metadata__' in a safetensors file; rename it"));
  EXPECT_THAT(errorOf([&] { writeSafetensors(path, {{"\xff", tensor.view()}}); }), HasSubstr("may not be called '?'"));
  EXPECT_THAT(folder.list(), IsEmpty());
}

TEST_F(SafetensorsTest, OpensShardsByIndex) {
  HostTensor tensor = tensorOf(DType::f32, {1}, "abcd");
  writeSafetensors(folder / "m-1.safetensors", {{"a", tensor.view()}, {"b", tensor.view()}});
  writeSafetensors(folder / "m-2.safetensors", {{"c", tensor.view()}});
  writeBytes(folder / "m.safetensors.index.json",
             R"({"metadata":{},"weight_map":{"a":"m-1.safetensors","c":"m-2.safetensors","b":"m-1.safetensors"}})");
  writeSafetensors(path, {{"d", tensor.view()}});
  std::vector<SafetensorsFile> files = openSafetensors({folder / "m.safetensors.index.json", path});
  ASSERT_EQ(files.size(), 3u);
  EXPECT_EQ(files[0].tensors().size(), 2u);
  EXPECT_TRUE(files[1].tensors().count("c"));
  EXPECT_TRUE(files[2].tensors().count("d"));
}

TEST_F(SafetensorsTest, RefusesIndices) {
  HostTensor tensor = tensorOf(DType::f32, {1}, "abcd");
  writeSafetensors(folder / "m-1.safetensors", {{"a", tensor.view()}});
  auto indexError = [&](const std::string &text) {
    std::string index = folder / "m.safetensors.index.json";
    writeBytes(index, text);
    return errorOf([&] { openSafetensors({index}); });
  };
  EXPECT_THAT(indexError("{"), HasSubstr("is not JSON (error at byte"));
  EXPECT_THAT(indexError("{\"weight_map\":1e999}"), HasSubstr("has a number that is too large; copy or download it"));
  EXPECT_THAT(indexError("[]"), HasSubstr("has no object 'weight_map'; expected an index of safetensors files"));
  EXPECT_THAT(indexError("{\"weight_map\":[]}"), HasSubstr("has no object 'weight_map'"));
  EXPECT_THAT(indexError("[[[[[[[[1]]]]]]]]"), HasSubstr("is nested deeper than an index"));
  for (const char *name : {"\"../m-1.safetensors\"", "\"/etc/passwd\"", "\"\"", "\"..\"", "3", "\"a\\\\b\""})
    EXPECT_THAT(indexError("{\"weight_map\":{\"a\":" + std::string(name) + "}}"),
                HasSubstr("expected the name of a file beside the index"))
        << name;
  EXPECT_THAT(indexError(R"({"weight_map":{"b":"m-1.safetensors"}})"),
              HasSubstr("says that tensor 'b' is in 'm-1.safetensors', but it is not there"));
  EXPECT_THAT(indexError(R"({"weight_map":{"a":"m-9.safetensors"}})"), HasSubstr("No such file or directory"));
}
