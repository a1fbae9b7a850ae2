// RUN: ditc-opt %s --ditc-plan-attention --split-input-file | FileCheck %s
// RUN: ditc-opt %s --ditc-plan-attention --ditc-plan-memory --split-input-file | FileCheck %s --check-prefix=MEMORY

// One mask, expanded over heads for one of its readers: packed once. Another mask is packed for itself.
// CHECK-LABEL: plan.program @masks
// CHECK: %[[M:.*]] = plan.buffer input {index = 1 : i64} : memref<2x1x200x200xi1>
// CHECK: %[[W:.*]] = plan.buffer arena : memref<2x1x200x8xi32>
// CHECK: %[[V:.*]] = plan.buffer arena : memref<2x1x4x4xi8>
// CHECK: plan.step
// CHECK-NEXT: plan.launch @[[PACK:mask_pack_[0-9a-f]+]](%[[M]], %[[W]], %[[V]])
// CHECK-NEXT: plan.launch @[[A:attention_[0-9a-f]+]]({{.*}}, %[[W]], %[[V]], %{{.*}})
// CHECK-NEXT: plan.launch @[[A]]({{.*}}, %[[W]], %[[V]], %{{.*}})
// CHECK-NEXT: plan.launch @[[PACK]](
// CHECK-NEXT: plan.launch @[[A]](
// CHECK-NOT: plan.kernel @direct
// CHECK-NOT: plan.kernel @expanded
plan.program @masks inputs ["q", "m", "n"] outputs ["y"] {
  %q = plan.buffer input {index = 0 : i64} : memref<2x4x200x64xbf16>
  %m = plan.buffer input {index = 1 : i64} : memref<2x1x200x200xi1>
  %n = plan.buffer input {index = 2 : i64} : memref<2x1x200x200xi1>
  %e = plan.view %m : memref<2x1x200x200xi1> -> memref<2x4x200x200xi1, strided<[40000, 0, 200, 1]>>
  %y = plan.buffer output {index = 0 : i64} : memref<2x4x200x64xbf16>
  plan.prepare { }
  plan.step {
    plan.launch @direct(%q, %q, %q, %m, %y) : memref<2x4x200x64xbf16>, memref<2x4x200x64xbf16>, memref<2x4x200x64xbf16>, memref<2x1x200x200xi1>, memref<2x4x200x64xbf16>
    plan.launch @expanded(%q, %q, %q, %e, %y) : memref<2x4x200x64xbf16>, memref<2x4x200x64xbf16>, memref<2x4x200x64xbf16>, memref<2x4x200x200xi1, strided<[40000, 0, 200, 1]>>, memref<2x4x200x64xbf16>
    plan.launch @direct(%q, %q, %q, %n, %y) : memref<2x4x200x64xbf16>, memref<2x4x200x64xbf16>, memref<2x4x200x64xbf16>, memref<2x1x200x200xi1>, memref<2x4x200x64xbf16>
  }
}
plan.kernel @direct family "attention" args [memref<2x4x200x64xbf16>, memref<2x4x200x64xbf16>, memref<2x4x200x64xbf16>, memref<2x1x200x200xi1>, memref<2x4x200x64xbf16>] outputs 1
  config {alignments = array<i64: 16, 16, 16, 16, 16>, causal = false, has_mask = true, scale = 0.125 : f64} { }
plan.kernel @expanded family "attention" args [memref<2x4x200x64xbf16>, memref<2x4x200x64xbf16>, memref<2x4x200x64xbf16>, memref<2x4x200x200xi1, strided<[40000, 0, 200, 1]>>, memref<2x4x200x64xbf16>] outputs 1
  config {alignments = array<i64: 16, 16, 16, 16, 16>, causal = false, has_mask = true, scale = 0.125 : f64} { }

// -----

