// RUN: ditc-opt %s --ditc-recognise-linear-attention --canonicalize | FileCheck %s

// Sana's: (V with ones, Kᵀ), Q, divided; 16-bit operands that were cut at 0 and widened, a result that is narrowed.
// CHECK-LABEL: func.func @sana
// CHECK-NOT: dit.matmul
// CHECK: %[[S:.*]] = dit.linear_state %{{.*}}, %{{.*}} relu normaliser : (tensor<1x2x512x8xbf16>, tensor<1x2x512x8xbf16>) -> tensor<4x1x2x9x8xf32>
// CHECK: dit.linear_apply %{{.*}}, %[[S]] relu normaliser epsilon 1.000{{[0-9]*}}E-15 : {{.*}} -> tensor<1x2x512x8xbf16>
// CHECK-NOT: dit.map
// CHECK: return
func.func @sana(%q: tensor<1x2x8x512xbf16>, %k: tensor<1x2x512x8xbf16>, %v: tensor<1x2x8x512xbf16>) -> tensor<1x512x16xbf16> {
  %qr = dit.map(%q) : (tensor<1x2x8x512xbf16>) -> tensor<1x2x8x512xbf16> {
  ^bb0(%a: f32):
    %z = arith.constant 0.0 : f32
    %m = arith.maximumf %a, %z : f32
    dit.yield %m : f32
  }
  %kr = dit.map(%k) : (tensor<1x2x512x8xbf16>) -> tensor<1x2x512x8xbf16> {
  ^bb0(%a: f32):
    %z = arith.constant 0.0 : f32
    %m = arith.maximumf %a, %z : f32
    dit.yield %m : f32
  }
  %qf = dit.map(%qr) : (tensor<1x2x8x512xbf16>) -> tensor<1x2x8x512xf32> {
  ^bb0(%a: f32):
    dit.yield %a : f32
  }
  %kf = dit.map(%kr) : (tensor<1x2x512x8xbf16>) -> tensor<1x2x512x8xf32> {
  ^bb0(%a: f32):
    dit.yield %a : f32
  }
  %vf = dit.map(%v) : (tensor<1x2x8x512xbf16>) -> tensor<1x2x8x512xf32> {
  ^bb0(%a: f32):
    dit.yield %a : f32
  }
  %p = dit.pad %vf low [0, 0, 0, 0] high [0, 0, 1, 0] value 1.0 : f32 : tensor<1x2x8x512xf32> -> tensor<1x2x9x512xf32>
  %s = dit.matmul %p, %kf : (tensor<1x2x9x512xf32>, tensor<1x2x512x8xf32>) -> tensor<1x2x9x8xf32>
  %y = dit.matmul %s, %qf : (tensor<1x2x9x8xf32>, tensor<1x2x8x512xf32>) -> tensor<1x2x9x512xf32>
  %n = dit.slice %y offsets [0, 0, 0, 0] steps [1, 1, 1, 1] : tensor<1x2x9x512xf32> -> tensor<1x2x8x512xf32>
  %d = dit.slice %y offsets [0, 0, 8, 0] steps [1, 1, 1, 1] : tensor<1x2x9x512xf32> -> tensor<1x2x1x512xf32>
  %e = dit.map(%d) : (tensor<1x2x1x512xf32>) -> tensor<1x2x1x512xf32> {
  ^bb0(%a: f32):
    %c = arith.constant 1.0e-15 : f32
    %m = arith.addf %a, %c : f32
    dit.yield %m : f32
  }
  %r = dit.map(%n, %e) : (tensor<1x2x8x512xf32>, tensor<1x2x1x512xf32>) -> tensor<1x2x8x512xf32> {
  ^bb0(%a: f32, %b: f32):
    %m = arith.divf %a, %b : f32
    dit.yield %m : f32
  }
  %w = dit.view %r : tensor<1x2x8x512xf32> -> tensor<1x16x512xf32>
  %t = dit.permute %w [0, 2, 1] : tensor<1x16x512xf32> -> tensor<1x512x16xf32>
  %o = dit.map(%t) : (tensor<1x512x16xf32>) -> tensor<1x512x16xbf16> {
  ^bb0(%a: f32):
    dit.yield %a : f32
  }
  return %o : tensor<1x512x16xbf16>
}

// Q (Kᵀ V), of heads and batch in one, without a normaliser.
// CHECK-LABEL: func.func @natural
// CHECK: %[[S:.*]] = dit.linear_state %{{.*}}, %{{.*}} : (tensor<1x6x100x8xf32>, tensor<1x6x100x12xf32>) -> tensor<1x1x6x12x8xf32>
// CHECK: %[[Y:.*]] = dit.linear_apply %{{.*}}, %[[S]] epsilon 0.000{{0*}}e+00 : {{.*}} -> tensor<1x6x100x12xf32>
// CHECK: dit.view %[[Y]]
func.func @natural(%q: tensor<6x100x8xf32>, %k: tensor<6x8x100xf32>, %v: tensor<6x100x12xf32>) -> tensor<6x100x12xf32> {
  %s = dit.matmul %k, %v : (tensor<6x8x100xf32>, tensor<6x100x12xf32>) -> tensor<6x8x12xf32>
  %y = dit.matmul %q, %s : (tensor<6x100x8xf32>, tensor<6x8x12xf32>) -> tensor<6x100x12xf32>
  return %y : tensor<6x100x12xf32>
}

