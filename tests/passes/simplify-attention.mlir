// RUN: ditc-opt %s --split-input-file --ditc-simplify-attention --canonicalize | FileCheck %s

// Heads repeated while they lie behind the tokens.
// CHECK-LABEL: func.func @repeated_before
// CHECK: dit.attention {{.*}} scale 1.0{{.*}} : (tensor<1x4x6x8xf32>, tensor<1x2x6x8xf32>, tensor<1x2x6x8xf32>)
func.func @repeated_before(%q: tensor<1x4x6x8xf32>, %k: tensor<1x6x2x8xf32>) -> tensor<1x4x6x8xf32> {
  %u = dit.view %k : tensor<1x6x2x8xf32> -> tensor<1x6x2x1x8xf32>
  %e = dit.expand %u : tensor<1x6x2x1x8xf32> -> tensor<1x6x2x2x8xf32>
  %f = dit.view %e : tensor<1x6x2x2x8xf32> -> tensor<1x6x4x8xf32>
  %h = dit.permute %f [0, 2, 1, 3] : tensor<1x6x4x8xf32> -> tensor<1x4x6x8xf32>
  %o = dit.attention %q, %h, %h scale 1.0 : (tensor<1x4x6x8xf32>, tensor<1x4x6x8xf32>, tensor<1x4x6x8xf32>) -> tensor<1x4x6x8xf32>
  return %o : tensor<1x4x6x8xf32>
}

// -----

// Whole sets of heads one behind the other are another order; so are heads that only the key repeats.
// CHECK-LABEL: func.func @tiled
// CHECK: (tensor<1x4x6x8xf32>, tensor<1x4x6x8xf32>, tensor<1x4x6x8xf32>)
// CHECK: (tensor<1x4x6x8xf32>, tensor<1x4x6x8xf32>, tensor<1x4x6x8xf32>)
func.func @tiled(%q: tensor<1x4x6x8xf32>, %k: tensor<1x2x6x8xf32>) -> (tensor<1x4x6x8xf32>, tensor<1x4x6x8xf32>) {
  %u = dit.view %k : tensor<1x2x6x8xf32> -> tensor<1x1x2x6x8xf32>
  %e = dit.expand %u : tensor<1x1x2x6x8xf32> -> tensor<1x2x2x6x8xf32>
  %f = dit.view %e : tensor<1x2x2x6x8xf32> -> tensor<1x4x6x8xf32>
  %o = dit.attention %q, %f, %f scale 1.0 : (tensor<1x4x6x8xf32>, tensor<1x4x6x8xf32>, tensor<1x4x6x8xf32>) -> tensor<1x4x6x8xf32>
  %u2 = dit.view %k : tensor<1x2x6x8xf32> -> tensor<1x2x1x6x8xf32>
  %e2 = dit.expand %u2 : tensor<1x2x1x6x8xf32> -> tensor<1x2x2x6x8xf32>
  %f2 = dit.view %e2 : tensor<1x2x2x6x8xf32> -> tensor<1x4x6x8xf32>
  %o2 = dit.attention %q, %f2, %q scale 1.0 : (tensor<1x4x6x8xf32>, tensor<1x4x6x8xf32>, tensor<1x4x6x8xf32>) -> tensor<1x4x6x8xf32>
  return %o, %o2 : tensor<1x4x6x8xf32>, tensor<1x4x6x8xf32>
}

// -----

// Rows fetched by 0, 0, 1, 1.
// CHECK-LABEL: func.func @gathered
// CHECK: dit.attention %arg0, %arg1, %arg1
// CHECK: dit.gather
func.func @gathered(%q: tensor<1x4x6x8xf32>, %k: tensor<1x2x6x8xf32>) -> (tensor<1x4x6x8xf32>, tensor<1x4x6x8xf32>) {
  %i = dit.constant dense<[0, 0, 1, 1]> : tensor<4xi64>
  %f = dit.gather %k[%i] axis 1 : (tensor<1x2x6x8xf32>, tensor<4xi64>) -> tensor<1x4x6x8xf32>
  %o = dit.attention %q, %f, %f scale 1.0 : (tensor<1x4x6x8xf32>, tensor<1x4x6x8xf32>, tensor<1x4x6x8xf32>) -> tensor<1x4x6x8xf32>
  %j = dit.constant dense<[0, 1, 0, 1]> : tensor<4xi64>
  %g = dit.gather %k[%j] axis 1 : (tensor<1x2x6x8xf32>, tensor<4xi64>) -> tensor<1x4x6x8xf32>
  %p = dit.attention %q, %g, %g scale 1.0 : (tensor<1x4x6x8xf32>, tensor<1x4x6x8xf32>, tensor<1x4x6x8xf32>) -> tensor<1x4x6x8xf32>
  return %o, %p : tensor<1x4x6x8xf32>, tensor<1x4x6x8xf32>
}

