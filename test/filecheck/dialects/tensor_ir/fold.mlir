// RUN: dlc-opt %s | filecheck %s
// RUN: DLC_ROUNDTRIP

// CHECK: %y = tensor_ir.fold add about 2 (%a, %b) (d0, d1) -> %x[i0, d1] : (tensor<4x8xi64>, tensor<4x8xi64>), tensor<9x8xf32> -> tensor<4x8xf32>
// CHECK: %z = tensor_ir.fold max about 3 (%c, %c) () -> %v[i0] : (tensor<i64>, tensor<i64>), tensor<9xi32> -> tensor<i32>
%x, %v, %a, %b, %c = "test.op"() : () -> (tensor<9x8xf32>, tensor<9xi32>, tensor<4x8xi64>, tensor<4x8xi64>, tensor<i64>)
%y = tensor_ir.fold add about 2 (%a, %b) (d0, d1) -> %x[i0, d1] : (tensor<4x8xi64>, tensor<4x8xi64>), tensor<9x8xf32> -> tensor<4x8xf32>
%z = tensor_ir.fold max about 3 (%c, %c) () -> %v[i0] : (tensor<i64>, tensor<i64>), tensor<9xi32> -> tensor<i32>
