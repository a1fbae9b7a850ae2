// RUN: ditc-opt %s --ditc-group-kernels --remark-format=emitRemark --remarks-filter=fusion 2>&1 | FileCheck %s

// A LayerNorm over the whole width of a product waits for all its tiles.
// CHECK: {{\[}}Missed{{\]}} GroupKernels {{.*}}Kernel=gemm, Operand=ff:linear, Producer=ff:linear, Reader=norm:layer_norm, ReaderKernel=rowwise, Reason=row_statistics
// CHECK-LABEL: func.func @f
// CHECK: dit.fusion "gemm"
// CHECK: dit.fusion "rowwise"
func.func @f(%x: tensor<64x32xbf16>, %w: tensor<512x32xbf16>) -> tensor<64x512xbf16> {
  %m = dit.matmul %x, %w transpose_rhs : (tensor<64x32xbf16>, tensor<512x32xbf16>) -> tensor<64x512xbf16> loc("linear"("ff"))
  %n = dit.norm layer %m axes 1 eps 1.0e-6 : (tensor<64x512xbf16>) -> tensor<64x512xbf16> loc("layer_norm"("norm"))
  return %n : tensor<64x512xbf16>
}
