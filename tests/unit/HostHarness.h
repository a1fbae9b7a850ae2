// SPDX-License-Identifier: Apache-2.0
//
// Compiles textual kernels for the host, loads them and calls them on test tensors. Conversions are written here
// once more, in another way than in the compiler, so that they can serve as a reference.
#pragma once

#include "codegen/host/HostOptions.h"

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace ditc::test {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

using Index = std::vector<int64_t>;

/// fp8's name among element types.
constexpr const char *kFloat8 = "f8E4M3FN";

/// The nearest number (ties to even) that a float type of this name holds; integers and bool as they store it.
double roundTo(const std::string &element, double value);

bool isFloatElement(const std::string &element);
int64_t elementSize(const std::string &element);

/// Bytes that end where the next page is not mapped: reading or writing behind them stops the test.
class FencedBytes {
public:
  explicit FencedBytes(size_t size);
  FencedBytes(const FencedBytes &other);
  FencedBytes &operator=(const FencedBytes &) = delete;
  ~FencedBytes();

  char *data() const { return pages + room - bytes; }
  size_t size() const { return bytes; }

private:
  size_t bytes, room;
  char *pages;
};

/// A strided tensor with values as doubles. Memory before and between its elements holds a pattern that must survive.
class Tensor {
public:
  Tensor(std::string element, Index shape, Index strides = {});

  /// Numbers that fit the element type, from a seeded generator: multiples of 1/64 in [-4, 4) for floats.
  Tensor &fill(unsigned seed);
  Tensor &fillWith(const std::function<double(const Index &)> &value);

  double get(const Index &index) const;
  void set(const Index &index, double value);
  /// The bits of an element of an integer type, unrounded.
  int64_t getInteger(const Index &index) const;

  void forEach(const std::function<void(const Index &)> &visit) const;
  char *data() const { return bytes.data() + kGuard; }
  std::string type() const; ///< memref<...>
  int64_t count() const;
  void clear(); ///< back to the pattern
  bool gapsAreIntact() const;

  const std::string element;
  const Index shape;
  Index strides;

private:
  static constexpr int64_t kGuard = 64;
  int64_t offsetOf(const Index &index) const;

  FencedBytes bytes;
};

/// The text of a plan.kernel. `config` is what stands between the braces; `body` a region with its braces.
std::string kernelText(const std::string &name, const std::string &family, const std::vector<Tensor *> &args, int outputs, const std::string &config,
                       const std::string &body = "");

/// A map body: arguments %a0, %a1, ... of these compute types, `lines`, then the yield of %r.
std::string mapBody(const std::vector<std::string> &types, const std::string &lines, const std::string &resultType, const std::string &result = "%r");

/// The compute type of an element type.
std::string computeType(const std::string &element);

/// Text -> compiled and loaded object.
class HostModule {
public:
  explicit HostModule(const std::string &text, const HostOptions &options = {});
  ~HostModule();

  bool isLoaded() const;
  const std::string &diagnostics() const;
  const HostObject &object() const;
  std::string printKernel(const std::string &name, const HostOptions &options = {});
  void call(const std::string &name, const std::vector<Tensor *> &args);

private:
  struct State;
  std::unique_ptr<State> state;
};

/// Compiles and runs one kernel named "k", and checks that gaps of strided outputs were left alone.
void runKernel(const std::string &family, const std::vector<Tensor *> &args, int outputs, const std::string &config, const std::string &body = "",
               const HostOptions &options = {});

/// Many kernels in one module, as a model has them. The batch owns the tensors.
class KernelBatch {
public:
  Tensor &tensor(const std::string &element, const Index &shape, const Index &strides = {});
  /// `check` runs after the kernel.
  void add(const std::string &family, const std::vector<Tensor *> &args, int outputs, const std::string &config, const std::string &body, std::function<void()> check);
  /// Compiles all together (templates are shared) and runs and checks each; then every ninth alone (its template is
  /// specialised to it).
  void run(const HostOptions &options = {});

private:
  struct Entry {
    std::string family, config, body;
    std::vector<Tensor *> args;
    int outputs;
    std::function<void()> check;
  };
  void runAndCheck(HostModule &module, const Entry &entry, const std::string &name);

  std::vector<std::unique_ptr<Tensor>> tensors;
  std::vector<Entry> entries;
};

/// Every element of `actual` is `expected(index)` rounded to its type, within `tolerance` relative to max(1, |expected|)
/// (0: equal bits but for NaN, which matches NaN).
void expectElements(const Tensor &actual, const std::function<double(const Index &)> &expected, double tolerance = 0);

/// Shape of a tensor that broadcasts: sizes of 1 stay at 0.
Index clampToShape(const Index &index, const Index &shape);

} // namespace ditc::test
