// RUN: not dlc-opt %s -p lift-to-loops 2>&1 | filecheck %s

// CHECK: error: pass lift-to-loops: 'builtin.module': the program needs a number for s * 128
// CHECK-NEXT: hint: give the size a number before: --sizes, or the pass specialize
size.symbol @s from 2
size.symbol @b from 2
func.func @main(%x: tensor<?x?x64xf32, #size.of<b, s>> {dlc.strides = #size.of<s * 128, 128, 1>}) -> tensor<?x4xf32, #size.of<b * s * 16>> {
  %y = torch.aten "view.default"(self = %x) {size = [#size.value<s * 16 * b>, 4]} : (tensor<?x?x64xf32, #size.of<b, s>>) -> tensor<?x4xf32, #size.of<b * s * 16>>
  func.return %y : tensor<?x4xf32, #size.of<b * s * 16>>
}
