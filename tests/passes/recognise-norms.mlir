// RUN: ditc-opt %s --split-input-file --ditc-recognise-norms --cse | FileCheck %s
// RUN: ditc-opt %s --split-input-file --ditc-recognise-norms=keep-roundings=true --cse | FileCheck %s --check-prefix=KEEP

// x - mean(x) over the root of the mean of its squares, with the model's weight and bias. The last two maps leave f32,
// as a cast in front of the norm does.
// CHECK-LABEL: func.func @layer
// CHECK: %[[W:.*]] = dit.weight "w"
// CHECK: %[[B:.*]] = dit.weight "b"
// CHECK: dit.norm layer %arg0 weight %[[W]] bias %[[B]] axes 1 eps 9.99{{.*}}E-7 : (tensor<4x8xbf16>, tensor<8xbf16>, tensor<8xf32>) -> tensor<4x8xf32>
// KEEP-LABEL: func.func @layer
// KEEP: dit.norm layer %arg0 weight
func.func @layer(%x: tensor<4x8xbf16>) -> tensor<4x8xf32> {
  %w = dit.weight "w" : tensor<8xbf16>
  %b = dit.weight "b" : tensor<8xf32>
  %x32 = dit.map(%x) : (tensor<4x8xbf16>) -> tensor<4x8xf32> {
  ^bb0(%a: f32):
    dit.yield %a : f32
  }
  %w32 = dit.map(%w) : (tensor<8xbf16>) -> tensor<8xf32> {
  ^bb0(%a: f32):
    dit.yield %a : f32
  }
  %w2 = dit.view %w32 : tensor<8xf32> -> tensor<1x8xf32>
  %b2 = dit.view %b : tensor<8xf32> -> tensor<1x8xf32>
  %m = dit.reduce mean %x32 axes [1] : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %c = dit.map(%x32, %m) : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32> {
  ^bb0(%p: f32, %q: f32):
    %r = arith.subf %p, %q : f32
    dit.yield %r : f32
  }
  %s = dit.map(%c) : (tensor<4x8xf32>) -> tensor<4x8xf32> {
  ^bb0(%p: f32):
    %two = arith.constant 2.0 : f32
    %r = math.powf %p, %two : f32
    dit.yield %r : f32
  }
  %t = dit.reduce sum %s axes [1] : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %v = dit.map(%t) : (tensor<4x1xf32>) -> tensor<4x1xf32> {
  ^bb0(%p: f32):
    %n = arith.constant 8.0 : f32
    %r = arith.divf %p, %n : f32
    dit.yield %r : f32
  }
  %d = dit.map(%v) : (tensor<4x1xf32>) -> tensor<4x1xf32> {
  ^bb0(%p: f32):
    %eps = arith.constant 1.0e-6 : f32
    %e = arith.addf %p, %eps : f32
    %r = math.sqrt %e : f32
    dit.yield %r : f32
  }
  %y = dit.map(%c, %d) : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32> {
  ^bb0(%p: f32, %q: f32):
    %r = arith.divf %p, %q : f32
    dit.yield %r : f32
  }
  %z = dit.map(%w2, %y) : (tensor<1x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> {
  ^bb0(%p: f32, %q: f32):
    %r = arith.mulf %p, %q : f32
    dit.yield %r : f32
  }
  %o = dit.map(%z, %b2) : (tensor<4x8xf32>, tensor<1x8xf32>) -> tensor<4x8xf32> {
  ^bb0(%p: f32, %q: f32):
    %r = arith.addf %p, %q : f32
    dit.yield %r : f32
  }
  return %o : tensor<4x8xf32>
}

// -----

// torch's var with its correction divides by seven: no LayerNorm.
// CHECK-LABEL: func.func @corrected
// CHECK-NOT: dit.norm
func.func @corrected(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %m = dit.reduce mean %x axes [1] : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %c = dit.map(%x, %m) : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32> {
  ^bb0(%p: f32, %q: f32):
    %r = arith.subf %p, %q : f32
    dit.yield %r : f32
  }
  %s = dit.map(%c) : (tensor<4x8xf32>) -> tensor<4x8xf32> {
  ^bb0(%p: f32):
    %r = arith.mulf %p, %p : f32
    dit.yield %r : f32
  }
  %t = dit.reduce sum %s axes [1] : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %y = dit.map(%c, %t) : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32> {
  ^bb0(%p: f32, %q: f32):
    %n = arith.constant 7.0 : f32
    %eps = arith.constant 1.0e-6 : f32
    %v = arith.divf %q, %n : f32
    %e = arith.addf %v, %eps : f32
    %d = math.rsqrt %e : f32
    %r = arith.mulf %p, %d : f32
    dit.yield %r : f32
  }
  return %y : tensor<4x8xf32>
}

// -----

// The mean of another tensor's squares is no norm.
// CHECK-LABEL: func.func @other
// CHECK-NOT: dit.norm
func.func @other(%x: tensor<4x8xf32>, %z: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %s = dit.map(%z) : (tensor<4x8xf32>) -> tensor<4x8xf32> {
  ^bb0(%p: f32):
    %r = arith.mulf %p, %p : f32
    dit.yield %r : f32
  }
  %m = dit.reduce mean %s axes [1] : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %y = dit.map(%x, %m) : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32> {
  ^bb0(%p: f32, %q: f32):
    %eps = arith.constant 1.0e-6 : f32
    %e = arith.addf %q, %eps : f32
    %d = math.rsqrt %e : f32
    %r = arith.mulf %p, %d : f32
    dit.yield %r : f32
  }
  return %y : tensor<4x8xf32>
}

// -----

// Squares rounded to bf16 before the mean: kept when roundings are.
// CHECK-LABEL: func.func @rounded
// CHECK: dit.norm rms
// KEEP-LABEL: func.func @rounded
// KEEP-NOT: dit.norm
func.func @rounded(%x: tensor<4x8xbf16>) -> tensor<4x8xbf16> {
  %s = dit.map(%x) : (tensor<4x8xbf16>) -> tensor<4x8xbf16> {
  ^bb0(%p: f32):
    %r = arith.mulf %p, %p : f32
    dit.yield %r : f32
  }
  %m = dit.reduce mean %s axes [1] : (tensor<4x8xbf16>) -> tensor<4x1xbf16>
  %y = dit.map(%x, %m) : (tensor<4x8xbf16>, tensor<4x1xbf16>) -> tensor<4x8xbf16> {
  ^bb0(%p: f32, %q: f32):
    %eps = arith.constant 1.0e-6 : f32
    %e = arith.addf %q, %eps : f32
    %d = math.rsqrt %e : f32
    %r = arith.mulf %p, %d : f32
    dit.yield %r : f32
  }
  return %y : tensor<4x8xbf16>
}

// -----

// A modulation is no weight of the model: it stays a map, whatever its shape.
// CHECK-LABEL: func.func @modulated
// KEEP-LABEL: func.func @modulated
// CHECK: dit.norm rms %arg0 axes 1
// CHECK: dit.map
func.func @modulated(%x: tensor<4x8xf32>, %scale: tensor<1x8xf32>) -> tensor<4x8xf32> {
  %n = dit.norm rms %x axes 1 eps 1.0e-6 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = dit.map(%n, %scale) : (tensor<4x8xf32>, tensor<1x8xf32>) -> tensor<4x8xf32> {
  ^bb0(%p: f32, %q: f32):
    %r = arith.mulf %p, %q : f32
    dit.yield %r : f32
  }
  return %y : tensor<4x8xf32>
}

// -----

// Rows of length 1 (F.normalize in bf16): the length is rounded, bounded and repeated.
// CHECK-LABEL: func.func @length
// CHECK: %[[N:.*]] = dit.norm rms %arg0 axes 1 eps {{.*}}E-26 : (tensor<2x64xbf16>) -> tensor<2x64xf32>
// CHECK: dit.map(%[[N]])
// CHECK: arith.constant 1.250000e-01
// CHECK: return
// KEEP-LABEL: func.func @length
// KEEP-NOT: dit.norm
// KEEP: return
func.func @length(%x: tensor<2x64xbf16>) -> tensor<2x64xbf16> {
  %s = dit.map(%x) : (tensor<2x64xbf16>) -> tensor<2x64xf32> {
  ^bb0(%a: f32):
    %m = arith.mulf %a, %a : f32
    dit.yield %m : f32
  }
  %v = dit.reduce sum %s axes [1] : (tensor<2x64xf32>) -> tensor<2x1xf32>
  %r = dit.map(%v) : (tensor<2x1xf32>) -> tensor<2x1xf32> {
  ^bb0(%a: f32):
    %m = math.sqrt %a : f32
    dit.yield %m : f32
  }
  %n = dit.map(%r) : (tensor<2x1xf32>) -> tensor<2x1xbf16> {
  ^bb0(%a: f32):
    dit.yield %a : f32
  }
  %c = dit.map(%n) : (tensor<2x1xbf16>) -> tensor<2x1xbf16> {
  ^bb0(%a: f32):
    %e = arith.constant 1.00186526E-12 : f32
    %m = arith.maximumf %a, %e : f32
    dit.yield %m : f32
  }
  %w = dit.expand %c : tensor<2x1xbf16> -> tensor<2x64xbf16>
  %y = dit.map(%x, %w) : (tensor<2x64xbf16>, tensor<2x64xbf16>) -> tensor<2x64xbf16> {
  ^bb0(%a: f32, %b: f32):
    %m = arith.divf %a, %b : f32
    dit.yield %m : f32
  }
  return %y : tensor<2x64xbf16>
}

// -----

// A bound that rows of a model may have is none: those below it stay shorter.
// CHECK-LABEL: func.func @bounded
// CHECK-NOT: dit.norm
// CHECK: return
func.func @bounded(%x: tensor<2x64xf32>) -> tensor<2x64xf32> {
  %s = dit.map(%x) : (tensor<2x64xf32>) -> tensor<2x64xf32> {
  ^bb0(%a: f32):
    %m = arith.mulf %a, %a : f32
    dit.yield %m : f32
  }
  %v = dit.reduce sum %s axes [1] : (tensor<2x64xf32>) -> tensor<2x1xf32>
  %c = dit.map(%v) : (tensor<2x1xf32>) -> tensor<2x1xf32> {
  ^bb0(%a: f32):
    %e = arith.constant 1.0E-4 : f32
    %r = math.sqrt %a : f32
    %m = arith.maximumf %r, %e : f32
    dit.yield %m : f32
  }
  %y = dit.map(%x, %c) : (tensor<2x64xf32>, tensor<2x1xf32>) -> tensor<2x64xf32> {
  ^bb0(%a: f32, %b: f32):
    %m = arith.divf %a, %b : f32
    dit.yield %m : f32
  }
  return %y : tensor<2x64xf32>
}
