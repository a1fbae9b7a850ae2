// RUN: ditc-opt %s --ditc-legalize-for-cuda | FileCheck %s

// One kernel computes both halves of a concat, so it writes the concat whole.
// CHECK-LABEL: func.func @f
// CHECK: dit.fusion "rowwise"
// CHECK: dit.concat
// CHECK: dit.yield {{.*}} : tensor<4x8x2xbf16>
// CHECK-NOT: dit.concat
func.func @f(%x: tensor<4x8xbf16>, %y: tensor<4x8xbf16>) -> tensor<4x8x2xbf16> {
  %r:2 = dit.fusion "rowwise"(%x, %y) : (tensor<4x8xbf16>, tensor<4x8xbf16>) -> (tensor<4x8xbf16>, tensor<4x8xbf16>) {
  ^bb0(%a: tensor<4x8xbf16>, %b: tensor<4x8xbf16>):
    %s = dit.map(%a, %b) : (tensor<4x8xbf16>, tensor<4x8xbf16>) -> tensor<4x8xbf16> {
    ^bb0(%p: f32, %q: f32):
      %v = arith.subf %p, %q : f32
      dit.yield %v : f32
    }
    %t = dit.map(%a, %b) : (tensor<4x8xbf16>, tensor<4x8xbf16>) -> tensor<4x8xbf16> {
    ^bb0(%p: f32, %q: f32):
      %v = arith.addf %p, %q : f32
      dit.yield %v : f32
    }
    dit.yield %s, %t : tensor<4x8xbf16>, tensor<4x8xbf16>
  }
  %u = dit.view %r#0 : tensor<4x8xbf16> -> tensor<4x8x1xbf16>
  %w = dit.view %r#1 : tensor<4x8xbf16> -> tensor<4x8x1xbf16>
  %c = dit.concat(%u, %w) axis 2 : (tensor<4x8x1xbf16>, tensor<4x8x1xbf16>) -> tensor<4x8x2xbf16>
  return %c : tensor<4x8x2xbf16>
}

// Two streams that cannot share their code are split each for itself: two products, and what follows one of them.
// CHECK-LABEL: func.func @g
// CHECK: %[[M:.*]] = dit.matmul
// CHECK: %[[N:.*]] = dit.matmul
// CHECK: %[[T:.*]] = dit.fusion "rowwise"(%[[N]])
// CHECK: return %[[M]], %[[T]]
func.func @g(%x: tensor<64x32xbf16>, %y: tensor<32x32xbf16>) -> (tensor<64x64xbf16>, tensor<32x64xbf16>) {
  %w = dit.weight "w" : tensor<64x32xbf16>
  %v = dit.weight "v" : tensor<64x32xbf16>
  %r:2 = dit.fusion "gemm"(%x, %w, %y, %v) : (tensor<64x32xbf16>, tensor<64x32xbf16>, tensor<32x32xbf16>, tensor<64x32xbf16>) -> (tensor<64x64xbf16>, tensor<32x64xbf16>) {
  ^bb0(%a: tensor<64x32xbf16>, %b: tensor<64x32xbf16>, %c: tensor<32x32xbf16>, %d: tensor<64x32xbf16>):
    %m = dit.matmul %a, %b transpose_rhs : (tensor<64x32xbf16>, tensor<64x32xbf16>) -> tensor<64x64xbf16>
    %n = dit.matmul %c, %d transpose_rhs : (tensor<32x32xbf16>, tensor<64x32xbf16>) -> tensor<32x64xbf16>
    %t = dit.map(%n) : (tensor<32x64xbf16>) -> tensor<32x64xbf16> {
    ^bb0(%p: f32):
      %q = math.tanh %p : f32
      dit.yield %q : f32
    }
    dit.yield %m, %t : tensor<64x64xbf16>, tensor<32x64xbf16>
  }
  return %r#0, %r#1 : tensor<64x64xbf16>, tensor<32x64xbf16>
}

// The library computes in one type: for a result in f32, which is rounded only after a sum, its operands are widened.
// CHECK-LABEL: func.func @wide_product
// CHECK: dit.fusion "rowwise"({{.*}}) : (tensor<8x33x32xbf16>) -> tensor<8x33x32xf32>
// CHECK: dit.fusion "rowwise"({{.*}}) : (tensor<8x33x32xbf16>) -> tensor<8x33x32xf32>
// CHECK: dit.matmul {{.*}} : (tensor<8x33x32xf32>, tensor<8x33x32xf32>) -> tensor<8x33x33xf32>
func.func @wide_product(%x: tensor<8x33x32xbf16>, %y: tensor<8x33x32xbf16>) -> tensor<8x33x33xf32> {
  %m = dit.matmul %x, %y transpose_rhs : (tensor<8x33x32xbf16>, tensor<8x33x32xbf16>) -> tensor<8x33x33xf32>
  return %m : tensor<8x33x33xf32>
}

// CHECK-LABEL: func.func @narrow_result
// CHECK: %[[M:.*]] = dit.matmul {{.*}} : (tensor<4x32xf32>, tensor<8x32xf32>) -> tensor<4x8xf32>
// CHECK: dit.fusion "rowwise"(%[[M]]) : (tensor<4x8xf32>) -> tensor<4x8xbf16>
func.func @narrow_result(%x: tensor<4x32xf32>, %y: tensor<8x32xf32>) -> tensor<4x8xbf16> {
  %m = dit.matmul %x, %y transpose_rhs : (tensor<4x32xf32>, tensor<8x32xf32>) -> tensor<4x8xbf16>
  return %m : tensor<4x8xbf16>
}

// No kernel here takes fp8 operands, and the library's wants scales: they are widened to the type of the result, or to
// f32 where that is fp8 as well.
// CHECK-LABEL: func.func @float8_product
// CHECK: %[[M:.*]] = dit.matmul {{.*}} : (tensor<4x32xbf16>, tensor<8x32xbf16>) -> tensor<4x8xbf16>
// CHECK: %[[N:.*]] = dit.matmul {{.*}} : (tensor<4x32xf32>, tensor<8x32xf32>) -> tensor<4x8xf32>
// CHECK: dit.fusion "rowwise"(%[[N]]) : (tensor<4x8xf32>) -> tensor<4x8xf8E4M3FN>
func.func @float8_product(%x: tensor<4x32xf8E4M3FN>, %y: tensor<8x32xf8E4M3FN>) -> (tensor<4x8xbf16>, tensor<4x8xf8E4M3FN>) {
  %m = dit.matmul %x, %y transpose_rhs : (tensor<4x32xf8E4M3FN>, tensor<8x32xf8E4M3FN>) -> tensor<4x8xbf16>
  %n = dit.matmul %x, %y transpose_rhs : (tensor<4x32xf8E4M3FN>, tensor<8x32xf8E4M3FN>) -> tensor<4x8xf8E4M3FN>
  return %m, %n : tensor<4x8xbf16>, tensor<4x8xf8E4M3FN>
}
