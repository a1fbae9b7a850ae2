// RUN: ditc-opt %s --split-input-file --verify-diagnostics

func.func @contract(%a: tensor<4x8xf32>, %b: tensor<7x3xf32>) -> tensor<4x3xf32> {
  // expected-error @+1 {{contracts 8 with 7}}
  %y = dit.matmul %a, %b : (tensor<4x8xf32>, tensor<7x3xf32>) -> tensor<4x3xf32>
  return %y : tensor<4x3xf32>
}

// -----

func.func @batch(%a: tensor<2x4x8xf32>, %b: tensor<3x8x3xf32>) -> tensor<2x4x3xf32> {
  // expected-error @+1 {{batch dimension 0 differs: 2 and 3}}
  %y = dit.matmul %a, %b : (tensor<2x4x8xf32>, tensor<3x8x3xf32>) -> tensor<2x4x3xf32>
  return %y : tensor<2x4x3xf32>
}

// -----

func.func @bias(%a: tensor<4x8xf32>, %b: tensor<3x8xf32>, %c: tensor<4xf32>) -> tensor<4x3xf32> {
  // expected-error @+1 {{bias has shape [4], expected [3]}}
  %y = dit.matmul %a, %b bias %c transpose_rhs : (tensor<4x8xf32>, tensor<3x8xf32>, tensor<4xf32>) -> tensor<4x3xf32>
  return %y : tensor<4x3xf32>
}

// -----

func.func @heads(%q: tensor<1x6x8x16xf32>, %k: tensor<1x4x8x16xf32>) -> tensor<1x6x8x16xf32> {
  // expected-error @+1 {{shapes do not fit}}
  %y = dit.attention %q, %k, %k scale 1.0 : (tensor<1x6x8x16xf32>, tensor<1x4x8x16xf32>, tensor<1x4x8x16xf32>) -> tensor<1x6x8x16xf32>
  return %y : tensor<1x6x8x16xf32>
}

// -----

func.func @mask(%q: tensor<1x4x8x16xf32>, %m: tensor<1x1x3x8xi1>) -> tensor<1x4x8x16xf32> {
  // expected-error @+1 {{mask of shape [1, 1, 3, 8] does not broadcast to [1, 4, 8, 8]}}
  %y = dit.attention %q, %q, %q mask %m scale 1.0 : (tensor<1x4x8x16xf32>, tensor<1x4x8x16xf32>, tensor<1x4x8x16xf32>, tensor<1x1x3x8xi1>) -> tensor<1x4x8x16xf32>
  return %y : tensor<1x4x8x16xf32>
}

// -----

func.func @window(%q: tensor<1x4x8x16xf32>) -> tensor<1x4x8x16xf32> {
  // expected-error @+1 {{window must be two numbers of keys, before and after a query's own}}
  %y = dit.attention %q, %q, %q window [3] scale 1.0 : (tensor<1x4x8x16xf32>, tensor<1x4x8x16xf32>, tensor<1x4x8x16xf32>) -> tensor<1x4x8x16xf32>
  return %y : tensor<1x4x8x16xf32>
}

// -----

func.func @soft_cap(%q: tensor<1x4x8x16xf32>) -> tensor<1x4x8x16xf32> {
  // expected-error @+1 {{soft cap must be above 0}}
  %y = dit.attention %q, %q, %q scale 1.0 soft_cap 0.0 : (tensor<1x4x8x16xf32>, tensor<1x4x8x16xf32>, tensor<1x4x8x16xf32>) -> tensor<1x4x8x16xf32>
  return %y : tensor<1x4x8x16xf32>
}

// -----

func.func @quantized(%q: tensor<1x4x8x16xf32>) -> tensor<1x4x8x16xf32> {
  // expected-error @+1 {{quantized needs bf16 or f16 operands, not 'f32'}}
  %y = dit.attention %q, %q, %q scale 1.0 quantized : (tensor<1x4x8x16xf32>, tensor<1x4x8x16xf32>, tensor<1x4x8x16xf32>) -> tensor<1x4x8x16xf32>
  return %y : tensor<1x4x8x16xf32>
}

// -----

func.func @quantized_head(%q: tensor<1x4x8x16xbf16>, %v: tensor<1x4x8x320xbf16>) -> tensor<1x4x8x320xbf16> {
  // expected-error @+1 {{quantized takes heads of up to 248 channels, not 320}}
  %y = dit.attention %q, %q, %v scale 1.0 soft_cap 30.0 quantized : (tensor<1x4x8x16xbf16>, tensor<1x4x8x16xbf16>, tensor<1x4x8x320xbf16>) -> tensor<1x4x8x320xbf16>
  return %y : tensor<1x4x8x320xbf16>
}

// -----

