// RUN: ditc-opt %s --ditc-legalize-for-host | FileCheck %s

// The BLAS gets fp8 operands as f32, and the product is not rounded on its way to what it is wanted in.
// CHECK-LABEL: func.func @float8
// CHECK: %[[X:.*]] = dit.map(%arg0) : (tensor<4x8xf8E4M3FN>) -> tensor<4x8xf32>
// CHECK: %[[W:.*]] = dit.map(%arg1) : (tensor<16x8xf8E4M3FN>) -> tensor<16x8xf32>
// CHECK: %[[M:.*]] = dit.matmul %[[X]], %[[W]] transpose_rhs : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
// CHECK: dit.map(%[[M]], {{.*}}) : (tensor<4x16xf32>, tensor<1x16xbf16>) -> tensor<4x16xf32>
func.func @float8(%x: tensor<4x8xf8E4M3FN>, %w: tensor<16x8xf8E4M3FN>, %b: tensor<16xbf16>) -> tensor<4x16xf32> {
  %y = dit.matmul %x, %w bias %b transpose_rhs : (tensor<4x8xf8E4M3FN>, tensor<16x8xf8E4M3FN>, tensor<16xbf16>) -> tensor<4x16xf32>
  return %y : tensor<4x16xf32>
}

// Linear attention is products again: of values and keys in every part, and of queries with what all parts have.
// CHECK-LABEL: func.func @linear
// CHECK: %[[K:.*]] = dit.map(%arg0)
// CHECK: arith.maximumf
// CHECK: dit.pad {{.*}} value 1.000000e+00
// CHECK: dit.matmul {{.*}} : (tensor<2x1x3x5x32xf32>, tensor<2x1x3x32x6xf32>) -> tensor<2x1x3x5x6xf32>
// CHECK: dit.reduce sum {{.*}} axes [0]
// CHECK: dit.matmul {{.*}} transpose_rhs : (tensor<1x3x64x6xf32>, tensor<1x3x5x6xf32>) -> tensor<1x3x64x5xf32>
// CHECK: dit.map({{.*}}) : (tensor<1x3x64x4xf32>, tensor<1x3x64x1xf32>) -> tensor<1x3x64x4xbf16>
func.func @linear(%k: tensor<1x3x64x6xbf16>, %v: tensor<1x3x64x4xbf16>, %q: tensor<1x3x64x6xbf16>) -> tensor<1x3x64x4xbf16> {
  %s = dit.linear_state %k, %v relu normaliser : (tensor<1x3x64x6xbf16>, tensor<1x3x64x4xbf16>) -> tensor<2x1x3x5x6xf32>
  %y = dit.linear_apply %q, %s relu normaliser epsilon 1.0e-15 : (tensor<1x3x64x6xbf16>, tensor<2x1x3x5x6xf32>) -> tensor<1x3x64x4xbf16>
  return %y : tensor<1x3x64x4xbf16>
}
