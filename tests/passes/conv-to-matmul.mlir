// RUN: ditc-opt %s --split-input-file --ditc-conv-to-matmul --canonicalize --cse | FileCheck %s

// The flatten and transpose behind a patch embedding cancel the permutation of the product.
// CHECK-LABEL: func.func @tokens
// CHECK: %[[M:.*]] = dit.matmul {{.*}} -> tensor<2x12x16xf32>
// CHECK-NEXT: return %[[M]]
func.func @tokens(%x: tensor<2x4x8x6xf32>, %w: tensor<16x4x2x2xf32>) -> tensor<2x12x16xf32> {
  %y = dit.conv %x, %w {dilations = array<i64: 1, 1>, groups = 1 : i64, padding_high = array<i64: 0, 0>, padding_low = array<i64: 0, 0>, strides = array<i64: 2, 2>} : (tensor<2x4x8x6xf32>, tensor<16x4x2x2xf32>) -> tensor<2x16x4x3xf32>
  %f = dit.view %y : tensor<2x16x4x3xf32> -> tensor<2x16x12xf32>
  %t = dit.permute %f [0, 2, 1] : tensor<2x16x12xf32> -> tensor<2x12x16xf32>
  return %t : tensor<2x12x16xf32>
}

// -----

// A last row that fills no window is cut off.
// CHECK-LABEL: func.func @edge
// CHECK: dit.slice %arg0 offsets [0, 0, 0] steps [1, 1, 1] : tensor<1x4x7xf32> -> tensor<1x4x6xf32>
// CHECK: dit.matmul
func.func @edge(%x: tensor<1x4x7xf32>, %w: tensor<16x4x3xf32>) -> tensor<1x16x2xf32> {
  %y = dit.conv %x, %w {dilations = array<i64: 1>, groups = 1 : i64, padding_high = array<i64: 0>, padding_low = array<i64: 0>, strides = array<i64: 3>} : (tensor<1x4x7xf32>, tensor<16x4x3xf32>) -> tensor<1x16x2xf32>
  return %y : tensor<1x16x2xf32>
}

// -----

// A 1x1 convolution reads the image through strides: no copy.
// CHECK-LABEL: func.func @pointwise
// CHECK: %[[V:.*]] = dit.view %arg0 : tensor<1x4x6x5xf32> -> tensor<1x4x30xf32>
// CHECK: %[[P:.*]] = dit.permute %[[V]] [0, 2, 1]
// CHECK: dit.matmul %[[P]]
func.func @pointwise(%x: tensor<1x4x6x5xf32>, %w: tensor<8x4x1x1xf32>) -> tensor<1x8x6x5xf32> {
  %y = dit.conv %x, %w {dilations = array<i64: 1, 1>, groups = 1 : i64, padding_high = array<i64: 0, 0>, padding_low = array<i64: 0, 0>, strides = array<i64: 1, 1>} : (tensor<1x4x6x5xf32>, tensor<8x4x1x1xf32>) -> tensor<1x8x6x5xf32>
  return %y : tensor<1x8x6x5xf32>
}

// -----

// Windows that overlap, groups and padding stay convolutions.
// CHECK-LABEL: func.func @others
// CHECK-COUNT-3: dit.conv
// CHECK-NOT: dit.matmul
func.func @others(%x: tensor<1x4x8xf32>, %w: tensor<4x4x3xf32>, %g: tensor<4x1x2xf32>) -> (tensor<1x4x3xf32>, tensor<1x4x4xf32>, tensor<1x4x3xf32>) {
  %a = dit.conv %x, %w {dilations = array<i64: 1>, groups = 1 : i64, padding_high = array<i64: 0>, padding_low = array<i64: 0>, strides = array<i64: 2>} : (tensor<1x4x8xf32>, tensor<4x4x3xf32>) -> tensor<1x4x3xf32>
  %b = dit.conv %x, %g {dilations = array<i64: 1>, groups = 4 : i64, padding_high = array<i64: 0>, padding_low = array<i64: 0>, strides = array<i64: 2>} : (tensor<1x4x8xf32>, tensor<4x1x2xf32>) -> tensor<1x4x4xf32>
  %c = dit.conv %x, %w {dilations = array<i64: 1>, groups = 1 : i64, padding_high = array<i64: 1>, padding_low = array<i64: 0>, strides = array<i64: 3>} : (tensor<1x4x8xf32>, tensor<4x4x3xf32>) -> tensor<1x4x3xf32>
  return %a, %b, %c : tensor<1x4x3xf32>, tensor<1x4x4xf32>, tensor<1x4x3xf32>
}
