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

// -----

// What would take a terabyte, or minutes, to compute is left to run time.
// CHECK-LABEL: @large
// CHECK: dit.reduce sum
// CHECK: dit.matmul
func.func @large() -> (tensor<1x1xf32>, tensor<1x65536xf32>) {
  %c = dit.constant dense<[[1.0, 2.0]]> : tensor<1x2xf32>
  %v = dit.view %c : tensor<1x2xf32> -> tensor<2x1xf32>
  %e = dit.expand %v : tensor<2x1xf32> -> tensor<2x137438953472xf32>
  %s = dit.reduce sum %e axes [0, 1] : (tensor<2x137438953472xf32>) -> tensor<1x1xf32>
  %r = dit.constant dense<0.5> : tensor<1x65536xf32>
  %w = dit.constant dense<0.25> : tensor<1x1xf32>
  %x = dit.expand %w : tensor<1x1xf32> -> tensor<65536x65536xf32>
  %m = dit.matmul %r, %x : (tensor<1x65536xf32>, tensor<65536x65536xf32>) -> tensor<1x65536xf32>
  return %s, %m : tensor<1x1xf32>, tensor<1x65536xf32>
}

// -----

// A table of expanded ones is no smaller than what they are made of.
// CHECK-LABEL: @expanded
// CHECK: dit.constant dense<{{.*}}> : tensor<2x2xf64>
// SMALL-LABEL: @expanded
// SMALL: arith.addf
func.func @expanded() -> tensor<2x2xf64> {
  %a = dit.constant dense<[[0.0], [1.0]]> : tensor<2x1xf64>
  %b = dit.constant dense<[[0.0, 2.0]]> : tensor<1x2xf64>
  %x = dit.expand %a : tensor<2x1xf64> -> tensor<2x2xf64>
  %y = dit.expand %b : tensor<1x2xf64> -> tensor<2x2xf64>
  %m = dit.map(%x, %y) : (tensor<2x2xf64>, tensor<2x2xf64>) -> tensor<2x2xf64> {
  ^bb0(%p: f64, %q: f64):
    %c = arith.addf %p, %q : f64
    dit.yield %c : f64
  }
  return %m : tensor<2x2xf64>
}

// -----

// One number is not stored many times.
// CHECK-LABEL: @one_number
// CHECK: %[[Z:.*]] = dit.constant dense<0.000000e+00> : tensor<1x1xbf16>
// CHECK: %[[E:.*]] = dit.expand %[[Z]] : tensor<1x1xbf16> -> tensor<1024x64xbf16>
// CHECK: dit.concat(%arg0, %[[E]])
func.func @one_number(%x: tensor<8x64xbf16>) -> tensor<1032x64xbf16> {
  %z = dit.constant dense<0.0> : tensor<1024x64xbf16>
  %y = dit.concat(%x, %z) axis 0 : (tensor<8x64xbf16>, tensor<1024x64xbf16>) -> tensor<1032x64xbf16>
  return %y : tensor<1032x64xbf16>
}
