// RUN: ditc-opt %s --ditc-rotate-all-rows --split-input-file | FileCheck %s

// CogView4: halves, behind heads. Tables are 1 and 0 for the text in front.
// CHECK-LABEL: @halves
// CHECK-NOT: tensor<1x2x10x8xbf16> -> tensor<1x2x6x8xbf16>
// CHECK-DAG: %[[ONE:.*]] = dit.constant dense<1.000000e+00> : tensor<1x1x1x8xf32>
// CHECK-DAG: %[[ONES:.*]] = dit.expand %[[ONE]] : tensor<1x1x1x8xf32> -> tensor<1x1x4x8xf32>
// CHECK-DAG: %[[COS:.*]] = dit.concat(%[[ONES]], {{.*}}) axis 2
// CHECK-DAG: %[[ZERO:.*]] = dit.constant dense<0.000000e+00> : tensor<1x1x1x8xf32>
// CHECK-DAG: %[[ZEROS:.*]] = dit.expand %[[ZERO]] : tensor<1x1x1x8xf32> -> tensor<1x1x4x8xf32>
// CHECK-DAG: %[[SIN:.*]] = dit.concat(%[[ZEROS]], {{.*}}) axis 2
// CHECK: %[[R:.*]] = dit.map({{.*}}, {{.*}}, %[[COS]], %[[SIN]]) : {{.*}} -> tensor<1x2x10x8xbf16>
// CHECK: return %[[R]]
func.func @halves(%x: tensor<1x2x10x8xbf16>, %cos: tensor<6x8xf32> {dit.invariant}, %sin: tensor<6x8xf32> {dit.invariant}) -> tensor<1x2x10x8xbf16> {
  %text = dit.slice %x offsets [0, 0, 0, 0] steps [1, 1, 1, 1] : tensor<1x2x10x8xbf16> -> tensor<1x2x4x8xbf16>
  %image = dit.slice %x offsets [0, 0, 4, 0] steps [1, 1, 1, 1] : tensor<1x2x10x8xbf16> -> tensor<1x2x6x8xbf16>
  %h = dit.view %image : tensor<1x2x6x8xbf16> -> tensor<1x2x6x2x4xbf16>
  %a = dit.slice %h offsets [0, 0, 0, 0, 0] steps [1, 1, 1, 1, 1] : tensor<1x2x6x2x4xbf16> -> tensor<1x2x6x1x4xbf16>
  %av = dit.view %a : tensor<1x2x6x1x4xbf16> -> tensor<1x2x6x4xbf16>
  %b = dit.slice %h offsets [0, 0, 0, 1, 0] steps [1, 1, 1, 1, 1] : tensor<1x2x6x2x4xbf16> -> tensor<1x2x6x1x4xbf16>
  %bv = dit.view %b : tensor<1x2x6x1x4xbf16> -> tensor<1x2x6x4xbf16>
  %n = dit.map(%bv) : (tensor<1x2x6x4xbf16>) -> tensor<1x2x6x4xbf16> {
  ^bb0(%p: f32):
    %q = arith.negf %p : f32
    dit.yield %q : f32
  }
  %turned = dit.concat(%n, %av) axis 3 : (tensor<1x2x6x4xbf16>, tensor<1x2x6x4xbf16>) -> tensor<1x2x6x8xbf16>
  %cv = dit.view %cos : tensor<6x8xf32> -> tensor<1x1x6x8xf32>
  %sv = dit.view %sin : tensor<6x8xf32> -> tensor<1x1x6x8xf32>
  %r = dit.map(%image, %turned, %cv, %sv) : (tensor<1x2x6x8xbf16>, tensor<1x2x6x8xbf16>, tensor<1x1x6x8xf32>, tensor<1x1x6x8xf32>) -> tensor<1x2x6x8xbf16> {
  ^bb0(%p: f32, %q: f32, %c: f32, %s: f32):
    %pc = arith.mulf %p, %c : f32
    %qs = arith.mulf %q, %s : f32
    %o = arith.addf %pc, %qs : f32
    dit.yield %o : f32
  }
  %y = dit.concat(%text, %r) axis 2 : (tensor<1x2x4x8xbf16>, tensor<1x2x6x8xbf16>) -> tensor<1x2x10x8xbf16>
  return %y : tensor<1x2x10x8xbf16>
}

