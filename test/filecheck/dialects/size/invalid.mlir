// RUN: dlc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

// CHECK: expected a range from at least 0 up, found s from -1
size.symbol @s from -1

// -----

// CHECK: expected a range from at least 0 up, found s from 4 to 3
size.symbol @s from 4 to 3

// -----

// CHECK: expected a hint of s from 2 to 8, found 9
size.symbol @s from 2 to 8 hint 9

// -----

size.symbol @rows from 2
// CHECK: expected a declared size, found `row`; did you mean @rows?
size.fact row == 2

// -----

// CHECK: sizes compare with ==, <, <=, > or >=
size.fact s mod 2

// -----

// CHECK: `mod` needs a positive divisor
size.fact s mod 0 == 0

// -----

// CHECK: a name of a size, or an integer
size.fact s * %x == 0

// -----

func.func @f(%x: tensor<?xf32>) {
  // CHECK: operand 0: expected #size.of with a size for each `?`, 1 in all, found tensor<?xf32>
  %y = torch.aten "relu.default"(self = %x) : (tensor<?xf32>) -> tensor<4xf32>
  func.return
}

// -----

size.symbol @s from 2
func.func @f(%x: tensor<4xf32>) {
  // CHECK: result 0: expected #size.of with a size for each `?`, 2 in all, found tensor<?x?xf32, #size.of<s>>
  %y = torch.aten "relu.default"(self = %x) : (tensor<4xf32>) -> tensor<?x?xf32, #size.of<s>>
  func.return
}

// -----

size.symbol @s from 2
func.func @f(%x: tensor<4xf32>) {
  // CHECK: result 0: expected a declared size, found `t`
  %y = torch.aten "relu.default"(self = %x) : (tensor<4xf32>) -> tensor<?xf32, #size.of<s + t>>
  func.return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // CHECK: argument "size": expected a declared size, found `t`
  %y = torch.aten "view.default"(self = %x) {size = [#size.value<t>]} : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}

// -----

size.symbol @s from 2
kernel.func @rows() -> () grid s * 8 block 8 {
  %s = size.index s from 2
  %n = kernel.block_id
  // CHECK: expected a divisor that is a size, found 8: kernel.index divides by numbers
  %j = kernel.remainder %n by 8
}

// -----

size.symbol @s from 2
func.func @main(%x: tensor<?xf32, #size.of<s>>) -> tensor<f32> {
  // CHECK: expected a declared size, found `t`
  %y = tensor_ir.index_map ()[t] -> %x[t - 1] : tensor<?xf32, #size.of<s>> -> tensor<f32>
  func.return %y : tensor<f32>
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // CHECK: expected 4 elements, found 6
  %y = size.reshape %x : tensor<4xf32> -> tensor<2x3xf32>
  func.return
}

// -----

size.symbol @b from 2
size.symbol @s from 2
func.func @main(%x: tensor<?x?xf32, #size.of<b, s>>) -> (tensor<?x?xf32, #size.of<b, s>> {dlc.mutates = 0 : i64}) {
  %t = size.reshape %x : tensor<?x?xf32, #size.of<b, s>> -> tensor<?x?xf32, #size.of<s, b>>
  // CHECK: expected one input that is %x, which is updated in place
  %new = loop.kernel @k(%x: memref<?x?xf32, #size.of<b, s>> = %x, %t: memref<?x?xf32, #size.of<s, b>> = %t)
      -> (%y: memref<?x?xf32, #size.of<b, s>> updates %x) {
    %b = size.index b from 2
    %s = size.index s from 2
    loop.for %h in b, %i in s {
      %e = loop.load %t[0, 0] : memref<?x?xf32, #size.of<s, b>>
      loop.store %e, %y[%h, %i] : memref<?x?xf32, #size.of<b, s>>
    }
  }
  func.return %new : tensor<?x?xf32, #size.of<b, s>>
}
