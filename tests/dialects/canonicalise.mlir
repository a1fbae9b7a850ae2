// RUN: ditc-opt %s --canonicalize --split-input-file | FileCheck %s

// CHECK-LABEL: @views
// CHECK-NEXT: return %arg0
func.func @views(%x: tensor<2x6xf32>) -> tensor<2x6xf32> {
  %a = dit.view %x : tensor<2x6xf32> -> tensor<12xf32>
  %b = dit.view %a : tensor<12xf32> -> tensor<3x4xf32>
  %c = dit.view %b : tensor<3x4xf32> -> tensor<2x6xf32>
  return %c : tensor<2x6xf32>
}

// -----

// CHECK-LABEL: @permutes
// CHECK-NEXT: return %arg0
func.func @permutes(%x: tensor<2x3x4xf32>) -> tensor<2x3x4xf32> {
  %a = dit.permute %x [2, 0, 1] : tensor<2x3x4xf32> -> tensor<4x2x3xf32>
  %b = dit.permute %a [1, 2, 0] : tensor<4x2x3xf32> -> tensor<2x3x4xf32>
  return %b : tensor<2x3x4xf32>
}

// -----

// Dimensions of one element have no order.
// CHECK-LABEL: @permute_of_ones
// CHECK-NEXT: %[[V:.*]] = dit.view %arg0 : tensor<2x1x3x1xf32> -> tensor<1x2x1x3xf32>
// CHECK-NEXT: return %[[V]]
func.func @permute_of_ones(%x: tensor<2x1x3x1xf32>) -> tensor<1x2x1x3xf32> {
  %a = dit.permute %x [3, 0, 1, 2] : tensor<2x1x3x1xf32> -> tensor<1x2x1x3xf32>
  return %a : tensor<1x2x1x3xf32>
}

// -----

// What einsum makes of a transposed operand: a dimension that is added for the product and gone after it.
// CHECK-LABEL: @permute_with_added_one
// CHECK-NEXT: %[[P:.*]] = dit.permute %arg0 [0, 2, 1] : tensor<1x4x5xf32> -> tensor<1x5x4xf32>
// CHECK-NEXT: %[[V:.*]] = dit.view %[[P]] : tensor<1x5x4xf32> -> tensor<5x4xf32>
// CHECK-NEXT: return %[[V]]
func.func @permute_with_added_one(%x: tensor<1x4x5xf32>) -> tensor<5x4xf32> {
  %a = dit.view %x : tensor<1x4x5xf32> -> tensor<1x4x5x1xf32>
  %b = dit.permute %a [0, 2, 1, 3] : tensor<1x4x5x1xf32> -> tensor<1x5x4x1xf32>
  %c = dit.view %b : tensor<1x5x4x1xf32> -> tensor<5x4xf32>
  return %c : tensor<5x4xf32>
}

// -----

// A weight that decomposition turns and repeats for each batch.
// CHECK-LABEL: @weight_of_all_batches
// CHECK-NEXT: %[[W:.*]] = dit.weight
// CHECK-NEXT: %[[Y:.*]] = dit.matmul %arg0, %[[W]] transpose_rhs : (tensor<2x3x4xf32>, tensor<5x4xf32>) -> tensor<2x3x5xf32>
// CHECK-NEXT: return %[[Y]]
func.func @weight_of_all_batches(%x: tensor<2x3x4xf32>) -> tensor<2x3x5xf32> {
  %w = dit.weight "w" : tensor<5x4xf32>
  %t = dit.permute %w [1, 0] : tensor<5x4xf32> -> tensor<4x5xf32>
  %v = dit.view %t : tensor<4x5xf32> -> tensor<1x4x5xf32>
  %e = dit.expand %v : tensor<1x4x5xf32> -> tensor<2x4x5xf32>
  %y = dit.matmul %x, %e : (tensor<2x3x4xf32>, tensor<2x4x5xf32>) -> tensor<2x3x5xf32>
  return %y : tensor<2x3x5xf32>
}

// -----

