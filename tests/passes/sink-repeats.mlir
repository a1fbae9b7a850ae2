// RUN: ditc-opt %s --split-input-file --ditc-sink-repeats --canonicalize --cse | FileCheck %s

// The modulation of a frame for each of its tokens, as Cosmos-Predict2 writes it: two products, a sum with another expansion, parts,
// and the norm that they modulate.
// CHECK-LABEL: func.func @frames
// CHECK: %[[A:.*]] = dit.map({{.*}} -> tensor<1x4x8xf32>
// CHECK: %[[L1:.*]] = dit.matmul %[[A]], %{{.*}} -> tensor<1x4x2xf32>
// CHECK: %[[L2:.*]] = dit.matmul %[[L1]], %{{.*}} -> tensor<1x4x16xf32>
// CHECK: %[[E:.*]] = dit.map(%[[L2]], %{{.*}} -> tensor<1x4x16xf32>
// CHECK: %[[SHIFT:.*]] = dit.slice %[[E]] {{.*}} -> tensor<1x4x8xf32>
// CHECK: %[[SCALE:.*]] = dit.slice %[[E]] {{.*}} -> tensor<1x4x8xf32>
// CHECK: %[[N:.*]] = dit.norm layer %{{.*}} : (tensor<1x24x8xf32>)
// CHECK-DAG: %[[X:.*]] = dit.view %[[N]] : tensor<1x24x8xf32> -> tensor<1x4x6x8xf32>
// CHECK-DAG: %[[G:.*]] = dit.view %[[SCALE]] : tensor<1x4x8xf32> -> tensor<1x4x1x8xf32>
// CHECK-DAG: %[[H:.*]] = dit.view %[[SHIFT]] : tensor<1x4x8xf32> -> tensor<1x4x1x8xf32>
// CHECK: %[[Y:.*]] = dit.map(%[[X]], %[[G]], %[[H]]) {{.*}} -> tensor<1x4x6x8xf32>
// CHECK: %[[Z:.*]] = dit.view %[[Y]] : tensor<1x4x6x8xf32> -> tensor<1x24x8xf32>
// CHECK: return %[[Z]]
func.func @frames(%x: tensor<1x24x8xf32>, %emb: tensor<4x8xf32>, %temb: tensor<4x16xf32>, %w1: tensor<2x8xf32>, %w2: tensor<16x2xf32>) -> tensor<1x24x8xf32> {
  %e5 = dit.view %emb : tensor<4x8xf32> -> tensor<1x4x1x1x8xf32>
  %ex = dit.expand %e5 : tensor<1x4x1x1x8xf32> -> tensor<1x4x2x3x8xf32>
  %ev = dit.view %ex : tensor<1x4x2x3x8xf32> -> tensor<1x24x8xf32>
  %t5 = dit.view %temb : tensor<4x16xf32> -> tensor<1x4x1x1x16xf32>
  %tx = dit.expand %t5 : tensor<1x4x1x1x16xf32> -> tensor<1x4x2x3x16xf32>
  %tv = dit.view %tx : tensor<1x4x2x3x16xf32> -> tensor<1x24x16xf32>
  %a = dit.map(%ev) : (tensor<1x24x8xf32>) -> tensor<1x24x8xf32> {
  ^bb0(%p: f32):
    %r = math.tanh %p : f32
    dit.yield %r : f32
  }
  %l1 = dit.matmul %a, %w1 transpose_rhs : (tensor<1x24x8xf32>, tensor<2x8xf32>) -> tensor<1x24x2xf32>
  %l2 = dit.matmul %l1, %w2 transpose_rhs : (tensor<1x24x2xf32>, tensor<16x2xf32>) -> tensor<1x24x16xf32>
  %e = dit.map(%l2, %tv) : (tensor<1x24x16xf32>, tensor<1x24x16xf32>) -> tensor<1x24x16xf32> {
  ^bb0(%p: f32, %q: f32):
    %r = arith.addf %p, %q : f32
    dit.yield %r : f32
  }
  %shift = dit.slice %e offsets [0, 0, 0] steps [1, 1, 1] : tensor<1x24x16xf32> -> tensor<1x24x8xf32>
  %scale = dit.slice %e offsets [0, 0, 8] steps [1, 1, 1] : tensor<1x24x16xf32> -> tensor<1x24x8xf32>
  %n = dit.norm layer %x axes 1 eps 1.0e-6 : (tensor<1x24x8xf32>) -> tensor<1x24x8xf32>
  %y = dit.map(%n, %scale, %shift) : (tensor<1x24x8xf32>, tensor<1x24x8xf32>, tensor<1x24x8xf32>) -> tensor<1x24x8xf32> {
  ^bb0(%p: f32, %q: f32, %r: f32):
    %s = arith.mulf %p, %q : f32
    %u = arith.addf %s, %r : f32
    dit.yield %u : f32
  }
  return %y : tensor<1x24x8xf32>
}

