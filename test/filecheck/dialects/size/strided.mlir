// RUN: dlc-opt %s | dlc-opt | filecheck %s
// RUN: dlc-opt %s -p 'specialize{sizes="s=3"}' | filecheck %s --check-prefix=PART
// RUN: dlc-opt %s -p 'specialize{sizes="s=3,t=40"}' | filecheck %s --check-prefix=BOUND

size.symbol @s from 2
size.symbol @t from 2

// Strides are sizes as extents are: those of a transposed tensor, and of a part of a larger one.
// CHECK: loop.kernel @part(%x: memref<?x8xf32, #size.strided<[t, 1], s>> = %x) -> (%y: memref<8x?xf32, #size.strided<[1, 8], s>>) {
// PART: loop.kernel @part(%x: memref<3x8xf32, #size.strided<[t, 1]>> = %x) -> (%y: memref<8x3xf32, strided<[1, 8]>>) {
// BOUND: loop.kernel @part(%x: memref<3x8xf32, strided<[40, 1]>> = %x) -> (%y: memref<8x3xf32, strided<[1, 8]>>) {
func.func @main(%x: tensor<?x8xf32, #size.of<s>> {dlc.strides = #size.of<t, 1>}) -> (tensor<8x?xf32, #size.of<s>> {dlc.strides = array<i64: 1, 8>}) {
  %y = loop.kernel @part(%x: memref<?x8xf32, #size.strided<[t, 1], s>> = %x) -> (%y: memref<8x?xf32, #size.strided<[1, 8], s>>) {
    %s = size.index s from 2
    %t = size.index t from 2
    loop.for %i in 8, %j in s {
      %a = loop.load %x[%j, %i] : memref<?x8xf32, #size.strided<[t, 1], s>>
      loop.store %a, %y[%i, %j] : memref<8x?xf32, #size.strided<[1, 8], s>>
    }
  }
  func.return %y : tensor<8x?xf32, #size.of<s>>
}
