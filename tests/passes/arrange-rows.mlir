// RUN: ditc-opt %s --split-input-file --ditc-arrange-rows --canonicalize --cse | FileCheck %s

// torch's MultiheadAttention with batches first, of a stream that is read elsewhere too: tokens before batches for the products, batch and
// heads as one dimension. Queries are columns of the product as it is stored.
// CHECK-LABEL: func.func @tokens_first
// CHECK: %[[M:.*]] = dit.matmul %arg0, %arg1 transpose_rhs : {{.*}} -> tensor<2x6x48xf32>
// CHECK: %[[S:.*]] = dit.slice %[[M]] offsets [0, 0, 16] {{.*}} -> tensor<2x6x16xf32>
// CHECK: %[[V:.*]] = dit.view %[[S]] : tensor<2x6x16xf32> -> tensor<2x6x4x4xf32>
// CHECK: %[[P:.*]] = dit.permute %[[V]] [0, 2, 1, 3] : tensor<2x6x4x4xf32> -> tensor<2x4x6x4xf32>
// CHECK: dit.attention %[[P]], %[[P]], %[[P]]
func.func @tokens_first(%x: tensor<2x6x16xf32>, %w: tensor<48x16xf32>) -> tensor<2x4x6x4xf32> {
  %t = dit.permute %x [1, 0, 2] : tensor<2x6x16xf32> -> tensor<6x2x16xf32>
  %m = dit.matmul %t, %w transpose_rhs : (tensor<6x2x16xf32>, tensor<48x16xf32>) -> tensor<6x2x48xf32>
  %s = dit.slice %m offsets [0, 0, 16] steps [1, 1, 1] : tensor<6x2x48xf32> -> tensor<6x2x16xf32>
  %v = dit.view %s : tensor<6x2x16xf32> -> tensor<6x8x4xf32>
  %p = dit.permute %v [1, 0, 2] : tensor<6x8x4xf32> -> tensor<8x6x4xf32>
  %q = dit.view %p : tensor<8x6x4xf32> -> tensor<2x4x6x4xf32>
  %o = dit.attention %q, %q, %q scale 1.0 : (tensor<2x4x6x4xf32>, tensor<2x4x6x4xf32>, tensor<2x4x6x4xf32>) -> tensor<2x4x6x4xf32>
  return %o : tensor<2x4x6x4xf32>
}

// -----

// A norm for this alone writes its rows in order.
// CHECK-LABEL: func.func @behind_norm
// CHECK: %[[N:.*]] = dit.norm
// CHECK: %[[T:.*]] = dit.permute %[[N]] [1, 0, 2]
// CHECK: dit.matmul %[[T]],
func.func @behind_norm(%x: tensor<2x6x16xf32>, %w: tensor<16x16xf32>) -> tensor<2x4x6x4xf32> {
  %n = dit.norm layer %x axes 1 eps 1.000000e-05 : (tensor<2x6x16xf32>) -> tensor<2x6x16xf32>
  %t = dit.permute %n [1, 0, 2] : tensor<2x6x16xf32> -> tensor<6x2x16xf32>
  %m = dit.matmul %t, %w transpose_rhs : (tensor<6x2x16xf32>, tensor<16x16xf32>) -> tensor<6x2x16xf32>
  %v = dit.view %m : tensor<6x2x16xf32> -> tensor<6x2x4x4xf32>
  %p = dit.permute %v [1, 2, 0, 3] : tensor<6x2x4x4xf32> -> tensor<2x4x6x4xf32>
  %o = dit.attention %p, %p, %p scale 1.0 : (tensor<2x4x6x4xf32>, tensor<2x4x6x4xf32>, tensor<2x4x6x4xf32>) -> tensor<2x4x6x4xf32>
  return %o : tensor<2x4x6x4xf32>
}

// -----

// Attention within frames, and the gate of each video: the product has the rows of its epilogue.
// CHECK-LABEL: func.func @frames
// CHECK: %[[V:.*]] = dit.view %arg0 : tensor<6x5x8xf32> -> tensor<2x15x8xf32>
// CHECK: %[[M:.*]] = dit.matmul %[[V]], %arg1 transpose_rhs : {{.*}} -> tensor<2x15x16xf32>
// CHECK: %[[Y:.*]] = dit.map(%arg2, %[[M]])
// CHECK: return %[[Y]]
func.func @frames(%x: tensor<6x5x8xf32>, %w: tensor<16x8xf32>, %g: tensor<2x1x16xf32>) -> tensor<2x15x16xf32> {
  %m = dit.matmul %x, %w transpose_rhs : (tensor<6x5x8xf32>, tensor<16x8xf32>) -> tensor<6x5x16xf32>
  %v = dit.view %m : tensor<6x5x16xf32> -> tensor<2x15x16xf32>
  %y = dit.map(%g, %v) : (tensor<2x1x16xf32>, tensor<2x15x16xf32>) -> tensor<2x15x16xf32> {
  ^bb0(%a: f32, %b: f32):
    %r = arith.mulf %a, %b : f32
    dit.yield %r : f32
  }
  return %y : tensor<2x15x16xf32>
}