// -----

// Zeros of either sign hide nothing; one other number does.
// CHECK-LABEL: func.func @masks
// CHECK: dit.attention %arg0, %arg0, %arg0 scale 1.0
// CHECK: dit.attention %arg0, %arg0, %arg0 mask
func.func @masks(%q: tensor<1x1x2x8xf32>) -> (tensor<1x1x2x8xf32>, tensor<1x1x2x8xf32>) {
  %m = dit.constant dense<[[[[0.0, -0.0]]]]> : tensor<1x1x1x2xf32>
  %e = dit.expand %m : tensor<1x1x1x2xf32> -> tensor<1x1x2x2xf32>
  %o = dit.attention %q, %q, %q mask %e scale 1.0 : (tensor<1x1x2x8xf32>, tensor<1x1x2x8xf32>, tensor<1x1x2x8xf32>, tensor<1x1x2x2xf32>) -> tensor<1x1x2x8xf32>
  %n = dit.constant dense<[[[[false, true]]]]> : tensor<1x1x1x2xi1>
  %p = dit.attention %q, %q, %q mask %n scale 1.0 : (tensor<1x1x2x8xf32>, tensor<1x1x2x8xf32>, tensor<1x1x2x8xf32>, tensor<1x1x1x2xi1>) -> tensor<1x1x2x8xf32>
  return %o, %p : tensor<1x1x2x8xf32>, tensor<1x1x2x8xf32>
}

// -----

// A constant mask that hides by places only: causal, near neighbours (added), both bounds off the square; a hole is kept.
// CHECK-LABEL: func.func @places
// CHECK: dit.attention %arg0, %arg0, %arg0 causal scale 1.0
// CHECK: dit.attention %arg0, %arg0, %arg0 window [1, 0] scale 1.0
// CHECK: dit.attention %arg0, %arg0, %arg0 mask
// CHECK: dit.attention %arg0, %arg0, %arg0 mask
func.func @places(%q: tensor<2x1x3x8xf32>) -> (tensor<2x1x3x8xf32>, tensor<2x1x3x8xf32>, tensor<2x1x3x8xf32>, tensor<2x1x3x8xf32>) {
  %m = dit.constant dense<[[[[true, false, false], [true, true, false], [true, true, true]]]]> : tensor<1x1x3x3xi1>
  %e = dit.expand %m : tensor<1x1x3x3xi1> -> tensor<2x1x3x3xi1>
  %o = dit.attention %q, %q, %q mask %e scale 1.0 : (tensor<2x1x3x8xf32>, tensor<2x1x3x8xf32>, tensor<2x1x3x8xf32>, tensor<2x1x3x3xi1>) -> tensor<2x1x3x8xf32>
  %n = dit.constant dense<[[0.0, 0xFF800000, 0xFF800000], [0.0, 0.0, 0xFF800000], [0xFF800000, 0.0, 0.0]]> : tensor<3x3xf32>
  %v = dit.view %n : tensor<3x3xf32> -> tensor<1x1x3x3xf32>
  %p = dit.attention %q, %q, %q mask %v scale 1.0 : (tensor<2x1x3x8xf32>, tensor<2x1x3x8xf32>, tensor<2x1x3x8xf32>, tensor<1x1x3x3xf32>) -> tensor<2x1x3x8xf32>
  %h = dit.constant dense<[[[[true, false, false], [true, true, false], [true, false, true]]]]> : tensor<1x1x3x3xi1>
  %r = dit.attention %q, %q, %q mask %h scale 1.0 : (tensor<2x1x3x8xf32>, tensor<2x1x3x8xf32>, tensor<2x1x3x8xf32>, tensor<1x1x3x3xi1>) -> tensor<2x1x3x8xf32>
  %l = dit.constant dense<[[[[0.0, -1.0e+4, -1.0e+4], [0.0, 0.0, -1.0e+4], [0.0, 0.0, 0.0]]]]> : tensor<1x1x3x3xf32>
  %s = dit.attention %q, %q, %q mask %l scale 1.0 : (tensor<2x1x3x8xf32>, tensor<2x1x3x8xf32>, tensor<2x1x3x8xf32>, tensor<1x1x3x3xf32>) -> tensor<2x1x3x8xf32>
  return %o, %p, %r, %s : tensor<2x1x3x8xf32>, tensor<2x1x3x8xf32>, tensor<2x1x3x8xf32>, tensor<2x1x3x8xf32>
}

