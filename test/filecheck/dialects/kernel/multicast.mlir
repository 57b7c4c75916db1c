// RUN: dlc-opt %s | filecheck %s
// RUN: DLC_ROUNDTRIP

// CHECK: kernel.func @k(%x: memref<128x64xbf16>) -> () grid 8 block 64 cluster 4 {
kernel.func @k(%x: memref<128x64xbf16>) -> () grid 8 block 64 cluster 4 {
  %b = kernel.block_id
  %t = kernel.thread_id
  %m = kernel.tensor_map %x box [64, 64] swizzle 128 : memref<128x64xbf16>
  %s = kernel.alloc_shared : memref<2x128x64xbf16, #kernel.swizzle<128>, #kernel.shared>
  %f = kernel.alloc_mbarriers 2
  // CHECK: kernel.tma_multicast %m[(%b floordiv 2) mod 2 * 64, 0] -> %s[%t mod 2, (%b floordiv 2) mod 2 * 64, 0], %f[%t mod 2] from [%b mod 2] to [0, 2] : memref<2x128x64xbf16, #kernel.swizzle<128>, #kernel.shared>
  kernel.tma_multicast %m[%b floordiv 2 mod 2 * 64, 0] -> %s[%t mod 2, %b floordiv 2 mod 2 * 64, 0],
    %f[%t mod 2] from [%b mod 2] to [0, 2]
    : memref<2x128x64xbf16, #kernel.swizzle<128>, #kernel.shared>
  // CHECK-NEXT: kernel.mbarrier_arrive_at %f[%t mod 2], block %t mod 4
  kernel.mbarrier_arrive_at %f[%t mod 2], block %t mod 4
}
