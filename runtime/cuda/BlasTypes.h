// SPDX-License-Identifier: Apache-2.0
//
// The part of cuBLASLt's interface that ditc uses, declared here so that the project builds without a CUDA toolkit.
// tests/unit/cuda_driver_test.cpp compares it with NVIDIA's header where that is installed.
#pragma once

#include "runtime/cuda/DriverTypes.h"

#include <cstddef>
#include <cstdint>

namespace ditc::cuda::lt {

using Status = int; ///< cublasStatus_t
using Handle = struct OpaqueHandle *;
using MatmulDesc = struct OpaqueMatmulDesc *;
using MatrixLayout = struct OpaqueMatrixLayout *;
using Preference = struct OpaquePreference *;

constexpr Status kSuccess = 0, kNotSupported = 15;

constexpr int kCompute32F = 68, kCompute64F = 70;        ///< cublasComputeType_t
constexpr int kR32F = 0, kR64F = 1, kR16F = 2, kR16BF = 14; ///< cudaDataType_t
constexpr int32_t kOpN = 0, kOpT = 1;                    ///< cublasOperation_t

/// cublasLtMatmulDescAttributes_t
constexpr int kDescTransA = 3, kDescTransB = 4, kDescEpilogue = 7, kDescBiasPointer = 8, kDescBiasType = 26;
/// cublasLtMatrixLayoutAttribute_t
constexpr int kLayoutBatchCount = 5, kLayoutBatchStride = 6;
/// cublasLtMatmulPreferenceAttributes_t
constexpr int kPrefWorkspaceBytes = 1, kPrefReductionMask = 3, kPrefAlignmentA = 5, kPrefAlignmentB = 6,
              kPrefAlignmentC = 7, kPrefAlignmentD = 8;
constexpr uint32_t kEpilogueDefault = 1, kEpilogueBias = 4;
constexpr uint32_t kReductionInComputeType = 2; ///< sums of split k in f32 in the workspace, in a fixed order

/// cublasLtMatmulAlgo_t
struct Algorithm {
  uint64_t data[8];
};

/// cublasLtMatmulHeuristicResult_t
struct HeuristicResult {
  Algorithm algorithm;
  size_t workspaceBytes;
  Status state;
  float waves;
  int reserved[4];
};

/// Under their names without `cublasLt`.
struct Functions {
  Status (*create)(Handle *);
  Status (*destroy)(Handle);
  Status (*matmulDescCreate)(MatmulDesc *, int computeType, int scaleType);
  Status (*matmulDescDestroy)(MatmulDesc);
  Status (*matmulDescSetAttribute)(MatmulDesc, int attribute, const void *value, size_t bytes);
  Status (*matrixLayoutCreate)(MatrixLayout *, int type, uint64_t rows, uint64_t columns, int64_t leading);
  Status (*matrixLayoutDestroy)(MatrixLayout);
  Status (*matrixLayoutSetAttribute)(MatrixLayout, int attribute, const void *value, size_t bytes);
  Status (*preferenceCreate)(Preference *);
  Status (*preferenceDestroy)(Preference);
  Status (*preferenceSetAttribute)(Preference, int attribute, const void *value, size_t bytes);
  Status (*algoGetHeuristic)(Handle, MatmulDesc, MatrixLayout a, MatrixLayout b, MatrixLayout c, MatrixLayout d,
                             Preference, int requested, HeuristicResult *results, int *found);
  Status (*matmul)(Handle, MatmulDesc, const void *alpha, const void *a, MatrixLayout, const void *b, MatrixLayout,
                   const void *beta, const void *c, MatrixLayout, void *d, MatrixLayout, const Algorithm *,
                   void *workspace, size_t workspaceBytes, Stream);
};

} // namespace ditc::cuda::lt
