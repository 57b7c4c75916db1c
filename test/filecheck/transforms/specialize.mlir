// RUN: dlc-opt %s --split-input-file -p 'specialize{sizes="s=64"}' | filecheck %s
// RUN: dlc-opt %s --split-input-file -p 'specialize{sizes="s=64"},specialize{sizes="b=4"}' | filecheck %s --check-prefix=ALL
// RUN: dlc-opt %s --split-input-file -p 'specialize{sizes="b=4,s=64"}' | filecheck %s --check-prefix=ALL

// Types, numbers and what is said of arguments and outputs; a fact goes once it says nothing.
// CHECK: builtin.module {
// CHECK-NEXT: size.symbol @b from 2
// CHECK-NEXT: size.fact not b == 64
// CHECK-NEXT: func.func @main(%x: tensor<?x64x64xf32, #size.of<b>> {dlc.strides = array<i64: 8192, 128, 1>}) -> tensor<?x4xf32, #size.of<b * 1024>> attributes {dlc.outputs = [{path = "0", result = 0 : i64}, {path = "1", constant = 64 : i64}]} {
// CHECK-NEXT: %y = torch.aten "view.default"(self = %x) {size = [#size.value<b * 1024>, 4]} : (tensor<?x64x64xf32, #size.of<b>>) -> tensor<?x4xf32, #size.of<b * 1024>>

// ALL: builtin.module {
// ALL-NEXT: func.func @main(%x: tensor<4x64x64xf32> {dlc.strides = array<i64: 8192, 128, 1>}) -> tensor<4096x4xf32> attributes {dlc.outputs = [{path = "0", result = 0 : i64}, {path = "1", constant = 64 : i64}]} {
// ALL-NEXT: %y = torch.aten "view.default"(self = %x) {size = [4096, 4]} : (tensor<4x64x64xf32>) -> tensor<4096x4xf32>
// ALL-NEXT: func.return %y : tensor<4096x4xf32>
size.symbol @s from 2 to 4096 hint 128
size.symbol @b from 2
size.fact s mod 16 == 0
size.fact not b == s
size.fact s * 4 < b * 1000
func.func @main(%x: tensor<?x?x64xf32, #size.of<b, s>> {dlc.strides = #size.of<s * 128, 128, 1>}) -> tensor<?x4xf32, #size.of<b * s * 16>> attributes {dlc.outputs = [{path = "0", result = 0 : i64}, {path = "1", constant = #size.value<s>}]} {
  %y = torch.aten "view.default"(self = %x) {size = [#size.value<s * 16 * b>, 4]} : (tensor<?x?x64xf32, #size.of<b, s>>) -> tensor<?x4xf32, #size.of<s * b * 16>>
  func.return %y : tensor<?x4xf32, #size.of<b * s * 16>>
}

// -----

// Quotients, remainders, the larger and the lesser; bodies of control flow.
// CHECK: flow.if %p : tensor<i1> -> (tensor<43x6x64x3xf32>)
// CHECK-NEXT: %y = torch.aten "pad.default"(self = %x) {pad = [0, 3, 21]} : (tensor<64xf32>) -> tensor<43x6x64x3xf32>
// ALL: flow.if %p : tensor<i1> -> (tensor<43x6x64x3xf32>)
size.symbol @s from 2
size.symbol @b from 2
func.func @main(%x: tensor<?xf32, #size.of<s>>, %p: tensor<i1>) -> tensor<?x?x?x?xf32, #size.of<(s * 2) floordiv 3 + 1, (s + 2) mod 20, max(3, s), min(s, 3)>> {
  %r = flow.if %p : tensor<i1> -> (tensor<?x?x?x?xf32, #size.of<(s * 2) floordiv 3 + 1, (s + 2) mod 20, max(s, 3), min(s, 3)>>) {
    %y = torch.aten "pad.default"(self = %x) {pad = [0, #size.value<min(s, 3)>, #size.value<s floordiv 3>]} : (tensor<?xf32, #size.of<s>>) -> tensor<?x?x?x?xf32, #size.of<(s * 2) floordiv 3 + 1, (s + 2) mod 20, max(s, 3), min(s, 3)>>
    flow.yield %y : tensor<?x?x?x?xf32, #size.of<(s * 2) floordiv 3 + 1, (s + 2) mod 20, max(s, 3), min(s, 3)>>
  } else {
    %z = torch.aten "pad.default"(self = %x) : (tensor<?xf32, #size.of<s>>) -> tensor<?x?x?x?xf32, #size.of<(s * 2) floordiv 3 + 1, (s + 2) mod 20, max(s, 3), min(s, 3)>>
    flow.yield %z : tensor<?x?x?x?xf32, #size.of<(s * 2) floordiv 3 + 1, (s + 2) mod 20, max(s, 3), min(s, 3)>>
  }
  func.return %r : tensor<?x?x?x?xf32, #size.of<(s * 2) floordiv 3 + 1, (s + 2) mod 20, max(3, s), min(s, 3)>>
}
