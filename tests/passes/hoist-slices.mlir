// RUN: ditc-opt %s --ditc-hoist-slices --split-input-file | FileCheck %s

// The queries of a joint product: columns 0 to 15, behind a cast.
// CHECK-LABEL: @unbind
// CHECK: %[[M:.*]] = dit.matmul
// CHECK: %[[Q:.*]] = dit.slice %[[M]] offsets [0, 0, 16] steps [1, 1, 1] : tensor<2x5x48xbf16> -> tensor<2x5x16xbf16>
// CHECK: %[[C:.*]] = dit.map(%[[Q]])
// CHECK: %[[V:.*]] = dit.view %[[C]] : tensor<2x5x16xf32> -> tensor<2x5x1x2x8xf32>
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

// -----

// Rows of a product that part behind it, each into maps of its own, are a product of each part.
// CHECK-LABEL: @streams
// CHECK-DAG: %[[T:.*]] = dit.slice %arg0 offsets [0, 0, 0] steps [1, 1, 1] : tensor<2x160x32xf32> -> tensor<2x64x32xf32>
// CHECK-DAG: %[[I:.*]] = dit.slice %arg0 offsets [0, 64, 0] steps [1, 1, 1] : tensor<2x160x32xf32> -> tensor<2x96x32xf32>
// CHECK-DAG: dit.matmul %[[T]], %arg1 bias %arg2 transpose_rhs
// CHECK-DAG: dit.matmul %[[I]], %arg1 bias %arg2 transpose_rhs
// CHECK-NOT: tensor<2x160x16xf32>
func.func @streams(%x: tensor<2x160x32xf32>, %w: tensor<16x32xf32>, %b: tensor<16xf32>, %text: tensor<2x64x16xf32>, %image: tensor<2x96x16xf32>) -> (tensor<2x64x16xf32>, tensor<2x96x16xf32>) {
  %m = dit.matmul %x, %w bias %b transpose_rhs : (tensor<2x160x32xf32>, tensor<16x32xf32>, tensor<16xf32>) -> tensor<2x160x16xf32>
  %t = dit.slice %m offsets [0, 0, 0] steps [1, 1, 1] : tensor<2x160x16xf32> -> tensor<2x64x16xf32>
  %i = dit.slice %m offsets [0, 64, 0] steps [1, 1, 1] : tensor<2x160x16xf32> -> tensor<2x96x16xf32>
  %u = dit.map(%text, %t) : (tensor<2x64x16xf32>, tensor<2x64x16xf32>) -> tensor<2x64x16xf32> {
  ^bb0(%p: f32, %q: f32):
    %r = arith.addf %p, %q : f32
    dit.yield %r : f32
  }
  %j = dit.map(%image, %i) : (tensor<2x96x16xf32>, tensor<2x96x16xf32>) -> tensor<2x96x16xf32> {
  ^bb0(%p: f32, %q: f32):
    %r = arith.addf %p, %q : f32
    dit.yield %r : f32
  }
  return %u, %j : tensor<2x64x16xf32>, tensor<2x96x16xf32>
}

// -----

// Parts that are put together again, that only views read, or that are few rows: one product.
// CHECK-LABEL: @one_stream
// CHECK: dit.matmul {{.*}} -> tensor<1x160x16xf32>
// CHECK-NOT: dit.matmul
// CHECK-LABEL: @few_rows
// CHECK: dit.matmul {{.*}} -> tensor<1x65x16xf32>
// CHECK-NOT: dit.matmul
func.func @one_stream(%x: tensor<1x160x32xf32>, %w: tensor<16x32xf32>) -> tensor<1x160x16xf32> {
  %m = dit.matmul %x, %w transpose_rhs : (tensor<1x160x32xf32>, tensor<16x32xf32>) -> tensor<1x160x16xf32>
  %t = dit.slice %m offsets [0, 0, 0] steps [1, 1, 1] : tensor<1x160x16xf32> -> tensor<1x64x16xf32>
  %i = dit.slice %m offsets [0, 64, 0] steps [1, 1, 1] : tensor<1x160x16xf32> -> tensor<1x96x16xf32>
  %c = dit.concat(%i, %t) axis 1 : (tensor<1x96x16xf32>, tensor<1x64x16xf32>) -> tensor<1x160x16xf32>
  return %c : tensor<1x160x16xf32>
}
func.func @few_rows(%x: tensor<1x65x32xf32>, %w: tensor<16x32xf32>) -> (tensor<1x1x16xf32>, tensor<1x64x16xf32>) {
  %m = dit.matmul %x, %w transpose_rhs : (tensor<1x65x32xf32>, tensor<16x32xf32>) -> tensor<1x65x16xf32>
  %t = dit.slice %m offsets [0, 0, 0] steps [1, 1, 1] : tensor<1x65x16xf32> -> tensor<1x1x16xf32>
  %i = dit.slice %m offsets [0, 1, 0] steps [1, 1, 1] : tensor<1x65x16xf32> -> tensor<1x64x16xf32>
  %u = dit.map(%t) : (tensor<1x1x16xf32>) -> tensor<1x1x16xf32> {
  ^bb0(%p: f32):
    %r = math.exp %p : f32
    dit.yield %r : f32
  }
  %j = dit.map(%i) : (tensor<1x64x16xf32>) -> tensor<1x64x16xf32> {
  ^bb0(%p: f32):
    %r = math.sin %p : f32
    dit.yield %r : f32
  }
  return %u, %j : tensor<1x1x16xf32>, tensor<1x64x16xf32>
}

