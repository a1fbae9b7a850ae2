// RUN: ditc-opt %s --ditc-split-maps --split-input-file | FileCheck %s

// The projection is stored for another map too, so the parts of the sum are computed where they are read.
// CHECK-LABEL: @stored
// CHECK: %[[M:.*]] = dit.matmul
// CHECK: %[[T:.*]] = dit.view %[[M]]
// CHECK: dit.map(%[[T]])
// CHECK: %[[S:.*]] = dit.slice %[[T]] offsets [0, 0, 1, 0] {{.*}} -> tensor<1x4096x1x2048xbf16>
// CHECK: %[[SV:.*]] = dit.view %[[S]] {{.*}} -> tensor<1x4096x2048xbf16>
// CHECK: %[[W:.*]] = dit.slice %{{.*}} offsets [0, 0, 1, 0] {{.*}} -> tensor<1x1x1x2048xf32>
// CHECK: %[[WV:.*]] = dit.view %[[W]] {{.*}} -> tensor<1x1x2048xf32>
// CHECK: %[[P:.*]] = dit.map(%[[SV]], %[[WV]]) {{.*}} -> tensor<1x4096x2048xf32>
// CHECK: return %[[P]]
func.func @stored(%x: tensor<1x4096x256xbf16>, %v: tensor<4096x256xbf16>, %w: tensor<1x1x2x2048xf32>) -> (tensor<1x4096x2048xf32>, tensor<1x4096x2x2048xbf16>) {
  %m = dit.matmul %x, %v transpose_rhs : (tensor<1x4096x256xbf16>, tensor<4096x256xbf16>) -> tensor<1x4096x4096xbf16>
  %t = dit.view %m : tensor<1x4096x4096xbf16> -> tensor<1x4096x2x2048xbf16>
  %a = dit.map(%t, %w) : (tensor<1x4096x2x2048xbf16>, tensor<1x1x2x2048xf32>) -> tensor<1x4096x2x2048xf32> {
  ^bb0(%p: f32, %q: f32):
    %r = arith.addf %p, %q : f32
    dit.yield %r : f32
  }
  %b = dit.map(%t) : (tensor<1x4096x2x2048xbf16>) -> tensor<1x4096x2x2048xbf16> {
  ^bb0(%p: f32):
    %r = math.exp %p : f32
    dit.yield %r : f32
  }
  %s = dit.slice %a offsets [0, 0, 1, 0] steps [1, 1, 1, 1] : tensor<1x4096x2x2048xf32> -> tensor<1x4096x1x2048xf32>
  %u = dit.view %s : tensor<1x4096x1x2048xf32> -> tensor<1x4096x2048xf32>
  return %u, %b : tensor<1x4096x2048xf32>, tensor<1x4096x2x2048xbf16>
}

// -----

// Nothing else reads the projection: stored with the table added, it is not stored without.
// CHECK-LABEL: @own
// CHECK: dit.map
// CHECK-NEXT: ^bb0
// CHECK: dit.slice %{{.*}} -> tensor<1x4096x1x2048xf32>
// CHECK-NOT: dit.map
func.func @own(%x: tensor<1x4096x256xbf16>, %v: tensor<4096x256xbf16>, %w: tensor<1x1x2x2048xf32>) -> tensor<1x4096x1x2048xf32> {
  %m = dit.matmul %x, %v transpose_rhs : (tensor<1x4096x256xbf16>, tensor<4096x256xbf16>) -> tensor<1x4096x4096xbf16>
  %t = dit.view %m : tensor<1x4096x4096xbf16> -> tensor<1x4096x2x2048xbf16>
  %a = dit.map(%t, %w) : (tensor<1x4096x2x2048xbf16>, tensor<1x1x2x2048xf32>) -> tensor<1x4096x2x2048xf32> {
  ^bb0(%p: f32, %q: f32):
    %r = arith.addf %p, %q : f32
    dit.yield %r : f32
  }
  %s = dit.slice %a offsets [0, 0, 1, 0] steps [1, 1, 1, 1] : tensor<1x4096x2x2048xf32> -> tensor<1x4096x1x2048xf32>
  return %s : tensor<1x4096x1x2048xf32>
}

// -----

// One timestep: a row is no bytes to speak of.
// CHECK-LABEL: @row
// CHECK: dit.map
// CHECK: dit.slice %{{.*}} -> tensor<1x1x2048xf32>
// CHECK-NOT: dit.map
func.func @row(%t: tensor<1x2x2048xbf16>, %w: tensor<1x2x2048xf32>) -> tensor<1x1x2048xf32> {
  %a = dit.map(%t, %w) : (tensor<1x2x2048xbf16>, tensor<1x2x2048xf32>) -> tensor<1x2x2048xf32> {
  ^bb0(%p: f32, %q: f32):
    %r = arith.addf %p, %q : f32
    dit.yield %r : f32
  }
  %s = dit.slice %a offsets [0, 1, 0] steps [1, 1, 1] : tensor<1x2x2048xf32> -> tensor<1x1x2048xf32>
  return %s : tensor<1x1x2048xf32>
}

// -----

