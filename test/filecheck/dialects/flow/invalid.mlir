// RUN: dlc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

func.func @main(%x: tensor<4x8xf32>, %h: tensor<8xf32>) {
  %0 = flow.for 5 carry (%c = %h) scan (%e = %x) : (tensor<8xf32>), (tensor<4x8xf32>) -> (tensor<8xf32>), () {
    flow.yield %e : tensor<8xf32>
  }
  func.return
}
// CHECK: expected to scan tensors of 5 elements, found tensor<4x8xf32>

// -----

func.func @main(%h: tensor<8xf32>) {
  %0 = flow.for s carry (%c = %h) scan () : (tensor<8xf32>), () -> (tensor<8xf32>), () {
    flow.yield %c : tensor<8xf32>
  }
  func.return
}
// CHECK: expected a declared size, found `s`

// -----

func.func @main(%x: tensor<4x8xf32>, %h: tensor<8xf32>) {
  %0 = flow.for 4 carry (%c = %h) scan (%e = %x) : (tensor<8xf32>), (tensor<4x8xf32>) -> (tensor<8xf32>), () {
    flow.yield %x : tensor<4x8xf32>
  }
  func.return
}
// CHECK: expected carried values of types tensor<8xf32>, found tensor<4x8xf32>

// -----

func.func @main(%x: tensor<4x8xf32>) {
  %0 = flow.for 4 carry () scan (%e = %x) : (), (tensor<4x8xf32>) -> (), (tensor<8x8xf32>) {
    flow.yield %e : tensor<8xf32>
  }
  func.return
}
// CHECK: expected stacked values of types tensor<4x8xf32>, found tensor<8x8xf32>

// -----

func.func @main(%x: tensor<f32>) {
  %0 = flow.if %x : tensor<f32> -> (tensor<f32>) {
    flow.yield %x : tensor<f32>
  } else {
    flow.yield %x : tensor<f32>
  }
  func.return
}
// CHECK: expected a condition of types tensor<i1>, found tensor<f32>

// -----

func.func @main(%p: tensor<i1>, %x: tensor<f32>) {
  %0 = flow.if %p : tensor<i1> -> (tensor<f32>) {
    flow.yield %x : tensor<f32>
  } else {
    flow.yield %p : tensor<i1>
  }
  func.return
}
// CHECK: expected values of a branch of types tensor<f32>, found tensor<i1>

// -----

func.func @main(%p: tensor<i1>, %x: tensor<f32>) {
  %0 = flow.while carry (%c = %x) : (tensor<f32>) {
    flow.yield %c : tensor<f32>
  } do (%d) {
    flow.yield %d : tensor<f32>
  }
  func.return
}
// CHECK: expected a condition of types tensor<i1>, found tensor<f32>

// -----

func.func @main(%x: tensor<f32>) {
  flow.yield %x : tensor<f32>
}
// CHECK: expected to stand in a flow.for, flow.if or flow.while
