// RUN: dlc-opt %s -p pad-smem --split-input-file --remarks 2>%t.remarks | filecheck %s
// RUN: filecheck %s --input-file %t.remarks --check-prefix=REMARK
// RUN: dlc-opt %s -p 'pad-smem{buffers=xs padding=4}' --split-input-file --verify-diagnostics --remarks 2>%t.given | filecheck %s --check-prefix=GIVEN
// RUN: filecheck %s --input-file %t.given --check-prefix=NAMED
// NAMED: pad-smem: odd: rows of xs 37 elements apart
// RUN: dlc-opt %s -p 'pad-smem{padding=4 every=2}' --split-input-file --verify-diagnostics --remarks 2>%t.every | filecheck %s --check-prefix=EVERY
// RUN: filecheck %s --input-file %t.every --check-prefix=PAIRS
// PAIRS: pad-smem: odd: rows of xs in groups of 2, 4 elements between them
// RUN: not dlc-opt %s -p 'pad-smem{padding=4 every=3}' --split-input-file 2>&1 | filecheck %s --check-prefix=THREE
// THREE: error: kernel odd: pad-smem: expected padding after groups of rows that divide 128 rows, found 4 elements every 3

// RUN: not dlc-opt %s -p 'pad-smem{padding=2}' --split-input-file 2>&1 | filecheck %s --check-prefix=TWO
// TWO: error: kernel ring: pad-smem: ring is copied 16 B at once, to multiples of that, and 2 elements are 8 B
// TWO: hint: take a multiple of 4, or leave async-copy out

// Odd rows need no padding.
// CHECK: tile.stage %x[0, 0] [128, 33] : memref<128x33xf32> -> memref<128x33xf32, #tile.shared>
// GIVEN: schedule "pad-smem{buffers=xs padding=4}"
// GIVEN: tile.stage %x[0, 0] [128, 33] : memref<128x33xf32> -> memref<128x33xf32, strided<[37, 1]>, #tile.shared>
// EVERY: schedule "pad-smem{padding=4 every=2}"
// EVERY: memref<128x33xf32, #kernel.padded_groups<2, 4>, #tile.shared>
// GIVEN: kernel ring: pad-smem: it has no buffer xs
// GIVEN: kernel none: pad-smem: it has no buffer in shared memory (stage-inputs makes them)
// EVERY: kernel full: pad-smem: 6272 B of padding > 1024 B of shared memory left
// EVERY: kernel line: pad-smem: xs has no rows to set apart
func.func @main(%x: tensor<128x33xf32>) -> tensor<128xf32> {
  // REMARK: pad-smem: odd: skipped, its buffers have no bank conflicts
  %y = tile.kernel @odd(%x: memref<128x33xf32> = %x) -> (%y: memref<128xf32>) schedule "pad-smem" {
    tile.launch thread(%t in 128) {
      %xs = tile.stage %x[0, 0] [128, 33] : memref<128x33xf32> -> memref<128x33xf32, #tile.shared>
      %s = tile.reduce add serial(%k in 33) -> f32 {
        // CHECK: tile.load %xs[%t, %k]
        %e = tile.load %xs[%t, %k] : memref<128x33xf32, #tile.shared>
        tile.yield %e : f32
      }
      tile.store %s, %y[%t] : memref<128xf32>
    }
  }
  func.return %y : tensor<128xf32>
}

// -----

// Where accesses are 4 bytes wide, rows grow by one element.
// CHECK: tile.stage %x[0, 0] [64, 34] : memref<64x35xf32> -> memref<64x34xf32, strided<[35, 1]>, #tile.shared>
func.func @main(%x: tensor<64x35xf32>) -> tensor<64xf32> {
  // REMARK: pad-smem: single: rows of xs 35 elements apart: reads 2 ways, writes 1, now reads 1 ways, writes 1.75
  %y = tile.kernel @single(%x: memref<64x35xf32> = %x) -> (%y: memref<64xf32>) schedule "pad-smem" {
    tile.launch thread(%t in 64) {
      %xs = tile.stage %x[0, 0] [64, 34] : memref<64x35xf32> -> memref<64x34xf32, #tile.shared>
      %s = tile.reduce add serial(%k in 34) -> f32 {
        // CHECK: tile.load %xs[%t, %k]
        %e = tile.load %xs[%t, %k] : memref<64x34xf32, #tile.shared>
        tile.yield %e : f32
      }
      tile.store %s, %y[%t] : memref<64xf32>
    }
  }
  func.return %y : tensor<64xf32>
}

// -----

// Where accesses are 16 bytes wide, rows grow by 16 bytes.
// CHECK: tile.stage %x[0, 0] [32, 32] : memref<32x32xf32> -> memref<32x32xf32, strided<[36, 1]>, #tile.shared>
func.func @main(%x: tensor<32x32xf32>) -> tensor<32xf32> {
  // REMARK: pad-smem: vectors: rows of xs 36 elements apart: reads 8 ways, writes 1, now reads 1 ways, writes 1
  %y = tile.kernel @vectors(%x: memref<32x32xf32> = %x) -> (%y: memref<32xf32>) schedule "pad-smem" {
    tile.launch thread(%t in 32) {
      %xs = tile.stage %x[0, 0] [32, 32] : memref<32x32xf32> -> memref<32x32xf32, #tile.shared>
      %s = tile.reduce add serial(%k in 8) register(%v in 4) -> f32 {
        // CHECK: tile.load %xs[%t, %k * 4 + %v]
        %e = tile.load %xs[%t, %k * 4 + %v] : memref<32x32xf32, #tile.shared>
        tile.yield %e : f32
      }
      tile.store %s, %y[%t] : memref<32xf32>
    }
  }
  func.return %y : tensor<32xf32>
}

