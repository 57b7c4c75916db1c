// RUN: dlc-opt %s -p dce | filecheck %s

// An operation without a use computes nothing that is seen.
// CHECK-LABEL: @main
// CHECK-NEXT: func.return %x
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = torch.aten "relu.default"(self = %x) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %x : tensor<4xf32>
}