// -----

// HunyuanVideo: pairs, before heads and tokens change places, the text behind.
// CHECK-LABEL: @pairs
// CHECK-DAG: dit.concat(%arg1, %{{.*}}) axis 1 : (tensor<1x6x1x8xf32>, tensor<1x4x1x8xf32>) -> tensor<1x10x1x8xf32>
// CHECK-DAG: dit.concat(%arg2, %{{.*}}) axis 1 : (tensor<1x6x1x8xf32>, tensor<1x4x1x8xf32>) -> tensor<1x10x1x8xf32>
// CHECK: %[[R:.*]] = dit.map({{.*}}) : {{.*}} -> tensor<1x10x2x8xbf16>
// CHECK: return %[[R]]
func.func @pairs(%x: tensor<1x10x2x8xbf16>, %cos: tensor<1x6x1x8xf32> {dit.invariant}, %sin: tensor<1x6x1x8xf32> {dit.invariant}) -> tensor<1x10x2x8xbf16> {
  %image = dit.slice %x offsets [0, 0, 0, 0] steps [1, 1, 1, 1] : tensor<1x10x2x8xbf16> -> tensor<1x6x2x8xbf16>
  %h = dit.view %image : tensor<1x6x2x8xbf16> -> tensor<1x6x2x4x2xbf16>
  %a = dit.slice %h offsets [0, 0, 0, 0, 0] steps [1, 1, 1, 1, 1] : tensor<1x6x2x4x2xbf16> -> tensor<1x6x2x4x1xbf16>
  %b = dit.slice %h offsets [0, 0, 0, 0, 1] steps [1, 1, 1, 1, 1] : tensor<1x6x2x4x2xbf16> -> tensor<1x6x2x4x1xbf16>
  %n = dit.map(%b) : (tensor<1x6x2x4x1xbf16>) -> tensor<1x6x2x4x1xbf16> {
  ^bb0(%p: f32):
    %q = arith.negf %p : f32
    dit.yield %q : f32
  }
  %stack = dit.concat(%n, %a) axis 4 : (tensor<1x6x2x4x1xbf16>, tensor<1x6x2x4x1xbf16>) -> tensor<1x6x2x4x2xbf16>
  %turned = dit.view %stack : tensor<1x6x2x4x2xbf16> -> tensor<1x6x2x8xbf16>
  %r = dit.map(%image, %turned, %cos, %sin) : (tensor<1x6x2x8xbf16>, tensor<1x6x2x8xbf16>, tensor<1x6x1x8xf32>, tensor<1x6x1x8xf32>) -> tensor<1x6x2x8xbf16> {
  ^bb0(%p: f32, %q: f32, %c: f32, %s: f32):
    %pc = arith.mulf %p, %c : f32
    %qs = arith.mulf %q, %s : f32
    %o = arith.addf %pc, %qs : f32
    dit.yield %o : f32
  }
  %text = dit.slice %x offsets [0, 6, 0, 0] steps [1, 1, 1, 1] : tensor<1x10x2x8xbf16> -> tensor<1x4x2x8xbf16>
  %y = dit.concat(%r, %text) axis 1 : (tensor<1x6x2x8xbf16>, tensor<1x4x2x8xbf16>) -> tensor<1x10x2x8xbf16>
  return %y : tensor<1x10x2x8xbf16>
}

// -----

