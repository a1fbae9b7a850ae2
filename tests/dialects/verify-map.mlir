// RUN: ditc-opt %s --split-input-file --verify-diagnostics

func.func @rank(%x: tensor<4xf32>) -> tensor<2x4xf32> {
  // expected-error @+1 {{operand 0 has rank 1, the result 2}}
  %y = dit.map(%x) : (tensor<4xf32>) -> tensor<2x4xf32> {
  ^bb0(%a: f32):
    dit.yield %a : f32
  }
  return %y : tensor<2x4xf32>
}

// -----

func.func @broadcast(%x: tensor<3xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{operand 0 of shape [3] does not broadcast to [4]}}
  %y = dit.map(%x) : (tensor<3xf32>) -> tensor<4xf32> {
  ^bb0(%a: f32):
    dit.yield %a : f32
  }
  return %y : tensor<4xf32>
}

// -----

func.func @compute_type(%x: tensor<4xbf16>) -> tensor<4xbf16> {
  // expected-error @+1 {{body argument 0 is 'bf16', expected 'f32'}}
  %y = dit.map(%x) : (tensor<4xbf16>) -> tensor<4xbf16> {
  ^bb0(%a: bf16):
    %b = arith.extf %a : bf16 to f32
    dit.yield %b : f32
  }
  return %y : tensor<4xbf16>
}

// -----

func.func @yield_type(%x: tensor<4xi32>) -> tensor<4xf32> {
  // expected-error @+1 {{yields 'i64', expected 'f32'}}
  %y = dit.map(%x) : (tensor<4xi32>) -> tensor<4xf32> {
  ^bb0(%a: i64):
    dit.yield %a : i64
  }
  return %y : tensor<4xf32>
}

// -----

func.func @operand_count(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{has 1 operands but its body takes 2}}
  %y = dit.map(%x) : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: f32, %b: f32):
    dit.yield %a : f32
  }
  return %y : tensor<4xf32>
}
