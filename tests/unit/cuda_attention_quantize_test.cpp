// SPDX-License-Identifier: Apache-2.0
//
// Operands of quantised attention: the units of families "attention_survey" and "attention_quantize" on the emulator, against
// the same arithmetic one element after another. Inputs have so few bits that sums are exact, whatever their order.
#include "tests/cuda_emulator/run_unit.h"
#include "tests/unit/AttentionKernels.h"
#include "tests/unit/Float8Grid.h"

#include "llvm/ADT/APFloat.h"
#include "llvm/Support/MathExtras.h"
#include <gtest/gtest.h>

#include <array>
#include <cmath>

using namespace mlir;
using namespace ditc;
using namespace ditc::test;

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();

/// Operand 0, 1, 2: queries, keys, values.
using ValueAt = std::function<float(int operand, int64_t batch, int64_t head, int64_t token, int64_t column)>;

/// Eight bits, of sizes that differ by token. Some channels of keys have a part in common.
float scattered(int operand, int64_t batch, int64_t head, int64_t token, int64_t column) {
  auto hash = static_cast<uint32_t>(operand * 7 + batch * 131 + head * 1009 + token * 9176 + column * 6361) * 2654435761u;
  float value = static_cast<float>(static_cast<int>(hash >> 24) - 128) / 64;
  return operand == 1 && column % 5 == 0 ? std::fabs(value) : std::ldexp(value, -static_cast<int>(token % 4));
}

struct QuantizeCase {
  int64_t batch = 1, heads = 2, keyHeads = 2, queries = 70, keys = 75, dim = 64, valueDim = 64;
  int64_t blockKeys = 128, chunkKeys = 64;
  std::string element = "bf16";
  bool inRows = false; ///< Q, K and V of a token are one row, as a fused projection leaves them
  ValueAt value = scattered;
};

/// A 16-bit operand [batch, head, token, column] and where its numbers lie.
struct Source {
  std::array<int64_t, 4> shape;
  std::array<int64_t, 3> strides;
  uint16_t *data;

  std::string type(const std::string &element) const { return fmt::format("memref<{}x{}, strided<[{}, 1]>>", fmt::join(shape, "x"), element, fmt::join(strides, ", ")); }
};

class QuantizedOperands {
public:
  explicit QuantizedOperands(const QuantizeCase &c, bool inReverse = false)
      : c(c), chunks(llvm::divideCeil(c.keys, c.chunkKeys)), blocks(llvm::divideCeil(c.keys, c.blockKeys)), rowBytes(llvm::alignTo(c.dim, 16)),
        keyPitch(llvm::alignTo(llvm::alignTo(c.keys, c.blockKeys), 128)), problems(c.batch * c.keyHeads), inputs(2 * wordsOfInputs()), sums(4 * problems * chunks * c.dim),
        tops(4 * problems * chunks * c.valueDim), q8(c.batch * c.heads * c.queries * rowBytes), k8(problems * c.keys * rowBytes), v8(problems * c.valueDim * keyPitch),
        qScale(4 * c.batch * c.heads * c.queries), kScale(4 * problems * blocks * 4), vScale(4 * problems * c.valueDim) {
    fill();
    run(inReverse);
  }

  void check() {
    for (int64_t problem = 0; problem < c.batch * c.heads && !testing::Test::HasFailure(); ++problem)
      checkQueries(problem);
    for (int64_t problem = 0; problem < problems && !testing::Test::HasFailure(); ++problem) {
      checkSurvey(problem);
      checkKeys(problem);
      checkValues(problem);
    }
  }

  float scaleOfQuery(int64_t problem, int64_t row) const { return qScale.as<float>()[problem * c.queries + row]; }
  float scaleOfKey(int64_t problem, int64_t key) const { return kScale.as<float>()[(problem * blocks + key / c.blockKeys) * 4 + key % 8 / 2]; }
  float scaleOfColumn(int64_t problem, int64_t column) const { return vScale.as<float>()[problem * c.valueDim + column]; }
  int query8(int64_t problem, int64_t row, int64_t column) const { return q8.as<int8_t>()[(problem * c.queries + row) * rowBytes + column]; }
  int key8(int64_t problem, int64_t key, int64_t column) const { return k8.as<int8_t>()[(problem * c.keys + key) * rowBytes + column]; }
  int value8(int64_t problem, int64_t key, int64_t column) const { return v8.as<uint8_t>()[(problem * c.valueDim + column) * keyPitch + placeOf(key)]; }

private:
  /// Key 16h + 8e + 2q + i lies at 16h + 4q + 2e + i.
  static int64_t placeOf(int64_t key) { return key / 16 * 16 + key / 2 % 4 * 4 + key / 8 % 2 * 2 + key % 2; }