// What does not change between runs is packed once, behind what makes it; f32 keeps its mask as it is.
// CHECK-LABEL: plan.program @stable
// CHECK: plan.buffer prepared : memref<1x1x1x8xi32>
// CHECK: plan.buffer prepared : memref<1x1x1x4xi8>
// CHECK: plan.prepare
// CHECK-NEXT: plan.launch @copy
// CHECK-NEXT: plan.launch @mask_pack
// CHECK: plan.step
// CHECK-NEXT: plan.launch @attention_{{[0-9a-f]+}}
// CHECK-NEXT: plan.launch @single
// CHECK-NEXT: }
plan.program @stable inputs ["q", "s"] outputs ["y", "z"] {
  %q = plan.buffer input {index = 0 : i64} : memref<1x2x200x64xbf16>
  %s = plan.buffer input {index = 1 : i64} : memref<1x2x200x64xf32>
  %w = plan.buffer weight {name = "w"} : memref<1x1x1x200xi1>
  %m = plan.buffer prepared : memref<1x1x1x200xi1>
  %y = plan.buffer output {index = 0 : i64} : memref<1x2x200x64xbf16>
  %z = plan.buffer output {index = 1 : i64} : memref<1x2x200x64xf32>
  plan.prepare {
    plan.launch @copy(%w, %m) : memref<1x1x1x200xi1>, memref<1x1x1x200xi1>
  }
  plan.step {
    plan.launch @boolean(%q, %q, %q, %m, %y) : memref<1x2x200x64xbf16>, memref<1x2x200x64xbf16>, memref<1x2x200x64xbf16>, memref<1x1x1x200xi1>, memref<1x2x200x64xbf16>
    plan.launch @single(%s, %s, %s, %m, %z) : memref<1x2x200x64xf32>, memref<1x2x200x64xf32>, memref<1x2x200x64xf32>, memref<1x1x1x200xi1>, memref<1x2x200x64xf32>
  }
}
plan.kernel @copy family "copy" args [memref<1x1x1x200xi1>, memref<1x1x1x200xi1>] outputs 1 config {} { }
plan.kernel @boolean family "attention" args [memref<1x2x200x64xbf16>, memref<1x2x200x64xbf16>, memref<1x2x200x64xbf16>, memref<1x1x1x200xi1>, memref<1x2x200x64xbf16>] outputs 1
  config {alignments = array<i64: 16, 16, 16, 16, 16>, causal = false, has_mask = true, scale = 0.125 : f64} { }
plan.kernel @single family "attention" args [memref<1x2x200x64xf32>, memref<1x2x200x64xf32>, memref<1x2x200x64xf32>, memref<1x1x1x200xi1>, memref<1x2x200x64xf32>] outputs 1
  config {alignments = array<i64: 16, 16, 16, 16, 16>, causal = false, has_mask = true, scale = 0.125 : f64} { }

// -----

// 24 · 36 tiles on 132 multiprocessors: the last 72 are shared. The counters of all launches lie at one place, outside of
// the arena.
// CHECK-LABEL: plan.program @shared
// CHECK: %[[P:.*]] = plan.buffer arena : memref<6893568xf32>
// CHECK: %[[C:.*]] = plan.buffer zeroed : memref<144xi32>
// CHECK: plan.step
// CHECK-NEXT: plan.launch @[[A:attention_[0-9a-f]+]](%{{.*}}, %{{.*}}, %{{.*}}, %[[P]], %[[C]], %{{.*}})
// CHECK-NEXT: plan.launch @[[A]](
// CHECK: plan.kernel @[[A]] family "attention" {{.*}} outputs 3 config {{.*}}shared_tiles = true
// MEMORY-LABEL: plan.program @shared {{.*}}arena_bytes = 55885824
// MEMORY-COUNT-2: plan.buffer zeroed {offset = 0 : i64} : memref<144xi32>
plan.program @shared inputs ["q"] outputs ["y"] {
  %q = plan.buffer input {index = 0 : i64} : memref<1x24x4608x128xbf16>
  %t = plan.buffer arena : memref<1x24x4608x128xbf16>
  %y = plan.buffer output {index = 0 : i64} : memref<1x24x4608x128xbf16>
  plan.prepare { }
  plan.step {
    plan.launch @large(%q, %q, %q, %t) : memref<1x24x4608x128xbf16>, memref<1x24x4608x128xbf16>, memref<1x24x4608x128xbf16>, memref<1x24x4608x128xbf16>
    plan.launch @large(%t, %q, %q, %y) : memref<1x24x4608x128xbf16>, memref<1x24x4608x128xbf16>, memref<1x24x4608x128xbf16>, memref<1x24x4608x128xbf16>
  }
}
plan.kernel @large family "attention" args [memref<1x24x4608x128xbf16>, memref<1x24x4608x128xbf16>, memref<1x24x4608x128xbf16>, memref<1x24x4608x128xbf16>] outputs 1
  config {alignments = array<i64: 16, 16, 16, 16>, causal = false, has_mask = false, scale = 0.08 : f64} { }

