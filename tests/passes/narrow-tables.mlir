// RUN: ditc-opt %s --ditc-narrow-tables --split-input-file | FileCheck %s

// Lumina-Image 2.0: frequencies in complex128, of which the parts are slices. They are rounded once, behind the cosine.
// CHECK-LABEL: @complex
// CHECK: %[[F:.*]] = math.cos %{{.*}} : f64
// CHECK: %[[C:.*]] = dit.slice {{.*}} : tensor<4x3x2xf64> -> tensor<4x3x1xf64>
// CHECK: dit.map(%[[C]]) : (tensor<4x3x1xf64>) -> tensor<4x3x1xf32>
// CHECK: %[[S:.*]] = dit.slice {{.*}} : tensor<4x3x2xf64> -> tensor<4x3x1xf64>
// CHECK: dit.map(%[[S]]) : (tensor<4x3x1xf64>) -> tensor<4x3x1xf32>
// CHECK-NEXT: ^bb0
// CHECK-NEXT: arith.truncf {{.*}} : f64 to f32
// CHECK-NOT: f64
// CHECK: return %{{.*}} : tensor<4x6xbf16>
func.func @complex(%x: tensor<4x6xbf16>, %ids: tensor<4x3x2xf64> {dit.invariant}) -> tensor<4x6xbf16> {
  %f = dit.map(%ids) : (tensor<4x3x2xf64>) -> tensor<4x3x2xf64> {
  ^bb0(%p: f64):
    %q = math.cos %p : f64
    dit.yield %q : f64
  }
  %w = dit.map(%x) : (tensor<4x6xbf16>) -> tensor<4x6xf64> {
  ^bb0(%p: f32):
    %q = arith.extf %p : f32 to f64
    dit.yield %q : f64
  }
  %h = dit.view %w : tensor<4x6xf64> -> tensor<4x3x2xf64>
  %a = dit.slice %h offsets [0, 0, 0] steps [1, 1, 1] : tensor<4x3x2xf64> -> tensor<4x3x1xf64>
  %b = dit.slice %h offsets [0, 0, 1] steps [1, 1, 1] : tensor<4x3x2xf64> -> tensor<4x3x1xf64>
  %c = dit.slice %f offsets [0, 0, 0] steps [1, 1, 1] : tensor<4x3x2xf64> -> tensor<4x3x1xf64>
  %s = dit.slice %f offsets [0, 0, 1] steps [1, 1, 1] : tensor<4x3x2xf64> -> tensor<4x3x1xf64>
  %re = dit.map(%a, %b, %c, %s) : (tensor<4x3x1xf64>, tensor<4x3x1xf64>, tensor<4x3x1xf64>, tensor<4x3x1xf64>) -> tensor<4x3x1xf64> {
  ^bb0(%p: f64, %q: f64, %u: f64, %v: f64):
    %1 = arith.mulf %p, %u : f64
    %2 = arith.mulf %q, %v : f64
    %3 = arith.subf %1, %2 : f64
    dit.yield %3 : f64
  }
  %im = dit.map(%a, %b, %c, %s) : (tensor<4x3x1xf64>, tensor<4x3x1xf64>, tensor<4x3x1xf64>, tensor<4x3x1xf64>) -> tensor<4x3x1xf64> {
  ^bb0(%p: f64, %q: f64, %u: f64, %v: f64):
    %1 = arith.mulf %p, %v : f64
    %2 = arith.mulf %q, %u : f64
    %3 = arith.addf %1, %2 : f64
    dit.yield %3 : f64
  }
  %z = dit.concat(%re, %im) axis 2 : (tensor<4x3x1xf64>, tensor<4x3x1xf64>) -> tensor<4x3x2xf64>
  %v = dit.view %z : tensor<4x3x2xf64> -> tensor<4x6xf64>
  %y = dit.map(%v) : (tensor<4x6xf64>) -> tensor<4x6xbf16> {
  ^bb0(%p: f64):
    %q = arith.truncf %p : f64 to f32
    dit.yield %q : f32
  }
  return %y : tensor<4x6xbf16>
}

// -----

// An f64 result is wanted.
// CHECK-LABEL: @result
// CHECK: arith.mulf {{.*}} : f64
func.func @result(%x: tensor<4xbf16>, %t: tensor<4xf64> {dit.invariant}) -> tensor<4xf64> {
  %y = dit.map(%x, %t) : (tensor<4xbf16>, tensor<4xf64>) -> tensor<4xf64> {
  ^bb0(%p: f32, %q: f64):
    %w = arith.extf %p : f32 to f64
    %m = arith.mulf %w, %q : f64
    dit.yield %m : f64
  }
  return %y : tensor<4xf64>
}

// -----

