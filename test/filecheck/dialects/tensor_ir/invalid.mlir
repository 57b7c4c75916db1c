// RUN: dlc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

func.func @f(%x: tensor<4x4xf32>, %i: tensor<4xi64>) {
  // CHECK: expected a scalar of type f32, found 1 : i32
  %0 = tensor_ir.constant 1 : i32 -> tensor<4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<4x4xf32>, %i: tensor<4xi64>) {
  // CHECK: expected an axis from 0 to 0, found 1
  %0 = tensor_ir.iota along 1 -> tensor<4xi64>
  func.return
}

// -----

func.func @f(%x: tensor<4x4xf32>, %i: tensor<4xi64>) {
  // CHECK: expected integers, found f32
  %0 = tensor_ir.iota along 0 -> tensor<4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<4x4xf32>, %i: tensor<4xi64>) {
  // CHECK: expected one shape for all operands and results, found 4, 4x4
  %0 = tensor_ir.elementwise (%a = %x) : tensor<4x4xf32> -> tensor<4xf32> {
    tensor_ir.yield %a : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<4x4xf32>, %i: tensor<4xi64>) {
  // CHECK: expected a body that yields i64, found f32
  %0 = tensor_ir.elementwise (%a = %x) : tensor<4x4xf32> -> tensor<4x4xi64> {
    tensor_ir.yield %a : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<4x4xf32>, %i: tensor<4xi64>) {
  // CHECK: expected a block argument per input, of its element type
  %0 = "tensor_ir.elementwise"(%x) ({
  ^bb0(%a: f64):
    tensor_ir.yield %a : f64
  }) : (tensor<4x4xf32>) -> tensor<4x4xf64>
  func.return
}

// -----

func.func @f(%x: tensor<4x4xf32>, %i: tensor<4xi64>) {
  // CHECK: expected to stand in a tensor_ir.elementwise
  %c = arith.constant 1.0 : f32
  tensor_ir.yield %c : f32
}

// -----

func.func @f(%x: tensor<4x4xf32>, %i: tensor<4xi64>) {
  // CHECK: expected a monoid (add, mul, max, min, and, or, argmax, argmin, expsum, exp2sum, moments, argmax_last, argmin_last, logaddexp), found 'xor'
  %0 = tensor_ir.reduce xor over [1] (%x) : tensor<4x4xf32> -> tensor<4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<4x4xf32>, %i: tensor<4xi64>) {
  // CHECK: expected 2 results for the monoid 'argmax', found 1
  %0 = tensor_ir.reduce argmax over [1] (%x) : tensor<4x4xf32> -> tensor<4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<4x4xf32>, %i: tensor<4xi64>) {
  // CHECK: expected different axes from 0 to 1, found [2]
  %0 = tensor_ir.reduce add over [2] (%x) : tensor<4x4xf32> -> tensor<4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<4x4xf32>, %i: tensor<4xi64>) {
  // CHECK: expected different axes from 0 to 1, found [1, 1]
  %0 = tensor_ir.reduce add over [1, 1] (%x) : tensor<4x4xf32> -> tensor<4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<4x4xf32>, %i: tensor<4xi64>) {
  // CHECK: expected results of type tensor<4xf32>, found tensor<4x4xf32>
  %0 = tensor_ir.reduce add over [1] (%x) : tensor<4x4xf32> -> tensor<4x4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<4x4xf32>, %i: tensor<4xi64>) {
  // CHECK: expected inputs of one shape
  %0, %1 = tensor_ir.reduce argmax over [0] (%x, %i) : tensor<4x4xf32>, tensor<4xi64> -> (tensor<4xf32>, tensor<4xi64>)
  func.return
}

// -----

func.func @f(%x: tensor<4x4xf32>, %i: tensor<4xi64>) {
  // CHECK: expected at least one source, each with a map and a condition
  %0 = "tensor_ir.index_map"(%x) <{maps = [], conditions = []}> : (tensor<4x4xf32>) -> tensor<4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<4x4xf32>, %i: tensor<4xi64>) {
  // CHECK: expected sources of element type f64, found f32
  %0 = tensor_ir.index_map (d0) -> %x[d0, d0] : tensor<4x4xf32> -> tensor<4xf64>
  func.return
}

// -----

func.func @f(%x: tensor<4x4xf32>, %i: tensor<4xi64>) {
  // CHECK: expected maps over the result's 1 dimensions
  %0 = "tensor_ir.index_map"(%x) <{maps = [affine_map<(d0, d1) -> (d0, d1)>], conditions = [affine_map<(d0) -> ()>]}> : (tensor<4x4xf32>) -> tensor<4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<4x4xf32>, %i: tensor<4xi64>) {
  // CHECK: expected 2 subscripts for tensor<4x4xf32>, found 1
  %0 = tensor_ir.index_map (d0) -> %x[d0] : tensor<4x4xf32> -> tensor<4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<4x4xf32>, %i: tensor<4xi64>) {
  // CHECK: expected `else` and a scalar after a conditional last source
  %0 = tensor_ir.index_map (d0) -> %x[d0, d0] where (d0 < 3) : tensor<4x4xf32> -> tensor<4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<4x4xf32>, %i: tensor<4xi64>) {
  // CHECK: expected a scalar of type f32, found 0 : i64
  %0 = tensor_ir.index_map (d0) -> %x[d0, d0] where (d0 < 3) else 0 : i64 : tensor<4x4xf32> -> tensor<4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<4x4xf32>, %i: tensor<4xi64>) {
  // CHECK: expected dimensions (d0, d1)
  %0 = tensor_ir.index_map (a, b) -> %x[a, b] : tensor<4x4xf32> -> tensor<4x4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<4x4xf32>, %i: tensor<4xi64>) {
  // CHECK: expected a result of rank 1
  %0 = tensor_ir.index_map (d0) -> %x[d0, d0] : tensor<4x4xf32> -> tensor<4x4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<4x4xf32>, %i: tensor<4xi64>) {
  // CHECK: expected index tensors of the result's shape 4x4, found tensor<4xi64>
  %0 = tensor_ir.gather (%i) (d0, d1) -> %x[i0, d1] : (tensor<4xi64>), tensor<4x4xf32> -> tensor<4x4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<4x4xf32>, %i: tensor<4xi64>) {
  // CHECK: expected indices of type i64, found f32
  %0 = tensor_ir.gather (%x) (d0, d1) -> %x[i0, d1] : (tensor<4x4xf32>), tensor<4x4xf32> -> tensor<4x4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<4x4xf32>, %i: tensor<4xi64>) {
  // CHECK: expected a map over 1 dimensions and 1 indices
  %0 = "tensor_ir.gather"(%x, %i) <{map = affine_map<(d0) -> (d0, d0)>}> : (tensor<4x4xf32>, tensor<4xi64>) -> tensor<4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<4x4xf32>, %i: tensor<4xi64>) {
  // CHECK: expected 2 subscripts for tensor<4x4xf32>, found 1
  %0 = tensor_ir.gather (%i) (d0) -> %x[i0] : (tensor<4xi64>), tensor<4x4xf32> -> tensor<4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<4x4xf32>, %i: tensor<4xi64>) {
  // CHECK: expected a result of element type f32, found f64
  %0 = tensor_ir.gather (%i) (d0) -> %x[i0, d0] : (tensor<4xi64>), tensor<4x4xf32> -> tensor<4xf64>
  func.return
}

// -----

func.func @f(%x: tensor<4x4xf32>, %i: tensor<4xi64>) {
  // CHECK: expected a tensor type, found f32
  %0 = tensor_ir.constant 1.0 : f32 -> f32
  func.return
}

// -----

func.func @f(%x: tensor<4x4xf32>, %i: tensor<4xi64>) {
  // CHECK: expected ':'
  %0 = tensor_ir.gather (%i) (d0) -> %x[i0, d0] where (d0 < 3) : (tensor<4xi64>), tensor<4x4xf32> -> tensor<4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<4x4xf32>, %i: tensor<4xi64>) {
  // CHECK: expected one of d0
  %0 = tensor_ir.index_map (d0) -> %x[d0, d1] : tensor<4x4xf32> -> tensor<4xf32>
  func.return
}