  int64_t wordsOfInputs() const { return c.batch * (c.queries * c.heads * c.dim + c.keys * c.keyHeads * (c.dim + c.valueDim)); }

  float valueOf(int operand, int64_t problem, int64_t token, int64_t column) const {
    int64_t count = operand == 0 ? c.heads : c.keyHeads;
    return c.value(operand, problem / count, problem % count, token, column);
  }

  void fill() {
    int64_t q = c.heads * c.dim, k = c.keyHeads * c.dim, v = c.keyHeads * c.valueDim, row = q + k + v;
    auto *words = inputs.as<uint16_t>();
    if (c.inRows) {
      sources[0] = {{c.batch, c.heads, c.queries, c.dim}, {c.queries * row, c.dim, row}, words};
      sources[1] = {{c.batch, c.keyHeads, c.keys, c.dim}, {c.keys * row, c.dim, row}, words + q};
      sources[2] = {{c.batch, c.keyHeads, c.keys, c.valueDim}, {c.keys * row, c.valueDim, row}, words + q + k};
    } else {
      sources[0] = {{c.batch, c.heads, c.queries, c.dim}, {c.queries * q, c.queries * c.dim, c.dim}, words};
      sources[1] = {{c.batch, c.keyHeads, c.keys, c.dim}, {c.keys * k, c.keys * c.dim, c.dim}, words + c.batch * c.queries * q};
      sources[2] = {{c.batch, c.keyHeads, c.keys, c.valueDim}, {c.keys * v, c.keys * c.valueDim, c.valueDim}, sources[1].data + c.batch * c.keys * k};
    }
    const llvm::fltSemantics &semantics = c.element == "bf16" ? llvm::APFloat::BFloat() : llvm::APFloat::IEEEhalf();
    for (int operand = 0; operand < 3; ++operand) {
      const Source &s = sources[operand];
      for (int64_t problem = 0; problem < s.shape[0] * s.shape[1]; ++problem)
        for (int64_t token = 0; token < s.shape[2]; ++token)
          for (int64_t column = 0; column < s.shape[3]; ++column) {
            llvm::APFloat number(valueOf(operand, problem, token, column));
            bool inexact = false;
            number.convert(semantics, llvm::APFloat::rmNearestTiesToEven, &inexact);
            ASSERT_FALSE(inexact);
            s.data[problem / s.shape[1] * s.strides[0] + problem % s.shape[1] * s.strides[1] + token * s.strides[2] + column] = number.bitcastToAPInt().getZExtValue();
          }
    }
  }