// Keys that all heads share are none.
// CHECK-LABEL: @keys_of_all_heads
// CHECK: dit.expand
// CHECK: dit.matmul {{.*}} : (tensor<1x2x3x4xf32>, tensor<1x2x4x5xf32>)
func.func @keys_of_all_heads(%q: tensor<1x2x3x4xf32>, %k: tensor<1x1x4x5xf32>) -> tensor<1x2x3x5xf32> {
  %e = dit.expand %k : tensor<1x1x4x5xf32> -> tensor<1x2x4x5xf32>
  %y = dit.matmul %q, %e : (tensor<1x2x3x4xf32>, tensor<1x2x4x5xf32>) -> tensor<1x2x3x5xf32>
  return %y : tensor<1x2x3x5xf32>
}

// -----

// A write of the even and the odd elements leaves nothing of what was there before.
// CHECK-LABEL: @slice_of_concat
// CHECK-NEXT: return %arg1
func.func @slice_of_concat(%x: tensor<2x1xf32>, %y: tensor<2x1xf32>) -> tensor<2x1xf32> {
  %c = dit.concat(%x, %y) axis 1 : (tensor<2x1xf32>, tensor<2x1xf32>) -> tensor<2x2xf32>
  %s = dit.slice %c offsets [0, 1] steps [1, 1] : tensor<2x2xf32> -> tensor<2x1xf32>
  return %s : tensor<2x1xf32>
}

// -----

// CHECK-LABEL: @slice_of_pad
// CHECK-NEXT: %[[S:.*]] = dit.slice %arg0 offsets [1] steps [2] : tensor<9xf32> -> tensor<4xf32>
// CHECK-NEXT: return %[[S]]
func.func @slice_of_pad(%x: tensor<9xf32>) -> tensor<4xf32> {
  %p = dit.pad %x low [2] high [3] value 1.0 : f32 : tensor<9xf32> -> tensor<14xf32>
  %s = dit.slice %p offsets [3] steps [2] : tensor<14xf32> -> tensor<4xf32>
  return %s : tensor<4xf32>
}

// -----

// Beyond the edge only what is taken is padded.
// CHECK-LABEL: @slice_over_edge
// CHECK-NEXT: %[[S:.*]] = dit.slice %arg0 offsets [0] steps [1] : tensor<9xf32> -> tensor<3xf32>
// CHECK-NEXT: %[[P:.*]] = dit.pad %[[S]] low [1] high [0] value 1.0{{.*}} : f32 : tensor<3xf32> -> tensor<4xf32>
// CHECK-NEXT: return %[[P]]
func.func @slice_over_edge(%x: tensor<9xf32>) -> tensor<4xf32> {
  %p = dit.pad %x low [2] high [3] value 1.0 : f32 : tensor<9xf32> -> tensor<14xf32>
  %s = dit.slice %p offsets [1] steps [1] : tensor<14xf32> -> tensor<4xf32>
  return %s : tensor<4xf32>
}

// -----

// Nothing but the border is a constant.
// CHECK-LABEL: @slice_of_border
// CHECK-NEXT: %[[C:.*]] = dit.constant dense<1.0{{.*}}> : tensor<1xf32>
// CHECK-NEXT: %[[E:.*]] = dit.expand %[[C]] : tensor<1xf32> -> tensor<2xf32>
// CHECK-NEXT: return %[[E]]
func.func @slice_of_border(%x: tensor<9xf32>) -> tensor<2xf32> {
  %p = dit.pad %x low [2] high [3] value 1.0 : f32 : tensor<9xf32> -> tensor<14xf32>
  %s = dit.slice %p offsets [12] steps [1] : tensor<14xf32> -> tensor<2xf32>
  return %s : tensor<2xf32>
}

// -----

// A part of the border in steps, or beside the whole: as it is.
// CHECK-LABEL: @slice_stays_behind_pad
// CHECK-NEXT: dit.pad
// CHECK-NEXT: dit.slice %{{.*}} offsets [1]
// CHECK-NEXT: dit.slice %{{.*}} offsets [10]
// CHECK-NOT: dit.pad
func.func @slice_stays_behind_pad(%x: tensor<9xf32>) -> (tensor<3xf32>, tensor<2xf32>, tensor<14xf32>) {
  %p = dit.pad %x low [2] high [3] value 1.0 : f32 : tensor<9xf32> -> tensor<14xf32>
  %t = dit.slice %p offsets [1] steps [2] : tensor<14xf32> -> tensor<3xf32>
  %u = dit.slice %p offsets [10] steps [1] : tensor<14xf32> -> tensor<2xf32>
  return %t, %u, %p : tensor<3xf32>, tensor<2xf32>, tensor<14xf32>
}