// -----

// Columns that nobody reads are left out, by whole pieces of 64.
// CHECK-LABEL: @dead_columns
// CHECK-NEXT: %[[W:.*]] = dit.slice %arg1 offsets [64, 0] steps [1, 1] : tensor<256x32xf32> -> tensor<128x32xf32>
// CHECK-NEXT: %[[B:.*]] = dit.slice %arg2 offsets [64] steps [1] : tensor<256xf32> -> tensor<128xf32>
// CHECK-NEXT: %[[M:.*]] = dit.matmul %arg0, %[[W]] bias %[[B]] transpose_rhs
// CHECK-DAG: %[[S:.*]] = dit.slice %[[M]] offsets [0, 36] steps [1, 1] : tensor<80x128xf32> -> tensor<80x30xf32>
// CHECK-DAG: %[[T:.*]] = dit.slice %[[M]] offsets [0, 26] steps [1, 2] : tensor<80x128xf32> -> tensor<80x30xf32>
// CHECK: return %[[S]], %[[T]]
func.func @dead_columns(%x: tensor<80x32xf32>, %w: tensor<256x32xf32>, %b: tensor<256xf32>) -> (tensor<80x30xf32>, tensor<80x30xf32>) {
  %m = dit.matmul %x, %w bias %b transpose_rhs : (tensor<80x32xf32>, tensor<256x32xf32>, tensor<256xf32>) -> tensor<80x256xf32>
  %s = dit.slice %m offsets [0, 100] steps [1, 1] : tensor<80x256xf32> -> tensor<80x30xf32>
  %t = dit.slice %m offsets [0, 90] steps [1, 2] : tensor<80x256xf32> -> tensor<80x30xf32>
  return %s, %t : tensor<80x30xf32>, tensor<80x30xf32>
}

// -----

// Behind maps as well.
// CHECK-LABEL: @dead_columns_of_map
// CHECK-DAG: %[[W:.*]] = dit.slice %arg1 offsets [0, 0] steps [1, 1] : tensor<256x32xf32> -> tensor<128x32xf32>
// CHECK-DAG: %[[X:.*]] = dit.slice %arg2 offsets [0, 0] steps [1, 1] : tensor<80x256xf32> -> tensor<80x128xf32>
// CHECK-DAG: %[[M:.*]] = dit.matmul %arg0, %[[W]] transpose_rhs
// CHECK: %[[R:.*]] = dit.map(%[[X]], %[[M]], %arg3)
// CHECK: return %[[R]]
func.func @dead_columns_of_map(%x: tensor<80x32xf32>, %w: tensor<256x32xf32>, %r: tensor<80x256xf32>, %g: tensor<80x1xf32>) -> tensor<80x128xf32> {
  %m = dit.matmul %x, %w transpose_rhs : (tensor<80x32xf32>, tensor<256x32xf32>) -> tensor<80x256xf32>
  %a = dit.map(%r, %m, %g) : (tensor<80x256xf32>, tensor<80x256xf32>, tensor<80x1xf32>) -> tensor<80x256xf32> {
  ^bb0(%p: f32, %q: f32, %h: f32):
    %t = arith.mulf %q, %h : f32
    %u = arith.addf %p, %t : f32
    dit.yield %u : f32
  }
  %s = dit.slice %a offsets [0, 0] steps [1, 1] : tensor<80x256xf32> -> tensor<80x128xf32>
  return %s : tensor<80x128xf32>
}

// -----

// Of few rows, what is alike stays so.
// CHECK-LABEL: @modulation
// CHECK-NEXT: dit.matmul {{.*}} -> tensor<2x256xf32>
func.func @modulation(%x: tensor<2x32xf32>, %w: tensor<256x32xf32>) -> tensor<2x64xf32> {
  %m = dit.matmul %x, %w transpose_rhs : (tensor<2x32xf32>, tensor<256x32xf32>) -> tensor<2x256xf32>
  %s = dit.slice %m offsets [0, 64] steps [1, 1] : tensor<2x256xf32> -> tensor<2x64xf32>
  return %s : tensor<2x64xf32>
}
