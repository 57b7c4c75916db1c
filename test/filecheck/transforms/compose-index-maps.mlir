// RUN: dlc-opt %s -p compose-index-maps --split-input-file | filecheck %s

// Maps compose, and what division and remainder of reshapes give is simplified with the extents.

// CHECK-LABEL: @heads
// CHECK-NEXT: %t = tensor_ir.index_map (d0, d1, d2, d3) -> %x[d0, d2, d1 * 4 + d3] : tensor<2x5x12xf32> -> tensor<2x3x5x4xf32>
// CHECK-NEXT: return %t, %x
func.func @heads(%x: tensor<2x5x12xf32>) -> (tensor<2x3x5x4xf32>, tensor<2x5x12xf32>) {
  %v = tensor_ir.index_map (d0, d1, d2, d3) -> %x[d0, d1, d2 * 4 + d3] : tensor<2x5x12xf32> -> tensor<2x5x3x4xf32>
  %t = tensor_ir.index_map (d0, d1, d2, d3) -> %v[d0, d2, d1, d3] : tensor<2x5x3x4xf32> -> tensor<2x3x5x4xf32>
  %u = tensor_ir.index_map (d0, d1, d2, d3) -> %t[d0, d2, d1, d3] : tensor<2x3x5x4xf32> -> tensor<2x5x3x4xf32>
  %y = tensor_ir.index_map (d0, d1, d2) -> %u[d0, d1, d2 floordiv 4, d2 mod 4] : tensor<2x5x3x4xf32> -> tensor<2x5x12xf32>
  func.return %t, %y : tensor<2x3x5x4xf32>, tensor<2x5x12xf32>
}

// -----

// Conditions are and-ed, sources flattened, a final scalar carries over; sure conditions go.

// CHECK-LABEL: @pad_of_cat
// CHECK-NEXT: %p = tensor_ir.index_map (d0) -> %x[d0 - 1] where (d0 >= 1, d0 < 5), %y[d0 - 5] where (d0 >= 1, d0 < 8) else 0.000000e+00 : f32 : tensor<4xf32>, tensor<3xf32> -> tensor<9xf32>
// CHECK-NEXT: return %p
func.func @pad_of_cat(%x: tensor<4xf32>, %y: tensor<3xf32>) -> tensor<9xf32> {
  %c = tensor_ir.index_map (d0) -> %x[d0] where (d0 < 4), %y[d0 - 4] : tensor<4xf32>, tensor<3xf32> -> tensor<7xf32>
  %p = tensor_ir.index_map (d0) -> %c[d0 - 1] where (d0 >= 1, d0 < 8) else 0.0 : f32 : tensor<7xf32> -> tensor<9xf32>
  func.return %p : tensor<9xf32>
}

// -----

// The scalar of an inner map does not hide the sources that come after it.

// CHECK-LABEL: @cat_of_pad
// CHECK-NEXT: %constant = tensor_ir.constant 0.000000e+00 : f32 -> tensor<f32>
// CHECK-NEXT: %c = tensor_ir.index_map (d0) -> %x[d0] where (d0 < 4), %constant[] where (d0 < 6), %x[d0 - 6]
func.func @cat_of_pad(%x: tensor<4xf32>) -> tensor<10xf32> {
  %p = tensor_ir.index_map (d0) -> %x[d0] where (d0 < 4) else 0.0 : f32 : tensor<4xf32> -> tensor<6xf32>
  %c = tensor_ir.index_map (d0) -> %p[d0] where (d0 < 6), %x[d0 - 6] : tensor<6xf32>, tensor<4xf32> -> tensor<10xf32>
  func.return %c : tensor<10xf32>
}

// -----

// A slice that misses a source does not mention it.

// CHECK-LABEL: @slice_of_cat
// CHECK-NEXT: %s = tensor_ir.index_map (d0) -> %y[d0 + 1] : tensor<3xf32> -> tensor<2xf32>
func.func @slice_of_cat(%x: tensor<4xf32>, %y: tensor<3xf32>) -> tensor<2xf32> {
  %c = tensor_ir.index_map (d0) -> %x[d0] where (d0 < 4), %y[d0 - 4] : tensor<4xf32>, tensor<3xf32> -> tensor<7xf32>
  %s = tensor_ir.index_map (d0) -> %c[d0 + 5] : tensor<7xf32> -> tensor<2xf32>
  func.return %s : tensor<2xf32>
}

