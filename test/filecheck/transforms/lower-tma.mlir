// RUN: dlc-opt %s -p bind-axes,lower-stages,lower-reduces,lower-registers,place-barriers | filecheck %s

// Two warps, rings of two slots, chunks requested one ahead. Rows of 256 bytes swizzled in panels
// of 128 are two boxes.

// CHECK-LABEL: kernel.func @sums
// CHECK-DAG: %x_ring = kernel.alloc_shared : memref<2x8x64xf32, #kernel.swizzle<128>, #kernel.shared>
// CHECK-DAG: %x_map = kernel.tensor_map %x box [8, 32] swizzle 128 : memref<60x64xf32>
// CHECK-DAG: %b_map = kernel.tensor_map %b box [8] : memref<60xf32>
// CHECK-DAG: %full = kernel.alloc_mbarriers 2
// CHECK-DAG: %empty = kernel.alloc_mbarriers 2
// CHECK: kernel.test where (%t < 1)
// CHECK: kernel.mbarrier_init %full[%slot], 1
// CHECK-NEXT: kernel.mbarrier_init %empty[%slot], 2
// CHECK: kernel.fence_mbarrier_init
// CHECK: kernel.barrier
// CHECK: kernel.mbarrier_expect_tx %full[0], 2080
// CHECK-NEXT: kernel.tma_load %x_map[0, 0] -> %x_ring[0, 0, 0], %full[0]
// CHECK-NEXT: kernel.tma_load %x_map[0, 32] -> %x_ring[0, 0, 32], %full[0]
// CHECK-NEXT: kernel.tma_load %b_map[0] -> %b_ring[0, 0], %full[0]
// CHECK: scf.for %k =
// CHECK-NOT: kernel.barrier
// CHECK: %[[slot:.*]] = kernel.index %k mod 2
// CHECK-NEXT: kernel.mbarrier_wait %full[%[[slot]]], parity (%k floordiv 2) mod 2
// CHECK-NEXT: kernel.test where (%t < 1, %k < 7)
// CHECK-NEXT: scf.if
// CHECK-NEXT: %[[next:.*]] = kernel.index (%k + 1) mod 2
// CHECK-NEXT: kernel.mbarrier_wait %empty[%[[next]]], parity ((%k + 1) floordiv 2 + 1) mod 2
// CHECK-NEXT: kernel.mbarrier_expect_tx %full[%[[next]]], 2080
// CHECK-NEXT: kernel.tma_load %x_map[%k * 8 + 8, 0] -> %x_ring[%[[next]], 0, 0], %full[%[[next]]]
// CHECK-NEXT: kernel.tma_load %x_map[%k * 8 + 8, 32] -> %x_ring[%[[next]], 0, 32], %full[%[[next]]]
// CHECK: kernel.sync_warp
// CHECK-NEXT: kernel.test where (%t mod 32 < 1)
// CHECK-NEXT: scf.if
// CHECK-NEXT: kernel.mbarrier_arrive %empty[%[[slot]]]
func.func @main(%x: tensor<60x64xf32>, %b: tensor<60xf32>) -> tensor<64xf32> {
  %y = tile.kernel @sums(%x: memref<60x64xf32> = %x, %b: memref<60xf32> = %b) -> (%y: memref<64xf32>) {
    tile.launch thread(%t in 64) {
      %x_ring = tile.ring tma %x(%n in 8)[%n * 8, 0] [8, 64] : memref<60x64xf32> -> memref<2x8x64xf32, #kernel.swizzle<128>, #tile.shared>
      %b_ring = tile.ring tma %b(%n in 8)[%n * 8] [8] : memref<60xf32> -> memref<2x8xf32, strided<[32, 1]>, #tile.shared>
      tile.fill %x_ring[0]
      tile.fill %b_ring[0]
      %s = tile.reduce add serial(%k in 8) -> f32 {
        %xs = tile.acquire %x_ring[%k] : memref<2x8x64xf32, #kernel.swizzle<128>, #tile.shared> -> memref<8x64xf32, #kernel.swizzle<128>, #tile.shared>
        %bs = tile.acquire %b_ring[%k] : memref<2x8xf32, strided<[32, 1]>, #tile.shared> -> memref<8xf32, strided<[1]>, #tile.shared>
        tile.fill %x_ring[%k + 1]
        tile.fill %b_ring[%k + 1]
        %p = tile.reduce add serial(%c in 8) -> f32 {
          %v = tile.load %xs[%c, %t] : memref<8x64xf32, #kernel.swizzle<128>, #tile.shared>
          %w = tile.load %bs[%c] : memref<8xf32, strided<[1]>, #tile.shared>
          %m = arith.mulf %v, %w : f32
          tile.yield %m : f32
        }
        tile.release %x_ring[%k]
        tile.release %b_ring[%k]
        tile.yield %p : f32
      }
      tile.store %s, %y[%t] : memref<64xf32>
    }
  }
  func.return %y : tensor<64xf32>
}
