// RUN: ditc-opt --ditc-group-kernels %s | FileCheck %s

// Products of two merged kernels whose operations interleave: a path back through a merged kernel is a cycle
// wherever its operations stand in the program.
// CHECK: dit.fusion "gemm"
module {
  func.func @default(%arg0: tensor<2x8x11xf32> {dit.name = "q"}, %arg1: tensor<2x8x11xf32> {dit.name = "k"}, %arg2: tensor<2x8x11xf32> {dit.name = "v"}) -> (tensor<2x7x11xf32> {dit.name = "output.0"}, tensor<2x8x11xf32> {dit.name = "output.1"}) {
    %0 = dit.matmul %arg2, %arg1 transpose_rhs : (tensor<2x8x11xf32>, tensor<2x8x11xf32>) -> tensor<2x8x8xf32>
    %1 = dit.matmul %0, %arg0 : (tensor<2x8x8xf32>, tensor<2x8x11xf32>) -> tensor<2x8x11xf32>
    %2 = dit.slice %1 offsets [0, 0, 0] steps [1, 1, 1] : tensor<2x8x11xf32> -> tensor<2x7x11xf32>
    %3 = dit.slice %1 offsets [0, 7, 0] steps [1, 1, 1] : tensor<2x8x11xf32> -> tensor<2x1x11xf32>
    %4 = dit.map(%2, %3) : (tensor<2x7x11xf32>, tensor<2x1x11xf32>) -> tensor<2x7x11xf32> {
    ^bb0(%arg3: f32, %arg4: f32):
      %16 = arith.divf %arg3, %arg4 : f32
      dit.yield %16 : f32
    }
    %5 = dit.reduce  max %arg1 axes [2] : (tensor<2x8x11xf32>) -> tensor<2x8x1xf32>
    %6 = dit.map(%arg1, %5) : (tensor<2x8x11xf32>, tensor<2x8x1xf32>) -> tensor<2x8x11xf32> {
    ^bb0(%arg3: f32, %arg4: f32):
      %16 = arith.subf %arg3, %arg4 : f32
      %17 = math.exp %16 : f32
      dit.yield %17 : f32
    }
    %7 = dit.reduce  sum %6 axes [2] : (tensor<2x8x11xf32>) -> tensor<2x8x1xf32>
    %8 = dit.map(%6, %7) : (tensor<2x8x11xf32>, tensor<2x8x1xf32>) -> tensor<2x8x11xf32> {
    ^bb0(%arg3: f32, %arg4: f32):
      %16 = arith.divf %arg3, %arg4 : f32
      dit.yield %16 : f32
    }
    %9 = dit.matmul %8, %arg2 transpose_rhs : (tensor<2x8x11xf32>, tensor<2x8x11xf32>) -> tensor<2x8x8xf32>
    %10 = dit.permute %9 [0, 2, 1] : tensor<2x8x8xf32> -> tensor<2x8x8xf32>
    %11 = dit.reduce  max %arg0 axes [1] : (tensor<2x8x11xf32>) -> tensor<2x1x11xf32>
    %12 = dit.map(%arg0, %11) : (tensor<2x8x11xf32>, tensor<2x1x11xf32>) -> tensor<2x8x11xf32> {
    ^bb0(%arg3: f32, %arg4: f32):
      %16 = arith.subf %arg3, %arg4 : f32
      %17 = math.exp %16 : f32
      dit.yield %17 : f32
    }
    %13 = dit.reduce  sum %12 axes [1] : (tensor<2x8x11xf32>) -> tensor<2x1x11xf32>
    %14 = dit.map(%12, %13) : (tensor<2x8x11xf32>, tensor<2x1x11xf32>) -> tensor<2x8x11xf32> {
    ^bb0(%arg3: f32, %arg4: f32):
      %16 = arith.divf %arg3, %arg4 : f32
      dit.yield %16 : f32
    }
    %15 = dit.matmul %10, %14 : (tensor<2x8x8xf32>, tensor<2x8x11xf32>) -> tensor<2x8x11xf32>
    return %4, %15 : tensor<2x7x11xf32>, tensor<2x8x11xf32>
  }
}

