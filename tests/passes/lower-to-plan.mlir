// RUN: ditc-opt %s --ditc-lower-to-plan --split-input-file | FileCheck %s

// Views are strides; a reshape of elements that do not lie in order is a copy.
// CHECK-LABEL: plan.program @views
// CHECK: plan.view %{{.*}} : memref<2x3xf32> -> memref<3x2xf32, strided<[1, 3]>>
// CHECK: %[[T:.*]] = plan.buffer arena : memref<3x2xf32>
// CHECK: plan.view %[[T]] : memref<3x2xf32> -> memref<6xf32>
// CHECK: plan.step
// CHECK-COUNT-2: plan.launch
func.func @views(%x: tensor<2x3xf32>) -> tensor<6xf32> {
  %t = dit.permute %x [1, 0] : tensor<2x3xf32> -> tensor<3x2xf32>
  %v = dit.view %t : tensor<3x2xf32> -> tensor<6xf32>
  %y = dit.map(%v) : (tensor<6xf32>) -> tensor<6xf32> {
  ^bb0(%p: f32):
    %q = math.exp %p : f32
    dit.yield %q : f32
  }
  return %y : tensor<6xf32>
}

// -----

// A shared right side multiplies all rows at once, and a transposed weight is read as it lies.
// CHECK-LABEL: plan.program @linear
// CHECK: plan.gemm {{.*}} : memref<8x16xf32>, memref<16x32xf32, strided<[1, 16]>> -> memref<8x32xf32>
func.func @linear(%x: tensor<2x4x16xf32>) -> tensor<2x4x32xf32> {
  %w = dit.weight "w" : tensor<32x16xf32>
  %y = dit.matmul %x, %w transpose_rhs : (tensor<2x4x16xf32>, tensor<32x16xf32>) -> tensor<2x4x32xf32>
  return %y : tensor<2x4x32xf32>
}

// -----

// What depends on weights only runs once. Equal kernels are one.
// CHECK-LABEL: plan.program @prepare
// CHECK: plan.prepare
// CHECK-NEXT: plan.launch @[[K:map_[0-9a-f]+]]
// CHECK-NEXT: plan.launch @[[K]]
// CHECK: plan.step
// CHECK-NEXT: plan.launch
// CHECK-NOT: plan.launch
// CHECK: plan.kernel @[[K]]
func.func @prepare() -> tensor<4xf32> {
  %w = dit.weight "w" : tensor<4xbf16>
  %v = dit.weight "v" : tensor<4xbf16>
  %a = dit.map(%w) : (tensor<4xbf16>) -> tensor<4xf32> {
  ^bb0(%p: f32):
    dit.yield %p : f32
  }
  %b = dit.map(%v) : (tensor<4xbf16>) -> tensor<4xf32> {
  ^bb0(%p: f32):
    dit.yield %p : f32
  }
  %c = dit.concat(%a, %b) axis 0 : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>
  %d = dit.slice %c offsets [0] steps [2] : tensor<8xf32> -> tensor<4xf32>
  return %d : tensor<4xf32>
}

// -----

// Patches become an image: the copy that a reshape of permuted elements needs goes to the output.
// CHECK-LABEL: plan.program @patches
// CHECK: %[[OUT:.*]] = plan.buffer output {index = 0 : i64} : memref<4x6xf32>
// CHECK: %[[DENSE:.*]] = plan.view %[[OUT]] : memref<4x6xf32> -> memref<2x2x2x3xf32>
// CHECK: plan.step
// CHECK: plan.launch @{{.*}}(%{{.*}}, %[[DENSE]])
// CHECK-NOT: plan.copy
// CHECK-NOT: plan.launch
// CHECK: plan.kernel
func.func @patches(%x: tensor<2x2x6xf32>) -> tensor<4x6xf32> {
  %p = dit.view %x : tensor<2x2x6xf32> -> tensor<2x2x2x3xf32>
  %q = dit.permute %p [0, 2, 1, 3] : tensor<2x2x2x3xf32> -> tensor<2x2x2x3xf32>
  %y = dit.view %q : tensor<2x2x2x3xf32> -> tensor<4x6xf32>
  return %y : tensor<4x6xf32>
}

// -----

// A view that the BLAS cannot read is copied once for all products that read it.
// CHECK-LABEL: plan.program @one_copy
// CHECK: plan.step
// CHECK-NEXT: plan.launch
// CHECK-NEXT: plan.gemm
// CHECK-NEXT: plan.gemm
func.func @one_copy(%x: tensor<8x4x2xf32>, %v: tensor<4x5xf32>, %w: tensor<4x5xf32>) -> (tensor<8x5xf32>, tensor<8x5xf32>) {
  %s = dit.slice %x offsets [0, 0, 1] steps [1, 1, 1] : tensor<8x4x2xf32> -> tensor<8x4x1xf32>
  %m = dit.view %s : tensor<8x4x1xf32> -> tensor<8x4xf32>
  %a = dit.matmul %m, %v : (tensor<8x4xf32>, tensor<4x5xf32>) -> tensor<8x5xf32>
  %b = dit.matmul %m, %w : (tensor<8x4xf32>, tensor<4x5xf32>) -> tensor<8x5xf32>
  return %a, %b : tensor<8x5xf32>, tensor<8x5xf32>
}

// -----

// Attention of 8-bit numbers is another kernel; one without them does not say so.
// CHECK-LABEL: plan.program @attentions
// CHECK: plan.kernel @attention_{{[0-9a-f]+}} family "attention" {{.*}} config {causal = false, has_mask = false, quantized = true, scale = 1.250000e-01 : f64}
// CHECK: plan.kernel @attention_{{[0-9a-f]+}} family "attention" {{.*}} config {causal = false, has_mask = false, scale = 1.250000e-01 : f64}
func.func @attentions(%q: tensor<1x2x64x64xbf16>) -> (tensor<1x2x64x64xbf16>, tensor<1x2x64x64xbf16>) {
  %x = dit.attention %q, %q, %q scale 0.125 quantized : (tensor<1x2x64x64xbf16>, tensor<1x2x64x64xbf16>, tensor<1x2x64x64xbf16>) -> tensor<1x2x64x64xbf16>
  %y = dit.attention %q, %q, %q scale 0.125 : (tensor<1x2x64x64xbf16>, tensor<1x2x64x64xbf16>, tensor<1x2x64x64xbf16>) -> tensor<1x2x64x64xbf16>
  return %x, %y : tensor<1x2x64x64xbf16>, tensor<1x2x64x64xbf16>
}
