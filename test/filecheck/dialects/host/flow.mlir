// RUN: dlc-opt %s | dlc-opt | filecheck %s
// RUN: dlc-opt %s --print-op-generic | dlc-opt | filecheck %s
// RUN: dlc-opt %s -p canonicalize,cse,dce | filecheck %s

kernel.func @start(%x: memref<8xf32>) -> (%y: memref<8xf32>) grid 1 block 32 {
}
kernel.func @cell(%h: memref<8xf32>, %x: memref<8xf32>) -> (%y: memref<8xf32>) grid 1 block 32 {
}
kernel.func @more(%h: memref<8xf32>) -> (%p: memref<i1>) grid 1 block 32 {
}
// CHECK: func.func @main(%x: memref<5x8xf32>, %h0: memref<8xf32>) -> (memref<5x8xf32>, memref<8xf32>) {
// CHECK-NEXT: %w = memref.alloc() : memref<1024xui8>
// CHECK-NEXT: %h1 = host.slice %w at 0 : memref<1024xui8> -> memref<8xf32>
// CHECK-NEXT: host.launch @start(%h0) -> (%h1)
// CHECK-NEXT: %spare = host.slice %w at 256 : memref<1024xui8> -> memref<8xf32>
// CHECK-NEXT: %y = memref.alloc() : memref<5x8xf32>
// CHECK-NEXT: %a, %b = host.for %i in 5 carry (%h = %h1, %next = %spare) : (memref<8xf32>, memref<8xf32>) {
// CHECK-NEXT: %x_t = host.select %x[%i] : memref<5x8xf32> -> memref<8xf32>
// CHECK-NEXT: host.launch @cell(%h, %x_t) -> (%next)
// CHECK-NEXT: %y_t = host.select %y[%i] : memref<5x8xf32> -> memref<8xf32>
// CHECK-NEXT: host.launch @start(%next) -> (%y_t)
// CHECK-NEXT: host.yield %next, %h : memref<8xf32>, memref<8xf32>
// CHECK-NEXT: }
// CHECK-NEXT: %p = host.slice %w at 512 : memref<1024xui8> -> memref<i1>
// CHECK-NEXT: %c, %d = host.while carry (%v = %a, %s = %b) : (memref<8xf32>, memref<8xf32>) {
// CHECK-NEXT: host.launch @more(%v) -> (%p)
// CHECK-NEXT: host.yield %p : memref<i1>
// CHECK-NEXT: } do (%v_1, %s_1) {
// CHECK-NEXT: host.launch @start(%v_1) -> (%s_1)
// CHECK-NEXT: host.yield %s_1, %v_1 : memref<8xf32>, memref<8xf32>
// CHECK-NEXT: }
// CHECK-NEXT: %r = memref.alloc() : memref<8xf32>
// CHECK-NEXT: host.if %p : memref<i1> {
// CHECK-NEXT: host.launch @start(%c) -> (%r)
// CHECK-NEXT: } else {
// CHECK-NEXT: host.launch @start(%h0) -> (%r)
// CHECK-NEXT: }
// CHECK-NEXT: func.return %y, %r : memref<5x8xf32>, memref<8xf32>
func.func @main(%x: memref<5x8xf32>, %h0: memref<8xf32>) -> (memref<5x8xf32>, memref<8xf32>) {
  %w = memref.alloc() : memref<1024xui8>
  %h1 = host.slice %w at 0 : memref<1024xui8> -> memref<8xf32>
  host.launch @start(%h0) -> (%h1)
  %spare = host.slice %w at 256 : memref<1024xui8> -> memref<8xf32>
  %y = memref.alloc() : memref<5x8xf32>
  %a, %b = host.for %i in 5 carry (%h = %h1, %next = %spare) : (memref<8xf32>, memref<8xf32>) {
    %x_t = host.select %x[%i] : memref<5x8xf32> -> memref<8xf32>
    host.launch @cell(%h, %x_t) -> (%next)
    %y_t = host.select %y[%i] : memref<5x8xf32> -> memref<8xf32>
    host.launch @start(%next) -> (%y_t)
    host.yield %next, %h : memref<8xf32>, memref<8xf32>
  }
  %p = host.slice %w at 512 : memref<1024xui8> -> memref<i1>
  %c, %d = host.while carry (%v = %a, %s = %b) : (memref<8xf32>, memref<8xf32>) {
    host.launch @more(%v) -> (%p)
    host.yield %p : memref<i1>
  } do (%v_1, %s_1) {
    host.launch @start(%v_1) -> (%s_1)
    host.yield %s_1, %v_1 : memref<8xf32>, memref<8xf32>
  }
  %r = memref.alloc() : memref<8xf32>
  host.if %p : memref<i1> {
    host.launch @start(%c) -> (%r)
  } else {
    host.launch @start(%h0) -> (%r)
  }
  func.return %y, %r : memref<5x8xf32>, memref<8xf32>
}
