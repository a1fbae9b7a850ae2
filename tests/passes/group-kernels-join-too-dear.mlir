// RUN: ditc-opt %s --split-input-file --ditc-group-kernels | FileCheck %s
// RUN: ditc-opt %s --split-input-file --ditc-group-kernels --remark-format=emitRemark --remarks-filter=fusion 2>&1 | FileCheck %s --check-prefix=REMARK

// K and V of a text for two blocks. Those of a block are one launch; two blocks in one would keep the second one's results
// until its attention, for little: 600 x 2304 fill more than half of the GPU.
// REMARK: {{\[}}Missed{{\]}} GroupKernels {{.*}}Function=fair {{.*}}Bytes=0, Kernel=gemm, Operand={{.*}}, Producer=blocks.0.to_k:k0, Reader=blocks.1.to_k:k1, ReaderKernel=gemm, Reason=join_too_dear, Relation=beside
// CHECK-LABEL: func.func @fair
// CHECK: dit.fusion "gemm"(%{{.*}}, %arg2, %arg3)
// CHECK: dit.attention
// CHECK: dit.fusion "gemm"(%{{.*}}, %arg4, %arg5)
// CHECK: dit.attention
func.func @fair(%text: tensor<600x1152xbf16>, %q: tensor<1x1x4096x1152xbf16>, %wk0: tensor<1152x1152xbf16>, %wv0: tensor<1152x1152xbf16>, %wk1: tensor<1152x1152xbf16>, %wv1: tensor<1152x1152xbf16>) -> tensor<1x1x4096x1152xbf16> {
  %k0 = dit.matmul %text, %wk0 transpose_rhs : (tensor<600x1152xbf16>, tensor<1152x1152xbf16>) -> tensor<600x1152xbf16> loc("k0"("blocks.0.to_k"))
  %v0 = dit.matmul %text, %wv0 transpose_rhs : (tensor<600x1152xbf16>, tensor<1152x1152xbf16>) -> tensor<600x1152xbf16> loc("v0"("blocks.0.to_v"))
  %k04 = dit.view %k0 : tensor<600x1152xbf16> -> tensor<1x1x600x1152xbf16>
  %v04 = dit.view %v0 : tensor<600x1152xbf16> -> tensor<1x1x600x1152xbf16>
  %a0 = dit.attention %q, %k04, %v04 scale 1.0 : (tensor<1x1x4096x1152xbf16>, tensor<1x1x600x1152xbf16>, tensor<1x1x600x1152xbf16>) -> tensor<1x1x4096x1152xbf16>
  %k1 = dit.matmul %text, %wk1 transpose_rhs : (tensor<600x1152xbf16>, tensor<1152x1152xbf16>) -> tensor<600x1152xbf16> loc("k1"("blocks.1.to_k"))
  %v1 = dit.matmul %text, %wv1 transpose_rhs : (tensor<600x1152xbf16>, tensor<1152x1152xbf16>) -> tensor<600x1152xbf16> loc("v1"("blocks.1.to_v"))
  %k14 = dit.view %k1 : tensor<600x1152xbf16> -> tensor<1x1x600x1152xbf16>
  %v14 = dit.view %v1 : tensor<600x1152xbf16> -> tensor<1x1x600x1152xbf16>
  %a1 = dit.attention %a0, %k14, %v14 scale 1.0 : (tensor<1x1x4096x1152xbf16>, tensor<1x1x600x1152xbf16>, tensor<1x1x600x1152xbf16>) -> tensor<1x1x4096x1152xbf16>
  return %a1 : tensor<1x1x4096x1152xbf16>
}

// -----

