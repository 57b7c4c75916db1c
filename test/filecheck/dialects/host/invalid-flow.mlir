// RUN: dlc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

kernel.func @start(%x: memref<8xf32>) -> (%y: memref<8xf32>) grid 1 block 32 {}
kernel.func @more(%h: memref<8xf32>) -> (%p: memref<i1>) grid 1 block 32 {}
func.func @main(%x: memref<5x8xf32>, %h0: memref<8xf32>) -> memref<8xf32> {
  %w = memref.alloc() : memref<1024xui8>
  %h1 = host.slice %w at 0 : memref<1024xui8> -> memref<8xf32>
  host.launch @start(%h0) -> (%h1)
  %s = host.slice %w at 256 : memref<1024xui8> -> memref<8xf32>
  %a, %b = host.for %i in 5 carry (%h = %h1, %n = %s) : (memref<8xf32>, memref<8xf32>) {
    host.launch @start(%h) -> (%n)
    host.yield %n, %n : memref<8xf32>, memref<8xf32>
  }
  %r = memref.alloc() : memref<8xf32>
  host.launch @start(%a) -> (%r)
  func.return %r : memref<8xf32>
}
// CHECK: expected a body that yields each buffer that it carries, once

// -----

kernel.func @start(%x: memref<8xf32>) -> (%y: memref<8xf32>) grid 1 block 32 {}
kernel.func @more(%h: memref<8xf32>) -> (%p: memref<i1>) grid 1 block 32 {}
func.func @main(%x: memref<5x8xf32>, %h0: memref<8xf32>) -> memref<8xf32> {
  %w = memref.alloc() : memref<1024xui8>
  %h1 = host.slice %w at 0 : memref<1024xui8> -> memref<8xf32>
  host.launch @start(%h0) -> (%h1)
  %s = host.slice %w at 256 : memref<1024xui8> -> memref<8xf32>
  %a, %b = host.for %i in 5 carry (%h = %h1, %n = %s) : (memref<8xf32>, memref<8xf32>) {
    host.yield %n, %h : memref<8xf32>, memref<8xf32>
  }
  %r = memref.alloc() : memref<8xf32>
  host.launch @start(%a) -> (%r)
  func.return %r : memref<8xf32>
}
// CHECK: host.for: expected %n to be written before it is read, found no write of it

// -----

kernel.func @start(%x: memref<8xf32>) -> (%y: memref<8xf32>) grid 1 block 32 {}
kernel.func @more(%h: memref<8xf32>) -> (%p: memref<i1>) grid 1 block 32 {}
func.func @main(%x: memref<5x8xf32>, %h0: memref<8xf32>) -> memref<8xf32> {
  %w = memref.alloc() : memref<1024xui8>
  %h1 = host.slice %w at 0 : memref<1024xui8> -> memref<8xf32>
  host.launch @start(%h0) -> (%h1)
  %s = host.slice %w at 256 : memref<1024xui8> -> memref<8xf32>
  %a, %b = host.for %i in 5 carry (%h = %h1, %n = %s) : (memref<8xf32>, memref<8xf32>) {
    host.launch @start(%h1) -> (%n)
    host.yield %n, %h : memref<8xf32>, memref<8xf32>
  }
  %r = memref.alloc() : memref<8xf32>
  host.launch @start(%a) -> (%r)
  func.return %r : memref<8xf32>
}
// CHECK: @start: expected %h1 to hold what was written to it, found %h1, which host.for writes over it

// -----

