// RUN: ditc-opt %s --ditc-legalize-for-sm90a --remark-format=emitRemark --remarks-filter=fusion 2>&1 | FileCheck %s

// An epilogue computes in f32.
// CHECK: {{\[}}Missed{{\]}} TargetKernels {{.*}}Deviation=taken_apart{{.*}}Kernel=gemm{{.*}}Reason=type_unsupported
// CHECK-NOT: {{\[}}Missed{{\]}}
func.func @f(%x: tensor<64x32xbf16>, %w: tensor<128x32xbf16>, %t: tensor<64x128xf64>) -> tensor<64x128xbf16> {
  %y = dit.fusion "gemm"(%x, %w, %t) : (tensor<64x32xbf16>, tensor<128x32xbf16>, tensor<64x128xf64>) -> tensor<64x128xbf16> {
  ^bb0(%a: tensor<64x32xbf16>, %b: tensor<128x32xbf16>, %c: tensor<64x128xf64>):
    %m = dit.matmul %a, %b transpose_rhs : (tensor<64x32xbf16>, tensor<128x32xbf16>) -> tensor<64x128xbf16>
    %n = dit.map(%m, %c) : (tensor<64x128xbf16>, tensor<64x128xf64>) -> tensor<64x128xbf16> {
    ^bb0(%p: f32, %q: f64):
      %r = arith.truncf %q : f64 to f32
      %s = arith.mulf %p, %r : f32
      dit.yield %s : f32
    }
    dit.yield %n : tensor<64x128xbf16>
  }
  return %y : tensor<64x128xbf16>
}
