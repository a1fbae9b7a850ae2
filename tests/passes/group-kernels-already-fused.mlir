// RUN: ditc-opt %s --ditc-group-kernels --remark-format=emitRemark --remarks-filter=fusion 2>&1 | FileCheck %s

// Two products of different widths meet in a sum, which joins one of them.
// CHECK: {{\[}}Missed{{\]}} GroupKernels {{.*}}Kernel=gemm, {{.*}}Reason=already_fused
// CHECK-LABEL: func.func @f
// CHECK-COUNT-2: dit.fusion "gemm"
func.func @f(%x: tensor<64x32xbf16>, %y: tensor<64x48xbf16>, %w: tensor<128x32xbf16>, %v: tensor<128x48xbf16>) -> tensor<64x128xbf16> {
  %m = dit.matmul %x, %w transpose_rhs : (tensor<64x32xbf16>, tensor<128x32xbf16>) -> tensor<64x128xbf16>
  %n = dit.matmul %y, %v transpose_rhs : (tensor<64x48xbf16>, tensor<128x48xbf16>) -> tensor<64x128xbf16>
  %r = dit.map(%m, %n) : (tensor<64x128xbf16>, tensor<64x128xbf16>) -> tensor<64x128xbf16> {
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %b : f32
    dit.yield %s : f32
  }
  return %r : tensor<64x128xbf16>
}

// The projection is stored in any case. To add it to the norm behind the product would save its load, and cost a store and a load
// of the norm, which is otherwise one kernel with the sum.
// CHECK-LABEL: func.func @norm
// CHECK: dit.fusion "gemm"(%arg1, %arg2)
// CHECK: dit.fusion "rowwise"
// CHECK: dit.norm
// CHECK: dit.map
// CHECK-NOT: dit.fusion
func.func @norm(%x: tensor<64x128xbf16>, %y: tensor<64x32xbf16>, %w: tensor<128x32xbf16>) -> (tensor<64x128xbf16>, tensor<64x128xbf16>) {
  %m = dit.matmul %y, %w transpose_rhs : (tensor<64x32xbf16>, tensor<128x32xbf16>) -> tensor<64x128xbf16>
  %n = dit.norm layer %x axes 1 eps 1.0e-6 : (tensor<64x128xbf16>) -> tensor<64x128xbf16>
  %s = dit.map(%n, %m) : (tensor<64x128xbf16>, tensor<64x128xbf16>) -> tensor<64x128xbf16> {
  ^bb0(%p: f32, %q: f32):
    %r = arith.addf %p, %q : f32
    dit.yield %r : f32
  }
  return %s, %m : tensor<64x128xbf16>, tensor<64x128xbf16>
}