// -----

// The lowest number of bf16 hides as -inf does, where a row shows a key: here each query's own and the next one. In rows that show
// none (more queries than keys and their neighbours) it is a mean of all values.
// CHECK-LABEL: func.func @lowest
// CHECK: dit.attention %arg0, %arg0, %arg0 window [0, 1] scale 1.0
// CHECK: dit.attention %arg0, %arg1, %arg1 mask
func.func @lowest(%q: tensor<1x2x3x8xbf16>, %k: tensor<1x2x1x8xbf16>) -> (tensor<1x2x3x8xbf16>, tensor<1x2x3x8xbf16>) {
  %m = dit.constant dense<[[[[0.0, 0.0, 0xFF7F], [0xFF7F, 0.0, 0.0], [0xFF7F, 0xFF7F, 0.0]]]]> : tensor<1x1x3x3xbf16>
  %a = dit.attention %q, %q, %q mask %m scale 1.0 : (tensor<1x2x3x8xbf16>, tensor<1x2x3x8xbf16>, tensor<1x2x3x8xbf16>, tensor<1x1x3x3xbf16>) -> tensor<1x2x3x8xbf16>
  %n = dit.constant dense<[[[[0.0], [0xFF7F], [0xFF7F]]]]> : tensor<1x1x3x1xbf16>
  %b = dit.attention %q, %k, %k mask %n scale 1.0 : (tensor<1x2x3x8xbf16>, tensor<1x2x1x8xbf16>, tensor<1x2x1x8xbf16>, tensor<1x1x3x1xbf16>) -> tensor<1x2x3x8xbf16>
  return %a, %b : tensor<1x2x3x8xbf16>, tensor<1x2x3x8xbf16>
}

// -----

// The first keys of all sequences, spread over queries: the others are cut off. Lengths that differ stay a mask, also
// where it has as many numbers as queries have keys.
// CHECK-LABEL: func.func @lengths
// CHECK: %[[K:.*]] = dit.slice %arg0 offsets [0, 0, 0, 0] steps [1, 1, 1, 1] : tensor<2x1x2x8xf32> -> tensor<2x1x1x8xf32>
// CHECK: %[[V:.*]] = dit.slice %arg0 offsets [0, 0, 0, 0] steps [1, 1, 1, 1] : tensor<2x1x2x8xf32> -> tensor<2x1x1x8xf32>
// CHECK: dit.attention %arg0, %[[K]], %[[V]] scale 1.0
// CHECK: dit.attention %arg0, %arg0, %arg0 mask
func.func @lengths(%q: tensor<2x1x2x8xf32>) -> (tensor<2x1x2x8xf32>, tensor<2x1x2x8xf32>) {
  %m = dit.constant dense<[[[[true, false]]], [[[true, false]]]]> : tensor<2x1x1x2xi1>
  %e = dit.expand %m : tensor<2x1x1x2xi1> -> tensor<2x1x2x2xi1>
  %o = dit.attention %q, %q, %q mask %e scale 1.0 : (tensor<2x1x2x8xf32>, tensor<2x1x2x8xf32>, tensor<2x1x2x8xf32>, tensor<2x1x2x2xi1>) -> tensor<2x1x2x8xf32>
  %n = dit.constant dense<[[[[true, false]]], [[[true, true]]]]> : tensor<2x1x1x2xi1>
  %f = dit.expand %n : tensor<2x1x1x2xi1> -> tensor<2x1x2x2xi1>
  %p = dit.attention %q, %q, %q mask %f scale 1.0 : (tensor<2x1x2x8xf32>, tensor<2x1x2x8xf32>, tensor<2x1x2x8xf32>, tensor<2x1x2x2xi1>) -> tensor<2x1x2x8xf32>
  return %o, %p : tensor<2x1x2x8xf32>, tensor<2x1x2x8xf32>
}

