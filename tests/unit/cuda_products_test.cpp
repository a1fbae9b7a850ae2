// SPDX-License-Identifier: Apache-2.0
//
// Matrix products as plans describe them, through the (fake) cuBLASLt: layouts, batches, types, bias, empty sizes.
#include "CudaFixture.h"

#include "runtime/cuda/CublasLt.h"
#include "runtime/cuda/CudaMemory.h"

#include <cmath>

using namespace ditc;
using namespace ditc::test;

namespace {

/// Elements as floats and back; f16 by the compiler's own type.
std::vector<uint8_t> encode(DType dtype, const std::vector<float> &values) {
  std::vector<uint8_t> out(values.size() * byteSize(dtype));
  for (size_t i = 0; i < values.size(); ++i) {
    uint8_t *at = &out[i * byteSize(dtype)];
    auto half = static_cast<_Float16>(values[i]);
    double wide = values[i];
    if (dtype == DType::bf16)
      std::memcpy(at, reinterpret_cast<const uint8_t *>(&values[i]) + 2, 2);
    else
      std::memcpy(at, dtype == DType::f16 ? static_cast<const void *>(&half) : dtype == DType::f64 ? &wide : static_cast<const void *>(&values[i]), byteSize(dtype));
  }
  return out;
}

float decode(DType dtype, const uint8_t *at) {
  float value = 0;
  double wide = 0;
  _Float16 half = 0;
  if (dtype == DType::bf16)
    std::memcpy(reinterpret_cast<uint8_t *>(&value) + 2, at, 2);
  else
    std::memcpy(dtype == DType::f16 ? static_cast<void *>(&half) : dtype == DType::f64 ? &wide : static_cast<void *>(&value), at, byteSize(dtype));
  return dtype == DType::f16 ? static_cast<float>(half) : dtype == DType::f64 ? static_cast<float>(wide) : value;
}

class CudaProducts : public testing::Test {
protected:
  /// op's product of small integers (exact in every type) against plain loops; what lies between rows stays.
  void check(GemmOp op, size_t aCount, size_t bCount, size_t cCount, bool bias) {
    std::vector<float> a, b, biasValues, c(cCount, 77);
    for (size_t i = 0; i < aCount; ++i)
      a.push_back(static_cast<float>(i * 7 % 5) - 2);
    for (size_t i = 0; i < bCount; ++i)
      b.push_back(static_cast<float>(i * 3 % 7) - 3);
    for (int64_t i = 0; i < op.n; ++i)
      biasValues.push_back(static_cast<float>(i % 4));
    auto upload = [&](const std::vector<float> &values) {
      std::vector<uint8_t> bytes = encode(op.dtype, values);
      memories.push_back(pool.allocate(bytes.size() + 16, "a test"));
      driver.check(driver.memcpyHtoDAsync(reinterpret_cast<cuda::Pointer>(memories.back()->data()), bytes.data(), bytes.size(), nullptr), "copying");
      return memories.back()->data();
    };
    cuda::ProductAddresses at{upload(a), upload(b), upload(c), bias ? upload(biasValues) : nullptr};
    if (bias)
      op.bias = PlanPointer{3, 0};
    MemoryRef workspace = pool.allocate(cuda::CublasLt::kWorkspaceBytes, "a test");
    blas->run(*blas->product(op, at), at, workspace->data(), nullptr);
    std::vector<uint8_t> found(cCount * byteSize(op.dtype));
    driver.check(driver.memcpyDtoHAsync(found.data(), reinterpret_cast<cuda::Pointer>(at.c), found.size(), nullptr), "copying");
    driver.check(driver.streamSynchronize(nullptr), "waiting");
    reference(op, a, b, biasValues, c, 0, 0, 0, 0);
    for (size_t i = 0; i < cCount; ++i)
      ASSERT_EQ(decode(op.dtype, &found[i * byteSize(op.dtype)]), c[i]) << "element " << i;
  }

  void reference(const GemmOp &op, const std::vector<float> &a, const std::vector<float> &b, const std::vector<float> &bias,
                 std::vector<float> &c, size_t dim, int64_t atA, int64_t atB, int64_t atC) {
    if (dim < op.batch.size()) {
      for (int64_t i = 0; i < op.batch[dim]; ++i)
        reference(op, a, b, bias, c, dim + 1, atA + i * op.a.batchStrides[dim], atB + i * op.b.batchStrides[dim], atC + i * op.c.batchStrides[dim]);
      return;
    }
    for (int64_t m = 0; m < op.m; ++m)
      for (int64_t n = 0; n < op.n; ++n) {
        float sum = op.bias ? bias[static_cast<size_t>(n)] : 0;
        for (int64_t k = 0; k < op.k; ++k)
          sum += a[static_cast<size_t>(atA + (op.a.transposed ? k * op.a.rowStride + m : m * op.a.rowStride + k))] *
                 b[static_cast<size_t>(atB + (op.b.transposed ? n * op.b.rowStride + k : k * op.b.rowStride + n))];
        c[static_cast<size_t>(atC + m * op.c.rowStride + n)] = sum;
      }
  }