// The same with both right sides turned.
// CHECK-LABEL: func.func @turned
// CHECK: dit.linear_state %{{.*}}, %{{.*}} : (tensor<1x6x100x8xf32>, tensor<1x6x100x12xf32>) -> tensor<1x1x6x12x8xf32>
func.func @turned(%q: tensor<6x100x8xf32>, %k: tensor<6x8x100xf32>, %v: tensor<6x12x100xf32>) -> tensor<6x100x12xf32> {
  %s = dit.matmul %v, %k transpose_rhs : (tensor<6x12x100xf32>, tensor<6x8x100xf32>) -> tensor<6x12x8xf32>
  %y = dit.matmul %q, %s transpose_rhs : (tensor<6x100x8xf32>, tensor<6x12x8xf32>) -> tensor<6x100x12xf32>
  return %y : tensor<6x100x12xf32>
}

// What is left as it is: more channels than tokens, 16-bit products, a state that is read twice, ones whose row is not
// what the rest is divided by, a bias or a weight in place of a batch.
// CHECK-LABEL: func.func @few_tokens
// CHECK-NOT: dit.linear
func.func @few_tokens(%q: tensor<6x4x8xf32>, %k: tensor<6x8x4xf32>, %v: tensor<6x4x12xf32>) -> tensor<6x4x12xf32> {
  %s = dit.matmul %k, %v : (tensor<6x8x4xf32>, tensor<6x4x12xf32>) -> tensor<6x8x12xf32>
  %y = dit.matmul %q, %s : (tensor<6x4x8xf32>, tensor<6x8x12xf32>) -> tensor<6x4x12xf32>
  return %y : tensor<6x4x12xf32>
}

// CHECK-LABEL: func.func @narrow
// CHECK-NOT: dit.linear
func.func @narrow(%q: tensor<6x100x8xbf16>, %k: tensor<6x8x100xbf16>, %v: tensor<6x100x12xbf16>) -> tensor<6x100x12xbf16> {
  %s = dit.matmul %k, %v : (tensor<6x8x100xbf16>, tensor<6x100x12xbf16>) -> tensor<6x8x12xbf16>
  %y = dit.matmul %q, %s : (tensor<6x100x8xbf16>, tensor<6x8x12xbf16>) -> tensor<6x100x12xbf16>
  return %y : tensor<6x100x12xbf16>
}

// CHECK-LABEL: func.func @state_read_twice
// CHECK-NOT: dit.linear
func.func @state_read_twice(%q: tensor<6x100x8xf32>, %k: tensor<6x8x100xf32>, %v: tensor<6x100x12xf32>) -> (tensor<6x100x12xf32>, tensor<6x8x12xf32>) {
  %s = dit.matmul %k, %v : (tensor<6x8x100xf32>, tensor<6x100x12xf32>) -> tensor<6x8x12xf32>
  %y = dit.matmul %q, %s : (tensor<6x100x8xf32>, tensor<6x8x12xf32>) -> tensor<6x100x12xf32>
  return %y, %s : tensor<6x100x12xf32>, tensor<6x8x12xf32>
}

// CHECK-LABEL: func.func @undivided
// CHECK-NOT: dit.linear
func.func @undivided(%q: tensor<1x2x8x64xf32>, %k: tensor<1x2x64x8xf32>, %v: tensor<1x2x8x64xf32>) -> tensor<1x2x9x64xf32> {
  %p = dit.pad %v low [0, 0, 0, 0] high [0, 0, 1, 0] value 1.0 : f32 : tensor<1x2x8x64xf32> -> tensor<1x2x9x64xf32>
  %s = dit.matmul %p, %k : (tensor<1x2x9x64xf32>, tensor<1x2x64x8xf32>) -> tensor<1x2x9x8xf32>
  %y = dit.matmul %s, %q : (tensor<1x2x9x8xf32>, tensor<1x2x8x64xf32>) -> tensor<1x2x9x64xf32>
  return %y : tensor<1x2x9x64xf32>
}

// CHECK-LABEL: func.func @weight
// CHECK-NOT: dit.linear
func.func @weight(%q: tensor<6x100x8xf32>, %k: tensor<6x8x100xf32>, %v: tensor<100x12xf32>) -> tensor<6x100x12xf32> {
  %s = dit.matmul %k, %v : (tensor<6x8x100xf32>, tensor<100x12xf32>) -> tensor<6x8x12xf32>
  %y = dit.matmul %q, %s : (tensor<6x100x8xf32>, tensor<6x8x12xf32>) -> tensor<6x100x12xf32>
  return %y : tensor<6x100x12xf32>
}