// Read whole as well, the sum is stored, and its parts are views of it.
// CHECK-LABEL: @whole
// CHECK: %[[A:.*]] = dit.map
// CHECK: %[[S:.*]] = dit.slice %[[A]]
// CHECK: return %[[S]], %[[A]]
func.func @whole(%t: tensor<1x4096x2x4096xbf16>, %w: tensor<1x1x2x4096xf32>) -> (tensor<1x4096x1x4096xf32>, tensor<1x4096x2x4096xf32>) {
  %a = dit.map(%t, %w) : (tensor<1x4096x2x4096xbf16>, tensor<1x1x2x4096xf32>) -> tensor<1x4096x2x4096xf32> {
  ^bb0(%p: f32, %q: f32):
    %r = arith.addf %p, %q : f32
    dit.yield %r : f32
  }
  %s = dit.slice %a offsets [0, 0, 1, 0] steps [1, 1, 1, 1] : tensor<1x4096x2x4096xf32> -> tensor<1x4096x1x4096xf32>
  return %s, %a : tensor<1x4096x1x4096xf32>, tensor<1x4096x2x4096xf32>
}

// -----

// A rotation that is written in place: all is multiplied by cosines, then each half gets the other one by sines. The halves are put
// together again, so that the product is part of theirs also where it is few bytes.
// CHECK-LABEL: @written_in_place
// CHECK: %[[A:.*]] = dit.map(%{{.*}}, %arg1) : (tensor<6x1x4xf32>, tensor<6x1x4xf32>) -> tensor<6x1x4xf32>
// CHECK: %[[FIRST:.*]] = dit.map(%[[A]], %arg2
// CHECK: %[[B:.*]] = dit.map(%{{.*}}, %arg1) : (tensor<6x1x4xf32>, tensor<6x1x4xf32>) -> tensor<6x1x4xf32>
// CHECK: %[[SECOND:.*]] = dit.map(%[[B]], %arg2
// CHECK: dit.concat(%[[FIRST]], %[[SECOND]])
func.func @written_in_place(%x: tensor<6x2x4xf32>, %c: tensor<6x1x4xf32>, %s: tensor<6x1x4xf32>) -> tensor<6x2x4xf32> {
  %a = dit.slice %x offsets [0, 0, 0] steps [1, 1, 1] : tensor<6x2x4xf32> -> tensor<6x1x4xf32>
  %b = dit.slice %x offsets [0, 1, 0] steps [1, 1, 1] : tensor<6x2x4xf32> -> tensor<6x1x4xf32>
  %y = dit.map(%x, %c) : (tensor<6x2x4xf32>, tensor<6x1x4xf32>) -> tensor<6x2x4xf32> {
  ^bb0(%p: f32, %q: f32):
    %r = arith.mulf %p, %q : f32
    dit.yield %r : f32
  }
  %ya = dit.slice %y offsets [0, 0, 0] steps [1, 1, 1] : tensor<6x2x4xf32> -> tensor<6x1x4xf32>
  %first = dit.map(%ya, %s, %b) : (tensor<6x1x4xf32>, tensor<6x1x4xf32>, tensor<6x1x4xf32>) -> tensor<6x1x4xf32> {
  ^bb0(%p: f32, %q: f32, %z: f32):
    %n = arith.mulf %q, %z : f32
    %r = arith.subf %p, %n : f32
    dit.yield %r : f32
  }
  %yb = dit.slice %y offsets [0, 1, 0] steps [1, 1, 1] : tensor<6x2x4xf32> -> tensor<6x1x4xf32>
  %second = dit.map(%yb, %s, %a) : (tensor<6x1x4xf32>, tensor<6x1x4xf32>, tensor<6x1x4xf32>) -> tensor<6x1x4xf32> {
  ^bb0(%p: f32, %q: f32, %z: f32):
    %n = arith.mulf %q, %z : f32
    %r = arith.addf %p, %n : f32
    dit.yield %r : f32
  }
  %o = dit.concat(%first, %second) axis 1 : (tensor<6x1x4xf32>, tensor<6x1x4xf32>) -> tensor<6x2x4xf32>
  return %o : tensor<6x2x4xf32>
}

// -----

// Shift and scale of one timestep are repeated for all tokens where they are put together: the row is added once.
// CHECK-LABEL: @repeated
// CHECK: %[[A:.*]] = dit.map(%arg0, %arg1) {{.*}} -> tensor<1x2x8xf32>
// CHECK: dit.slice %[[A]]
// CHECK: dit.slice %[[A]]
func.func @repeated(%t: tensor<1x2x8xf32>, %w: tensor<1x2x8xf32>, %x: tensor<1x5x8xf32>, %y: tensor<1x7x8xf32>) -> tensor<1x12x8xf32> {
  %a = dit.map(%t, %w) : (tensor<1x2x8xf32>, tensor<1x2x8xf32>) -> tensor<1x2x8xf32> {
  ^bb0(%p: f32, %q: f32):
    %r = arith.addf %p, %q : f32
    dit.yield %r : f32
  }
  %s0 = dit.slice %a offsets [0, 0, 0] steps [1, 1, 1] : tensor<1x2x8xf32> -> tensor<1x1x8xf32>
  %s1 = dit.slice %a offsets [0, 1, 0] steps [1, 1, 1] : tensor<1x2x8xf32> -> tensor<1x1x8xf32>
  %u = dit.map(%x, %s0) : (tensor<1x5x8xf32>, tensor<1x1x8xf32>) -> tensor<1x5x8xf32> {
  ^bb0(%p: f32, %q: f32):
    %r = arith.mulf %p, %q : f32
    dit.yield %r : f32
  }
  %v = dit.map(%y, %s1) : (tensor<1x7x8xf32>, tensor<1x1x8xf32>) -> tensor<1x7x8xf32> {
  ^bb0(%p: f32, %q: f32):
    %r = arith.mulf %p, %q : f32
    dit.yield %r : f32
  }
  %o = dit.concat(%u, %v) axis 1 : (tensor<1x5x8xf32>, tensor<1x7x8xf32>) -> tensor<1x12x8xf32>
  return %o : tensor<1x12x8xf32>
}
