// RUN: dlc-opt %s | filecheck %s
// RUN: DLC_ROUNDTRIP

// CHECK: %s, %t = tensor_ir.sort first 3 along 1 (%x, %n) : tensor<4x8xi32>, tensor<4x8xi64> -> (tensor<4x3xi32>, tensor<4x3xi64>)
// CHECK: %u = tensor_ir.sort bitonic first 8 along 1 (%x) : tensor<4x8xi32> -> tensor<4x8xi32>
%x, %n = "test.op"() : () -> (tensor<4x8xi32>, tensor<4x8xi64>)
%s, %t = tensor_ir.sort first 3 along 1 (%x, %n) : tensor<4x8xi32>, tensor<4x8xi64> -> (tensor<4x3xi32>, tensor<4x3xi64>)
%u = tensor_ir.sort bitonic first 8 along 1 (%x) : tensor<4x8xi32> -> tensor<4x8xi32>
