// RUN: dlc-opt %s --split-input-file --verify-diagnostics | filecheck %s

// CHECK: expected where runs begin and end, i64 of the result's shape 4, found tensor<4xi32>, tensor<4xi32>
%x, %a = "test.op"() : () -> (tensor<9xf32>, tensor<4xi32>)
%y = tensor_ir.fold add about 2 (%a, %a) (d0) -> %x[i0] : (tensor<4xi32>, tensor<4xi32>), tensor<9xf32> -> tensor<4xf32>

// -----

// CHECK: expected where runs begin and end, i64 of the result's shape 4, found tensor<4xi64>
%x, %a = "test.op"() : () -> (tensor<9xf32>, tensor<4xi64>)
%y = tensor_ir.fold add about 2 (%a) (d0) -> %x[i0] : (tensor<4xi64>), tensor<9xf32> -> tensor<4xf32>

// -----

// CHECK: expected one subscript that is the place, which no other has
%x, %a = "test.op"() : () -> (tensor<9x4xf32>, tensor<4xi64>)
%y = tensor_ir.fold add about 2 (%a, %a) (d0) -> %x[i0, i0 + d0] : (tensor<4xi64>, tensor<4xi64>), tensor<9x4xf32> -> tensor<4xf32>

// -----

// CHECK: expected 2 subscripts over 1 dimensions and a place, found 1 over 1
%x, %a = "test.op"() : () -> (tensor<9x4xf32>, tensor<4xi64>)
%y = tensor_ir.fold add about 2 (%a, %a) (d0) -> %x[i0] : (tensor<4xi64>, tensor<4xi64>), tensor<9x4xf32> -> tensor<4xf32>

// -----

// CHECK: expected a result of element type f32, found i32
%x, %a = "test.op"() : () -> (tensor<9xf32>, tensor<4xi64>)
%y = tensor_ir.fold add about 2 (%a, %a) (d0) -> %x[i0] : (tensor<4xi64>, tensor<4xi64>), tensor<9xf32> -> tensor<4xi32>

// -----

// CHECK: expected about 1 place or more, found 0
%x, %a = "test.op"() : () -> (tensor<9xf32>, tensor<4xi64>)
%y = tensor_ir.fold add about 0 (%a, %a) (d0) -> %x[i0] : (tensor<4xi64>, tensor<4xi64>), tensor<9xf32> -> tensor<4xf32>
