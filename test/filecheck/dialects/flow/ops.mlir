// RUN: dlc-opt %s | dlc-opt | filecheck %s
// RUN: dlc-opt %s --print-op-generic | dlc-opt | filecheck %s
// RUN: dlc-opt %s -p canonicalize,cse,dce | filecheck %s

// CHECK: func.func @main(%p: tensor<i1>, %x: tensor<5x4xf32>, %h0: tensor<4xf32>, %i0: tensor<i64>) -> (tensor<4xf32>, tensor<5x4xf32>, tensor<i64>) {
// CHECK-NEXT: %h, %y = flow.for 5 carry (%c = %h0) scan (%x_t = %x) : (tensor<4xf32>), (tensor<5x4xf32>) -> (tensor<4xf32>), (tensor<5x4xf32>) {
// CHECK-NEXT: %n = torch.aten "add.Tensor"(self = %c, other = %x_t) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
// CHECK-NEXT: flow.yield %n, %n : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT: }
// CHECK-NEXT: %r = flow.if %p : tensor<i1> -> (tensor<4xf32>) {
// CHECK-NEXT: flow.yield %h : tensor<4xf32>
// CHECK-NEXT: } else {
// CHECK-NEXT: flow.yield %h0 : tensor<4xf32>
// CHECK-NEXT: }
// CHECK-NEXT: %i, %v = flow.while carry (%n_1 = %i0, %s = %r) : (tensor<i64>, tensor<4xf32>) {
// CHECK-NEXT: %m = torch.aten "lt.Scalar"(self = %n_1) {other = 10} : (tensor<i64>) -> tensor<i1>
// CHECK-NEXT: flow.yield %m : tensor<i1>
// CHECK-NEXT: } do (%n_2, %s_1) {
// CHECK-NEXT: %m_1 = torch.aten "add.Scalar"(self = %n_2) {other = 1} : (tensor<i64>) -> tensor<i64>
// CHECK-NEXT: %t = torch.aten "mul.Tensor"(self = %s_1, other = %r) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
// CHECK-NEXT: flow.yield %m_1, %t : tensor<i64>, tensor<4xf32>
// CHECK-NEXT: }
// CHECK-NEXT: func.return %v, %y, %i : tensor<4xf32>, tensor<5x4xf32>, tensor<i64>
// CHECK-NEXT: }
func.func @main(%p: tensor<i1>, %x: tensor<5x4xf32>, %h0: tensor<4xf32>, %i0: tensor<i64>) -> (tensor<4xf32>, tensor<5x4xf32>, tensor<i64>) {
  %h, %y = flow.for 5 carry (%c = %h0) scan (%x_t = %x) : (tensor<4xf32>), (tensor<5x4xf32>) -> (tensor<4xf32>), (tensor<5x4xf32>) {
    %n = torch.aten "add.Tensor"(self = %c, other = %x_t) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    flow.yield %n, %n : tensor<4xf32>, tensor<4xf32>
  }
  %r = flow.if %p : tensor<i1> -> (tensor<4xf32>) {
    flow.yield %h : tensor<4xf32>
  } else {
    flow.yield %h0 : tensor<4xf32>
  }
  %i, %v = flow.while carry (%n = %i0, %s = %r) : (tensor<i64>, tensor<4xf32>) {
    %m = torch.aten "lt.Scalar"(self = %n) {other = 10} : (tensor<i64>) -> tensor<i1>
    flow.yield %m : tensor<i1>
  } do (%n, %s) {
    %m = torch.aten "add.Scalar"(self = %n) {other = 1} : (tensor<i64>) -> tensor<i64>
    %t = torch.aten "mul.Tensor"(self = %s, other = %r) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    flow.yield %m, %t : tensor<i64>, tensor<4xf32>
  }
  func.return %v, %y, %i : tensor<4xf32>, tensor<5x4xf32>, tensor<i64>
}

// CHECK: %y = flow.for s + 1 carry () scan (%x_t = %x) : (), (tensor<?x4xf32, #size.of<s + 1>>) -> (), (tensor<?x4xf32, #size.of<s + 1>>) {
size.symbol @s from 2
func.func @sized(%x: tensor<?x4xf32, #size.of<s + 1>>) -> tensor<?x4xf32, #size.of<s + 1>> {
  %y = flow.for s + 1 carry () scan (%x_t = %x) : (), (tensor<?x4xf32, #size.of<s + 1>>) -> (), (tensor<?x4xf32, #size.of<s + 1>>) {
    %n = torch.aten "relu.default"(self = %x_t) : (tensor<4xf32>) -> tensor<4xf32>
    flow.yield %n : tensor<4xf32>
  }
  func.return %y : tensor<?x4xf32, #size.of<s + 1>>
}
