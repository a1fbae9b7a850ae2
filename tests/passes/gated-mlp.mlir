// RUN: ditc-opt %s --ditc-group-kernels --ditc-legalize-for-sm90a | FileCheck %s

// Gate and up as one linear layer that is cut in two, the gate behind: one launch, which reads the weight where it is.
// CHECK-LABEL: func.func @one_layer
// CHECK: %[[Y:.*]] = dit.fusion "gemm"(%{{.*}}, %{{.*}}, %{{.*}}) : (tensor<256x64xbf16>, tensor<512x64xbf16>, tensor<512xbf16>) -> tensor<256x256xbf16>
// CHECK-NOT: dit.fusion
// CHECK: return %[[Y]]
func.func @one_layer(%x: tensor<256x64xbf16>) -> tensor<256x256xbf16> {
  %w = dit.weight "w" : tensor<512x64xbf16>
  %b = dit.weight "b" : tensor<512xbf16>
  %m = dit.matmul %x, %w bias %b transpose_rhs : (tensor<256x64xbf16>, tensor<512x64xbf16>, tensor<512xbf16>) -> tensor<256x512xbf16>
  %u = dit.slice %m offsets [0, 0] steps [1, 1] : tensor<256x512xbf16> -> tensor<256x256xbf16>
  %g = dit.slice %m offsets [0, 256] steps [1, 1] : tensor<256x512xbf16> -> tensor<256x256xbf16>
  %y = dit.map(%g, %u) : (tensor<256x256xbf16>, tensor<256x256xbf16>) -> tensor<256x256xbf16> {
  ^bb0(%p: f32, %q: f32):
    %t = math.tanh %p : f32
    %z = arith.mulf %t, %q : f32
    dit.yield %z : f32
  }
  return %y : tensor<256x256xbf16>
}

// The same as two layers of one input.
// CHECK-LABEL: func.func @two_layers
// CHECK: %[[Y:.*]] = dit.fusion "gemm"(%{{.*}}, %{{.*}}, %{{.*}}) : (tensor<256x64xbf16>, tensor<200x64xbf16>, tensor<200x64xbf16>) -> tensor<256x200xbf16>
// CHECK-NOT: dit.fusion
// CHECK: return %[[Y]]
func.func @two_layers(%x: tensor<256x64xbf16>) -> tensor<256x200xbf16> {
  %v = dit.weight "v" : tensor<200x64xbf16>
  %w = dit.weight "w" : tensor<200x64xbf16>
  %g = dit.matmul %x, %v transpose_rhs : (tensor<256x64xbf16>, tensor<200x64xbf16>) -> tensor<256x200xbf16>
  %u = dit.matmul %x, %w transpose_rhs : (tensor<256x64xbf16>, tensor<200x64xbf16>) -> tensor<256x200xbf16>
  %y = dit.map(%g, %u) : (tensor<256x200xbf16>, tensor<256x200xbf16>) -> tensor<256x200xbf16> {
  ^bb0(%p: f32, %q: f32):
    %t = math.tanh %p : f32
    %z = arith.mulf %t, %q : f32
    dit.yield %z : f32
  }
  return %y : tensor<256x200xbf16>
}

// The product is read elsewhere as well, so it is stored, and what makes one column of two is a kernel of its own.
// CHECK-LABEL: func.func @read_elsewhere
// CHECK: dit.fusion "rowwise"
// CHECK: return
func.func @read_elsewhere(%x: tensor<256x64xbf16>) -> (tensor<256x256xbf16>, tensor<256x512xbf16>) {
  %w = dit.weight "w" : tensor<512x64xbf16>
  %m = dit.matmul %x, %w transpose_rhs : (tensor<256x64xbf16>, tensor<512x64xbf16>) -> tensor<256x512xbf16>
  %g = dit.slice %m offsets [0, 0] steps [1, 1] : tensor<256x512xbf16> -> tensor<256x256xbf16>
  %u = dit.slice %m offsets [0, 256] steps [1, 1] : tensor<256x512xbf16> -> tensor<256x256xbf16>
  %y = dit.map(%g, %u) : (tensor<256x256xbf16>, tensor<256x256xbf16>) -> tensor<256x256xbf16> {
  ^bb0(%p: f32, %q: f32):
    %t = math.tanh %p : f32
    %z = arith.mulf %t, %q : f32
    dit.yield %z : f32
  }
  return %y, %m : tensor<256x256xbf16>, tensor<256x512xbf16>
}

