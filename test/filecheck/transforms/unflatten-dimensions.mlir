// RUN: dlc-opt %s -p unflatten-dimensions | dlc-opt | filecheck %s
// RUN: dlc-opt %s -p 'specialize{sizes="b=2,s=3"},compose-index-maps' | filecheck %s --check-prefix=BOUND

size.symbol @b from 2
size.symbol @s from 2

// What is computed over joined sizes is computed over each; a sum over them folds both.

// CHECK-LABEL: @joined
// CHECK-NEXT: %g = tensor_ir.elementwise (%a = %x) : tensor<?x?x4xf32, #size.of<b, s>> -> tensor<?x?x4xf32, #size.of<b, s>>
// CHECK: %y = tensor_ir.reduce add over [0, 1] (%g) : tensor<?x?x4xf32, #size.of<b, s>> -> tensor<4xf32>
// CHECK-NEXT: return %g, %y
// BOUND-LABEL: @joined
// BOUND-NEXT: %f = tensor_ir.index_map (d0, d1) -> %x[d0 floordiv 3, d0 mod 3, d1] : tensor<2x3x4xf32> -> tensor<6x4xf32>
func.func @joined(%x: tensor<?x?x4xf32, #size.of<b, s>>) -> (tensor<?x?x4xf32, #size.of<b, s>>, tensor<4xf32>) {
  %f = size.reshape %x : tensor<?x?x4xf32, #size.of<b, s>> -> tensor<?x4xf32, #size.of<b * s>>
  %g = tensor_ir.elementwise (%a = %f) : tensor<?x4xf32, #size.of<b * s>> -> tensor<?x4xf32, #size.of<b * s>> {
    %0 = arith.addf %a, %a : f32
    tensor_ir.yield %0 : f32
  }
  %y = tensor_ir.reduce add over [0] (%g) : tensor<?x4xf32, #size.of<b * s>> -> tensor<4xf32>
  %h = size.reshape %g : tensor<?x4xf32, #size.of<b * s>> -> tensor<?x?x4xf32, #size.of<b, s>>
  func.return %h, %y : tensor<?x?x4xf32, #size.of<b, s>>, tensor<4xf32>
}

// A transposition is read at the dimensions that are apart, and what is returned lies in memory as it was.

// CHECK-LABEL: @returned
// CHECK-NEXT: %w_1 = tensor_ir.index_map (d0, d1, d2) -> %w[d2] : tensor<4xf32> -> tensor<?x?x4xf32, #size.of<b, s>>
// CHECK-NEXT: %z = tensor_ir.index_map (d0, d1, d2) -> %w_1[d1, d2, d0] : tensor<?x?x4xf32, #size.of<b, s>> -> tensor<4x?x?xf32, #size.of<b, s>>
// CHECK-NEXT: %z_1 = size.reshape %z : tensor<4x?x?xf32, #size.of<b, s>> -> tensor<4x?xf32, #size.of<b * s>>
// CHECK-NEXT: return %z_1
func.func @returned(%x: tensor<?x?x4xf32, #size.of<b, s>>, %w: tensor<4xf32>) -> tensor<4x?xf32, #size.of<b * s>> {
  %f = size.reshape %x : tensor<?x?x4xf32, #size.of<b, s>> -> tensor<?x4xf32, #size.of<b * s>>
  %w_1 = tensor_ir.index_map (d0, d1) -> %w[d1] : tensor<4xf32> -> tensor<?x4xf32, #size.of<b * s>>
  %u = tensor_ir.elementwise (%a = %f, %c = %w_1) : tensor<?x4xf32, #size.of<b * s>>, tensor<?x4xf32, #size.of<b * s>> -> tensor<?x4xf32, #size.of<b * s>> {
    tensor_ir.yield %c : f32
  }
  %z = tensor_ir.index_map (d0, d1) -> %w_1[d1, d0] : tensor<?x4xf32, #size.of<b * s>> -> tensor<4x?xf32, #size.of<b * s>>
  func.return %z : tensor<4x?xf32, #size.of<b * s>>
}

// A row that goes by a number is read of the tensor as it was, also of what `@main` is given.

// CHECK-LABEL: @of_an_argument
// CHECK-NEXT: %x_1 = size.reshape %x : tensor<?x?x4xf32, #size.of<b, s>> -> tensor<?x4xf32, #size.of<b * s>>
// CHECK-NEXT: %y = tensor_ir.index_map (d0) -> %x_1[0, d0] : tensor<?x4xf32, #size.of<b * s>> -> tensor<4xf32>
func.func @of_an_argument(%x: tensor<?x?x4xf32, #size.of<b, s>>) -> tensor<4xf32> {
  %f = size.reshape %x : tensor<?x?x4xf32, #size.of<b, s>> -> tensor<?x4xf32, #size.of<b * s>>
  %y = tensor_ir.index_map (d0) -> %f[0, d0] : tensor<?x4xf32, #size.of<b * s>> -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}

// The last row goes by a number: it is read of the tensor as it was.

// CHECK-LABEL: @numbered
// CHECK: %g_1 = size.reshape %g : tensor<?x?x4xf32, #size.of<b, s>> -> tensor<?x4xf32, #size.of<b * s>>
// CHECK: tensor_ir.index_map (d0) -> %g_1[0, d0] : tensor<?x4xf32, #size.of<b * s>> -> tensor<4xf32>
func.func @numbered(%x: tensor<?x?x4xf32, #size.of<b, s>>) -> tensor<4xf32> {
  %f = size.reshape %x : tensor<?x?x4xf32, #size.of<b, s>> -> tensor<?x4xf32, #size.of<b * s>>
  %g = tensor_ir.elementwise (%a = %f) : tensor<?x4xf32, #size.of<b * s>> -> tensor<?x4xf32, #size.of<b * s>> {
    %0 = arith.addf %a, %a : f32
    tensor_ir.yield %0 : f32
  }
  %y = tensor_ir.index_map (d0) -> %g[0, d0] : tensor<?x4xf32, #size.of<b * s>> -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}
