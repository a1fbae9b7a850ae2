// RUN: ditc-opt %s --ditc-group-kernels --remark-format=emitRemark --remarks-filter=fusion 2>&1 | FileCheck %s

// Two products of different widths meet in a sum, which joins one of them.
// CHECK: {{\[}}Missed{{\]}} GroupKernels {{.*}}Kernel=gemm, {{.*}}Reason=already_fused
// CHECK-LABEL: func.func @f
// CHECK-COUNT-2: dit.fusion "gemm"
func.func @f(%x: tensor<64x32xbf16>, %y: tensor<64x48xbf16>, %w: tensor<128x32xbf16>, %v: tensor<128x48xbf16>) -> tensor<64x128xbf16> {
  %m = dit.matmul %x, %w transpose_rhs : (tensor<64x32xbf16>, tensor<128x32xbf16>) -> tensor<64x128xbf16>
  %n = dit.matmul %y, %v transpose_rhs : (tensor<64x48xbf16>, tensor<128x48xbf16>) -> tensor<64x128xbf16>
  %r = dit.map(%m, %n) : (tensor<64x128xbf16>, tensor<64x128xbf16>) -> tensor<64x128xbf16> {
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %b : f32
    dit.yield %s : f32
  }
  return %r : tensor<64x128xbf16>
}
