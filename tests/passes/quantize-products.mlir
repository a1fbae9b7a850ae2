// RUN: ditc-opt %s --ditc-quantize-products --split-input-file | FileCheck %s

// Queries, keys and values share their input, which is quantised once; a bias is added behind the scales.
// CHECK-LABEL: func.func @shared
// CHECK-DAG: %[[WQ:.*]] = dit.weight "q"
// CHECK-DAG: %[[WK:.*]] = dit.weight "k"
// CHECK: %[[SX:.*]] = dit.map({{.*}}) : (tensor<1x4096x1xf32>) -> tensor<1x4096x1xf32>
// CHECK: %[[XQ:.*]] = dit.map(%arg0, {{.*}}) : (tensor<1x4096x3072xbf16>, tensor<1x4096x1xf32>) -> tensor<1x4096x3072xf8E4M3FN>
// CHECK: %[[SQ:.*]] = dit.map({{.*}}) : (tensor<3072x1xf32>) -> tensor<3072x1xf32>
// CHECK: %[[QQ:.*]] = dit.map(%[[WQ]], {{.*}}) : (tensor<3072x3072xbf16>, tensor<3072x1xf32>) -> tensor<3072x3072xf8E4M3FN>
// CHECK: %[[P:.*]] = dit.matmul %[[XQ]], %[[QQ]] transpose_rhs : (tensor<1x4096x3072xf8E4M3FN>, tensor<3072x3072xf8E4M3FN>) -> tensor<1x4096x3072xf32>
// CHECK: %[[SV:.*]] = dit.view %[[SQ]] : tensor<3072x1xf32> -> tensor<1x1x3072xf32>
// CHECK: %[[BV:.*]] = dit.view %{{.*}} : tensor<3072xbf16> -> tensor<1x1x3072xbf16>
// CHECK: dit.map(%[[P]], %[[SX]], %[[SV]], %[[BV]]) {{.*}} -> tensor<1x4096x3072xbf16>
// CHECK-NEXT: ^bb0(%[[A:.*]]: f32, %[[B:.*]]: f32, %[[C:.*]]: f32, %[[D:.*]]: f32):
// CHECK-NEXT: %[[AB:.*]] = arith.mulf %[[A]], %[[B]]
// CHECK-NEXT: %[[ABC:.*]] = arith.mulf %[[AB]], %[[C]]
// CHECK-NEXT: arith.addf %[[ABC]], %[[D]]
// CHECK: %[[QK:.*]] = dit.map(%[[WK]], {{.*}}) -> tensor<3072x3072xf8E4M3FN>
// CHECK: dit.matmul %[[XQ]], %[[QK]] transpose_rhs
// CHECK: dit.map(%{{.*}}, %[[SX]], %{{.*}}) : (tensor<1x4096x3072xf32>, tensor<1x4096x1xf32>, tensor<1x1x3072xf32>) -> tensor<1x4096x3072xbf16>
func.func @shared(%x: tensor<1x4096x3072xbf16>) -> (tensor<1x4096x3072xbf16>, tensor<1x4096x3072xbf16>) {
  %wq = dit.weight "q" : tensor<3072x3072xbf16>
  %wk = dit.weight "k" : tensor<3072x3072xbf16>
  %b = dit.weight "b" : tensor<3072xbf16>
  %q = dit.matmul %x, %wq bias %b transpose_rhs : (tensor<1x4096x3072xbf16>, tensor<3072x3072xbf16>, tensor<3072xbf16>) -> tensor<1x4096x3072xbf16> loc("linear"("attn.to_q"))
  %k = dit.matmul %x, %wk transpose_rhs : (tensor<1x4096x3072xbf16>, tensor<3072x3072xbf16>) -> tensor<1x4096x3072xbf16>
  return %q, %k : tensor<1x4096x3072xbf16>, tensor<1x4096x3072xbf16>
}

// -----

// A concat of ranges of K is one input; f16; a weight that lies by columns, as a part of a larger one.
// CHECK-LABEL: func.func @concat
// CHECK: %[[C:.*]] = dit.concat(%arg0, %arg1) axis 1
// CHECK: dit.map(%[[C]]) : (tensor<4096x15360xf16>) -> tensor<4096x15360xf16>
// CHECK: dit.map(%[[C]], %{{.*}}) : (tensor<4096x15360xf16>, tensor<4096x1xf32>) -> tensor<4096x15360xf8E4M3FN>
// CHECK: dit.permute %{{.*}} [1, 0] : tensor<15360x3072xf16> -> tensor<3072x15360xf16>
// CHECK: dit.matmul {{.*}} transpose_rhs : (tensor<4096x15360xf8E4M3FN>, tensor<3072x15360xf8E4M3FN>) -> tensor<4096x3072xf32>
// CHECK: -> tensor<4096x3072xf16>
func.func @concat(%a: tensor<4096x3072xf16>, %m: tensor<4096x12288xf16>) -> tensor<4096x3072xf16> {
  %whole = dit.weight "w" : tensor<15360x6144xf16>
  %w = dit.slice %whole offsets [0, 3072] steps [1, 1] : tensor<15360x6144xf16> -> tensor<15360x3072xf16>
  %c = dit.concat(%a, %m) axis 1 : (tensor<4096x3072xf16>, tensor<4096x12288xf16>) -> tensor<4096x15360xf16>
  %y = dit.matmul %c, %w : (tensor<4096x15360xf16>, tensor<15360x3072xf16>) -> tensor<4096x3072xf16>
  return %y : tensor<4096x3072xf16>
}

