// RUN: dlc-opt %s | filecheck %s
// RUN: DLC_ROUNDTRIP

// CHECK: kernel.func @k
kernel.func @k(%x: memref<64xf32>) -> (%y: memref<100x64xbf16>, %z: memref<1x40xf32>) grid 32 block 256 {
  // CHECK-NEXT: %b = kernel.block_id
  %b = kernel.block_id
  // CHECK-NEXT: %t = kernel.thread_id
  %t = kernel.thread_id
  // CHECK-NEXT: %y_map = kernel.tensor_map %y box [16, 32] swizzle 64 : memref<100x64xbf16>
  %y_map = kernel.tensor_map %y box [16, 32] swizzle 64 : memref<100x64xbf16>
  // CHECK-NEXT: %z_map = kernel.tensor_map %z box [1, 8] : memref<1x40xf32>
  %z_map = kernel.tensor_map %z box [1, 8] : memref<1x40xf32>
  // CHECK-NEXT: %y_slab = kernel.alloc_shared : memref<8x2x16x32xbf16, #kernel.swizzle<64>, #kernel.shared>
  %y_slab = kernel.alloc_shared : memref<8x2x16x32xbf16, #kernel.swizzle<64>, #kernel.shared>
  // CHECK-NEXT: %z_slab = kernel.alloc_shared : memref<8xf32, #kernel.shared>
  %z_slab = kernel.alloc_shared : memref<8xf32, #kernel.shared>
  // CHECK-NEXT: kernel.tma_wait 1 read
  kernel.tma_wait 1 read
  // CHECK-NEXT: kernel.tma_store %y_slab[%t floordiv 32, 1, 0, 0] -> %y_map[%b * 16 - 4, 32] : memref<8x2x16x32xbf16, #kernel.swizzle<64>, #kernel.shared>
  kernel.tma_store %y_slab[%t floordiv 32, 1, 0, 0] -> %y_map[%b * 16 - 4, 32]
    : memref<8x2x16x32xbf16, #kernel.swizzle<64>, #kernel.shared>
  // CHECK-NEXT: kernel.tma_store %z_slab[0] -> %z_map[0, %b * 8] : memref<8xf32, #kernel.shared>
  kernel.tma_store %z_slab[0] -> %z_map[0, %b * 8] : memref<8xf32, #kernel.shared>
  // CHECK-NEXT: kernel.tma_commit
  kernel.tma_commit
  // CHECK-NEXT: kernel.tma_wait 0{{$}}
  kernel.tma_wait 0
}
