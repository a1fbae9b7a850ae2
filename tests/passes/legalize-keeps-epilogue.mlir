// RUN: ditc-opt %s --ditc-legalize-for-sm90a | FileCheck %s

// Places of frames in another order behind the residual, and a table for each frame there: no tile stores its rows so. The residual
// stays the product's; what follows is a launch of its own.
// CHECK-LABEL: func.func @places
// CHECK: dit.fusion "gemm"
// CHECK: dit.matmul
// CHECK: arith.addf
// CHECK-NOT: dit.permute
// CHECK: dit.yield {{.*}} : tensor<2x32x64x128xbf16>
// CHECK: dit.fusion "rowwise"
// CHECK: dit.permute
// CHECK: arith.mulf
func.func @places(%x: tensor<2x32x64x128xbf16>, %r: tensor<2x32x64x128xbf16>, %t: tensor<1x1x32x128xbf16>) -> tensor<2x64x32x128xbf16> {
  %w = dit.weight "w" : tensor<128x128xbf16>
  %y = dit.fusion "gemm"(%x, %w, %r, %t) : (tensor<2x32x64x128xbf16>, tensor<128x128xbf16>, tensor<2x32x64x128xbf16>, tensor<1x1x32x128xbf16>) -> tensor<2x64x32x128xbf16> {
  ^bb0(%a: tensor<2x32x64x128xbf16>, %b: tensor<128x128xbf16>, %c: tensor<2x32x64x128xbf16>, %d: tensor<1x1x32x128xbf16>):
    %m = dit.matmul %a, %b transpose_rhs : (tensor<2x32x64x128xbf16>, tensor<128x128xbf16>) -> tensor<2x32x64x128xbf16>
    %s = dit.map(%m, %c) : (tensor<2x32x64x128xbf16>, tensor<2x32x64x128xbf16>) -> tensor<2x32x64x128xbf16> {
    ^bb0(%p: f32, %q: f32):
      %u = arith.addf %p, %q : f32
      dit.yield %u : f32
    }
    %v = dit.permute %s [0, 2, 1, 3] : tensor<2x32x64x128xbf16> -> tensor<2x64x32x128xbf16>
    %z = dit.map(%v, %d) : (tensor<2x64x32x128xbf16>, tensor<1x1x32x128xbf16>) -> tensor<2x64x32x128xbf16> {
    ^bb0(%p: f32, %q: f32):
      %u = arith.mulf %p, %q : f32
      dit.yield %u : f32
    }
    dit.yield %z : tensor<2x64x32x128xbf16>
  }
  return %y : tensor<2x64x32x128xbf16>
}