// Complex numbers, told apart from one table; rows that are not rotated on both sides, cut before there are heads; the first row is not read.
// CHECK-LABEL: @complex
// CHECK: dit.concat(%{{.*}}, %{{.*}}, %{{.*}}) axis 1 : (tensor<1x2x1x4x1xf32>, tensor<1x6x1x4x1xf32>, tensor<1x1x1x4x1xf32>) -> tensor<1x9x1x4x1xf32>
// CHECK: dit.concat(%{{.*}}, %{{.*}}, %{{.*}}) axis 1 : (tensor<1x2x1x4x1xf32>, tensor<1x6x1x4x1xf32>, tensor<1x1x1x4x1xf32>) -> tensor<1x9x1x4x1xf32>
// CHECK: %[[ROWS:.*]] = dit.slice %arg0 offsets [0, 1, 0] steps [1, 1, 1] : tensor<1x10x16xf32> -> tensor<1x9x16xf32>
// CHECK: %[[Y:.*]] = dit.permute {{.*}} : tensor<1x9x2x8xf32> -> tensor<1x2x9x8xf32>
// CHECK: return %[[Y]]
func.func @complex(%x: tensor<1x10x16xf32>, %f: tensor<1x6x1x4x2xf32> {dit.invariant}) -> tensor<1x2x9x8xf32> {
  %first = dit.slice %x offsets [0, 1, 0] steps [1, 1, 1] : tensor<1x10x16xf32> -> tensor<1x2x16xf32>
  %fh = dit.view %first : tensor<1x2x16xf32> -> tensor<1x2x2x8xf32>
  %fp = dit.permute %fh [0, 2, 1, 3] : tensor<1x2x2x8xf32> -> tensor<1x2x2x8xf32>
  %last = dit.slice %x offsets [0, 9, 0] steps [1, 1, 1] : tensor<1x10x16xf32> -> tensor<1x1x16xf32>
  %lh = dit.view %last : tensor<1x1x16xf32> -> tensor<1x1x2x8xf32>
  %lp = dit.permute %lh [0, 2, 1, 3] : tensor<1x1x2x8xf32> -> tensor<1x2x1x8xf32>
  %image = dit.slice %x offsets [0, 3, 0] steps [1, 1, 1] : tensor<1x10x16xf32> -> tensor<1x6x16xf32>
  %h = dit.view %image : tensor<1x6x16xf32> -> tensor<1x6x2x4x2xf32>
  %a = dit.slice %h offsets [0, 0, 0, 0, 0] steps [1, 1, 1, 1, 1] : tensor<1x6x2x4x2xf32> -> tensor<1x6x2x4x1xf32>
  %b = dit.slice %h offsets [0, 0, 0, 0, 1] steps [1, 1, 1, 1, 1] : tensor<1x6x2x4x2xf32> -> tensor<1x6x2x4x1xf32>
  %c = dit.slice %f offsets [0, 0, 0, 0, 0] steps [1, 1, 1, 1, 1] : tensor<1x6x1x4x2xf32> -> tensor<1x6x1x4x1xf32>
  %s = dit.slice %f offsets [0, 0, 0, 0, 1] steps [1, 1, 1, 1, 1] : tensor<1x6x1x4x2xf32> -> tensor<1x6x1x4x1xf32>
  %re = dit.map(%a, %b, %c, %s) : (tensor<1x6x2x4x1xf32>, tensor<1x6x2x4x1xf32>, tensor<1x6x1x4x1xf32>, tensor<1x6x1x4x1xf32>) -> tensor<1x6x2x4x1xf32> {
  ^bb0(%p: f32, %q: f32, %u: f32, %v: f32):
    %1 = arith.mulf %p, %u : f32
    %2 = arith.mulf %q, %v : f32
    %3 = arith.subf %1, %2 : f32
    dit.yield %3 : f32
  }
  %im = dit.map(%a, %b, %c, %s) : (tensor<1x6x2x4x1xf32>, tensor<1x6x2x4x1xf32>, tensor<1x6x1x4x1xf32>, tensor<1x6x1x4x1xf32>) -> tensor<1x6x2x4x1xf32> {
  ^bb0(%p: f32, %q: f32, %u: f32, %v: f32):
    %1 = arith.mulf %p, %v : f32
    %2 = math.fma %q, %u, %1 : f32
    dit.yield %2 : f32
  }
  %stack = dit.concat(%re, %im) axis 4 : (tensor<1x6x2x4x1xf32>, tensor<1x6x2x4x1xf32>) -> tensor<1x6x2x4x2xf32>
  %r = dit.view %stack : tensor<1x6x2x4x2xf32> -> tensor<1x6x2x8xf32>
  %rp = dit.permute %r [0, 2, 1, 3] : tensor<1x6x2x8xf32> -> tensor<1x2x6x8xf32>
  %y = dit.concat(%fp, %rp, %lp) axis 2 : (tensor<1x2x2x8xf32>, tensor<1x2x6x8xf32>, tensor<1x2x1x8xf32>) -> tensor<1x2x9x8xf32>
  return %y : tensor<1x2x9x8xf32>
}

