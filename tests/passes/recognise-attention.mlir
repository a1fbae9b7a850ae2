// RUN: ditc-opt %s --split-input-file --ditc-recognise-attention --canonicalize --cse | FileCheck %s
// RUN: ditc-opt %s --split-input-file --ditc-recognise-attention=keep-roundings=true --canonicalize --cse | FileCheck %s --check-prefix=KEEP

// Batch and heads as one dimension of three; an f32 softmax of bf16 scores; hidden keys by a select with -inf. The
// reshapes around it are undone, the scale of the queries is the attention's.
// CHECK-LABEL: func.func @attention_bf16
// CHECK: %[[SEEN:.*]] = dit.map(%arg3)
// CHECK: arith.xori
// CHECK: dit.attention %arg0, %arg1, %arg2 mask %[[SEEN]] scale 2.5{{.*}}e-01 : (tensor<2x3x4x8xbf16>, tensor<2x3x6x8xbf16>, tensor<2x3x6x8xbf16>, tensor<2x1x1x6xi1>) -> tensor<2x3x4x8xbf16>
// CHECK-NOT: math.exp
// KEEP-LABEL: func.func @attention_bf16
// KEEP-NOT: dit.attention
// KEEP: return
func.func @attention_bf16(%q: tensor<2x3x4x8xbf16>, %k: tensor<2x3x6x8xbf16>, %v: tensor<2x3x6x8xbf16>, %hidden: tensor<2x1x1x6xi1>) -> tensor<2x3x4x8xbf16> {
  %qs = dit.map(%q) : (tensor<2x3x4x8xbf16>) -> tensor<2x3x4x8xbf16> {
  ^bb0(%a: f32):
    %c = arith.constant 2.5e-01 : f32
    %r = arith.mulf %a, %c : f32
    dit.yield %r : f32
  }
  %q3 = dit.view %qs : tensor<2x3x4x8xbf16> -> tensor<6x4x8xbf16>
  %k3 = dit.view %k : tensor<2x3x6x8xbf16> -> tensor<6x6x8xbf16>
  %v3 = dit.view %v : tensor<2x3x6x8xbf16> -> tensor<6x6x8xbf16>
  %s3 = dit.matmul %q3, %k3 transpose_rhs : (tensor<6x4x8xbf16>, tensor<6x6x8xbf16>) -> tensor<6x4x6xbf16>
  %s = dit.view %s3 : tensor<6x4x6xbf16> -> tensor<2x3x4x6xbf16>
  %z = dit.map(%hidden, %s) : (tensor<2x1x1x6xi1>, tensor<2x3x4x6xbf16>) -> tensor<2x3x4x6xbf16> {
  ^bb0(%h: i1, %a: f32):
    %low = arith.constant 0xFF800000 : f32
    %r = arith.select %h, %low, %a : f32
    dit.yield %r : f32
  }
  %z32 = dit.map(%z) : (tensor<2x3x4x6xbf16>) -> tensor<2x3x4x6xf32> {
  ^bb0(%a: f32):
    dit.yield %a : f32
  }
  %m = dit.reduce max %z32 axes [3] : (tensor<2x3x4x6xf32>) -> tensor<2x3x4x1xf32>
  %e = dit.map(%z32, %m) : (tensor<2x3x4x6xf32>, tensor<2x3x4x1xf32>) -> tensor<2x3x4x6xf32> {
  ^bb0(%a: f32, %b: f32):
    %d = arith.subf %a, %b : f32
    %r = math.exp %d : f32
    dit.yield %r : f32
  }
  %l = dit.reduce sum %e axes [3] : (tensor<2x3x4x6xf32>) -> tensor<2x3x4x1xf32>
  %p = dit.map(%e, %l) : (tensor<2x3x4x6xf32>, tensor<2x3x4x1xf32>) -> tensor<2x3x4x6xf32> {
  ^bb0(%a: f32, %b: f32):
    %r = arith.divf %a, %b : f32
    dit.yield %r : f32
  }
  %p16 = dit.map(%p) : (tensor<2x3x4x6xf32>) -> tensor<2x3x4x6xbf16> {
  ^bb0(%a: f32):
    dit.yield %a : f32
  }
  %p3 = dit.view %p16 : tensor<2x3x4x6xbf16> -> tensor<6x4x6xbf16>
  %o3 = dit.matmul %p3, %v3 : (tensor<6x4x6xbf16>, tensor<6x6x8xbf16>) -> tensor<6x4x8xbf16>
  %o = dit.view %o3 : tensor<6x4x8xbf16> -> tensor<2x3x4x8xbf16>
  return %o : tensor<2x3x4x8xbf16>
}

