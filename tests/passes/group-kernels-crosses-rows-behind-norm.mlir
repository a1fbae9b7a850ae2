// RUN: ditc-opt %s --ditc-group-kernels --remark-format=emitRemark --remarks-filter=fusion 2>&1 | FileCheck %s
// RUN: ditc-opt %s --ditc-group-kernels --ditc-legalize-for-sm90a --canonicalize --ditc-lower-to-plan=device=true | FileCheck %s --check-prefix=PLAN

// Behind a norm of rows: a sum over the rows would compute the norm again for every column, and a result with rows innermost
// would be stored element by element. Both are apart; the turned view of the norm costs nothing.
// CHECK: {{\[}}Missed{{\]}} GroupKernels {{.*}}Kernel=rowwise, {{.*}}Reason=no_slot
// CHECK-LABEL: func.func @sum
// CHECK: %[[N:.*]] = dit.fusion "rowwise"
// CHECK: dit.norm
// CHECK-NOT: dit.reduce
// CHECK: dit.yield {{.*}} : tensor<64x32xbf16>
// CHECK: %[[T:.*]] = dit.permute %[[N]] [1, 0]
// CHECK: dit.reduce
func.func @sum(%x: tensor<64x32xbf16>) -> (tensor<32x1xbf16>, tensor<32x64xbf16>) {
  %n = dit.norm rms %x axes 1 eps 1.0e-6 : (tensor<64x32xbf16>) -> tensor<64x32xbf16>
  %t = dit.permute %n [1, 0] : tensor<64x32xbf16> -> tensor<32x64xbf16>
  %s = dit.reduce sum %t axes [1] : (tensor<32x64xbf16>) -> tensor<32x1xbf16>
  return %s, %t : tensor<32x1xbf16>, tensor<32x64xbf16>
}

// A statistic of statistics of rows needs each of them once.
// CHECK-LABEL: func.func @sums
// CHECK: dit.fusion "rowwise"
// CHECK: dit.reduce {{ *}}sum
// CHECK: dit.reduce {{ *}}max
// CHECK: dit.yield
func.func @sums(%x: tensor<64x32xbf16>) -> tensor<1x1xbf16> {
  %s = dit.reduce sum %x axes [1] : (tensor<64x32xbf16>) -> tensor<64x1xbf16>
  %v = dit.view %s : tensor<64x1xbf16> -> tensor<1x64xbf16>
  %m = dit.reduce max %v axes [1] : (tensor<1x64xbf16>) -> tensor<1x1xbf16>
  return %m : tensor<1x1xbf16>
}

// A GPU's kernel writes the norm as its rows lie, and the product reads it turned. Without statistics of rows the result is
// written as the product wants it.
// PLAN-LABEL: plan.program @product
// PLAN: plan.launch @rowwise_{{[0-9a-f]+}}(%{{.*}}, %{{.*}}) {{.*}}: memref<2x64x32xbf16>, memref<2x64x32xbf16>
// PLAN: plan.gemm {{.*}}memref<2x32x64xbf16, strided<[2048, 1, 32]>>
// PLAN-LABEL: plan.program @plain_product
// PLAN: plan.launch @rowwise_{{[0-9a-f]+}}(%{{.*}}, %{{.*}}) {{.*}}: memref<2x64x32xbf16>, memref<2x32x64xbf16>
// PLAN: plan.gemm
func.func @product(%x: tensor<2x64x32xbf16>, %y: tensor<2x96x32xbf16>) -> tensor<2x96x64xbf16> {
  %n = dit.norm rms %x axes 1 eps 1.0e-6 : (tensor<2x64x32xbf16>) -> tensor<2x64x32xbf16>
  %t = dit.permute %n [0, 2, 1] : tensor<2x64x32xbf16> -> tensor<2x32x64xbf16>
  %p = dit.matmul %y, %t : (tensor<2x96x32xbf16>, tensor<2x32x64xbf16>) -> tensor<2x96x64xbf16>
  return %p : tensor<2x96x64xbf16>
}
func.func @plain_product(%x: tensor<2x64x32xbf16>, %y: tensor<2x96x32xbf16>) -> tensor<2x96x64xbf16> {
  %n = dit.map(%x) : (tensor<2x64x32xbf16>) -> tensor<2x64x32xbf16> {
  ^bb0(%a: f32):
    %s = math.tanh %a : f32
    dit.yield %s : f32
  }
  %t = dit.permute %n [0, 2, 1] : tensor<2x64x32xbf16> -> tensor<2x32x64xbf16>
  %p = dit.matmul %y, %t : (tensor<2x96x32xbf16>, tensor<2x32x64xbf16>) -> tensor<2x96x64xbf16>
  return %p : tensor<2x96x64xbf16>
}
