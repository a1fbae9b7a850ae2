// RUN: ditc-opt %s --ditc-quantize-products="only=blocks.*.ff" --remark-format=emitRemark --remarks-filter=fusion 2>&1 | FileCheck %s

// What is named is quantised whatever it saves, and nothing else.
// CHECK: {{\[}}Passed{{\]}} QuantizeProducts {{.*}}Product=blocks.0.ff:linear
// CHECK: {{\[}}Missed{{\]}} QuantizeProducts {{.*}}Product=blocks.0.attn:linear_1, Reason=excluded
// CHECK-LABEL: func.func @f
// CHECK: dit.matmul {{.*}} -> tensor<32x64xf32>
// CHECK: dit.matmul {{.*}} -> tensor<32x64xbf16>
func.func @f(%x: tensor<32x64xbf16>) -> (tensor<32x64xbf16>, tensor<32x64xbf16>) {
  %w = dit.weight "w" : tensor<64x64xbf16>
  %y = dit.matmul %x, %w transpose_rhs : (tensor<32x64xbf16>, tensor<64x64xbf16>) -> tensor<32x64xbf16> loc("linear"("blocks.0.ff"))
  %z = dit.matmul %x, %w transpose_rhs : (tensor<32x64xbf16>, tensor<64x64xbf16>) -> tensor<32x64xbf16> loc("linear_1"("blocks.0.attn"))
  return %y, %z : tensor<32x64xbf16>, tensor<32x64xbf16>
}
