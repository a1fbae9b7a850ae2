// SPDX-License-Identifier: Apache-2.0
//
// safetensors: eight bytes of header length, a JSON header, then the tensors. A file is taken only when its
// tensors tile the data without gap or overlap, which is what the format's own library demands: a file with
// hidden bytes is not a safetensors file.
#include "runtime/Safetensors.h"

#include "runtime/Error.h"
#include "runtime/FileKind.h"
#include "runtime/MappedFile.h"
#include "runtime/Text.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

namespace ditc {

using nlohmann::json;

struct SafetensorsFile::State {
  std::shared_ptr<const MappedFile> file;
  std::map<std::string, TensorView> tensors;
};

namespace {

constexpr uint64_t kLengthSize = 8;
constexpr uint64_t kMaxHeader = 100'000'000; // the format's own limit
constexpr int kMaxDepth = 4;                 // object, tensor, list: one to spare
constexpr size_t kMaxRank = 64;
constexpr std::string_view kMetadataKey = "__metadata__";

struct Range {
  uint64_t begin, end;
};

class HeaderReader {
public:
  HeaderReader(const std::string &path, std::span<const uint8_t> bytes) : path(path), bytes(bytes) {}

  std::map<std::string, TensorView> read();

private:
  template <typename... Args> [[noreturn]] void damaged(fmt::format_string<Args...> format, Args &&...args) {
    fail("'{}': {}; the file is damaged or truncated, copy or download it again", path,
         fmt::format(format, std::forward<Args>(args)...));
  }

  std::string_view headerText();
  json parse(std::string_view text);
  TensorView readTensor(const std::string &name, const json &fields, std::vector<Range> &ranges);
  std::vector<int64_t> readShape(const std::string &name, const json &fields);
  Range readRange(const std::string &name, const json &fields);
  void checkTiling(std::vector<Range> ranges);

  const std::string &path;
  std::span<const uint8_t> bytes;
  std::span<const uint8_t> data;
};

std::string_view HeaderReader::headerText() {
  if (bytes.size() < kLengthSize)
    damaged("it has {} bytes, too few for a safetensors file", bytes.size());
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), kLengthSize);
  bool startsObject = bytes.size() > kLengthSize && bytes[kLengthSize] == '{';
  if (!startsObject)
    fail("'{}' is not a safetensors file: no JSON header behind its first {} bytes; expected a *.safetensors file",
         path, kLengthSize);
  if (length > kMaxHeader)
    damaged("its header claims {} bytes, more than the {} that the format allows", length, kMaxHeader);
  if (length > bytes.size() - kLengthSize)
    damaged("its header claims {} bytes, but the file has only {}", length, bytes.size());
  data = bytes.subspan(kLengthSize + length);
  return {reinterpret_cast<const char *>(bytes.data()) + kLengthSize, length};
}

json HeaderReader::parse(std::string_view text) {
  std::set<std::string> names;
  auto check = [&](int depth, json::parse_event_t event, json &parsed) {
    if (depth > kMaxDepth)
      damaged("its header is nested deeper than a safetensors header can be");
    if (event == json::parse_event_t::key && depth == 1 && !names.insert(parsed.get<std::string>()).second)
      damaged("the tensor '{}' is there twice", printable(parsed.get<std::string>()));
    return true;
  };
  try {
    return json::parse(text, check);
  } catch (const json::parse_error &error) {
    damaged("its header is not JSON (error at byte {})", kLengthSize + error.byte);
  } catch (const json::out_of_range &) { // 1e999: well-formed, but nlohmann has another exception for it
    damaged("its header has a number that is too large");
  }
}

std::vector<int64_t> HeaderReader::readShape(const std::string &name, const json &fields) {
  auto shape = fields.find("shape");
  bool isShape = shape != fields.end() && shape->is_array() && shape->size() <= kMaxRank &&
                 std::all_of(shape->begin(), shape->end(), [](const json &size) {
                   return size.is_number_unsigned() && size.get<uint64_t>() <= INT64_MAX;
                 });
  if (!isShape)
    damaged("tensor '{}' has no 'shape' that is a list of sizes", printable(name));
  return shape->get<std::vector<int64_t>>();
}

