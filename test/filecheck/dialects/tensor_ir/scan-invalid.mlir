// RUN: dlc-opt %s --split-input-file --verify-diagnostics | filecheck %s

// CHECK: expected an axis from 0 to 1, found 2
%x = "test.op"() : () -> tensor<4x8xf32>
%s = tensor_ir.scan add along 2 (%x) : tensor<4x8xf32> -> tensor<4x8xf32>

// -----

// CHECK: expected results of the types of the inputs
%x = "test.op"() : () -> tensor<4x8xf32>
%s = tensor_ir.scan add along 1 (%x) : tensor<4x8xf32> -> tensor<4xf32>

// -----

// CHECK: expected inputs of one shape
%x, %y = "test.op"() : () -> (tensor<4x8xf32>, tensor<8xf32>)
%s, %t = tensor_ir.scan add along 0 (%x, %y) : tensor<4x8xf32>, tensor<8xf32> -> (tensor<4x8xf32>, tensor<8xf32>)

// -----

// CHECK: expected a monoid (add,
%x = "test.op"() : () -> tensor<4x8xf32>
%s = tensor_ir.scan sub along 1 (%x) : tensor<4x8xf32> -> tensor<4x8xf32>