// -----

// Values are repeated, keys are not the same for all: nothing changes, and the pass ends.
// CHECK-LABEL: func.func @only_values_repeated
// CHECK: dit.attention {{.*}} : (tensor<1x4x6x8xf32>, tensor<1x4x6x8xf32>, tensor<1x4x6x8xf32>)
func.func @only_values_repeated(%q: tensor<1x4x6x8xf32>, %k: tensor<1x4x6x8xf32>, %v: tensor<2x6x8xf32>) -> tensor<1x4x6x8xf32> {
  %u = dit.view %v : tensor<2x6x8xf32> -> tensor<1x2x1x6x8xf32>
  %e = dit.expand %u : tensor<1x2x1x6x8xf32> -> tensor<1x2x2x6x8xf32>
  %f = dit.view %e : tensor<1x2x2x6x8xf32> -> tensor<1x4x6x8xf32>
  %o = dit.attention %q, %k, %f scale 1.0 : (tensor<1x4x6x8xf32>, tensor<1x4x6x8xf32>, tensor<1x4x6x8xf32>) -> tensor<1x4x6x8xf32>
  return %o : tensor<1x4x6x8xf32>
}

// -----

// Numbers that the decomposition makes of a boolean mask.
// CHECK-LABEL: func.func @booleans
// CHECK: %[[V:.*]] = dit.view %arg1 : tensor<2x6xi1> -> tensor<2x1x1x6xi1>
// CHECK: dit.attention {{.*}} mask %[[V]]
// CHECK: %[[W:.*]] = dit.view %arg1 : tensor<2x6xi1> -> tensor<2x1x1x6xi1>
// CHECK: dit.attention {{.*}} mask %[[W]]
func.func @booleans(%q: tensor<2x4x6x8xbf16>, %seen: tensor<2x6xi1>) -> (tensor<2x4x6x8xbf16>, tensor<2x4x6x8xbf16>) {
  %a = dit.map(%seen) : (tensor<2x6xi1>) -> tensor<2x6xbf16> {
  ^bb0(%s: i1):
    %zero = arith.constant 0.0 : f32
    %low = arith.constant 0xFF800000 : f32
    %r = arith.select %s, %zero, %low : f32
    dit.yield %r : f32
  }
  %a4 = dit.view %a : tensor<2x6xbf16> -> tensor<2x1x1x6xbf16>
  %o = dit.attention %q, %q, %q mask %a4 scale 1.0 : (tensor<2x4x6x8xbf16>, tensor<2x4x6x8xbf16>, tensor<2x4x6x8xbf16>, tensor<2x1x1x6xbf16>) -> tensor<2x4x6x8xbf16>
  %n = dit.map(%seen) : (tensor<2x6xi1>) -> tensor<2x6xi1> {
  ^bb0(%s: i1):
    %false = arith.constant false
    %r = arith.cmpi eq, %s, %false : i1
    dit.yield %r : i1
  }
  %b = dit.map(%n) : (tensor<2x6xi1>) -> tensor<2x6xbf16> {
  ^bb0(%s: i1):
    %zero = arith.constant 0.0 : f32
    %low = arith.constant 0xFF800000 : f32
    %r = arith.select %s, %low, %zero : f32
    dit.yield %r : f32
  }
  %b4 = dit.view %b : tensor<2x6xbf16> -> tensor<2x1x1x6xbf16>
  %p = dit.attention %q, %q, %q mask %b4 scale 1.0 : (tensor<2x4x6x8xbf16>, tensor<2x4x6x8xbf16>, tensor<2x4x6x8xbf16>, tensor<2x1x1x6xbf16>) -> tensor<2x4x6x8xbf16>
  return %o, %p : tensor<2x4x6x8xbf16>, tensor<2x4x6x8xbf16>
}

// -----

