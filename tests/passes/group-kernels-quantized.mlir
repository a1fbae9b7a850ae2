// RUN: ditc-opt %s --ditc-quantize-products --ditc-fuse-maps --canonicalize --ditc-group-kernels --split-input-file | FileCheck %s

// A norm with its modulation, the magnitudes, scales and fp8 numbers of its rows are one launch, which does not store the row in
// 16 bits. Three products of it are another, with what brings their sums back.
// CHECK-LABEL: func.func @norm
// CHECK: dit.fusion "rowwise"(%arg0, %arg1) : {{.*}} -> (tensor<1x4096x1xf32>, tensor<1x4096x3072xf8E4M3FN>)
// CHECK: dit.norm
// CHECK: math.absf
// CHECK: dit.reduce {{ *}}max
// CHECK: dit.fusion "gemm"
// CHECK-COUNT-3: dit.matmul
// CHECK: return
func.func @norm(%x: tensor<1x4096x3072xbf16>, %s: tensor<1x1x3072xbf16>) -> (tensor<1x4096x3072xbf16>, tensor<1x4096x3072xbf16>, tensor<1x4096x3072xbf16>) {
  %wq = dit.weight "q" : tensor<3072x3072xbf16>
  %wk = dit.weight "k" : tensor<3072x3072xbf16>
  %wv = dit.weight "v" : tensor<3072x3072xbf16>
  %n = dit.norm layer %x axes 1 eps 1.0e-6 : (tensor<1x4096x3072xbf16>) -> tensor<1x4096x3072xbf16>
  %h = dit.map(%n, %s) : (tensor<1x4096x3072xbf16>, tensor<1x1x3072xbf16>) -> tensor<1x4096x3072xbf16> {
  ^bb0(%p: f32, %c: f32):
    %r = arith.mulf %p, %c : f32
    dit.yield %r : f32
  }
  %q = dit.matmul %h, %wq transpose_rhs : (tensor<1x4096x3072xbf16>, tensor<3072x3072xbf16>) -> tensor<1x4096x3072xbf16>
  %k = dit.matmul %h, %wk transpose_rhs : (tensor<1x4096x3072xbf16>, tensor<3072x3072xbf16>) -> tensor<1x4096x3072xbf16>
  %v = dit.matmul %h, %wv transpose_rhs : (tensor<1x4096x3072xbf16>, tensor<3072x3072xbf16>) -> tensor<1x4096x3072xbf16>
  return %q, %k, %v : tensor<1x4096x3072xbf16>, tensor<1x4096x3072xbf16>, tensor<1x4096x3072xbf16>
}

// -----

// Magnitudes of what a product makes belong to the launch that reduces them: the product would store them beside its result.
// CHECK-LABEL: func.func @mlp
// CHECK: dit.fusion "gemm"({{.*}}) : {{.*}} -> tensor<4096x12288xbf16>
// CHECK-NOT: math.absf
// CHECK: math.tanh
// CHECK-NOT: math.absf
// CHECK: dit.fusion "rowwise"({{.*}}) : (tensor<4096x12288xbf16>) -> (tensor<4096x1xf32>, tensor<4096x12288xf8E4M3FN>)
// CHECK: math.absf
// CHECK: dit.reduce {{ *}}max
// CHECK: dit.fusion "gemm"
// CHECK: return
func.func @mlp(%x: tensor<4096x3072xbf16>) -> tensor<4096x3072xbf16> {
  %up = dit.weight "up" : tensor<12288x3072xbf16>
  %down = dit.weight "down" : tensor<3072x12288xbf16>
  %h = dit.matmul %x, %up transpose_rhs : (tensor<4096x3072xbf16>, tensor<12288x3072xbf16>) -> tensor<4096x12288xbf16>
  %g = dit.map(%h) : (tensor<4096x12288xbf16>) -> tensor<4096x12288xbf16> {
  ^bb0(%p: f32):
    %r = math.tanh %p : f32
    dit.yield %r : f32
  }
  %y = dit.matmul %g, %down transpose_rhs : (tensor<4096x12288xbf16>, tensor<3072x12288xbf16>) -> tensor<4096x3072xbf16>
  return %y : tensor<4096x3072xbf16>
}
