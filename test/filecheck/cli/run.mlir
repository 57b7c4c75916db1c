// A module of any IR runs on random inputs; a program is checked against fp64.

// RUN: dlc run --backend host %s | filecheck %s
// CHECK: kernel {{ *}} grid  block  shared bytes  time (host)
// CHECK: relu
// CHECK: result  shape {{ *}} error vs fp64 {{ *}} eager's {{ *}} bound
// CHECK-NEXT: ---
// CHECK-NEXT: 0  [64, 1000] {{.*}} OK

// RUN: dlc compile %s --ir tile | dlc run --backend host - | filecheck %s --check-prefix=TILE
// TILE: result  shape {{ *}} mean {{ *}} min {{ *}} max {{ *}} sum

// RUN: dlc compile %s --ir tile | dlc run --backend host - -c "torch.relu(torch.randn(64, 1000))" | filecheck %s --check-prefix=RIGHT
// RIGHT: [64, 1000] {{.*}} OK

// RUN: not dlc run --backend host %s --order sideways 2>&1 | filecheck %s --check-prefix=USAGE
// USAGE: error: argument --order: invalid choice: 'sideways'

func.func @main(%x: tensor<64x1000xf32>) -> tensor<64x1000xf32> {
  %relu = torch.aten "relu.default"(self = %x) : (tensor<64x1000xf32>) -> tensor<64x1000xf32>
  func.return %relu : tensor<64x1000xf32>
}