// -----

// Constants: everywhere, in part, and where nothing is left to choose.

// CHECK-LABEL: @constants
// CHECK:      %b = tensor_ir.constant 2.000000e+00 : f32 -> tensor<4x6xf32>
// CHECK:      %t = tensor_ir.index_map (d0, d1) -> %constant[] where (d0 - d1 >= 0) else 0.000000e+00 : f32 : tensor<f32> -> tensor<4x6xf32>
// CHECK-NEXT: %u = tensor_ir.constant 2.000000e+00 : f32 -> tensor<4x6xf32>
func.func @constants() -> (tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>) {
  %c = tensor_ir.constant 2.0 : f32 -> tensor<6xf32>
  %b = tensor_ir.index_map (d0, d1) -> %c[d1] : tensor<6xf32> -> tensor<4x6xf32>
  %t = tensor_ir.index_map (d0, d1) -> %b[d0, d1] where (d0 - d1 >= 0) else 0.0 : f32 : tensor<4x6xf32> -> tensor<4x6xf32>
  %u = tensor_ir.index_map (d0, d1) -> %b[d0, d1] where (d0 - d1 >= 0) else 2.0 : f32 : tensor<4x6xf32> -> tensor<4x6xf32>
  func.return %b, %t, %u : tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>
}

// -----

// A gather reads through an index map of one source.

// CHECK-LABEL: @gather
// CHECK-NEXT: tensor_ir.gather (%i) (d0, d1) -> %x[d1, i0] : (tensor<2x4xi64>), tensor<4x6xf32> -> tensor<2x4xf32>
func.func @gather(%x: tensor<4x6xf32>, %i: tensor<2x4xi64>) -> tensor<2x4xf32> {
  %t = tensor_ir.index_map (d0, d1) -> %x[d1, d0] : tensor<4x6xf32> -> tensor<6x4xf32>
  %y = tensor_ir.gather (%i) (d0, d1) -> %t[i0, d1] : (tensor<2x4xi64>), tensor<6x4xf32> -> tensor<2x4xf32>
  func.return %y : tensor<2x4xf32>
}

// -----

// What is joined before a loop stays: each turn would choose among the tensors anew.

// CHECK-LABEL: @joined_before_a_loop
// CHECK-NEXT: %w = tensor_ir.index_map (d0, d1) -> %a[d1] where (d0 < 1), %b[d1]
// CHECK:        %v = tensor_ir.index_map (d0, d1) -> %w[d1, d0] : tensor<2x4xf32> -> tensor<4x2xf32>
// CHECK-NEXT:   %u = tensor_ir.index_map (d0, d1) -> %x[d1, d0] : tensor<2x4xf32> -> tensor<4x2xf32>
func.func @joined_before_a_loop(%x: tensor<2x4xf32>, %a: tensor<4xf32>, %b: tensor<4xf32>) -> (tensor<3x4x2xf32>, tensor<3x4x2xf32>) {
  %w = tensor_ir.index_map (d0, d1) -> %a[d1] where (d0 < 1), %b[d1] : tensor<4xf32>, tensor<4xf32> -> tensor<2x4xf32>
  %i = tensor_ir.index_map (d0, d1) -> %x[d0, d1] : tensor<2x4xf32> -> tensor<2x4xf32>
  %p, %q = flow.for 3 carry () scan () : (), () -> (), (tensor<3x4x2xf32>, tensor<3x4x2xf32>) {
    %v = tensor_ir.index_map (d0, d1) -> %w[d1, d0] : tensor<2x4xf32> -> tensor<4x2xf32>
    %u = tensor_ir.index_map (d0, d1) -> %i[d1, d0] : tensor<2x4xf32> -> tensor<4x2xf32>
    flow.yield %v, %u : tensor<4x2xf32>, tensor<4x2xf32>
  }
  func.return %p, %q : tensor<3x4x2xf32>, tensor<3x4x2xf32>
}
