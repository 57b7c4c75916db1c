// RUN: dlc-opt %s --split-input-file -p canonicalize | filecheck %s
// RUN: dlc-opt %s --split-input-file -p cse | filecheck %s --check-prefix CSE
// RUN: dlc-opt %s --split-input-file -p dce | filecheck %s --check-prefix DCE

// Index maps compose and vanish where they change nothing, gathers read through them, constants
// move into bodies, and what depends on them alone is computed, one after the other.

// CHECK-LABEL: func.func @main
// CHECK-NEXT:  %e = tensor_ir.elementwise (%a = %x) : tensor<4x3xf32> -> tensor<4x3xf32> {
// CHECK-NEXT:    %n = arith.constant 3.000000e+00 : f32
// CHECK-NEXT:    %v = arith.mulf %a, %n : f32
// CHECK-NEXT:    tensor_ir.yield %v : f32
// CHECK-NEXT:  }
// CHECK-NEXT:  %g = tensor_ir.gather (%i) (d0, d1) -> %x[d1, i0]
// CHECK-NEXT:  %s = tensor_ir.constant 4.000000e+00 : f32 -> tensor<f32>
// CHECK-NEXT:  func.return %e, %g, %s

// CSE:      %u = tensor_ir.index_map (d0, d1) -> %x[d1, d0]
// CSE-NEXT: %w = tensor_ir.index_map (d0, d1) -> %u[d1, d0]
// CSE-NEXT: tensor_ir.constant
// CSE-NOT:  tensor_ir.index_map (d0, d1) -> %x[d1, d0]

// DCE-NOT: %unused
func.func @main(%x: tensor<4x3xf32>, %i: tensor<3x4xi64>) -> (tensor<4x3xf32>, tensor<3x4xf32>, tensor<f32>) {
  %u = tensor_ir.index_map (d0, d1) -> %x[d1, d0] : tensor<4x3xf32> -> tensor<3x4xf32>
  %w = tensor_ir.index_map (d0, d1) -> %u[d1, d0] : tensor<3x4xf32> -> tensor<4x3xf32>
  %c = tensor_ir.constant 1.0 : f32 -> tensor<3x4xf32>
  %d = tensor_ir.index_map (d0, d1) -> %c[d1, d0] : tensor<3x4xf32> -> tensor<4x3xf32>
  %e = tensor_ir.elementwise (%a = %w, %b = %d) : tensor<4x3xf32>, tensor<4x3xf32> -> tensor<4x3xf32> {
    %two = arith.constant 2.0 : f32
    %n = arith.addf %b, %two : f32
    %v = arith.mulf %a, %n : f32
    tensor_ir.yield %v : f32
  }
  %t = tensor_ir.index_map (d0, d1) -> %x[d1, d0] : tensor<4x3xf32> -> tensor<3x4xf32>
  %g = tensor_ir.gather (%i) (d0, d1) -> %t[i0, d1] : (tensor<3x4xi64>), tensor<3x4xf32> -> tensor<3x4xf32>
  %one = tensor_ir.constant 1.0 : f32 -> tensor<4xf32>
  %s = tensor_ir.reduce add over [0] (%one) : tensor<4xf32> -> tensor<f32>
  %unused = tensor_ir.elementwise (%a = %w) : tensor<4x3xf32> -> tensor<4x3xf32> {
    %v = math.exp %a : f32
    tensor_ir.yield %v : f32
  }
  func.return %e, %g, %s : tensor<4x3xf32>, tensor<3x4xf32>, tensor<f32>
}

// -----

// What would have to round stays, and so do index maps that choose; equal bodies are one.

// CHECK-LABEL: func.func @stays
// CHECK:       %s = tensor_ir.reduce add over [0] (%c)
// CHECK:       %p = tensor_ir.index_map (d0) -> %x[d0] where (d0 < 4) else 1.000000e+00 : f32
// CHECK:       tensor_ir.elementwise
// CHECK:       tensor_ir.elementwise
// CSE-LABEL:   func.func @stays
// CSE:         %a = tensor_ir.elementwise
// CSE-NOT:     tensor_ir.elementwise
// CSE:         func.return %s, %p, %a, %a
func.func @stays(%x: tensor<4xf32>) -> (tensor<f32>, tensor<6xf32>, tensor<4xf32>, tensor<4xf32>) {
  %c = tensor_ir.constant 0.1 : f32 -> tensor<7xf32>
  %s = tensor_ir.reduce add over [0] (%c) : tensor<7xf32> -> tensor<f32>
  %p = tensor_ir.index_map (d0) -> %x[d0] where (d0 < 4) else 1.0 : f32 : tensor<4xf32> -> tensor<6xf32>
  %a = tensor_ir.elementwise (%v = %x) : tensor<4xf32> -> tensor<4xf32> {
    %e = math.exp %v : f32
    tensor_ir.yield %e : f32
  }
  %b = tensor_ir.elementwise (%w = %x) : tensor<4xf32> -> tensor<4xf32> {
    %e = math.exp %w : f32
    tensor_ir.yield %e : f32
  }
  func.return %s, %p, %a, %b : tensor<f32>, tensor<6xf32>, tensor<4xf32>, tensor<4xf32>
}
