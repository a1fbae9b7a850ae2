// RUN: ditc-opt %s --ditc-group-kernels --remark-format=emitRemark --remarks-filter=fusion 2>&1 | FileCheck %s

// An epilogue stores floats: a comparison with 0 is a kernel of its own.
// CHECK: {{\[}}Missed{{\]}} GroupKernels {{.*}}Kernel=gemm, Operand=mask:gt, Producer=ff:linear, Reader=mask:gt, ReaderKernel=rowwise, Reason=type_unsupported
// CHECK-LABEL: func.func @f
// CHECK: dit.fusion "gemm"
// CHECK: dit.fusion "rowwise"
func.func @f(%x: tensor<64x32xbf16>, %w: tensor<512x32xbf16>) -> tensor<64x512xi1> {
  %m = dit.matmul %x, %w transpose_rhs : (tensor<64x32xbf16>, tensor<512x32xbf16>) -> tensor<64x512xbf16> loc("linear"("ff"))
  %n = dit.map(%m) : (tensor<64x512xbf16>) -> tensor<64x512xi1> {
  ^bb0(%a: f32):
    %zero = arith.constant 0.0 : f32
    %r = arith.cmpf ogt, %a, %zero : f32
    dit.yield %r : i1
  } loc("gt"("mask"))
  return %n : tensor<64x512xi1>
}
