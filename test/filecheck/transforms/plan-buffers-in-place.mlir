// RUN: dlc-opt %s -p plan-buffers | filecheck %s
// Outputs that update an input lie where it does: in an argument, or in the workspace.

builtin.module {
  func.func @main(%x: tensor<64xf32>, %v: tensor<64xf32>)
      -> (tensor<64xf32> {dlc.mutates = 0 : i64}, tensor<64xf32>) {
    %x1 = kernel.launch @add(%x, %v) : (tensor<64xf32>, tensor<64xf32>) -> (tensor<64xf32>)
    %a = kernel.launch @twice(%x1) : (tensor<64xf32>) -> (tensor<64xf32>)
    %a1 = kernel.launch @add(%a, %v) : (tensor<64xf32>, tensor<64xf32>) -> (tensor<64xf32>)
    %b = kernel.launch @twice(%a1) : (tensor<64xf32>) -> (tensor<64xf32>)
    func.return %x1, %b : tensor<64xf32>, tensor<64xf32>
  }
  kernel.func @add(%x: memref<64xf32>, %v: memref<64xf32>) -> (%y: memref<64xf32> updates %x)
      grid 1 block 64 {
    %t = kernel.thread_id
    %0 = kernel.load %x[%t] : memref<64xf32>
    %1 = kernel.load %v[%t] : memref<64xf32>
    %2 = arith.addf %0, %1 : f32
    kernel.store %2, %y[%t] : memref<64xf32>
  }
  kernel.func @twice(%x: memref<64xf32>) -> (%y: memref<64xf32>) grid 1 block 64 {
    %t = kernel.thread_id
    %0 = kernel.load %x[%t] : memref<64xf32>
    %1 = arith.addf %0, %0 : f32
    kernel.store %1, %y[%t] : memref<64xf32>
  }
}
// CHECK:      func.func @main(%x: memref<64xf32>, %v: memref<64xf32>)
// CHECK-NEXT:   %workspace = memref.alloc() {alignment = 256 : i64} : memref<256xui8>
// CHECK-NEXT:   host.launch @add(%x, %v) -> (%x)
// CHECK-NEXT:   %a = host.slice %workspace at 0 : memref<256xui8> -> memref<64xf32>
// CHECK-NEXT:   host.launch @twice(%x) -> (%a)
// CHECK-NEXT:   host.launch @add(%a, %v) -> (%a)
// CHECK-NEXT:   %b = memref.alloc() {alignment = 256 : i64} : memref<64xf32>
// CHECK-NEXT:   host.launch @twice(%a) -> (%b)
// CHECK-NEXT:   func.return %x, %b : memref<64xf32>, memref<64xf32>
// CHECK:      kernel.func @add(%x: memref<64xf32>, %v: memref<64xf32>) -> (%y: memref<64xf32> updates %x) grid 1 block 64 {
