// RUN: dlc-opt %s --split-input-file --verify-diagnostics | filecheck %s

// CHECK: expected i32 or i64 to add at places that are data, found f32: blocks add in any order, in which sums of floats are rounded
%x, %f, %a, %b = "test.op"() : () -> (tensor<9xi32>, tensor<9xf32>, tensor<9xi64>, tensor<4xi64>)
%y = tensor_ir.scatter_add (%a) %f (d0) -> [i0] : (tensor<9xi64>), tensor<9xf32> -> tensor<4xf32>

// -----

// CHECK: expected indices of type i64 and shape 9, found tensor<4xi64>
%x, %f, %a, %b = "test.op"() : () -> (tensor<9xi32>, tensor<9xf32>, tensor<9xi64>, tensor<4xi64>)
%y = tensor_ir.scatter_add (%b) %x (d0) -> [i0] : (tensor<4xi64>), tensor<9xi32> -> tensor<4xi32>

// -----

// CHECK: expected indices of type i64 and shape 9, found tensor<9xi32>
%x, %f, %a, %b = "test.op"() : () -> (tensor<9xi32>, tensor<9xf32>, tensor<9xi64>, tensor<4xi64>)
%y = tensor_ir.scatter_add (%x) %x (d0) -> [i0] : (tensor<9xi32>), tensor<9xi32> -> tensor<4xi32>

// -----

// CHECK: expected a map over 1 dimensions and 1 indices
%x, %f, %a, %b = "test.op"() : () -> (tensor<9xi32>, tensor<9xf32>, tensor<9xi64>, tensor<4xi64>)
%y = tensor_ir.scatter_add (%a) %x (d0, d1) -> [i0] : (tensor<9xi64>), tensor<9xi32> -> tensor<4xi32>

// -----

// CHECK: expected 2 subscripts for tensor<4x2xi32>, found 1
%x, %f, %a, %b = "test.op"() : () -> (tensor<9xi32>, tensor<9xf32>, tensor<9xi64>, tensor<4xi64>)
%y = tensor_ir.scatter_add (%a) %x (d0) -> [i0] : (tensor<9xi64>), tensor<9xi32> -> tensor<4x2xi32>

// -----

// CHECK: expected a result of element type i32, found i64
%x, %f, %a, %b = "test.op"() : () -> (tensor<9xi32>, tensor<9xf32>, tensor<9xi64>, tensor<4xi64>)
%y = tensor_ir.scatter_add (%a) %x (d0) -> [i0] : (tensor<9xi64>), tensor<9xi32> -> tensor<4xi64>