// -----

// An additive mask that all queries share, expanded over heads for one of its readers: judged once. One by query is not.
// CHECK-LABEL: plan.program @added
// CHECK: %[[M:.*]] = plan.buffer input {index = 1 : i64} : memref<2x1x1x300xbf16>
// CHECK: %[[V:.*]] = plan.buffer arena : memref<2x1x1x7xi8>
// CHECK: plan.step
// CHECK-NEXT: plan.launch @[[JUDGE:mask_judge_[0-9a-f]+]](%[[M]], %[[V]])
// CHECK-NEXT: plan.launch @attention_{{[0-9a-f]+}}({{.*}}, %[[M]], %[[V]], %{{.*}})
// CHECK-NEXT: plan.launch @attention_{{[0-9a-f]+}}({{.*}}, %[[V]], %{{.*}})
// CHECK-NEXT: plan.launch @by_query(
// CHECK: plan.kernel @[[JUDGE]] family "mask_judge" args [memref<2x1x1x300xbf16>, memref<2x1x1x7xi8>] outputs 1 config {tile_keys = 48 : i64}
// CHECK: judged_mask = true
plan.program @added inputs ["q", "m", "k", "n"] outputs ["y"] {
  %q = plan.buffer input {index = 0 : i64} : memref<2x4x4096x72xbf16>
  %m = plan.buffer input {index = 1 : i64} : memref<2x1x1x300xbf16>
  %k = plan.buffer input {index = 2 : i64} : memref<2x4x300x72xbf16>
  %n = plan.buffer input {index = 3 : i64} : memref<2x1x4096x300xbf16>
  %e = plan.view %m : memref<2x1x1x300xbf16> -> memref<2x4x1x300xbf16, strided<[300, 0, 300, 1]>>
  %y = plan.buffer output {index = 0 : i64} : memref<2x4x4096x72xbf16>
  plan.prepare { }
  plan.step {
    plan.launch @direct(%q, %k, %k, %m, %y) : memref<2x4x4096x72xbf16>, memref<2x4x300x72xbf16>, memref<2x4x300x72xbf16>, memref<2x1x1x300xbf16>, memref<2x4x4096x72xbf16>
    plan.launch @expanded(%q, %k, %k, %e, %y) : memref<2x4x4096x72xbf16>, memref<2x4x300x72xbf16>, memref<2x4x300x72xbf16>, memref<2x4x1x300xbf16, strided<[300, 0, 300, 1]>>, memref<2x4x4096x72xbf16>
    plan.launch @by_query(%q, %k, %k, %n, %y) : memref<2x4x4096x72xbf16>, memref<2x4x300x72xbf16>, memref<2x4x300x72xbf16>, memref<2x1x4096x300xbf16>, memref<2x4x4096x72xbf16>
  }
}
plan.kernel @direct family "attention" args [memref<2x4x4096x72xbf16>, memref<2x4x300x72xbf16>, memref<2x4x300x72xbf16>, memref<2x1x1x300xbf16>, memref<2x4x4096x72xbf16>] outputs 1
  config {alignments = array<i64: 16, 16, 16, 16, 16>, causal = false, has_mask = true, scale = 0.125 : f64} { }