  void run(bool inReverse) {
    auto floats = [](const auto &...sizes) { return fmt::format("memref<{}xf32>", fmt::join(std::array{sizes...}, "x")); };
    auto rows = [&](int64_t heads, int64_t tokens) { return fmt::format("memref<{}x{}x{}x{}xi8, strided<[{}, {}, {}, 1]>>", c.batch, heads, tokens, c.dim, heads * tokens * rowBytes, tokens * rowBytes, rowBytes); };
    std::string q = sources[0].type(c.element), k = sources[1].type(c.element), v = sources[2].type(c.element);
    std::string sumsType = floats(c.batch, c.keyHeads, chunks, c.dim), topsType = floats(c.batch, c.keyHeads, chunks, c.valueDim);
    std::string config = fmt::format("block_keys = {} : i64, chunk_keys = {} : i64", c.blockKeys, c.chunkKeys);
    AttentionKernels kernels;
    auto launch = [&](const CudaUnit &unit, const std::vector<void *> &arguments) {
      emulator::EmulatedUnit emulated(unit.text, DITC_SOURCE_DIR "/codegen/templates/cuda");
      emulated.runInReverse(inReverse);
      emulated.launch("kernel", unit.launch, unit.parameters, arguments);
    };
    launch(*emitAttentionSurvey(kernels.parse("attention_survey", {k, v, sumsType, topsType}, 2, config)), {sources[1].data, sources[2].data, sums.data(), tops.data()});
    std::vector<std::string> types = {q, k, v, sumsType, topsType, rows(c.heads, c.queries), rows(c.keyHeads, c.keys), fmt::format("memref<{}x{}x{}x{}xf8E4M3FN>", c.batch, c.keyHeads, c.valueDim, keyPitch),
                                      floats(c.batch, c.heads, c.queries), floats(c.batch, c.keyHeads, blocks, int64_t(4)), floats(c.batch, c.keyHeads, c.valueDim)};
    launch(*emitAttentionQuantize(kernels.parse("attention_quantize", types, 6, config)),
           {sources[0].data, sources[1].data, sources[2].data, sums.data(), tops.data(), q8.data(), k8.data(), v8.data(), qScale.data(), kScale.data(), vScale.data()});
  }

  //===-- the same, one after another -------------------------------------------------------------===//

  static float larger(float a, float b) { return std::isnan(a) || a > b ? a : b; }
  static bool same(float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); }

  int64_t endOf(int64_t chunk) const { return std::min(c.keys, (chunk + 1) * c.chunkKeys); }

  float meanOf(int64_t problem, int64_t chunk, int64_t column) const {
    float sum = 0;
    int64_t count = 0;
    for (int64_t key = chunk * c.chunkKeys; key < endOf(chunk); key += 8, ++count)
      sum += valueOf(1, problem, key, column);
    return sum / static_cast<float>(count);
  }

  float topOf(int64_t problem, int64_t chunk, int64_t column) const {
    float top = 0;
    for (int64_t key = chunk * c.chunkKeys; key < endOf(chunk); ++key)
      top = larger(top, std::fabs(valueOf(2, problem, key, column)));
    return top;
  }

  void checkSurvey(int64_t problem) {
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      for (int64_t column = 0; column < c.dim; ++column)
        ASSERT_PRED2(same, sums.as<float>()[(problem * chunks + chunk) * c.dim + column], meanOf(problem, chunk, column)) << "problem " << problem << ", chunk " << chunk << ", column " << column;
      for (int64_t column = 0; column < c.valueDim; ++column)
        ASSERT_PRED2(same, tops.as<float>()[(problem * chunks + chunk) * c.valueDim + column], topOf(problem, chunk, column)) << "problem " << problem << ", chunk " << chunk << ", column " << column;
    }
  }

  void checkQueries(int64_t problem) {
    for (int64_t row = 0; row < c.queries; ++row) {
      float top = 1e-12f;
      for (int64_t column = 0; column < c.dim; ++column)
        top = larger(top, std::fabs(valueOf(0, problem, row, column)));
      ASSERT_PRED2(same, scaleOfQuery(problem, row), top / 127) << "problem " << problem << ", row " << row;
      if (std::isfinite(top))
        for (int64_t column = 0; column < c.dim; ++column)
          ASSERT_EQ(query8(problem, row, column), std::nearbyint(valueOf(0, problem, row, column) * (127 / top))) << "problem " << problem << ", row " << row << ", column " << column;
    }
  }

  void checkKeys(int64_t problem) {
    std::vector<float> mean(c.dim);
    for (int64_t column = 0; column < c.dim; ++column) {
      for (int64_t chunk = 0; chunk < chunks; ++chunk)
        mean[column] += meanOf(problem, chunk, column);
      mean[column] /= static_cast<float>(chunks);
    }
    for (int64_t block = 0; block < blocks; ++block) {
      int64_t first = block * c.blockKeys, last = std::min(c.keys, first + c.blockKeys);
      std::array<float, 4> top = {1e-12f, 1e-12f, 1e-12f, 1e-12f};
      for (int64_t key = first; key < last; ++key)
        for (int64_t column = 0; column < c.dim; ++column)
          top[key % 8 / 2] = larger(top[key % 8 / 2], std::fabs(valueOf(1, problem, key, column) - mean[column]));
      for (size_t group = 0; group < 4; ++group)
        ASSERT_PRED2(same, kScale.as<float>()[(problem * blocks + block) * 4 + group], top[group] / 127) << "problem " << problem << ", block " << block << ", group " << group;
      for (int64_t key = first; key < last; ++key)
        for (int64_t column = 0; column < c.dim && std::isfinite(top[key % 8 / 2]); ++column)
          ASSERT_EQ(key8(problem, key, column), std::nearbyint((valueOf(1, problem, key, column) - mean[column]) * (127 / top[key % 8 / 2]))) << "problem " << problem << ", key " << key << ", column " << column;
    }
  }

  void checkValues(int64_t problem) {
    for (int64_t column = 0; column < c.valueDim; ++column) {
      float top = 1e-12f;
      for (int64_t chunk = 0; chunk < chunks; ++chunk)
        top = larger(top, topOf(problem, chunk, column));
      ASSERT_PRED2(same, scaleOfColumn(problem, column), top / 448) << "problem " << problem << ", column " << column;
      for (int64_t key = 0; key < keyPitch; ++key) {
        int code = value8(problem, key, column), expected = key < c.keys ? nearestFloat8(valueOf(2, problem, key, column) * (448 / top)) : std::isnan(top) ? 0x7f : 0;
        ASSERT_TRUE(code == expected || (code & expected & 0x7f) == 0x7f) << "problem " << problem << ", key " << key << ", column " << column << ": " << code << " " << expected;
      }
    }
  }

  const QuantizeCase &c;
  int64_t chunks, blocks, rowBytes, keyPitch, problems;
  emulator::GuardedMemory inputs, sums, tops, q8, k8, v8, qScale, kScale, vScale;
  std::array<Source, 3> sources;
};

