// RUN: dlc-opt %s | dlc-opt | filecheck %s
// RUN: dlc-opt %s --print-op-generic | dlc-opt | filecheck %s

// CHECK: size.symbol @s from 2 to 4096 hint 128
size.symbol @s from 2 to 4096 hint 128
// CHECK-NEXT: size.symbol @batch from 0 attributes {a = "said"}
size.symbol @batch from 0 attributes {a = "said"}
// CHECK-NEXT: size.symbol @t from 2 to 8
size.symbol @t from 2 to 8
// CHECK-NEXT: size.symbol @u from 2 hint 3
size.symbol @u from 2 hint 3
// CHECK-NEXT: size.fact s mod 16 == 0
size.fact s mod 16 == 0
// CHECK-NEXT: size.fact not batch == s * 2 - 1
size.fact not batch == 2 * s - 1
// CHECK-NEXT: size.fact -t < -u + 3
size.fact -t < 3 - u
// CHECK-NEXT: size.fact s <= 4
size.fact s <= 4
// CHECK-NEXT: size.fact s > t
size.fact s > t
// CHECK-NEXT: size.fact s >= t attributes {b}
size.fact s >= t attributes {b}

// One form: products first, names in order, factors last.
// CHECK: torch.aten "f.a"(self = %x) {a = #size.value<batch * s * 64 + s + 1>, b = [1, #size.value<(s + 1) floordiv 2>], c = #size.value<0>}
// Quotients and remainders take out what divides.
// CHECK: torch.aten "f.b"(self = %x) {a = #size.value<s * 2 + 1>, b = #size.value<3>, c = #size.value<batch * 64>, d = #size.value<s floordiv 2 + 1>, e = #size.value<((s floordiv 2) * 3 + 1) mod 5>}
// CHECK: torch.aten "f.c"(self = %x) {a = #size.value<max(s, t) * 2>, b = #size.value<s>, c = #size.value<5>, d = #size.value<2 floordiv s>, e = #size.value<(batch * s) floordiv (t + 1)>}
func.func @main(%x: tensor<?x4x?xf32, #size.of<s, s * t>>) {
  %a = torch.aten "f.a"(self = %x) {a = #size.value<1 + s + 64 * s * batch>, b = [1, #size.value<(1 + s) floordiv 2>], c = #size.value<s - s>} : (tensor<?x4x?xf32, #size.of<s, t * s>>) -> tensor<?x4xf32, #size.of<s - 1>>
  %b = torch.aten "f.b"(self = %x) {a = #size.value<(s * 4 + 3) floordiv 2>, b = #size.value<(s * 4 + 7) mod 4>, c = #size.value<(batch * s * 64) floordiv s>, d = #size.value<(s + 2) floordiv 2>, e = #size.value<(s floordiv 2 * 3 + 1) mod 5>} : (tensor<?x4x?xf32, #size.of<s, t * s>>) -> tensor<f32>
  %c = torch.aten "f.c"(self = %x) {a = #size.value<max(t, s) * 2>, b = #size.value<min(s, s)>, c = #size.value<max(2, 5)>, d = #size.value<2 floordiv s>, e = #size.value<(s * batch) floordiv (1 + t)>} : (tensor<?x4x?xf32, #size.of<s, t * s>>) -> tensor<f32>
  func.return
}