Range HeaderReader::readRange(const std::string &name, const json &fields) {
  auto offsets = fields.find("data_offsets");
  bool isPair = offsets != fields.end() && offsets->is_array() && offsets->size() == 2 &&
                (*offsets)[0].is_number_unsigned() && (*offsets)[1].is_number_unsigned();
  if (!isPair)
    damaged("tensor '{}' has no 'data_offsets' that is a pair of positions", printable(name));
  Range range{(*offsets)[0].get<uint64_t>(), (*offsets)[1].get<uint64_t>()};
  if (range.begin > range.end || range.end > data.size())
    damaged("tensor '{}' lies at bytes {} to {} of {} bytes of data", printable(name), range.begin, range.end,
            data.size());
  return range;
}

TensorView HeaderReader::readTensor(const std::string &name, const json &fields, std::vector<Range> &ranges) {
  if (!fields.is_object())
    damaged("the entry '{}' of its header is not an object", printable(name));
  auto typeName = fields.find("dtype");
  if (typeName == fields.end() || !typeName->is_string())
    damaged("tensor '{}' has no 'dtype' that is a string", printable(name));
  std::optional<DType> type = parseSafetensorsDType(typeName->get_ref<const std::string &>());
  if (!type)
    fail("'{}': tensor '{}' has the element type '{}', which ditc does not know; convert it, for example to F32 or "
         "BF16",
         path, printable(name), printable(typeName->get_ref<const std::string &>()));
  TensorView tensor{*type, readShape(name, fields), {}};
  Range range = readRange(name, fields);
  uint64_t expected = byteSize(*type);
  bool overflows = false;
  for (int64_t size : tensor.shape)
    overflows |= __builtin_mul_overflow(expected, static_cast<uint64_t>(size), &expected);
  bool isEmpty = std::find(tensor.shape.begin(), tensor.shape.end(), 0) != tensor.shape.end();
  if (isEmpty ? range.end != range.begin : overflows || range.end - range.begin != expected)
    damaged("tensor '{}' has {} bytes, which is not what its shape and type need", printable(name),
            range.end - range.begin);
  tensor.bytes = data.subspan(range.begin, range.end - range.begin);
  ranges.push_back(range);
  return tensor;
}

void HeaderReader::checkTiling(std::vector<Range> ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](const Range &a, const Range &b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
  uint64_t covered = 0;
  for (const Range &range : ranges) {
    if (range.begin != covered)
      damaged("its tensors {} at byte {} of the data", range.begin < covered ? "overlap" : "leave a gap",
              std::min(range.begin, covered));
    covered = range.end;
  }
  if (covered != data.size())
    damaged("its tensors end at byte {} of {} bytes of data", covered, data.size());
}

std::map<std::string, TensorView> HeaderReader::read() {
  json header = parse(headerText());
  if (!header.is_object())
    damaged("its header is not a JSON object");
  std::map<std::string, TensorView> tensors;
  std::vector<Range> ranges;
  for (const auto &[name, fields] : header.items())
    if (name != kMetadataKey)
      tensors.emplace(name, readTensor(name, fields, ranges));
  checkTiling(std::move(ranges));
  return tensors;
}

} // namespace

SafetensorsFile SafetensorsFile::open(const std::string &path) {
  auto state = std::make_shared<State>();
  state->file = MappedFile::open(path);
  state->tensors =
      readAs(FileKind::Safetensors, path, [&] { return HeaderReader(path, state->file->bytes()).read(); });
  SafetensorsFile file;
  file.state = std::move(state);
  return file;
}

const std::string &SafetensorsFile::path() const { return state->file->path(); }
const std::map<std::string, TensorView> &SafetensorsFile::tensors() const { return state->tensors; }

uint64_t SafetensorsFile::byteOffset(const std::string &name) const {
  auto it = state->tensors.find(name);
  if (it == state->tensors.end())
    fail("'{}' has no tensor '{}'; it has {} tensors", path(), printable(name), state->tensors.size());
  return static_cast<uint64_t>(it->second.bytes.data() - state->file->bytes().data());
}

} // namespace ditc
