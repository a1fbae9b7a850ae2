// SPDX-License-Identifier: Apache-2.0
//
// libfake_cublasLt.so: the functions of cuBLASLt that ditc loads (runtime/cuda/BlasTypes.h), by plain loops, as work in
// a stream of libfake_cuda.so. DITC_CUBLASLT names the library. Sums are in fp32 (f64 for f64), operands that do not
// lie in device memory are refused. Products with much K "split" it where the preference has room: their workspace is as
// large as two results in f32, has to be device memory, and is overwritten.
#include "runtime/cuda/BlasTypes.h"
#include "runtime/cuda/DriverTypes.h"

#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

using namespace ditc::cuda::lt;

// libfake_cuda.so
extern "C" int fakeCudaEnqueue(ditc::cuda::Stream, const char *kind, void (*work)(void *), void *data,
                               void (*release)(void *));
extern "C" int fakeCudaIsDeviceRange(const void *start, size_t bytes);

namespace {

constexpr uint64_t kSplitDepth = 2048; ///< K that is split
constexpr Status kNotInitialized = 1, kInvalidValue = 7, kExecutionFailed = 13;

struct Layout {
  int type = kR32F;
  uint64_t rows = 0, columns = 0;
  int64_t leading = 0, batchStride = 0;
  int32_t batch = 1;
};

struct Desc {
  int computeType = kCompute32F, scaleType = kR32F;
  int32_t transA = kOpN, transB = kOpN;
  uint32_t epilogue = kEpilogueDefault;
  const void *bias = nullptr;
  int biasType = -1; ///< the type of D
};

size_t bytesOf(int type) { return type == kR64F ? 8 : type == kR32F ? 4 : 2; }
bool isKnown(int type) { return type == kR32F || type == kR64F || type == kR16F || type == kR16BF; }

double load(const void *base, int type, int64_t at) {
  const char *from = static_cast<const char *>(base) + at * static_cast<int64_t>(bytesOf(type));
  if (type == kR64F) {
    double value;
    memcpy(&value, from, 8);
    return value;
  }
  if (type == kR16F) {
    _Float16 value;
    memcpy(&value, from, 2);
    return static_cast<double>(value);
  }
  uint32_t bits = 0;
  if (type == kR32F)
    memcpy(&bits, from, 4);
  else
    memcpy(reinterpret_cast<char *>(&bits) + 2, from, 2); // bf16 is the upper half
  float value;
  memcpy(&value, &bits, 4);
  return value;
}

void store(void *base, int type, int64_t at, double value) {
  char *to = static_cast<char *>(base) + at * static_cast<int64_t>(bytesOf(type));
  float single = static_cast<float>(value);
  if (type == kR64F) {
    memcpy(to, &value, 8);
  } else if (type == kR32F) {
    memcpy(to, &single, 4);
  } else if (type == kR16F) {
    auto half = static_cast<_Float16>(single);
    memcpy(to, &half, 2);
  } else {
    uint32_t bits;
    memcpy(&bits, &single, 4);
    if (!std::isnan(single))
      bits += 0x7fff + (bits >> 16 & 1);
    memcpy(to, reinterpret_cast<char *>(&bits) + 2, 2);
  }
}

/// One call of cublasLtMatmul, as it was when it was made.
struct Work {
  Desc desc;
  Layout a, b, c, d;
  const void *aData, *bData, *cData;
  void *dData;
  double alpha, beta;
  void *workspace;
  size_t workspaceBytes;

