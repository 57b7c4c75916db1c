// RUN: dlc-opt %s -p split-inner-for-swizzle --split-input-file --remarks 2>%t.remarks | filecheck %s
// RUN: filecheck %s --input-file %t.remarks --check-prefix=REMARK
// RUN: dlc-opt %s -p 'split-inner-for-swizzle{bytes=32}' --split-input-file | filecheck %s --check-prefix=NARROW
// RUN: not dlc-opt %s -p 'split-inner-for-swizzle{bytes=48}' --split-input-file 2>&1 | filecheck %s --check-prefix=WIDTH
// RUN: dlc-opt %s -p 'tileify,split-inner-for-swizzle,bind-axes,lower-stages,lower-reduces,lower-registers,place-barriers,vectorize-accesses' --split-input-file -t cuda | filecheck %s --check-prefix=CUDA
// WIDTH: <pipeline>:1:25: error: split-inner-for-swizzle: a swizzle is 32, 64 or 128 bytes wide, or 0 for none, not 48
// RUN: dlc-opt %s -p 'split-inner-for-swizzle{rings=ring bytes=128}' --split-input-file --verify-diagnostics --remarks 2>&1 >%t.wide | filecheck %s --check-prefix=WIDE
// RUN: filecheck %s --input-file %t.wide --check-prefix=MISFIT
// WIDE: split-inner-for-swizzle: row: ring by 128 B
// WIDE-NEXT: split-inner-for-swizzle: panels: ring by 128 B
// MISFIT: kernel narrow: split-inner-for-swizzle: the slab of 32 x 16 elements of ring has no rows of a multiple of 128 B, 8 or a multiple of them
// RUN: dlc-opt %s -p 'split-inner-for-swizzle{bytes=0}' --split-input-file --remarks 2>&1 >/dev/null | filecheck %s --check-prefix=NONE
// NONE: split-inner-for-swizzle: row: skipped, no ring is swizzled

// A row is as wide as the swizzle.
// CHECK: schedule "split-inner-for-swizzle{rings=ring bytes=128}" {
// CHECK: tile.ring tma %x(%n in 4)[0, %n * 32] [32, 32] : memref<32x128xf32> -> memref<2x32x32xf32, #kernel.swizzle<128>, #tile.shared>
// CHECK: tile.acquire %ring[%ko] : memref<2x32x32xf32, #kernel.swizzle<128>, #tile.shared> -> memref<32x32xf32, #kernel.swizzle<128>, #tile.shared>
// CHECK: tile.load %slot[%t, %k * 4 + %v] : memref<32x32xf32, #kernel.swizzle<128>, #tile.shared>
// NARROW: memref<2x32x32xf32, #kernel.swizzle<32>, #tile.shared>
// CUDA: alignas(1024) float ring[2048];
// CUDA: tma_load_2d(&ring[slot * 1024], &x_map, &full[slot], ko * 32, 0);
// CUDA: load4(&ring[slot * 1024 + t * 32 + ((k * 4) ^ (t % 8 * 4))])
func.func @main(%x: tensor<32x128xf32>) -> tensor<32xf32> {
  // REMARK: split-inner-for-swizzle: row: ring by 128 B: 8 ways, now 1
  %y = tile.kernel @row(%x: memref<32x128xf32> = %x) -> (%y: memref<32xf32>) schedule "split-inner-for-swizzle" {
    tile.launch thread(%t in 32) {
      %ring = tile.ring tma %x(%n in 4)[0, %n * 32] [32, 32] : memref<32x128xf32> -> memref<2x32x32xf32, #tile.shared>
      %s = tile.reduce add serial(%ko in 4) -> f32 {
        tile.fill %ring[%ko]
        %slot = tile.acquire %ring[%ko] : memref<2x32x32xf32, #tile.shared> -> memref<32x32xf32, #tile.shared>
        %p = tile.reduce add serial(%k in 8) register(%v in 4) -> f32 {
          %e = tile.load %slot[%t, %k * 4 + %v] : memref<32x32xf32, #tile.shared>
          tile.yield %e : f32
        }
        tile.release %ring[%ko]
        tile.yield %p : f32
      }
      tile.store %s, %y[%t] : memref<32xf32>
    }
  }
  func.return %y : tensor<32xf32>
}

// -----

// A wider row is split into panels, one box each.
// CHECK: tile.ring tma %x(%n in 4)[0, %n * 64] [32, 64] : memref<32x256xf32> -> memref<2x32x64xf32, #kernel.swizzle<128>, #tile.shared>
// CUDA: tma_load_2d(&ring[slot * 2048], &x_map, &full[slot], ko * 64, 0);
// CUDA: tma_load_2d(&ring[slot * 2048 + 1024], &x_map, &full[slot], ko * 64 + 32, 0);
// CUDA: load4(&ring[slot * 2048 + t * 32 + k / 8 * 1024 + ((k % 8 * 4) ^ (t % 8 * 4))])
func.func @main(%x: tensor<32x256xf32>) -> tensor<32xf32> {
  // REMARK: split-inner-for-swizzle: panels: ring by 128 B: 8 ways, now 1
  %y = tile.kernel @panels(%x: memref<32x256xf32> = %x) -> (%y: memref<32xf32>) schedule "split-inner-for-swizzle" {
    tile.launch thread(%t in 32) {
      %ring = tile.ring tma %x(%n in 4)[0, %n * 64] [32, 64] : memref<32x256xf32> -> memref<2x32x64xf32, #tile.shared>
      %s = tile.reduce add serial(%ko in 4) -> f32 {
        tile.fill %ring[%ko]
        %slot = tile.acquire %ring[%ko] : memref<2x32x64xf32, #tile.shared> -> memref<32x64xf32, #tile.shared>
        %p = tile.reduce add serial(%k in 16) register(%v in 4) -> f32 {
          %e = tile.load %slot[%t, %k * 4 + %v] : memref<32x64xf32, #tile.shared>
          tile.yield %e : f32
        }
        tile.release %ring[%ko]
        tile.yield %p : f32
      }
      tile.store %s, %y[%t] : memref<32xf32>
    }
  }
  func.return %y : tensor<32xf32>
}

