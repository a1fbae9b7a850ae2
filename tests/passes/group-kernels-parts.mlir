// RUN: ditc-opt %s --ditc-group-kernels --split-input-file | FileCheck %s

// Queries and keys of one product are normalised behind it. The values, which the attention cuts out itself, become a result
// of the product too, so that nothing is stored twice.
// CHECK-LABEL: @packed_heads
// CHECK: %[[P:.*]]:3 = dit.fusion "gemm"
// CHECK-SAME: -> (tensor<1x2x24x64xbf16>, tensor<1x2x24x64xbf16>, tensor<1x2x24x64xbf16>)
// CHECK: dit.fusion "attention"(%[[P]]#{{[0-2]}}, %[[P]]#{{[0-2]}}, %[[P]]#{{[0-2]}}) : (tensor<1x2x24x64xbf16>, tensor<1x2x24x64xbf16>, tensor<1x2x24x64xbf16>)
func.func @packed_heads(%x: tensor<1x24x32xbf16>, %w: tensor<384x32xbf16>) -> tensor<1x2x24x64xbf16> {
  %m = dit.matmul %x, %w transpose_rhs : (tensor<1x24x32xbf16>, tensor<384x32xbf16>) -> tensor<1x24x384xbf16>
  %qs = dit.slice %m offsets [0, 0, 0] steps [1, 1, 1] : tensor<1x24x384xbf16> -> tensor<1x24x128xbf16>
  %qv = dit.view %qs : tensor<1x24x128xbf16> -> tensor<1x24x2x64xbf16>
  %qp = dit.permute %qv [0, 2, 1, 3] : tensor<1x24x2x64xbf16> -> tensor<1x2x24x64xbf16>
  %q = dit.norm rms %qp axes 1 eps 1.0e-6 : (tensor<1x2x24x64xbf16>) -> tensor<1x2x24x64xbf16>
  %ks = dit.slice %m offsets [0, 0, 128] steps [1, 1, 1] : tensor<1x24x384xbf16> -> tensor<1x24x128xbf16>
  %kv = dit.view %ks : tensor<1x24x128xbf16> -> tensor<1x24x2x64xbf16>
  %kp = dit.permute %kv [0, 2, 1, 3] : tensor<1x24x2x64xbf16> -> tensor<1x2x24x64xbf16>
  %k = dit.norm rms %kp axes 1 eps 1.0e-6 : (tensor<1x2x24x64xbf16>) -> tensor<1x2x24x64xbf16>
  %vs = dit.slice %m offsets [0, 0, 256] steps [1, 1, 1] : tensor<1x24x384xbf16> -> tensor<1x24x128xbf16>
  %vv = dit.view %vs : tensor<1x24x128xbf16> -> tensor<1x24x2x64xbf16>
  %v = dit.permute %vv [0, 2, 1, 3] : tensor<1x24x2x64xbf16> -> tensor<1x2x24x64xbf16>
  %o = dit.attention %q, %k, %v scale 0.125 : (tensor<1x2x24x64xbf16>, tensor<1x2x24x64xbf16>, tensor<1x2x24x64xbf16>) -> tensor<1x2x24x64xbf16>
  return %o : tensor<1x2x24x64xbf16>
}

// -----

// Nothing is computed with any part: the attention reads all three where they lie.
// CHECK-LABEL: @packed_plain
// CHECK: dit.fusion "gemm"
// CHECK-SAME: -> tensor<1x24x384xbf16>
// CHECK: dit.fusion "attention"
func.func @packed_plain(%x: tensor<1x24x32xbf16>, %w: tensor<384x32xbf16>) -> tensor<1x2x24x64xbf16> {
  %m = dit.matmul %x, %w transpose_rhs : (tensor<1x24x32xbf16>, tensor<384x32xbf16>) -> tensor<1x24x384xbf16>
  %qs = dit.slice %m offsets [0, 0, 0] steps [1, 1, 1] : tensor<1x24x384xbf16> -> tensor<1x24x128xbf16>
  %qv = dit.view %qs : tensor<1x24x128xbf16> -> tensor<1x24x2x64xbf16>
  %q = dit.permute %qv [0, 2, 1, 3] : tensor<1x24x2x64xbf16> -> tensor<1x2x24x64xbf16>
  %ks = dit.slice %m offsets [0, 0, 128] steps [1, 1, 1] : tensor<1x24x384xbf16> -> tensor<1x24x128xbf16>
  %kv = dit.view %ks : tensor<1x24x128xbf16> -> tensor<1x24x2x64xbf16>
  %k = dit.permute %kv [0, 2, 1, 3] : tensor<1x24x2x64xbf16> -> tensor<1x2x24x64xbf16>
  %vs = dit.slice %m offsets [0, 0, 256] steps [1, 1, 1] : tensor<1x24x384xbf16> -> tensor<1x24x128xbf16>
  %vv = dit.view %vs : tensor<1x24x128xbf16> -> tensor<1x24x2x64xbf16>
  %v = dit.permute %vv [0, 2, 1, 3] : tensor<1x24x2x64xbf16> -> tensor<1x2x24x64xbf16>
  %o = dit.attention %q, %k, %v scale 0.125 : (tensor<1x2x24x64xbf16>, tensor<1x2x24x64xbf16>, tensor<1x2x24x64xbf16>) -> tensor<1x2x24x64xbf16>
  return %o : tensor<1x2x24x64xbf16>
}