kernel.func @start(%x: memref<8xf32>) -> (%y: memref<8xf32>) grid 1 block 32 {}
kernel.func @more(%h: memref<8xf32>) -> (%p: memref<i1>) grid 1 block 32 {}
func.func @main(%x: memref<5x8xf32>, %h0: memref<8xf32>) -> memref<8xf32> {
  %w = memref.alloc() : memref<1024xui8>
  %h1 = host.slice %w at 0 : memref<1024xui8> -> memref<8xf32>
  host.launch @start(%h0) -> (%h1)
  %s = host.slice %w at 256 : memref<1024xui8> -> memref<8xf32>
  %t = host.slice %w at 16 : memref<1024xui8> -> memref<8xf32>
  %a, %b = host.for %i in 5 carry (%h = %h1, %n = %t) : (memref<8xf32>, memref<8xf32>) {
    host.launch @start(%h) -> (%n)
    host.yield %n, %h : memref<8xf32>, memref<8xf32>
  }
  %r = memref.alloc() : memref<8xf32>
  host.launch @start(%a) -> (%r)
  func.return %r : memref<8xf32>
}
// CHECK: host.for: expected buffers apart from %h1, found %t

// -----

kernel.func @start(%x: memref<8xf32>) -> (%y: memref<8xf32>) grid 1 block 32 {}
kernel.func @more(%h: memref<8xf32>) -> (%p: memref<i1>) grid 1 block 32 {}
func.func @main(%x: memref<5x8xf32>, %h0: memref<8xf32>) -> memref<8xf32> {
  %w = memref.alloc() : memref<1024xui8>
  %h1 = host.slice %w at 0 : memref<1024xui8> -> memref<8xf32>
  host.launch @start(%h0) -> (%h1)
  %s = host.slice %w at 256 : memref<1024xui8> -> memref<8xf32>
  %a, %b = host.for %i in 5 carry (%h = %h1, %n = %h0) : (memref<8xf32>, memref<8xf32>) {
    host.launch @start(%h) -> (%n)
    host.yield %n, %h : memref<8xf32>, memref<8xf32>
  }
  %r = memref.alloc() : memref<8xf32>
  host.launch @start(%a) -> (%r)
  func.return %r : memref<8xf32>
}
// CHECK: host.for: expected to carry allocations only, found %h0, which is none

// -----

kernel.func @start(%x: memref<8xf32>) -> (%y: memref<8xf32>) grid 1 block 32 {}
kernel.func @more(%h: memref<8xf32>) -> (%p: memref<i1>) grid 1 block 32 {}
func.func @main(%x: memref<5x8xf32>, %h0: memref<8xf32>) -> memref<8xf32> {
  %w = memref.alloc() : memref<1024xui8>
  %h1 = host.slice %w at 0 : memref<1024xui8> -> memref<8xf32>
  host.launch @start(%h0) -> (%h1)
  %s = host.slice %w at 256 : memref<1024xui8> -> memref<8xf32>
  %t = host.slice %w at 272 : memref<1024xui8> -> memref<8xf32>
  %a, %b = host.for %i in 5 carry (%h = %h1, %n = %s) : (memref<8xf32>, memref<8xf32>) {
    host.launch @start(%h) -> (%n)
    host.launch @start(%h) -> (%t)
    host.yield %n, %h : memref<8xf32>, memref<8xf32>
  }
  %r = memref.alloc() : memref<8xf32>
  host.launch @start(%a) -> (%r)
  func.return %r : memref<8xf32>
}
// CHECK: @start: expected an output that shares no memory with %h, found %t

// -----

kernel.func @start(%x: memref<8xf32>) -> (%y: memref<8xf32>) grid 1 block 32 {}
kernel.func @more(%h: memref<8xf32>) -> (%p: memref<i1>) grid 1 block 32 {}
func.func @main(%x: memref<5x8xf32>, %h0: memref<8xf32>) -> memref<8xf32> {
  %w = memref.alloc() : memref<1024xui8>
  %h1 = host.slice %w at 0 : memref<1024xui8> -> memref<8xf32>
  host.launch @start(%h0) -> (%h1)
  %s = host.slice %w at 256 : memref<1024xui8> -> memref<8xf32>
  %t = host.slice %w at 512 : memref<1024xui8> -> memref<8xf32>
  host.launch @start(%h0) -> (%t)
  %u = host.slice %w at 528 : memref<1024xui8> -> memref<8xf32>
  %a, %b = host.for %i in 5 carry (%h = %h1, %n = %s) : (memref<8xf32>, memref<8xf32>) {
    host.launch @start(%t) -> (%n)
    host.launch @start(%h) -> (%u)
    host.yield %n, %h : memref<8xf32>, memref<8xf32>
  }
  %r = memref.alloc() : memref<8xf32>
  host.launch @start(%a) -> (%r)
  func.return %r : memref<8xf32>
}
// CHECK: @start: expected %t to hold what was written to it, found %u, which @start writes over it

