// RUN: ditc-opt %s --ditc-legalize-for-sm90a --remark-format=emitRemark --remarks-filter=fusion 2>&1 | FileCheck %s
// RUN: ditc-opt %s --ditc-plan-attention --remark-format=emitRemark --remarks-filter=fusion 2>&1 | FileCheck %s --check-prefix=ATTENTION
// RUN: ditc-opt %s --ditc-legalize-for-cuda --remark-format=emitRemark --remarks-filter=fusion 2>&1 | FileCheck %s --check-prefix=EAGER

// Heads of 68 columns fit no tile.
// CHECK: {{\[}}Missed{{\]}} TargetKernels {{.*}}Deviation=taken_apart{{.*}}Kernel=gemm{{.*}}Reason=head_splits_tile
// CHECK-NOT: {{\[}}Missed{{\]}}

// Every rounding of the graph is kept, as `--numerics eager` asks: the product's, in front of the norm.
// EAGER: {{\[}}Missed{{\]}} TargetKernels {{.*}}Deviation=taken_apart{{.*}}Kernel=gemm{{.*}}Reason=keeps_roundings
// EAGER-NOT: {{\[}}Missed{{\]}}
func.func @heads(%x: tensor<64x32xbf16>, %w: tensor<136x32xbf16>) -> tensor<64x2x68xbf16> {
  %y = dit.fusion "gemm"(%x, %w) : (tensor<64x32xbf16>, tensor<136x32xbf16>) -> tensor<64x2x68xbf16> {
  ^bb0(%a: tensor<64x32xbf16>, %b: tensor<136x32xbf16>):
    %m = dit.matmul %a, %b transpose_rhs : (tensor<64x32xbf16>, tensor<136x32xbf16>) -> tensor<64x136xbf16>
    %h = dit.view %m : tensor<64x136xbf16> -> tensor<64x2x68xbf16>
    %n = dit.norm rms %h axes 1 eps 1.0e-6 : (tensor<64x2x68xbf16>) -> tensor<64x2x68xbf16>
    dit.yield %n : tensor<64x2x68xbf16>
  }
  return %y : tensor<64x2x68xbf16>
}

// A result in f32 is the reason, not the other one's heads of 136, which only a view makes.
// CHECK: {{\[}}Missed{{\]}} TargetKernels {{.*}}Deviation=taken_apart{{.*}}Kernel=gemm{{.*}}Reason=type_unsupported
// CHECK-NOT: {{\[}}Missed{{\]}}
// EAGER: {{\[}}Missed{{\]}} TargetKernels {{.*}}Deviation=taken_apart{{.*}}Kernel=gemm{{.*}}Reason=keeps_roundings
func.func @wide_result(%x: tensor<64x32xbf16>, %w: tensor<272x32xbf16>) -> (tensor<64x2x136xbf16>, tensor<64x2x136xf32>) {
  %y:2 = dit.fusion "gemm"(%x, %w) : (tensor<64x32xbf16>, tensor<272x32xbf16>) -> (tensor<64x2x136xbf16>, tensor<64x2x136xf32>) {
  ^bb0(%a: tensor<64x32xbf16>, %b: tensor<272x32xbf16>):
    %m = dit.matmul %a, %b transpose_rhs : (tensor<64x32xbf16>, tensor<272x32xbf16>) -> tensor<64x272xbf16>
    %h = dit.view %m : tensor<64x272xbf16> -> tensor<64x2x136xbf16>
    %n = dit.map(%h) : (tensor<64x2x136xbf16>) -> tensor<64x2x136xf32> {
    ^bb0(%p: f32):
      %q = math.exp %p : f32
      dit.yield %q : f32
    }
    dit.yield %h, %n : tensor<64x2x136xbf16>, tensor<64x2x136xf32>
  }
  return %y#0, %y#1 : tensor<64x2x136xbf16>, tensor<64x2x136xf32>
}

// Attention on them has another kernel than Hopper's.
// ATTENTION: {{\[}}Missed{{\]}} TargetKernels {{.*}}Deviation=slower_kernel{{.*}}Kernel=attention{{.*}}Reason=head_splits_tile
// ATTENTION-NOT: {{\[}}Missed{{\]}}
plan.program @b inputs ["q", "k", "v"] outputs ["y", "z"] {
  %q = plan.buffer input {index = 0 : i64} : memref<1x2x64x68xbf16>
  %k = plan.buffer input {index = 1 : i64} : memref<1x2x200x68xbf16>
  %v = plan.buffer input {index = 2 : i64} : memref<1x2x200x64xbf16>
  %y = plan.buffer output {index = 0 : i64} : memref<1x2x64x64xbf16>
  %z = plan.buffer output {index = 1 : i64} : memref<1x2x64x64xbf16>
  plan.prepare {
  }
  plan.step {
    plan.launch @attention(%q, %k, %v, %y) : memref<1x2x64x68xbf16>, memref<1x2x200x68xbf16>, memref<1x2x200x64xbf16>, memref<1x2x64x64xbf16>
    plan.launch @whole(%y, %v, %v, %z) : memref<1x2x64x64xbf16>, memref<1x2x200x64xbf16>, memref<1x2x200x64xbf16>, memref<1x2x64x64xbf16>
  }
}
plan.kernel @attention family "attention" args [memref<1x2x64x68xbf16>, memref<1x2x200x68xbf16>, memref<1x2x200x64xbf16>, memref<1x2x64x64xbf16>] outputs 1
  config {alignments = array<i64: 16, 16, 16, 16>, causal = false, has_mask = false, scale = 0.125 : f64} {
}
plan.kernel @whole family "attention" args [memref<1x2x64x64xbf16>, memref<1x2x200x64xbf16>, memref<1x2x200x64xbf16>, memref<1x2x64x64xbf16>] outputs 1
  config {alignments = array<i64: 16, 16, 16, 16>, causal = false, has_mask = false, scale = 0.125 : f64} {
}