// -----

// Matrices of 2x2: rows of the identity.
// CHECK-LABEL: @matrices
// CHECK-DAG: dit.constant dense<{{\[\[\[}}[1.000000e+00, 0.000000e+00]{{.*}}> : tensor<1x1x4x2xf32>
// CHECK-DAG: dit.constant dense<{{\[\[\[}}[0.000000e+00, 1.000000e+00]{{.*}}> : tensor<1x1x4x2xf32>
// CHECK: return %{{.*}} : tensor<1x10x8xbf16>
func.func @matrices(%x: tensor<1x10x8xbf16>, %f: tensor<1x6x4x2x2xf32> {dit.invariant}) -> tensor<1x10x8xbf16> {
  %text = dit.slice %x offsets [0, 0, 0] steps [1, 1, 1] : tensor<1x10x8xbf16> -> tensor<1x4x8xbf16>
  %image = dit.slice %x offsets [0, 4, 0] steps [1, 1, 1] : tensor<1x10x8xbf16> -> tensor<1x6x8xbf16>
  %h = dit.view %image : tensor<1x6x8xbf16> -> tensor<1x6x4x2xbf16>
  %a = dit.slice %h offsets [0, 0, 0, 0] steps [1, 1, 1, 1] : tensor<1x6x4x2xbf16> -> tensor<1x6x4x1xbf16>
  %b = dit.slice %h offsets [0, 0, 0, 1] steps [1, 1, 1, 1] : tensor<1x6x4x2xbf16> -> tensor<1x6x4x1xbf16>
  %f0 = dit.slice %f offsets [0, 0, 0, 0, 0] steps [1, 1, 1, 1, 1] : tensor<1x6x4x2x2xf32> -> tensor<1x6x4x2x1xf32>
  %m0 = dit.view %f0 : tensor<1x6x4x2x1xf32> -> tensor<1x6x4x2xf32>
  %f1 = dit.slice %f offsets [0, 0, 0, 0, 1] steps [1, 1, 1, 1, 1] : tensor<1x6x4x2x2xf32> -> tensor<1x6x4x2x1xf32>
  %m1 = dit.view %f1 : tensor<1x6x4x2x1xf32> -> tensor<1x6x4x2xf32>
  %r = dit.map(%a, %b, %m0, %m1) : (tensor<1x6x4x1xbf16>, tensor<1x6x4x1xbf16>, tensor<1x6x4x2xf32>, tensor<1x6x4x2xf32>) -> tensor<1x6x4x2xbf16> {
  ^bb0(%p: f32, %q: f32, %c: f32, %s: f32):
    %pc = arith.mulf %p, %c : f32
    %qs = arith.mulf %q, %s : f32
    %o = arith.addf %pc, %qs : f32
    dit.yield %o : f32
  }
  %v = dit.view %r : tensor<1x6x4x2xbf16> -> tensor<1x6x8xbf16>
  %y = dit.concat(%text, %v) axis 1 : (tensor<1x4x8xbf16>, tensor<1x6x8xbf16>) -> tensor<1x10x8xbf16>
  return %y : tensor<1x10x8xbf16>
}