// -----

// A narrower row takes the widest swizzle that fits it.
// CHECK: memref<2x32x16xf32, #kernel.swizzle<64>, #tile.shared>
func.func @main(%x: tensor<32x64xf32>) -> tensor<32xf32> {
  // REMARK: split-inner-for-swizzle: narrow: ring by 64 B: 4 ways, now 1
  %y = tile.kernel @narrow(%x: memref<32x64xf32> = %x) -> (%y: memref<32xf32>) schedule "split-inner-for-swizzle" {
    tile.launch thread(%t in 32) {
      %ring = tile.ring tma %x(%n in 4)[0, %n * 16] [32, 16] : memref<32x64xf32> -> memref<2x32x16xf32, #tile.shared>
      %s = tile.reduce add serial(%ko in 4) -> f32 {
        tile.fill %ring[%ko]
        %slot = tile.acquire %ring[%ko] : memref<2x32x16xf32, #tile.shared> -> memref<32x16xf32, #tile.shared>
        %p = tile.reduce add serial(%k in 4) register(%v in 4) -> f32 {
          %e = tile.load %slot[%t, %k * 4 + %v] : memref<32x16xf32, #tile.shared>
          tile.yield %e : f32
        }
        tile.release %ring[%ko]
        tile.yield %p : f32
      }
      tile.store %s, %y[%t] : memref<32xf32>
    }
  }
  func.return %y : tensor<32xf32>
}

// -----

func.func @main(%x: tensor<36x128xf32>) -> tensor<36xf32> {
  // REMARK: split-inner-for-swizzle: rows: skipped, the slab of 36 x 32 elements of ring has no rows of a multiple of 32 to 128 B, 8 or a multiple of them
  %y = tile.kernel @rows(%x: memref<36x128xf32> = %x) -> (%y: memref<36xf32>) schedule "split-inner-for-swizzle" {
    tile.launch thread(%t in 36) {
      %ring = tile.ring tma %x(%n in 4)[0, %n * 32] [36, 32] : memref<36x128xf32> -> memref<2x36x32xf32, #tile.shared>
      %s = tile.reduce add serial(%ko in 4) -> f32 {
        tile.fill %ring[%ko]
        %slot = tile.acquire %ring[%ko] : memref<2x36x32xf32, #tile.shared> -> memref<36x32xf32, #tile.shared>
        %p = tile.reduce add serial(%k in 8) register(%v in 4) -> f32 {
          %e = tile.load %slot[%t, %k * 4 + %v] : memref<36x32xf32, #tile.shared>
          tile.yield %e : f32
        }
        tile.release %ring[%ko]
        tile.yield %p : f32
      }
      tile.store %s, %y[%t] : memref<36xf32>
    }
  }
  func.return %y : tensor<36xf32>
}

// -----

func.func @main(%x: tensor<32x128xf32>) -> tensor<32xf32> {
  // REMARK: split-inner-for-swizzle: free: skipped, ring has no bank conflicts
  %y = tile.kernel @free(%x: memref<32x128xf32> = %x) -> (%y: memref<32xf32>) schedule "split-inner-for-swizzle" {
    tile.launch thread(%t in 32) {
      %ring = tile.ring tma %x(%n in 4)[0, %n * 32] [32, 32] : memref<32x128xf32> -> memref<2x32x32xf32, #tile.shared>
      %s = tile.reduce add serial(%ko in 4) -> f32 {
        tile.fill %ring[%ko]
        %slot = tile.acquire %ring[%ko] : memref<2x32x32xf32, #tile.shared> -> memref<32x32xf32, #tile.shared>
        %p = tile.reduce add serial(%k in 8) register(%v in 4) -> f32 {
          %e = tile.load %slot[%k * 4 + %v, %t] : memref<32x32xf32, #tile.shared>
          tile.yield %e : f32
        }
        tile.release %ring[%ko]
        tile.yield %p : f32
      }
      tile.store %s, %y[%t] : memref<32xf32>
    }
  }
  func.return %y : tensor<32xf32>
}

// -----

func.func @main(%x: tensor<32x128xf32>) -> tensor<32xf32> {
  // REMARK: split-inner-for-swizzle: threads: skipped, it has no TMA ring (tma-copy makes them)
  %y = tile.kernel @threads(%x: memref<32x128xf32> = %x) -> (%y: memref<32xf32>) schedule "split-inner-for-swizzle" {
    tile.launch thread(%t in 32) {
      %ring = tile.ring %x(%n in 4)[0, %n * 32] [32, 32] : memref<32x128xf32> -> memref<2x32x32xf32, #tile.shared>
      %s = tile.reduce add serial(%ko in 4) -> f32 {
        tile.fill %ring[%ko]
        %slot = tile.acquire %ring[%ko] : memref<2x32x32xf32, #tile.shared> -> memref<32x32xf32, #tile.shared>
        %p = tile.reduce add serial(%k in 8) register(%v in 4) -> f32 {
          %e = tile.load %slot[%t, %k * 4 + %v] : memref<32x32xf32, #tile.shared>
          tile.yield %e : f32
        }
        tile.release %ring[%ko]
        tile.yield %p : f32
      }
      tile.store %s, %y[%t] : memref<32xf32>
    }
  }
  func.return %y : tensor<32xf32>
}