// -----

kernel.func @start(%x: memref<8xf32>) -> (%y: memref<8xf32>) grid 1 block 32 {}
kernel.func @more(%h: memref<8xf32>) -> (%p: memref<i1>) grid 1 block 32 {}
func.func @main(%x: memref<5x8xf32>, %h0: memref<8xf32>) -> memref<8xf32> {
  %w = memref.alloc() : memref<1024xui8>
  %h1 = host.slice %w at 0 : memref<1024xui8> -> memref<8xf32>
  host.launch @start(%h0) -> (%h1)
  %s = host.slice %w at 256 : memref<1024xui8> -> memref<8xf32>
  %x4 = memref.alloc() : memref<4x8xf32>
  %a, %b = host.for %i in 5 carry (%h = %h1, %n = %s) : (memref<8xf32>, memref<8xf32>) {
    %e = host.select %x4[%i] : memref<4x8xf32> -> memref<8xf32>
    host.launch @start(%h) -> (%n)
    host.yield %n, %h : memref<8xf32>, memref<8xf32>
  }
  %r = memref.alloc() : memref<8xf32>
  host.launch @start(%a) -> (%r)
  func.return %r : memref<8xf32>
}
// CHECK: expected the counter of a host.for of 4 turns as the index

// -----

kernel.func @start(%x: memref<8xf32>) -> (%y: memref<8xf32>) grid 1 block 32 {}
kernel.func @more(%h: memref<8xf32>) -> (%p: memref<i1>) grid 1 block 32 {}
func.func @main(%x: memref<5x8xf32>, %h0: memref<8xf32>) -> memref<8xf32> {
  %w = memref.alloc() : memref<1024xui8>
  %h1 = host.slice %w at 0 : memref<1024xui8> -> memref<8xf32>
  host.launch @start(%h0) -> (%h1)
  %s = host.slice %w at 256 : memref<1024xui8> -> memref<8xf32>
  %a = host.slice %w at 512 : memref<1024xui8> -> memref<8xf32>
  %p = host.slice %w at 768 : memref<1024xui8> -> memref<i1>
  host.launch @more(%h1) -> (%p)
  host.if %p : memref<i1> {
    host.launch @start(%h1) -> (%a)
  } else {
  }
  %r = memref.alloc() : memref<8xf32>
  host.launch @start(%a) -> (%r)
  func.return %r : memref<8xf32>
}
// CHECK: @start: expected %a to be written before it is read, found no write of it

// -----

kernel.func @start(%x: memref<8xf32>) -> (%y: memref<8xf32>) grid 1 block 32 {}
kernel.func @more(%h: memref<8xf32>) -> (%p: memref<i1>) grid 1 block 32 {}
func.func @main(%x: memref<5x8xf32>, %h0: memref<8xf32>) -> memref<8xf32> {
  %w = memref.alloc() : memref<1024xui8>
  %h1 = host.slice %w at 0 : memref<1024xui8> -> memref<8xf32>
  host.launch @start(%h0) -> (%h1)
  %s = host.slice %w at 256 : memref<1024xui8> -> memref<8xf32>
  %a = host.slice %w at 512 : memref<1024xui8> -> memref<8xf32>
  %p = host.slice %w at 768 : memref<1024xui8> -> memref<i1>
  host.if %p : memref<i1> {
  } else {
  }
  %r = memref.alloc() : memref<8xf32>
  host.launch @start(%a) -> (%r)
  func.return %r : memref<8xf32>
}
// CHECK: host.if: expected %p to be written before it is read, found no write of it
