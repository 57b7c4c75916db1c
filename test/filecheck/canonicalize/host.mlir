// RUN: dlc-opt %s -p canonicalize | filecheck %s
// RUN: dlc-opt %s -p cse | filecheck %s --check-prefix CSE
// RUN: dlc-opt %s -p dce | filecheck %s

// Slices that nobody uses go; launches, zeros and kernels stay. Allocations that are equal are two,
// slices of the same bytes one.

// CHECK-LABEL: func.func @main
// CHECK-NEXT:  %w = memref.alloc
// CHECK-NEXT:  %a = host.slice %w at 0
// CHECK-NEXT:  host.launch @twice(%x) -> (%a)
// CHECK-NEXT:  %y = memref.alloc
// CHECK-NEXT:  host.zero %y
// CHECK-NEXT:  host.zero %y
// CHECK-NEXT:  host.launch @twice(%a) -> (%y)
// CHECK-NEXT:  %z = memref.alloc
// CHECK-NEXT:  %b = host.slice %w at 0
// CHECK-NEXT:  host.launch @twice(%x) -> (%b)
// CHECK-NEXT:  host.launch @twice(%b) -> (%z)
// CHECK-NEXT:  func.return %y, %z

// CSE:      %a = host.slice %w at 0
// CSE-NOT:  host.slice
// CSE:      %y = memref.alloc
// CSE:      %z = memref.alloc
// CSE-NEXT: host.launch @twice(%x) -> (%a)
// CSE-NEXT: host.launch @twice(%a) -> (%z)
func.func @main(%x: memref<64xf32>) -> (memref<64xf32>, memref<64xf32>) {
  %w = memref.alloc() {alignment = 256 : i64} : memref<512xui8>
  %a = host.slice %w at 0 : memref<512xui8> -> memref<64xf32>
  %unused = host.slice %w at 256 : memref<512xui8> -> memref<64xf32>
  host.launch @twice(%x) -> (%a)
  %y = memref.alloc() {alignment = 256 : i64} : memref<64xf32>
  host.zero %y : memref<64xf32>
  host.zero %y : memref<64xf32>
  host.launch @twice(%a) -> (%y)
  %z = memref.alloc() {alignment = 256 : i64} : memref<64xf32>
  %b = host.slice %w at 0 : memref<512xui8> -> memref<64xf32>
  host.launch @twice(%x) -> (%b)
  host.launch @twice(%b) -> (%z)
  func.return %y, %z : memref<64xf32>, memref<64xf32>
}

// CHECK:       kernel.func @twice
// CHECK:       kernel.func @unlaunched
kernel.func @twice(%x: memref<64xf32>) -> (%y: memref<64xf32>) grid 1 block 64 {
  %t = kernel.thread_id
  %a = kernel.load %x[%t] : memref<64xf32>
  %b = arith.addf %a, %a : f32
  kernel.store %b, %y[%t] : memref<64xf32>
}
kernel.func @unlaunched(%x: memref<64xf32>) -> (%y: memref<64xf32>) grid 1 block 64 {
  %t = kernel.thread_id
  %a = kernel.load %x[%t] : memref<64xf32>
  kernel.store %a, %y[%t] : memref<64xf32>
}
