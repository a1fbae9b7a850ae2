// RUN: ditc-opt %s --ditc-pad-addends --split-input-file | FileCheck %s

// Text rows, image rows with what a ControlNet gave, text again: one sum. The border leaves every number as it is.
// CHECK-LABEL: @middle
// CHECK: %[[P:.*]] = dit.pad %arg1 low [0, 2, 0] high [0, 1, 0] value -0.000000e+00 : bf16 : tensor<1x4x8xbf16> -> tensor<1x7x8xbf16>
// CHECK-NEXT: %[[S:.*]] = dit.map(%[[P]], %arg0)
// CHECK-NOT: dit.concat
// CHECK: return %[[S]]
func.func @middle(%x: tensor<1x7x8xbf16>, %r: tensor<1x4x8xbf16>) -> tensor<1x7x8xbf16> {
  %t = dit.slice %x offsets [0, 0, 0] steps [1, 1, 1] : tensor<1x7x8xbf16> -> tensor<1x2x8xbf16>
  %i = dit.slice %x offsets [0, 2, 0] steps [1, 1, 1] : tensor<1x7x8xbf16> -> tensor<1x4x8xbf16>
  %u = dit.slice %x offsets [0, 6, 0] steps [1, 1, 1] : tensor<1x7x8xbf16> -> tensor<1x1x8xbf16>
  %s = dit.map(%r, %i) : (tensor<1x4x8xbf16>, tensor<1x4x8xbf16>) -> tensor<1x4x8xbf16> {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    dit.yield %c : f32
  }
  %y = dit.concat(%t, %s, %u) axis 1 : (tensor<1x2x8xbf16>, tensor<1x4x8xbf16>, tensor<1x1x8xbf16>) -> tensor<1x7x8xbf16>
  return %y : tensor<1x7x8xbf16>
}

// -----

// No number leaves a product as it is but 1, which a scale is not padded with.
// CHECK-LABEL: @product
// CHECK: dit.concat
func.func @product(%x: tensor<6x8xf32>, %r: tensor<4x8xf32>) -> tensor<6x8xf32> {
  %t = dit.slice %x offsets [0, 0] steps [1, 1] : tensor<6x8xf32> -> tensor<2x8xf32>
  %i = dit.slice %x offsets [2, 0] steps [1, 1] : tensor<6x8xf32> -> tensor<4x8xf32>
  %s = dit.map(%i, %r) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> {
  ^bb0(%a: f32, %b: f32):
    %c = arith.mulf %a, %b : f32
    dit.yield %c : f32
  }
  %y = dit.concat(%t, %s) axis 0 : (tensor<2x8xf32>, tensor<4x8xf32>) -> tensor<6x8xf32>
  return %y : tensor<6x8xf32>
}

// -----

// The parts change places.
// CHECK-LABEL: @other_order
// CHECK: dit.concat
func.func @other_order(%x: tensor<6x8xf32>, %r: tensor<4x8xf32>) -> tensor<6x8xf32> {
  %t = dit.slice %x offsets [0, 0] steps [1, 1] : tensor<6x8xf32> -> tensor<2x8xf32>
  %i = dit.slice %x offsets [2, 0] steps [1, 1] : tensor<6x8xf32> -> tensor<4x8xf32>
  %s = dit.map(%i, %r) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    dit.yield %c : f32
  }
  %y = dit.concat(%s, %t) axis 0 : (tensor<4x8xf32>, tensor<2x8xf32>) -> tensor<6x8xf32>
  return %y : tensor<6x8xf32>
}

// -----

// The sum is read by itself as well, or is of another type: other rows would be computed for it, or rounded.
// CHECK-LABEL: @sum_is_read
// CHECK: dit.concat
func.func @sum_is_read(%x: tensor<6x8xf32>, %r: tensor<4x8xf32>) -> (tensor<6x8xf32>, tensor<4x8xf32>) {
  %t = dit.slice %x offsets [0, 0] steps [1, 1] : tensor<6x8xf32> -> tensor<2x8xf32>
  %i = dit.slice %x offsets [2, 0] steps [1, 1] : tensor<6x8xf32> -> tensor<4x8xf32>
  %s = dit.map(%i, %r) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    dit.yield %c : f32
  }
  %y = dit.concat(%t, %s) axis 0 : (tensor<2x8xf32>, tensor<4x8xf32>) -> tensor<6x8xf32>
  return %y, %s : tensor<6x8xf32>, tensor<4x8xf32>
}
