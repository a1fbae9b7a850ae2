// RUN: ditc-opt %s --ditc-group-kernels --remark-format=emitRemark --remarks-filter=fusion 2>&1 | FileCheck %s

// A mean over the tokens needs every row.
// CHECK: {{\[}}Missed{{\]}} GroupKernels {{.*}}Kernel=rowwise, {{.*}}Reason=crosses_rows
// CHECK-LABEL: func.func @f
func.func @f(%x: tensor<64x32xbf16>) -> tensor<1x32xbf16> {
  %t = dit.map(%x) : (tensor<64x32xbf16>) -> tensor<64x32xbf16> {
  ^bb0(%a: f32):
    %s = math.tanh %a : f32
    dit.yield %s : f32
  }
  %m = dit.reduce mean %t axes [0] : (tensor<64x32xbf16>) -> tensor<1x32xbf16>
  return %m : tensor<1x32xbf16>
}
