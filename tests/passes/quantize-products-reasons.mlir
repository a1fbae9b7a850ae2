// RUN: ditc-opt %s "--ditc-quantize-products=skip=*.proj_out" --remark-format=emitRemark --remarks-filter=fusion 2>&1 | FileCheck %s

// Every reason for which a product stays as it is.
// CHECK: {{\[}}Missed{{\]}} QuantizeProducts {{.*}}Product=wide:linear, Reason=type_unsupported
// CHECK: {{\[}}Missed{{\]}} QuantizeProducts {{.*}}Product=attn:bmm, Reason=no_weight
// CHECK: {{\[}}Missed{{\]}} QuantizeProducts {{.*}}Product=deep:linear, Reason=layout_unsupported
// CHECK: {{\[}}Missed{{\]}} QuantizeProducts {{.*}}Product=narrow:linear, Reason=layout_unsupported
// CHECK: {{\[}}Missed{{\]}} QuantizeProducts {{.*}}Product=experts:bmm, Reason=layout_unsupported
// CHECK: {{\[}}Missed{{\]}} QuantizeProducts {{.*}}Product=norm.linear:linear, Reason=few_rows
// CHECK: {{\[}}Missed{{\]}} QuantizeProducts {{.*}}Product=text:linear, Reason=once_per_generation
// CHECK: {{\[}}Missed{{\]}} QuantizeProducts {{.*}}Product=block.proj_out:linear, Reason=excluded
// CHECK: {{\[}}Missed{{\]}} QuantizeProducts {{.*}}Product=x_embedder:linear, Reason=little_work
// CHECK: {{\[}}Missed{{\]}} QuantizeProducts {{.*}}Product=proj:linear, Reason=little_work
// CHECK-LABEL: func.func @refused
// CHECK-NOT: f8E4M3FN
func.func @refused(%x: tensor<4096x3072xbf16>, %f: tensor<4096x3072xf32>, %d: tensor<4096x3080xbf16>, %e: tensor<2x4096x3072xbf16>, %r: tensor<16x3072xbf16>,
                   %t: tensor<512x3072xbf16> {dit.invariant}, %p: tensor<4096x64xbf16>) {
  %wf = dit.weight "wf" : tensor<3072x3072xf32>
  %w = dit.weight "w" : tensor<3072x3072xbf16>
  %wd = dit.weight "wd" : tensor<3072x3080xbf16>
  %wn = dit.weight "wn" : tensor<3076x3072xbf16>
  %we = dit.weight "we" : tensor<2x3072x3072xbf16>
  %wp = dit.weight "wp" : tensor<3072x64xbf16>
  %wo = dit.weight "wo" : tensor<64x3072xbf16>
  %0 = dit.matmul %f, %wf transpose_rhs : (tensor<4096x3072xf32>, tensor<3072x3072xf32>) -> tensor<4096x3072xf32> loc("linear"("wide"))
  %1 = dit.matmul %x, %x transpose_rhs : (tensor<4096x3072xbf16>, tensor<4096x3072xbf16>) -> tensor<4096x4096xbf16> loc("bmm"("attn"))
  %2 = dit.matmul %d, %wd transpose_rhs : (tensor<4096x3080xbf16>, tensor<3072x3080xbf16>) -> tensor<4096x3072xbf16> loc("linear"("deep"))
  %3 = dit.matmul %x, %wn transpose_rhs : (tensor<4096x3072xbf16>, tensor<3076x3072xbf16>) -> tensor<4096x3076xbf16> loc("linear"("narrow"))
  %4 = dit.matmul %e, %we transpose_rhs : (tensor<2x4096x3072xbf16>, tensor<2x3072x3072xbf16>) -> tensor<2x4096x3072xbf16> loc("bmm"("experts"))
  %5 = dit.matmul %r, %w transpose_rhs : (tensor<16x3072xbf16>, tensor<3072x3072xbf16>) -> tensor<16x3072xbf16> loc("linear"("norm.linear"))
  %6 = dit.matmul %t, %w transpose_rhs : (tensor<512x3072xbf16>, tensor<3072x3072xbf16>) -> tensor<512x3072xbf16> loc("linear"("text"))
  %7 = dit.matmul %x, %w transpose_rhs : (tensor<4096x3072xbf16>, tensor<3072x3072xbf16>) -> tensor<4096x3072xbf16> loc("linear"("block.proj_out"))
  %8 = dit.matmul %p, %wp transpose_rhs : (tensor<4096x64xbf16>, tensor<3072x64xbf16>) -> tensor<4096x3072xbf16> loc("linear"("x_embedder"))
  %9 = dit.matmul %x, %wo transpose_rhs : (tensor<4096x3072xbf16>, tensor<64x3072xbf16>) -> tensor<4096x64xbf16> loc("linear"("proj"))
  return
}
