// RUN: dlc-opt %s -p fold-constants --split-input-file | filecheck %s

// A constant input becomes a constant of the body.

// CHECK-LABEL: @absorb
// CHECK-NEXT: %y = tensor_ir.elementwise (%a = %x) : tensor<4xf32> -> tensor<4xf32> {
// CHECK-NEXT:   %b = arith.constant 2.000000e+00 : f32
// CHECK-NEXT:   %0 = arith.mulf %a, %b : f32
func.func @absorb(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c = tensor_ir.constant 2.0 : f32 -> tensor<4xf32>
  %y = tensor_ir.elementwise (%a = %x, %b = %c) : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32> {
    %0 = arith.mulf %a, %b : f32
    tensor_ir.yield %0 : f32
  }
  func.return %y : tensor<4xf32>
}

// -----

// What depends on constants alone is computed, rounded to its type.

// CHECK-LABEL: @compute
// CHECK-NEXT: %y = tensor_ir.elementwise (%a = %x)
// CHECK-NEXT:   arith.constant 0.3333333{{[0-9]*}} : f32
// CHECK-NEXT:   arith.addf
// CHECK-NEXT:   tensor_ir.yield
// CHECK-NOT: tensor_ir.constant
func.func @compute(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c = tensor_ir.constant 3.0 : f32 -> tensor<4xf32>
  %d = tensor_ir.elementwise (%a = %c) : tensor<4xf32> -> tensor<4xf32> {
    %1 = arith.constant 1.0 : f32
    %0 = arith.divf %1, %a : f32
    tensor_ir.yield %0 : f32
  }
  %y = tensor_ir.elementwise (%a = %x, %b = %d) : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32> {
    %0 = arith.addf %a, %b : f32
    tensor_ir.yield %0 : f32
  }
  func.return %y : tensor<4xf32>
}

// -----

// A reduction of a constant is one where no rounding is at stake, and one of nothing the identity.

// CHECK-LABEL: @reduce
// CHECK-DAG: %exact = tensor_ir.constant 1.400000e+01 : f32 -> tensor<f32>
// CHECK-DAG: %inexact = tensor_ir.reduce add over [0]
// CHECK-DAG: %best = tensor_ir.constant 1.000000e-01 : f32 -> tensor<f32>
// CHECK-DAG: %none = tensor_ir.constant 0xff800000 : f32 -> tensor<4xf32>
func.func @reduce(%x: tensor<4x0xf32>) -> (tensor<f32>, tensor<f32>, tensor<f32>, tensor<4xf32>) {
  %c = tensor_ir.constant 2.0 : f32 -> tensor<7xf32>
  %exact = tensor_ir.reduce add over [0] (%c) : tensor<7xf32> -> tensor<f32>
  %d = tensor_ir.constant 0.1 : f32 -> tensor<7xf32>
  %inexact = tensor_ir.reduce add over [0] (%d) : tensor<7xf32> -> tensor<f32>
  %best = tensor_ir.reduce max over [0] (%d) : tensor<7xf32> -> tensor<f32>
  %none = tensor_ir.reduce max over [1] (%x) : tensor<4x0xf32> -> tensor<4xf32>
  func.return %exact, %inexact, %best, %none : tensor<f32>, tensor<f32>, tensor<f32>, tensor<4xf32>
}

// -----

// What cannot be computed here keeps its tensor; what nobody uses goes.

// CHECK-LABEL: @keep
// CHECK-NEXT: %c = tensor_ir.constant
// CHECK-NEXT: %y = tensor_ir.elementwise (%a = %c)
// CHECK-NEXT:   math.log %a
// CHECK-NOT: %unused
func.func @keep() -> tensor<4xf32> {
  %c = tensor_ir.constant -3.0 : f32 -> tensor<4xf32>
  %y = tensor_ir.elementwise (%a = %c) : tensor<4xf32> -> tensor<4xf32> {
    %0 = math.log %a : f32
    tensor_ir.yield %0 : f32
  }
  %unused = tensor_ir.iota along 0 -> tensor<4xi64>
  func.return %y : tensor<4xf32>
}

// -----

// Any function of a constant is computed, in f64 and rounded once.

// CHECK-LABEL: @function
// CHECK-NEXT: %y = tensor_ir.constant 0.999977887 : f32 -> tensor<4xf32>
func.func @function() -> tensor<4xf32> {
  %c = tensor_ir.constant 3.0 : f32 -> tensor<4xf32>
  %y = tensor_ir.elementwise (%a = %c) : tensor<4xf32> -> tensor<4xf32> {
    %0 = math.erf %a : f32
    tensor_ir.yield %0 : f32
  }
  func.return %y : tensor<4xf32>
}