// -----

// The sum is over other numbers than the exponentials: no softmax.
// CHECK-LABEL: func.func @no_softmax
// CHECK-NOT: dit.attention
func.func @no_softmax(%q: tensor<6x4x8xf32>, %k: tensor<6x6x8xf32>, %v: tensor<6x6x8xf32>, %n: tensor<6x4x6xf32>) -> tensor<6x4x8xf32> {
  %s = dit.matmul %q, %k transpose_rhs : (tensor<6x4x8xf32>, tensor<6x6x8xf32>) -> tensor<6x4x6xf32>
  %m = dit.reduce max %s axes [2] : (tensor<6x4x6xf32>) -> tensor<6x4x1xf32>
  %e = dit.map(%s, %m) : (tensor<6x4x6xf32>, tensor<6x4x1xf32>) -> tensor<6x4x6xf32> {
  ^bb0(%a: f32, %b: f32):
    %d = arith.subf %a, %b : f32
    %r = math.exp %d : f32
    dit.yield %r : f32
  }
  %l = dit.reduce sum %n axes [2] : (tensor<6x4x6xf32>) -> tensor<6x4x1xf32>
  %p = dit.map(%e, %l) : (tensor<6x4x6xf32>, tensor<6x4x1xf32>) -> tensor<6x4x6xf32> {
  ^bb0(%a: f32, %b: f32):
    %r = arith.divf %a, %b : f32
    dit.yield %r : f32
  }
  %o = dit.matmul %p, %v : (tensor<6x4x6xf32>, tensor<6x6x8xf32>) -> tensor<6x4x8xf32>
  return %o : tensor<6x4x8xf32>
}

// -----

// Weights that go by way of fp8 are other weights.
// CHECK-LABEL: func.func @float8_weights
// CHECK-NOT: dit.attention
// CHECK: dit.matmul {{.*}} -> tensor<6x4x8xf32>
func.func @float8_weights(%q: tensor<6x4x8xf32>, %k: tensor<6x6x8xf32>, %v: tensor<6x6x8xf32>) -> tensor<6x4x8xf32> {
  %s = dit.matmul %q, %k transpose_rhs : (tensor<6x4x8xf32>, tensor<6x6x8xf32>) -> tensor<6x4x6xf32>
  %m = dit.reduce max %s axes [2] : (tensor<6x4x6xf32>) -> tensor<6x4x1xf32>
  %e = dit.map(%s, %m) : (tensor<6x4x6xf32>, tensor<6x4x1xf32>) -> tensor<6x4x6xf32> {
  ^bb0(%a: f32, %b: f32):
    %d = arith.subf %a, %b : f32
    %r = math.exp %d : f32
    dit.yield %r : f32
  }
  %l = dit.reduce sum %e axes [2] : (tensor<6x4x6xf32>) -> tensor<6x4x1xf32>
  %p = dit.map(%e, %l) : (tensor<6x4x6xf32>, tensor<6x4x1xf32>) -> tensor<6x4x6xf32> {
  ^bb0(%a: f32, %b: f32):
    %r = arith.divf %a, %b : f32
    dit.yield %r : f32
  }
  %p8 = dit.map(%p) : (tensor<6x4x6xf32>) -> tensor<6x4x6xf8E4M3FN> {
  ^bb0(%a: f32):
    dit.yield %a : f32
  }
  %p32 = dit.map(%p8) : (tensor<6x4x6xf8E4M3FN>) -> tensor<6x4x6xf32> {
  ^bb0(%a: f32):
    dit.yield %a : f32
  }
  %o = dit.matmul %p32, %v : (tensor<6x4x6xf32>, tensor<6x6x8xf32>) -> tensor<6x4x8xf32>
  return %o : tensor<6x4x8xf32>
}

// -----

