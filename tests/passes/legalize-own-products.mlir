// RUN: ditc-opt %s --ditc-legalize-for-sm90a | FileCheck %s

// Six products of one input, whose weights are not worth a copy: Hopper's kernel has four and two of them. No call of a library.
// CHECK-LABEL: func.func @six
// CHECK: dit.fusion "gemm"
// CHECK-COUNT-4: dit.matmul
// CHECK-NOT: dit.matmul
// CHECK: dit.fusion "gemm"
// CHECK-COUNT-2: dit.matmul
// CHECK-NOT: dit.matmul
func.func @six(%x: tensor<512x4096xbf16>) -> (tensor<512x4096xbf16>, tensor<512x4096xbf16>, tensor<512x4096xbf16>, tensor<512x4096xbf16>, tensor<512x4096xbf16>, tensor<512x4096xbf16>) {
  %w0 = dit.weight "w0" : tensor<4096x4096xbf16>
  %w1 = dit.weight "w1" : tensor<4096x4096xbf16>
  %w2 = dit.weight "w2" : tensor<4096x4096xbf16>
  %w3 = dit.weight "w3" : tensor<4096x4096xbf16>
  %w4 = dit.weight "w4" : tensor<4096x4096xbf16>
  %w5 = dit.weight "w5" : tensor<4096x4096xbf16>
  %y:6 = dit.fusion "gemm"(%x, %w0, %w1, %w2, %w3, %w4, %w5) : (tensor<512x4096xbf16>, tensor<4096x4096xbf16>, tensor<4096x4096xbf16>, tensor<4096x4096xbf16>, tensor<4096x4096xbf16>, tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> (tensor<512x4096xbf16>, tensor<512x4096xbf16>, tensor<512x4096xbf16>, tensor<512x4096xbf16>, tensor<512x4096xbf16>, tensor<512x4096xbf16>) {
  ^bb0(%a: tensor<512x4096xbf16>, %b0: tensor<4096x4096xbf16>, %b1: tensor<4096x4096xbf16>, %b2: tensor<4096x4096xbf16>, %b3: tensor<4096x4096xbf16>, %b4: tensor<4096x4096xbf16>, %b5: tensor<4096x4096xbf16>):
    %m0 = dit.matmul %a, %b0 transpose_rhs : (tensor<512x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<512x4096xbf16>
    %m1 = dit.matmul %a, %b1 transpose_rhs : (tensor<512x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<512x4096xbf16>
    %m2 = dit.matmul %a, %b2 transpose_rhs : (tensor<512x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<512x4096xbf16>
    %m3 = dit.matmul %a, %b3 transpose_rhs : (tensor<512x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<512x4096xbf16>
    %m4 = dit.matmul %a, %b4 transpose_rhs : (tensor<512x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<512x4096xbf16>
    %m5 = dit.matmul %a, %b5 transpose_rhs : (tensor<512x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<512x4096xbf16>
    dit.yield %m0, %m1, %m2, %m3, %m4, %m5 : tensor<512x4096xbf16>, tensor<512x4096xbf16>, tensor<512x4096xbf16>, tensor<512x4096xbf16>, tensor<512x4096xbf16>, tensor<512x4096xbf16>
  }
  return %y#0, %y#1, %y#2, %y#3, %y#4, %y#5 : tensor<512x4096xbf16>, tensor<512x4096xbf16>, tensor<512x4096xbf16>, tensor<512x4096xbf16>, tensor<512x4096xbf16>, tensor<512x4096xbf16>
}
