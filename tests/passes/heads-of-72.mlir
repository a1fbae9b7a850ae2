// RUN: ditc-opt %s --ditc-group-kernels --ditc-legalize-for-sm90a | FileCheck %s

// Queries, keys and values of one layer, heads of 72: norms and halves that turn (36 columns, no whole groups of eight) are in the
// product's launch. The attention reads the values as a part of the product, which alone is stored.
// CHECK-LABEL: func.func @one_weight
// CHECK: %[[R:.*]]:3 = dit.fusion "gemm"({{.*}}) -> (tensor<1x2x128x72xbf16>, tensor<1x2x128x72xbf16>, tensor<1x2x128x72xbf16>) {
// CHECK-NOT: dit.fusion "rowwise"
// CHECK: dit.attention %[[R]]#{{[012]}}, %[[R]]#{{[012]}}, %[[R]]#{{[012]}} scale
// CHECK-NOT: dit.fusion
func.func @one_weight(%x: tensor<1x128x64xbf16>, %c: tensor<1x1x128x72xf32>, %s: tensor<1x1x128x72xf32>) -> tensor<1x2x128x72xbf16> {
  %w = dit.weight "w" : tensor<432x64xbf16>
  %b = dit.weight "b" : tensor<432xbf16>
  %g = dit.weight "g" : tensor<72xbf16>
  %m = dit.matmul %x, %w bias %b transpose_rhs : (tensor<1x128x64xbf16>, tensor<432x64xbf16>, tensor<432xbf16>) -> tensor<1x128x432xbf16>
  %h = dit.view %m : tensor<1x128x432xbf16> -> tensor<1x128x3x2x72xbf16>
  %p = dit.permute %h [2, 0, 3, 1, 4] : tensor<1x128x3x2x72xbf16> -> tensor<3x1x2x128x72xbf16>
  %q0 = dit.slice %p offsets [0, 0, 0, 0, 0] steps [1, 1, 1, 1, 1] : tensor<3x1x2x128x72xbf16> -> tensor<1x1x2x128x72xbf16>
  %k0 = dit.slice %p offsets [1, 0, 0, 0, 0] steps [1, 1, 1, 1, 1] : tensor<3x1x2x128x72xbf16> -> tensor<1x1x2x128x72xbf16>
  %v0 = dit.slice %p offsets [2, 0, 0, 0, 0] steps [1, 1, 1, 1, 1] : tensor<3x1x2x128x72xbf16> -> tensor<1x1x2x128x72xbf16>
  %q1 = dit.view %q0 : tensor<1x1x2x128x72xbf16> -> tensor<1x2x128x72xbf16>
  %k1 = dit.view %k0 : tensor<1x1x2x128x72xbf16> -> tensor<1x2x128x72xbf16>
  %v = dit.view %v0 : tensor<1x1x2x128x72xbf16> -> tensor<1x2x128x72xbf16>
  %q2 = dit.norm rms %q1 weight %g axes 1 eps 1.0e-6 : (tensor<1x2x128x72xbf16>, tensor<72xbf16>) -> tensor<1x2x128x72xbf16>
  %k = dit.norm rms %k1 weight %g axes 1 eps 1.0e-6 : (tensor<1x2x128x72xbf16>, tensor<72xbf16>) -> tensor<1x2x128x72xbf16>
  %qa = dit.slice %q2 offsets [0, 0, 0, 0] steps [1, 1, 1, 1] : tensor<1x2x128x72xbf16> -> tensor<1x2x128x36xbf16>
  %qb = dit.slice %q2 offsets [0, 0, 0, 36] steps [1, 1, 1, 1] : tensor<1x2x128x72xbf16> -> tensor<1x2x128x36xbf16>
  %qn = dit.map(%qb) : (tensor<1x2x128x36xbf16>) -> tensor<1x2x128x36xbf16> {
  ^bb0(%a: f32):
    %n = arith.negf %a : f32
    dit.yield %n : f32
  }
  %qt = dit.concat(%qn, %qa) axis 3 : (tensor<1x2x128x36xbf16>, tensor<1x2x128x36xbf16>) -> tensor<1x2x128x72xbf16>
  %q = dit.map(%q2, %c, %qt, %s) : (tensor<1x2x128x72xbf16>, tensor<1x1x128x72xf32>, tensor<1x2x128x72xbf16>, tensor<1x1x128x72xf32>) -> tensor<1x2x128x72xbf16> {
  ^bb0(%a: f32, %e: f32, %t: f32, %f: f32):
    %u = arith.mulf %a, %e : f32
    %r = arith.mulf %t, %f : f32
    %y = arith.addf %u, %r : f32
    dit.yield %y : f32
  }
  %o = dit.attention %q, %k, %v scale 1.0 : (tensor<1x2x128x72xbf16>, tensor<1x2x128x72xbf16>, tensor<1x2x128x72xbf16>) -> tensor<1x2x128x72xbf16>
  return %o : tensor<1x2x128x72xbf16>
}