void check(const QuantizeCase &c) { QuantizedOperands(c).check(); }

} // namespace

TEST(AttentionQuantize, HeadSizes) {
  check({.dim = 64, .valueDim = 64});
  check({.dim = 72, .valueDim = 72});
  check({.queries = 130, .keys = 200, .dim = 128, .valueDim = 128, .blockKeys = 192});
}

TEST(AttentionQuantize, ValuesOfAnotherSize) {
  check({.dim = 128, .valueDim = 64, .blockKeys = 192});
  check({.dim = 8, .valueDim = 248, .blockKeys = 64});
  check({.keys = 130, .dim = 248, .valueDim = 40, .blockKeys = 64});
}

TEST(AttentionQuantize, HalfFloats) { check({.dim = 72, .valueDim = 64, .element = "f16"}); }

TEST(AttentionQuantize, RowsOfAFusedProjection) {
  check({.batch = 2, .heads = 3, .keyHeads = 3, .queries = 140, .keys = 140, .dim = 72, .valueDim = 72, .inRows = true});
  check({.batch = 2, .heads = 6, .keyHeads = 2, .queries = 50, .keys = 50, .dim = 64, .valueDim = 128, .blockKeys = 192, .element = "f16", .inRows = true});
}

TEST(AttentionQuantize, FewerHeadsOfKeys) { check({.batch = 2, .heads = 4, .keyHeads = 1, .queries = 20, .keys = 33}); }

/// Blocks that end behind 128s, and before.
TEST(AttentionQuantize, BlocksAndChunks) {
  check({.queries = 1, .keys = 1});
  check({.heads = 1, .keyHeads = 1, .queries = 128, .keys = 384, .blockKeys = 192, .chunkKeys = 100});
  check({.heads = 1, .keyHeads = 1, .queries = 129, .keys = 385, .blockKeys = 192, .chunkKeys = 71}); // the last chunk: 30 keys
  check({.heads = 1, .keyHeads = 1, .queries = 5, .keys = 300, .dim = 192, .valueDim = 192, .blockKeys = 96, .chunkKeys = 299}); // the last chunk: one
}

TEST(AttentionQuantize, ThreadsInReverse) { QuantizedOperands({.keys = 200, .dim = 72, .valueDim = 72}, true).check(); }

