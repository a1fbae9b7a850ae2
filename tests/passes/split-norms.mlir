// RUN: ditc-opt %s --ditc-split-norms --split-input-file | FileCheck %s

// The input of the norm is made in the fusion: it is computed once more for the statistics. The scale is no part of them.
// CHECK-LABEL: func.func @behind_a_map
// CHECK: %[[PARTS:.*]]:2 = dit.fusion "rowwise"(%arg0, %arg1)
// CHECK: arith.addf
// CHECK: dit.view {{.*}} -> tensor<[[N:[0-9]+]]x[[LEN:[0-9]+]]xbf16>
// CHECK: dit.reduce{{ +}}mean
// CHECK: dit.reduce{{ +}}sum
// CHECK-NOT: math.exp
// CHECK: dit.yield
// CHECK: %[[JOINED:.*]]:2 = dit.fusion "rowwise"
// CHECK: math.rsqrt
// CHECK: dit.fusion "rowwise"
// CHECK-NOT: dit.norm
// CHECK: math.exp
func.func @behind_a_map(%x: tensor<1x4x512x520xbf16>, %t: tensor<1x4x1x1xbf16>) -> tensor<1x4x512x520xbf16> {
  %y = dit.fusion "rowwise"(%x, %t) : (tensor<1x4x512x520xbf16>, tensor<1x4x1x1xbf16>) -> tensor<1x4x512x520xbf16> {
  ^bb0(%a: tensor<1x4x512x520xbf16>, %b: tensor<1x4x1x1xbf16>):
    %s = dit.map(%a, %b) : (tensor<1x4x512x520xbf16>, tensor<1x4x1x1xbf16>) -> tensor<1x4x512x520xbf16> {
    ^bb0(%p: f32, %q: f32):
      %r = arith.addf %p, %q : f32
      dit.yield %r : f32
    }
    %v = dit.view %s : tensor<1x4x512x520xbf16> -> tensor<1x2x532480xbf16>
    %n = dit.norm layer %v axes 1 eps 1.0e-05 : (tensor<1x2x532480xbf16>) -> tensor<1x2x532480xf32>
    %w = dit.view %n : tensor<1x2x532480xf32> -> tensor<1x4x512x520xf32>
    %e = dit.map(%w) : (tensor<1x4x512x520xf32>) -> tensor<1x4x512x520xbf16> {
    ^bb0(%p: f32):
      %r = math.exp %p : f32
      dit.yield %r : f32
    }
    dit.yield %e : tensor<1x4x512x520xbf16>
  }
  return %y : tensor<1x4x512x520xbf16>
}

// -----

// Rows that are short, many, or of a length that has no parts; RMS norms.
// CHECK-LABEL: func.func @kept
// CHECK-COUNT-4: dit.norm
func.func @kept(%a: tensor<2x262144xbf16>, %b: tensor<129x524288xbf16>, %c: tensor<2x524309xbf16>, %d: tensor<2x524288xbf16>) -> (tensor<2x262144xbf16>, tensor<129x524288xbf16>, tensor<2x524309xbf16>, tensor<2x524288xbf16>) {
  %rw = dit.fusion "rowwise"(%a) : (tensor<2x262144xbf16>) -> tensor<2x262144xbf16> {
  ^bb0(%x: tensor<2x262144xbf16>):
    %n = dit.norm layer %x axes 1 eps 1.0e-05 : (tensor<2x262144xbf16>) -> tensor<2x262144xbf16>
    dit.yield %n : tensor<2x262144xbf16>
  }
  %rx = dit.fusion "rowwise"(%b) : (tensor<129x524288xbf16>) -> tensor<129x524288xbf16> {
  ^bb0(%x: tensor<129x524288xbf16>):
    %n = dit.norm layer %x axes 1 eps 1.0e-05 : (tensor<129x524288xbf16>) -> tensor<129x524288xbf16>
    dit.yield %n : tensor<129x524288xbf16>
  }
  %ry = dit.fusion "rowwise"(%c) : (tensor<2x524309xbf16>) -> tensor<2x524309xbf16> {
  ^bb0(%x: tensor<2x524309xbf16>):
    %n = dit.norm layer %x axes 1 eps 1.0e-05 : (tensor<2x524309xbf16>) -> tensor<2x524309xbf16>
    dit.yield %n : tensor<2x524309xbf16>
  }
  %rz = dit.fusion "rowwise"(%d) : (tensor<2x524288xbf16>) -> tensor<2x524288xbf16> {
  ^bb0(%x: tensor<2x524288xbf16>):
    %n = dit.norm rms %x axes 1 eps 1.0e-05 : (tensor<2x524288xbf16>) -> tensor<2x524288xbf16>
    dit.yield %n : tensor<2x524288xbf16>
  }
  return %rw, %rx, %ry, %rz : tensor<2x262144xbf16>, tensor<129x524288xbf16>, tensor<2x524309xbf16>, tensor<2x524288xbf16>
}
