// RUN: ditc-opt %s --ditc-group-kernels --remark-format=emitRemark --remarks-filter=fusion 2>&1 | FileCheck %s

// An epilogue has twelve places for tensors beside the accumulator; this one reads thirteen.
// CHECK: {{\[}}Missed{{\]}} GroupKernels {{.*}}Kernel=gemm, {{.*}}Reason=too_many_operands
// CHECK-LABEL: func.func @f
func.func @f(%x: tensor<64x32xbf16>, %w: tensor<128x32xbf16>, %x0: tensor<64x128xbf16>, %x1: tensor<64x128xbf16>, %x2: tensor<64x128xbf16>, %x3: tensor<64x128xbf16>, %x4: tensor<64x128xbf16>, %x5: tensor<64x128xbf16>, %x6: tensor<64x128xbf16>, %x7: tensor<64x128xbf16>, %x8: tensor<64x128xbf16>, %x9: tensor<64x128xbf16>, %x10: tensor<64x128xbf16>, %x11: tensor<64x128xbf16>, %x12: tensor<64x128xbf16>) -> tensor<64x128xbf16> {
  %m = dit.matmul %x, %w transpose_rhs : (tensor<64x32xbf16>, tensor<128x32xbf16>) -> tensor<64x128xbf16>
  %r = dit.map(%m, %x0, %x1, %x2, %x3, %x4, %x5, %x6, %x7, %x8, %x9, %x10, %x11, %x12) : (tensor<64x128xbf16>, tensor<64x128xbf16>, tensor<64x128xbf16>, tensor<64x128xbf16>, tensor<64x128xbf16>, tensor<64x128xbf16>, tensor<64x128xbf16>, tensor<64x128xbf16>, tensor<64x128xbf16>, tensor<64x128xbf16>, tensor<64x128xbf16>, tensor<64x128xbf16>, tensor<64x128xbf16>, tensor<64x128xbf16>) -> tensor<64x128xbf16> {
  ^bb0(%a0: f32, %a1: f32, %a2: f32, %a3: f32, %a4: f32, %a5: f32, %a6: f32, %a7: f32, %a8: f32, %a9: f32, %a10: f32, %a11: f32, %a12: f32, %a13: f32):
    %s0 = arith.addf %a0, %a1 : f32
    %s1 = arith.addf %s0, %a2 : f32
    %s2 = arith.addf %s1, %a3 : f32
    %s3 = arith.addf %s2, %a4 : f32
    %s4 = arith.addf %s3, %a5 : f32
    %s5 = arith.addf %s4, %a6 : f32
    %s6 = arith.addf %s5, %a7 : f32
    %s7 = arith.addf %s6, %a8 : f32
    %s8 = arith.addf %s7, %a9 : f32
    %s9 = arith.addf %s8, %a10 : f32
    %s10 = arith.addf %s9, %a11 : f32
    %s11 = arith.addf %s10, %a12 : f32
    %s12 = arith.addf %s11, %a13 : f32
    dit.yield %s12 : f32
  }
  return %r : tensor<64x128xbf16>
}
