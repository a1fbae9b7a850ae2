// RUN: ditc-opt %s --ditc-legalize-for-sm90a | FileCheck %s
// RUN: ditc-opt %s --ditc-legalize-for-cuda | FileCheck %s --check-prefix=ROUNDED

// An activation in front of a product of few rows and what is made of ranges of its columns are one launch with it.
// CHECK-LABEL: func.func @modulation
// CHECK-NOT: "rowwise"
// CHECK: %[[R:.*]]:2 = dit.fusion "gemv"
// CHECK: return %[[R]]#0, %[[R]]#1
// Where every rounding of the graph is kept, products stay alone.
// ROUNDED-LABEL: func.func @modulation
// ROUNDED: "rowwise"
// ROUNDED: "gemv"
// ROUNDED: "rowwise"
func.func @modulation(%x: tensor<2x64xbf16>) -> (tensor<2x1x32xbf16>, tensor<2x1x32xbf16>) {
  %w = dit.weight "w" : tensor<64x64xbf16>
  %r:2 = dit.fusion "gemv"(%x, %w) : (tensor<2x64xbf16>, tensor<64x64xbf16>) -> (tensor<2x1x32xbf16>, tensor<2x1x32xbf16>) {
  ^bb0(%a: tensor<2x64xbf16>, %b: tensor<64x64xbf16>):
    %t = dit.map(%a) : (tensor<2x64xbf16>) -> tensor<2x64xbf16> {
    ^bb0(%p: f32):
      %q = math.tanh %p : f32
      dit.yield %q : f32
    }
    %m = dit.matmul %t, %b transpose_rhs : (tensor<2x64xbf16>, tensor<64x64xbf16>) -> tensor<2x64xbf16>
    %s = dit.slice %m offsets [0, 0] steps [1, 1] : tensor<2x64xbf16> -> tensor<2x32xbf16>
    %g = dit.slice %m offsets [0, 32] steps [1, 1] : tensor<2x64xbf16> -> tensor<2x32xbf16>
    %u = dit.view %s : tensor<2x32xbf16> -> tensor<2x1x32xbf16>
    %v = dit.view %g : tensor<2x32xbf16> -> tensor<2x1x32xbf16>
    %o = dit.map(%u) : (tensor<2x1x32xbf16>) -> tensor<2x1x32xbf16> {
    ^bb0(%p: f32):
      %c = arith.constant 1.0 : f32
      %q = arith.addf %p, %c : f32
      dit.yield %q : f32
    }
    dit.yield %o, %v : tensor<2x1x32xbf16>, tensor<2x1x32xbf16>
  }
  return %r#0, %r#1 : tensor<2x1x32xbf16>, tensor<2x1x32xbf16>
}

// A product that is a result, and is read by a map that is another one: its weight is read once, the map runs behind.
// CHECK-LABEL: func.func @twice
// CHECK: %[[M:.*]] = dit.fusion "gemv"
// CHECK: %[[T:.*]] = dit.fusion "rowwise"(%[[M]])
// CHECK: return %[[M]], %[[T]]
func.func @twice(%x: tensor<2x64xbf16>) -> (tensor<2x64xbf16>, tensor<2x64xbf16>) {
  %w = dit.weight "w" : tensor<64x64xbf16>
  %r:2 = dit.fusion "gemv"(%x, %w) : (tensor<2x64xbf16>, tensor<64x64xbf16>) -> (tensor<2x64xbf16>, tensor<2x64xbf16>) {
  ^bb0(%a: tensor<2x64xbf16>, %b: tensor<64x64xbf16>):
    %m = dit.matmul %a, %b transpose_rhs : (tensor<2x64xbf16>, tensor<64x64xbf16>) -> tensor<2x64xbf16>
    %t = dit.map(%m) : (tensor<2x64xbf16>) -> tensor<2x64xbf16> {
    ^bb0(%p: f32):
      %q = math.tanh %p : f32
      dit.yield %q : f32
    }
    dit.yield %m, %t : tensor<2x64xbf16>, tensor<2x64xbf16>
  }
  return %r#0, %r#1 : tensor<2x64xbf16>, tensor<2x64xbf16>
}

// Three inputs of a map: it stays in front.
// CHECK-LABEL: func.func @three_inputs
// CHECK: dit.fusion "rowwise"
// CHECK: dit.fusion "gemv"
func.func @three_inputs(%x: tensor<2x64xbf16>, %y: tensor<2x64xbf16>, %z: tensor<2x64xbf16>) -> tensor<2x64xbf16> {
  %w = dit.weight "w" : tensor<64x64xbf16>
  %r = dit.fusion "gemv"(%x, %y, %z, %w) : (tensor<2x64xbf16>, tensor<2x64xbf16>, tensor<2x64xbf16>, tensor<64x64xbf16>) -> tensor<2x64xbf16> {
  ^bb0(%a: tensor<2x64xbf16>, %c: tensor<2x64xbf16>, %d: tensor<2x64xbf16>, %b: tensor<64x64xbf16>):
    %t = dit.map(%a, %c, %d) : (tensor<2x64xbf16>, tensor<2x64xbf16>, tensor<2x64xbf16>) -> tensor<2x64xbf16> {
    ^bb0(%p: f32, %q: f32, %s: f32):
      %u = arith.addf %p, %q : f32
      %v = arith.mulf %u, %s : f32
      dit.yield %v : f32
    }
    %m = dit.matmul %t, %b transpose_rhs : (tensor<2x64xbf16>, tensor<64x64xbf16>) -> tensor<2x64xbf16>
    dit.yield %m : tensor<2x64xbf16>
  }
  return %r : tensor<2x64xbf16>
}
