// RUN: ditc-opt %s --ditc-group-kernels --remark-format=emitRemark --remarks-filter=fusion 2>&1 | FileCheck %s

// One row that is made once and repeated for every token.
// CHECK: {{\[}}Missed{{\]}} GroupKernels {{.*}}Kernel=rowwise, {{.*}}ReaderKernel=rowwise, Reason=shape_mismatch
// CHECK-LABEL: func.func @f
// CHECK-COUNT-2: dit.fusion "rowwise"
func.func @f(%x: tensor<64x32xbf16>, %s: tensor<1x32xbf16>) -> tensor<64x32xbf16> {
  %t = dit.map(%s) : (tensor<1x32xbf16>) -> tensor<1x32xbf16> {
  ^bb0(%a: f32):
    %e = math.exp %a : f32
    dit.yield %e : f32
  }
  %y = dit.map(%x, %t) : (tensor<64x32xbf16>, tensor<1x32xbf16>) -> tensor<64x32xbf16> {
  ^bb0(%a: f32, %b: f32):
    %m = arith.mulf %a, %b : f32
    dit.yield %m : f32
  }
  return %y : tensor<64x32xbf16>
}
