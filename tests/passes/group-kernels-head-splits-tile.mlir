// RUN: ditc-opt %s --ditc-group-kernels --remark-format=emitRemark --remarks-filter=fusion 2>&1 | FileCheck %s

// A tile is 256 columns wide; a head of 512 lies in two.
// CHECK: {{\[}}Missed{{\]}} GroupKernels {{.*}}Kernel=gemm, {{.*}}Reason=head_splits_tile
// CHECK-LABEL: func.func @f
func.func @f(%x: tensor<64x32xbf16>, %w: tensor<1024x32xbf16>) -> tensor<64x2x512xbf16> {
  %m = dit.matmul %x, %w transpose_rhs : (tensor<64x32xbf16>, tensor<1024x32xbf16>) -> tensor<64x1024xbf16>
  %h = dit.view %m : tensor<64x1024xbf16> -> tensor<64x2x512xbf16>
  %n = dit.norm rms %h axes 1 eps 1.0e-6 : (tensor<64x2x512xbf16>) -> tensor<64x2x512xbf16>
  return %n : tensor<64x2x512xbf16>
}
