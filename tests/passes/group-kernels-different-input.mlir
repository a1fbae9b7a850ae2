// RUN: ditc-opt %s --ditc-group-kernels --remark-format=emitRemark --remarks-filter=fusion 2>&1 | FileCheck %s

// Rows of two tables by the same indices are one launch; those by other indices are not.
// CHECK: {{\[}}Missed{{\]}} GroupKernels {{.*}}Bytes=0, Kernel=layout, Operand={{.*}}, Producer=a:embedding, Reader=c:embedding, ReaderKernel=layout, Reason=different_input, Relation=beside
// CHECK-LABEL: func.func @f
// CHECK: dit.fusion "layout"
// CHECK: dit.fusion "layout"
// CHECK-NOT: dit.fusion
func.func @f(%s: tensor<100x32xbf16>, %t: tensor<100x32xbf16>, %i: tensor<4xi64>, %j: tensor<4xi64>) -> (tensor<4x32xbf16>, tensor<4x32xbf16>, tensor<4x32xbf16>) {
  %a = dit.gather %s[%i] axis 0 : (tensor<100x32xbf16>, tensor<4xi64>) -> tensor<4x32xbf16> loc("embedding"("a"))
  %b = dit.gather %t[%i] axis 0 : (tensor<100x32xbf16>, tensor<4xi64>) -> tensor<4x32xbf16> loc("embedding"("b"))
  %c = dit.gather %t[%j] axis 0 : (tensor<100x32xbf16>, tensor<4xi64>) -> tensor<4x32xbf16> loc("embedding"("c"))
  return %a, %b, %c : tensor<4x32xbf16>, tensor<4x32xbf16>, tensor<4x32xbf16>
}

// Products of equal code over image and text tokens are one launch, but not when the text is the same in every step.
// CHECK-LABEL: func.func @streams
// CHECK-COUNT-1: dit.fusion "gemm"
// CHECK-NOT: dit.fusion
func.func @streams(%x: tensor<256x64xbf16>, %t: tensor<128x64xbf16>, %w: tensor<64x64xbf16>, %v: tensor<64x64xbf16>) -> (tensor<256x64xbf16>, tensor<128x64xbf16>) {
  %m = dit.matmul %x, %w transpose_rhs : (tensor<256x64xbf16>, tensor<64x64xbf16>) -> tensor<256x64xbf16>
  %n = dit.matmul %t, %v transpose_rhs : (tensor<128x64xbf16>, tensor<64x64xbf16>) -> tensor<128x64xbf16>
  return %m, %n : tensor<256x64xbf16>, tensor<128x64xbf16>
}

// CHECK-LABEL: func.func @once
// CHECK-COUNT-2: dit.fusion "gemm"
func.func @once(%x: tensor<256x64xbf16>, %t: tensor<128x64xbf16> {dit.invariant}, %w: tensor<64x64xbf16> {dit.invariant}, %v: tensor<64x64xbf16> {dit.invariant}) -> (tensor<256x64xbf16>, tensor<128x64xbf16>) {
  %m = dit.matmul %x, %w transpose_rhs : (tensor<256x64xbf16>, tensor<64x64xbf16>) -> tensor<256x64xbf16>
  %n = dit.matmul %t, %v transpose_rhs : (tensor<128x64xbf16>, tensor<64x64xbf16>) -> tensor<128x64xbf16>
  return %m, %n : tensor<256x64xbf16>, tensor<128x64xbf16>
}