plan.kernel @expanded family "attention" args [memref<2x4x4096x72xbf16>, memref<2x4x300x72xbf16>, memref<2x4x300x72xbf16>, memref<2x4x1x300xbf16, strided<[300, 0, 300, 1]>>, memref<2x4x4096x72xbf16>] outputs 1
  config {alignments = array<i64: 16, 16, 16, 16, 16>, causal = false, has_mask = true, scale = 0.125 : f64} { }
plan.kernel @by_query family "attention" args [memref<2x4x4096x72xbf16>, memref<2x4x300x72xbf16>, memref<2x4x300x72xbf16>, memref<2x1x4096x300xbf16>, memref<2x4x4096x72xbf16>] outputs 1
  config {alignments = array<i64: 16, 16, 16, 16, 16>, causal = false, has_mask = true, scale = 0.125 : f64} { }

// -----

// 8-bit numbers: a survey of all keys, then the operands with their scales, then attention. Rows of 72 bytes lie on 16, values
// are turned around, their keys filled up to whole blocks, and those to tiles of 128. The mask is packed for the tiles of this kernel.
// CHECK-LABEL: plan.program @quantized
// CHECK-DAG: %[[Q:.*]] = plan.buffer input {index = 0 : i64}
// CHECK-DAG: %[[K:.*]] = plan.buffer input {index = 1 : i64}
// CHECK-DAG: %[[V:.*]] = plan.buffer input {index = 2 : i64}
// CHECK-DAG: %[[M:.*]] = plan.buffer input {index = 3 : i64}
// CHECK-DAG: %[[W:.*]] = plan.buffer arena : memref<2x1x1x10xi32>
// CHECK-DAG: %[[J:.*]] = plan.buffer arena : memref<2x1x1x2xi8>
// CHECK-DAG: %[[MEANS:.*]] = plan.buffer arena : memref<2x2x5x72xf32>
// CHECK-DAG: %[[TOPS:.*]] = plan.buffer arena : memref<2x2x5x64xf32>
// CHECK-DAG: %[[QB:.*]] = plan.buffer arena : memref<2x4x1000x80xi8>
// CHECK-DAG: %[[Q8:.*]] = plan.view %[[QB]] : memref<2x4x1000x80xi8> -> memref<2x4x1000x72xi8, strided<[320000, 80000, 80, 1]>>
// CHECK-DAG: %[[KB:.*]] = plan.buffer arena : memref<2x2x300x80xi8>
// CHECK-DAG: %[[K8:.*]] = plan.view %[[KB]] : memref<2x2x300x80xi8> -> memref<2x2x300x72xi8, strided<[48000, 24000, 80, 1]>>
// CHECK-DAG: %[[V8:.*]] = plan.buffer arena : memref<2x2x64x384xf8E4M3FN>
// CHECK-DAG: %[[QS:.*]] = plan.buffer arena : memref<2x4x1000xf32>
// CHECK-DAG: %[[KS:.*]] = plan.buffer arena : memref<2x2x2x4xf32>
// CHECK-DAG: %[[VS:.*]] = plan.buffer arena : memref<2x2x64xf32>
// CHECK: plan.step
// CHECK-NEXT: plan.launch @[[PACK:mask_pack_[0-9a-f]+]](%[[M]], %[[W]], %[[J]])
// CHECK-NEXT: plan.launch @[[SURVEY:attention_survey_[0-9a-f]+]](%[[K]], %[[V]], %[[MEANS]], %[[TOPS]])
// CHECK-NEXT: plan.launch @[[QUANTIZE:attention_quantize_[0-9a-f]+]](%[[Q]], %[[K]], %[[V]], %[[MEANS]], %[[TOPS]], %[[Q8]], %[[K8]], %[[V8]], %[[QS]], %[[KS]], %[[VS]])
// CHECK-NEXT: plan.launch @[[A:attention_[0-9a-f]+]](%[[Q8]], %[[K8]], %[[V8]], %[[W]], %[[J]], %[[QS]], %[[KS]], %[[VS]], %{{.*}})
// CHECK-NEXT: }
// CHECK-DAG: plan.kernel @[[PACK]] family "mask_pack" {{.*}} config {keys = 300 : i64, tile_keys = 160 : i64, tile_rows = 128 : i64}
// CHECK-DAG: plan.kernel @[[SURVEY]] family "attention_survey" {{.*}} outputs 2 config {chunk_keys = 64 : i64}
// CHECK-DAG: plan.kernel @[[QUANTIZE]] family "attention_quantize" {{.*}} outputs 6 config {block_keys = 160 : i64, chunk_keys = 64 : i64}
// CHECK-DAG: plan.kernel @[[A]] family "attention" {{.*}} outputs 1 config {alignments = array<i64: 16, 16, 16, 16, 16, 16, 16, 16, 16>, {{.*}}packed_mask = true, quantized = true
plan.program @quantized inputs ["q", "k", "v", "m"] outputs ["y"] {
  %q = plan.buffer input {index = 0 : i64} : memref<2x4x1000x72xbf16>
  %k = plan.buffer input {index = 1 : i64} : memref<2x2x300x72xbf16>
  %v = plan.buffer input {index = 2 : i64} : memref<2x2x300x64xbf16>
  %m = plan.buffer input {index = 3 : i64} : memref<2x1x1x300xi1>
  %y = plan.buffer output {index = 0 : i64} : memref<2x4x1000x64xbf16>
  plan.prepare { }
  plan.step {
    plan.launch @numbers(%q, %k, %v, %m, %y) : memref<2x4x1000x72xbf16>, memref<2x2x300x72xbf16>, memref<2x2x300x64xbf16>, memref<2x1x1x300xi1>, memref<2x4x1000x64xbf16>
  }
}
plan.kernel @numbers family "attention" args [memref<2x4x1000x72xbf16>, memref<2x2x300x72xbf16>, memref<2x2x300x64xbf16>, memref<2x1x1x300xi1>, memref<2x4x1000x64xbf16>] outputs 1
  config {alignments = array<i64: 16, 16, 16, 16, 16>, causal = false, has_mask = true, quantized = true, scale = 0.125 : f64} { }

