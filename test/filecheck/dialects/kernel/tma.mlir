// RUN: dlc-opt %s | filecheck %s
// RUN: DLC_ROUNDTRIP

// CHECK: kernel.func @k
kernel.func @k(%x: memref<100x2048xf32>, %w: memref<1x64xf16>) -> () grid 32 block 256 {
  // CHECK-NEXT: %b = kernel.block_id
  %b = kernel.block_id
  // CHECK-NEXT: %t = kernel.thread_id
  %t = kernel.thread_id
  // CHECK-NEXT: %x_map = kernel.tensor_map %x box [128, 16] : memref<100x2048xf32>
  %x_map = kernel.tensor_map %x box [128, 16] : memref<100x2048xf32>
  // CHECK-NEXT: %w_map = kernel.tensor_map %w box [8, 32] swizzle 64 : memref<1x64xf16>
  %w_map = kernel.tensor_map %w box [8, 32] swizzle 64 : memref<1x64xf16>
  // CHECK-NEXT: %x_ring = kernel.alloc_shared : memref<3x128x16xf32, #kernel.shared>
  %x_ring = kernel.alloc_shared : memref<3x128x16xf32, #kernel.shared>
  // CHECK-NEXT: %w_ring = kernel.alloc_shared : memref<8x64xf16, #kernel.swizzle<64>, #kernel.shared>
  %w_ring = kernel.alloc_shared : memref<8x64xf16, #kernel.swizzle<64>, #kernel.shared>
  // CHECK-NEXT: %full = kernel.alloc_mbarriers 3
  %full = kernel.alloc_mbarriers 3
  // CHECK-NEXT: kernel.mbarrier_init %full[%t mod 3], 8
  kernel.mbarrier_init %full[%t mod 3], 8
  // CHECK-NEXT: kernel.fence_mbarrier_init
  kernel.fence_mbarrier_init
  // CHECK-NEXT: kernel.mbarrier_expect_tx %full[0], 8192
  kernel.mbarrier_expect_tx %full[0], 8192
  // CHECK-NEXT: kernel.tma_load %x_map[%b * 128 - 4, 2040] -> %x_ring[%t mod 3, 0, 0], %full[%t mod 3] : memref<3x128x16xf32, #kernel.shared>
  kernel.tma_load %x_map[%b * 128 - 4, 2040] -> %x_ring[%t mod 3, 0, 0], %full[%t mod 3]
    : memref<3x128x16xf32, #kernel.shared>
  // CHECK-NEXT: kernel.tma_load %w_map[0, 32] -> %w_ring[0, 32], %full[0] : memref<8x64xf16, #kernel.swizzle<64>, #kernel.shared>
  kernel.tma_load %w_map[0, 32] -> %w_ring[0, 32], %full[0]
    : memref<8x64xf16, #kernel.swizzle<64>, #kernel.shared>
  // CHECK-NEXT: kernel.mbarrier_wait %full[0], parity %t mod 2
  kernel.mbarrier_wait %full[0], parity %t mod 2
  // CHECK-NEXT: kernel.mbarrier_arrive %full[2]
  kernel.mbarrier_arrive %full[2]
  // CHECK-NEXT: kernel.fence_proxy_async
  kernel.fence_proxy_async
  // CHECK-NEXT: kernel.sync_warp
  kernel.sync_warp
}
