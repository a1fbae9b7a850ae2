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
