// RUN: dlc-opt %s | dlc-opt | filecheck %s
// RUN: dlc-opt %s -p canonicalize,cse,dce | filecheck %s
// RUN: dlc-opt %s -p plan-buffers | dlc-opt | filecheck %s --check-prefix=HOST
// A kernel that updates boxes of tensors: in the memory of an argument, and in the workspace.

kernel.func @fill(%x: memref<2x4xf32, strided<[16, 1]>>) -> (%y: memref<2x4xf32, strided<[16, 1]>> updates %x) grid 1 block 32 {
  %t = kernel.thread_id
  %0 = arith.constant 1.000000e+00 : f32
  kernel.store %0, %y[%t floordiv 4, %t mod 4] where (%t < 8) : memref<2x4xf32, strided<[16, 1]>>
}
kernel.func @copy(%x: memref<2x16xf32>) -> (%y: memref<2x16xf32>) grid 1 block 32 {
  %t = kernel.thread_id
  %0 = kernel.load %x[%t floordiv 16, %t mod 16] : memref<2x16xf32>
  kernel.store %0, %y[%t floordiv 16, %t mod 16] : memref<2x16xf32>
}
// CHECK: func.func @main
// CHECK-NEXT: %v = kernel.view %x[0, 4] : tensor<2x16xf32> -> tensor<2x4xf32>
// CHECK-NEXT: %u = kernel.launch @fill(%v) : (tensor<2x4xf32>) -> (tensor<2x4xf32>)
// CHECK-NEXT: %x1 = kernel.whole %v with %u : tensor<2x4xf32> -> tensor<2x16xf32>
// HOST: %workspace = memref.alloc() {alignment = 256 : i64} : memref<256xui8>
// HOST-NEXT: %v = host.view %x[0, 4] : memref<2x16xf32> -> memref<2x4xf32, strided<[16, 1]>>
// HOST-NEXT: host.launch @fill(%v) -> (%v)
// HOST-NEXT: %a = host.slice %workspace at 0 : memref<256xui8> -> memref<2x16xf32>
// HOST-NEXT: host.launch @copy(%x) -> (%a)
// HOST-NEXT: %w = host.view %a[0, 12] : memref<2x16xf32> -> memref<2x4xf32, strided<[16, 1]>>
// HOST-NEXT: host.launch @fill(%w) -> (%w)
// HOST-NEXT: %b = memref.alloc() {alignment = 256 : i64} : memref<2x16xf32>
// HOST-NEXT: host.launch @copy(%a) -> (%b)
// HOST-NEXT: func.return %x, %b : memref<2x16xf32>, memref<2x16xf32>
func.func @main(%x: tensor<2x16xf32>) -> (tensor<2x16xf32> {dlc.mutates = 0 : i64}, tensor<2x16xf32>) {
  %v = kernel.view %x[0, 4] : tensor<2x16xf32> -> tensor<2x4xf32>
  %u = kernel.launch @fill(%v) : (tensor<2x4xf32>) -> (tensor<2x4xf32>)
  %x1 = kernel.whole %v with %u : tensor<2x4xf32> -> tensor<2x16xf32>
  %a = kernel.launch @copy(%x1) : (tensor<2x16xf32>) -> (tensor<2x16xf32>)
  %w = kernel.view %a[0, 12] : tensor<2x16xf32> -> tensor<2x4xf32>
  %z = kernel.launch @fill(%w) : (tensor<2x4xf32>) -> (tensor<2x4xf32>)
  %a1 = kernel.whole %w with %z : tensor<2x4xf32> -> tensor<2x16xf32>
  %b = kernel.launch @copy(%a1) : (tensor<2x16xf32>) -> (tensor<2x16xf32>)
  func.return %x1, %b : tensor<2x16xf32>, tensor<2x16xf32>
}