// -----

// An additive mask computes with scores, and stays with 16-bit numbers. With shared tiles scales come in front of the parts. Chunks
// of keys are as long as 32 of a head allow.
// CHECK-LABEL: plan.program @quantized_large
// CHECK: %[[J:.*]] = plan.buffer arena : memref<1x1x1x36xi8>
// CHECK: plan.buffer arena : memref<1x24x22x128xf32>
// CHECK: plan.step
// CHECK-NEXT: plan.launch @mask_judge_{{[0-9a-f]+}}(%[[M:.*]], %[[J]])
// CHECK-NEXT: plan.launch @attention_{{[0-9a-f]+}}({{[^,]*}}, {{[^,]*}}, {{[^,]*}}, %[[M]], %[[J]], %{{[^,]*}}) : memref<1x24x4608x128xbf16>
// CHECK-NEXT: plan.launch @[[SURVEY:attention_survey_[0-9a-f]+]](
// CHECK-NEXT: plan.launch @attention_quantize_{{[0-9a-f]+}}({{.*}}, %[[QS2:[^ ,]+]], %[[KS2:[^ ,]+]], %[[VS2:[^ ,]+]])
// CHECK-NEXT: plan.launch @[[SHARED:attention_[0-9a-f]+]]({{[^,]*}}, {{[^,]*}}, {{[^,]*}}, %[[QS2]], %[[KS2]], %[[VS2]], %[[P:[^ ,]+]], %[[C:[^ ,]+]], %{{[^,]*}}) : {{.*}}memref<4866048xf32>, memref<144xi32>
// CHECK-NEXT: }
// CHECK: plan.kernel @[[SURVEY]] {{.*}} config {chunk_keys = 210 : i64}
// CHECK: plan.kernel @[[SHARED]] {{.*}} outputs 3 config {{.*}}quantized = true, {{.*}}shared_tiles = true
plan.program @quantized_large inputs ["q", "m"] outputs ["y", "z"] {
  %q = plan.buffer input {index = 0 : i64} : memref<1x24x4608x128xbf16>
  %m = plan.buffer input {index = 1 : i64} : memref<1x1x1x4608xbf16>
  %y = plan.buffer output {index = 0 : i64} : memref<1x24x4608x128xbf16>
  %z = plan.buffer output {index = 1 : i64} : memref<1x24x4608x128xbf16>
  plan.prepare { }
  plan.step {
    plan.launch @masked(%q, %q, %q, %m, %y) : memref<1x24x4608x128xbf16>, memref<1x24x4608x128xbf16>, memref<1x24x4608x128xbf16>, memref<1x1x1x4608xbf16>, memref<1x24x4608x128xbf16>
    plan.launch @plain(%q, %q, %q, %z) : memref<1x24x4608x128xbf16>, memref<1x24x4608x128xbf16>, memref<1x24x4608x128xbf16>, memref<1x24x4608x128xbf16>
  }
}
plan.kernel @masked family "attention" args [memref<1x24x4608x128xbf16>, memref<1x24x4608x128xbf16>, memref<1x24x4608x128xbf16>, memref<1x1x1x4608xbf16>, memref<1x24x4608x128xbf16>] outputs 1
  config {alignments = array<i64: 16, 16, 16, 16, 16>, causal = false, has_mask = true, quantized = true, scale = 0.08 : f64} { }
