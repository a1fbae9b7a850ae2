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

// Two inputs are what a launch has: a third stream of equal code is one of its own, and so are more products of the second one's input.
// CHECK-LABEL: func.func @three
// CHECK: %{{.*}}:2 = dit.fusion "gemm"(%arg0, %arg3, %arg1)
// CHECK: %{{.*}} = dit.fusion "gemm"(%arg2, %arg3)
func.func @three(%x: tensor<256x64xbf16>, %t: tensor<128x64xbf16>, %u: tensor<192x64xbf16>, %w: tensor<64x64xbf16>) -> (tensor<256x64xbf16>, tensor<128x64xbf16>, tensor<192x64xbf16>) {
  %m = dit.matmul %x, %w transpose_rhs : (tensor<256x64xbf16>, tensor<64x64xbf16>) -> tensor<256x64xbf16>
  %n = dit.matmul %t, %w transpose_rhs : (tensor<128x64xbf16>, tensor<64x64xbf16>) -> tensor<128x64xbf16>
  %o = dit.matmul %u, %w transpose_rhs : (tensor<192x64xbf16>, tensor<64x64xbf16>) -> tensor<192x64xbf16>
  return %m, %n, %o : tensor<256x64xbf16>, tensor<128x64xbf16>, tensor<192x64xbf16>
}

// K and V of a text and an image, which two blocks read: a block is a launch. Those of the next block are no further weights of it.
// CHECK-LABEL: func.func @blocks
// CHECK: %{{.*}}:4 = dit.fusion "gemm"(%arg0, %arg3, %arg1)
// CHECK: %{{.*}}:4 = dit.fusion "gemm"(%arg0, %arg3, %arg1)
// CHECK-NOT: dit.fusion "gemm"
func.func @blocks(%text: tensor<512x1152xbf16>, %image: tensor<600x1152xbf16>, %q: tensor<1x1x4096x1152xbf16>, %w: tensor<1152x1152xbf16>) -> tensor<1x1x4096x1152xbf16> {
  %ktext0 = dit.matmul %text, %w transpose_rhs : (tensor<512x1152xbf16>, tensor<1152x1152xbf16>) -> tensor<512x1152xbf16>
  %ktext40 = dit.view %ktext0 : tensor<512x1152xbf16> -> tensor<1x1x512x1152xbf16>
  %vtext0 = dit.matmul %text, %w transpose_rhs : (tensor<512x1152xbf16>, tensor<1152x1152xbf16>) -> tensor<512x1152xbf16>
  %vtext40 = dit.view %vtext0 : tensor<512x1152xbf16> -> tensor<1x1x512x1152xbf16>
  %kimage0 = dit.matmul %image, %w transpose_rhs : (tensor<600x1152xbf16>, tensor<1152x1152xbf16>) -> tensor<600x1152xbf16>
  %kimage40 = dit.view %kimage0 : tensor<600x1152xbf16> -> tensor<1x1x600x1152xbf16>
  %vimage0 = dit.matmul %image, %w transpose_rhs : (tensor<600x1152xbf16>, tensor<1152x1152xbf16>) -> tensor<600x1152xbf16>
  %vimage40 = dit.view %vimage0 : tensor<600x1152xbf16> -> tensor<1x1x600x1152xbf16>
  %a0 = dit.attention %q, %ktext40, %vtext40 scale 1.0 : (tensor<1x1x4096x1152xbf16>, tensor<1x1x512x1152xbf16>, tensor<1x1x512x1152xbf16>) -> tensor<1x1x4096x1152xbf16>
  %c0 = dit.attention %a0, %kimage40, %vimage40 scale 1.0 : (tensor<1x1x4096x1152xbf16>, tensor<1x1x600x1152xbf16>, tensor<1x1x600x1152xbf16>) -> tensor<1x1x4096x1152xbf16>
  %ktext1 = dit.matmul %text, %w transpose_rhs : (tensor<512x1152xbf16>, tensor<1152x1152xbf16>) -> tensor<512x1152xbf16>
  %ktext41 = dit.view %ktext1 : tensor<512x1152xbf16> -> tensor<1x1x512x1152xbf16>
  %vtext1 = dit.matmul %text, %w transpose_rhs : (tensor<512x1152xbf16>, tensor<1152x1152xbf16>) -> tensor<512x1152xbf16>
  %vtext41 = dit.view %vtext1 : tensor<512x1152xbf16> -> tensor<1x1x512x1152xbf16>
  %kimage1 = dit.matmul %image, %w transpose_rhs : (tensor<600x1152xbf16>, tensor<1152x1152xbf16>) -> tensor<600x1152xbf16>
  %kimage41 = dit.view %kimage1 : tensor<600x1152xbf16> -> tensor<1x1x600x1152xbf16>
  %vimage1 = dit.matmul %image, %w transpose_rhs : (tensor<600x1152xbf16>, tensor<1152x1152xbf16>) -> tensor<600x1152xbf16>
  %vimage41 = dit.view %vimage1 : tensor<600x1152xbf16> -> tensor<1x1x600x1152xbf16>
  %a1 = dit.attention %c0, %ktext41, %vtext41 scale 1.0 : (tensor<1x1x4096x1152xbf16>, tensor<1x1x512x1152xbf16>, tensor<1x1x512x1152xbf16>) -> tensor<1x1x4096x1152xbf16>
  %c1 = dit.attention %a1, %kimage41, %vimage41 scale 1.0 : (tensor<1x1x4096x1152xbf16>, tensor<1x1x600x1152xbf16>, tensor<1x1x600x1152xbf16>) -> tensor<1x1x4096x1152xbf16>
  return %c1 : tensor<1x1x4096x1152xbf16>
}