// -----

// RoPE by a table of 2x2 matrices: both elements of a pair are read for each of the two, which are columns of the tile still.
// CHECK-LABEL: @matrix_rotation
// CHECK: dit.fusion "gemm"
// CHECK-SAME: -> tensor<1x2x24x64xbf16>
// CHECK-NOT: dit.fusion
// CHECK: return
func.func @matrix_rotation(%x: tensor<1x24x32xbf16>, %w: tensor<128x32xbf16>, %a: tensor<1x1x24x32x2xf32>, %b: tensor<1x1x24x32x2xf32>) -> tensor<1x2x24x64xbf16> {
  %m = dit.matmul %x, %w transpose_rhs : (tensor<1x24x32xbf16>, tensor<128x32xbf16>) -> tensor<1x24x128xbf16>
  %v = dit.view %m : tensor<1x24x128xbf16> -> tensor<1x24x2x64xbf16>
  %p = dit.permute %v [0, 2, 1, 3] : tensor<1x24x2x64xbf16> -> tensor<1x2x24x64xbf16>
  %t = dit.view %p : tensor<1x2x24x64xbf16> -> tensor<1x2x24x32x1x2xbf16>
  %e = dit.slice %t offsets [0, 0, 0, 0, 0, 0] steps [1, 1, 1, 1, 1, 1] : tensor<1x2x24x32x1x2xbf16> -> tensor<1x2x24x32x1x1xbf16>
  %even = dit.view %e : tensor<1x2x24x32x1x1xbf16> -> tensor<1x2x24x32x1xbf16>
  %o = dit.slice %t offsets [0, 0, 0, 0, 0, 1] steps [1, 1, 1, 1, 1, 1] : tensor<1x2x24x32x1x2xbf16> -> tensor<1x2x24x32x1x1xbf16>
  %odd = dit.view %o : tensor<1x2x24x32x1x1xbf16> -> tensor<1x2x24x32x1xbf16>
  %r = dit.map(%a, %even, %b, %odd) : (tensor<1x1x24x32x2xf32>, tensor<1x2x24x32x1xbf16>, tensor<1x1x24x32x2xf32>, tensor<1x2x24x32x1xbf16>) -> tensor<1x2x24x32x2xbf16> {
  ^bb0(%p0: f32, %p1: f32, %p2: f32, %p3: f32):
    %q0 = arith.mulf %p0, %p1 : f32
    %q1 = arith.mulf %p2, %p3 : f32
    %q2 = arith.addf %q0, %q1 : f32
    dit.yield %q2 : f32
  }
  %y = dit.view %r : tensor<1x2x24x32x2xbf16> -> tensor<1x2x24x64xbf16>
  return %y : tensor<1x2x24x64xbf16>
}

// -----

// A launch has four results: of more parts the whole is stored, and each is a view of it.
// CHECK-LABEL: func.func @six
// CHECK: %[[M:.*]] = dit.fusion "gemm"(%arg0, %arg1) : {{.*}} -> tensor<64x384xbf16>
// CHECK-COUNT-6: dit.slice %[[M]]
// CHECK: return
func.func @six(%x: tensor<64x32xbf16>, %w: tensor<384x32xbf16>) -> (tensor<64x64xbf16>, tensor<64x64xbf16>, tensor<64x64xbf16>, tensor<64x64xbf16>, tensor<64x64xbf16>, tensor<64x64xbf16>) {
  %m = dit.matmul %x, %w transpose_rhs : (tensor<64x32xbf16>, tensor<384x32xbf16>) -> tensor<64x384xbf16>
  %s0 = dit.slice %m offsets [0, 0] steps [1, 1] : tensor<64x384xbf16> -> tensor<64x64xbf16>
  %s1 = dit.slice %m offsets [0, 64] steps [1, 1] : tensor<64x384xbf16> -> tensor<64x64xbf16>
  %s2 = dit.slice %m offsets [0, 128] steps [1, 1] : tensor<64x384xbf16> -> tensor<64x64xbf16>
  %s3 = dit.slice %m offsets [0, 192] steps [1, 1] : tensor<64x384xbf16> -> tensor<64x64xbf16>
  %s4 = dit.slice %m offsets [0, 256] steps [1, 1] : tensor<64x384xbf16> -> tensor<64x64xbf16>
  %s5 = dit.slice %m offsets [0, 320] steps [1, 1] : tensor<64x384xbf16> -> tensor<64x64xbf16>
  return %s0, %s1, %s2, %s3, %s4, %s5 : tensor<64x64xbf16>, tensor<64x64xbf16>, tensor<64x64xbf16>, tensor<64x64xbf16>, tensor<64x64xbf16>, tensor<64x64xbf16>
}

