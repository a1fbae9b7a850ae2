// RUN: ditc-opt %s --ditc-hoist-slices --split-input-file | FileCheck %s

// The queries of a joint product: columns 0 to 15, behind a cast.
// CHECK-LABEL: @unbind
// CHECK: %[[M:.*]] = dit.matmul
// CHECK: %[[C:.*]] = dit.map(%[[M]])
// CHECK: %[[Q:.*]] = dit.slice %[[C]] offsets [0, 0, 16] steps [1, 1, 1] : tensor<2x5x48xf32> -> tensor<2x5x16xf32>
// CHECK: %[[V:.*]] = dit.view %[[Q]] : tensor<2x5x16xf32> -> tensor<2x5x1x2x8xf32>
// CHECK: %[[P:.*]] = dit.permute %[[V]] [2, 0, 3, 1, 4]
// CHECK: return %[[P]]
func.func @unbind(%x: tensor<2x5x16xbf16>, %w: tensor<48x16xbf16>) -> tensor<1x2x2x5x8xf32> {
  %m = dit.matmul %x, %w transpose_rhs : (tensor<2x5x16xbf16>, tensor<48x16xbf16>) -> tensor<2x5x48xbf16>
  %c = dit.map(%m) : (tensor<2x5x48xbf16>) -> tensor<2x5x48xf32> {
  ^bb0(%a: f32):
    dit.yield %a : f32
  }
  %v = dit.view %c : tensor<2x5x48xf32> -> tensor<2x5x3x2x8xf32>
  %p = dit.permute %v [2, 0, 3, 1, 4] : tensor<2x5x3x2x8xf32> -> tensor<3x2x2x5x8xf32>
  %s = dit.slice %p offsets [1, 0, 0, 0, 0] steps [1, 1, 1, 1, 1] : tensor<3x2x2x5x8xf32> -> tensor<1x2x2x5x8xf32>
  return %s : tensor<1x2x2x5x8xf32>
}

// -----

// Heads outside, Q, K and V inside: no range of columns.
// CHECK-LABEL: @inner_dimension
// CHECK-NEXT: dit.matmul
// CHECK-NEXT: dit.view
// CHECK-NEXT: dit.slice
func.func @inner_dimension(%x: tensor<5x16xf32>, %w: tensor<48x16xf32>) -> tensor<5x2x1x8xf32> {
  %m = dit.matmul %x, %w transpose_rhs : (tensor<5x16xf32>, tensor<48x16xf32>) -> tensor<5x48xf32>
  %v = dit.view %m : tensor<5x48xf32> -> tensor<5x2x3x8xf32>
  %s = dit.slice %v offsets [0, 0, 1, 0] steps [1, 1, 1, 1] : tensor<5x2x3x8xf32> -> tensor<5x2x1x8xf32>
  return %s : tensor<5x2x1x8xf32>
}

// -----

// Heads of columns move, tokens stay.
// CHECK-LABEL: @rows
// CHECK-NEXT: dit.matmul
// CHECK-NEXT: %[[S:.*]] = dit.slice %{{.*}} offsets [0, 8] steps [1, 1] : tensor<6x24xf32> -> tensor<6x16xf32>
// CHECK-NEXT: %[[V:.*]] = dit.view %[[S]] : tensor<6x16xf32> -> tensor<6x2x8xf32>
// CHECK-NEXT: %[[P:.*]] = dit.permute %[[V]] [1, 0, 2]
// CHECK-NEXT: dit.slice %[[P]] offsets [0, 3, 0] steps [1, 2, 1] : tensor<2x6x8xf32> -> tensor<2x2x8xf32>
func.func @rows(%x: tensor<6x16xf32>, %w: tensor<24x16xf32>) -> tensor<2x2x8xf32> {
  %m = dit.matmul %x, %w transpose_rhs : (tensor<6x16xf32>, tensor<24x16xf32>) -> tensor<6x24xf32>
  %v = dit.view %m : tensor<6x24xf32> -> tensor<6x3x8xf32>
  %p = dit.permute %v [1, 0, 2] : tensor<6x3x8xf32> -> tensor<3x6x8xf32>
  %s = dit.slice %p offsets [1, 3, 0] steps [1, 2, 1] : tensor<3x6x8xf32> -> tensor<2x2x8xf32>
  return %s : tensor<2x2x8xf32>
}

