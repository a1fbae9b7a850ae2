// SPDX-License-Identifier: Apache-2.0
//
// What the runtime's tests share: a temporary folder, a hand-made package (see runtime_kernels.c for the
// model), ways to damage it, and a matcher for error texts.
#pragma once

#include "runtime/Error.h"
#include "runtime/Package.h"
#include "runtime/TensorRef.h"

#include <functional>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace ditc::test {

class TempFolder {
public:
  TempFolder();
  ~TempFolder();
  std::string operator/(const std::string &name) const { return path + "/" + name; }
  std::vector<std::string> list() const; ///< names, sorted
  std::string path;
};

std::string readText(const std::string &path);
void writeText(const std::string &path, std::string_view text);

inline constexpr int64_t kIn = 3, kOut = 4;

/// The weights w [4, 3] and b [4], and the constant table [4].
std::vector<float> weightW();
std::vector<float> weightB();
std::vector<float> table();
/// The table with zeros behind it, which no kernel reads: compressed in a package.
std::vector<float> largeTable();
/// Input rows, and what the model makes of them.
std::vector<float> inputX(int64_t rows);
std::vector<float> expectedY(const std::vector<float> &x, const std::vector<float> &w = weightW());

enum class WeightPlace { Entry, File, StridedFile, Absent };

struct PackageChange {
  WeightPlace weights = WeightPlace::Entry;
  std::function<void(Manifest &)> manifest = [](Manifest &) {};
  std::function<void(Plan &)> plan = [](Plan &) {}; ///< of each bucket
  std::vector<float> table = test::table();
};

/// The bucket's plan: x, y, w, b, table, prepared, arena are buffers 0 to 6.
Plan testPlan(int64_t rows, const std::string &tableMember, uint64_t tableBytes = kOut * 4);
/// Writes the package with the buckets "two" and "four".
void writeTestPackage(const std::string &path, const PackageChange &change = {});

using Json = nlohmann::json;
/// Copies a package while changing its manifest and the bytes of members; adds `extra` as a member of its
/// own when it has a name.
void forgePackage(const std::string &from, const std::string &to, const std::function<void(Json &)> &manifest,
                  const std::function<void(const std::string &, std::vector<uint8_t> &)> &member = {},
                  const std::string &extra = "");

template <typename T> std::span<const uint8_t> bytesOf(const std::vector<T> &values) {
  return {reinterpret_cast<const uint8_t *>(values.data()), values.size() * sizeof(T)};
}

inline TensorRef tensor(const std::string &name, std::vector<float> &values, std::vector<int64_t> shape) {
  return {name, DType::f32, std::move(shape), {}, values.data()};
}

/// The text of the Error that `body` throws; "" when it throws none.
std::string errorOf(const std::function<void()> &body);

} // namespace ditc::test

/// Fails unless `statement` throws an Error whose text contains every one of the given parts.
#define EXPECT_ERROR(statement, ...)                                                                         \
  do {                                                                                                       \
    std::string text = ::ditc::test::errorOf([&] { statement; });                                            \
    for (std::string part : std::vector<std::string>{__VA_ARGS__})                                           \
      EXPECT_NE(text.find(part), std::string::npos) << "expected \"" << part << "\" in \"" << text << "\"";  \
  } while (false)