TEST(AttentionQuantize, LargestMagnitudes) {
  auto alternating = [](float largest) { return [=](int, int64_t, int64_t, int64_t token, int64_t column) { return (token / 8 + column) % 2 == 0 ? largest : -largest; }; };
  check({.element = "f16", .value = alternating(65504)});
  // Sums of such keys are not finite.
  float largest = std::ldexp(255.0f, 120);
  QuantizeCase wide{.value = [&](int operand, int64_t b, int64_t h, int64_t token, int64_t column) { return operand == 1 ? scattered(1, b, h, token, column) : alternating(largest)(0, b, h, token, column); }};
  QuantizedOperands operands(wide);
  operands.check();
  EXPECT_EQ(operands.query8(0, 0, 1), -127);
  EXPECT_EQ(operands.value8(0, 0, 0), 0x7e);
}

TEST(AttentionQuantize, ZerosStayZeros) {
  QuantizeCase c{.value = [](int operand, int64_t b, int64_t h, int64_t token, int64_t column) {
    bool isFlat = operand == 0 ? token == 3 : operand == 2 ? column == 5 : true;
    return !isFlat ? scattered(operand, b, h, token, column) : operand == 1 ? 0.5f : 0.0f; // keys are all their mean
  }};
  QuantizedOperands operands(c);
  operands.check();
  EXPECT_FLOAT_EQ(operands.scaleOfQuery(0, 3), 1e-12f / 127);
  EXPECT_FLOAT_EQ(operands.scaleOfKey(0, 3), 1e-12f / 127);
  EXPECT_FLOAT_EQ(operands.scaleOfColumn(0, 5), 1e-12f / 448);
  for (int64_t i = 0; i < c.dim; ++i)
    EXPECT_TRUE(operands.query8(0, 3, i) == 0 && operands.key8(0, i, 7) == 0 && operands.value8(0, i, 5) == 0) << i;
}

/// A row of queries, four keys' share of a block, a channel of values. Key 9 is none of those of the mean.
TEST(AttentionQuantize, NoNumbersSpreadAsFarAsTheirScale) {
  for (float wrong : {kNan, -kNan, kInf, -kInf}) {
    QuantizeCase c{.heads = 1, .keyHeads = 1, .keys = 200, .value = [=](int operand, int64_t b, int64_t h, int64_t token, int64_t column) {
      bool isWrong = operand == 0 ? token == 69 && column == 63 : operand == 1 ? token == 9 && column == 1 : token == 199 && column == 8;
      return isWrong ? wrong : scattered(operand, b, h, token, column);
    }};
    QuantizedOperands operands(c);
    operands.check();
    auto isWrong = [&](float scale) { return std::isnan(wrong) ? std::isnan(scale) : scale == kInf; };
    for (int64_t row = 0; row < c.queries; ++row)
      EXPECT_TRUE(row == 69 ? isWrong(operands.scaleOfQuery(0, row)) : std::isfinite(operands.scaleOfQuery(0, row))) << row;
    for (int64_t key = 0; key < c.keys; ++key)
      EXPECT_TRUE(key < c.blockKeys && key % 8 < 2 ? isWrong(operands.scaleOfKey(0, key)) : std::isfinite(operands.scaleOfKey(0, key))) << key;
    for (int64_t column = 0; column < c.valueDim; ++column)
      EXPECT_TRUE(column == 8 ? isWrong(operands.scaleOfColumn(0, column)) : std::isfinite(operands.scaleOfColumn(0, column))) << column;
    EXPECT_EQ(operands.value8(0, 199, 8) & 0x7f, 0x7f);
  }
}

TEST(AttentionQuantize, NoNumberInTheMeanReachesAllKeys) {
  QuantizeCase c{.heads = 2, .keyHeads = 2, .keys = 200, .value = [](int operand, int64_t b, int64_t h, int64_t token, int64_t column) {
    return operand == 1 && h == 1 && token == 72 && column == 3 ? kNan : scattered(operand, b, h, token, column);
  }};
  QuantizedOperands operands(c);
  operands.check();
  for (int64_t key = 0; key < c.keys; ++key)
    EXPECT_TRUE(std::isfinite(operands.scaleOfKey(0, key)) && std::isnan(operands.scaleOfKey(1, key))) << key;
}
