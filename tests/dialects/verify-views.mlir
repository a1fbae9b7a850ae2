// RUN: ditc-opt %s --split-input-file --verify-diagnostics

func.func @view(%x: tensor<4x3xf32>) -> tensor<5xf32> {
  // expected-error @+1 {{changes the number of elements: [4, 3] to [5]}}
  %y = dit.view %x : tensor<4x3xf32> -> tensor<5xf32>
  return %y : tensor<5xf32>
}

// -----

func.func @permute(%x: tensor<4x3xf32>) -> tensor<4x3xf32> {
  // expected-error @+1 {{is not a permutation}}
  %y = dit.permute %x [0, 0] : tensor<4x3xf32> -> tensor<4x3xf32>
  return %y : tensor<4x3xf32>
}

// -----

func.func @slice(%x: tensor<4xf32>) -> tensor<3xf32> {
  // expected-error @+1 {{reads past dimension 0 of size 4}}
  %y = dit.slice %x offsets [2] steps [1] : tensor<4xf32> -> tensor<3xf32>
  return %y : tensor<3xf32>
}

// -----

func.func @concat(%x: tensor<4xf32>, %y: tensor<3xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{operands add up to 7 along axis 0, the result has 8}}
  %z = dit.concat(%x, %y) axis 0 : (tensor<4xf32>, tensor<3xf32>) -> tensor<8xf32>
  return %z : tensor<8xf32>
}

// -----

func.func @expand(%x: tensor<4x3xf32>) -> tensor<8x3xf32> {
  // expected-error @+1 {{[4, 3] does not broadcast to [8, 3]}}
  %y = dit.expand %x : tensor<4x3xf32> -> tensor<8x3xf32>
  return %y : tensor<8x3xf32>
}

// -----

func.func @pad(%x: tensor<4xf32>) -> tensor<6xf32> {
  // expected-error @+1 {{value is 'i64', elements are 'f32'}}
  %y = dit.pad %x low [1] high [1] value 0 : i64 : tensor<4xf32> -> tensor<6xf32>
  return %y : tensor<6xf32>
}
