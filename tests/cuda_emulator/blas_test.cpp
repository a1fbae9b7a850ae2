// SPDX-License-Identifier: Apache-2.0
//
// The fake cuBLASLt under the runtime's own wrapper: products of all layouts against plain loops, also from a graph.
#include "DriverFixture.h"
#include "runtime/cuda/CublasLt.h"

#include <cmath>

using namespace ditc;

namespace {

struct Case {
  DType dtype;
  int64_t batch, m, n, k;
  bool transposedA, transposedB, bias;
};

float fromBits(uint16_t bits) {
  uint32_t word = uint32_t(bits) << 16;
  float value;
  memcpy(&value, &word, 4);
  return value;
}
uint16_t toBits(float value) { // of small integers, which bf16 holds
  uint32_t word;
  memcpy(&word, &value, 4);
  return static_cast<uint16_t>(word >> 16);
}

struct FakeBlas : FakeDriver, testing::WithParamInterface<Case> {
  /// Small integers, so that every order of sums gives the same.
  static float valueAt(int64_t i, int seed) { return static_cast<float>((i * 7 + seed) % 5 - 2); }

  cuda::Pointer operand(DType dtype, int64_t count, int seed) {
    std::vector<float> wide(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i)
      wide[static_cast<size_t>(i)] = valueAt(i, seed);
    if (dtype == DType::f32)
      return upload(wide);
    if (dtype == DType::f64)
      return upload(std::vector<double>(wide.begin(), wide.end()));
    std::vector<uint16_t> narrow;
    for (float value : wide)
      narrow.push_back(toBits(value));
    return upload(narrow);
  }

  std::vector<float> result(DType dtype, cuda::Pointer pointer, size_t count) {
    if (dtype == DType::f32)
      return download<float>(pointer, count);
    if (dtype == DType::f64) {
      std::vector<double> values = download<double>(pointer, count);
      return {values.begin(), values.end()};
    }
    std::vector<float> values;
    for (uint16_t bits : download<uint16_t>(pointer, count))
      values.push_back(fromBits(bits));
    return values;
  }
};

} // namespace

TEST_P(FakeBlas, ProductsAreThoseOfPlainLoops) {
  const Case &c = GetParam();
  GemmOp op;
  op.dtype = c.dtype, op.m = c.m, op.n = c.n, op.k = c.k;
  op.batch = {c.batch};
  op.a = {{}, (c.transposedA ? c.m : c.k) + 1, c.transposedA, {(c.m + c.k + 2) * (c.m + c.k + 2)}};
  op.b = {{}, (c.transposedB ? c.k : c.n), c.transposedB, {0}};
  op.c = {{}, c.n + 2, false, {c.m * (c.n + 2)}};
  cuda::Pointer a = operand(c.dtype, c.batch * op.a.batchStrides[0], 1), b = operand(c.dtype, c.n * c.k, 2),
                d = operand(c.dtype, c.batch * op.c.batchStrides[0], 3), bias = operand(c.dtype, c.n, 4);
  auto address = [](cuda::Pointer pointer) { return reinterpret_cast<char *>(pointer); };
  cuda::ProductAddresses at{address(a), address(b), address(d), c.bias ? address(bias) : nullptr};

  std::shared_ptr<cuda::CublasLt> blas = cuda::CublasLt::load();
  auto product = blas->product(op, at);
  cuda::Pointer workspace = allocate(cuda::CublasLt::kWorkspaceBytes);
  cu.streamSynchronize(stream);
  cuda::Graph graph = nullptr;
  cuda::GraphExec executable = nullptr;
  ASSERT_EQ(cu.streamBeginCapture(stream, cuda::kCaptureThreadLocal), 0);
  blas->run(*product, at, address(workspace), stream);
  ASSERT_EQ(cu.streamEndCapture(stream, &graph), 0);
  ASSERT_EQ(cu.graphInstantiate(&executable, graph, 0), 0);
  ASSERT_EQ(cu.graphLaunch(executable, stream), 0);

  std::vector<float> got = result(c.dtype, d, static_cast<size_t>(c.batch * op.c.batchStrides[0]));
  for (int64_t batch = 0; batch < c.batch; ++batch)
    for (int64_t i = 0; i < c.m; ++i)
      for (int64_t j = 0; j < c.n + 2; ++j) {
        int64_t place = batch * op.c.batchStrides[0] + i * (c.n + 2) + j;
        float expected = j < c.n ? (c.bias ? valueAt(j, 4) : 0) : valueAt(place, 3); // columns between rows stay
        for (int64_t l = 0; l < c.k && j < c.n; ++l)
          expected +=
              valueAt(batch * op.a.batchStrides[0] + (c.transposedA ? l : i) * op.a.rowStride + (c.transposedA ? i : l),
                      1) *
              valueAt(c.transposedB ? j * c.k + l : l * c.n + j, 2);
        ASSERT_EQ(got[static_cast<size_t>(place)], expected) << batch << " " << i << " " << j;
      }
}

INSTANTIATE_TEST_SUITE_P(All, FakeBlas,
                         testing::Values(Case{DType::f32, 1, 5, 7, 9, false, false, false},
                                         Case{DType::f32, 3, 4, 6, 17, true, false, true},
                                         Case{DType::f64, 2, 3, 5, 8, false, true, false},
                                         Case{DType::bf16, 2, 16, 8, 32, false, true, true},
                                         Case{DType::bf16, 1, 1, 33, 13, true, true, false}),
                         [](const auto &info) { return "Case" + std::to_string(info.index); });

TEST_F(FakeDriver, ProductsRefuseOperandsOutsideOfDeviceMemory) {
  GemmOp op;
  op.m = op.n = op.k = 8;
  op.a = {{}, 8, false, {}}, op.b = {{}, 8, false, {}}, op.c = {{}, 8, false, {}};
  char *memory = reinterpret_cast<char *>(allocate(256)), *tooSmall = reinterpret_cast<char *>(allocate(252));
  std::shared_ptr<cuda::CublasLt> blas = cuda::CublasLt::load();
  cuda::ProductAddresses good{memory, memory, memory, nullptr}, bad{memory, tooSmall, memory, nullptr};
  EXPECT_NO_THROW(blas->run(*blas->product(op, good), good, nullptr, stream));
  EXPECT_THROW(blas->run(*blas->product(op, bad), bad, nullptr, stream), Error);
}