// -----

// A factor of -1 is undone by the table.
// CHECK-LABEL: @scaled
// CHECK: dit.constant dense<-1.000000e+00> : tensor<1x1xf32>
// CHECK-NOT: axis 0 : (tensor<4x64xbf16>
func.func @scaled(%x: tensor<10x64xbf16>, %t: tensor<6x64xf32> {dit.invariant}) -> tensor<10x64xbf16> {
  %text = dit.slice %x offsets [0, 0] steps [1, 1] : tensor<10x64xbf16> -> tensor<4x64xbf16>
  %image = dit.slice %x offsets [4, 0] steps [1, 1] : tensor<10x64xbf16> -> tensor<6x64xbf16>
  %r = dit.map(%image, %t) : (tensor<6x64xbf16>, tensor<6x64xf32>) -> tensor<6x64xbf16> {
  ^bb0(%p: f32, %c: f32):
    %n = arith.negf %p : f32
    %m = arith.mulf %n, %c : f32
    dit.yield %m : f32
  }
  %y = dit.concat(%text, %r) axis 0 : (tensor<4x64xbf16>, tensor<6x64xbf16>) -> tensor<10x64xbf16>
  return %y : tensor<10x64xbf16>
}

// -----

// A factor of 2 could be undone by 0.5, but tables have ones and zeros.
// CHECK-LABEL: @twice
// CHECK: dit.concat({{.*}}) axis 0 : (tensor<4x64xbf16>, tensor<6x64xbf16>) -> tensor<10x64xbf16>
func.func @twice(%x: tensor<10x64xbf16>, %t: tensor<6x64xf32> {dit.invariant}) -> tensor<10x64xbf16> {
  %text = dit.slice %x offsets [0, 0] steps [1, 1] : tensor<10x64xbf16> -> tensor<4x64xbf16>
  %image = dit.slice %x offsets [4, 0] steps [1, 1] : tensor<10x64xbf16> -> tensor<6x64xbf16>
  %r = dit.map(%image, %t) : (tensor<6x64xbf16>, tensor<6x64xf32>) -> tensor<6x64xbf16> {
  ^bb0(%p: f32, %c: f32):
    %d = arith.constant 2.0 : f32
    %n = arith.mulf %p, %d : f32
    %m = arith.mulf %n, %c : f32
    dit.yield %m : f32
  }
  %y = dit.concat(%text, %r) axis 0 : (tensor<4x64xbf16>, tensor<6x64xbf16>) -> tensor<10x64xbf16>
  return %y : tensor<10x64xbf16>
}

// -----

// Not linear.
// CHECK-LABEL: @bent
// CHECK: dit.concat({{.*}}) axis 0 : (tensor<4x64xbf16>, tensor<6x64xbf16>) -> tensor<10x64xbf16>
func.func @bent(%x: tensor<10x64xbf16>, %t: tensor<6x64xf32> {dit.invariant}) -> tensor<10x64xbf16> {
  %text = dit.slice %x offsets [0, 0] steps [1, 1] : tensor<10x64xbf16> -> tensor<4x64xbf16>
  %image = dit.slice %x offsets [4, 0] steps [1, 1] : tensor<10x64xbf16> -> tensor<6x64xbf16>
  %r = dit.map(%image, %t) : (tensor<6x64xbf16>, tensor<6x64xf32>) -> tensor<6x64xbf16> {
  ^bb0(%p: f32, %c: f32):
    %z = arith.constant 0.0 : f32
    %n = arith.maximumf %p, %z : f32
    %m = arith.mulf %n, %c : f32
    dit.yield %m : f32
  }
  %y = dit.concat(%text, %r) axis 0 : (tensor<4x64xbf16>, tensor<6x64xbf16>) -> tensor<10x64xbf16>
  return %y : tensor<10x64xbf16>
}