// -----

// Groups in a batch, each with a row of its own, become rows of one dimension; a norm of rows is as good once.
// CHECK-LABEL: func.func @batch
// CHECK: %[[V:.*]] = dit.view %arg0 : tensor<2x3x1x8xf32> -> tensor<6x8xf32>
// CHECK: %[[N:.*]] = dit.norm rms %[[V]] {{.*}} -> tensor<6x8xf32>
// CHECK: dit.view %arg1 : tensor<24x8xf32> -> tensor<6x4x8xf32>
// CHECK: dit.map({{.*}}) : (tensor<6x4x8xf32>, tensor<6x1x8xf32>) -> tensor<6x4x8xf32>
func.func @batch(%e: tensor<2x3x1x8xf32>, %x: tensor<24x8xf32>) -> tensor<24x8xf32> {
  %ex = dit.expand %e : tensor<2x3x1x8xf32> -> tensor<2x3x4x8xf32>
  %v3 = dit.view %ex : tensor<2x3x4x8xf32> -> tensor<2x12x8xf32>
  %v = dit.view %v3 : tensor<2x12x8xf32> -> tensor<24x8xf32>
  %n = dit.norm rms %v axes 1 eps 1.0e-6 : (tensor<24x8xf32>) -> tensor<24x8xf32>
  %y = dit.map(%x, %n) : (tensor<24x8xf32>, tensor<24x8xf32>) -> tensor<24x8xf32> {
  ^bb0(%p: f32, %q: f32):
    %s = arith.mulf %p, %q : f32
    dit.yield %s : f32
  }
  return %y : tensor<24x8xf32>
}

// -----

// One row for all: the map repeats it by itself.
// CHECK-LABEL: func.func @one
// CHECK: %[[M:.*]] = dit.matmul %arg0, %{{.*}} -> tensor<1x8xf32>
// CHECK: dit.map(%arg2, %[[M]]) : (tensor<24x8xf32>, tensor<1x8xf32>) -> tensor<24x8xf32>
func.func @one(%e: tensor<1x8xf32>, %w: tensor<8x8xf32>, %x: tensor<24x8xf32>) -> tensor<24x8xf32> {
  %ex = dit.expand %e : tensor<1x8xf32> -> tensor<24x8xf32>
  %m = dit.matmul %ex, %w transpose_rhs : (tensor<24x8xf32>, tensor<8x8xf32>) -> tensor<24x8xf32>
  %y = dit.map(%x, %m) : (tensor<24x8xf32>, tensor<24x8xf32>) -> tensor<24x8xf32> {
  ^bb0(%p: f32, %q: f32):
    %s = arith.mulf %p, %q : f32
    dit.yield %s : f32
  }
  return %y : tensor<24x8xf32>
}

// -----

// A product that something reads whole, of few rows: to spread it out would cost a launch more, and save less.
// CHECK-LABEL: func.func @small
// CHECK: dit.matmul %{{.*}} -> tensor<24x8xf32>
// CHECK-NEXT: return
func.func @small(%e: tensor<4x1x8xf32>, %w: tensor<8x8xf32>) -> tensor<24x8xf32> {
  %ex = dit.expand %e : tensor<4x1x8xf32> -> tensor<4x6x8xf32>
  %v = dit.view %ex : tensor<4x6x8xf32> -> tensor<24x8xf32>
  %m = dit.matmul %v, %w transpose_rhs : (tensor<24x8xf32>, tensor<8x8xf32>) -> tensor<24x8xf32>
  return %m : tensor<24x8xf32>
}

// -----

