// RUN: ditc-opt %s --ditc-plan-convolutions --split-input-file | FileCheck %s
// RUN: ditc-opt %s --ditc-plan-convolutions --ditc-plan-memory --split-input-file | FileCheck %s --check-prefix=MEMORY

// Two convolutions of one image: it is laid out once, each filter when weights are bound. 12 channels become 16.
// CHECK-LABEL: plan.program @shared
// CHECK: %[[X:.*]] = plan.buffer input
// CHECK: %[[IMAGE:.*]] = plan.buffer arena : memref<1x8x8x16xbf16>
// CHECK: %[[SEEN:.*]] = plan.view %[[IMAGE]] : memref<1x8x8x16xbf16> -> memref<1x16x8x8xbf16, strided<[1024, 1, 128, 16]>>
// CHECK: %[[FILTER:.*]] = plan.buffer prepared : memref<16x3x3x16xbf16>
// CHECK: plan.view %[[FILTER]] : memref<16x3x3x16xbf16> -> memref<16x16x3x3xbf16, strided<[144, 1, 48, 16]>>
// CHECK: plan.prepare
// CHECK-NEXT: plan.launch @channels_last_{{[0-9a-f]+}}(%{{.*}}, %[[FILTER]])
// CHECK-NEXT: plan.launch @channels_last
// CHECK: plan.step
// CHECK-NEXT: plan.launch @channels_last_{{[0-9a-f]+}}(%[[X]], %[[IMAGE]])
// CHECK-NEXT: plan.launch @[[CONV:conv_[0-9a-f]+]](%[[SEEN]]
// CHECK-NEXT: plan.launch @[[CONV]](%[[SEEN]]
// CHECK-NEXT: }
// CHECK-NOT: plan.kernel @conv family
// MEMORY-LABEL: plan.program @shared
plan.program @shared inputs ["x"] outputs ["y", "z"] {
  %x = plan.buffer input {index = 0 : i64} : memref<1x12x8x8xbf16>
  %v = plan.buffer weight {name = "v"} : memref<16x12x3x3xbf16>
  %w = plan.buffer weight {name = "w"} : memref<16x12x3x3xbf16>
  %y = plan.buffer output {index = 0 : i64} : memref<1x16x8x8xbf16>
  %z = plan.buffer output {index = 1 : i64} : memref<1x16x8x8xbf16>
  plan.prepare { }
  plan.step {
    plan.launch @conv(%x, %v, %y) : memref<1x12x8x8xbf16>, memref<16x12x3x3xbf16>, memref<1x16x8x8xbf16>
    plan.launch @conv(%x, %w, %z) : memref<1x12x8x8xbf16>, memref<16x12x3x3xbf16>, memref<1x16x8x8xbf16>
  }
}
plan.kernel @conv family "conv" args [memref<1x12x8x8xbf16>, memref<16x12x3x3xbf16>, memref<1x16x8x8xbf16>] outputs 1
  config {alignments = array<i64: 16, 16, 16>, dilations = array<i64: 1, 1>, groups = 1 : i64, has_bias = false, padding_high = array<i64: 1, 1>, padding_low = array<i64: 1, 1>, strides = array<i64: 1, 1>} { }

// -----

// An image whose channels are neighbours already is read where it lies; f32 and depthwise convolutions stay as they are.
// CHECK-LABEL: plan.program @kept
// CHECK: plan.step
// CHECK-NEXT: plan.launch @conv_{{[0-9a-f]+}}(
// CHECK-NOT: channels_last
// CHECK: plan.launch @single
// CHECK-NEXT: plan.launch @depthwise
plan.program @kept inputs ["x", "s"] outputs ["y", "t", "d"] {
  %x = plan.buffer input {index = 0 : i64} : memref<1x16x8xbf16, strided<[128, 1, 16]>>
  %s = plan.buffer input {index = 1 : i64} : memref<1x16x8xf32>
  %w = plan.buffer weight {name = "w"} : memref<16x16x3xbf16>
  %f = plan.buffer weight {name = "f"} : memref<16x16x3xf32>
  %g = plan.buffer weight {name = "g"} : memref<16x1x3xbf16>
  %y = plan.buffer output {index = 0 : i64} : memref<1x16x8xbf16>
  %t = plan.buffer output {index = 1 : i64} : memref<1x16x8xf32>
  %d = plan.buffer output {index = 2 : i64} : memref<1x16x8xbf16>
  plan.prepare { }
  plan.step {
    plan.launch @conv(%x, %w, %y) : memref<1x16x8xbf16, strided<[128, 1, 16]>>, memref<16x16x3xbf16>, memref<1x16x8xbf16>
    plan.launch @single(%s, %f, %t) : memref<1x16x8xf32>, memref<16x16x3xf32>, memref<1x16x8xf32>
    plan.launch @depthwise(%x, %g, %d) : memref<1x16x8xbf16, strided<[128, 1, 16]>>, memref<16x1x3xbf16>, memref<1x16x8xbf16>
  }
}
plan.kernel @conv family "conv" args [memref<1x16x8xbf16, strided<[128, 1, 16]>>, memref<16x16x3xbf16>, memref<1x16x8xbf16>] outputs 1
  config {alignments = array<i64: 16, 16, 16>, dilations = array<i64: 1>, groups = 1 : i64, has_bias = false, padding_high = array<i64: 1>, padding_low = array<i64: 1>, strides = array<i64: 1>} { }