// Scores that become -10000 are hidden ones. They become equal, so what is added instead swallows any score: rows where
// all are hidden stay uniform.
// CHECK-LABEL: func.func @low_enough
// CHECK: arith.constant -1.000000e+30
// CHECK: dit.attention
func.func @low_enough(%q: tensor<6x4x8xf32>, %k: tensor<6x6x8xf32>, %v: tensor<6x6x8xf32>, %seen: tensor<6x1x6xi1>) -> tensor<6x4x8xf32> {
  %s = dit.matmul %q, %k transpose_rhs : (tensor<6x4x8xf32>, tensor<6x6x8xf32>) -> tensor<6x4x6xf32>
  %z = dit.map(%seen, %s) : (tensor<6x1x6xi1>, tensor<6x4x6xf32>) -> tensor<6x4x6xf32> {
  ^bb0(%h: i1, %a: f32):
    %low = arith.constant -1.0e+4 : f32
    %r = arith.select %h, %a, %low : f32
    dit.yield %r : f32
  }
  %m = dit.reduce max %z axes [2] : (tensor<6x4x6xf32>) -> tensor<6x4x1xf32>
  %e = dit.map(%z, %m) : (tensor<6x4x6xf32>, tensor<6x4x1xf32>) -> tensor<6x4x6xf32> {
  ^bb0(%a: f32, %b: f32):
    %d = arith.subf %a, %b : f32
    %r = math.exp %d : f32
    dit.yield %r : f32
  }
  %l = dit.reduce sum %e axes [2] : (tensor<6x4x6xf32>) -> tensor<6x4x1xf32>
  %p = dit.map(%e, %l) : (tensor<6x4x6xf32>, tensor<6x4x1xf32>) -> tensor<6x4x6xf32> {
  ^bb0(%a: f32, %b: f32):
    %r = arith.divf %a, %b : f32
    dit.yield %r : f32
  }
  %o = dit.matmul %p, %v : (tensor<6x4x6xf32>, tensor<6x6x8xf32>) -> tensor<6x4x8xf32>
  return %o : tensor<6x4x8xf32>
}

// -----

// Scores capped by a tangent, then masked: 3 · tanh(s / 6) is 3 · tanh((s / 2) / 3).
// CHECK-LABEL: func.func @soft_cap
// CHECK: dit.attention %{{.*}} mask %{{.*}} scale 5.000000e-01 soft_cap 3.000000e+00
func.func @soft_cap(%q: tensor<6x4x8xf32>, %k: tensor<6x6x8xf32>, %v: tensor<6x6x8xf32>, %added: tensor<6x4x6xf32>) -> tensor<6x4x8xf32> {
  %s = dit.matmul %q, %k transpose_rhs : (tensor<6x4x8xf32>, tensor<6x6x8xf32>) -> tensor<6x4x6xf32>
  %z = dit.map(%s, %added) : (tensor<6x4x6xf32>, tensor<6x4x6xf32>) -> tensor<6x4x6xf32> {
  ^bb0(%a: f32, %h: f32):
    %six = arith.constant 6.0 : f32
    %three = arith.constant 3.0 : f32
    %x = arith.divf %a, %six : f32
    %t = math.tanh %x : f32
    %c = arith.mulf %t, %three : f32
    %r = arith.addf %c, %h : f32
    dit.yield %r : f32
  }
  %m = dit.reduce max %z axes [2] : (tensor<6x4x6xf32>) -> tensor<6x4x1xf32>
  %e = dit.map(%z, %m) : (tensor<6x4x6xf32>, tensor<6x4x1xf32>) -> tensor<6x4x6xf32> {
  ^bb0(%a: f32, %b: f32):
    %d = arith.subf %a, %b : f32
    %r = math.exp %d : f32
    dit.yield %r : f32
  }
  %l = dit.reduce sum %e axes [2] : (tensor<6x4x6xf32>) -> tensor<6x4x1xf32>
  %p = dit.map(%e, %l) : (tensor<6x4x6xf32>, tensor<6x4x1xf32>) -> tensor<6x4x6xf32> {
  ^bb0(%a: f32, %b: f32):
    %r = arith.divf %a, %b : f32
    dit.yield %r : f32
  }
  %o = dit.matmul %p, %v : (tensor<6x4x6xf32>, tensor<6x6x8xf32>) -> tensor<6x4x8xf32>
  return %o : tensor<6x4x8xf32>
}

