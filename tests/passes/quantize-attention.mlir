// RUN: ditc-opt %s "--ditc-quantize-attention=skip=*.excluded" --remark-format=emitRemark --remarks-filter=fusion 2>&1 | FileCheck %s
// RUN: ditc-opt %s "--ditc-quantize-attention=only=*.cross" --remark-format=emitRemark --remarks-filter=fusion 2>&1 | FileCheck %s --check-prefix=ONLY

// Every reason for which an attention stays as it is.
// CHECK: {{\[}}Passed{{\]}} QuantizeAttention {{.*}}Attention=blocks.0.attn:sdpa, Flops=2.6
// CHECK: {{\[}}Missed{{\]}} QuantizeAttention {{.*}}Attention=wide:sdpa, {{.*}}Reason=type_unsupported
// CHECK: {{\[}}Missed{{\]}} QuantizeAttention {{.*}}Attention=head:sdpa, {{.*}}Reason=layout_unsupported
// CHECK: {{\[}}Missed{{\]}} QuantizeAttention {{.*}}Attention=value_head:sdpa, {{.*}}Reason=layout_unsupported
// CHECK: {{\[}}Missed{{\]}} QuantizeAttention {{.*}}Attention=text:sdpa, {{.*}}Reason=once_per_generation
// CHECK: {{\[}}Missed{{\]}} QuantizeAttention {{.*}}Attention=blocks.1.excluded:sdpa, {{.*}}Reason=excluded
// CHECK: {{\[}}Missed{{\]}} QuantizeAttention {{.*}}Attention=blocks.0.cross:sdpa, {{.*}}Reason=little_work
// CHECK: {{\[}}Missed{{\]}} QuantizeAttention {{.*}}Attention=small:sdpa, {{.*}}Reason=little_work
// CHECK: {{\[}}Missed{{\]}} QuantizeAttention {{.*}}Attention=added:sdpa, {{.*}}Reason=computed_scores
// CHECK: {{\[}}Missed{{\]}} QuantizeAttention {{.*}}Attention=capped:sdpa, {{.*}}Reason=computed_scores
// CHECK-LABEL: func.func @f
// CHECK: dit.attention {{.*}} scale 1.000000e+00 quantized :
// CHECK-NOT: quantized

// What is named is quantised whatever it saves, and nothing else.
// ONLY: {{\[}}Missed{{\]}} QuantizeAttention {{.*}}Attention=blocks.0.attn:sdpa, {{.*}}Reason=excluded
// ONLY: {{\[}}Passed{{\]}} QuantizeAttention {{.*}}Attention=blocks.0.cross:sdpa
// ONLY-COUNT-6: scale 1.000000e+00 :
// ONLY: scale 1.000000e+00 quantized :
// ONLY-COUNT-2: scale 1.000000e+00 :
func.func @f(%q: tensor<1x24x4608x128xbf16>, %f: tensor<1x24x4608x128xf32>, %w: tensor<1x8x4608x320xbf16>, %v: tensor<1x24x4608x320xbf16>,
             %t: tensor<1x24x4608x128xbf16> {dit.invariant}, %c: tensor<1x24x512x128xbf16> {dit.invariant}, %s: tensor<1x2x128x64xbf16>, %m: tensor<1x1x1x4608xbf16>) {
  %0 = dit.attention %q, %q, %q scale 1.0 : (tensor<1x24x4608x128xbf16>, tensor<1x24x4608x128xbf16>, tensor<1x24x4608x128xbf16>) -> tensor<1x24x4608x128xbf16> loc("sdpa"("blocks.0.attn"))
  %1 = dit.attention %f, %f, %f scale 1.0 : (tensor<1x24x4608x128xf32>, tensor<1x24x4608x128xf32>, tensor<1x24x4608x128xf32>) -> tensor<1x24x4608x128xf32> loc("sdpa"("wide"))
  %2 = dit.attention %w, %w, %w scale 1.0 : (tensor<1x8x4608x320xbf16>, tensor<1x8x4608x320xbf16>, tensor<1x8x4608x320xbf16>) -> tensor<1x8x4608x320xbf16> loc("sdpa"("head"))
  %3 = dit.attention %q, %q, %v scale 1.0 : (tensor<1x24x4608x128xbf16>, tensor<1x24x4608x128xbf16>, tensor<1x24x4608x320xbf16>) -> tensor<1x24x4608x320xbf16> loc("sdpa"("value_head"))
  %4 = dit.attention %t, %t, %t scale 1.0 : (tensor<1x24x4608x128xbf16>, tensor<1x24x4608x128xbf16>, tensor<1x24x4608x128xbf16>) -> tensor<1x24x4608x128xbf16> loc("sdpa"("text"))
  %5 = dit.attention %q, %q, %q scale 1.0 : (tensor<1x24x4608x128xbf16>, tensor<1x24x4608x128xbf16>, tensor<1x24x4608x128xbf16>) -> tensor<1x24x4608x128xbf16> loc("sdpa"("blocks.1.excluded"))
  %6 = dit.attention %q, %c, %c scale 1.0 : (tensor<1x24x4608x128xbf16>, tensor<1x24x512x128xbf16>, tensor<1x24x512x128xbf16>) -> tensor<1x24x4608x128xbf16> loc("sdpa"("blocks.0.cross"))
  %7 = dit.attention %s, %s, %s scale 1.0 : (tensor<1x2x128x64xbf16>, tensor<1x2x128x64xbf16>, tensor<1x2x128x64xbf16>) -> tensor<1x2x128x64xbf16> loc("sdpa"("small"))
  %8 = dit.attention %q, %q, %q mask %m scale 1.0 : (tensor<1x24x4608x128xbf16>, tensor<1x24x4608x128xbf16>, tensor<1x24x4608x128xbf16>, tensor<1x1x1x4608xbf16>) -> tensor<1x24x4608x128xbf16> loc("sdpa"("added"))
  %9 = dit.attention %q, %q, %q scale 1.0 soft_cap 30.0 : (tensor<1x24x4608x128xbf16>, tensor<1x24x4608x128xbf16>, tensor<1x24x4608x128xbf16>) -> tensor<1x24x4608x128xbf16> loc("sdpa"("capped"))
  return
}