// -----

// The same factor for every row is no table that could have more rows.
// CHECK-LABEL: @one_for_all_rows
// CHECK: dit.concat({{.*}}) axis 0 : (tensor<4x64xbf16>, tensor<6x64xbf16>) -> tensor<10x64xbf16>
func.func @one_for_all_rows(%x: tensor<10x64xbf16>, %t: tensor<1x64xf32> {dit.invariant}) -> tensor<10x64xbf16> {
  %text = dit.slice %x offsets [0, 0] steps [1, 1] : tensor<10x64xbf16> -> tensor<4x64xbf16>
  %image = dit.slice %x offsets [4, 0] steps [1, 1] : tensor<10x64xbf16> -> tensor<6x64xbf16>
  %r = dit.map(%image, %t) : (tensor<6x64xbf16>, tensor<1x64xf32>) -> tensor<6x64xbf16> {
  ^bb0(%p: f32, %c: f32):
    %m = arith.mulf %p, %c : f32
    dit.yield %m : f32
  }
  %y = dit.concat(%text, %r) axis 0 : (tensor<4x64xbf16>, tensor<6x64xbf16>) -> tensor<10x64xbf16>
  return %y : tensor<10x64xbf16>
}

// -----

// A factor that changes with every step, and is as large as what it scales.
// CHECK-LABEL: @activation
// CHECK: dit.concat({{.*}}) axis 0 : (tensor<4x64xbf16>, tensor<6x64xbf16>) -> tensor<10x64xbf16>
func.func @activation(%x: tensor<10x64xbf16>, %t: tensor<6x64xf32>) -> tensor<10x64xbf16> {
  %text = dit.slice %x offsets [0, 0] steps [1, 1] : tensor<10x64xbf16> -> tensor<4x64xbf16>
  %image = dit.slice %x offsets [4, 0] steps [1, 1] : tensor<10x64xbf16> -> tensor<6x64xbf16>
  %r = dit.map(%image, %t) : (tensor<6x64xbf16>, tensor<6x64xf32>) -> tensor<6x64xbf16> {
  ^bb0(%p: f32, %c: f32):
    %m = arith.mulf %p, %c : f32
    dit.yield %m : f32
  }
  %y = dit.concat(%text, %r) axis 0 : (tensor<4x64xbf16>, tensor<6x64xbf16>) -> tensor<10x64xbf16>
  return %y : tensor<10x64xbf16>
}

// -----

// One that is small may change.
// CHECK-LABEL: @small
// CHECK: dit.concat({{.*}}, %arg1) axis 0 : (tensor<4x1xf32>, tensor<6x1xf32>) -> tensor<10x1xf32>
// CHECK-NOT: dit.concat
func.func @small(%x: tensor<10x64xbf16>, %t: tensor<6x1xf32>) -> tensor<10x64xbf16> {
  %text = dit.slice %x offsets [0, 0] steps [1, 1] : tensor<10x64xbf16> -> tensor<4x64xbf16>
  %image = dit.slice %x offsets [4, 0] steps [1, 1] : tensor<10x64xbf16> -> tensor<6x64xbf16>
  %r = dit.map(%image, %t) : (tensor<6x64xbf16>, tensor<6x1xf32>) -> tensor<6x64xbf16> {
  ^bb0(%p: f32, %c: f32):
    %m = arith.mulf %p, %c : f32
    dit.yield %m : f32
  }
  %y = dit.concat(%text, %r) axis 0 : (tensor<4x64xbf16>, tensor<6x64xbf16>) -> tensor<10x64xbf16>
  return %y : tensor<10x64xbf16>
}

