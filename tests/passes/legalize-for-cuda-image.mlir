// RUN: ditc-opt %s --ditc-legalize-for-sm90a | FileCheck %s
// RUN: ditc-opt %s --ditc-legalize-for-sm90a --canonicalize --ditc-lower-to-plan=device=true | FileCheck %s --check-prefix PLAN

// A product that becomes an image for a convolution stays as it is, activation included; the views behind it cost nothing.
// CHECK-LABEL: func.func @image
// CHECK: %[[Y:.*]] = dit.fusion "gemm"({{.*}}) : {{.*}} -> tensor<2x64x128xbf16> {
// CHECK: %[[M:.*]] = dit.matmul
// CHECK: dit.map(%[[M]]) : (tensor<2x64x128xbf16>) -> tensor<2x64x128xbf16>
// CHECK: %[[P:.*]] = dit.permute %[[Y]] [0, 2, 1]
// CHECK: %[[V:.*]] = dit.view %[[P]]
// CHECK: dit.conv %[[V]]
// PLAN: plan.launch @gemm
// The convolution reads channels last and writes so; what follows it does.
// PLAN: plan.launch @conv{{.*}} : memref<2x128x8x8xbf16, strided<[8192, 1, 1024, 128]>>, memref<128x1x3x3xbf16>, memref<2x128x8x8xbf16, strided<[8192, 1, 1024, 128]>>
// PLAN: plan.launch @rowwise{{.*}} : memref<2x128x8x8xbf16, strided<[8192, 1, 1024, 128]>>
func.func @image(%x: tensor<2x64x256xbf16>) -> tensor<2x128x8x8xbf16> {
  %w = dit.weight "w" : tensor<128x256xbf16>
  %f = dit.weight "f" : tensor<128x1x3x3xbf16>
  %image = dit.fusion "gemm"(%x, %w) : (tensor<2x64x256xbf16>, tensor<128x256xbf16>) -> tensor<2x128x8x8xbf16> {
  ^bb0(%a: tensor<2x64x256xbf16>, %b: tensor<128x256xbf16>):
    %m = dit.matmul %a, %b transpose_rhs : (tensor<2x64x256xbf16>, tensor<128x256xbf16>) -> tensor<2x64x128xbf16>
    %p = dit.permute %m [0, 2, 1] : tensor<2x64x128xbf16> -> tensor<2x128x64xbf16>
    %v = dit.view %p : tensor<2x128x64xbf16> -> tensor<2x128x8x8xbf16>
    %r = dit.map(%v) : (tensor<2x128x8x8xbf16>) -> tensor<2x128x8x8xbf16> {
    ^bb0(%c: f32):
      %z = arith.constant 0.0 : f32
      %d = arith.maximumf %c, %z : f32
      dit.yield %d : f32
    }
    dit.yield %r : tensor<2x128x8x8xbf16>
  }
  %c = dit.conv %image, %f {dilations = array<i64: 1, 1>, groups = 128 : i64, padding_high = array<i64: 1, 1>, padding_low = array<i64: 1, 1>, strides = array<i64: 1, 1>} : (tensor<2x128x8x8xbf16>, tensor<128x1x3x3xbf16>) -> tensor<2x128x8x8xbf16>
  %y = dit.fusion "rowwise"(%c) : (tensor<2x128x8x8xbf16>) -> tensor<2x128x8x8xbf16> {
  ^bb0(%a: tensor<2x128x8x8xbf16>):
    %r = dit.map(%a) : (tensor<2x128x8x8xbf16>) -> tensor<2x128x8x8xbf16> {
    ^bb0(%e: f32):
      %d = math.tanh %e : f32
      dit.yield %d : f32
    }
    dit.yield %r : tensor<2x128x8x8xbf16>
  }
  return %y : tensor<2x128x8x8xbf16>
}

// Somebody else reads the image: it is written as an image.
// CHECK-LABEL: func.func @read_elsewhere
// CHECK: dit.fusion "gemm"({{.*}}) : {{.*}} -> tensor<2x64x128xbf16>
// CHECK: dit.fusion "rowwise"
func.func @read_elsewhere(%x: tensor<2x64x256xbf16>) -> (tensor<2x128x8x8xbf16>, tensor<2x128x8x8xbf16>) {
  %w = dit.weight "w" : tensor<128x256xbf16>
  %f = dit.weight "f" : tensor<128x1x3x3xbf16>
  %image = dit.fusion "gemm"(%x, %w) : (tensor<2x64x256xbf16>, tensor<128x256xbf16>) -> tensor<2x128x8x8xbf16> {
  ^bb0(%a: tensor<2x64x256xbf16>, %b: tensor<128x256xbf16>):
    %m = dit.matmul %a, %b transpose_rhs : (tensor<2x64x256xbf16>, tensor<128x256xbf16>) -> tensor<2x64x128xbf16>
    %p = dit.permute %m [0, 2, 1] : tensor<2x64x128xbf16> -> tensor<2x128x64xbf16>
    %v = dit.view %p : tensor<2x128x64xbf16> -> tensor<2x128x8x8xbf16>
    %r = dit.map(%v) : (tensor<2x128x8x8xbf16>) -> tensor<2x128x8x8xbf16> {
    ^bb0(%c: f32):
      %d = math.tanh %c : f32
      dit.yield %d : f32
    }
    dit.yield %r : tensor<2x128x8x8xbf16>
  }
  %c = dit.conv %image, %f {dilations = array<i64: 1, 1>, groups = 128 : i64, padding_high = array<i64: 1, 1>, padding_low = array<i64: 1, 1>, strides = array<i64: 1, 1>} : (tensor<2x128x8x8xbf16>, tensor<128x1x3x3xbf16>) -> tensor<2x128x8x8xbf16>
  return %c, %image : tensor<2x128x8x8xbf16>, tensor<2x128x8x8xbf16>
}