  static GemmOp product(DType dtype, int64_t m, int64_t n, int64_t k, bool transA, bool transB, int64_t gap) {
    GemmOp op;
    op.dtype = dtype;
    op.m = m;
    op.n = n;
    op.k = k;
    op.a = {{0, 0}, (transA ? m : k) + gap, transA, {}};
    op.b = {{1, 0}, (transB ? k : n) + gap, transB, {}};
    op.c = {{2, 0}, n + gap, false, {}};
    return op;
  }
  static size_t countOf(int64_t rows, int64_t stride) { return static_cast<size_t>(rows * stride); }

  std::shared_ptr<CudaContext> context = std::make_shared<CudaContext>(0);
  CudaContext::Current current{*context};
  const cuda::Driver &driver = context->driver;
  CudaMemoryPool pool{context, 0};
  std::shared_ptr<cuda::CublasLt> blas = cuda::CublasLt::load();
  std::vector<MemoryRef> memories;
};

} // namespace

TEST_F(CudaProducts, TypesLayoutsAndBias) {
  for (DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16})
    for (int layout = 0; layout < 4; ++layout)
      for (bool bias : {false, true})
        for (int64_t gap : {0, 3}) {
          bool transA = layout & 1, transB = layout & 2;
          GemmOp op = product(dtype, 5, 7, 3, transA, transB, gap);
          check(op, countOf(transA ? 3 : 5, op.a.rowStride), countOf(transB ? 7 : 3, op.b.rowStride), countOf(5, op.c.rowStride), bias);
        }
}

TEST_F(CudaProducts, Batches) {
  GemmOp op = product(DType::bf16, 2, 3, 4, false, true, 0);
  op.batch = {2, 5};
  auto strides = [&](std::vector<int64_t> a, std::vector<int64_t> b, std::vector<int64_t> c) {
    op.a.batchStrides = a;
    op.b.batchStrides = b;
    op.c.batchStrides = c;
    check(op, 200, 200, 100, true);
  };
  strides({40, 8}, {60, 12}, {30, 6}); // one dimension
  strides({40, 8}, {0, 12}, {30, 6});  // b repeated over the outer one
  strides({0, 0}, {12, 24}, {6, 12});
  op.batch = {2, 0};
  strides({40, 8}, {60, 12}, {30, 6});
  op.batch = {1, 1};
  strides({1, 1}, {1, 1}, {1, 1});
}

TEST_F(CudaProducts, EmptySizes) {
  for (bool bias : {false, true})
    for (int64_t gap : {0, 2}) {
      GemmOp op = product(DType::bf16, 5, 3, 0, false, false, gap);
      op.a.rowStride = 1;
      check(op, 1, 1, countOf(5, op.c.rowStride), bias);
      op.batch = {2};
      op.a.batchStrides = op.b.batchStrides = {0};
      op.c.batchStrides = {countOf(5, op.c.rowStride) == 0 ? 1 : static_cast<int64_t>(countOf(5, op.c.rowStride))};
      check(op, 1, 1, 2 * countOf(5, op.c.rowStride), bias);
    }
  check(product(DType::f32, 0, 3, 2, false, false, 0), 1, 6, 3, false);
  GemmOp narrow = product(DType::f32, 3, 0, 2, false, false, 0);
  narrow.b.rowStride = narrow.c.rowStride = 1;
  check(narrow, 6, 1, 3, true);
}

TEST_F(CudaProducts, ScratchIsWhatTheAlgorithmWants) {
  GemmOp small = product(DType::f32, 5, 7, 64, false, true, 0), large = product(DType::f32, 5, 7, 4096, false, true, 0);
  EXPECT_EQ(cuda::CublasLt::workspaceBytes(*blas->product(small)), 0u);
  EXPECT_EQ(cuda::CublasLt::workspaceBytes(*blas->product(large)), 2u * 4 * 5 * 7);
  EXPECT_EQ(blas->product(large), blas->product(large)) << "asked for once";
  check(large, countOf(5, 4096), countOf(7, 4096), countOf(5, 7), true);
}

TEST_F(CudaProducts, LessScratchGetsAnotherAlgorithm) {
  GemmOp op = product(DType::f32, 5, 7, 4096, false, true, 0);
  alignas(16) char memory[64];
  cuda::ProductAddresses at{memory, memory + 16, memory + 32, nullptr}, badly{memory + 4, memory + 16, memory + 32, nullptr};
  EXPECT_EQ(blas->product(op, at), blas->product(op)) << "as plans place them";
  EXPECT_NE(blas->product(op, badly), blas->product(op));
  EXPECT_EQ(blas->product(op, at, 2 * 4 * 5 * 7), blas->product(op)) << "it fits";
  EXPECT_EQ(cuda::CublasLt::workspaceBytes(*blas->product(op, at, 2 * 4 * 5 * 7 - 1)), 0u);
}
