// RUN: dlc-opt %s -p share-kernels -o %t.mlir
// RUN: filecheck %s --input-file=%t.mlir
// RUN: dlc-opt %t.mlir | filecheck %s
// RUN: dlc-opt %s -p share-kernels --remarks 2>&1 >/dev/null | filecheck %s --check-prefix=SAYS
// RUN: dlc-opt %t.mlir -p 'tileify,split-matmul-k{splits=3},bind-axes,lower-stages,lower-reduces,lower-registers,plan-buffers' | filecheck %s --check-prefix=HOST

// Kernels that differ in where they store get views of what they store to, of the same type.
// SAYS: share-kernels: second: updates a view at [0, 8]
// SAYS: share-kernels: third: updates a view at [0, 12]
// SAYS: share-kernels: second: launched 2 times: it is @third

// CHECK: %y = loop.kernel @first(
// CHECK-SAME: -> (%y: memref<7x24xf32> partial)
// CHECK: %y_part = kernel.view %y[0, 8] : tensor<7x24xf32> -> tensor<7x4xf32>
// CHECK-NEXT: %y_part_1 = loop.kernel @second(%a: memref<7x5xf32> = %a, %w: memref<5x4xf32> = %w, %y: memref<7x4xf32, strided<[24, 1]>> = %y_part) -> (%z: memref<7x4xf32, strided<[24, 1]>> updates %y) {
// CHECK: loop.store %s, %z[%i, %j] : memref<7x4xf32, strided<[24, 1]>>
// CHECK: %z = kernel.whole %y_part with %y_part_1 : tensor<7x4xf32> -> tensor<7x24xf32>
// CHECK-NEXT: %z_part = kernel.view %z[0, 12] : tensor<7x24xf32> -> tensor<7x4xf32>
// CHECK-NEXT: %z_part_1 = kernel.launch @second(%b, %w, %z_part) : (tensor<7x5xf32>, tensor<5x4xf32>, tensor<7x4xf32>) -> (tensor<7x4xf32>)
// CHECK-NEXT: %u = kernel.whole %z_part with %z_part_1 : tensor<7x4xf32> -> tensor<7x24xf32>
// An address that is not known to be a multiple of 16 bytes is another kernel's.
// CHECK: loop.kernel @fourth(
// CHECK-SAME: updates
// CHECK: loop.store %{{.*}}[%i, %j + 17]
// CHECK-NOT: kernel.view

// HOST: %workspace = memref.alloc()
// HOST: %y = memref.alloc() {alignment = 256 : i64} : memref<7x24xf32>
// HOST-NEXT: host.launch @first(%x) -> (%y)
// HOST-NEXT: %y_part = host.view %y[0, 8] : memref<7x24xf32> -> memref<7x4xf32, strided<[24, 1]>>
// HOST: host.launch @second(%a, %w) -> (%s_parts)
// HOST-NEXT: host.launch @second_combine(%s_parts, %y_part) -> (%y_part)
// HOST-NEXT: %z_part = host.view %y[0, 12]
// HOST: host.launch @second_combine(%s_parts_1, %z_part) -> (%z_part)
// HOST: func.return %y : memref<7x24xf32>

func.func @main(%x: tensor<7x8xf32>, %a: tensor<7x5xf32>, %b: tensor<7x5xf32>, %w: tensor<5x4xf32>) -> tensor<7x24xf32> {
  %y = loop.kernel @first(%x: memref<7x8xf32> = %x) -> (%y: memref<7x24xf32> partial) {
    loop.for %i in 7, %j in 8 {
      %0 = loop.load %x[%i, %j] : memref<7x8xf32>
      loop.store %0, %y[%i, %j] : memref<7x24xf32>
    }
  }
  %z = loop.kernel @second(%a: memref<7x5xf32> = %a, %w: memref<5x4xf32> = %w, %y: memref<7x24xf32> = %y) -> (%z: memref<7x24xf32> updates %y) {
    loop.for %i in 7, %j in 4 {
      %s = loop.reduce add %k in 5 -> f32 {
        %0 = loop.load %a[%i, %k] : memref<7x5xf32>
        %1 = loop.load %w[%k, %j] : memref<5x4xf32>
        %p = arith.mulf %0, %1 : f32
        loop.yield %p : f32
      }
      loop.store %s, %z[%i, %j + 8] : memref<7x24xf32>
    }
  }
  %u = loop.kernel @third(%a: memref<7x5xf32> = %b, %w: memref<5x4xf32> = %w, %y: memref<7x24xf32> = %z) -> (%z: memref<7x24xf32> updates %y) {
    loop.for %i in 7, %j in 4 {
      %s = loop.reduce add %k in 5 -> f32 {
        %0 = loop.load %a[%i, %k] : memref<7x5xf32>
        %1 = loop.load %w[%k, %j] : memref<5x4xf32>
        %p = arith.mulf %0, %1 : f32
        loop.yield %p : f32
      }
      loop.store %s, %z[%i, %j + 12] : memref<7x24xf32>
    }
  }
  %v = loop.kernel @fourth(%a: memref<7x5xf32> = %b, %w: memref<5x4xf32> = %w, %y: memref<7x24xf32> = %u) -> (%z: memref<7x24xf32> updates %y) {
    loop.for %i in 7, %j in 4 {
      %s = loop.reduce add %k in 5 -> f32 {
        %0 = loop.load %a[%i, %k] : memref<7x5xf32>
        %1 = loop.load %w[%k, %j] : memref<5x4xf32>
        %p = arith.mulf %0, %1 : f32
        loop.yield %p : f32
      }
      loop.store %s, %z[%i, %j + 17] : memref<7x24xf32>
    }
  }
  func.return %v : tensor<7x24xf32>
}