// Of many it saves more.
// CHECK-LABEL: func.func @large
// CHECK: %[[M:.*]] = dit.matmul %{{.*}} -> tensor<4x2048xbf16>
// CHECK: %[[O:.*]] = dit.view %[[M]] : tensor<4x2048xbf16> -> tensor<4x1x2048xbf16>
// CHECK: %[[X:.*]] = dit.expand %[[O]] : tensor<4x1x2048xbf16> -> tensor<4x2048x2048xbf16>
// CHECK: %[[V:.*]] = dit.view %[[X]]
// CHECK: return %[[V]]
func.func @large(%e: tensor<4x1x2048xbf16>, %w: tensor<2048x2048xbf16>) -> tensor<8192x2048xbf16> {
  %ex = dit.expand %e : tensor<4x1x2048xbf16> -> tensor<4x2048x2048xbf16>
  %v = dit.view %ex : tensor<4x2048x2048xbf16> -> tensor<8192x2048xbf16>
  %m = dit.matmul %v, %w transpose_rhs : (tensor<8192x2048xbf16>, tensor<2048x2048xbf16>) -> tensor<8192x2048xbf16>
  return %m : tensor<8192x2048xbf16>
}

// -----

// Columns that are repeated (a rotation's table, for both of a pair) are no rows, and a repetition of whole sets has no groups.
// CHECK-LABEL: func.func @other
// CHECK-COUNT-2: dit.expand
// CHECK: dit.map({{.*}}) : (tensor<24x8xf32>, tensor<24x8xf32>, tensor<24x8xf32>) -> tensor<24x8xf32>
func.func @other(%t: tensor<24x4x1xf32>, %s: tensor<1x6x8xf32>, %x: tensor<24x8xf32>) -> tensor<24x8xf32> {
  %tx = dit.expand %t : tensor<24x4x1xf32> -> tensor<24x4x2xf32>
  %tv = dit.view %tx : tensor<24x4x2xf32> -> tensor<24x8xf32>
  %sx = dit.expand %s : tensor<1x6x8xf32> -> tensor<4x6x8xf32>
  %sv = dit.view %sx : tensor<4x6x8xf32> -> tensor<24x8xf32>
  %y = dit.map(%x, %tv, %sv) : (tensor<24x8xf32>, tensor<24x8xf32>, tensor<24x8xf32>) -> tensor<24x8xf32> {
  ^bb0(%p: f32, %q: f32, %r: f32):
    %m = arith.mulf %p, %q : f32
    %u = arith.addf %m, %r : f32
    dit.yield %u : f32
  }
  return %y : tensor<24x8xf32>
}

// -----

// A map that repeats a row by itself is a part of the map that reads it; in front of a product it sees the row once.
// CHECK-LABEL: func.func @map
// CHECK: %[[A:.*]] = dit.map(%arg0) : (tensor<1x8xf32>) -> tensor<24x8xf32>
// CHECK: dit.map(%arg2, %[[A]])
// CHECK: %[[B:.*]] = dit.map(%arg0) : (tensor<1x8xf32>) -> tensor<1x8xf32>
// CHECK: dit.matmul %[[B]], %arg1 transpose_rhs {{.*}} -> tensor<1x8xf32>
func.func @map(%e: tensor<1x8xf32>, %w: tensor<8x8xf32>, %x: tensor<24x8xf32>) -> (tensor<24x8xf32>, tensor<24x8xf32>) {
  %a = dit.map(%e) : (tensor<1x8xf32>) -> tensor<24x8xf32> {
  ^bb0(%p: f32):
    %r = math.exp %p : f32
    dit.yield %r : f32
  }
  %y = dit.map(%x, %a) : (tensor<24x8xf32>, tensor<24x8xf32>) -> tensor<24x8xf32> {
  ^bb0(%p: f32, %q: f32):
    %s = arith.mulf %p, %q : f32
    dit.yield %s : f32
  }
  %b = dit.map(%e) : (tensor<1x8xf32>) -> tensor<24x8xf32> {
  ^bb0(%p: f32):
    %r = math.tanh %p : f32
    dit.yield %r : f32
  }
  %m = dit.matmul %b, %w transpose_rhs : (tensor<24x8xf32>, tensor<8x8xf32>) -> tensor<24x8xf32>
  %z = dit.map(%x, %m) : (tensor<24x8xf32>, tensor<24x8xf32>) -> tensor<24x8xf32> {
  ^bb0(%p: f32, %q: f32):
    %s = arith.mulf %p, %q : f32
    dit.yield %s : f32
  }
  return %y, %z : tensor<24x8xf32>, tensor<24x8xf32>
}

// -----