// -----

// CHECK-LABEL: @slice_of_slice
// CHECK: dit.slice %arg0 offsets [7] steps [6]
func.func @slice_of_slice(%x: tensor<20xf32>) -> tensor<2xf32> {
  %a = dit.slice %x offsets [1] steps [2] : tensor<20xf32> -> tensor<9xf32>
  %b = dit.slice %a offsets [3] steps [3] : tensor<9xf32> -> tensor<2xf32>
  return %b : tensor<2xf32>
}

// -----

// CHECK-LABEL: @splat_operand
// CHECK: dit.map(%arg0)
// CHECK: arith.constant 2.000000e+00 : f32
func.func @splat_operand(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %c = dit.constant dense<2.0> : tensor<1x4xbf16>
  %e = dit.expand %c : tensor<1x4xbf16> -> tensor<4x4xbf16>
  %y = dit.map(%x, %e) : (tensor<4x4xf32>, tensor<4x4xbf16>) -> tensor<4x4xf32> {
  ^bb0(%a: f32, %b: f32):
    %m = arith.mulf %a, %b : f32
    dit.yield %m : f32
  }
  return %y : tensor<4x4xf32>
}

// -----

// Widening and back is exact; narrowing and back is not.
// CHECK-LABEL: @casts
// CHECK: %[[N:.*]] = dit.map(%arg1)
// CHECK: %[[W:.*]] = dit.map(%[[N]])
// CHECK: return %arg0, %[[W]]
func.func @casts(%x: tensor<4xbf16>, %y: tensor<4xf32>) -> (tensor<4xbf16>, tensor<4xf32>) {
  %a = dit.map(%x) : (tensor<4xbf16>) -> tensor<4xf32> {
  ^bb0(%p: f32):
    dit.yield %p : f32
  }
  %b = dit.map(%a) : (tensor<4xf32>) -> tensor<4xbf16> {
  ^bb0(%p: f32):
    dit.yield %p : f32
  }
  %c = dit.map(%y) : (tensor<4xf32>) -> tensor<4xbf16> {
  ^bb0(%p: f32):
    dit.yield %p : f32
  }
  %d = dit.map(%c) : (tensor<4xbf16>) -> tensor<4xf32> {
  ^bb0(%p: f32):
    dit.yield %p : f32
  }
  return %b, %d : tensor<4xbf16>, tensor<4xf32>
}

// -----

// Split and put together again, as blocks do with text and image tokens.
// CHECK-LABEL: @split_and_concat
// CHECK-NEXT: return %arg0
func.func @split_and_concat(%x: tensor<2x6xf32>) -> tensor<2x6xf32> {
  %a = dit.slice %x offsets [0, 0] steps [1, 1] : tensor<2x6xf32> -> tensor<2x2xf32>
  %b = dit.slice %x offsets [0, 2] steps [1, 1] : tensor<2x6xf32> -> tensor<2x4xf32>
  %c = dit.concat(%a, %b) axis 1 : (tensor<2x2xf32>, tensor<2x4xf32>) -> tensor<2x6xf32>
  return %c : tensor<2x6xf32>
}

// -----

// A rotation of pairs by 2x2 matrices as a product and a sum over the last axis: the sum of two products. Their roundings stay.
// CHECK-LABEL: @sum_of_two_products
// CHECK: %[[T0:.*]] = dit.slice %arg0 offsets [0, 0, 0, 0] {{.*}} -> tensor<3x4x2x1xf32>
// CHECK: %[[X0:.*]] = dit.slice %arg1 offsets [0, 0, 0, 0] {{.*}} -> tensor<3x4x1x1xbf16>
// CHECK: %[[P0:.*]] = dit.map(%[[T0]], %[[X0]]) {{.*}} -> tensor<3x4x2x1xbf16>
// CHECK: %[[T1:.*]] = dit.slice %arg0 offsets [0, 0, 0, 1] {{.*}} -> tensor<3x4x2x1xf32>
// CHECK: %[[X1:.*]] = dit.slice %arg1 offsets [0, 0, 0, 1] {{.*}} -> tensor<3x4x1x1xbf16>
// CHECK: %[[P1:.*]] = dit.map(%[[T1]], %[[X1]]) {{.*}} -> tensor<3x4x2x1xbf16>
// CHECK: %[[S:.*]] = dit.map(%[[P0]], %[[P1]]) {{.*}} -> tensor<3x4x2x1xbf16>
// CHECK: arith.addf
// CHECK: return %[[S]]
func.func @sum_of_two_products(%t: tensor<3x4x2x2xf32>, %x: tensor<3x4x1x2xbf16>) -> tensor<3x4x2x1xbf16> {
  %p = dit.map(%t, %x) : (tensor<3x4x2x2xf32>, tensor<3x4x1x2xbf16>) -> tensor<3x4x2x2xbf16> {
  ^bb0(%a: f32, %b: f32):
    %m = arith.mulf %a, %b : f32
    dit.yield %m : f32
  }
  %s = dit.reduce sum %p axes [3] : (tensor<3x4x2x2xbf16>) -> tensor<3x4x2x1xbf16>
  return %s : tensor<3x4x2x1xbf16>
}