// Finite numbers leave rows uniform where all keys have them.
// CHECK-LABEL: func.func @finite_numbers
// CHECK: dit.attention {{.*}}tensor<2x1x1x6xbf16>
func.func @finite_numbers(%q: tensor<2x4x6x8xbf16>, %seen: tensor<2x1x1x6xi1>) -> tensor<2x4x6x8xbf16> {
  %a = dit.map(%seen) : (tensor<2x1x1x6xi1>) -> tensor<2x1x1x6xbf16> {
  ^bb0(%s: i1):
    %zero = arith.constant 0.0 : f32
    %low = arith.constant -1.0e+30 : f32
    %r = arith.select %s, %zero, %low : f32
    dit.yield %r : f32
  }
  %o = dit.attention %q, %q, %q mask %a scale 1.0 : (tensor<2x4x6x8xbf16>, tensor<2x4x6x8xbf16>, tensor<2x4x6x8xbf16>, tensor<2x1x1x6xbf16>) -> tensor<2x4x6x8xbf16>
  return %o : tensor<2x4x6x8xbf16>
}

// -----

// A mask of queries by keys that is one of tokens, twice. Its image tokens are never hidden, so that only the text behind its
// product needs the bias of rows that are nothing.
// CHECK-LABEL: func.func @mask_by_tokens
// CHECK-NOT: tensor<1x1x96x96xi1>
// CHECK: %[[K:.*]] = dit.view {{.*}} -> tensor<1x1x1x96xi1>
// CHECK: %[[O:.*]] = dit.attention %arg0, %arg0, %arg0 mask %[[K]]
// CHECK: %[[I:.*]] = dit.slice {{.*}} offsets [0, 0, 0]
// CHECK: %[[R:.*]] = dit.matmul
// CHECK: %[[S:.*]] = dit.view %arg1 : tensor<1x32xi1> -> tensor<1x32x1xi1>
// CHECK: %[[T:.*]] = dit.map(%[[S]], %[[R]], %{{.*}})
// CHECK: arith.select
// CHECK: return %[[I]], %[[T]]
func.func @mask_by_tokens(%q: tensor<1x2x96x8xbf16>, %m: tensor<1x32xi1>, %w: tensor<16x16xbf16>, %b: tensor<16xbf16>) -> (tensor<1x64x16xbf16>, tensor<1x32x16xbf16>) {
  %p = dit.pad %m low [0, 64] high [0, 0] value true : tensor<1x32xi1> -> tensor<1x96xi1>
  %v = dit.view %p : tensor<1x96xi1> -> tensor<1x1x1x96xi1>
  %e = dit.expand %v : tensor<1x1x1x96xi1> -> tensor<1x1x96x96xi1>
  %t = dit.permute %e [0, 1, 3, 2] : tensor<1x1x96x96xi1> -> tensor<1x1x96x96xi1>
  %a = dit.map(%e, %t) : (tensor<1x1x96x96xi1>, tensor<1x1x96x96xi1>) -> tensor<1x1x96x96xi1> {
  ^bb0(%x: i1, %y: i1):
    %z = arith.andi %x, %y : i1
    dit.yield %z : i1
  }
  %o = dit.attention %q, %q, %q mask %a scale 1.0 : (tensor<1x2x96x8xbf16>, tensor<1x2x96x8xbf16>, tensor<1x2x96x8xbf16>, tensor<1x1x96x96xi1>) -> tensor<1x2x96x8xbf16>
  %op = dit.permute %o [0, 2, 1, 3] : tensor<1x2x96x8xbf16> -> tensor<1x96x2x8xbf16>
  %ov = dit.view %op : tensor<1x96x2x8xbf16> -> tensor<1x96x16xbf16>
  %i = dit.slice %ov offsets [0, 0, 0] steps [1, 1, 1] : tensor<1x96x16xbf16> -> tensor<1x64x16xbf16>
  %s = dit.slice %ov offsets [0, 64, 0] steps [1, 1, 1] : tensor<1x96x16xbf16> -> tensor<1x32x16xbf16>
  %r = dit.matmul %s, %w bias %b transpose_rhs : (tensor<1x32x16xbf16>, tensor<16x16xbf16>, tensor<16xbf16>) -> tensor<1x32x16xbf16>
  return %i, %r : tensor<1x64x16xbf16>, tensor<1x32x16xbf16>
}

// -----

