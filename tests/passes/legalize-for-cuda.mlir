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

// A residual in f32 comes off its bf16 product, and goes with the norm that reads it first: one launch loads the stream once, and
// stores it for the next block.
// CHECK-LABEL: func.func @stream
// CHECK: %[[M:.*]] = dit.matmul
// CHECK-NOT: dit.fusion
// CHECK: %[[R:.*]]:2 = dit.fusion "rowwise"({{.*}}) : (tensor<64x64xf32>, tensor<64x64xbf16>) -> (tensor<64x64xf32>, tensor<64x64xbf16>)
// CHECK: %[[S:.*]] = dit.map
// CHECK: %[[N:.*]] = dit.norm layer %[[S]]
// CHECK: %[[T:.*]] = dit.map(%[[N]])
// CHECK: dit.yield %[[S]], %[[T]]
// CHECK: return %[[R]]#0, %[[R]]#1
func.func @stream(%x: tensor<64x32xbf16>, %s: tensor<64x64xf32>) -> (tensor<64x64xf32>, tensor<64x64xbf16>) {
  %w = dit.weight "w" : tensor<64x32xbf16>
  %y = dit.fusion "gemm"(%x, %w, %s) : (tensor<64x32xbf16>, tensor<64x32xbf16>, tensor<64x64xf32>) -> tensor<64x64xf32> {
  ^bb0(%a: tensor<64x32xbf16>, %b: tensor<64x32xbf16>, %c: tensor<64x64xf32>):
    %m = dit.matmul %a, %b transpose_rhs : (tensor<64x32xbf16>, tensor<64x32xbf16>) -> tensor<64x64xbf16>
    %t = dit.map(%c, %m) : (tensor<64x64xf32>, tensor<64x64xbf16>) -> tensor<64x64xf32> {
    ^bb0(%p: f32, %q: f32):
      %v = arith.addf %p, %q : f32
      dit.yield %v : f32
    }
    dit.yield %t : tensor<64x64xf32>
  }
  %z = dit.fusion "rowwise"(%y) : (tensor<64x64xf32>) -> tensor<64x64xbf16> {
  ^bb0(%a: tensor<64x64xf32>):
    %n = dit.norm layer %a axes 1 eps 1.0e-06 : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %t = dit.map(%n) : (tensor<64x64xf32>) -> tensor<64x64xbf16> {
    ^bb0(%p: f32):
      %q = math.tanh %p : f32
      dit.yield %q : f32
    }
    dit.yield %t : tensor<64x64xbf16>
  }
  return %y, %z : tensor<64x64xf32>, tensor<64x64xbf16>
}

// Not with a reader that wants each place again for every row of another one, nor with one that stands behind another reader.
// CHECK-LABEL: func.func @apart
// CHECK: %[[Y:.*]] = dit.fusion "rowwise"({{.*}}) : (tensor<64x64xf32>, tensor<64x64xbf16>) -> tensor<64x64xf32>
// CHECK: dit.fusion "rowwise"(%[[Y]]) : (tensor<64x64xf32>) -> tensor<8x64x64xbf16>
// CHECK: %[[Z:.*]] = dit.fusion "rowwise"({{.*}}) : (tensor<64x64xf32>, tensor<64x64xbf16>) -> tensor<64x64xf32>
// CHECK: dit.attention
// CHECK: dit.fusion "rowwise"(%[[Z]])
func.func @apart(%x: tensor<64x32xbf16>, %s: tensor<64x64xf32>) -> (tensor<8x64x64xbf16>, tensor<64x64xf32>, tensor<64x64xbf16>) {
  %w = dit.weight "w" : tensor<64x32xbf16>
  %m = dit.matmul %x, %w transpose_rhs : (tensor<64x32xbf16>, tensor<64x32xbf16>) -> tensor<64x64xbf16>
  %y = dit.map(%s, %m) : (tensor<64x64xf32>, tensor<64x64xbf16>) -> tensor<64x64xf32> {
  ^bb0(%p: f32, %q: f32):
    %v = arith.addf %p, %q : f32
    dit.yield %v : f32
  }
  %r = dit.fusion "rowwise"(%y) : (tensor<64x64xf32>) -> tensor<8x64x64xbf16> {
  ^bb0(%a: tensor<64x64xf32>):
    %v = dit.view %a : tensor<64x64xf32> -> tensor<1x64x64xf32>
    %e = dit.expand %v : tensor<1x64x64xf32> -> tensor<8x64x64xf32>
    %t = dit.map(%e) : (tensor<8x64x64xf32>) -> tensor<8x64x64xbf16> {
    ^bb0(%p: f32):
      %q = math.tanh %p : f32
      dit.yield %q : f32
    }
    dit.yield %t : tensor<8x64x64xbf16>
  }
  %z = dit.map(%s, %m) : (tensor<64x64xf32>, tensor<64x64xbf16>) -> tensor<64x64xf32> {
  ^bb0(%p: f32, %q: f32):
    %v = arith.subf %p, %q : f32
    dit.yield %v : f32
  }
  %h = dit.view %z : tensor<64x64xf32> -> tensor<1x1x64x64xf32>
  %o = dit.attention %h, %h, %h scale 1.0 : (tensor<1x1x64x64xf32>, tensor<1x1x64x64xf32>, tensor<1x1x64x64xf32>) -> tensor<1x1x64x64xf32>
  %u = dit.view %o : tensor<1x1x64x64xf32> -> tensor<64x64xf32>
  %b = dit.map(%z) : (tensor<64x64xf32>) -> tensor<64x64xbf16> {
  ^bb0(%p: f32):
    %q = math.tanh %p : f32
    dit.yield %q : f32
  }
  return %r, %u, %b : tensor<8x64x64xbf16>, tensor<64x64xf32>, tensor<64x64xbf16>
}