// -----

// Halves of a rotation, each rounded by itself, that are put together for the attention: channels, which are the product's to
// store, and no ranges of tokens.
// CHECK-LABEL: @rounded_halves
// CHECK: %[[Q:.*]] = dit.fusion "gemm"
// CHECK-SAME: -> tensor<1x24x2x64xbf16>
// CHECK: dit.concat
// CHECK: dit.fusion "attention"(%[[Q]], %arg4)
// CHECK-NOT: dit.concat
func.func @rounded_halves(%x: tensor<1x24x32xbf16>, %w: tensor<128x32xbf16>, %a: tensor<1x24x1x32xf32>, %b: tensor<1x24x1x32xf32>, %k: tensor<1x2x24x64xbf16>) -> tensor<1x2x24x64xbf16> {
  %m = dit.matmul %x, %w transpose_rhs : (tensor<1x24x32xbf16>, tensor<128x32xbf16>) -> tensor<1x24x128xbf16>
  %v = dit.view %m : tensor<1x24x128xbf16> -> tensor<1x24x2x64xbf16>
  %e = dit.slice %v offsets [0, 0, 0, 0] steps [1, 1, 1, 2] : tensor<1x24x2x64xbf16> -> tensor<1x24x2x32xbf16>
  %o = dit.slice %v offsets [0, 0, 0, 1] steps [1, 1, 1, 2] : tensor<1x24x2x64xbf16> -> tensor<1x24x2x32xbf16>
  %s = dit.map(%e, %a, %o, %b) : (tensor<1x24x2x32xbf16>, tensor<1x24x1x32xf32>, tensor<1x24x2x32xbf16>, tensor<1x24x1x32xf32>) -> tensor<1x24x2x32xbf16> {
  ^bb0(%p: f32, %q: f32, %r: f32, %t: f32):
    %f = arith.mulf %p, %q : f32
    %g = arith.mulf %r, %t : f32
    %h = arith.subf %f, %g : f32
    dit.yield %h : f32
  }
  %u = dit.map(%e, %b, %o, %a) : (tensor<1x24x2x32xbf16>, tensor<1x24x1x32xf32>, tensor<1x24x2x32xbf16>, tensor<1x24x1x32xf32>) -> tensor<1x24x2x32xbf16> {
  ^bb0(%p: f32, %q: f32, %r: f32, %t: f32):
    %f = arith.mulf %p, %q : f32
    %g = arith.mulf %r, %t : f32
    %h = arith.addf %f, %g : f32
    dit.yield %h : f32
  }
  %s1 = dit.view %s : tensor<1x24x2x32xbf16> -> tensor<1x24x2x32x1xbf16>
  %u1 = dit.view %u : tensor<1x24x2x32xbf16> -> tensor<1x24x2x32x1xbf16>
  %c = dit.concat(%s1, %u1) axis 4 : (tensor<1x24x2x32x1xbf16>, tensor<1x24x2x32x1xbf16>) -> tensor<1x24x2x32x2xbf16>
  %h = dit.view %c : tensor<1x24x2x32x2xbf16> -> tensor<1x24x2x64xbf16>
  %q = dit.permute %h [0, 2, 1, 3] : tensor<1x24x2x64xbf16> -> tensor<1x2x24x64xbf16>
  %y = dit.attention %q, %k, %k scale 0.125 : (tensor<1x2x24x64xbf16>, tensor<1x2x24x64xbf16>, tensor<1x2x24x64xbf16>) -> tensor<1x2x24x64xbf16>
  return %y : tensor<1x2x24x64xbf16>
}

// -----

// Ranges of tokens stay the attention's, as heads lie within or outside of them.
// CHECK-LABEL: @token_ranges
// CHECK-COUNT-1: dit.fusion "attention"(%arg0, %arg1)
// CHECK: dit.concat
func.func @token_ranges(%x: tensor<1x24x128xbf16>, %y: tensor<1x8x128xbf16>) -> tensor<1x2x32x64xbf16> {
  %c = dit.concat(%x, %y) axis 1 : (tensor<1x24x128xbf16>, tensor<1x8x128xbf16>) -> tensor<1x32x128xbf16>
  %v = dit.view %c : tensor<1x32x128xbf16> -> tensor<1x32x2x64xbf16>
  %q = dit.permute %v [0, 2, 1, 3] : tensor<1x32x2x64xbf16> -> tensor<1x2x32x64xbf16>
  %o = dit.attention %q, %q, %q scale 0.125 : (tensor<1x2x32x64xbf16>, tensor<1x2x32x64xbf16>, tensor<1x2x32x64xbf16>) -> tensor<1x2x32x64xbf16>
  return %o : tensor<1x2x32x64xbf16>
}