// -----

// A factor that is repeated along the axis is read whole by both; along other axes than the last it is the same.
// CHECK-LABEL: @sum_over_first_axis
// CHECK: %[[T0:.*]] = dit.slice %arg0 offsets [0, 0]
// CHECK: dit.map(%[[T0]], %arg1)
// CHECK: %[[T1:.*]] = dit.slice %arg0 offsets [1, 0]
// CHECK: dit.map(%[[T1]], %arg1)
// CHECK-NOT: dit.reduce
func.func @sum_over_first_axis(%t: tensor<2x4xf32>, %x: tensor<1x4xf32>) -> tensor<1x4xf32> {
  %p = dit.map(%t, %x) : (tensor<2x4xf32>, tensor<1x4xf32>) -> tensor<2x4xf32> {
  ^bb0(%a: f32, %b: f32):
    %m = arith.mulf %a, %b : f32
    dit.yield %m : f32
  }
  %s = dit.reduce sum %p axes [0] : (tensor<2x4xf32>) -> tensor<1x4xf32>
  return %s : tensor<1x4xf32>
}

// -----

// Sums that stay: of squares (a norm's), of more than two, and of a product that is read whole as well.
// CHECK-LABEL: @other_sums
// CHECK-COUNT-3: dit.reduce sum
func.func @other_sums(%x: tensor<4x2xf32>, %t: tensor<1x3xf32>, %y: tensor<4x3xf32>, %u: tensor<1x2xf32>) -> (tensor<4x1xf32>, tensor<4x1xf32>, tensor<4x1xf32>, tensor<4x2xf32>) {
  %p = dit.map(%x) : (tensor<4x2xf32>) -> tensor<4x2xf32> {
  ^bb0(%a: f32):
    %m = arith.mulf %a, %a : f32
    dit.yield %m : f32
  }
  %s = dit.reduce sum %p axes [1] : (tensor<4x2xf32>) -> tensor<4x1xf32>
  %q = dit.map(%t, %y) : (tensor<1x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32> {
  ^bb0(%a: f32, %b: f32):
    %m = arith.mulf %a, %b : f32
    dit.yield %m : f32
  }
  %r = dit.reduce sum %q axes [1] : (tensor<4x3xf32>) -> tensor<4x1xf32>
  %w = dit.map(%u, %x) : (tensor<1x2xf32>, tensor<4x2xf32>) -> tensor<4x2xf32> {
  ^bb0(%a: f32, %b: f32):
    %m = arith.mulf %a, %b : f32
    dit.yield %m : f32
  }
  %v = dit.reduce sum %w axes [1] : (tensor<4x2xf32>) -> tensor<4x1xf32>
  return %s, %r, %v, %w : tensor<4x1xf32>, tensor<4x1xf32>, tensor<4x1xf32>, tensor<4x2xf32>
}

// -----

// The operand that is used equals one in front of it, which is not.
// CHECK-LABEL: @repeated_behind_dead
// CHECK-NEXT: return %arg0
func.func @repeated_behind_dead(%x: tensor<4xi64>) -> tensor<4xi64> {
  %m = dit.map(%x, %x, %x) : (tensor<4xi64>, tensor<4xi64>, tensor<4xi64>) -> tensor<4xi64> {
  ^bb0(%a: i64, %b: i64, %c: i64):
    dit.yield %b : i64
  }
  return %m : tensor<4xi64>
}
