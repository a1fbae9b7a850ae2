// SPDX-License-Identifier: Apache-2.0
//
// What the tests of archives and programs share: a temporary folder, error texts, zips and pickles made by
// hand so that any byte of them can be wrong, and the folders of real files.
#pragma once

#include "runtime/Error.h"

#include <cstdint>
#include <cstring>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ditc::test {

class TempFolder {
public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder &) = delete;
  std::string operator/(const std::string &name) const { return path + "/" + name; }
  std::vector<std::string> list() const; ///< names, sorted
  std::string path;
};

std::string readBytes(const std::string &path);
void writeBytes(const std::string &path, std::string_view bytes);
std::span<const uint8_t> asBytes(std::string_view text);

/// The text of the Error of kind Input that `action` throws; a failure when it throws none.
std::string errorOf(const std::function<void()> &action);
/// The kind of the Error that `action` throws.
std::optional<ErrorKind> kindOf(const std::function<void()> &action);

/// Every *.pt2 file of the folder named by the environment variable, sorted; empty when it is unset.
std::vector<std::string> filesOf(const char *variable);

using Members = std::vector<std::pair<std::string, std::string>>;

/// How the writer of a zip behaves.
enum class ZipStyle {
  Python, ///< zipfile: sizes in the local header, no padding
  Torch,  ///< miniz: data descriptors, no sizes in the local header, payloads aligned by an extra field
};

std::string makeZip(const Members &members, ZipStyle style = ZipStyle::Torch);
/// Where the directory entry, the local header and the end record of a zip made by makeZip are.
size_t centralOf(const std::string &zip, const std::string &name);
size_t localOf(const std::string &zip, const std::string &name);
size_t endOf(const std::string &zip);

template <typename T> void patch(std::string &bytes, size_t position, T value) {
  std::memcpy(bytes.data() + position, &value, sizeof(T));
}
template <typename T> std::string raw(T value) {
  return std::string(reinterpret_cast<const char *>(&value), sizeof(T));
}

/// Opcodes of a pickle, one after the other.
class PickleText {
public:
  PickleText() : bytes("\x80\x02") {}
  PickleText &op(char opcode) { return add(std::string(1, opcode)); }
  PickleText &add(const std::string &more);
  PickleText &text(const std::string &value);
  PickleText &integer(int32_t value) { return add("J" + raw(value)); }
  PickleText &global(const std::string &module, const std::string &name);
  PickleText &tuple(const std::vector<int32_t> &values);
  /// A persistent id of `count` elements of `storageClass` of torch.
  PickleText &storage(const std::string &storageClass, const std::string &key, int32_t count);
  /// A call of _rebuild_tensor_v2 for a whole call to put on the stack.
  PickleText &tensor(const std::string &storageClass, const std::string &key, int32_t count, int32_t offset,
                     const std::vector<int32_t> &sizes, const std::vector<int32_t> &strides);
  std::string done() const { return bytes + "."; }

private:
  std::string bytes;
};

/// A torch.save archive of `pickle` and storages by key.
std::string makeTorchSave(const std::string &pickle, const Members &storages);

using Json = nlohmann::json;

/// A small valid program: y = relu(linear(x, w)), x [s0, 3], w a parameter, `flag` a constant input.
Json smallProgram();
/// The members of a layout-C archive of `program` below "m/", with the weight w.
Members layoutC(const Json &program);
/// {"config": {fqn: payload}} of one f32 tensor.
Json tensorConfig(const std::string &fqn, const std::string &member, const std::vector<int64_t> &sizes,
                  const std::vector<int64_t> &strides, int64_t offset = 0);

} // namespace ditc::test
