// RUN: ditc-opt %s --ditc-group-kernels --remark-format=emitRemark --remarks-filter=fusion 2>&1 | FileCheck %s

// The residual behind the second product could join the first, which the second needs.
// CHECK: {{\[}}Missed{{\]}} GroupKernels {{.*}}Kernel=gemm, Operand=ff:linear, {{.*}}ReaderKernel=gemm, Reason=would_cycle
// CHECK-LABEL: func.func @f
func.func @f(%x: tensor<64x32xbf16>, %w: tensor<512x32xbf16>, %v: tensor<512x512xbf16>) -> tensor<64x512xbf16> {
  %m = dit.matmul %x, %w transpose_rhs : (tensor<64x32xbf16>, tensor<512x32xbf16>) -> tensor<64x512xbf16> loc("linear"("ff"))
  %n = dit.norm layer %m axes 1 eps 1.0e-6 : (tensor<64x512xbf16>) -> tensor<64x512xbf16>
  %p = dit.matmul %n, %v transpose_rhs : (tensor<64x512xbf16>, tensor<512x512xbf16>) -> tensor<64x512xbf16>
  %r = dit.map(%m, %p) : (tensor<64x512xbf16>, tensor<64x512xbf16>) -> tensor<64x512xbf16> {
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %b : f32
    dit.yield %s : f32
  }
  return %r : tensor<64x512xbf16>
}