// Of 77 rows each block leaves most of the GPU idle: two blocks are one launch. K has a norm of its own, which does not
// hide that K is read by the attention. A third block would need its weights copied.
// REMARK-NOT: Function=idle {{.*}}Reason=join_too_dear {{.*}}Producer=blocks.0
// CHECK-LABEL: func.func @idle
// CHECK: dit.fusion "gemm"(%{{.*}}, %arg3, %arg4, %arg5, %arg6)
// CHECK-COUNT-2: dit.attention
// CHECK-NOT: dit.fusion "gemm"
func.func @idle(%text: tensor<77x2048xbf16>, %q: tensor<1x1x4096x1280xbf16>, %n: tensor<1280xbf16>, %wk0: tensor<1280x2048xbf16>, %wv0: tensor<1280x2048xbf16>, %wk1: tensor<1280x2048xbf16>, %wv1: tensor<1280x2048xbf16>) -> tensor<1x1x4096x1280xbf16> {
  %m0 = dit.matmul %text, %wk0 transpose_rhs : (tensor<77x2048xbf16>, tensor<1280x2048xbf16>) -> tensor<77x1280xbf16> loc("k0"("blocks.0.to_k"))
  %k0 = dit.norm rms %m0 weight %n axes 1 eps 1.0e-6 : (tensor<77x1280xbf16>, tensor<1280xbf16>) -> tensor<77x1280xbf16>
  %v0 = dit.matmul %text, %wv0 transpose_rhs : (tensor<77x2048xbf16>, tensor<1280x2048xbf16>) -> tensor<77x1280xbf16>
  %k04 = dit.view %k0 : tensor<77x1280xbf16> -> tensor<1x1x77x1280xbf16>
  %v04 = dit.view %v0 : tensor<77x1280xbf16> -> tensor<1x1x77x1280xbf16>
  %a0 = dit.attention %q, %k04, %v04 scale 1.0 : (tensor<1x1x4096x1280xbf16>, tensor<1x1x77x1280xbf16>, tensor<1x1x77x1280xbf16>) -> tensor<1x1x4096x1280xbf16>
  %m1 = dit.matmul %text, %wk1 transpose_rhs : (tensor<77x2048xbf16>, tensor<1280x2048xbf16>) -> tensor<77x1280xbf16>
  %k1 = dit.norm rms %m1 weight %n axes 1 eps 1.0e-6 : (tensor<77x1280xbf16>, tensor<1280xbf16>) -> tensor<77x1280xbf16>
  %v1 = dit.matmul %text, %wv1 transpose_rhs : (tensor<77x2048xbf16>, tensor<1280x2048xbf16>) -> tensor<77x1280xbf16>
  %k14 = dit.view %k1 : tensor<77x1280xbf16> -> tensor<1x1x77x1280xbf16>
  %v14 = dit.view %v1 : tensor<77x1280xbf16> -> tensor<1x1x77x1280xbf16>
  %a1 = dit.attention %a0, %k14, %v14 scale 1.0 : (tensor<1x1x4096x1280xbf16>, tensor<1x1x77x1280xbf16>, tensor<1x1x77x1280xbf16>) -> tensor<1x1x4096x1280xbf16>
  return %a1 : tensor<1x1x4096x1280xbf16>
}

// -----

// Five products that are needed at once: the kernel reads four weights where they are, and copying all would save little.
// REMARK: {{\[}}Missed{{\]}} GroupKernels {{.*}}Function=fifth {{.*}}Reason=join_too_dear
// CHECK-LABEL: func.func @fifth
// CHECK: %{{.*}}:4 = dit.fusion "gemm"(%arg0, %arg1)
// CHECK: dit.fusion "gemm"(%arg0, %arg1)
func.func @fifth(%x: tensor<4096x1152xbf16>, %w: tensor<1152x1152xbf16>) -> (tensor<4096x1152xbf16>, tensor<4096x1152xbf16>, tensor<4096x1152xbf16>, tensor<4096x1152xbf16>, tensor<4096x1152xbf16>) {
  %a = dit.matmul %x, %w transpose_rhs : (tensor<4096x1152xbf16>, tensor<1152x1152xbf16>) -> tensor<4096x1152xbf16>
  %b = dit.matmul %x, %w transpose_rhs : (tensor<4096x1152xbf16>, tensor<1152x1152xbf16>) -> tensor<4096x1152xbf16>
  %c = dit.matmul %x, %w transpose_rhs : (tensor<4096x1152xbf16>, tensor<1152x1152xbf16>) -> tensor<4096x1152xbf16>
  %d = dit.matmul %x, %w transpose_rhs : (tensor<4096x1152xbf16>, tensor<1152x1152xbf16>) -> tensor<4096x1152xbf16>
  %e = dit.matmul %x, %w transpose_rhs : (tensor<4096x1152xbf16>, tensor<1152x1152xbf16>) -> tensor<4096x1152xbf16>
  return %a, %b, %c, %d, %e : tensor<4096x1152xbf16>, tensor<4096x1152xbf16>, tensor<4096x1152xbf16>, tensor<4096x1152xbf16>, tensor<4096x1152xbf16>
}