// The divisor of one token, head or batch for all is none of a normaliser's.
// CHECK-LABEL: func.func @one_divisor
// CHECK-NOT: dit.linear
func.func @one_divisor(%q: tensor<1x2x8x64xf32>, %k: tensor<1x2x64x8xf32>, %v: tensor<1x2x8x64xf32>) -> tensor<1x2x8x64xf32> {
  %p = dit.pad %v low [0, 0, 0, 0] high [0, 0, 1, 0] value 1.0 : f32 : tensor<1x2x8x64xf32> -> tensor<1x2x9x64xf32>
  %s = dit.matmul %p, %k : (tensor<1x2x9x64xf32>, tensor<1x2x64x8xf32>) -> tensor<1x2x9x8xf32>
  %y = dit.matmul %s, %q : (tensor<1x2x9x8xf32>, tensor<1x2x8x64xf32>) -> tensor<1x2x9x64xf32>
  %n = dit.slice %y offsets [0, 0, 0, 0] steps [1, 1, 1, 1] : tensor<1x2x9x64xf32> -> tensor<1x2x8x64xf32>
  %d = dit.slice %y offsets [0, 0, 8, 0] steps [1, 1, 1, 1] : tensor<1x2x9x64xf32> -> tensor<1x2x1x1xf32>
  %r = dit.map(%n, %d) : (tensor<1x2x8x64xf32>, tensor<1x2x1x1xf32>) -> tensor<1x2x8x64xf32> {
  ^bb0(%a: f32, %b: f32):
    %m = arith.divf %a, %b : f32
    dit.yield %m : f32
  }
  return %r : tensor<1x2x8x64xf32>
}

// Some of the tokens are divided.
// CHECK-LABEL: func.func @some_tokens
// CHECK-NOT: dit.linear
func.func @some_tokens(%q: tensor<1x2x8x64xf32>, %k: tensor<1x2x64x8xf32>, %v: tensor<1x2x8x64xf32>) -> tensor<1x2x8x10xf32> {
  %p = dit.pad %v low [0, 0, 0, 0] high [0, 0, 1, 0] value 1.0 : f32 : tensor<1x2x8x64xf32> -> tensor<1x2x9x64xf32>
  %s = dit.matmul %p, %k : (tensor<1x2x9x64xf32>, tensor<1x2x64x8xf32>) -> tensor<1x2x9x8xf32>
  %y = dit.matmul %s, %q : (tensor<1x2x9x8xf32>, tensor<1x2x8x64xf32>) -> tensor<1x2x9x64xf32>
  %n = dit.slice %y offsets [0, 0, 0, 3] steps [1, 1, 1, 1] : tensor<1x2x9x64xf32> -> tensor<1x2x8x10xf32>
  %d = dit.slice %y offsets [0, 0, 8, 3] steps [1, 1, 1, 1] : tensor<1x2x9x64xf32> -> tensor<1x2x1x10xf32>
  %r = dit.map(%n, %d) : (tensor<1x2x8x10xf32>, tensor<1x2x1x10xf32>) -> tensor<1x2x8x10xf32> {
  ^bb0(%a: f32, %b: f32):
    %m = arith.divf %a, %b : f32
    dit.yield %m : f32
  }
  return %r : tensor<1x2x8x10xf32>
}

// A cut at 0 that also repeats heads stays a map; so does a cast of the result that repeats it.
// CHECK-LABEL: func.func @repeats
// CHECK: %[[K:.*]] = dit.map(%arg1) : (tensor<1x1x64x8xf32>) -> tensor<1x2x64x8xf32>
// CHECK: dit.linear_state %[[K]], %{{.*}} : {{.*}} -> tensor<1x1x2x8x8xf32>
// CHECK: %[[Y:.*]] = dit.linear_apply {{.*}} -> tensor<1x2x64x8xf32>
// CHECK: dit.map(%[[Y]]) : (tensor<1x2x64x8xf32>) -> tensor<3x2x64x8xbf16>
func.func @repeats(%q: tensor<1x2x64x8xf32>, %k: tensor<1x1x64x8xf32>, %v: tensor<1x2x64x8xf32>) -> tensor<3x2x64x8xbf16> {
  %r = dit.map(%k) : (tensor<1x1x64x8xf32>) -> tensor<1x2x64x8xf32> {
  ^bb0(%a: f32):
    %z = arith.constant 0.0 : f32
    %m = arith.maximumf %a, %z : f32
    dit.yield %m : f32
  }
  %t = dit.permute %r [0, 1, 3, 2] : tensor<1x2x64x8xf32> -> tensor<1x2x8x64xf32>
  %s = dit.matmul %t, %v : (tensor<1x2x8x64xf32>, tensor<1x2x64x8xf32>) -> tensor<1x2x8x8xf32>
  %y = dit.matmul %q, %s : (tensor<1x2x64x8xf32>, tensor<1x2x8x8xf32>) -> tensor<1x2x64x8xf32>
  %o = dit.map(%y) : (tensor<1x2x64x8xf32>) -> tensor<3x2x64x8xbf16> {
  ^bb0(%a: f32):
    dit.yield %a : f32
  }
  return %o : tensor<3x2x64x8xbf16>
}
