// RUN: dlc-opt %s | filecheck %s
// RUN: DLC_ROUNDTRIP

// CHECK: %y = tensor_ir.scatter_add (%a, %b) %x (d0, d1) -> [i0, i1 * 2, d1] : (tensor<9x8xi64>, tensor<9x8xi64>), tensor<9x8xi32> -> tensor<4x6x8xi32>
// CHECK: %z = tensor_ir.scatter_add () %v () -> [] : (), tensor<i64> -> tensor<i64> {note}
%x, %v, %a, %b = "test.op"() : () -> (tensor<9x8xi32>, tensor<i64>, tensor<9x8xi64>, tensor<9x8xi64>)
%y = tensor_ir.scatter_add (%a, %b) %x (d0, d1) -> [i0, i1 * 2, d1] : (tensor<9x8xi64>, tensor<9x8xi64>), tensor<9x8xi32> -> tensor<4x6x8xi32>
%z = tensor_ir.scatter_add () %v () -> [] : (), tensor<i64> -> tensor<i64> {note}