// -----

// Scores times a learned number of each head: the queries take it.
// CHECK-LABEL: func.func @temperature
// CHECK: %[[Q:.*]] = dit.map(%arg0, %arg3) : (tensor<2x3x4x8xf32>, tensor<1x3x1x1xf32>)
// CHECK: dit.attention %[[Q]], %arg1, %arg2 scale 1.000000e+00
// KEEP-LABEL: func.func @temperature
// KEEP-NOT: dit.attention
// KEEP: return
func.func @temperature(%q: tensor<2x3x4x8xf32>, %k: tensor<2x3x6x8xf32>, %v: tensor<2x3x6x8xf32>, %t: tensor<1x3x1x1xf32>) -> tensor<2x3x4x8xf32> {
  %s = dit.matmul %q, %k transpose_rhs : (tensor<2x3x4x8xf32>, tensor<2x3x6x8xf32>) -> tensor<2x3x4x6xf32>
  %z = dit.map(%s, %t) : (tensor<2x3x4x6xf32>, tensor<1x3x1x1xf32>) -> tensor<2x3x4x6xf32> {
  ^bb0(%a: f32, %b: f32):
    %r = arith.mulf %a, %b : f32
    dit.yield %r : f32
  }
  %m = dit.reduce max %z axes [3] : (tensor<2x3x4x6xf32>) -> tensor<2x3x4x1xf32>
  %e = dit.map(%z, %m) : (tensor<2x3x4x6xf32>, tensor<2x3x4x1xf32>) -> tensor<2x3x4x6xf32> {
  ^bb0(%a: f32, %b: f32):
    %d = arith.subf %a, %b : f32
    %r = math.exp %d : f32
    dit.yield %r : f32
  }
  %l = dit.reduce sum %e axes [3] : (tensor<2x3x4x6xf32>) -> tensor<2x3x4x1xf32>
  %p = dit.map(%e, %l) : (tensor<2x3x4x6xf32>, tensor<2x3x4x1xf32>) -> tensor<2x3x4x6xf32> {
  ^bb0(%a: f32, %b: f32):
    %r = arith.divf %a, %b : f32
    dit.yield %r : f32
  }
  %o = dit.matmul %p, %v : (tensor<2x3x4x6xf32>, tensor<2x3x6x8xf32>) -> tensor<2x3x4x8xf32>
  return %o : tensor<2x3x4x8xf32>
}

// -----

// A factor of each key is none of the queries.
// CHECK-LABEL: func.func @factor_of_keys
// CHECK-NOT: dit.attention
// CHECK: return
// KEEP-LABEL: func.func @factor_of_keys
// KEEP: return
func.func @factor_of_keys(%q: tensor<2x3x4x8xf32>, %k: tensor<2x3x6x8xf32>, %v: tensor<2x3x6x8xf32>, %t: tensor<1x1x1x6xf32>) -> tensor<2x3x4x8xf32> {
  %s = dit.matmul %q, %k transpose_rhs : (tensor<2x3x4x8xf32>, tensor<2x3x6x8xf32>) -> tensor<2x3x4x6xf32>
  %z = dit.map(%s, %t) : (tensor<2x3x4x6xf32>, tensor<1x1x1x6xf32>) -> tensor<2x3x4x6xf32> {
  ^bb0(%a: f32, %b: f32):
    %r = arith.mulf %a, %b : f32
    dit.yield %r : f32
  }
  %m = dit.reduce max %z axes [3] : (tensor<2x3x4x6xf32>) -> tensor<2x3x4x1xf32>
  %e = dit.map(%z, %m) : (tensor<2x3x4x6xf32>, tensor<2x3x4x1xf32>) -> tensor<2x3x4x6xf32> {
  ^bb0(%a: f32, %b: f32):
    %d = arith.subf %a, %b : f32
    %r = math.exp %d : f32
    dit.yield %r : f32
  }
  %l = dit.reduce sum %e axes [3] : (tensor<2x3x4x6xf32>) -> tensor<2x3x4x1xf32>
  %p = dit.map(%e, %l) : (tensor<2x3x4x6xf32>, tensor<2x3x4x1xf32>) -> tensor<2x3x4x6xf32> {
  ^bb0(%a: f32, %b: f32):
    %r = arith.divf %a, %b : f32
    dit.yield %r : f32
  }
  %o = dit.matmul %p, %v : (tensor<2x3x4x6xf32>, tensor<2x3x6x8xf32>) -> tensor<2x3x4x8xf32>
  return %o : tensor<2x3x4x8xf32>
}

