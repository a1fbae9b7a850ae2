// SPDX-License-Identifier: Apache-2.0
#include "ReaderFixture.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <zlib.h>

namespace ditc::test {

namespace fs = std::filesystem;

TempFolder::TempFolder() {
  std::string pattern = (fs::temp_directory_path() / "ditc-test-XXXXXX").string();
  path = ::mkdtemp(pattern.data());
}

TempFolder::~TempFolder() { fs::remove_all(path); }

std::vector<std::string> TempFolder::list() const {
  std::vector<std::string> names;
  for (const auto &entry : fs::directory_iterator(path))
    names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

std::string readBytes(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

void writeBytes(const std::string &path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

std::span<const uint8_t> asBytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t *>(text.data()), text.size()};
}

std::string errorOf(const std::function<void()> &action) {
  try {
    action();
  } catch (const Error &error) {
    EXPECT_EQ(error.kind(), ErrorKind::Input) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return {};
}

std::optional<ErrorKind> kindOf(const std::function<void()> &action) {
  try {
    action();
  } catch (const Error &error) {
    return error.kind();
  }
  return std::nullopt;
}

std::vector<std::string> filesOf(const char *variable) {
  std::vector<std::string> files;
  const char *folder = std::getenv(variable);
  if (!folder || !fs::is_directory(folder))
    return files;
  for (const auto &entry : fs::recursive_directory_iterator(folder))
    if (entry.path().extension() == ".pt2")
      files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

namespace {

struct Placed {
  std::string name;
  uint32_t crc, size, offset;
};

std::string centralRecord(const Placed &member, uint16_t flags) {
  return raw(0x02014b50u) + raw<uint16_t>(0) + raw<uint16_t>(0) + raw(flags) + raw<uint16_t>(0) + raw(0u) +
         raw(member.crc) + raw(member.size) + raw(member.size) + raw(static_cast<uint16_t>(member.name.size())) +
         raw<uint16_t>(0) + raw<uint16_t>(0) + raw<uint16_t>(0) + raw<uint16_t>(0) + raw(0u) + raw(member.offset) +
         member.name;
}

} // namespace

std::string makeZip(const Members &members, ZipStyle style) {
  bool isTorch = style == ZipStyle::Torch;
  uint16_t flags = isTorch ? 0x808 : 0;
  std::string zip;
  std::vector<Placed> placed;
  for (const auto &[name, payload] : members) {
    uint32_t crc = static_cast<uint32_t>(::crc32_z(0, asBytes(payload).data(), payload.size()));
    uint32_t size = static_cast<uint32_t>(payload.size());
    placed.push_back({name, crc, size, static_cast<uint32_t>(zip.size())});
    size_t padding = isTorch ? (64 - (zip.size() + 30 + name.size() + 4) % 64) % 64 : 0;
    std::string extra;
    if (isTorch)
      extra = "FB" + raw(static_cast<uint16_t>(padding)) + std::string(padding, 'Z');
    zip += raw(0x04034b50u) + raw<uint16_t>(0) + raw(flags) + raw<uint16_t>(0) + raw(0u);
    zip += raw(isTorch ? 0 : crc) + raw(isTorch ? 0 : size) + raw(isTorch ? 0 : size);
    zip += raw(static_cast<uint16_t>(name.size())) + raw(static_cast<uint16_t>(extra.size())) + name + extra + payload;
    if (isTorch)
      zip += raw(0x08074b50u) + raw(crc) + raw(size) + raw(size);
  }
  uint32_t offset = static_cast<uint32_t>(zip.size());
  for (const Placed &member : placed)
    zip += centralRecord(member, flags);
  uint32_t size = static_cast<uint32_t>(zip.size()) - offset;
  uint16_t count = static_cast<uint16_t>(placed.size());
  return zip + raw(0x06054b50u) + raw(0u) + raw(count) + raw(count) + raw(size) + raw(offset) + raw<uint16_t>(0);
}

size_t endOf(const std::string &zip) { return zip.size() - 22; }

size_t centralOf(const std::string &zip, const std::string &name) { return zip.rfind(name) - 46; }

size_t localOf(const std::string &zip, const std::string &name) { return zip.find(name) - 30; }

PickleText &PickleText::add(const std::string &more) {
  bytes += more;
  return *this;
}

PickleText &PickleText::text(const std::string &value) {
  return add("X" + raw(static_cast<uint32_t>(value.size())) + value);
}

PickleText &PickleText::global(const std::string &module, const std::string &name) {
  return add("c" + module + "\n" + name + "\n");
}

PickleText &PickleText::tuple(const std::vector<int32_t> &values) {
  op('(');
  for (int32_t value : values)
    integer(value);
  return op('t');
}

PickleText &PickleText::storage(const std::string &storageClass, const std::string &key, int32_t count) {
  bool isUntyped = storageClass == "UntypedStorage";
  op('(').text("storage").global(isUntyped ? "torch.storage" : "torch", storageClass).text(key).text("cpu");
  return integer(count).op('t').op('Q');
}

PickleText &PickleText::tensor(const std::string &storageClass, const std::string &key, int32_t count, int32_t offset,
                               const std::vector<int32_t> &sizes, const std::vector<int32_t> &strides) {
  global("torch._utils", "_rebuild_tensor_v2").op('(').storage(storageClass, key, count);
  integer(offset).tuple(sizes).tuple(strides).op('\x89');
  return global("collections", "OrderedDict").op(')').op('R').op('t').op('R');
}

std::string makeTorchSave(const std::string &pickle, const Members &storages) {
  Members members = {{"archive/data.pkl", pickle}, {"archive/byteorder", "little"}};
  for (const auto &[key, bytes] : storages)
    members.push_back({"archive/data/" + key, bytes});
  members.push_back({"archive/version", "3\n"});
  return makeZip(members);
}

namespace {

Json tensorMeta(const Json &sizes, const Json &strides) {
  return {{"dtype", 7},
          {"sizes", sizes},
          {"strides", strides},
          {"requires_grad", false},
          {"layout", 7},
          {"device", {{"type", "cpu"}, {"index", nullptr}}},
          {"storage_offset", {{"as_int", 0}}}};
}

Json node(const char *target, const char *name, Json inputs) {
  return {{"target", target},
          {"name", name},
          {"inputs", std::move(inputs)},
          {"outputs", {{{"as_tensor", {{"name", name}}}}}},
          {"metadata", {{"nn_module_stack", "L__self__,,Model;L__self___fc,blocks.0.fc,torch.nn.Linear"}}},
          {"is_hop_single_tensor_return", nullptr}};
}

Json tensorArg(const char *argument, const char *value) {
  return {{"name", argument}, {"arg", {{"as_tensor", {{"name", value}}}}}, {"kind", 1}};
}

Json graphOfSmallProgram() {
  Json symbol = {{"as_expr", {{"expr_str", "Symbol('s0', positive=True, integer=True)"}, {"hint", {{"as_int", 2}}}}}};
  Json two = {{"as_int", 2}}, three = {{"as_int", 3}}, one = {{"as_int", 1}};
  auto named = [](const char *name) { return Json{{"as_tensor", {{"name", name}}}}; };
  return {{"inputs", {named("p_w"), named("x"), {{"as_bool", true}}}},
          {"outputs", {named("relu")}},
          {"nodes",
           {node("torch.ops.aten.linear.default", "linear", {tensorArg("input", "x"), tensorArg("weight", "p_w")}),
            node("torch.ops.aten.relu.default", "relu", Json::array({tensorArg("self", "linear")}))}},
          {"tensor_values",
           {{"p_w", tensorMeta({two, three}, {three, one})},
            {"x", tensorMeta({symbol, three}, {three, one})},
            {"linear", tensorMeta({symbol, two}, {two, one})},
            {"relu", tensorMeta({symbol, two}, {two, one})}}},
          {"sym_int_values", Json::object()},
          {"sym_float_values", Json::object()},
          {"sym_bool_values", Json::object()},
          {"custom_obj_values", Json::object()},
          {"is_single_tensor_return", false}};
}

} // namespace

Json smallProgram() {
  Json leaf = {{"type", nullptr}, {"context", nullptr}, {"children_spec", Json::array()}};
  Json args = {{"type", "builtins.tuple"}, {"context", "null"}, {"children_spec", Json::array({leaf})}};
  Json kwargs = {{"type", "builtins.dict"}, {"context", "[\"flag\"]"}, {"children_spec", Json::array({leaf})}};
  Json call = {{"type", "builtins.tuple"}, {"context", "null"}, {"children_spec", {args, kwargs}}};
  Json signature = {{"inputs", Json::array()},
                    {"outputs", Json::array()},
                    {"in_spec", Json::array({1, call}).dump()},
                    {"out_spec", Json::array({1, leaf}).dump()},
                    {"forward_arg_names", {"x", "flag"}}};
  Json specs = {{"input_specs",
                 {{{"parameter", {{"arg", {{"name", "p_w"}}}, {"parameter_name", "fc.w"}}}},
                  {{"user_input", {{"arg", {{"as_tensor", {{"name", "x"}}}}}}}},
                  {{"constant_input", {{"name", "flag"}, {"value", {{"as_bool", true}}}}}}}},
                {"output_specs", {{{"user_output", {{"arg", {{"as_tensor", {{"name", "relu"}}}}}}}}}}};
  Json graphModule = {{"graph", graphOfSmallProgram()},
                      {"signature", specs},
                      {"module_call_graph", {{{"fqn", ""}, {"signature", signature}}}},
                      {"metadata", Json::object()}};
  return {{"graph_module", graphModule},
          {"opset_version", {{"aten", 10}}},
          {"range_constraints",
           {{"s0", {{"min_val", 2}, {"max_val", nullptr}}}, {"2*s0", {{"min_val", 4}, {"max_val", 8}}}}},
          {"schema_version", {{"major", 8}, {"minor", 20}}},
          {"verifiers", {"TRAINING"}},
          {"torch_version", "2.14.1"},
          {"guards_code", {"L['x'].size()[0] != 3"}}};
}

Json tensorConfig(const std::string &fqn, const std::string &member, const std::vector<int64_t> &sizes,
                  const std::vector<int64_t> &strides, int64_t offset) {
  auto plain = [](const std::vector<int64_t> &values) {
    Json list = Json::array();
    for (int64_t value : values)
      list.push_back({{"as_int", value}});
    return list;
  };
  Json meta = tensorMeta(plain(sizes), plain(strides));
  meta["storage_offset"]["as_int"] = offset;
  return {
      {"config", {{fqn, {{"path_name", member}, {"is_param", true}, {"use_pickle", false}, {"tensor_meta", meta}}}}}};
}

Members layoutC(const Json &program) {
  std::string weight;
  for (float value : {1.f, 2.f, 3.f, 4.f, 5.f, 6.f})
    weight += raw(value);
  return {{"m/data/weights/weight_0", weight},
          {"m/data/weights/model_weights_config.json", tensorConfig("fc.w", "weight_0", {2, 3}, {3, 1}).dump()},
          {"m/data/constants/model_constants_config.json", "{\"config\": {}}"},
          {"m/models/model.json", program.dump()},
          {"m/data/sample_inputs/model.pt", ""},
          {"m/archive_format", "pt2"},
          {"m/archive_version", "0"},
          {"m/.data/version", "6\n"},
          {"m/byteorder", "little"}};
}

} // namespace ditc::test