// Rows times themselves: once on the left, all of them on the right.
// CHECK-LABEL: func.func @gram
// CHECK: %[[ALL:.*]] = dit.expand %arg0 : tensor<1x48xf32> -> tensor<24x48xf32>
// CHECK: %[[M:.*]] = dit.matmul %arg0, %[[ALL]] transpose_rhs : (tensor<1x48xf32>, tensor<24x48xf32>) -> tensor<1x24xf32>
// CHECK: dit.map(%arg1, %[[M]])
func.func @gram(%e: tensor<1x48xf32>, %x: tensor<24x24xf32>) -> tensor<24x24xf32> {
  %v = dit.expand %e : tensor<1x48xf32> -> tensor<24x48xf32>
  %m = dit.matmul %v, %v transpose_rhs : (tensor<24x48xf32>, tensor<24x48xf32>) -> tensor<24x24xf32>
  %y = dit.map(%x, %m) : (tensor<24x24xf32>, tensor<24x24xf32>) -> tensor<24x24xf32> {
  ^bb0(%p: f32, %q: f32):
    %s = arith.mulf %p, %q : f32
    dit.yield %s : f32
  }
  return %y : tensor<24x24xf32>
}

// -----

// The keys of a video are those of each frame (Latte): frames are queries of one attention, which a mask of keys does not hinder.
// CHECK-LABEL: func.func @keys_of_frames
// CHECK-DAG: %[[K:.*]] = dit.permute %{{.*}} [0, 2, 1, 3] : tensor<2x7x4x8xf32> -> tensor<2x4x7x8xf32>
// CHECK-DAG: %[[Q:.*]] = dit.view %{{.*}} -> tensor<2x4x15x8xf32>
// CHECK: %[[O:.*]] = dit.attention %[[Q]], %[[K]], %[[K]] mask %arg2 {{.*}} -> tensor<2x4x15x8xf32>
// CHECK: %[[P:.*]] = dit.permute %[[O]] [0, 2, 1, 3] : tensor<2x4x15x8xf32> -> tensor<2x15x4x8xf32>
// CHECK: dit.view %[[P]] : tensor<2x15x4x8xf32> -> tensor<6x5x4x8xf32>
func.func @keys_of_frames(%x: tensor<6x5x32xf32>, %text: tensor<2x7x32xf32>, %mask: tensor<1x1x1x7xi1>) -> tensor<6x4x5x8xf32> {
  %v = dit.view %x : tensor<6x5x32xf32> -> tensor<6x5x4x8xf32>
  %q = dit.permute %v [0, 2, 1, 3] : tensor<6x5x4x8xf32> -> tensor<6x4x5x8xf32>
  %t = dit.view %text : tensor<2x7x32xf32> -> tensor<2x1x7x32xf32>
  %e = dit.expand %t : tensor<2x1x7x32xf32> -> tensor<2x3x7x32xf32>
  %r = dit.view %e : tensor<2x3x7x32xf32> -> tensor<6x7x4x8xf32>
  %k = dit.permute %r [0, 2, 1, 3] : tensor<6x7x4x8xf32> -> tensor<6x4x7x8xf32>
  %o = dit.attention %q, %k, %k mask %mask scale 1.0 : (tensor<6x4x5x8xf32>, tensor<6x4x7x8xf32>, tensor<6x4x7x8xf32>, tensor<1x1x1x7xi1>) -> tensor<6x4x5x8xf32>
  return %o : tensor<6x4x5x8xf32>
}

// -----

// Not where each frame has a mask of its own, or queries see keys by their places.
// CHECK-LABEL: func.func @masks_of_frames
// CHECK: dit.attention {{.*}} -> tensor<6x4x5x8xf32>
// CHECK: dit.attention {{.*}} causal {{.*}} -> tensor<6x4x5x8xf32>
func.func @masks_of_frames(%q: tensor<6x4x5x8xf32>, %text: tensor<2x1x4x7x8xf32>, %mask: tensor<6x1x1x7xi1>) -> (tensor<6x4x5x8xf32>, tensor<6x4x5x8xf32>) {
  %e = dit.expand %text : tensor<2x1x4x7x8xf32> -> tensor<2x3x4x7x8xf32>
  %k = dit.view %e : tensor<2x3x4x7x8xf32> -> tensor<6x4x7x8xf32>
  %o = dit.attention %q, %k, %k mask %mask scale 1.0 : (tensor<6x4x5x8xf32>, tensor<6x4x7x8xf32>, tensor<6x4x7x8xf32>, tensor<6x1x1x7xi1>) -> tensor<6x4x5x8xf32>
  %c = dit.attention %q, %k, %k causal scale 1.0 : (tensor<6x4x5x8xf32>, tensor<6x4x7x8xf32>, tensor<6x4x7x8xf32>) -> tensor<6x4x5x8xf32>
  return %o, %c : tensor<6x4x5x8xf32>, tensor<6x4x5x8xf32>
}
