// RUN: ditc-opt %s --ditc-group-kernels --remark-format=emitRemark --remarks-filter=fusion 2>&1 | FileCheck %s

// What is in the way is the view between the two, which joins tokens and channels, not the map behind it.
// CHECK: {{\[}}Missed{{\]}} GroupKernels {{.*}}Kernel=gemm, Operand=ff:linear, Producer=ff:linear, Reader=act:gelu, ReaderKernel=rowwise, Reason=crosses_rows
// CHECK-LABEL: func.func @f
func.func @f(%x: tensor<64x32xbf16>, %w: tensor<512x32xbf16>, %s: tensor<512x64xbf16>) -> tensor<512x64xbf16> {
  %m = dit.matmul %x, %w transpose_rhs : (tensor<64x32xbf16>, tensor<512x32xbf16>) -> tensor<64x512xbf16> loc("linear"("ff"))
  %v = dit.view %m : tensor<64x512xbf16> -> tensor<512x64xbf16> loc("view"("ff"))
  %y = dit.map(%v, %s) : (tensor<512x64xbf16>, tensor<512x64xbf16>) -> tensor<512x64xbf16> {
  ^bb0(%a: f32, %b: f32):
    %t = math.tanh %a : f32
    %r = arith.mulf %t, %b : f32
    dit.yield %r : f32
  } loc("gelu"("act"))
  return %y : tensor<512x64xbf16>
}