// -----

// Parts of the columns stay parts of the product, each with its part of the scales and of the bias.
// CHECK-LABEL: func.func @parts
// CHECK: %[[P:.*]] = dit.matmul {{.*}} -> tensor<4096x6144xf32>
// CHECK: %[[G:.*]] = dit.slice %[[P]] offsets [0, 0] steps [1, 1] : tensor<4096x6144xf32> -> tensor<4096x3072xf32>
// CHECK: dit.map(%[[G]], {{.*}}) : (tensor<4096x3072xf32>, tensor<4096x1xf32>, tensor<1x3072xf32>, tensor<1x3072xbf16>) -> tensor<4096x3072xbf16>
// CHECK: %[[U:.*]] = dit.slice %[[P]] offsets [0, 3072] steps [1, 1] : tensor<4096x6144xf32> -> tensor<4096x3072xf32>
// CHECK-NOT: -> tensor<4096x6144xbf16>
// CHECK: return
func.func @parts(%x: tensor<4096x3072xbf16>) -> (tensor<4096x3072xbf16>, tensor<4096x3072xbf16>) {
  %w = dit.weight "w" : tensor<6144x3072xbf16>
  %b = dit.weight "b" : tensor<6144xbf16>
  %y = dit.matmul %x, %w bias %b transpose_rhs : (tensor<4096x3072xbf16>, tensor<6144x3072xbf16>, tensor<6144xbf16>) -> tensor<4096x6144xbf16>
  %g = dit.slice %y offsets [0, 0] steps [1, 1] : tensor<4096x6144xbf16> -> tensor<4096x3072xbf16>
  %u = dit.slice %y offsets [0, 3072] steps [1, 1] : tensor<4096x6144xbf16> -> tensor<4096x3072xbf16>
  return %g, %u : tensor<4096x3072xbf16>, tensor<4096x3072xbf16>
}

// -----

// 128 rows of a text alone would not be worth it; beside an image with weights of the same shape they are one launch.
// CHECK-LABEL: func.func @streams
// CHECK: dit.matmul {{.*}} -> tensor<4096x3072xf32>
// CHECK: dit.matmul {{.*}} -> tensor<128x3072xf32>
func.func @streams(%x: tensor<4096x3072xbf16>, %t: tensor<128x3072xbf16>) -> (tensor<4096x3072xbf16>, tensor<128x3072xbf16>) {
  %w = dit.weight "w" : tensor<3072x3072xbf16>
  %v = dit.weight "v" : tensor<3072x3072xbf16>
  %y = dit.matmul %x, %w transpose_rhs : (tensor<4096x3072xbf16>, tensor<3072x3072xbf16>) -> tensor<4096x3072xbf16>
  %z = dit.matmul %t, %v transpose_rhs : (tensor<128x3072xbf16>, tensor<3072x3072xbf16>) -> tensor<128x3072xbf16>
  return %y, %z : tensor<4096x3072xbf16>, tensor<128x3072xbf16>
}

// -----

// Read as columns and as a whole: both are scaled, the whole in front of all that reads it.
// CHECK-LABEL: func.func @part_and_whole
// CHECK: %[[P:.*]] = dit.matmul {{.*}} -> tensor<4096x6144xf32>
// CHECK-DAG: dit.map(%[[P]], {{.*}} -> tensor<4096x6144xbf16>
// CHECK-DAG: dit.slice %[[P]] offsets [0, 0]
// CHECK: return
func.func @part_and_whole(%x: tensor<4096x3072xbf16>) -> (tensor<4096x6144xbf16>, tensor<4096x3072xbf16>, tensor<4096x6144xbf16>) {
  %w = dit.weight "w" : tensor<6144x3072xbf16>
  %y = dit.matmul %x, %w transpose_rhs : (tensor<4096x3072xbf16>, tensor<6144x3072xbf16>) -> tensor<4096x6144xbf16>
  %n = dit.map(%y) : (tensor<4096x6144xbf16>) -> tensor<4096x6144xbf16> {
  ^bb0(%p: f32):
    %q = arith.negf %p : f32
    dit.yield %q : f32
  }
  %g = dit.slice %y offsets [0, 0] steps [1, 1] : tensor<4096x6144xbf16> -> tensor<4096x3072xbf16>
  return %y, %g, %n : tensor<4096x6144xbf16>, tensor<4096x3072xbf16>, tensor<4096x6144xbf16>
}
