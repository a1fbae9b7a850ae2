// RUN: ditc-opt %s --ditc-fuse-maps --split-input-file | FileCheck %s
// RUN: ditc-opt %s --ditc-fuse-maps=keep-roundings --split-input-file | FileCheck %s --check-prefix=EAGER

// A producer with two readers and an exponential is computed once.
// CHECK-LABEL: @shared
// CHECK-COUNT-3: dit.map
func.func @shared(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %a = dit.map(%x) : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%p: f32):
    %q = math.exp %p : f32
    dit.yield %q : f32
  }
  %b = dit.map(%a) : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%p: f32):
    %q = arith.negf %p : f32
    dit.yield %q : f32
  }
  %c = dit.map(%a, %b) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%p: f32, %q: f32):
    %r = math.sqrt %p : f32
    %s = arith.addf %r, %q : f32
    dit.yield %s : f32
  }
  return %b, %c : tensor<4xf32>, tensor<4xf32>
}

// -----

// What is repeated along a dimension is not computed once per repetition.
// CHECK-LABEL: @repeated
// CHECK-COUNT-2: dit.map
func.func @repeated(%s: tensor<1x4xf32>, %x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %a = dit.map(%s) : (tensor<1x4xf32>) -> tensor<1x4xf32> {
  ^bb0(%p: f32):
    %q = math.exp %p : f32
    dit.yield %q : f32
  }
  %b = dit.map(%a, %x) : (tensor<1x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32> {
  ^bb0(%p: f32, %q: f32):
    %r = arith.mulf %p, %q : f32
    dit.yield %r : f32
  }
  return %b : tensor<8x4xf32>
}

// -----

// The rounding between two bf16 maps disappears, unless roundings are kept.
// CHECK-LABEL: @rounding
// CHECK-NOT: truncf
// EAGER-LABEL: @rounding
// EAGER: math.exp
// EAGER-NEXT: arith.truncf
// EAGER-NEXT: arith.extf
// EAGER-NEXT: arith.negf
func.func @rounding(%x: tensor<4xbf16>) -> tensor<4xbf16> {
  %a = dit.map(%x) : (tensor<4xbf16>) -> tensor<4xbf16> {
  ^bb0(%p: f32):
    %q = math.exp %p : f32
    dit.yield %q : f32
  }
  %b = dit.map(%a) : (tensor<4xbf16>) -> tensor<4xbf16> {
  ^bb0(%p: f32):
    %q = arith.negf %p : f32
    dit.yield %q : f32
  }
  return %b : tensor<4xbf16>
}

// -----

// Narrow integers wrap in memory, so they wrap in the fused body.
// CHECK-LABEL: @wrap
// CHECK: arith.addi
// CHECK-NEXT: arith.trunci {{.*}} : i64 to i8
// CHECK-NEXT: arith.extsi
func.func @wrap(%x: tensor<4xi8>) -> tensor<4xi64> {
  %a = dit.map(%x) : (tensor<4xi8>) -> tensor<4xi8> {
  ^bb0(%p: i64):
    %q = arith.addi %p, %p : i64
    dit.yield %q : i64
  }
  %b = dit.map(%a) : (tensor<4xi8>) -> tensor<4xi64> {
  ^bb0(%p: i64):
    %q = arith.addi %p, %p : i64
    dit.yield %q : i64
  }
  return %b : tensor<4xi64>
}

// -----

// A rounding to fp8 is part of what the model means, and stays.
// CHECK-LABEL: @float8
// CHECK: math.exp
// CHECK-NEXT: arith.truncf {{.*}} : f32 to f8E4M3FN
// CHECK-NEXT: arith.extf {{.*}} : f8E4M3FN to f32
// CHECK-NEXT: arith.negf
func.func @float8(%x: tensor<4xbf16>) -> tensor<4xbf16> {
  %a = dit.map(%x) : (tensor<4xbf16>) -> tensor<4xf8E4M3FN> {
  ^bb0(%p: f32):
    %q = math.exp %p : f32
    dit.yield %q : f32
  }
  %b = dit.map(%a) : (tensor<4xf8E4M3FN>) -> tensor<4xbf16> {
  ^bb0(%p: f32):
    %q = arith.negf %p : f32
    dit.yield %q : f32
  }
  return %b : tensor<4xbf16>
}