// -----

// Attention within places of two videos: (video, place) has no stride where frames come first, so rows stay as they are.
// CHECK-LABEL: func.func @places
// CHECK: %[[M:.*]] = dit.matmul {{.*}} -> tensor<8x3x16xf32>
// CHECK: %[[P:.*]] = dit.permute %{{.*}} [0, 2, 1, 3]
// CHECK: dit.map(%{{.*}}, %{{.*}})
func.func @places(%q: tensor<8x2x3x8xf32>, %w: tensor<16x16xf32>, %x: tensor<2x3x4x16xf32>) -> tensor<2x3x4x16xf32> {
  %o = dit.attention %q, %q, %q scale 1.0 : (tensor<8x2x3x8xf32>, tensor<8x2x3x8xf32>, tensor<8x2x3x8xf32>) -> tensor<8x2x3x8xf32>
  %t = dit.permute %o [0, 2, 1, 3] : tensor<8x2x3x8xf32> -> tensor<8x3x2x8xf32>
  %r = dit.view %t : tensor<8x3x2x8xf32> -> tensor<8x3x16xf32>
  %m = dit.matmul %r, %w transpose_rhs : (tensor<8x3x16xf32>, tensor<16x16xf32>) -> tensor<8x3x16xf32>
  %v = dit.view %m : tensor<8x3x16xf32> -> tensor<2x4x3x16xf32>
  %p = dit.permute %v [0, 2, 1, 3] : tensor<2x4x3x16xf32> -> tensor<2x3x4x16xf32>
  %y = dit.map(%x, %p) : (tensor<2x3x4x16xf32>, tensor<2x3x4x16xf32>) -> tensor<2x3x4x16xf32> {
  ^bb0(%a: f32, %b: f32):
    %r2 = arith.addf %a, %b : f32
    dit.yield %r2 : f32
  }
  return %y : tensor<2x3x4x16xf32>
}

// -----

// A gate for each group of frames, and a residual of all frames: one map could not repeat the gate, so both have groups.
// CHECK-LABEL: func.func @groups
// CHECK: %[[M:.*]] = dit.matmul {{.*}} -> tensor<2x3x5x16xf32>
// CHECK: %[[G:.*]] = dit.map(%arg2, %[[M]])
// CHECK: %[[X:.*]] = dit.view %arg3 : tensor<6x5x16xf32> -> tensor<2x3x5x16xf32>
// CHECK: dit.map(%[[X]], %[[G]]) {{.*}} -> tensor<2x3x5x16xf32>
func.func @groups(%x: tensor<6x5x8xf32>, %w: tensor<16x8xf32>, %g: tensor<2x1x1x16xf32>, %r: tensor<6x5x16xf32>) -> tensor<6x5x16xf32> {
  %m = dit.matmul %x, %w transpose_rhs : (tensor<6x5x8xf32>, tensor<16x8xf32>) -> tensor<6x5x16xf32>
  %v = dit.view %m : tensor<6x5x16xf32> -> tensor<2x3x5x16xf32>
  %y = dit.map(%g, %v) : (tensor<2x1x1x16xf32>, tensor<2x3x5x16xf32>) -> tensor<2x3x5x16xf32> {
  ^bb0(%a: f32, %b: f32):
    %c = arith.mulf %a, %b : f32
    dit.yield %c : f32
  }
  %z = dit.view %y : tensor<2x3x5x16xf32> -> tensor<6x5x16xf32>
  %s = dit.map(%r, %z) : (tensor<6x5x16xf32>, tensor<6x5x16xf32>) -> tensor<6x5x16xf32> {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    dit.yield %c : f32
  }
  return %s : tensor<6x5x16xf32>
}

// -----

// A norm reads places of frames in whatever order they lie, if it need not read (video, place) as one dimension.
// CHECK-LABEL: func.func @norm
// CHECK: %[[P:.*]] = dit.permute %arg0 [0, 2, 1, 3]
// CHECK: dit.norm layer %[[P]] {{.*}} -> tensor<2x4x3x16xf32>
func.func @norm(%x: tensor<2x3x4x16xf32>) -> tensor<8x3x16xf32> {
  %p = dit.permute %x [0, 2, 1, 3] : tensor<2x3x4x16xf32> -> tensor<2x4x3x16xf32>
  %v = dit.view %p : tensor<2x4x3x16xf32> -> tensor<8x3x16xf32>
  %n = dit.norm layer %v axes 1 eps 1.000000e-05 : (tensor<8x3x16xf32>) -> tensor<8x3x16xf32>
  return %n : tensor<8x3x16xf32>
}

