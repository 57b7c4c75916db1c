// RUN: dlc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

func.func @main(%x: memref<64xf32>) {
  %w = memref.alloc() : memref<256xui8>
  %a = host.slice %w at 256 : memref<256xui8> -> memref<64xf32>
  func.return
}
// CHECK: expected bytes within 0 to 256, found 256 to 512

// -----

func.func @main(%x: memref<64xf32>) {
  %w = memref.alloc() : memref<256xui8>
  %a = host.slice %w at -16 : memref<256xui8> -> memref<64xf32>
  func.return
}
// CHECK: expected bytes within 0 to 256, found -16 to 240

// -----

func.func @main(%x: memref<64xf32>) {
  %w = memref.alloc() : memref<512xui8>
  %a = host.slice %w at 4 : memref<512xui8> -> memref<64xf32>
  func.return
}
// CHECK: expected an offset that 16 divides, found 4

// -----

func.func @main(%x: memref<64xf32>) {
  %a = host.slice %x at 0 : memref<64xf32> -> memref<64xf32>
  func.return
}
// CHECK: expected a slice of a memref of bytes (?xui8), found memref<64xf32>

// -----

func.func @main(%x: memref<64xf32>) {
  host.launch @none(%x) -> ()
  func.return
}
// CHECK: expected a kernel.func named @none, found none

// -----

kernel.func @one(%x: memref<64xf32>) -> (%y: memref<64xf32>) grid 1 block 32 {}
func.func @main(%x: memref<32xf32>) {
  %y = memref.alloc() : memref<64xf32>
  host.launch @one(%x) -> (%y)
  func.return
}
// CHECK: expected inputs and outputs (memref<64xf32>, memref<64xf32>), found (memref<32xf32>, memref<64xf32>)

// -----

kernel.func @one(%x: memref<64xf32>) -> (%y: memref<64xf32>) grid 1 block 32 {}
func.func @main(%x: memref<64xf32>) {
  host.launch @one(%x) -> (%y)
  %y = memref.alloc() : memref<64xf32>
  func.return
}
// CHECK: expected a buffer, found %y, which nothing before defines

// -----

func.func @main(%x: tensor<64xf32>) {
  host.launch @one(%x) -> ()
  func.return
}
// CHECK: expected a buffer, found %x, of type tensor<64xf32>

// -----

kernel.func @one(%x: memref<64xf32>) -> (%y: memref<64xf32>) grid 1 block 32 {}
func.func @main(%x: memref<64xf32>) {
  %a = memref.alloc() : memref<64xf32>
  %y = memref.alloc() : memref<64xf32>
  host.launch @one(%a) -> (%y)
  func.return
}
// CHECK: @one: expected %a to be written before it is read, found no write of it

// -----

kernel.func @one(%x: memref<64xf32>) -> (%y: memref<64xf32>) grid 1 block 32 {}
func.func @main(%x: memref<64xf32>) {
  %w = memref.alloc() : memref<384xui8>
  %a = host.slice %w at 0 : memref<384xui8> -> memref<64xf32>
  %b = host.slice %w at 128 : memref<384xui8> -> memref<64xf32>
  %y = memref.alloc() : memref<64xf32>
  host.launch @one(%x) -> (%a)
  host.launch @one(%x) -> (%b)
  host.launch @one(%a) -> (%y)
  func.return
}
// CHECK: @one: expected %a to hold what was written to it, found %b, which @one writes over it

// -----

kernel.func @one(%x: memref<64xf32>) -> (%y: memref<64xf32>) grid 1 block 32 {}
func.func @main(%x: memref<64xf32>) {
  %w = memref.alloc() : memref<384xui8>
  %a = host.slice %w at 0 : memref<384xui8> -> memref<64xf32>
  %b = host.slice %w at 128 : memref<384xui8> -> memref<64xf32>
  host.launch @one(%x) -> (%a)
  host.launch @one(%a) -> (%b)
  func.return
}
// CHECK: @one: expected an output that shares no memory with %a, found %b

// -----

kernel.func @two(%x: memref<64xf32>) -> (%y: memref<64xf32>, %z: memref<64xf32>) grid 1 block 32 {}
func.func @main(%x: memref<64xf32>) {
  %w = memref.alloc() : memref<384xui8>
  %a = host.slice %w at 0 : memref<384xui8> -> memref<64xf32>
  %b = host.slice %w at 128 : memref<384xui8> -> memref<64xf32>
  host.launch @two(%x) -> (%a, %b)
  func.return
}
// CHECK: @two: expected an output that shares no memory with %a, found %b

// -----

kernel.func @one(%x: memref<64xf32>) -> (%y: memref<64xf32>) grid 1 block 32 {}
func.func @main(%x: memref<64xf32>, %y: memref<64xf32>) {
  host.launch @one(%x) -> (%y)
  func.return
}
// CHECK: @one: expected writes to allocations only, found %y, which is none

// -----

kernel.func @add(%x: memref<64xf32>) -> (%y: memref<64xf32> zeroed) grid 1 block 32 {}
func.func @main(%x: memref<64xf32>) {
  %y = memref.alloc() : memref<64xf32>
  host.zero %y : memref<64xf32>
  host.launch @add(%x) -> (%y)
  host.launch @add(%x) -> (%y)
  func.return
}
// CHECK: @add: expected %y to be zeroed before, found no host.zero of it

// -----

kernel.func @one(%x: memref<64xf32>) -> (%y: memref<64xf32>) grid 1 block 32 {}
func.func @main(%x: memref<64xf32>) -> memref<64xf32> {
  %w = memref.alloc() : memref<256xui8>
  %a = host.slice %w at 0 : memref<256xui8> -> memref<64xf32>
  host.launch @one(%x) -> (%a)
  func.return %a : memref<64xf32>
}
// CHECK: func.return: expected results that are allocations of their own, found %a

// -----

// What blocks are counted in is zero afterwards; what is added to is not, nor what another one wrote.
kernel.func @count() -> (%arrived: memref<64xi32> zeroed) grid 2 block 32 {
  kernel.last_block %arrived[0] of 2 : memref<64xi32>
}
kernel.func @one() -> (%y: memref<64xi32>) grid 1 block 32 {}
func.func @main() {
  %w = memref.alloc() : memref<512xui8>
  %all = host.slice %w at 0 : memref<512xui8> -> memref<128xi32>
  host.zero %all : memref<128xi32>
  %a = host.slice %w at 0 : memref<512xui8> -> memref<64xi32>
  %b = host.slice %w at 256 : memref<512xui8> -> memref<64xi32>
  host.launch @count() -> (%a)
  host.launch @count() -> (%b)
  host.launch @one() -> (%b)
  host.launch @count() -> (%a)
  host.launch @count() -> (%b)
  func.return
}
// CHECK: @count: expected %b to be zeroed before, found no host.zero of it