  bool transA() const { return desc.transA != kOpN; }
  bool transB() const { return desc.transB != kOpN; }
  uint64_t depth() const { return transA() ? a.rows : a.columns; }
};

/// op(matrix) of one batch as floats, `lines` of them with `depth` values each; `byRow`: a line is a row of op(matrix).
template <class T> std::vector<T> packed(const void *data, const Layout &layout, int64_t batch, bool linesAreColumns) {
  uint64_t lines = linesAreColumns ? layout.columns : layout.rows,
           depth = linesAreColumns ? layout.rows : layout.columns;
  std::vector<T> out(lines * depth);
  for (uint64_t column = 0; column < layout.columns; ++column)
    for (uint64_t row = 0; row < layout.rows; ++row) {
      auto at = batch * layout.batchStride + static_cast<int64_t>(column) * layout.leading + static_cast<int64_t>(row);
      out[linesAreColumns ? column * depth + row : row * depth + column] = static_cast<T>(load(data, layout.type, at));
    }
  return out;
}

template <class T> T dot(const T *x, const T *y, uint64_t count) {
  T sums[8] = {};
  uint64_t i = 0;
  for (; i + 8 <= count; i += 8)
    for (int lane = 0; lane < 8; ++lane)
      sums[lane] += x[i + lane] * y[i + lane];
  for (; i < count; ++i)
    sums[0] += x[i] * y[i];
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

template <class T> void multiply(const Work &work) {
  uint64_t depth = work.depth();
  for (int32_t batch = 0; batch < work.d.batch; ++batch) {
    std::vector<T> a = packed<T>(work.aData, work.a, batch, work.transA());  // rows of op(A)
    std::vector<T> b = packed<T>(work.bData, work.b, batch, !work.transB()); // columns of op(B)
    for (uint64_t column = 0; column < work.d.columns; ++column)
      for (uint64_t row = 0; row < work.d.rows; ++row) {
        T value = static_cast<T>(work.alpha) * dot(&a[row * depth], &b[column * depth], depth);
        auto at = [&](const Layout &layout) {
          return batch * layout.batchStride + static_cast<int64_t>(column) * layout.leading + static_cast<int64_t>(row);
        };
        if (work.beta != 0)
          value += static_cast<T>(work.beta) * static_cast<T>(load(work.cData, work.c.type, at(work.c)));
        if (work.desc.epilogue == kEpilogueBias) {
          int type = work.desc.biasType < 0 ? work.d.type : work.desc.biasType;
          value += static_cast<T>(load(work.desc.bias, type, static_cast<int64_t>(row)));
        }
        store(work.dData, work.d.type, at(work.d), value);
      }
  }
}

void run(void *data) {
  const Work &work = *static_cast<Work *>(data);
  if (work.workspaceBytes > 0)
    memset(work.workspace, 0xff, work.workspaceBytes);
  work.desc.computeType == kCompute64F ? multiply<double>(work) : multiply<float>(work);
}

/// Sizes that fit each other, in types that cuBLASLt combines.
bool isValid(const Desc &desc, const Layout &a, const Layout &b, const Layout &c, const Layout &d) {
  bool transA = desc.transA != kOpN, transB = desc.transB != kOpN;
  uint64_t m = transA ? a.columns : a.rows, ka = transA ? a.rows : a.columns;
  uint64_t n = transB ? b.rows : b.columns, kb = transB ? b.columns : b.rows;
  if (m != d.rows || n != d.columns || ka != kb || c.rows != d.rows || c.columns != d.columns || m * n * ka == 0)
    return false;
  bool wide = desc.computeType == kCompute64F;
  for (const Layout *layout : {&a, &b, &c, &d})
    if (!isKnown(layout->type) || (layout->type == kR64F) != wide || layout->batch != d.batch || layout->batch < 1 ||
        layout->leading < static_cast<int64_t>(layout->rows))
      return false;
  bool typesFit = a.type == b.type && c.type == d.type && (a.type == d.type || d.type == kR32F);
  return typesFit && (desc.epilogue == kEpilogueDefault || desc.epilogue == kEpilogueBias);
}

bool isOnDevice(const void *data, const Layout &layout) {
  auto elements = static_cast<uint64_t>(layout.batch - 1) * static_cast<uint64_t>(layout.batchStride) +
                  (layout.columns - 1) * static_cast<uint64_t>(layout.leading) + layout.rows;
  return reinterpret_cast<uintptr_t>(data) % bytesOf(layout.type) == 0 &&
         fakeCudaIsDeviceRange(data, elements * bytesOf(layout.type));
}

template <class T> Status take(T &field, const void *value, size_t bytes) {
  if (!value || bytes != sizeof(T))
    return kInvalidValue;
  memcpy(&field, value, sizeof(T));
  return kSuccess;
}

Desc &of(MatmulDesc desc) { return *reinterpret_cast<Desc *>(desc); }
Layout &of(MatrixLayout layout) { return *reinterpret_cast<Layout *>(layout); }

} // namespace

#define EXPORT extern "C" [[gnu::visibility("default")]] Status

EXPORT cublasLtCreate(Handle *handle) {
  *handle = reinterpret_cast<Handle>(new int(0));
  return kSuccess;
}
EXPORT cublasLtDestroy(Handle handle) {
  delete reinterpret_cast<int *>(handle);
  return kSuccess;
}

EXPORT cublasLtMatmulDescCreate(MatmulDesc *desc, int computeType, int scaleType) {
  if ((computeType != kCompute32F && computeType != kCompute64F) ||
      (computeType == kCompute64F) != (scaleType == kR64F))
    return kNotSupported;
  *desc = reinterpret_cast<MatmulDesc>(new Desc{computeType, scaleType});
  return kSuccess;
}
EXPORT cublasLtMatmulDescDestroy(MatmulDesc desc) {
  delete &of(desc);
  return kSuccess;
}
EXPORT cublasLtMatmulDescSetAttribute(MatmulDesc desc, int attribute, const void *value, size_t bytes) {
  switch (attribute) {
  case kDescTransA:
    return take(of(desc).transA, value, bytes);
  case kDescTransB:
    return take(of(desc).transB, value, bytes);
  case kDescEpilogue:
    return take(of(desc).epilogue, value, bytes);
  case kDescBiasPointer:
    return take(of(desc).bias, value, bytes);
  case kDescBiasType:
    return take(of(desc).biasType, value, bytes);
  }
  return kInvalidValue;
}

EXPORT cublasLtMatrixLayoutCreate(MatrixLayout *layout, int type, uint64_t rows, uint64_t columns, int64_t leading) {
  *layout = reinterpret_cast<MatrixLayout>(new Layout{type, rows, columns, leading});
  return kSuccess;
}
EXPORT cublasLtMatrixLayoutDestroy(MatrixLayout layout) {
  delete &of(layout);
  return kSuccess;
}
EXPORT cublasLtMatrixLayoutSetAttribute(MatrixLayout layout, int attribute, const void *value, size_t bytes) {
  switch (attribute) {
  case kLayoutBatchCount:
    return take(of(layout).batch, value, bytes);
  case kLayoutBatchStride:
    return take(of(layout).batchStride, value, bytes);
  }
  return kInvalidValue;
}

EXPORT cublasLtMatmulPreferenceCreate(Preference *preference) {
  *preference = reinterpret_cast<Preference>(new uint64_t(0));
  return kSuccess;
}
EXPORT cublasLtMatmulPreferenceDestroy(Preference preference) {
  delete reinterpret_cast<uint64_t *>(preference);
  return kSuccess;
}
EXPORT cublasLtMatmulPreferenceSetAttribute(Preference preference, int attribute, const void *value, size_t bytes) {
  uint32_t other;
  return attribute == kPrefWorkspaceBytes ? take(*reinterpret_cast<uint64_t *>(preference), value, bytes) : take(other, value, bytes);
}

EXPORT cublasLtMatmulAlgoGetHeuristic(Handle handle, MatmulDesc desc, MatrixLayout a, MatrixLayout b, MatrixLayout c,
                                      MatrixLayout d, Preference preference, int requested, HeuristicResult *results, int *found) {
  *found = 0;
  if (!handle)
    return kNotInitialized;
  if (requested < 1 || !isValid(of(desc), of(a), of(b), of(c), of(d)))
    return kInvalidValue;
  *found = 1;
  results[0] = {};
  uint64_t depth = of(desc).transA != kOpN ? of(a).rows : of(a).columns, split = 2 * 4 * of(d).rows * of(d).columns;
  if (depth >= kSplitDepth && split <= *reinterpret_cast<uint64_t *>(preference))
    results[0].workspaceBytes = results[0].algorithm.data[0] = split;
  return kSuccess;
}

EXPORT cublasLtMatmul(Handle handle, MatmulDesc desc, const void *alpha, const void *a, MatrixLayout aLayout,
                      const void *b, MatrixLayout bLayout, const void *beta, const void *c, MatrixLayout cLayout,
                      void *d, MatrixLayout dLayout, const Algorithm *algorithm, void *workspace, size_t workspaceBytes,
                      ditc::cuda::Stream stream) {
  if (!handle)
    return kNotInitialized;
  double scales[2];
  const void *given[] = {alpha, beta};
  for (int i = 0; i < 2; ++i)
    scales[i] = load(given[i], of(desc).scaleType, 0);
  auto work = std::make_unique<Work>(
      Work{of(desc), of(aLayout), of(bLayout), of(cLayout), of(dLayout), a, b, c, d, scales[0], scales[1], workspace, algorithm->data[0]});
  if (work->workspaceBytes > workspaceBytes || (work->workspaceBytes > 0 && !fakeCudaIsDeviceRange(workspace, work->workspaceBytes)))
    return kInvalidValue;
  if (!isValid(work->desc, work->a, work->b, work->c, work->d) || !isOnDevice(a, work->a) || !isOnDevice(b, work->b) ||
      !isOnDevice(c, work->c) || !isOnDevice(d, work->d))
    return kInvalidValue;
  if (work->desc.epilogue == kEpilogueBias &&
      !fakeCudaIsDeviceRange(work->desc.bias, work->d.rows * bytesOf(work->d.type)))
    return kInvalidValue;
  int result =
      fakeCudaEnqueue(stream, "matmul", run, work.release(), [](void *data) { delete static_cast<Work *>(data); });
  return result == 0 ? kSuccess : kExecutionFailed;
}