// -----

// Rows of 64 bytes: every padding of rows leaves writes that conflict, that of pairs does not.
// CHECK: schedule "pad-smem{buffers=xs padding=4 every=2}" {
// CHECK: tile.stage %x[0, 0] [32, 16] : memref<32x16xf32> -> memref<32x16xf32, #kernel.padded_groups<2, 4>, #tile.shared>
func.func @main(%x: tensor<32x16xf32>) -> tensor<32xf32> {
  // REMARK: pad-smem: groups: rows of xs in groups of 2, 4 elements between them: reads 4 ways, writes 1, now reads 1 ways, writes 1
  %y = tile.kernel @groups(%x: memref<32x16xf32> = %x) -> (%y: memref<32xf32>) schedule "pad-smem" {
    tile.launch thread(%t in 32) {
      %xs = tile.stage %x[0, 0] [32, 16] : memref<32x16xf32> -> memref<32x16xf32, #tile.shared>
      %s = tile.reduce add serial(%k in 4) register(%v in 4) -> f32 {
        // CHECK: tile.load %xs[%t, %k * 4 + %v]
        %e = tile.load %xs[%t, %k * 4 + %v] : memref<32x16xf32, #tile.shared>
        tile.yield %e : f32
      }
      tile.store %s, %y[%t] : memref<32xf32>
    }
  }
  func.return %y : tensor<32xf32>
}

// -----

// A ring's slots move apart, and what is acquired has its rows.
// CHECK: tile.ring async %x(%n in 4)[0, %n * 32] [32, 32] : memref<32x128xf32> -> memref<2x32x32xf32, strided<[1152, 36, 1]>, #tile.shared>
// CHECK: tile.acquire %ring[%ko] : memref<2x32x32xf32, strided<[1152, 36, 1]>, #tile.shared> -> memref<32x32xf32, strided<[36, 1]>, #tile.shared>
// CHECK: tile.load %slot[%t, %k * 4 + %v] : memref<32x32xf32, strided<[36, 1]>, #tile.shared>
func.func @main(%x: tensor<32x128xf32>) -> tensor<32xf32> {
  // REMARK: pad-smem: ring: rows of ring 36 elements apart: reads 8 ways, writes 1, now reads 1 ways, writes 1
  %y = tile.kernel @ring(%x: memref<32x128xf32> = %x) -> (%y: memref<32xf32>) schedule "pad-smem" {
    tile.launch thread(%t in 32) {
      %ring = tile.ring async %x(%n in 4)[0, %n * 32] [32, 32] : memref<32x128xf32> -> memref<2x32x32xf32, #tile.shared>
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

func.func @main(%x: tensor<32x128xf32>) -> tensor<32xf32> {
  // REMARK: pad-smem: tma: skipped, its buffers are filled by TMA, which writes rows without padding
  %y = tile.kernel @tma(%x: memref<32x128xf32> = %x) -> (%y: memref<32xf32>) schedule "pad-smem" {
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

func.func @main(%x: tensor<32xf32>) -> tensor<32xf32> {
  // REMARK: pad-smem: none: skipped, it has no buffer in shared memory (stage-inputs makes them)
  %y = tile.kernel @none(%x: memref<32xf32> = %x) -> (%y: memref<32xf32>) schedule "pad-smem" {
    tile.launch thread(%t in 32) {
      %v = tile.load %x[%t] : memref<32xf32>
      tile.store %v, %y[%t] : memref<32xf32>
    }
  }
  func.return %y : tensor<32xf32>
}

// -----

// Padding must fit: of 99 KiB, 98 are taken by rows that would need 3 more.
builtin.module attributes {dlc.target = "sm_86"} {
  func.func @main(%x: tensor<784x32xf32>) -> tensor<784xf32> {
    // REMARK: pad-smem: full: skipped, 12528 B of padding of xs > 1024 B of shared memory left
    %y = tile.kernel @full(%x: memref<784x32xf32> = %x) -> (%y: memref<784xf32>) schedule "pad-smem" {
      tile.launch thread(%t in 784) {
        %xs = tile.stage %x[0, 0] [784, 32] : memref<784x32xf32> -> memref<784x32xf32, #tile.shared>
        %s = tile.reduce add serial(%k in 8) register(%v in 4) -> f32 {
          %e = tile.load %xs[%t, %k * 4 + %v] : memref<784x32xf32, #tile.shared>
          tile.yield %e : f32
        }
        tile.store %s, %y[%t] : memref<784xf32>
      }
    }
    func.return %y : tensor<784xf32>
  }
}

// -----

// One dimension has no rows.
func.func @main(%x: tensor<1024xf32>) -> tensor<32xf32> {
  // REMARK: pad-smem: line: skipped, no padding of xs helps (reads 32 ways, writes 1)
  %y = tile.kernel @line(%x: memref<1024xf32> = %x) -> (%y: memref<32xf32>) schedule "pad-smem" {
    tile.launch thread(%t in 32) {
      %xs = tile.stage %x[0] [1024] : memref<1024xf32> -> memref<1024xf32, #tile.shared>
      %s = tile.reduce add serial(%k in 32) -> f32 {
        %e = tile.load %xs[%t * 32 + %k] : memref<1024xf32, #tile.shared>
        tile.yield %e : f32
      }
      tile.store %s, %y[%t] : memref<32xf32>
    }
  }
  func.return %y : tensor<32xf32>
}