// -----

// The sum of a stream and what attention of places gives goes on in the order of its product, through attention of a text, to where
// frames are wanted in turns: the residual of another product, and a kernel of a norm.
// CHECK-LABEL: func.func @token_order
// CHECK: %[[M:.*]] = dit.matmul %{{.*}}, %arg1 {{.*}} -> tensor<2x4x3x16xf32>
// CHECK: %[[X:.*]] = dit.view %arg2 : tensor<2x12x16xf32> -> tensor<2x3x4x16xf32>
// CHECK: %[[XP:.*]] = dit.permute %[[X]] [0, 2, 1, 3]
// CHECK: %[[G:.*]] = dit.map(%[[XP]], %[[M]]) {{.*}} -> tensor<2x4x3x16xf32>
// CHECK: %[[S:.*]] = dit.view %[[G]] : tensor<2x4x3x16xf32> -> tensor<2x12x16xf32>
// CHECK: dit.matmul %[[S]], %arg3
// CHECK: dit.attention
// CHECK: %[[C:.*]] = dit.matmul {{.*}} -> tensor<2x12x16xf32>
// CHECK: %[[R:.*]] = dit.map(%[[S]], %[[C]]) {{.*}} -> tensor<2x12x16xf32>
// CHECK: dit.norm layer %[[R]]
// CHECK: dit.permute %{{.*}} [0, 2, 1, 3]
// CHECK: %[[E:.*]] = dit.map({{.*}} -> tensor<2x3x4x16xf32>
// CHECK: dit.view %[[E]] : tensor<2x3x4x16xf32> -> tensor<2x12x16xf32>
func.func @token_order(%q: tensor<8x2x3x8xf32>, %w: tensor<16x16xf32>, %x: tensor<2x12x16xf32>, %wq: tensor<16x16xf32>, %k: tensor<2x2x5x8xf32>, %f: tensor<6x4x16xf32>) -> (tensor<6x4x16xf32>, tensor<2x12x16xf32>) {
  %o = dit.attention %q, %q, %q scale 1.0 : (tensor<8x2x3x8xf32>, tensor<8x2x3x8xf32>, tensor<8x2x3x8xf32>) -> tensor<8x2x3x8xf32>
  %t = dit.permute %o [0, 2, 1, 3] : tensor<8x2x3x8xf32> -> tensor<8x3x2x8xf32>
  %r = dit.view %t : tensor<8x3x2x8xf32> -> tensor<8x3x16xf32>
  %m = dit.matmul %r, %w transpose_rhs : (tensor<8x3x16xf32>, tensor<16x16xf32>) -> tensor<8x3x16xf32>
  %v = dit.view %m : tensor<8x3x16xf32> -> tensor<2x4x3x16xf32>
  %p = dit.permute %v [0, 2, 1, 3] : tensor<2x4x3x16xf32> -> tensor<2x3x4x16xf32>
  %l = dit.view %p : tensor<2x3x4x16xf32> -> tensor<2x12x16xf32>
  %s = dit.map(%x, %l) : (tensor<2x12x16xf32>, tensor<2x12x16xf32>) -> tensor<2x12x16xf32> {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    dit.yield %c : f32
  }
  %mq = dit.matmul %s, %wq transpose_rhs : (tensor<2x12x16xf32>, tensor<16x16xf32>) -> tensor<2x12x16xf32>
  %vq = dit.view %mq : tensor<2x12x16xf32> -> tensor<2x12x2x8xf32>
  %pq = dit.permute %vq [0, 2, 1, 3] : tensor<2x12x2x8xf32> -> tensor<2x2x12x8xf32>
  %oq = dit.attention %pq, %k, %k scale 1.0 : (tensor<2x2x12x8xf32>, tensor<2x2x5x8xf32>, tensor<2x2x5x8xf32>) -> tensor<2x2x12x8xf32>
  %tq = dit.permute %oq [0, 2, 1, 3] : tensor<2x2x12x8xf32> -> tensor<2x12x2x8xf32>
  %rq = dit.view %tq : tensor<2x12x2x8xf32> -> tensor<2x12x16xf32>
  %c0 = dit.matmul %rq, %w transpose_rhs : (tensor<2x12x16xf32>, tensor<16x16xf32>) -> tensor<2x12x16xf32>
  %s2 = dit.map(%s, %c0) : (tensor<2x12x16xf32>, tensor<2x12x16xf32>) -> tensor<2x12x16xf32> {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    dit.yield %c : f32
  }
  %n = dit.norm layer %s2 axes 1 eps 1.000000e-05 : (tensor<2x12x16xf32>) -> tensor<2x12x16xf32>
  %frames = dit.view %n : tensor<2x12x16xf32> -> tensor<6x4x16xf32>
  %mf = dit.matmul %f, %w transpose_rhs : (tensor<6x4x16xf32>, tensor<16x16xf32>) -> tensor<6x4x16xf32>
  %vf = dit.view %mf : tensor<6x4x16xf32> -> tensor<2x12x16xf32>
  %s3 = dit.map(%s2, %vf) : (tensor<2x12x16xf32>, tensor<2x12x16xf32>) -> tensor<2x12x16xf32> {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    dit.yield %c : f32
  }
  return %frames, %s3 : tensor<6x4x16xf32>, tensor<2x12x16xf32>
}