// -----

// The rows that are not rotated are of another tensor.
// CHECK-LABEL: @other_text
// CHECK: dit.concat({{.*}}) axis 0 : (tensor<4x64xbf16>, tensor<6x64xbf16>) -> tensor<10x64xbf16>
func.func @other_text(%x: tensor<10x64xbf16>, %z: tensor<10x64xbf16>, %t: tensor<6x64xf32> {dit.invariant}) -> tensor<10x64xbf16> {
  %text = dit.slice %z offsets [0, 0] steps [1, 1] : tensor<10x64xbf16> -> tensor<4x64xbf16>
  %image = dit.slice %x offsets [4, 0] steps [1, 1] : tensor<10x64xbf16> -> tensor<6x64xbf16>
  %r = dit.map(%image, %t) : (tensor<6x64xbf16>, tensor<6x64xf32>) -> tensor<6x64xbf16> {
  ^bb0(%p: f32, %c: f32):
    %m = arith.mulf %p, %c : f32
    dit.yield %m : f32
  }
  %y = dit.concat(%text, %r) axis 0 : (tensor<4x64xbf16>, tensor<6x64xbf16>) -> tensor<10x64xbf16>
  return %y : tensor<10x64xbf16>
}

// -----

// Rows change places.
// CHECK-LABEL: @out_of_order
// CHECK: dit.concat({{.*}}) axis 0 : (tensor<4x64xbf16>, tensor<6x64xbf16>) -> tensor<10x64xbf16>
func.func @out_of_order(%x: tensor<10x64xbf16>, %t: tensor<6x64xf32> {dit.invariant}) -> tensor<10x64xbf16> {
  %text = dit.slice %x offsets [6, 0] steps [1, 1] : tensor<10x64xbf16> -> tensor<4x64xbf16>
  %image = dit.slice %x offsets [0, 0] steps [1, 1] : tensor<10x64xbf16> -> tensor<6x64xbf16>
  %r = dit.map(%image, %t) : (tensor<6x64xbf16>, tensor<6x64xf32>) -> tensor<6x64xbf16> {
  ^bb0(%p: f32, %c: f32):
    %m = arith.mulf %p, %c : f32
    dit.yield %m : f32
  }
  %y = dit.concat(%text, %r) axis 0 : (tensor<4x64xbf16>, tensor<6x64xbf16>) -> tensor<10x64xbf16>
  return %y : tensor<10x64xbf16>
}

// -----

// Rows that are rotated lose bits that the others keep.
// CHECK-LABEL: @rounded
// CHECK: dit.concat({{.*}}) axis 0 : (tensor<4x64xf32>, tensor<6x64xf32>) -> tensor<10x64xf32>
func.func @rounded(%x: tensor<10x64xf32>, %t: tensor<6x64xf32> {dit.invariant}) -> tensor<10x64xf32> {
  %text = dit.slice %x offsets [0, 0] steps [1, 1] : tensor<10x64xf32> -> tensor<4x64xf32>
  %image = dit.slice %x offsets [4, 0] steps [1, 1] : tensor<10x64xf32> -> tensor<6x64xf32>
  %n = dit.map(%image, %t) : (tensor<6x64xf32>, tensor<6x64xf32>) -> tensor<6x64xbf16> {
  ^bb0(%p: f32, %c: f32):
    %m = arith.mulf %p, %c : f32
    dit.yield %m : f32
  }
  %r = dit.map(%n) : (tensor<6x64xbf16>) -> tensor<6x64xf32> {
  ^bb0(%p: f32):
    dit.yield %p : f32
  }
  %y = dit.concat(%text, %r) axis 0 : (tensor<4x64xf32>, tensor<6x64xf32>) -> tensor<10x64xf32>
  return %y : tensor<10x64xf32>
}

// -----

