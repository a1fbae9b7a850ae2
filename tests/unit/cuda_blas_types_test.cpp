// SPDX-License-Identifier: Apache-2.0
//
// Our declarations of cuBLASLt and of what is optional in the driver against NVIDIA's headers, where those are installed.
#include "runtime/cuda/BlasTypes.h"

#include <gtest/gtest.h>

#if __has_include(<cublasLt.h>) && __has_include(<cuda.h>)
#include <cublasLt.h>
#include <cuda.h>

using namespace ditc::cuda;

TEST(CudaBlasTypes, DeclarationsAgreeWithTheToolkit) {
  static_assert(sizeof(lt::Algorithm) == sizeof(cublasLtMatmulAlgo_t));
  static_assert(sizeof(lt::HeuristicResult) == sizeof(cublasLtMatmulHeuristicResult_t));
  static_assert(offsetof(lt::HeuristicResult, state) == offsetof(cublasLtMatmulHeuristicResult_t, state));
  static_assert(sizeof(GraphUpdateInfo) == sizeof(CUgraphExecUpdateResultInfo));
  EXPECT_EQ(lt::kNotSupported, CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(lt::kCompute32F, CUBLAS_COMPUTE_32F);
  EXPECT_EQ(lt::kCompute64F, CUBLAS_COMPUTE_64F);
  EXPECT_EQ(lt::kR32F, CUDA_R_32F);
  EXPECT_EQ(lt::kR64F, CUDA_R_64F);
  EXPECT_EQ(lt::kR16F, CUDA_R_16F);
  EXPECT_EQ(lt::kR16BF, CUDA_R_16BF);
  EXPECT_EQ(lt::kOpT, CUBLAS_OP_T);
  EXPECT_EQ(lt::kDescTransA, CUBLASLT_MATMUL_DESC_TRANSA);
  EXPECT_EQ(lt::kDescTransB, CUBLASLT_MATMUL_DESC_TRANSB);
  EXPECT_EQ(lt::kDescEpilogue, CUBLASLT_MATMUL_DESC_EPILOGUE);
  EXPECT_EQ(lt::kDescBiasPointer, CUBLASLT_MATMUL_DESC_BIAS_POINTER);
  EXPECT_EQ(lt::kDescBiasType, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE);
  EXPECT_EQ(lt::kLayoutBatchCount, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
  EXPECT_EQ(lt::kLayoutBatchStride, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
  EXPECT_EQ(lt::kPrefWorkspaceBytes, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
  EXPECT_EQ(lt::kPrefReductionMask, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
  EXPECT_EQ(lt::kPrefAlignmentA, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
  EXPECT_EQ(lt::kPrefAlignmentD, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
  EXPECT_EQ(lt::kEpilogueDefault, CUBLASLT_EPILOGUE_DEFAULT);
  EXPECT_EQ(lt::kEpilogueBias, CUBLASLT_EPILOGUE_BIAS);
  EXPECT_EQ(lt::kReductionInComputeType, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
  EXPECT_EQ(kEventRecordExternal, unsigned(CU_EVENT_RECORD_EXTERNAL));
}
#endif
