// RUN: ditc-opt %s --ditc-fold-constants --split-input-file | FileCheck %s
// RUN: ditc-opt %s --ditc-fold-constants=max-bytes=3 --split-input-file | FileCheck %s --check-prefix=SMALL

// Weights may be swapped: what depends on one stays.
// CHECK-LABEL: @weight
// CHECK: dit.weight "w"
// CHECK: dit.map
func.func @weight() -> tensor<2xf32> {
  %w = dit.weight "w" : tensor<2xf32>
  %y = dit.map(%w) : (tensor<2xf32>) -> tensor<2xf32> {
  ^bb0(%p: f32):
    %q = arith.negf %p : f32
    dit.yield %q : f32
  }
  return %y : tensor<2xf32>
}

// -----

// A view of a table stays a view; the table below it is computed.
// CHECK-LABEL: @view
// SMALL-LABEL: @view
// SMALL: arith.subi
// CHECK: %[[T:.*]] = dit.constant dense<[-1, -2]> : tensor<2xi64>
// CHECK: %[[V:.*]] = dit.view %[[T]]
// CHECK: dit.expand %[[V]] : tensor<1x2xi64> -> tensor<1000x2xi64>
func.func @view() -> tensor<1000x2xi64> {
  %c = dit.constant dense<[1, 2]> : tensor<2xi64>
  %n = dit.map(%c) : (tensor<2xi64>) -> tensor<2xi64> {
  ^bb0(%p: i64):
    %z = arith.constant 0 : i64
    %q = arith.subi %z, %p : i64
    dit.yield %q : i64
  }
  %v = dit.view %n : tensor<2xi64> -> tensor<1x2xi64>
  %e = dit.expand %v : tensor<1x2xi64> -> tensor<1000x2xi64>
  return %e : tensor<1000x2xi64>
}

// -----

// Tables are computed in the type that the graph says, and rounded once; those that become smaller also where they are large.
// CHECK-LABEL: @double
// SMALL-LABEL: @double
// SMALL: dit.constant dense<0.841470957> : tensor<1xf32>
// CHECK: dit.constant dense<0.841470957> : tensor<1xf32>
func.func @double() -> tensor<1xf32> {
  %c = dit.constant dense<[1.0]> : tensor<1xf64>
  %y = dit.map(%c) : (tensor<1xf64>) -> tensor<1xf32> {
  ^bb0(%p: f64):
    %s = math.sin %p : f64
    %t = arith.truncf %s : f64 to f32
    dit.yield %t : f32
  }
  return %y : tensor<1xf32>
}

// -----

// Attention of 8-bit numbers without columns in its scores: all keys count alike, and values have their scale.
// CHECK-LABEL: @no_columns
// CHECK: dit.constant dense<1.000000e+00> : tensor<1x1x2x8xbf16>
func.func @no_columns() -> tensor<1x1x2x8xbf16> {
  %q = dit.constant dense<> : tensor<1x1x2x0xbf16>
  %k = dit.constant dense<> : tensor<1x1x3x0xbf16>
  %v = dit.constant dense<1.0> : tensor<1x1x3x8xbf16>
  %y = dit.attention %q, %k, %v scale 1.0 quantized : (tensor<1x1x2x0xbf16>, tensor<1x1x3x0xbf16>, tensor<1x1x3x8xbf16>) -> tensor<1x1x2x8xbf16>
  return %y : tensor<1x1x2x8xbf16>
}