// -----

// A causal attention sees by the order of tokens, which therefore stays.
// CHECK-LABEL: func.func @causal
// CHECK: dit.map({{.*}} -> tensor<2x12x16xf32>
func.func @causal(%q: tensor<8x3x16xf32>, %w: tensor<16x16xf32>, %x: tensor<2x12x16xf32>, %k: tensor<2x2x12x8xf32>) -> tensor<2x2x12x8xf32> {
  %m = dit.matmul %q, %w transpose_rhs : (tensor<8x3x16xf32>, tensor<16x16xf32>) -> tensor<8x3x16xf32>
  %v = dit.view %m : tensor<8x3x16xf32> -> tensor<2x4x3x16xf32>
  %p = dit.permute %v [0, 2, 1, 3] : tensor<2x4x3x16xf32> -> tensor<2x3x4x16xf32>
  %l = dit.view %p : tensor<2x3x4x16xf32> -> tensor<2x12x16xf32>
  %s = dit.map(%x, %l) : (tensor<2x12x16xf32>, tensor<2x12x16xf32>) -> tensor<2x12x16xf32> {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    dit.yield %c : f32
  }
  %vq = dit.view %s : tensor<2x12x16xf32> -> tensor<2x12x2x8xf32>
  %pq = dit.permute %vq [0, 2, 1, 3] : tensor<2x12x2x8xf32> -> tensor<2x2x12x8xf32>
  %o = dit.attention %pq, %k, %k causal scale 1.0 : (tensor<2x2x12x8xf32>, tensor<2x2x12x8xf32>, tensor<2x2x12x8xf32>) -> tensor<2x2x12x8xf32>
  return %o : tensor<2x2x12x8xf32>
}

// -----

// Batches among the heads, as MultiheadAttention is written out with its weights: both apart, columns of the product as they lie.
// CHECK-LABEL: func.func @batches_among_heads
// CHECK: %[[V:.*]] = dit.view %{{.*}} : tensor<6x2x32xf32> -> tensor<6x2x4x8xf32>
// CHECK: %[[P:.*]] = dit.permute %[[V]] [1, 2, 0, 3] : tensor<6x2x4x8xf32> -> tensor<2x4x6x8xf32>
// CHECK: %[[O:.*]] = dit.attention %[[P]], %[[P]], %[[P]] mask %arg1 {{.*}} -> tensor<2x4x6x8xf32>
// CHECK: dit.view %[[O]] : tensor<2x4x6x8xf32> -> tensor<1x8x6x8xf32>
func.func @batches_among_heads(%m: tensor<6x2x96xf32>, %mask: tensor<1x1x6x6xi1>) -> tensor<1x8x6x8xf32> {
  %s = dit.slice %m offsets [0, 0, 32] steps [1, 1, 1] : tensor<6x2x96xf32> -> tensor<6x2x32xf32>
  %v = dit.view %s : tensor<6x2x32xf32> -> tensor<6x8x8xf32>
  %p = dit.permute %v [1, 0, 2] : tensor<6x8x8xf32> -> tensor<8x6x8xf32>
  %q = dit.view %p : tensor<8x6x8xf32> -> tensor<1x8x6x8xf32>
  %o = dit.attention %q, %q, %q mask %mask scale 1.0 : (tensor<1x8x6x8xf32>, tensor<1x8x6x8xf32>, tensor<1x8x6x8xf32>, tensor<1x1x6x6xi1>) -> tensor<1x8x6x8xf32>
  return %o : tensor<1x8x6x8xf32>
}
