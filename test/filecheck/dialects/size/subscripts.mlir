// RUN: dlc-opt %s | dlc-opt | filecheck %s
// RUN: dlc-opt %s --print-op-generic | dlc-opt | filecheck %s
// RUN: dlc-opt %s -p 'specialize{sizes="s=63"}' | filecheck %s --check-prefix=PART
// RUN: dlc-opt %s -p 'specialize{sizes="s=63,b=5"}' | filecheck %s --check-prefix=BOUND
// RUN: dlc-opt %s -p compose-index-maps | filecheck %s --check-prefix=COMPOSED

size.symbol @b from 2
size.symbol @s from 2
// CHECK: func.func @main
func.func @main(%x: tensor<?x?xf32, #size.of<b, s>>) -> tensor<?xf32, #size.of<s>> {
  // CHECK-NEXT: %0 = tensor_ir.index_map (d0, d1)[s, b] -> %x[b - d0 - 1, s - d1 - 1] where (s - d1 >= 1) else 0.000000e+00 : f32 : tensor<?x?xf32, #size.of<b, s>> -> tensor<?x?xf32, #size.of<b, s>>
  // PART: tensor_ir.index_map (d0, d1)[b] -> %x[b - d0 - 1, -d1 + 62] where (d1 < 63) else
  // BOUND: tensor_ir.index_map (d0, d1) -> %x[-d0 + 4, -d1 + 62] where (d1 < 63) else
  %0 = tensor_ir.index_map (d0, d1)[s, b] -> %x[b - d0 - 1, s - d1 - 1] where (d1 < s) else 0.0 : f32 : tensor<?x?xf32, #size.of<b, s>> -> tensor<?x?xf32, #size.of<b, s>>
  // COMPOSED: %0 = tensor_ir.index_map (d0) -> %x[0, d0] : tensor<?x?xf32, #size.of<b, s>> -> tensor<?xf32, #size.of<s>>
  %1 = tensor_ir.index_map (d0)[b, s] -> %0[b - 1, s - d0 - 1] : tensor<?x?xf32, #size.of<b, s>> -> tensor<?xf32, #size.of<s>>
  func.return %1 : tensor<?xf32, #size.of<s>>
}
