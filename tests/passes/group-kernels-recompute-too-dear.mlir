// RUN: ditc-opt %s --split-input-file --ditc-group-kernels | FileCheck %s
// RUN: ditc-opt %s --split-input-file --ditc-group-kernels --remark-format=emitRemark --remarks-filter=fusion 2>&1 | FileCheck %s --check-prefix=REMARK

// Every block of a skinny product would compute the whole map again. One multiplication hides behind the weights.
// REMARK-NOT: Function=cheap {{.*}}Reason=recompute_too_dear
// CHECK-LABEL: func.func @cheap
// CHECK: dit.fusion "gemv"
// CHECK-NOT: dit.fusion
func.func @cheap(%x: tensor<16x4096xf32>, %w: tensor<8192x4096xf32>) -> tensor<16x8192xf32> {
  %a = dit.map(%x) : (tensor<16x4096xf32>) -> tensor<16x4096xf32> {
  ^bb0(%p: f32):
    %q = arith.mulf %p, %p : f32
    dit.yield %q : f32
  }
  %m = dit.matmul %a, %w transpose_rhs : (tensor<16x4096xf32>, tensor<8192x4096xf32>) -> tensor<16x8192xf32>
  return %m : tensor<16x8192xf32>
}

// -----

// Fifty exponentials do not, on sixteen rows.
// REMARK: {{\[}}Missed{{\]}} GroupKernels {{.*}}Bytes=262144, Kernel=rowwise, Operand=act:exp, Producer=act:exp, Reader=proj:linear, ReaderKernel=gemv, Reason=recompute_too_dear, Relation=reads
// CHECK-LABEL: func.func @dear
// CHECK: dit.fusion "rowwise"
// CHECK: dit.fusion "gemv"
func.func @dear(%x: tensor<16x4096xf32>, %w: tensor<8192x4096xf32>) -> tensor<16x8192xf32> {
  %a = dit.map(%x) : (tensor<16x4096xf32>) -> tensor<16x4096xf32> {
  ^bb0(%p: f32):
    %0 = math.exp %p : f32
    %1 = math.exp %0 : f32
    %2 = math.exp %1 : f32
    %3 = math.exp %2 : f32
    %4 = math.exp %3 : f32
    %5 = math.exp %4 : f32
    %6 = math.exp %5 : f32
    %7 = math.exp %6 : f32
    %8 = math.exp %7 : f32
    %9 = math.exp %8 : f32
    %10 = math.exp %9 : f32
    %11 = math.exp %10 : f32
    %12 = math.exp %11 : f32
    %13 = math.exp %12 : f32
    %14 = math.exp %13 : f32
    %15 = math.exp %14 : f32
    %16 = math.exp %15 : f32
    %17 = math.exp %16 : f32
    %18 = math.exp %17 : f32
    %19 = math.exp %18 : f32
    %20 = math.exp %19 : f32
    %21 = math.exp %20 : f32
    %22 = math.exp %21 : f32
    %23 = math.exp %22 : f32
    %24 = math.exp %23 : f32
    %25 = math.exp %24 : f32
    %26 = math.exp %25 : f32
    %27 = math.exp %26 : f32
    %28 = math.exp %27 : f32
    %29 = math.exp %28 : f32
    %30 = math.exp %29 : f32
    %31 = math.exp %30 : f32
    %32 = math.exp %31 : f32
    %33 = math.exp %32 : f32
    %34 = math.exp %33 : f32
    %35 = math.exp %34 : f32
    %36 = math.exp %35 : f32
    %37 = math.exp %36 : f32
    %38 = math.exp %37 : f32
    %39 = math.exp %38 : f32
    %40 = math.exp %39 : f32
    %41 = math.exp %40 : f32
    %42 = math.exp %41 : f32
    %43 = math.exp %42 : f32
    %44 = math.exp %43 : f32
    %45 = math.exp %44 : f32
    %46 = math.exp %45 : f32
    %47 = math.exp %46 : f32
    %48 = math.exp %47 : f32
    %49 = math.exp %48 : f32
    dit.yield %49 : f32
  } loc("exp"("act"))
  %m = dit.matmul %a, %w transpose_rhs : (tensor<16x4096xf32>, tensor<8192x4096xf32>) -> tensor<16x8192xf32> loc("linear"("proj"))
  return %m : tensor<16x8192xf32>
}

// -----

// A SiLU that a skinny product and something else read is computed in both places.
// CHECK-LABEL: func.func @shared
// CHECK: dit.fusion "rowwise"
// CHECK: math.exp
// CHECK: dit.fusion "gemv"
// CHECK: math.exp
// CHECK: dit.matmul
func.func @shared(%x: tensor<1x4096xf32>, %w: tensor<8192x4096xf32>) -> (tensor<1x8192xf32>, tensor<1x4096xf32>) {
  %a = dit.map(%x) : (tensor<1x4096xf32>) -> tensor<1x4096xf32> {
  ^bb0(%p: f32):
    %one = arith.constant 1.0 : f32
    %n = arith.negf %p : f32
    %e = math.exp %n : f32
    %d = arith.addf %e, %one : f32
    %q = arith.divf %p, %d : f32
    dit.yield %q : f32
  }
  %m = dit.matmul %a, %w transpose_rhs : (tensor<1x4096xf32>, tensor<8192x4096xf32>) -> tensor<1x8192xf32>
  return %m, %a : tensor<1x8192xf32>, tensor<1x4096xf32>
}
