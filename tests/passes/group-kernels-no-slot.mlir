// RUN: ditc-opt %s --ditc-group-kernels --remark-format=emitRemark --remarks-filter=fusion 2>&1 | FileCheck %s

// A kernel that looks rows up in a table has no place for arithmetic on them.
// CHECK: {{\[}}Missed{{\]}} GroupKernels {{.*}}Kernel=layout, {{.*}}ReaderKernel=rowwise, Reason=no_slot
// CHECK-LABEL: func.func @f
// CHECK: dit.fusion "layout"
// CHECK: dit.fusion "rowwise"
func.func @f(%table: tensor<100x32xbf16>, %i: tensor<4xi64>) -> tensor<4x32xbf16> {
  %g = dit.gather %table[%i] axis 0 : (tensor<100x32xbf16>, tensor<4xi64>) -> tensor<4x32xbf16>
  %y = dit.map(%g) : (tensor<4x32xbf16>) -> tensor<4x32xbf16> {
  ^bb0(%a: f32):
    %t = math.tanh %a : f32
    dit.yield %t : f32
  }
  return %y : tensor<4x32xbf16>
}
