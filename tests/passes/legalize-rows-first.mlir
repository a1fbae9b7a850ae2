// RUN: ditc-opt %s --ditc-legalize-for-sm90a | FileCheck %s

// Normalised queries of 16 tokens (temporal attention), heads in front of tokens: runs of 16 rows would leave most of each tile empty.
// The product stores tokens in front of heads, and attention reads heads where they are.
// CHECK-LABEL: func.func @few_tokens
// CHECK: %[[Y:.*]] = dit.fusion "gemm"
// CHECK: dit.norm
// CHECK: dit.yield {{.*}} : tensor<2048x16x2x64xbf16>
// CHECK: dit.permute %[[Y]] [0, 2, 1, 3] : tensor<2048x16x2x64xbf16> -> tensor<2048x2x16x64xbf16>
func.func @few_tokens(%x: tensor<2048x16x1152xbf16>) -> tensor<2048x2x16x64xbf16> {
  %w = dit.weight "w" : tensor<128x1152xbf16>
  %y = dit.fusion "gemm"(%x, %w) : (tensor<2048x16x1152xbf16>, tensor<128x1152xbf16>) -> tensor<2048x2x16x64xbf16> {
  ^bb0(%a: tensor<2048x16x1152xbf16>, %b: tensor<128x1152xbf16>):
    %m = dit.matmul %a, %b transpose_rhs : (tensor<2048x16x1152xbf16>, tensor<128x1152xbf16>) -> tensor<2048x16x128xbf16>
    %v = dit.view %m : tensor<2048x16x128xbf16> -> tensor<2048x16x2x64xbf16>
    %p = dit.permute %v [0, 2, 1, 3] : tensor<2048x16x2x64xbf16> -> tensor<2048x2x16x64xbf16>
    %n = dit.norm layer %p axes 1 eps 1.000000e-05 : (tensor<2048x2x16x64xbf16>) -> tensor<2048x2x16x64xbf16>
    dit.yield %n : tensor<2048x2x16x64xbf16>
  }
  return %y : tensor<2048x2x16x64xbf16>
}