// -----

// What attention stores is for all of its tokens.
// CHECK-LABEL: @no_product
// CHECK-NEXT: dit.permute
// CHECK-NEXT: dit.slice
func.func @no_product(%x: tensor<4x6x8xf32>) -> tensor<3x4x8xf32> {
  %p = dit.permute %x [1, 0, 2] : tensor<4x6x8xf32> -> tensor<6x4x8xf32>
  %s = dit.slice %p offsets [0, 0, 0] steps [1, 1, 1] : tensor<6x4x8xf32> -> tensor<3x4x8xf32>
  return %s : tensor<3x4x8xf32>
}

// -----

// Packed text: attention on tokens that are there, padded and cut into image and text again. The image's are what attention
// stored; the text's are padded alone.
// CHECK-LABEL: @padded
// CHECK-NEXT: %[[P:.*]] = dit.permute %arg0 [1, 0, 2] : tensor<2x60x8xf32> -> tensor<60x2x8xf32>
// CHECK-NEXT: %[[V:.*]] = dit.view %[[P]] : tensor<60x2x8xf32> -> tensor<60x16xf32>
// CHECK-NEXT: %[[I:.*]] = dit.slice %[[V]] offsets [0, 0] steps [1, 1] : tensor<60x16xf32> -> tensor<50x16xf32>
// CHECK-NEXT: %[[T:.*]] = dit.slice %[[V]] offsets [50, 0] steps [1, 1] : tensor<60x16xf32> -> tensor<10x16xf32>
// CHECK-NEXT: %[[U:.*]] = dit.pad %[[T]] low [0, 0] high [6, 0] {{.*}} -> tensor<16x16xf32>
// CHECK-NEXT: return %[[I]], %[[U]]
func.func @padded(%x: tensor<2x60x8xf32>) -> (tensor<50x16xf32>, tensor<16x16xf32>) {
  %p = dit.pad %x low [0, 0, 0] high [0, 6, 0] value 0.0 : f32 : tensor<2x60x8xf32> -> tensor<2x66x8xf32>
  %t = dit.permute %p [1, 0, 2] : tensor<2x66x8xf32> -> tensor<66x2x8xf32>
  %v = dit.view %t : tensor<66x2x8xf32> -> tensor<66x16xf32>
  %i = dit.slice %v offsets [0, 0] steps [1, 1] : tensor<66x16xf32> -> tensor<50x16xf32>
  %u = dit.slice %v offsets [50, 0] steps [1, 1] : tensor<66x16xf32> -> tensor<16x16xf32>
  return %i, %u : tensor<50x16xf32>, tensor<16x16xf32>
}

// -----

// Read whole as well, it stays padded where it is; so it does where a view mixes the border with what is inside.
// CHECK-LABEL: @whole
// CHECK-NEXT: dit.pad
// CHECK-NEXT: dit.permute
// CHECK-NEXT: dit.slice
func.func @whole(%x: tensor<4x6xf32>) -> (tensor<5x4xf32>, tensor<8x4xf32>) {
  %p = dit.pad %x low [0, 0] high [0, 2] value 0.0 : f32 : tensor<4x6xf32> -> tensor<4x8xf32>
  %t = dit.permute %p [1, 0] : tensor<4x8xf32> -> tensor<8x4xf32>
  %s = dit.slice %t offsets [0, 0] steps [1, 1] : tensor<8x4xf32> -> tensor<5x4xf32>
  return %s, %t : tensor<5x4xf32>, tensor<8x4xf32>
}

// -----

// CHECK-LABEL: @mixed
// CHECK-NEXT: dit.pad
// CHECK-NEXT: dit.view
// CHECK-NEXT: dit.slice
func.func @mixed(%x: tensor<4x6xf32>) -> tensor<16xf32> {
  %p = dit.pad %x low [0, 0] high [0, 2] value 0.0 : f32 : tensor<4x6xf32> -> tensor<4x8xf32>
  %v = dit.view %p : tensor<4x8xf32> -> tensor<32xf32>
  %s = dit.slice %v offsets [0] steps [1] : tensor<32xf32> -> tensor<16xf32>
  return %s : tensor<16xf32>
}