func.func @channels(%x: tensor<1x6x8x8xf32>, %w: tensor<4x6x3x3xf32>) -> tensor<1x4x6x6xf32> {
  // expected-error @+1 {{channels do not fit: input 6, filter 6, groups 2}}
  %y = dit.conv %x, %w {strides = array<i64: 1, 1>, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>, dilations = array<i64: 1, 1>, groups = 2 : i64} : (tensor<1x6x8x8xf32>, tensor<4x6x3x3xf32>) -> tensor<1x4x6x6xf32>
  return %y : tensor<1x4x6x6xf32>
}

// -----

func.func @types(%a: tensor<4x8xf32>, %b: tensor<8x3xf32>) -> tensor<4x3xi64> {
  // expected-error @+1 {{multiplies 'f32' into 'i64'}}
  %y = dit.matmul %a, %b : (tensor<4x8xf32>, tensor<8x3xf32>) -> tensor<4x3xi64>
  return %y : tensor<4x3xi64>
}

// -----

func.func @linear_parts(%k: tensor<1x2x10x4xbf16>) -> tensor<3x1x2x4x4xf32> {
  // expected-error@+1 {{cannot cut 10 tokens into 3 equal parts}}
  %s = dit.linear_state %k, %k : (tensor<1x2x10x4xbf16>, tensor<1x2x10x4xbf16>) -> tensor<3x1x2x4x4xf32>
  return %s : tensor<3x1x2x4x4xf32>
}

// -----

func.func @linear_tokens(%k: tensor<1x2x10x4xbf16>, %v: tensor<1x2x12x4xbf16>) -> tensor<1x1x2x4x4xf32> {
  // expected-error@+1 {{shapes do not fit: key [1, 2, 10, 4], value [1, 2, 12, 4]}}
  %s = dit.linear_state %k, %v : (tensor<1x2x10x4xbf16>, tensor<1x2x12x4xbf16>) -> tensor<1x1x2x4x4xf32>
  return %s : tensor<1x1x2x4x4xf32>
}

// -----

func.func @linear_normaliser(%k: tensor<1x2x10x4xbf16>) -> tensor<1x1x2x4x4xf32> {
  // expected-error@+1 {{shape}}
  %s = dit.linear_state %k, %k normaliser : (tensor<1x2x10x4xbf16>, tensor<1x2x10x4xbf16>) -> tensor<1x1x2x4x4xf32>
  return %s : tensor<1x1x2x4x4xf32>
}

// -----

func.func @linear_heads(%q: tensor<1x3x10x4xbf16>, %s: tensor<1x1x2x5x4xf32>) -> tensor<1x3x10x4xbf16> {
  // expected-error@+1 {{shapes do not fit: query [1, 3, 10, 4], state [1, 1, 2, 5, 4]}}
  %y = dit.linear_apply %q, %s normaliser epsilon 0.0 : (tensor<1x3x10x4xbf16>, tensor<1x1x2x5x4xf32>) -> tensor<1x3x10x4xbf16>
  return %y : tensor<1x3x10x4xbf16>
}

// -----

func.func @linear_wide(%q: tensor<1x2x10x4xf64>, %s: tensor<1x1x2x4x4xf32>) -> tensor<1x2x10x4xf32> {
  // expected-error@+1 {{computes in f32, its query is f64}}
  %y = dit.linear_apply %q, %s epsilon 0.0 : (tensor<1x2x10x4xf64>, tensor<1x1x2x4x4xf32>) -> tensor<1x2x10x4xf32>
  return %y : tensor<1x2x10x4xf32>
}

// -----

func.func @linear_rank(%k: tensor<2x10x4xbf16>) -> tensor<1x1x2x4x4xf32> {
  // expected-error@+1 {{needs a key of rank 4}}
  %s = dit.linear_state %k, %k : (tensor<2x10x4xbf16>, tensor<2x10x4xbf16>) -> tensor<1x1x2x4x4xf32>
  return %s : tensor<1x1x2x4x4xf32>
}

// -----

func.func @linear_state_type(%k: tensor<1x2x10x4xbf16>) -> tensor<1x1x2x4x4xbf16> {
  // expected-error@+1 {{gives f32 of rank 5}}
  %s = dit.linear_state %k, %k : (tensor<1x2x10x4xbf16>, tensor<1x2x10x4xbf16>) -> tensor<1x1x2x4x4xbf16>
  return %s : tensor<1x1x2x4x4xbf16>
}

// -----

func.func @linear_state_rank(%q: tensor<1x2x10x4xbf16>, %s: tensor<1x2x4x4xf32>) -> tensor<1x2x10x4xbf16> {
  // expected-error@+1 {{needs an f32 state of rank 5}}
  %y = dit.linear_apply %q, %s epsilon 0.0 : (tensor<1x2x10x4xbf16>, tensor<1x2x4x4xf32>) -> tensor<1x2x10x4xbf16>
  return %y : tensor<1x2x10x4xbf16>
}
