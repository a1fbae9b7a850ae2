// SPDX-License-Identifier: Apache-2.0
//
// Map kernels: element types, shapes, strides, broadcasts and rounding. Scalar operations are in
// host_scalar_ops_test.cpp.
#include "Float8Grid.h"
#include "HostHarness.h"

#include <gtest/gtest.h>

#include <cstring>

using namespace ditc;
using namespace ditc::test;

namespace {

const std::vector<std::string> kElements = {"f64", "f32", "f16", "bf16", "f8E4M3FN", "i64", "i32", "i16", "i8", "ui8", "i1"};

std::string identityBody(const std::string &element) { return mapBody({computeType(element)}, "", computeType(element), "%a0"); }

std::string addBody(const std::string &element) {
  std::string type = computeType(element), op = isFloatElement(element) ? "arith.addf" : type == "i1" ? "arith.xori" : "arith.addi";
  return mapBody({type, type}, "%r = " + op + " %a0, %a1 : " + type, type);
}

double sum(const std::string &element, double a, double b) {
  if (element == "i1")
    return a != b;
  return element == "f64" ? a + b : isFloatElement(element) ? static_cast<float>(a) + static_cast<float>(b) : a + b;
}

/// What `x + y` with broadcasting gives in every element type.
void addSums(KernelBatch &batch, const Index &shapeX, const Index &stridesX, const Index &shapeY, const Index &stridesY, const Index &shape, const Index &strides) {
  for (const std::string &element : kElements) {
    Tensor &x = batch.tensor(element, shapeX, stridesX), &y = batch.tensor(element, shapeY, stridesY), &out = batch.tensor(element, shape, strides);
    auto small = [&](unsigned seed) { return [=, n = seed](const Index &) mutable -> double { n = n * 1664525 + 1013904223; return element == "i1" ? n >> 31 : n >> 26; }; };
    x.fillWith(small(1)), y.fillWith(small(2));
    batch.add("map", {&x, &y, &out}, 1, "", addBody(element), [&, element] {
      expectElements(out, [&](const Index &i) { return sum(element, x.get(clampToShape(i, x.shape)), y.get(clampToShape(i, y.shape))); });
    });
  }
}

TEST(HostMap, CopiesEveryElementTypeInManyLayouts) {
  struct Layout {
    Index shape, from, to;
  };
  const Layout layouts[] = {
      {{}, {}, {}},
      {{1}, {}, {}},
      {{7}, {}, {}},
      {{129}, {2}, {1}},
      {{5, 33}, {}, {}},
      {{5, 33}, {1, 5}, {}},             // transposed
      {{5, 33}, {}, {1, 5}},             // into a transposed place
      {{5, 33}, {40, 1}, {35, 1}},       // rows with gaps
      {{3, 4, 5}, {1, 15, 3}, {20, 5, 1}}, // permuted
      {{2, 3, 2, 5}, {}, {60, 20, 1, 4}},
      {{6, 4}, {0, 1}, {}},              // a stride of zero repeats
      {{40, 3}, {}, {1, 40}},            // short rows into planes
      {{2, 1, 3, 1, 2, 1, 2, 2}, {}, {}},
  };
  KernelBatch batch;
  for (const std::string &element : kElements)
    for (const Layout &layout : layouts) {
      Tensor &x = batch.tensor(element, layout.shape, layout.from), &out = batch.tensor(element, layout.shape, layout.to);
      x.fill(7);
      batch.add("map", {&x, &out}, 1, "", identityBody(element), [&] { expectElements(out, [&](const Index &i) { return x.get(i); }); });
    }
  batch.run();
}

TEST(HostMap, Broadcasts) {
  KernelBatch batch;
  addSums(batch, {4, 9}, {}, {4, 9}, {}, {4, 9}, {});
  addSums(batch, {4, 9}, {}, {1, 9}, {}, {4, 9}, {});
  addSums(batch, {4, 9}, {}, {4, 1}, {}, {4, 9}, {});
  addSums(batch, {4, 1}, {}, {1, 9}, {}, {4, 9}, {});
  addSums(batch, {1, 1}, {}, {1, 1}, {}, {4, 9}, {12, 1});
  addSums(batch, {2, 3, 64}, {}, {2, 1, 64}, {}, {2, 3, 64}, {});
  addSums(batch, {2, 3, 64}, {1, 2, 6}, {1, 1, 64}, {64, 64, 1}, {2, 3, 64}, {});
  addSums(batch, {8, 5, 2}, {}, {8, 1, 2}, {4, 1, 2}, {8, 5, 2}, {});
  batch.run();
}

TEST(HostMap, LeavesEmptyTensorsAlone) {
  KernelBatch batch;
  addSums(batch, {0}, {}, {1}, {}, {0}, {});
  addSums(batch, {3, 0, 4}, {}, {3, 1, 4}, {}, {3, 0, 4}, {});
  batch.run();
}

TEST(HostMap, LongRows) {
  KernelBatch batch;
  addSums(batch, {3, 1037}, {}, {1, 1037}, {}, {3, 1037}, {1040, 1});
  batch.run();
}

TEST(HostMap, SeveralOutputs) {
  Tensor x("f32", {5, 6}), sum("f32", {5, 6}), rounded("bf16", {5, 6}, {1, 5});
  x.fill(3);
  std::string body = "{\n^bb0(%a0: f32):\n  %s = arith.addf %a0, %a0 : f32\n  dit.yield %s, %a0 : f32, f32\n}";
  runKernel("map", {&x, &sum, &rounded}, 2, "", body);
  expectElements(sum, [&](const Index &i) { return 2 * x.get(i); });
  expectElements(rounded, [&](const Index &i) { return x.get(i); });
}

TEST(HostMap, WritesInPlaceOverAnInputOfTheSameLayout) {
  Tensor x("f32", {1000});
  x.fill(5);
  Tensor before = x;
  HostModule module(kernelText("k", "map", {&x, &x}, 1, "", mapBody({"f32"}, "%r = arith.negf %a0 : f32", "f32")));
  ASSERT_TRUE(module.isLoaded()) << module.diagnostics();
  module.call("k", {&x, &x});
  expectElements(x, [&](const Index &i) { return -before.get(i); });
}

//===-- Rounding ----------------------------------------------------------------------------------===//

/// Stores the f32 numbers with these bits as `element`, once vectorised and once alone, with and without instructions.
void checkRounding(const std::string &element, const std::vector<uint32_t> &bits, const std::string &cpu) {
  Tensor x("f32", {static_cast<int64_t>(bits.size())}), out(element, x.shape), lone("f32", {1}), loneOut(element, {1});
  std::memcpy(x.data(), bits.data(), bits.size() * 4);
  HostModule module(kernelText("k", "map", {&x, &out}, 1, "", identityBody("f32")) + kernelText("one", "map", {&lone, &loneOut}, 1, "", identityBody("f32")), {.cpu = cpu});
  ASSERT_TRUE(module.isLoaded()) << module.diagnostics();
  module.call("k", {&x, &out});
  expectElements(out, [&](const Index &i) { return x.get(i); });
  for (size_t i = 0; i < bits.size(); i += 97) {
    std::memcpy(lone.data(), &bits[i], 4);
    module.call("one", {&lone, &loneOut});
    expectElements(loneOut, [&](const Index &) { return lone.get({0}); });
  }
}

/// All numbers near ties of a type that keeps `kept` fraction bits: every exponent, several fractions, ±1 around.
std::vector<uint32_t> nearTies(int kept) {
  std::vector<uint32_t> bits;
  uint32_t tie = 1u << (22 - kept);
  for (uint32_t exponent = 0; exponent <= 255; ++exponent)
    for (uint32_t fraction : {0u, 1u, 2u, 0x3fu, (1u << kept) - 1})
      for (uint32_t around : {tie - 1, tie, tie + 1})
        for (uint32_t sign : {0u, 0x80000000u})
          bits.push_back(sign | exponent << 23 | (((fraction << (23 - kept)) + around) & 0x7fffff));
  for (uint32_t special : {0u, 0x80000000u, 0x7f800000u, 0xff800000u, 0x7fc00000u, 0x7f800001u, 0xffffffffu, 0x7f7fffffu, 0x477fefffu, 0x477ff000u, 0x33000000u, 0x33000001u})
    bits.push_back(special);
  return bits;
}

TEST(HostMap, RoundsToNearestEven) {
  for (const char *cpu : {"", "x86-64", "native"}) {
    checkRounding("bf16", nearTies(7), cpu);
    checkRounding("f16", nearTies(10), cpu);
  }
}

/// A map is generated, a reduction a template: both round, and both read what they wrote.
TEST(HostMap, RoundsAndReadsFloat8) {
  std::vector<float> numbers = numbersToRound();
  auto count = static_cast<int64_t>(numbers.size());
  for (const char *cpu : {"", "x86-64", "native"})
    for (const std::string family : {"map", "reduce"}) {
      std::string config = family == "map" ? "" : "kind = \"max\", axes = array<i64: 1>", body = family == "map" ? identityBody("f32") : "";
      Tensor x("f32", {count, 1}), out(kFloat8, {count, 1}), codes(kFloat8, {256, 1}), read("f32", {256, 1});
      std::memcpy(x.data(), numbers.data(), numbers.size() * sizeof(float));
      runKernel(family, {&x, &out}, 1, config, body, {.cpu = cpu});
      for (int64_t i = 0; i < count; ++i) {
        int code = static_cast<uint8_t>(out.data()[i]), expected = nearestFloat8(numbers[i]);
        EXPECT_TRUE(code == expected || (family == "reduce" && (code & expected & 0x7f) == 0x7f)) << numbers[i] << " becomes " << code; // max has a NaN of its own
      }
      for (int code = 0; code < 256; ++code)
        codes.data()[code] = static_cast<char>(code);
      runKernel(family, {&codes, &read}, 1, config, body, {.cpu = cpu});
      expectElements(read, [](const Index &i) { return numberOfFloat8(static_cast<int>(i[0])); });
    }
}

TEST(HostMap, ReadsEverySmallFloat) {
  for (const char *cpu : {"", "x86-64"})
    for (const std::string element : {"f16", "bf16"}) {
      Tensor x(element, {65536}), out("f32", {65536});
      for (int i = 0; i < 65536; ++i) {
        auto bits = static_cast<uint16_t>(i);
        std::memcpy(x.data() + 2 * i, &bits, 2);
      }
      runKernel("map", {&x, &out}, 1, "", identityBody("f32"), {.cpu = cpu});
      expectElements(out, [&](const Index &i) { return x.get(i); });
    }
}

TEST(HostMap, RoundsInsideABody) {
  for (const std::string element : {"bf16", "f16", "f8E4M3FN"}) {
    Tensor x("f32", {512}), out("f32", {512});
    x.fillWith([](const Index &i) { return 1 + i[0] * 0x1.8p-12; });
    std::string lines = "%s = arith.truncf %a0 : f32 to " + element + "\n%r = arith.extf %s : " + element + " to f32";
    runKernel("map", {&x, &out}, 1, "", mapBody({"f32"}, lines, "f32"));
    expectElements(out, [&](const Index &i) { return roundTo(element, x.get(i)); });
  }
}

TEST(HostMap, ArithmeticOnSmallFloatsRoundsEachStep) {
  Tensor x("f32", {512}), out("f32", {512});
  x.fillWith([](const Index &i) { return 1 + i[0] * 0x1p-7; });
  runKernel("map", {&x, &out}, 1, "", mapBody({"f32"}, "%s = arith.truncf %a0 : f32 to bf16\n%m = arith.mulf %s, %s : bf16\n%t = arith.addf %m, %s : bf16\n%r = arith.extf %t : bf16 to f32", "f32"));
  expectElements(out, [&](const Index &i) {
    double s = roundTo("bf16", x.get(i));
    return roundTo("bf16", roundTo("bf16", s * s) + s);
  });
}

TEST(HostMap, DoesNotContractOrReassociate) {
  Tensor a("f32", {256}), b("f32", {256}), out("f32", {256});
  a.fillWith([](const Index &i) { return 1 + i[0] * 0x1p-20; }), b.fillWith([](const Index &i) { return 1 - i[0] * 0x1p-21; });
  runKernel("map", {&a, &b, &out}, 1, "", mapBody({"f32", "f32"}, "%m = arith.mulf %a0, %a1 : f32\n%s = arith.subf %m, %a0 : f32\n%r = arith.subf %s, %a1 : f32", "f32"));
  expectElements(out, [&](const Index &i) {
    volatile float product = static_cast<float>(a.get(i)) * static_cast<float>(b.get(i));
    volatile float difference = product - static_cast<float>(a.get(i));
    return difference - static_cast<float>(b.get(i));
  });
}

TEST(HostMap, IntegersWrapWhenStored) {
  Tensor x("i64", {4}), narrow("i8", {4}), bytes("ui8", {4});
  x.fillWith([](const Index &i) { return 127 + i[0] * 65; });
  runKernel("map", {&x, &narrow, &bytes}, 2, "", "{\n^bb0(%a0: i64):\n  dit.yield %a0, %a0 : i64, i64\n}");
  expectElements(narrow, [&](const Index &i) { return static_cast<int8_t>(127 + i[0] * 65); });
  expectElements(bytes, [&](const Index &i) { return static_cast<uint8_t>(127 + i[0] * 65); });
}

} // namespace