// The whole product is read as well: it is stored, and what attention reads is a view of it.
// CHECK-LABEL: func.func @whole_is_read
// CHECK: %[[M:.*]] = dit.fusion "gemm"
// CHECK: dit.fusion "rowwise"(%[[M]])
// CHECK: return %{{.*}}, %[[M]]
func.func @whole_is_read(%x: tensor<128x64xbf16>, %k: tensor<1x2x128x72xbf16>) -> (tensor<1x2x128x72xbf16>, tensor<128x288xbf16>) {
  %w = dit.weight "w" : tensor<288x64xbf16>
  %m = dit.matmul %x, %w transpose_rhs : (tensor<128x64xbf16>, tensor<288x64xbf16>) -> tensor<128x288xbf16>
  %q0 = dit.slice %m offsets [0, 0] steps [1, 1] : tensor<128x288xbf16> -> tensor<128x144xbf16>
  %v0 = dit.slice %m offsets [0, 144] steps [1, 1] : tensor<128x288xbf16> -> tensor<128x144xbf16>
  %q1 = dit.view %q0 : tensor<128x144xbf16> -> tensor<1x128x2x72xbf16>
  %v1 = dit.view %v0 : tensor<128x144xbf16> -> tensor<1x128x2x72xbf16>
  %q2 = dit.norm rms %q1 axes 1 eps 1.0e-6 : (tensor<1x128x2x72xbf16>) -> tensor<1x128x2x72xbf16>
  %q = dit.permute %q2 [0, 2, 1, 3] : tensor<1x128x2x72xbf16> -> tensor<1x2x128x72xbf16>
  %v = dit.permute %v1 [0, 2, 1, 3] : tensor<1x128x2x72xbf16> -> tensor<1x2x128x72xbf16>
  %o = dit.attention %q, %k, %v scale 1.0 : (tensor<1x2x128x72xbf16>, tensor<1x2x128x72xbf16>, tensor<1x2x128x72xbf16>) -> tensor<1x2x128x72xbf16>
  return %o, %m : tensor<1x2x128x72xbf16>, tensor<128x288xbf16>
}

// Heads of 68 are no whole groups: the norm is a kernel of its own.
// CHECK-LABEL: func.func @no_groups
// CHECK: dit.fusion "rowwise"
func.func @no_groups(%x: tensor<128x64xbf16>) -> tensor<128x2x68xbf16> {
  %w = dit.weight "w" : tensor<136x64xbf16>
  %m = dit.matmul %x, %w transpose_rhs : (tensor<128x64xbf16>, tensor<136x64xbf16>) -> tensor<128x136xbf16>
  %h = dit.view %m : tensor<128x136xbf16> -> tensor<128x2x68xbf16>
  %n = dit.norm rms %h axes 1 eps 1.0e-6 : (tensor<128x2x68xbf16>) -> tensor<128x2x68xbf16>
  return %n : tensor<128x2x68xbf16>
}
