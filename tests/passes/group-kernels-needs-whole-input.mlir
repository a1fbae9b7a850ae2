// RUN: ditc-opt %s --ditc-group-kernels --remark-format=emitRemark --remarks-filter=fusion 2>&1 | FileCheck %s

// A product reads whole rows of the one before it.
// CHECK: {{\[}}Missed{{\]}} GroupKernels {{.*}}Kernel=gemm, {{.*}}ReaderKernel=gemm, Reason=needs_whole_input
// CHECK-LABEL: func.func @f
// CHECK-COUNT-2: dit.fusion "gemm"
func.func @f(%x: tensor<64x32xbf16>, %w: tensor<128x32xbf16>, %v: tensor<32x128xbf16>) -> tensor<64x32xbf16> {
  %m = dit.matmul %x, %w transpose_rhs : (tensor<64x32xbf16>, tensor<128x32xbf16>) -> tensor<64x128xbf16>
  %n = dit.matmul %m, %v transpose_rhs : (tensor<64x128xbf16>, tensor<32x128xbf16>) -> tensor<64x32xbf16>
  return %n : tensor<64x32xbf16>
}
