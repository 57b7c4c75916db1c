// RUN: dlc-opt %s | dlc-opt | filecheck %s
// RUN: dlc-opt %s --print-op-generic | dlc-opt | filecheck %s
// RUN: dlc-opt %s -p 'specialize{sizes="s=63"}' | filecheck %s --check-prefix=BOUND

size.symbol @s from 2 to 4096 hint 128
func.func @main(%x: tensor<?x64xf32, #size.of<s>>) -> tensor<?x64xf32, #size.of<s>> {
  // CHECK: loop.kernel @relu(%x: memref<?x64xf32, #size.of<s>> = %x) -> (%y: memref<?x64xf32, #size.of<s>>) {
  // BOUND: loop.kernel @relu(%x: memref<63x64xf32> = %x) -> (%y: memref<63x64xf32>) {
  %y = loop.kernel @relu(%x: memref<?x64xf32, #size.of<s>> = %x) -> (%y: memref<?x64xf32, #size.of<s>>) {
    // CHECK-NEXT: %s = size.index s from 2 to 4096 hint 128
    // BOUND-NEXT: %s = arith.constant 63 : index
    %s = size.index s from 2 to 4096 hint 128
    // CHECK-NEXT: loop.for %i in s floordiv 2, %h in 2, %j in 64 {
    // BOUND-NEXT: loop.for %i in 31, %h in 2, %j in 64 {
    loop.for %i in s floordiv 2, %h in 2, %j in 64 {
      %a = loop.load %x[%i * 2 + %h, %j] : memref<?x64xf32, #size.of<s>>
      // CHECK: loop.store %{{.*}}, %y[%i * 2 + %h, %j] : memref<?x64xf32, #size.of<s>>
      // BOUND: loop.store %{{.*}}, %y[%i * 2 + %h, %j] : memref<63x64xf32>
      loop.store %a, %y[%i * 2 + %h, %j] : memref<?x64xf32, #size.of<s>>
    }
  }
  func.return %y : tensor<?x64xf32, #size.of<s>>
}
// CHECK: kernel.func @empty() -> () grid s * 8 block 32 {
// BOUND: kernel.func @empty() -> () grid 504 block 32 {
kernel.func @empty() -> () grid s * 8 block 32 {
  // CHECK-NEXT: size.index s from 0
  %0 = size.index s from 0
}
