// RUN: ditc-opt %s --split-input-file --ditc-group-kernels | FileCheck %s

// Independent products of few rows are one launch, whatever their inputs and weights: memory is read without a pause.
// CHECK-LABEL: func.func @independent
// CHECK-COUNT-1: dit.fusion "gemv"
// CHECK-NOT: dit.fusion
func.func @independent(%t: tensor<2x256xbf16>, %p: tensor<2x768xbf16>) -> (tensor<2x1152xbf16>, tensor<2x3072xbf16>) {
  %w = dit.weight "a" : tensor<1152x256xbf16>
  %v = dit.weight "b" : tensor<3072x768xbf16>
  %a = dit.matmul %t, %w transpose_rhs : (tensor<2x256xbf16>, tensor<1152x256xbf16>) -> tensor<2x1152xbf16>
  %b = dit.matmul %p, %v transpose_rhs : (tensor<2x768xbf16>, tensor<3072x768xbf16>) -> tensor<2x3072xbf16>
  return %a, %b : tensor<2x1152xbf16>, tensor<2x3072xbf16>
}

// -----

// One that reads the other's result waits for it.
// CHECK-LABEL: func.func @dependent
// CHECK-COUNT-2: dit.fusion "gemv"
func.func @dependent(%t: tensor<2x256xbf16>) -> tensor<2x64xbf16> {
  %w = dit.weight "a" : tensor<256x256xbf16>
  %v = dit.weight "b" : tensor<64x256xbf16>
  %a = dit.matmul %t, %w transpose_rhs : (tensor<2x256xbf16>, tensor<256x256xbf16>) -> tensor<2x256xbf16>
  %b = dit.matmul %a, %v transpose_rhs : (tensor<2x256xbf16>, tensor<64x256xbf16>) -> tensor<2x64xbf16>
  return %b : tensor<2x64xbf16>
}

// -----

// Types differ.
// CHECK-LABEL: func.func @types
// CHECK-COUNT-2: dit.fusion "gemv"
func.func @types(%t: tensor<2x256xbf16>, %p: tensor<2x256xf16>) -> (tensor<2x64xbf16>, tensor<2x64xf16>) {
  %w = dit.weight "a" : tensor<64x256xbf16>
  %v = dit.weight "b" : tensor<64x256xf16>
  %a = dit.matmul %t, %w transpose_rhs : (tensor<2x256xbf16>, tensor<64x256xbf16>) -> tensor<2x64xbf16>
  %b = dit.matmul %p, %v transpose_rhs : (tensor<2x256xf16>, tensor<64x256xf16>) -> tensor<2x64xf16>
  return %a, %b : tensor<2x64xbf16>, tensor<2x64xf16>
}
