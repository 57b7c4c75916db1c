// RUN: dlc-opt %s --split-input-file --verify-diagnostics | filecheck %s

func.func @main(%x: tensor<2x16xf32>) -> tensor<2x4xf32> {
  %v = kernel.view %x[0, 13] : tensor<2x16xf32> -> tensor<2x4xf32>
  func.return %v : tensor<2x4xf32>
}
// CHECK: expected a box within tensor<2x16xf32>, found tensor<2x4xf32> at 0, 13

// -----

func.func @main(%x: tensor<2x16xf32>) -> tensor<4xf32> {
  %v = kernel.view %x[0, 8] : tensor<2x16xf32> -> tensor<4xf32>
  func.return %v : tensor<4xf32>
}
// CHECK: expected a box of known extents in tensor<2x16xf32>, found tensor<4xf32>

// -----

func.func @main(%x: tensor<2x16xf32>) -> tensor<2x4xf16> {
  %v = kernel.view %x[0, 8] : tensor<2x16xf32> -> tensor<2x4xf16>
  func.return %v : tensor<2x4xf16>
}
// CHECK: expected a box of tensor<2x16xf32>, found tensor<2x4xf16>

// -----

func.func @main(%x: tensor<2x4xf32>, %u: tensor<2x4xf32>) -> tensor<2x16xf32> {
  %y = kernel.whole %x with %u : tensor<2x4xf32> -> tensor<2x16xf32>
  func.return %y : tensor<2x16xf32>
}
// CHECK: expected a view of tensor<2x16xf32>

// -----

func.func @main(%x: tensor<2x16xf32>, %u: tensor<2x4xf32>) -> tensor<2x16xf32> {
  %v = kernel.view %x[0, 8] : tensor<2x16xf32> -> tensor<2x4xf32>
  %y = kernel.whole %v with %u : tensor<2x4xf32> -> tensor<2x16xf32>
  func.return %y : tensor<2x16xf32>
}
// CHECK: expected what a kernel gives that updates the view in place

// -----

kernel.func @fill(%x: memref<2x4xf32, strided<[16, 1]>>) -> (%y: memref<2x4xf32, strided<[16, 1]>> updates %x) grid 1 block 32 {}
func.func @main(%x: tensor<2x16xf32>) -> (tensor<2x16xf32> {dlc.mutates = 0 : i64}, tensor<2x4xf32>) {
  %v = kernel.view %x[0, 8] : tensor<2x16xf32> -> tensor<2x4xf32>
  %u = kernel.launch @fill(%v) : (tensor<2x4xf32>) -> (tensor<2x4xf32>)
  %y = kernel.whole %v with %u : tensor<2x4xf32> -> tensor<2x16xf32>
  func.return %y, %u : tensor<2x16xf32>, tensor<2x4xf32>
}
// CHECK: expected an updated view that nothing else uses

// -----

// What a view is updated of is used by nothing that comes after but under its new name.
kernel.func @fill(%x: memref<2x4xf32, strided<[16, 1]>>) -> (%y: memref<2x4xf32, strided<[16, 1]>> updates %x) grid 1 block 32 {}
kernel.func @copy(%x: memref<2x16xf32>) -> (%y: memref<2x16xf32>) grid 1 block 32 {}
func.func @main(%x: tensor<2x16xf32>) -> (tensor<2x16xf32> {dlc.mutates = 0 : i64}, tensor<2x16xf32>) {
  %v = kernel.view %x[0, 8] : tensor<2x16xf32> -> tensor<2x4xf32>
  %u = kernel.launch @fill(%v) : (tensor<2x4xf32>) -> (tensor<2x4xf32>)
  %y = kernel.whole %v with %u : tensor<2x4xf32> -> tensor<2x16xf32>
  %z = kernel.launch @copy(%x) : (tensor<2x16xf32>) -> (tensor<2x16xf32>)
  func.return %y, %z : tensor<2x16xf32>, tensor<2x16xf32>
}
// CHECK: expected nothing to use %v once it is updated in place, found 'kernel.launch'

// -----

func.func @main(%x: memref<2x16xf32>) {
  %v = host.view %x[0, 4] : memref<2x16xf32> -> memref<2x4xf32>
  func.return
}
// CHECK: expected a box with the strides of memref<2x16xf32>, found memref<2x4xf32>

// -----

func.func @main(%x: memref<2x16xf32>) {
  %v = host.view %x[0, 3] : memref<2x16xf32> -> memref<2x4xf32, strided<[16, 1]>>
  func.return
}
// CHECK: expected a box at a multiple of 16 bytes, found 12

// -----

kernel.func @first(%x: memref<8xf32> align 4) -> (%y: memref<8xf32> updates %x) grid 1 block 32 {
}
kernel.func @second(%x: memref<8xf32>) -> (%y: memref<8xf32> updates %x) grid 1 block 32 {
}
func.func @main(%x: tensor<8xf32> {dlc.align = 4 : i64})
    -> (tensor<8xf32> {dlc.mutates = 0 : i64}) {
  %u = kernel.launch @first(%x) : (tensor<8xf32>) -> (tensor<8xf32>)
  %v = kernel.launch @second(%u) : (tensor<8xf32>) -> (tensor<8xf32>)
  func.return %v : tensor<8xf32>
}
// CHECK: expected %u at a multiple of 16 bytes, found it at one of 4
