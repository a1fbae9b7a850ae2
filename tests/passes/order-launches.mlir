// RUN: ditc-opt %s --split-input-file --ditc-order-launches | FileCheck %s

// Queries (%s) of %q, and values %v, wait for what the largest launch writes to be read: both launches come later.
// CHECK-LABEL: plan.program @late
// CHECK: plan.step
// CHECK-NEXT: plan.launch @a
// CHECK-NEXT: plan.launch @b
// CHECK-NEXT: plan.launch @f
// CHECK-NEXT: plan.launch @g
// CHECK-NEXT: plan.launch @h
plan.program @late inputs ["x"] outputs ["y", "z"] {
  %x = plan.buffer input {index = 0 : i64} : memref<16xf32>
  %y = plan.buffer output {index = 0 : i64} : memref<16xf32>
  %z = plan.buffer output {index = 1 : i64} : memref<16xf32>
  %q = plan.buffer arena : memref<1024xf32>
  %v = plan.buffer arena : memref<1024xf32>
  %s = plan.buffer arena : memref<1024xf32>
  %r = plan.buffer arena : memref<2048xf32>
  plan.prepare { }
  plan.step {
    plan.launch @f(%x, %q, %v) : memref<16xf32>, memref<1024xf32>, memref<1024xf32>
    plan.launch @g(%q, %s) : memref<1024xf32>, memref<1024xf32>
    plan.launch @a(%x, %r) : memref<16xf32>, memref<2048xf32>
    plan.launch @b(%r, %y) : memref<2048xf32>, memref<16xf32>
    plan.launch @h(%s, %v, %y, %z) : memref<1024xf32>, memref<1024xf32>, memref<16xf32>, memref<16xf32>
  }
}
plan.kernel @f family "map" args [memref<16xf32>, memref<1024xf32>, memref<1024xf32>] outputs 2 config {} {
}
plan.kernel @g family "map" args [memref<1024xf32>, memref<1024xf32>] outputs 1 config {} {
}
plan.kernel @a family "map" args [memref<16xf32>, memref<2048xf32>] outputs 1 config {} {
}
plan.kernel @b family "map" args [memref<2048xf32>, memref<16xf32>] outputs 1 config {} {
}
plan.kernel @h family "map" args [memref<1024xf32>, memref<1024xf32>, memref<16xf32>, memref<16xf32>] outputs 1 config {} {
}

// -----

// What frees a buffer comes before the launch that needs most.
// CHECK-LABEL: plan.program @earlier
// CHECK: %[[X:.*]] = plan.buffer input
// CHECK: %[[W:.*]] = plan.buffer input
// CHECK: %[[Y:.*]] = plan.buffer output
// CHECK: %[[Z:.*]] = plan.buffer output
// CHECK: %[[A:.*]] = plan.buffer arena
// CHECK: %[[B:.*]] = plan.buffer arena
// CHECK: plan.step
// CHECK-NEXT: plan.copy %[[X]] -> %[[A]]
// CHECK-NEXT: plan.copy %[[A]] -> %[[Y]]
// CHECK-NEXT: plan.copy %[[W]] -> %[[B]]
// CHECK-NEXT: plan.copy %[[B]] -> %[[Z]]
plan.program @earlier inputs ["x", "w"] outputs ["y", "z"] {
  %x = plan.buffer input {index = 0 : i64} : memref<1024xf32>
  %w = plan.buffer input {index = 1 : i64} : memref<4096xf32>
  %y = plan.buffer output {index = 0 : i64} : memref<1024xf32>
  %z = plan.buffer output {index = 1 : i64} : memref<4096xf32>
  %a = plan.buffer arena : memref<1024xf32>
  %b = plan.buffer arena : memref<4096xf32>
  plan.prepare { }
  plan.step {
    plan.copy %x -> %a : memref<1024xf32> -> memref<1024xf32>
    plan.copy %w -> %b : memref<4096xf32> -> memref<4096xf32>
    plan.copy %b -> %z : memref<4096xf32> -> memref<4096xf32>
    plan.copy %a -> %y : memref<1024xf32> -> memref<1024xf32>
  }
}

// -----

// Too little to gain: the order of the model stays.
// CHECK-LABEL: plan.program @small
// CHECK: %[[X:.*]] = plan.buffer input
// CHECK: %[[W:.*]] = plan.buffer input
// CHECK: %[[Y:.*]] = plan.buffer output
// CHECK: %[[Z:.*]] = plan.buffer output
// CHECK: %[[A:.*]] = plan.buffer arena
// CHECK: %[[B:.*]] = plan.buffer arena
// CHECK: plan.step
// CHECK-NEXT: plan.copy %[[X]] -> %[[A]]
// CHECK-NEXT: plan.copy %[[W]] -> %[[B]]
plan.program @small inputs ["x", "w"] outputs ["y", "z"] {
  %x = plan.buffer input {index = 0 : i64} : memref<16xf32>
  %w = plan.buffer input {index = 1 : i64} : memref<4096xf32>
  %y = plan.buffer output {index = 0 : i64} : memref<16xf32>
  %z = plan.buffer output {index = 1 : i64} : memref<4096xf32>
  %a = plan.buffer arena : memref<16xf32>
  %b = plan.buffer arena : memref<4096xf32>
  plan.prepare { }
  plan.step {
    plan.copy %x -> %a : memref<16xf32> -> memref<16xf32>
    plan.copy %w -> %b : memref<4096xf32> -> memref<4096xf32>
    plan.copy %b -> %z : memref<4096xf32> -> memref<4096xf32>
    plan.copy %a -> %y : memref<16xf32> -> memref<16xf32>
  }
}