// -----

// The MLPs of two streams of a video. Each product fills the GPU ninety times over, so that one launch saves next to nothing; their
// results, 587 MB each, would be there at once.
// REMARK: {{\[}}Missed{{\]}} GroupKernels {{.*}}Function=videos {{.*}}Producer=a.net.0:a0, {{.*}}Reader=b.net.0:b0, {{.*}}Reason=join_too_dear, Relation=beside
// CHECK-LABEL: func.func @videos
// CHECK: %[[A:.*]] = dit.fusion "gemm"(%arg0, %arg2)
// CHECK: %[[B:.*]] = dit.fusion "gemm"(%arg1, %arg3)
func.func @videos(%x: tensor<32760x1536xbf16>, %y: tensor<32760x1536xbf16>, %wa: tensor<8960x1536xbf16>, %wb: tensor<8960x1536xbf16>, %va: tensor<1536x8960xbf16>, %vb: tensor<1536x8960xbf16>) -> (tensor<32760x1536xbf16>, tensor<32760x1536xbf16>) {
  %a0 = dit.matmul %x, %wa transpose_rhs : (tensor<32760x1536xbf16>, tensor<8960x1536xbf16>) -> tensor<32760x8960xbf16> loc("a0"("a.net.0"))
  %a1 = dit.matmul %a0, %va transpose_rhs : (tensor<32760x8960xbf16>, tensor<1536x8960xbf16>) -> tensor<32760x1536xbf16>
  %b0 = dit.matmul %y, %wb transpose_rhs : (tensor<32760x1536xbf16>, tensor<8960x1536xbf16>) -> tensor<32760x8960xbf16> loc("b0"("b.net.0"))
  %b1 = dit.matmul %b0, %vb transpose_rhs : (tensor<32760x8960xbf16>, tensor<1536x8960xbf16>) -> tensor<32760x1536xbf16>
  return %a1, %b1 : tensor<32760x1536xbf16>, tensor<32760x1536xbf16>
}

// -----

// Those of an image and its text (FLUX.1) are one launch: 512 rows are two waves of tiles, and 12.6 MB.
// CHECK-LABEL: func.func @text
// CHECK: %{{.*}}:2 = dit.fusion "gemm"(%arg0, %arg2, %arg1, %arg3)
func.func @text(%x: tensor<4096x3072xbf16>, %y: tensor<512x3072xbf16>, %wa: tensor<12288x3072xbf16>, %wb: tensor<12288x3072xbf16>, %va: tensor<3072x12288xbf16>, %vb: tensor<3072x12288xbf16>) -> (tensor<4096x3072xbf16>, tensor<512x3072xbf16>) {
  %a0 = dit.matmul %x, %wa transpose_rhs : (tensor<4096x3072xbf16>, tensor<12288x3072xbf16>) -> tensor<4096x12288xbf16>
  %a1 = dit.matmul %a0, %va transpose_rhs : (tensor<4096x12288xbf16>, tensor<3072x12288xbf16>) -> tensor<4096x3072xbf16>
  %b0 = dit.matmul %y, %wb transpose_rhs : (tensor<512x3072xbf16>, tensor<12288x3072xbf16>) -> tensor<512x12288xbf16>
  %b1 = dit.matmul %b0, %vb transpose_rhs : (tensor<512x12288xbf16>, tensor<3072x12288xbf16>) -> tensor<512x3072xbf16>
  return %a1, %b1 : tensor<4096x3072xbf16>, tensor<512x3072xbf16>
}
