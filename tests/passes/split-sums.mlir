// RUN: ditc-opt %s --ditc-split-sums --split-input-file | FileCheck %s

// What is summed is made in the fusion: it is computed once more for the parts. Heads' channels stay side by side.
// CHECK-LABEL: func.func @behind_a_map
// CHECK: %[[PARTS:.*]] = dit.fusion "rowwise"(%{{.*}}) : (tensor<2x8x64x4096xbf16>) -> tensor<256x2x8x64x1xf32>
// CHECK: arith.maximumf
// CHECK: dit.view {{.*}} -> tensor<2x8x64x256x16xbf16>
// CHECK: dit.permute {{.*}} [3, 0, 1, 2, 4]
// CHECK: dit.reduce{{ +}}mean
// CHECK: dit.fusion "rowwise"(%[[PARTS]]{{.*}}tensor<2x8x64x1xbf16>
// CHECK: dit.view {{.*}} -> tensor<256x2x8x64xf32>
// CHECK: dit.permute {{.*}} [1, 2, 3, 0]
// CHECK: dit.reduce{{ +}}mean {{.*}} axes [3] : (tensor<2x8x64x256xf32>) -> tensor<2x8x64x1xbf16>
func.func @behind_a_map(%x: tensor<2x4096x8x64xbf16>) -> tensor<2x8x64x1xbf16> {
  %t = dit.permute %x [0, 2, 3, 1] : tensor<2x4096x8x64xbf16> -> tensor<2x8x64x4096xbf16>
  %y = dit.fusion "rowwise"(%t) : (tensor<2x8x64x4096xbf16>) -> tensor<2x8x64x1xbf16> {
  ^bb0(%a: tensor<2x8x64x4096xbf16>):
    %m = dit.map(%a) : (tensor<2x8x64x4096xbf16>) -> tensor<2x8x64x4096xbf16> {
    ^bb0(%p: f32):
      %c = arith.constant 0.0 : f32
      %q = arith.maximumf %p, %c : f32
      dit.yield %q : f32
    }
    %s = dit.reduce mean %m axes [3] : (tensor<2x8x64x4096xbf16>) -> tensor<2x8x64x1xbf16>
    dit.yield %s : tensor<2x8x64x1xbf16>
  }
  return %y : tensor<2x8x64x1xbf16>
}

// -----

// Side by side, few, a maximum, or of a length without parts.
// CHECK-LABEL: func.func @left_whole
// CHECK-COUNT-4: dit.fusion
// CHECK-NOT: dit.fusion
func.func @left_whole(%x: tensor<64x65536xbf16>, %y: tensor<64x1024xbf16>, %z: tensor<65536x64xbf16>, %p: tensor<65537x64xbf16>) -> (tensor<64x1xbf16>, tensor<1x1024xbf16>, tensor<1x64xbf16>, tensor<1x64xbf16>) {
  %a = dit.fusion "rowwise"(%x) : (tensor<64x65536xbf16>) -> tensor<64x1xbf16> {
  ^bb0(%i: tensor<64x65536xbf16>):
    %s = dit.reduce sum %i axes [1] : (tensor<64x65536xbf16>) -> tensor<64x1xbf16>
    dit.yield %s : tensor<64x1xbf16>
  }
  %b = dit.fusion "layout"(%y) : (tensor<64x1024xbf16>) -> tensor<1x1024xbf16> {
  ^bb0(%i: tensor<64x1024xbf16>):
    %s = dit.reduce sum %i axes [0] : (tensor<64x1024xbf16>) -> tensor<1x1024xbf16>
    dit.yield %s : tensor<1x1024xbf16>
  }
  %c = dit.fusion "layout"(%z) : (tensor<65536x64xbf16>) -> tensor<1x64xbf16> {
  ^bb0(%i: tensor<65536x64xbf16>):
    %s = dit.reduce max %i axes [0] : (tensor<65536x64xbf16>) -> tensor<1x64xbf16>
    dit.yield %s : tensor<1x64xbf16>
  }
  %d = dit.fusion "layout"(%p) : (tensor<65537x64xbf16>) -> tensor<1x64xbf16> {
  ^bb0(%i: tensor<65537x64xbf16>):
    %s = dit.reduce sum %i axes [0] : (tensor<65537x64xbf16>) -> tensor<1x64xbf16>
    dit.yield %s : tensor<1x64xbf16>
  }
  return %a, %b, %c, %d : tensor<64x1xbf16>, tensor<1x1024xbf16>, tensor<1x64xbf16>, tensor<1x64xbf16>
}