// -----

// -1000 is a number like others.
// CHECK-LABEL: func.func @not_low_enough
// CHECK-NOT: dit.attention
// CHECK: return
// KEEP-LABEL: func.func @not_low_enough
// KEEP: return
func.func @not_low_enough(%q: tensor<6x4x8xf32>, %k: tensor<6x6x8xf32>, %v: tensor<6x6x8xf32>, %seen: tensor<6x1x6xi1>) -> tensor<6x4x8xf32> {
  %s = dit.matmul %q, %k transpose_rhs : (tensor<6x4x8xf32>, tensor<6x6x8xf32>) -> tensor<6x4x6xf32>
  %z = dit.map(%seen, %s) : (tensor<6x1x6xi1>, tensor<6x4x6xf32>) -> tensor<6x4x6xf32> {
  ^bb0(%h: i1, %a: f32):
    %low = arith.constant -1.0e+3 : f32
    %r = arith.select %h, %a, %low : f32
    dit.yield %r : f32
  }
  %m = dit.reduce max %z axes [2] : (tensor<6x4x6xf32>) -> tensor<6x4x1xf32>
  %e = dit.map(%z, %m) : (tensor<6x4x6xf32>, tensor<6x4x1xf32>) -> tensor<6x4x6xf32> {
  ^bb0(%a: f32, %b: f32):
    %d = arith.subf %a, %b : f32
    %r = math.exp %d : f32
    dit.yield %r : f32
  }
  %l = dit.reduce sum %e axes [2] : (tensor<6x4x6xf32>) -> tensor<6x4x1xf32>
  %p = dit.map(%e, %l) : (tensor<6x4x6xf32>, tensor<6x4x1xf32>) -> tensor<6x4x6xf32> {
  ^bb0(%a: f32, %b: f32):
    %r = arith.divf %a, %b : f32
    dit.yield %r : f32
  }
  %o = dit.matmul %p, %v : (tensor<6x4x6xf32>, tensor<6x6x8xf32>) -> tensor<6x4x8xf32>
  return %o : tensor<6x4x8xf32>
}

// -----

// A bias is added, the sum is halved, keys are hidden: one mask, the scale of the scores and half of the bias.
// CHECK-LABEL: func.func @two_masks
// CHECK: %[[MASK:.*]] = dit.map(%arg4, %arg3) : (tensor<1x6x1x6xi1>, tensor<1x6x4x6xf32>) -> tensor<1x6x4x6xf32> {
// CHECK-DAG: arith.mulf %{{.*}}, %{{.*}} : f32
// CHECK-DAG: arith.select
// CHECK: arith.addf
// CHECK: dit.attention %{{.*}}, %{{.*}}, %{{.*}} mask %[[MASK]] scale 5.000000e-01
// KEEP-LABEL: func.func @two_masks
// KEEP: dit.attention
func.func @two_masks(%q: tensor<6x4x8xf32>, %k: tensor<6x6x8xf32>, %v: tensor<6x6x8xf32>, %bias: tensor<1x6x4x6xf32>, %hidden: tensor<1x6x1x6xi1>) -> tensor<6x4x8xf32> {
  %s = dit.matmul %q, %k transpose_rhs : (tensor<6x4x8xf32>, tensor<6x6x8xf32>) -> tensor<6x4x6xf32>
  %bias3 = dit.view %bias : tensor<1x6x4x6xf32> -> tensor<6x4x6xf32>
  %hidden3 = dit.view %hidden : tensor<1x6x1x6xi1> -> tensor<6x1x6xi1>
  %z = dit.map(%hidden3, %s, %bias3) : (tensor<6x1x6xi1>, tensor<6x4x6xf32>, tensor<6x4x6xf32>) -> tensor<6x4x6xf32> {
  ^bb0(%h: i1, %a: f32, %c: f32):
    %low = arith.constant 0xFF800000 : f32
    %half = arith.constant 5.0e-1 : f32
    %t = arith.addf %a, %c : f32
    %u = arith.mulf %t, %half : f32
    %r = arith.select %h, %low, %u : f32
    dit.yield %r : f32
  }
  %m = dit.reduce max %z axes [2] : (tensor<6x4x6xf32>) -> tensor<6x4x1xf32>
  %e = dit.map(%z, %m) : (tensor<6x4x6xf32>, tensor<6x4x1xf32>) -> tensor<6x4x6xf32> {
  ^bb0(%a: f32, %b: f32):
    %d = arith.subf %a, %b : f32
    %r = math.exp %d : f32
    dit.yield %r : f32
  }
  %l = dit.reduce sum %e axes [2] : (tensor<6x4x6xf32>) -> tensor<6x4x1xf32>
  %p = dit.map(%e, %l) : (tensor<6x4x6xf32>, tensor<6x4x1xf32>) -> tensor<6x4x6xf32> {
  ^bb0(%a: f32, %b: f32):
    %r = arith.divf %a, %b : f32
    dit.yield %r : f32
  }
  %o = dit.matmul %p, %v : (tensor<6x4x6xf32>, tensor<6x6x8xf32>) -> tensor<6x4x8xf32>
  return %o : tensor<6x4x8xf32>
}

