// RUN: dlc-opt %s | dlc-opt | filecheck %s
// RUN: dlc-opt %s --print-op-generic | dlc-opt | filecheck %s
// RUN: dlc-opt %s -p 'specialize{sizes="s=63"}' | filecheck %s --check-prefix=PART
// RUN: dlc-opt %s -p 'specialize{sizes="s=63,b=5"}' | filecheck %s --check-prefix=BOUND

size.symbol @b from 2
size.symbol @s from 2
// CHECK: kernel.func @rows(%x: memref<?x?xf32, #size.of<b, s>>) -> () grid b * ((s + 7) floordiv 8) block 8 {
// PART: kernel.func @rows(%x: memref<?x63xf32, #size.of<b>>) -> () grid b * 8 block 8 {
// BOUND: kernel.func @rows(%x: memref<5x63xf32>) -> () grid 40 block 8 {
kernel.func @rows(%x: memref<?x?xf32, #size.of<b, s>>) -> () grid b * ((s + 7) floordiv 8) block 8 {
  %b = size.index b from 2
  %s = size.index s from 2
  %n = kernel.block_id
  // CHECK: %j = kernel.remainder %n by (s + 7) floordiv 8
  // PART: %j = kernel.index %n mod 8
  // BOUND: %j = kernel.index %n mod 8
  %j = kernel.remainder %n by (s + 7) floordiv 8
  // CHECK-NEXT: %i = kernel.quotient %n by (s + 7) floordiv 8 in b
  // PART-NEXT: %i = kernel.index %n floordiv 8
  // BOUND-NEXT: %i = kernel.index %n floordiv 8
  %i = kernel.quotient %n by (s + 7) floordiv 8 in b
  // CHECK-NEXT: %a = kernel.load %x[%i, %j] : memref<?x?xf32, #size.of<b, s>>
  %a = kernel.load %x[%i, %j] : memref<?x?xf32, #size.of<b, s>>
}