// The table is another one in each step: it may be anything.
// CHECK-LABEL: @changes
// CHECK: arith.mulf {{.*}} : f64
func.func @changes(%x: tensor<4xbf16>, %t: tensor<4xf64>) -> tensor<4xbf16> {
  %y = dit.map(%x, %t) : (tensor<4xbf16>, tensor<4xf64>) -> tensor<4xbf16> {
  ^bb0(%p: f32, %q: f64):
    %w = arith.extf %p : f32 to f64
    %m = arith.mulf %w, %q : f64
    %r = arith.truncf %m : f64 to f32
    dit.yield %r : f32
  }
  return %y : tensor<4xbf16>
}

// -----

// Angles stay as they were, also where they are rounded before the sine is taken.
// CHECK-LABEL: @angles
// CHECK: arith.mulf {{.*}} : f64
// CHECK: math.sin {{.*}} : f32
func.func @angles(%step: tensor<1xf32>, %t: tensor<4xf64> {dit.invariant}) -> tensor<1x4xf32> {
  %a = dit.map(%step, %t) : (tensor<1xf32>, tensor<4xf64>) -> tensor<4xf32> {
  ^bb0(%p: f32, %q: f64):
    %w = arith.extf %p : f32 to f64
    %m = arith.mulf %w, %q : f64
    %r = arith.truncf %m : f64 to f32
    dit.yield %r : f32
  }
  %v = dit.view %a : tensor<4xf32> -> tensor<1x4xf32>
  %y = dit.map(%v) : (tensor<1x4xf32>) -> tensor<1x4xf32> {
  ^bb0(%p: f32):
    %q = math.sin %p : f32
    dit.yield %q : f32
  }
  return %y : tensor<1x4xf32>
}

// -----

// More than sums and products.
// CHECK-LABEL: @root
// CHECK: math.sqrt {{.*}} : f64
func.func @root(%x: tensor<4xbf16>, %t: tensor<4xf64> {dit.invariant}) -> tensor<4xbf16> {
  %y = dit.map(%x, %t) : (tensor<4xbf16>, tensor<4xf64>) -> tensor<4xbf16> {
  ^bb0(%p: f32, %q: f64):
    %w = arith.extf %p : f32 to f64
    %m = arith.mulf %w, %q : f64
    %s = math.sqrt %m : f64
    %r = arith.truncf %s : f64 to f32
    dit.yield %r : f32
  }
  return %y : tensor<4xbf16>
}

// -----

// An angle behind a concat, of which a cosine is taken.
// CHECK-LABEL: @angle_behind_concat
// CHECK: arith.mulf {{.*}} : f64
func.func @angle_behind_concat(%x: tensor<4xf32>, %t: tensor<4xf64> {dit.invariant}) -> tensor<8xf32> {
  %a = dit.map(%x, %t) : (tensor<4xf32>, tensor<4xf64>) -> tensor<4xf32> {
  ^bb0(%p: f32, %q: f64):
    %w = arith.extf %p : f32 to f64
    %m = arith.mulf %w, %q : f64
    %r = arith.truncf %m : f64 to f32
    dit.yield %r : f32
  }
  %c = dit.concat(%a, %a) axis 0 : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>
  %y = dit.map(%c) : (tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%p: f32):
    %q = math.cos %p : f32
    dit.yield %q : f32
  }
  return %y : tensor<8xf32>
}

// -----

// A sum with a table, beside which an activation could be lost; and a factor that f32 has not.
// CHECK-LABEL: @beside_a_table
// CHECK: arith.addf {{.*}} : f64
// CHECK: arith.mulf {{.*}} : f64
func.func @beside_a_table(%x: tensor<4xbf16>, %t: tensor<4xf64> {dit.invariant}) -> (tensor<4xbf16>, tensor<4xbf16>) {
  %y = dit.map(%x, %t) : (tensor<4xbf16>, tensor<4xf64>) -> tensor<4xbf16> {
  ^bb0(%p: f32, %q: f64):
    %w = arith.extf %p : f32 to f64
    %m = arith.addf %w, %q : f64
    %r = arith.truncf %m : f64 to f32
    dit.yield %r : f32
  }
  %z = dit.map(%x, %t) : (tensor<4xbf16>, tensor<4xf64>) -> tensor<4xbf16> {
  ^bb0(%p: f32, %q: f64):
    %c = arith.constant 1.0e+60 : f64
    %w = arith.extf %p : f32 to f64
    %m = arith.mulf %w, %c : f64
    %n = arith.mulf %m, %q : f64
    %r = arith.truncf %n : f64 to f32
    dit.yield %r : f32
  }
  return %y, %z : tensor<4xbf16>, tensor<4xbf16>
}