plan.kernel @plain family "attention" args [memref<1x24x4608x128xbf16>, memref<1x24x4608x128xbf16>, memref<1x24x4608x128xbf16>, memref<1x24x4608x128xbf16>] outputs 1
  config {alignments = array<i64: 16, 16, 16, 16>, causal = false, has_mask = false, quantized = true, scale = 0.08 : f64} { }

// -----

// What was asked for, and 16-bit numbers serve better: few queries and keys, a log-sum-exp.
// CHECK-LABEL: plan.program @not_quantized
// CHECK: plan.step
// CHECK-NEXT: plan.launch @few(
// CHECK-NEXT: plan.launch @with_sums(
// CHECK-NEXT: }
plan.program @not_quantized inputs ["q", "p"] outputs ["y", "z", "l"] {
  %q = plan.buffer input {index = 0 : i64} : memref<1x2x64x64xbf16>
  %p = plan.buffer input {index = 1 : i64} : memref<1x2x256x64xbf16>
  %y = plan.buffer output {index = 0 : i64} : memref<1x2x64x64xbf16>
  %z = plan.buffer output {index = 1 : i64} : memref<1x2x256x64xbf16>
  %l = plan.buffer output {index = 2 : i64} : memref<1x2x256xf32>
  plan.prepare { }
  plan.step {
    plan.launch @few(%q, %q, %q, %y) : memref<1x2x64x64xbf16>, memref<1x2x64x64xbf16>, memref<1x2x64x64xbf16>, memref<1x2x64x64xbf16>
    plan.launch @with_sums(%p, %p, %p, %l, %z) : memref<1x2x256x64xbf16>, memref<1x2x256x64xbf16>, memref<1x2x256x64xbf16>, memref<1x2x256xf32>, memref<1x2x256x64xbf16>
  }
}
plan.kernel @few family "attention" args [memref<1x2x64x64xbf16>, memref<1x2x64x64xbf16>, memref<1x2x64x64xbf16>, memref<1x2x64x64xbf16>] outputs 1
  config {alignments = array<i64: 16, 16, 16, 16>, causal = false, has_mask = false, quantized = true, scale = 0.125 : f64} { }
plan.kernel @with_sums family "attention" args [memref<1x2x256x64xbf16>, memref<1x2x256x64xbf16>, memref<1x2x256x64xbf16>, memref<1x2x256xf32>, memref<1x2x256x64xbf16>] outputs 2
  config {alignments = array<i64: 16, 16, 16, 16, 16>, causal = false, has_mask = false, log_sum_exp = true, quantized = true, scale = 0.125 : f64} { }
