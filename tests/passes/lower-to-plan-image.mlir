// RUN: ditc-opt %s --ditc-lower-to-plan=device=true | FileCheck %s

// A convolution whose image has its channels last writes such an image where its result becomes tokens on the way through maps:
// a map that read it by planes would go from element to element.
// CHECK-LABEL: plan.program @tokens
// CHECK: plan.launch @conv_{{[0-9a-f]+}}{{.*}}, memref<1x16x8x8xbf16, strided<[1024, 1, 128, 16]>>{{$}}
// CHECK: plan.launch @rowwise_
// An image that is read as one stays in planes.
// CHECK-LABEL: plan.program @image
// CHECK: plan.launch @conv_{{[0-9a-f]+}}{{.*}}, memref<1x16x8x8xbf16>{{$}}
func.func @tokens(%x: tensor<1x64x16xbf16>, %w: tensor<16x16x3x3xbf16>, %r: tensor<1x64x16xbf16>) -> tensor<1x64x16xbf16> {
  %v = dit.view %x : tensor<1x64x16xbf16> -> tensor<1x8x8x16xbf16>
  %i = dit.permute %v [0, 3, 1, 2] : tensor<1x8x8x16xbf16> -> tensor<1x16x8x8xbf16>
  %c = dit.conv %i, %w {dilations = array<i64: 1, 1>, groups = 1 : i64, padding_high = array<i64: 1, 1>, padding_low = array<i64: 1, 1>, strides = array<i64: 1, 1>} : (tensor<1x16x8x8xbf16>, tensor<16x16x3x3xbf16>) -> tensor<1x16x8x8xbf16>
  %t = dit.fusion "rowwise"(%i, %c, %r) : (tensor<1x16x8x8xbf16>, tensor<1x16x8x8xbf16>, tensor<1x64x16xbf16>) -> tensor<1x64x16xbf16> {
  ^bb0(%a: tensor<1x16x8x8xbf16>, %b: tensor<1x16x8x8xbf16>, %d: tensor<1x64x16xbf16>):
    %s = dit.map(%a, %b) : (tensor<1x16x8x8xbf16>, tensor<1x16x8x8xbf16>) -> tensor<1x16x8x8xbf16> {
    ^bb0(%e: f32, %f: f32):
      %g = arith.addf %e, %f : f32
      dit.yield %g : f32
    }
    %p = dit.permute %s [0, 2, 3, 1] : tensor<1x16x8x8xbf16> -> tensor<1x8x8x16xbf16>
    %q = dit.view %p : tensor<1x8x8x16xbf16> -> tensor<1x64x16xbf16>
    %o = dit.map(%q, %d) : (tensor<1x64x16xbf16>, tensor<1x64x16xbf16>) -> tensor<1x64x16xbf16> {
    ^bb0(%e: f32, %f: f32):
      %g = arith.addf %e, %f : f32
      dit.yield %g : f32
    }
    dit.yield %o : tensor<1x64x16xbf16>
  }
  return %t : tensor<1x64x16xbf16>
}
func.func @image(%x: tensor<1x64x16xbf16>, %w: tensor<16x16x3x3xbf16>) -> tensor<1x16x8x8xbf16> {
  %v = dit.view %x : tensor<1x64x16xbf16> -> tensor<1x8x8x16xbf16>
  %i = dit.permute %v [0, 3, 1, 2] : tensor<1x8x8x16xbf16> -> tensor<1x16x8x8xbf16>
  %c = dit.conv %i, %w {dilations = array<i64: 1, 1>, groups = 1 : i64, padding_high = array<i64: 1, 1>, padding_low = array<i64: 1, 1>, strides = array<i64: 1, 1>} : (tensor<1x16x8x8xbf16>, tensor<16x16x3x3xbf16>) -> tensor<1x16x8x8xbf16>
  %t = dit.fusion "rowwise"(%c) : (tensor<1x16x8x8xbf16>) -> tensor<1x16x8x8xbf16> {
  ^bb0(%b: tensor<1x16x8x8xbf16>):
    %s = dit.map(%b) : (tensor<1x16x8x8xbf16>) -> tensor<1x16x8x8xbf16> {
    ^bb0(%e: f32):
      %g = arith.negf %e : f32
      dit.yield %g : f32
    }
    dit.yield %s : tensor<1x16x8x8xbf16>
  }
  return %t : tensor<1x16x8x8xbf16>
}
