// RUN: dlc-opt %s -p plan-buffers | filecheck %s
// RUN: dlc-opt %s -p plan-buffers | dlc-opt | filecheck %s
// What launches give of parameters of a frozen module alone is kept, each in memory of its own; not
// what is returned, what other inputs are part of, or what the program writes.

// CHECK:      func.func @main
// CHECK-NEXT:   %workspace = memref.alloc() {alignment = 256 : i64} : memref<256xui8>
// CHECK-NEXT:   %a = memref.alloc() {alignment = 256 : i64} : memref<64xf32>
// CHECK-NEXT:   host.launch @twice(%w) -> (%a) {once}
// CHECK-NEXT:   %b = memref.alloc() {alignment = 256 : i64} : memref<64xf32>
// CHECK-NEXT:   host.launch @twice(%a) -> (%b) {once}
// CHECK-NEXT:   %c = memref.alloc() {alignment = 256 : i64} : memref<64xf32>
// CHECK-NEXT:   host.launch @twice(%b) -> (%c)
// CHECK-NEXT:   %d = host.slice %workspace at 0 : memref<256xui8> -> memref<64xf32>
// CHECK-NEXT:   host.launch @twice(%v) -> (%d)
// CHECK-NEXT:   %e = memref.alloc() {alignment = 256 : i64} : memref<64xf32>
// CHECK-NEXT:   host.launch @twice(%d) -> (%e)
// CHECK-NEXT:   %f = host.slice %workspace at 0 : memref<256xui8> -> memref<64xf32>
// CHECK-NEXT:   host.launch @twice(%x) -> (%f)
builtin.module attributes {dlc.frozen} {
  func.func @main(%x: tensor<64xf32>, %w: tensor<64xf32> {dlc.kind = "parameter"}, %v: tensor<64xf32> {dlc.kind = "buffer"})
      -> (tensor<64xf32>, tensor<64xf32> {dlc.mutates = 2 : i64}, tensor<64xf32>) {
    %a = kernel.launch @twice(%w) : (tensor<64xf32>) -> (tensor<64xf32>)
    %b = kernel.launch @twice(%a) : (tensor<64xf32>) -> (tensor<64xf32>)
    %c = kernel.launch @twice(%b) : (tensor<64xf32>) -> (tensor<64xf32>)
    %d = kernel.launch @twice(%v) : (tensor<64xf32>) -> (tensor<64xf32>)
    %e = kernel.launch @twice(%d) : (tensor<64xf32>) -> (tensor<64xf32>)
    %f = kernel.launch @twice(%x) : (tensor<64xf32>) -> (tensor<64xf32>)
    %g = kernel.launch @twice(%f) : (tensor<64xf32>) -> (tensor<64xf32>)
    func.return %c, %e, %g : tensor<64xf32>, tensor<64xf32>, tensor<64xf32>
  }
  kernel.func @twice(%x: memref<64xf32>) -> (%y: memref<64xf32>) grid 1 block 64 {
    %t = kernel.thread_id
    %0 = kernel.load %x[%t] : memref<64xf32>
    %1 = arith.addf %0, %0 : f32
    kernel.store %1, %y[%t] : memref<64xf32>
  }
}
