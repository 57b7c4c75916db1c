// RUN: dlc-opt %s | dlc-opt | filecheck %s
// RUN: dlc-opt %s -p 'specialize{sizes="s=3"}' | filecheck %s --check-prefix=PART
// RUN: dlc-opt %s -p 'specialize{sizes="s=3,b=2"}' | filecheck %s --check-prefix=BOUND
// RUN: not dlc-opt %s -p 'specialize{sizes="s=5,b=5"}' 2>&1 | filecheck %s --check-prefix=ZERO

// CHECK: %n = size.value b floordiv (b - s) : f32
// PART: %n = size.value b floordiv (b - 3) : f32
// BOUND: %n = arith.constant -2.000000e+00 : f32
// ZERO: value.mlir:14:8: error: pass specialize: 'size.value': expected no division by 0
size.symbol @s from 2
size.symbol @b from 2
func.func @main(%x: tensor<?xf32, #size.of<s>>) -> tensor<?xf32, #size.of<s>> {
%y = tensor_ir.elementwise (%a = %x) : tensor<?xf32, #size.of<s>> -> tensor<?xf32, #size.of<s>> {
  %n = size.value b floordiv (b - s) : f32
  %0 = arith.mulf %a, %n : f32
  tensor_ir.yield %0 : f32
}
func.return %y : tensor<?xf32, #size.of<s>>
}
