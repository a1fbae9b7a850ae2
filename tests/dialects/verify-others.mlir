// RUN: ditc-opt %s --split-input-file --verify-diagnostics

func.func @norm(%x: tensor<4x8xf32>, %w: tensor<4xf32>) -> tensor<4x8xf32> {
  // expected-error @+1 {{weight or bias has shape [4], expected [8]}}
  %y = dit.norm layer %x weight %w axes 1 eps 1.0e-5 : (tensor<4x8xf32>, tensor<4xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

func.func @reduce(%x: tensor<4x8xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{has shape [4], expected [4, 1]}}
  %y = dit.reduce sum %x axes [1] : (tensor<4x8xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

func.func @any(%x: tensor<4xf32>) -> tensor<1xi1> {
  // expected-error @+1 {{any and all reduce i1 only}}
  %y = dit.reduce any %x axes [0] : (tensor<4xf32>) -> tensor<1xi1>
  return %y : tensor<1xi1>
}

// -----

func.func @gather(%x: tensor<4x8xf32>, %i: tensor<3xi64>) -> tensor<3x7xf32> {
  // expected-error @+1 {{has shape [3, 7], expected [3, 8]}}
  %y = dit.gather %x[%i] axis 0 : (tensor<4x8xf32>, tensor<3xi64>) -> tensor<3x7xf32>
  return %y : tensor<3x7xf32>
}

// -----

func.func @scatter(%x: tensor<4x8xf32>, %i: tensor<3xi64>, %u: tensor<2x8xf32>) -> tensor<4x8xf32> {
  // expected-error @+1 {{shapes do not fit}}
  %y = dit.scatter %x[%i], %u : (tensor<4x8xf32>, tensor<3xi64>, tensor<2x8xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

func.func @arg(%x: tensor<4xf32>) -> tensor<1xi64> {
  // expected-error @+1 {{finds max or min only}}
  %y = dit.arg_reduce sum %x axis 0 : (tensor<4xf32>) -> tensor<1xi64>
  return %y : tensor<1xi64>
}

// -----

func.func @axis(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{axis 1 is outside rank 1}}
  %y = dit.scan sum %x axis 1 : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
