// RUN: not dlc-opt %s -p lift-to-loops 2>&1 | filecheck %s

// CHECK: needs-number.mlir:9:8: error: pass lift-to-loops: 'tensor_ir.elementwise': its loop nest needs a number for b * s
// CHECK: hint: give the size a number before: --sizes, or the pass specialize
size.symbol @s from 2
size.symbol @b from 2
func.func @main(%x: tensor<?xf32, #size.of<b * s>>) -> tensor<?xf32, #size.of<b * s>> {
  // What is a product of sizes for the user, too, is taken apart by nothing.
  %y = tensor_ir.elementwise (%a = %x) : tensor<?xf32, #size.of<b * s>> -> tensor<?xf32, #size.of<b * s>> {
    tensor_ir.yield %a : f32
  }
  func.return %y : tensor<?xf32, #size.of<b * s>>
}
