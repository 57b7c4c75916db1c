// RUN: dlc-opt %s | dlc-opt | filecheck %s
// RUN: dlc-opt %s -p canonicalize,cse,dce | filecheck %s

kernel.func @add(%x: memref<64xf32>) -> (%y: memref<64xf32> zeroed, %none: memref<0xf32>) grid 1 block 32 {
}
// Effects keep all of it, and two slices of the same bytes stay in their order.
// CHECK: func.func @main(%x: memref<64xf32>) -> memref<64xf32> {
// CHECK-NEXT: %workspace = memref.alloc() {alignment = 256 : i64} : memref<256xui8>
// CHECK-NEXT: %a = host.slice %workspace at 0 : memref<256xui8> -> memref<64xf32>
// CHECK-NEXT: %none = host.slice %workspace at 256 : memref<256xui8> -> memref<0xf32>
// CHECK-NEXT: host.zero %a : memref<64xf32>
// CHECK-NEXT: host.launch @add(%x) -> (%a, %none) {ops = ["0 sum.default"]}
// CHECK-NEXT: %y = memref.alloc() : memref<64xf32>
// CHECK-NEXT: host.zero %y : memref<64xf32>
// CHECK-NEXT: host.launch @add(%a) -> (%y, %none)
// CHECK-NEXT: func.return %y : memref<64xf32>
func.func @main(%x: memref<64xf32>) -> memref<64xf32> {
  %workspace = memref.alloc() {alignment = 256 : i64} : memref<256xui8>
  %a = host.slice %workspace at 0 : memref<256xui8> -> memref<64xf32>
  %none = host.slice %workspace at 256 : memref<256xui8> -> memref<0xf32>
  host.zero %a : memref<64xf32>
  host.launch @add(%x) -> (%a, %none) {ops = ["0 sum.default"]}
  %y = memref.alloc() : memref<64xf32>
  host.zero %y : memref<64xf32>
  host.launch @add(%a) -> (%y, %none)
  func.return %y : memref<64xf32>
}