plan.kernel @single family "conv" args [memref<1x16x8xf32>, memref<16x16x3xf32>, memref<1x16x8xf32>] outputs 1
  config {alignments = array<i64: 16, 16, 16>, dilations = array<i64: 1>, groups = 1 : i64, has_bias = false, padding_high = array<i64: 1>, padding_low = array<i64: 1>, strides = array<i64: 1>} { }
plan.kernel @depthwise family "conv" args [memref<1x16x8xbf16, strided<[128, 1, 16]>>, memref<16x1x3xbf16>, memref<1x16x8xbf16>] outputs 1
  config {alignments = array<i64: 16, 16, 16>, dilations = array<i64: 1>, groups = 16 : i64, has_bias = false, padding_high = array<i64: 1>, padding_low = array<i64: 1>, strides = array<i64: 1>} { }

// Results of a depthwise convolution with channels innermost leave several at a time where its image lies so, too; its filter stays.
// CHECK-LABEL: plan.program @depthwise_into_tokens
// CHECK: plan.prepare {
// CHECK-NEXT: }
// CHECK: plan.launch @channels_last_{{[0-9a-f]+}}(%{{.*}}, %{{.*}}) : memref<1x16x8xbf16>, memref<1x8x16xbf16>
// CHECK-NEXT: plan.launch @conv_{{[0-9a-f]+}}(%{{.*}}) : memref<1x16x8xbf16, strided<[128, 1, 16]>>, memref<16x1x3xbf16>, memref<1x16x8xbf16, strided<[128, 1, 16]>>
plan.program @depthwise_into_tokens inputs ["x"] outputs ["y"] {
  %x = plan.buffer input {index = 0 : i64} : memref<1x16x8xbf16>
  %g = plan.buffer weight {name = "g"} : memref<16x1x3xbf16>
  %y = plan.buffer output {index = 0 : i64} : memref<1x16x8xbf16, strided<[128, 1, 16]>>
  plan.prepare { }
  plan.step {
    plan.launch @tokens(%x, %g, %y) : memref<1x16x8xbf16>, memref<16x1x3xbf16>, memref<1x16x8xbf16, strided<[128, 1, 16]>>
  }
}
plan.kernel @tokens family "conv" args [memref<1x16x8xbf16>, memref<16x1x3xbf16>, memref<1x16x8xbf16, strided<[128, 1, 16]>>] outputs 1
  config {alignments = array<i64: 16, 16, 16>, dilations = array<i64: 1>, groups = 16 : i64, has_bias = false, padding_high = array<i64: 1>, padding_low = array<i64: 1>, strides = array<i64: 1>} { }

// Twelve channels are no whole pieces of eight, as which the image would be laid out: each would run into the next position.
// CHECK-LABEL: plan.program @few_channels_into_tokens
// CHECK: plan.step {
// CHECK-NEXT: plan.launch @twelve
plan.program @few_channels_into_tokens inputs ["x"] outputs ["y"] {
  %x = plan.buffer input {index = 0 : i64} : memref<1x12x8xbf16>
  %g = plan.buffer weight {name = "g"} : memref<12x1x3xbf16>
  %y = plan.buffer output {index = 0 : i64} : memref<1x12x8xbf16, strided<[96, 1, 12]>>
  plan.prepare { }
  plan.step {
    plan.launch @twelve(%x, %g, %y) : memref<1x12x8xbf16>, memref<12x1x3xbf16>, memref<1x12x8xbf16, strided<[96, 1, 12]>>
  }
}
plan.kernel @twelve family "conv" args [memref<1x12x8xbf16>, memref<12x1x3xbf16>, memref<1x12x8xbf16, strided<[96, 1, 12]>>] outputs 1
  config {alignments = array<i64: 16, 16, 16>, dilations = array<i64: 1>, groups = 12 : i64, has_bias = false, padding_high = array<i64: 1>, padding_low = array<i64: 1>, strides = array<i64: 1>} { }
