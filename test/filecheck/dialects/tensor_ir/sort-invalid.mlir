// RUN: dlc-opt %s --split-input-file --verify-diagnostics | filecheck %s

// CHECK: expected an axis from 0 to 1, found 2
%x = "test.op"() : () -> tensor<4x8xi32>
%s = tensor_ir.sort first 8 along 2 (%x) : tensor<4x8xi32> -> tensor<4x8xi32>

// -----

// CHECK: expected results of the types of the inputs, of 3 elements along the axis
%x = "test.op"() : () -> tensor<4x8xi32>
%s = tensor_ir.sort first 3 along 1 (%x) : tensor<4x8xi32> -> tensor<4x8xi32>

// -----

// CHECK: expected inputs of one shape
%x, %y = "test.op"() : () -> (tensor<4x8xi32>, tensor<8xi32>)
%s, %t = tensor_ir.sort first 4 along 0 (%x, %y) : tensor<4x8xi32>, tensor<8xi32> -> (tensor<4x8xi32>, tensor<4xi32>)

// -----

// CHECK: expected i32 or i64 to sort, found f32
%x = "test.op"() : () -> tensor<4x8xf32>
%s = tensor_ir.sort first 8 along 1 (%x) : tensor<4x8xf32> -> tensor<4x8xf32>

// -----

// CHECK: expected a power of two of points to sort, found 6
%x = "test.op"() : () -> tensor<4x6xi32>
%s = tensor_ir.sort first 6 along 1 (%x) : tensor<4x6xi32> -> tensor<4x6xi32>

// -----

// CHECK: expected the first 1 to 8 elements, found 9
%x = "test.op"() : () -> tensor<4x8xi32>
%s = tensor_ir.sort first 9 along 1 (%x) : tensor<4x8xi32> -> tensor<4x9xi32>

// -----

// CHECK: expected a number of points to sort, found a size
size.symbol @n from 2
%x = "test.op"() : () -> tensor<?xi32, #size.of<n>>
%s = tensor_ir.sort first 1 along 0 (%x) : tensor<?xi32, #size.of<n>> -> tensor<1xi32>
