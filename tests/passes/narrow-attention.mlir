// RUN: ditc-opt %s --ditc-narrow-attention --split-input-file | FileCheck %s

// Copies behind views, and a mask that stays as it is.
// CHECK-LABEL: @through_views
// CHECK-NOT: f32):
// CHECK: dit.attention {{.*}} mask %arg1 scale {{.*}} : (tensor<1x2x6x8xbf16>, tensor<1x2x6x8xbf16>, tensor<1x2x6x8xbf16>, tensor<1x1x6x6xf32>) -> tensor<1x2x6x8xbf16>
// CHECK-NEXT: %[[P:.*]] = dit.permute
// CHECK-NEXT: %[[V:.*]] = dit.view %[[P]] : tensor<1x6x2x8xbf16> -> tensor<6x16xbf16>
// CHECK-NEXT: return %[[V]]
func.func @through_views(%x: tensor<1x6x16xbf16>, %m: tensor<1x1x6x6xf32>) -> tensor<6x16xbf16> {
  %c = dit.map(%x) : (tensor<1x6x16xbf16>) -> tensor<1x6x16xf32> {
  ^bb0(%a: f32):
    dit.yield %a : f32
  }
  %v = dit.view %c : tensor<1x6x16xf32> -> tensor<1x6x2x8xf32>
  %p = dit.permute %v [0, 2, 1, 3] : tensor<1x6x2x8xf32> -> tensor<1x2x6x8xf32>
  %o = dit.attention %p, %p, %p mask %m scale 1.0 : (tensor<1x2x6x8xf32>, tensor<1x2x6x8xf32>, tensor<1x2x6x8xf32>, tensor<1x1x6x6xf32>) -> tensor<1x2x6x8xf32>
  %b = dit.permute %o [0, 2, 1, 3] : tensor<1x2x6x8xf32> -> tensor<1x6x2x8xf32>
  %w = dit.view %b : tensor<1x6x2x8xf32> -> tensor<6x16xf32>
  %y = dit.map(%w) : (tensor<6x16xf32>) -> tensor<6x16xbf16> {
  ^bb0(%a: f32):
    dit.yield %a : f32
  }
  return %y : tensor<6x16xbf16>
}

// -----

// The result is wanted in f32.
// CHECK-LABEL: @wide_result
// CHECK: dit.attention {{.*}} -> tensor<1x2x6x8xf32>
func.func @wide_result(%x: tensor<1x2x6x8xbf16>) -> tensor<1x2x6x8xf32> {
  %c = dit.map(%x) : (tensor<1x2x6x8xbf16>) -> tensor<1x2x6x8xf32> {
  ^bb0(%a: f32):
    dit.yield %a : f32
  }
  %o = dit.attention %c, %c, %c scale 1.0 : (tensor<1x2x6x8xf32>, tensor<1x2x6x8xf32>, tensor<1x2x6x8xf32>) -> tensor<1x2x6x8xf32>
  return %o : tensor<1x2x6x8xf32>
}

// -----

// Queries that were computed in f32 are no copies.
// CHECK-LABEL: @wide_query
// CHECK: dit.attention {{.*}} -> tensor<1x2x6x8xf32>
func.func @wide_query(%q: tensor<1x2x6x8xf32>, %x: tensor<1x2x6x8xbf16>) -> tensor<1x2x6x8xbf16> {
  %c = dit.map(%x) : (tensor<1x2x6x8xbf16>) -> tensor<1x2x6x8xf32> {
  ^bb0(%a: f32):
    dit.yield %a : f32
  }
  %o = dit.attention %q, %c, %c scale 1.0 : (tensor<1x2x6x8xf32>, tensor<1x2x6x8xf32>, tensor<1x2x6x8xf32>) -> tensor<1x2x6x8xf32>
  %y = dit.map(%o) : (tensor<1x2x6x8xf32>) -> tensor<1x2x6x8xbf16> {
  ^bb0(%a: f32):
    dit.yield %a : f32
  }
  return %y : tensor<1x2x6x8xbf16>
}

// -----

// A result in f32 of operands in 16 bits that is rounded to their type.
// CHECK-LABEL: @rounded_result
// CHECK-NEXT: %[[O:.*]] = dit.attention {{.*}} -> tensor<1x2x6x8xbf16>
// CHECK-NEXT: return %[[O]]
func.func @rounded_result(%x: tensor<1x2x6x8xbf16>) -> tensor<1x2x6x8xbf16> {
  %o = dit.attention %x, %x, %x scale 1.0 : (tensor<1x2x6x8xbf16>, tensor<1x2x6x8xbf16>, tensor<1x2x6x8xbf16>) -> tensor<1x2x6x8xf32>
  %y = dit.map(%o) : (tensor<1x2x6x8xf32>) -> tensor<1x2x6x8xbf16> {
  ^bb0(%a: f32):
    dit.yield %a : f32
  }
  return %y : tensor<1x2x6x8xbf16>
}