// The rotated rows have another reader, for which they would be computed twice.
// CHECK-LABEL: @read_elsewhere
// CHECK: dit.concat({{.*}}) axis 0 : (tensor<4x64xbf16>, tensor<6x64xbf16>) -> tensor<10x64xbf16>
func.func @read_elsewhere(%x: tensor<10x64xbf16>, %t: tensor<6x64xf32> {dit.invariant}) -> (tensor<10x64xbf16>, tensor<6x64xbf16>) {
  %text = dit.slice %x offsets [0, 0] steps [1, 1] : tensor<10x64xbf16> -> tensor<4x64xbf16>
  %image = dit.slice %x offsets [4, 0] steps [1, 1] : tensor<10x64xbf16> -> tensor<6x64xbf16>
  %r = dit.map(%image, %t) : (tensor<6x64xbf16>, tensor<6x64xf32>) -> tensor<6x64xbf16> {
  ^bb0(%p: f32, %c: f32):
    %m = arith.mulf %p, %c : f32
    dit.yield %m : f32
  }
  %e = dit.map(%r) : (tensor<6x64xbf16>) -> tensor<6x64xbf16> {
  ^bb0(%p: f32):
    %m = math.exp %p : f32
    dit.yield %m : f32
  }
  %y = dit.concat(%text, %r) axis 0 : (tensor<4x64xbf16>, tensor<6x64xbf16>) -> tensor<10x64xbf16>
  return %y, %e : tensor<10x64xbf16>, tensor<6x64xbf16>
}

// -----

// A table that is computed, and read elsewhere: only one is kept.
// CHECK-LABEL: @shared
// CHECK: %[[COS:.*]] = dit.map(%arg1)
// CHECK: %[[ALL:.*]] = dit.concat({{.*}}, %[[COS]]) axis 0 : (tensor<4x64xf32>, tensor<6x64xf32>) -> tensor<10x64xf32>
// CHECK: %[[PART:.*]] = dit.slice %[[ALL]] offsets [4, 0] steps [1, 1] : tensor<10x64xf32> -> tensor<6x64xf32>
// CHECK: dit.map(%arg2, %[[PART]]) : (tensor<6x64xbf16>, tensor<6x64xf32>) -> tensor<6x64xbf16>
// CHECK: dit.map({{.*}}, %[[ALL]]) : (tensor<10x64xbf16>, tensor<10x64xf32>) -> tensor<10x64xbf16>
func.func @shared(%x: tensor<10x64xbf16>, %t: tensor<6x64xf32> {dit.invariant}, %z: tensor<6x64xbf16>) -> (tensor<10x64xbf16>, tensor<6x64xbf16>) {
  %cos = dit.map(%t) : (tensor<6x64xf32>) -> tensor<6x64xf32> {
  ^bb0(%p: f32):
    %q = math.cos %p : f32
    dit.yield %q : f32
  }
  %text = dit.slice %x offsets [0, 0] steps [1, 1] : tensor<10x64xbf16> -> tensor<4x64xbf16>
  %image = dit.slice %x offsets [4, 0] steps [1, 1] : tensor<10x64xbf16> -> tensor<6x64xbf16>
  %r = dit.map(%image, %cos) : (tensor<6x64xbf16>, tensor<6x64xf32>) -> tensor<6x64xbf16> {
  ^bb0(%p: f32, %c: f32):
    %m = arith.mulf %p, %c : f32
    dit.yield %m : f32
  }
  %o = dit.map(%z, %cos) : (tensor<6x64xbf16>, tensor<6x64xf32>) -> tensor<6x64xbf16> {
  ^bb0(%p: f32, %c: f32):
    %m = arith.mulf %p, %c : f32
    dit.yield %m : f32
  }
  %y = dit.concat(%text, %r) axis 0 : (tensor<4x64xbf16>, tensor<6x64xbf16>) -> tensor<10x64xbf16>
  return %y, %o : tensor<10x64xbf16>, tensor<6x64xbf16>
}