// Numbers of 0 and 1, of other queries than keys, some hidden for one batch; nothing but zeros where no product follows.
// CHECK-LABEL: func.func @mask_by_numbers
// CHECK: dit.attention %arg0, %arg1, %arg1 mask %{{.*}} scale {{.*}}, tensor<2x1x1x80xi1>)
// CHECK: dit.map(%{{.*}}) : (tensor<2x1x72x1xi1>, tensor<2x1x72x8xf32>) -> tensor<2x1x72x8xf32>
// CHECK: arith.select
func.func @mask_by_numbers(%q: tensor<2x1x72x8xf32>, %k: tensor<2x1x80x8xf32>, %a: tensor<2x72xi1>, %b: tensor<2x80xi1>) -> tensor<2x1x72x8xf32> {
  %a0 = dit.map(%a) : (tensor<2x72xi1>) -> tensor<2x72xf32> {
  ^bb0(%x: i1):
    %y = arith.uitofp %x : i1 to f32
    dit.yield %y : f32
  }
  %b0 = dit.map(%b) : (tensor<2x80xi1>) -> tensor<2x80xf32> {
  ^bb0(%x: i1):
    %y = arith.uitofp %x : i1 to f32
    dit.yield %y : f32
  }
  %a1 = dit.view %a0 : tensor<2x72xf32> -> tensor<2x72x1xf32>
  %b1 = dit.view %b0 : tensor<2x80xf32> -> tensor<2x1x80xf32>
  %p = dit.map(%a1, %b1) : (tensor<2x72x1xf32>, tensor<2x1x80xf32>) -> tensor<2x72x80xf32> {
  ^bb0(%x: f32, %y: f32):
    %z = arith.mulf %x, %y : f32
    dit.yield %z : f32
  }
  %v = dit.view %p : tensor<2x72x80xf32> -> tensor<2x1x72x80xf32>
  %m = dit.map(%v) : (tensor<2x1x72x80xf32>) -> tensor<2x1x72x80xi1> {
  ^bb0(%x: f32):
    %zero = arith.constant 0.0 : f32
    %y = arith.cmpf une, %x, %zero : f32
    dit.yield %y : i1
  }
  %o = dit.attention %q, %k, %k mask %m scale 1.0 : (tensor<2x1x72x8xf32>, tensor<2x1x80x8xf32>, tensor<2x1x80x8xf32>, tensor<2x1x72x80xi1>) -> tensor<2x1x72x8xf32>
  return %o : tensor<2x1x72x8xf32>
}

// -----

// A mask that depends on both, and one of so few keys that the zeros would be larger, stay.
// CHECK-LABEL: func.func @mask_stays
// CHECK: dit.attention {{.*}}, tensor<1x1x64x64xi1>)
// CHECK: dit.attention {{.*}}, tensor<1x1x64x16xi1>)
func.func @mask_stays(%q: tensor<1x1x64x8xf32>, %k: tensor<1x1x16x8xf32>, %a: tensor<1x1x64x1xi1>, %b: tensor<1x1x1x64xi1>, %c: tensor<1x1x1x16xi1>) -> (tensor<1x1x64x8xf32>, tensor<1x1x64x8xf32>) {
  %m = dit.map(%a, %b) : (tensor<1x1x64x1xi1>, tensor<1x1x1x64xi1>) -> tensor<1x1x64x64xi1> {
  ^bb0(%x: i1, %y: i1):
    %z = arith.ori %x, %y : i1
    dit.yield %z : i1
  }
  %o = dit.attention %q, %q, %q mask %m scale 1.0 : (tensor<1x1x64x8xf32>, tensor<1x1x64x8xf32>, tensor<1x1x64x8xf32>, tensor<1x1x64x64xi1>) -> tensor<1x1x64x8xf32>
  %n = dit.map(%a, %c) : (tensor<1x1x64x1xi1>, tensor<1x1x1x16xi1>) -> tensor<1x1x64x16xi1> {
  ^bb0(%x: i1, %y: i1):
    %z = arith.andi %x, %y : i1
    dit.yield %z : i1
  }
  %p = dit.attention %q, %k, %k mask %n scale 1.0 : (tensor<1x1x64x8xf32>, tensor<1x1x16x8xf32>, tensor<1x1x16x8xf32>, tensor<1x1x64x16xi1>) -> tensor<1x1x64x8xf32>
  return %o, %p : tensor<1x1x64x8xf32>, tensor<1x1x64x8xf32>
}
