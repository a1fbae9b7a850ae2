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
