// RUN: ditc-opt %s --ditc-plan-memory | FileCheck %s

// %a is dead when %c is born, so they share memory; %b overlaps both.
// CHECK: plan.program @p {{.*}}arena_bytes = 128
// CHECK-DAG: %[[A:.*]] = plan.buffer arena {offset = 0 : i64}
// CHECK-DAG: plan.buffer arena {offset = 64 : i64}
// CHECK: plan.copy
plan.program @p inputs ["x"] outputs ["y"] {
  %x = plan.buffer input {index = 0 : i64} : memref<16xf32>
  %y = plan.buffer output {index = 0 : i64} : memref<16xf32>
  %a = plan.buffer arena : memref<16xf32>
  %b = plan.buffer arena : memref<16xf32>
  %c = plan.buffer arena : memref<16xf32>
  plan.prepare { }
  plan.step {
    plan.copy %x -> %a : memref<16xf32> -> memref<16xf32>
    plan.copy %a -> %b : memref<16xf32> -> memref<16xf32>
    plan.copy %b -> %c : memref<16xf32> -> memref<16xf32>
    plan.copy %c -> %y : memref<16xf32> -> memref<16xf32>
  }
}

// What only the preparation reads makes room for what follows: %s for %r, %t for %u. %r and %u stay for the steps.
// CHECK: plan.program @q {{.*}}prepared_bytes = 128
// CHECK: plan.buffer prepared {offset = 0 : i64} : memref<16xf32>
// CHECK: plan.buffer prepared {offset = 64 : i64} : memref<16xf32>
// CHECK: plan.buffer prepared {offset = 0 : i64} : memref<16xf32>
// CHECK: plan.buffer prepared {offset = 64 : i64} : memref<16xf32>
plan.program @q inputs ["x"] outputs ["y"] {
  %x = plan.buffer input {index = 0 : i64} : memref<16xf32>
  %y = plan.buffer output {index = 0 : i64} : memref<16xf32>
  %w = plan.buffer weight {name = "w"} : memref<16xf32>
  %s = plan.buffer prepared : memref<16xf32>
  %t = plan.buffer prepared : memref<16xf32>
  %r = plan.buffer prepared : memref<16xf32>
  %u = plan.buffer prepared : memref<16xf32>
  plan.prepare {
    plan.copy %w -> %s : memref<16xf32> -> memref<16xf32>
    plan.copy %s -> %t : memref<16xf32> -> memref<16xf32>
    plan.copy %t -> %r : memref<16xf32> -> memref<16xf32>
    plan.copy %w -> %u : memref<16xf32> -> memref<16xf32>
  }
  plan.step {
    plan.copy %r -> %y : memref<16xf32> -> memref<16xf32>
    plan.copy %u -> %y : memref<16xf32> -> memref<16xf32>
  }
}
