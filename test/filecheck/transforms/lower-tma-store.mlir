// RUN: dlc-opt %s -p bind-axes,lower-stages,lower-reduces,lower-registers | filecheck %s

// Lane 4 * g + m of a warp has columns 2m and 2m + 1 of rows g and g + 8, of each of two tiles: two
// warps store boxes of 16 rows and 16 columns, and what lies beyond row 30 is left to the map.
func.func @main(%x: tensor<30x16xf32>) -> tensor<30x16xf32> {
  // CHECK: %y_slab = kernel.alloc_shared : memref<2x1x16x16xf32, #kernel.swizzle<64>, #kernel.shared>
  // CHECK-NEXT: %y_map = kernel.tensor_map %y box [16, 16] swizzle 64 : memref<30x16xf32>
  // CHECK: kernel.store %{{.*}}, %y_slab[%tid floordiv 32, 0, %h_1 * 8 + (%tid mod 32) floordiv 4, %r_1 * 8 + %tid mod 4 * 2 + %p_1]
  // CHECK: kernel.fence_proxy_async
  // CHECK-NEXT: kernel.sync_warp
  // CHECK-NEXT: %[[LEADS:.*]] = kernel.test where (%tid mod 32 < 1)
  // CHECK-NEXT: scf.if %[[LEADS]] {
  // CHECK-NEXT: kernel.tma_store %y_slab[%tid floordiv 32, 0, 0, 0] -> %y_map[%w * 16, 0] : memref<2x1x16x16xf32, #kernel.swizzle<64>, #kernel.shared>
  // CHECK-NEXT: kernel.tma_commit
  // CHECK-NEXT: }
  // CHECK-NEXT: kernel.tma_wait 0{{$}}
  %y = tile.kernel @k(%x: memref<30x16xf32> = %x) -> (%y: memref<30x16xf32>) {
    tile.launch thread(%w in 2, %g in 8, %m in 4) register(%r in 2, %h in 2, %p in 2) {
      %v = tile.load %x[%w * 16 + %h * 8 + %g, %r * 8 + %m * 2 + %p] where (%w * 16 + %h * 8 + %g < 30) : memref<30x16xf32>
      tile.store %v, %y[%w * 16 + %h * 8 + %g, %r * 8 + %m * 2 + %p] where (%w * 16 + %h * 8 + %g < 30) boxes 1 : memref<30x16xf32>
    }
  }
  func.return %y : tensor<30x16xf32>
}
