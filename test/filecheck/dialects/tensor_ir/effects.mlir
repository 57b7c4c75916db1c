// RUN: dlc-opt %s -p cse,dce | filecheck %s

// All operations are pure: equal ones merge, unused ones go.

// CHECK-LABEL: @f
// CHECK-NEXT: %a = tensor_ir.index_map
// CHECK-NEXT: %s = tensor_ir.elementwise (%0 = %a, %1 = %a)
// CHECK-NEXT: arith.addf
// CHECK-NEXT: tensor_ir.yield
// CHECK-NEXT: }
// CHECK-NEXT: return
func.func @f(%x: tensor<4xf32>, %i: tensor<4xi64>) -> tensor<4xf32> {
  %c = tensor_ir.constant 1.5 : f32 -> tensor<4xf32>
  %n = tensor_ir.iota along 0 -> tensor<4xi64>
  %g = tensor_ir.gather (%i) (d0) -> %x[i0] : (tensor<4xi64>), tensor<4xf32> -> tensor<4xf32>
  %r = tensor_ir.reduce add over [0] (%g) : tensor<4xf32> -> tensor<f32>
  %a = tensor_ir.index_map (d0) -> %x[-d0 + 3] : tensor<4xf32> -> tensor<4xf32>
  %b = tensor_ir.index_map (d0) -> %x[-d0 + 3] : tensor<4xf32> -> tensor<4xf32>
  %s = tensor_ir.elementwise (%0 = %a, %1 = %b) : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32> {
    %2 = arith.addf %0, %1 : f32
    tensor_ir.yield %2 : f32
  }
  func.return %s : tensor<4xf32>
}