// -----

// Values with channels before keys on the left, and weights that are turned for it.
// CHECK-LABEL: func.func @turned
// CHECK: %[[OUT:.*]] = dit.attention
// CHECK: dit.permute %[[OUT]] [0, 1, 3, 2]
// CHECK-NOT: dit.matmul
// CHECK: return
// KEEP-LABEL: func.func @turned
// KEEP: return
func.func @turned(%q: tensor<6x4x8xf32>, %k: tensor<6x8x6xf32>, %v: tensor<6x8x6xf32>) -> tensor<6x8x4xf32> {
  %z = dit.matmul %q, %k : (tensor<6x4x8xf32>, tensor<6x8x6xf32>) -> tensor<6x4x6xf32>
  %m = dit.reduce max %z axes [2] : (tensor<6x4x6xf32>) -> tensor<6x4x1xf32>
  %e = dit.map(%z, %m) : (tensor<6x4x6xf32>, tensor<6x4x1xf32>) -> tensor<6x4x6xf32> {
  ^bb0(%a: f32, %b: f32):
    %d = arith.subf %a, %b : f32
    %r = math.exp %d : f32
    dit.yield %r : f32
  }
  %l = dit.reduce sum %e axes [2] : (tensor<6x4x6xf32>) -> tensor<6x4x1xf32>
  %p = dit.map(%e, %l) : (tensor<6x4x6xf32>, tensor<6x4x1xf32>) -> tensor<6x4x6xf32> {
  ^bb0(%a: f32, %b: f32):
    %r = arith.divf %a, %b : f32
    dit.yield %r : f32
  }
  %w = dit.permute %p [0, 2, 1] : tensor<6x4x6xf32> -> tensor<6x6x4xf32>
  %o = dit.matmul %v, %w : (tensor<6x8x6xf32>, tensor<6x6x4xf32>) -> tensor<6x8x4xf32>
  return %o : tensor<6x8x4xf32>
}

// -----