// Gate and up in turns: their weights are no two ranges of rows.
// CHECK-LABEL: func.func @in_turns
// CHECK: dit.fusion "rowwise"
// CHECK: return
func.func @in_turns(%x: tensor<256x64xbf16>) -> tensor<256x256xbf16> {
  %w = dit.weight "w" : tensor<512x64xbf16>
  %m = dit.matmul %x, %w transpose_rhs : (tensor<256x64xbf16>, tensor<512x64xbf16>) -> tensor<256x512xbf16>
  %g = dit.slice %m offsets [0, 0] steps [1, 2] : tensor<256x512xbf16> -> tensor<256x256xbf16>
  %u = dit.slice %m offsets [0, 1] steps [1, 2] : tensor<256x512xbf16> -> tensor<256x256xbf16>
  %y = dit.map(%g, %u) : (tensor<256x256xbf16>, tensor<256x256xbf16>) -> tensor<256x256xbf16> {
  ^bb0(%p: f32, %q: f32):
    %t = math.tanh %p : f32
    %z = arith.mulf %t, %q : f32
    dit.yield %z : f32
  }
  return %y : tensor<256x256xbf16>
}

// Beside heads in one layer, gate and up are a launch of their own, each with its rows of the weight; so are the others.
// CHECK-LABEL: func.func @beside_heads
// CHECK: %[[W:.*]] = dit.weight "w" : tensor<896x64xbf16>
// CHECK-DAG: %[[W0:.*]] = dit.slice %[[W]] offsets [0, 0] steps [1, 1] : tensor<896x64xbf16> -> tensor<384x64xbf16>
// CHECK-DAG: %[[W1:.*]] = dit.slice %[[W]] offsets [384, 0] steps [1, 1] : tensor<896x64xbf16> -> tensor<512x64xbf16>
// CHECK-DAG: dit.fusion "gemm"(%{{.*}}, %[[W0]], %{{.*}}) : {{.*}} -> (tensor<256x2x128xbf16>, tensor<256x128xbf16>)
// CHECK-DAG: dit.fusion "gemm"(%{{.*}}, %[[W1]]) : {{.*}} -> tensor<256x256xbf16>
// CHECK-NOT: "rowwise"
// CHECK: return
func.func @beside_heads(%x: tensor<256x64xbf16>) -> (tensor<256x256xbf16>, tensor<256x2x128xbf16>, tensor<256x128xbf16>) {
  %w = dit.weight "w" : tensor<896x64xbf16>
  %s = dit.weight "s" : tensor<128xbf16>
  %m = dit.matmul %x, %w transpose_rhs : (tensor<256x64xbf16>, tensor<896x64xbf16>) -> tensor<256x896xbf16>
  %g = dit.slice %m offsets [0, 384] steps [1, 1] : tensor<256x896xbf16> -> tensor<256x256xbf16>
  %u = dit.slice %m offsets [0, 640] steps [1, 1] : tensor<256x896xbf16> -> tensor<256x256xbf16>
  %q = dit.slice %m offsets [0, 0] steps [1, 1] : tensor<256x896xbf16> -> tensor<256x256xbf16>
  %v = dit.slice %m offsets [0, 256] steps [1, 1] : tensor<256x896xbf16> -> tensor<256x128xbf16>
  %h = dit.view %q : tensor<256x256xbf16> -> tensor<256x2x128xbf16>
  %n = dit.norm rms %h weight %s axes 1 eps 1.0e-6 : (tensor<256x2x128xbf16>, tensor<128xbf16>) -> tensor<256x2x128xbf16>
  %y = dit.map(%g, %u) : (tensor<256x256xbf16>, tensor<256x256xbf16>) -> tensor<256x256xbf16> {
  ^bb0(%p: f32, %r: f32):
    %t = math.tanh %p : f32
    %z = arith.mulf %t, %r : f32
    dit.yield %z : f32
  }
  return %y, %n, %v : tensor<256x256xbf16>, tensor<256x2x128xbf16>, tensor<256x128xbf16>
}