// The same for a batch of one, which the permute brings to the end.
// CHECK-LABEL: func.func @turned_one
// CHECK: dit.attention
// CHECK-NOT: dit.matmul
// CHECK: return
// KEEP-LABEL: func.func @turned_one
// KEEP: return
func.func @turned_one(%q: tensor<6x4x8xf32>, %k: tensor<6x8x6xf32>, %v: tensor<6x8x6xf32>) -> tensor<6x8x4xf32> {
  %z = dit.matmul %q, %k : (tensor<6x4x8xf32>, tensor<6x8x6xf32>) -> tensor<6x4x6xf32>
  %m = dit.reduce max %z axes [2] : (tensor<6x4x6xf32>) -> tensor<6x4x1xf32>
  %e = dit.map(%z, %m) : (tensor<6x4x6xf32>, tensor<6x4x1xf32>) -> tensor<6x4x6xf32> {
  ^bb0(%a: f32, %b: f32):
    %d = arith.subf %a, %b : f32
    %r = math.exp %d : f32
    dit.yield %r : f32
  }
  %l = dit.reduce sum %e axes [2] : (tensor<6x4x6xf32>) -> tensor<6x4x1xf32>
  %p = dit.map(%e, %l) : (tensor<6x4x6xf32>, tensor<6x4x1xf32>) -> tensor<6x4x6xf32> {
  ^bb0(%a: f32, %b: f32):
    %r = arith.divf %a, %b : f32
    dit.yield %r : f32
  }
  %p4 = dit.view %p : tensor<6x4x6xf32> -> tensor<1x6x4x6xf32>
  %t = dit.permute %p4 [1, 3, 2, 0] : tensor<1x6x4x6xf32> -> tensor<6x6x4x1xf32>
  %w = dit.view %t : tensor<6x6x4x1xf32> -> tensor<6x6x4xf32>
  %o = dit.matmul %v, %w : (tensor<6x8x6xf32>, tensor<6x6x4xf32>) -> tensor<6x8x4xf32>
  return %o : tensor<6x8x4xf32>
}

// -----

// A product in f32 that is rounded, seen as batch and heads and widened again, as decomposition writes baddbmm.
// CHECK-LABEL: func.func @rounded_and_widened
// CHECK: dit.attention %arg0, %arg1, %arg2 scale 1.000000e+00 : (tensor<2x3x4x8xbf16>, tensor<2x3x6x8xbf16>, tensor<2x3x6x8xbf16>)
// CHECK-NOT: dit.matmul
// CHECK: return
// KEEP-LABEL: func.func @rounded_and_widened
// KEEP-NOT: dit.attention
// KEEP: return
func.func @rounded_and_widened(%q: tensor<2x3x4x8xbf16>, %k: tensor<2x3x6x8xbf16>, %v: tensor<2x3x6x8xbf16>) -> tensor<6x4x8xbf16> {
  %q3 = dit.view %q : tensor<2x3x4x8xbf16> -> tensor<6x4x8xbf16>
  %k3 = dit.view %k : tensor<2x3x6x8xbf16> -> tensor<6x6x8xbf16>
  %v3 = dit.view %v : tensor<2x3x6x8xbf16> -> tensor<6x6x8xbf16>
  %s3 = dit.matmul %q3, %k3 transpose_rhs : (tensor<6x4x8xbf16>, tensor<6x6x8xbf16>) -> tensor<6x4x6xf32>
  %s16 = dit.map(%s3) : (tensor<6x4x6xf32>) -> tensor<6x4x6xbf16> {
  ^bb0(%a: f32):
    dit.yield %a : f32
  }
  %s4 = dit.view %s16 : tensor<6x4x6xbf16> -> tensor<2x3x4x6xbf16>
  %z = dit.map(%s4) : (tensor<2x3x4x6xbf16>) -> tensor<2x3x4x6xf32> {
  ^bb0(%a: f32):
    dit.yield %a : f32
  }
  %m = dit.reduce max %z axes [3] : (tensor<2x3x4x6xf32>) -> tensor<2x3x4x1xf32>
  %e = dit.map(%z, %m) : (tensor<2x3x4x6xf32>, tensor<2x3x4x1xf32>) -> tensor<2x3x4x6xf32> {
  ^bb0(%a: f32, %b: f32):
    %d = arith.subf %a, %b : f32
    %r = math.exp %d : f32
    dit.yield %r : f32
  }
  %l = dit.reduce sum %e axes [3] : (tensor<2x3x4x6xf32>) -> tensor<2x3x4x1xf32>
  %p = dit.map(%e, %l) : (tensor<2x3x4x6xf32>, tensor<2x3x4x1xf32>) -> tensor<2x3x4x6xbf16> {
  ^bb0(%a: f32, %b: f32):
    %r = arith.divf %a, %b : f32
    dit.yield %r : f32
  }
  %p3 = dit.view %p : tensor<2x3x4x6xbf16> -> tensor<6x4x6xbf16>
  %o = dit.matmul %p3, %v3 : (tensor<6x4x6xbf16>, tensor<6x6x8xbf16>) -> tensor<6x4x8xbf16>
  return %o : tensor<6x4x8xbf16>
}
