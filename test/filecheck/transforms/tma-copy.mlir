// RUN: dlc-opt %s -p tma-copy --split-input-file --remarks 2>%t.remarks | filecheck %s
// RUN: filecheck %s --input-file %t.remarks --check-prefix=REMARK

// All rings of a loop; slots of less than 128 bytes are set apart.
func.func @main(%x: tensor<100x64xf32>, %b: tensor<64xf32>) -> tensor<32xf32> {
  // CHECK: %x_ring = tile.ring tma %x(%n in 8)[0, %n * 8] [32, 8] : memref<100x64xf32> -> memref<2x32x8xf32, #tile.shared>
  // CHECK-NEXT: %b_ring = tile.ring tma %b(%n in 8)[%n * 8] [8] : memref<64xf32> -> memref<2x8xf32, strided<[32, 1]>, #tile.shared>
  // CHECK: tile.acquire %b_ring[%k] : memref<2x8xf32, strided<[32, 1]>, #tile.shared> -> memref<8xf32, strided<[1]>, #tile.shared>
  // REMARK: tma-copy: fits: x in boxes of 32 x 8, b in boxes of 8
  %y = tile.kernel @fits(%x: memref<100x64xf32> = %x, %b: memref<64xf32> = %b) -> (%y: memref<32xf32>) schedule "tma-copy" {
    tile.launch thread(%t in 32) {
      %x_ring = tile.ring %x(%n in 8)[0, %n * 8] [32, 8] : memref<100x64xf32> -> memref<2x32x8xf32, #tile.shared>
      %b_ring = tile.ring %b(%n in 8)[%n * 8] [8] : memref<64xf32> -> memref<2x8xf32, #tile.shared>
      %s = tile.reduce add serial(%k in 8) -> f32 {
        tile.fill %x_ring[%k]
        tile.fill %b_ring[%k]
        %xs = tile.acquire %x_ring[%k] : memref<2x32x8xf32, #tile.shared> -> memref<32x8xf32, #tile.shared>
        %bs = tile.acquire %b_ring[%k] : memref<2x8xf32, #tile.shared> -> memref<8xf32, #tile.shared>
        %p = tile.reduce add serial(%c in 8) -> f32 {
          %v = tile.load %xs[%t, %c] : memref<32x8xf32, #tile.shared>
          %w = tile.load %bs[%c] : memref<8xf32, #tile.shared>
          %m = arith.mulf %v, %w : f32
          tile.yield %m : f32
        }
        tile.release %x_ring[%k]
        tile.release %b_ring[%k]
        tile.yield %p : f32
      }
      tile.store %s, %y[%t] : memref<32xf32>
    }
  }
  func.return %y : tensor<32xf32>
}

// -----

builtin.module attributes {dlc.target = "sm_80"} {
  func.func @main(%x: tensor<64xf32>) -> tensor<1xf32> {
    // REMARK: tma-copy: chip: skipped, sm_80 has no tensor memory accelerator
    %y = tile.kernel @chip(%x: memref<64xf32> = %x) -> (%y: memref<1xf32>) schedule "tma-copy" {
      tile.launch thread(%t in 1) {
        %v = tile.load %x[0] : memref<64xf32>
        tile.store %v, %y[%t] : memref<1xf32>
      }
    }
    func.return %y : tensor<1xf32>
  }
}

// -----

func.func @main(%x: tensor<64xf32>) -> tensor<1xf32> {
  // REMARK: tma-copy: no_ring: skipped, it has no ring (double-buffer makes them)
  %y = tile.kernel @no_ring(%x: memref<64xf32> = %x) -> (%y: memref<1xf32>) schedule "tma-copy" {
    tile.launch thread(%t in 1) {
      %v = tile.load %x[0] : memref<64xf32>
      tile.store %v, %y[%t] : memref<1xf32>
    }
  }
  func.return %y : tensor<1xf32>
}

// -----

// Windows begin at each element of a row, boxes at every fourth.
func.func @main(%x: tensor<64xf32>) -> tensor<4xf32> {
  // REMARK: tma-copy: windows: skipped, x: expected boxes that begin at a multiple of 16 bytes of a row, 4 elements
  %y = tile.kernel @windows(%x: memref<64xf32> = %x) -> (%y: memref<4xf32>) schedule "tma-copy" {
    tile.launch block(%b in 4) thread(%t in 1) {
      %r = tile.ring %x(%n in 3)[%b * 16 + %n] [16] : memref<64xf32> -> memref<2x16xf32, #tile.shared>
      %s = tile.reduce add serial(%k in 3) -> f32 {
        tile.fill %r[%k]
        %a = tile.acquire %r[%k] : memref<2x16xf32, #tile.shared> -> memref<16xf32, #tile.shared>
        %v = tile.load %a[0] : memref<16xf32, #tile.shared>
        tile.release %r[%k]
        tile.yield %v : f32
      }
      tile.store %s, %y[%b] : memref<4xf32>
    }
  }
  func.return %y : tensor<4xf32>
}

// -----

// One ring that does not fit, and the others are left as well.
func.func @main(%x: tensor<64xf32>, %z: tensor<64x9xf32>) -> tensor<1xf32> {
  // CHECK: tile.ring %x
  // CHECK: tile.ring %z
  // REMARK: tma-copy: strides: skipped, z: expected strides of a multiple of 16 bytes below 2^40, found 36 bytes
  %y = tile.kernel @strides(%x: memref<64xf32> = %x, %z: memref<64x9xf32> = %z) -> (%y: memref<1xf32>) schedule "tma-copy" {
    tile.launch thread(%t in 1) {
      %r = tile.ring %x(%n in 8)[%n * 8] [8] : memref<64xf32> -> memref<2x8xf32, #tile.shared>
      %q = tile.ring %z(%n in 8)[%n * 8, 0] [8, 8] : memref<64x9xf32> -> memref<2x8x8xf32, #tile.shared>
      %s = tile.reduce add serial(%k in 8) -> f32 {
        tile.fill %r[%k]
        tile.fill %q[%k]
        %a = tile.acquire %r[%k] : memref<2x8xf32, #tile.shared> -> memref<8xf32, #tile.shared>
        %b = tile.acquire %q[%k] : memref<2x8x8xf32, #tile.shared> -> memref<8x8xf32, #tile.shared>
        %v = tile.load %a[0] : memref<8xf32, #tile.shared>
        %w = tile.load %b[0, 0] : memref<8x8xf32, #tile.shared>
        %m = arith.mulf %v, %w : f32
        tile.release %r[%k]
        tile.release %q[%k]
        tile.yield %m : f32
      }
      tile.store %s, %y[%t] : memref<1xf32>
    }
  }
  func.return %y : tensor<1xf32>
}

// -----

// The loads start at 4-byte aligned addresses.
func.func @main(%x: tensor<64xf32>) -> tensor<1xf32> {
  // REMARK: tma-copy: aligned: skipped, x: expected an address that is a multiple of 16 bytes
  %y = tile.kernel @aligned(%x: memref<64xf32> align 4 = %x) -> (%y: memref<1xf32>) schedule "tma-copy" {
    tile.launch thread(%t in 1) {
      %r = tile.ring %x(%n in 8)[%n * 8] [8] : memref<64xf32> -> memref<2x8xf32, #tile.shared>
      %s = tile.reduce add serial(%k in 8) -> f32 {
        tile.fill %r[%k]
        %a = tile.acquire %r[%k] : memref<2x8xf32, #tile.shared> -> memref<8xf32, #tile.shared>
        %v = tile.load %a[0] : memref<8xf32, #tile.shared>
        tile.release %r[%k]
        tile.yield %v : f32
      }
      tile.store %s, %y[%t] : memref<1xf32>
    }
  }
  func.return %y : tensor<1xf32>
}

// -----

func.func @main(%x: tensor<1x64xf32>) -> tensor<4xf32> {
  // REMARK: tma-copy: subscript: skipped, x: expected subscript 0 along dimension 0, which has one element
  %y = tile.kernel @subscript(%x: memref<1x64xf32> = %x) -> (%y: memref<4xf32>) schedule "tma-copy" {
    tile.launch block(%b in 4) thread(%t in 1) {
      %r = tile.ring %x(%n in 8)[%b, %n * 8] [1, 8] : memref<1x64xf32> -> memref<2x8xf32, #tile.shared>
      %s = tile.reduce add serial(%k in 8) -> f32 {
        tile.fill %r[%k]
        %a = tile.acquire %r[%k] : memref<2x8xf32, #tile.shared> -> memref<8xf32, #tile.shared>
        %v = tile.load %a[0] : memref<8xf32, #tile.shared>
        tile.release %r[%k]
        tile.yield %v : f32
      }
      tile.store %s, %y[%b] : memref<4xf32>
    }
  }
  func.return %y : tensor<4xf32>
}

// -----

func.func @main(%x: tensor<64xf32>) -> tensor<1xf32> {
  // REMARK: tma-copy: async: skipped, its rings are filled asynchronously already
  %y = tile.kernel @async(%x: memref<64xf32> = %x) -> (%y: memref<1xf32>) schedule "tma-copy" {
    tile.launch thread(%t in 1) {
      %r = tile.ring async %x(%n in 8)[%n * 8] [8] : memref<64xf32> -> memref<2x8xf32, #tile.shared>
      %s = tile.reduce add serial(%k in 8) -> f32 {
        tile.fill %r[%k]
        %a = tile.acquire %r[%k] : memref<2x8xf32, #tile.shared> -> memref<8xf32, #tile.shared>
        %v = tile.load %a[0] : memref<8xf32, #tile.shared>
        tile.release %r[%k]
        tile.yield %v : f32
      }
      tile.store %s, %y[%t] : memref<1xf32>
    }
  }
  func.return %y : tensor<1xf32>
}

// -----

func.func @main(%x: tensor<64xf32>) -> tensor<4xf32> {
  // REMARK: tma-copy: again: skipped, its loop would be entered again at each serial point (register-tile first)
  %y = tile.kernel @again(%x: memref<64xf32> = %x) -> (%y: memref<4xf32>) schedule "tma-copy" {
    tile.launch thread(%t in 1) serial(%e in 4) {
      %r = tile.ring %x(%n in 8)[%n * 8] [8] : memref<64xf32> -> memref<2x8xf32, #tile.shared>
      %s = tile.reduce add serial(%k in 8) -> f32 {
        tile.fill %r[%k]
        %a = tile.acquire %r[%k] : memref<2x8xf32, #tile.shared> -> memref<8xf32, #tile.shared>
        %v = tile.load %a[%e] : memref<8xf32, #tile.shared>
        tile.release %r[%k]
        tile.yield %v : f32
      }
      tile.store %s, %y[%e] : memref<4xf32>
    }
  }
  func.return %y : tensor<4xf32>
}

// -----

func.func @main(%x: tensor<64xf32>) -> tensor<1xf32> {
  // REMARK: tma-copy: nested: skipped, its loop stands in another one and would be entered again
  %y = tile.kernel @nested(%x: memref<64xf32> = %x) -> (%y: memref<1xf32>) schedule "tma-copy" {
    tile.launch thread(%t in 1) {
      %r = tile.ring %x(%n in 8)[%n * 8] [8] : memref<64xf32> -> memref<2x8xf32, #tile.shared>
      %all = tile.reduce add serial(%j in 2) -> f32 {
        %s = tile.reduce add serial(%k in 8) -> f32 {
          tile.fill %r[%k]
          %a = tile.acquire %r[%k] : memref<2x8xf32, #tile.shared> -> memref<8xf32, #tile.shared>
          %v = tile.load %a[%j] : memref<8xf32, #tile.shared>
          tile.release %r[%k]
          tile.yield %v : f32
        }
        tile.yield %s : f32
      }
      tile.store %all, %y[%t] : memref<1xf32>
    }
  }
  func.return %y : tensor<1xf32>
}

// -----

func.func @main(%x: tensor<64xf32>) -> tensor<1xf32> {
  // REMARK: tma-copy: backwards: skipped, no single loop acquires and releases chunk after chunk
  %y = tile.kernel @backwards(%x: memref<64xf32> = %x) -> (%y: memref<1xf32>) schedule "tma-copy" {
    tile.launch thread(%t in 1) {
      %r = tile.ring %x(%n in 8)[%n * 8] [8] : memref<64xf32> -> memref<2x8xf32, #tile.shared>
      %s = tile.reduce add serial(%k in 8) -> f32 {
        tile.fill %r[7 - %k]
        %a = tile.acquire %r[7 - %k] : memref<2x8xf32, #tile.shared> -> memref<8xf32, #tile.shared>
        %v = tile.load %a[0] : memref<8xf32, #tile.shared>
        tile.release %r[7 - %k]
        tile.yield %v : f32
      }
      tile.store %s, %y[%t] : memref<1xf32>
    }
  }
  func.return %y : tensor<1xf32>
}

// -----

// One loop of two whose rings fit.
func.func @main(%x: tensor<64xf32>) -> tensor<1xf32> {
  // CHECK: tile.ring tma %x
  // CHECK: tile.ring %x
  // REMARK: tma-copy: two: x in boxes of 8; not all rings, its rings have different numbers of slots or chunks
  %y = tile.kernel @two(%x: memref<64xf32> = %x) -> (%y: memref<1xf32>) schedule "tma-copy" {
    tile.launch thread(%t in 1) {
      %r = tile.ring %x(%n in 8)[%n * 8] [8] : memref<64xf32> -> memref<2x8xf32, #tile.shared>
      %q = tile.ring %x(%n in 8)[%n * 8] [8] : memref<64xf32> -> memref<2x8xf32, #tile.shared>
      %p = tile.ring %x(%n in 8)[%n * 8] [8] : memref<64xf32> -> memref<3x8xf32, #tile.shared>
      %s = tile.reduce add serial(%k in 8) -> f32 {
        tile.fill %r[%k]
        %a = tile.acquire %r[%k] : memref<2x8xf32, #tile.shared> -> memref<8xf32, #tile.shared>
        %v = tile.load %a[0] : memref<8xf32, #tile.shared>
        tile.release %r[%k]
        tile.yield %v : f32
      }
      %z = tile.reduce add serial(%k in 8) -> f32 {
        tile.fill %q[%k]
        tile.fill %p[%k]
        %a = tile.acquire %q[%k] : memref<2x8xf32, #tile.shared> -> memref<8xf32, #tile.shared>
        %b = tile.acquire %p[%k] : memref<3x8xf32, #tile.shared> -> memref<8xf32, #tile.shared>
        %v = tile.load %a[0] : memref<8xf32, #tile.shared>
        %w = tile.load %b[1] : memref<8xf32, #tile.shared>
        %m = arith.mulf %v, %w : f32
        tile.release %q[%k]
        tile.release %p[%k]
        tile.yield %m : f32
      }
      %u = arith.addf %s, %z : f32
      tile.store %u, %y[%t] : memref<1xf32>
    }
  }
  func.return %y : tensor<1xf32>
}

// -----

func.func @main(%x: tensor<64xf32>) -> tensor<1xf32> {
  // REMARK: tma-copy: inside: skipped, its ring stands inside of its loop
  %y = tile.kernel @inside(%x: memref<64xf32> = %x) -> (%y: memref<1xf32>) schedule "tma-copy" {
    tile.launch thread(%t in 1) {
      %s = tile.reduce add serial(%k in 8) -> f32 {
        %r = tile.ring %x(%n in 8)[%n * 8] [8] : memref<64xf32> -> memref<2x8xf32, #tile.shared>
        tile.fill %r[%k]
        %a = tile.acquire %r[%k] : memref<2x8xf32, #tile.shared> -> memref<8xf32, #tile.shared>
        %v = tile.load %a[0] : memref<8xf32, #tile.shared>
        tile.release %r[%k]
        tile.yield %v : f32
      }
      tile.store %s, %y[%t] : memref<1xf32>
    }
  }
  func.return %y : tensor<1xf32>
}

// -----

func.func @main(%x: tensor<f32>) -> tensor<1xf32> {
  // REMARK: tma-copy: scalar: skipped, x: expected at least one dimension, found none
  %y = tile.kernel @scalar(%x: memref<f32> = %x) -> (%y: memref<1xf32>) schedule "tma-copy" {
    tile.launch thread(%t in 1) {
      %r = tile.ring %x(%n in 8)[] [] : memref<f32> -> memref<2xf32, #tile.shared>
      %s = tile.reduce add serial(%k in 8) -> f32 {
        tile.fill %r[%k]
        %a = tile.acquire %r[%k] : memref<2xf32, #tile.shared> -> memref<f32, #tile.shared>
        %v = tile.load %a[] : memref<f32, #tile.shared>
        tile.release %r[%k]
        tile.yield %v : f32
      }
      tile.store %s, %y[%t] : memref<1xf32>
    }
  }
  func.return %y : tensor<1xf32>
}

// -----

// Boxes are written without padding (pad-smem has run).
func.func @main(%x: tensor<64x64xf32>) -> tensor<1xf32> {
  // REMARK: tma-copy: padded: skipped, x: expected slots without padding, found memref<2x8x8xf32, strided<[96, 12, 1]>, #tile.shared>
  %y = tile.kernel @padded(%x: memref<64x64xf32> = %x) -> (%y: memref<1xf32>) schedule "tma-copy" {
    tile.launch thread(%t in 1) {
      %r = tile.ring %x(%n in 8)[%n * 8, 0] [8, 8] : memref<64x64xf32> -> memref<2x8x8xf32, strided<[96, 12, 1]>, #tile.shared>
      %s = tile.reduce add serial(%k in 8) -> f32 {
        tile.fill %r[%k]
        %a = tile.acquire %r[%k] : memref<2x8x8xf32, strided<[96, 12, 1]>, #tile.shared> -> memref<8x8xf32, strided<[12, 1]>, #tile.shared>
        %v = tile.load %a[0, 0] : memref<8x8xf32, strided<[12, 1]>, #tile.shared>
        tile.release %r[%k]
        tile.yield %v : f32
      }
      tile.store %s, %y[%t] : memref<1xf32>
    }
  }
  func.return %y : tensor<1xf32>
}

// -----

func.func @main(%x: tensor<64xf32>) -> tensor<1xf32> {
  // CHECK: tile.ring tma %x(%n in 8)[%n * 8] [8] : memref<64xf32> -> memref<2x8xf32, strided<[32, 1]>, #tile.shared>
  // REMARK: tma-copy: apart: x in boxes of 8
  %y = tile.kernel @apart(%x: memref<64xf32> = %x) -> (%y: memref<1xf32>) schedule "tma-copy" {
    tile.launch thread(%t in 1) {
      %r = tile.ring %x(%n in 8)[%n * 8] [8] : memref<64xf32> -> memref<2x8xf32, strided<[8, 1]>, #tile.shared>
      %s = tile.reduce add serial(%k in 8) -> f32 {
        tile.fill %r[%k]
        %a = tile.acquire %r[%k] : memref<2x8xf32, strided<[8, 1]>, #tile.shared> -> memref<8xf32, strided<[1]>, #tile.shared>
        %v = tile.load %a[0] : memref<8xf32, strided<[1]>, #tile.shared>
        tile.release %r[%k]
        tile.yield %v : f32
      }
      tile.store %s, %y[%t] : memref<1xf32>
    }
  }
  func.return %y : tensor<1xf32>
}

// -----

// Blocks with the same columns are a cluster; one more has no rows.
func.func @main(%x: tensor<24x64xf32>, %w: tensor<32x64xf32>) -> tensor<24x32xf32> {
  // CHECK: tile.launch cluster 2 block(%bi in 2, %bj in 4, %bii in 2) thread(%ti in 8, %tj in 8) {
  // CHECK-NEXT: tile.ring tma %x(%n in 8)[%bi * 16 + %bii * 8, %n * 8] [8, 8] : memref
  // CHECK-NEXT: tile.ring tma %w(%n in 8)[%bj * 8, %n * 8] [8, 8] {multicast = array<i64: 2, 1>} : memref
  // CHECK: tile.store %s, %y[%bi * 16 + %bii * 8 + %ti, %bj * 8 + %tj] where (%bi * 2 + %bii < 3) : memref
  // REMARK: tma-copy: shared: x in boxes of 8 x 8, w in boxes of 8 x 8; in clusters of 2, w is requested by 2
  %y = tile.kernel @shared(%x: memref<24x64xf32> = %x, %w: memref<32x64xf32> = %w) -> (%y: memref<24x32xf32>) schedule "tma-copy{multicast=1,2}" {
    tile.launch block(%bi in 3, %bj in 4) thread(%ti in 8, %tj in 8) {
      %r = tile.ring %x(%n in 8)[%bi * 8, %n * 8] [8, 8] : memref<24x64xf32> -> memref<2x8x8xf32, #tile.shared>
      %q = tile.ring %w(%n in 8)[%bj * 8, %n * 8] [8, 8] : memref<32x64xf32> -> memref<2x8x8xf32, #tile.shared>
      %s = tile.reduce add serial(%k in 8) -> f32 {
        tile.fill %r[%k]
        tile.fill %q[%k]
        %a = tile.acquire %r[%k] : memref<2x8x8xf32, #tile.shared> -> memref<8x8xf32, #tile.shared>
        %b = tile.acquire %q[%k] : memref<2x8x8xf32, #tile.shared> -> memref<8x8xf32, #tile.shared>
        %v = tile.load %a[%ti, 0] : memref<8x8xf32, #tile.shared>
        %u = tile.load %b[%tj, 0] : memref<8x8xf32, #tile.shared>
        %p = arith.mulf %v, %u : f32
        tile.release %r[%k]
        tile.release %q[%k]
        tile.yield %p : f32
      }
      tile.store %s, %y[%bi * 8 + %ti, %bj * 8 + %tj] : memref<24x32xf32>
    }
  }
  func.return %y : tensor<24x32xf32>
}

// -----

// Neighbours along both axes are a cluster.
func.func @main(%x: tensor<24x64xf32>, %w: tensor<32x64xf32>) -> tensor<24x32xf32> {
  // CHECK: tile.launch cluster 4 block(%bi in 2, %bj in 2, %bji in 2, %bii in 2)
  // CHECK-NEXT: tile.ring tma %x(%n in 8)[%bi * 16 + %bii * 8, %n * 8] [8, 8] {multicast = array<i64: 2, 2>} : memref
  // CHECK-NEXT: tile.ring tma %w(%n in 8)[%bj * 16 + %bji * 8, %n * 8] [8, 8] {multicast = array<i64: 2, 1>} : memref
  // REMARK: tma-copy: both: x in boxes of 8 x 8, w in boxes of 8 x 8; in clusters of 4, x is requested by 2, w is requested by 2
  %y = tile.kernel @both(%x: memref<24x64xf32> = %x, %w: memref<32x64xf32> = %w) -> (%y: memref<24x32xf32>) schedule "tma-copy{multicast=2}" {
    tile.launch block(%bi in 3, %bj in 4) thread(%ti in 8, %tj in 8) {
      %r = tile.ring %x(%n in 8)[%bi * 8, %n * 8] [8, 8] : memref<24x64xf32> -> memref<2x8x8xf32, #tile.shared>
      %q = tile.ring %w(%n in 8)[%bj * 8, %n * 8] [8, 8] : memref<32x64xf32> -> memref<2x8x8xf32, #tile.shared>
      %s = tile.reduce add serial(%k in 8) -> f32 {
        tile.fill %r[%k]
        tile.fill %q[%k]
        %a = tile.acquire %r[%k] : memref<2x8x8xf32, #tile.shared> -> memref<8x8xf32, #tile.shared>
        %b = tile.acquire %q[%k] : memref<2x8x8xf32, #tile.shared> -> memref<8x8xf32, #tile.shared>
        %v = tile.load %a[%ti, 0] : memref<8x8xf32, #tile.shared>
        %u = tile.load %b[%tj, 0] : memref<8x8xf32, #tile.shared>
        %p = arith.mulf %v, %u : f32
        tile.release %r[%k]
        tile.release %q[%k]
        tile.yield %p : f32
      }
      tile.store %s, %y[%bi * 8 + %ti, %bj * 8 + %tj] : memref<24x32xf32>
    }
  }
  func.return %y : tensor<24x32xf32>
}

// -----

// A part is some of the rows.
func.func @main(%x: tensor<24x64xf32>, %w: tensor<32x64xf32>) -> tensor<24x32xf32> {
  // REMARK: tma-copy: undivided: x in boxes of 8 x 8, w in boxes of 8 x 8; w has no part for each block: 3 blocks do not divide 8 rows
  %y = tile.kernel @undivided(%x: memref<24x64xf32> = %x, %w: memref<32x64xf32> = %w) -> (%y: memref<24x32xf32>) schedule "tma-copy{multicast=1,3}" {
    tile.launch block(%bi in 3, %bj in 4) thread(%ti in 8, %tj in 8) {
      %r = tile.ring %x(%n in 8)[%bi * 8, %n * 8] [8, 8] : memref<24x64xf32> -> memref<2x8x8xf32, #tile.shared>
      %q = tile.ring %w(%n in 8)[%bj * 8, %n * 8] [8, 8] : memref<32x64xf32> -> memref<2x8x8xf32, #tile.shared>
      %s = tile.reduce add serial(%k in 8) -> f32 {
        tile.fill %r[%k]
        tile.fill %q[%k]
        %a = tile.acquire %r[%k] : memref<2x8x8xf32, #tile.shared> -> memref<8x8xf32, #tile.shared>
        %b = tile.acquire %q[%k] : memref<2x8x8xf32, #tile.shared> -> memref<8x8xf32, #tile.shared>
        %v = tile.load %a[%ti, 0] : memref<8x8xf32, #tile.shared>
        %u = tile.load %b[%tj, 0] : memref<8x8xf32, #tile.shared>
        %p = arith.mulf %v, %u : f32
        tile.release %r[%k]
        tile.release %q[%k]
        tile.yield %p : f32
      }
      tile.store %s, %y[%bi * 8 + %ti, %bj * 8 + %tj] : memref<24x32xf32>
    }
  }
  func.return %y : tensor<24x32xf32>
}

// -----

func.func @main(%x: tensor<100x64xf32>) -> tensor<32xf32> {
  // REMARK: tma-copy: steps: skipped, x: expected all elements of a box, found steps of [2, 1]
  %y = tile.kernel @steps(%x: memref<100x64xf32> = %x) -> (%y: memref<32xf32>) schedule "tma-copy" {
    tile.launch thread(%t in 32) {
      %x_ring = tile.ring %x(%n in 8)[0, %n * 8] [32, 8] step [2, 1] : memref<100x64xf32> -> memref<2x32x8xf32, #tile.shared>
      %s = tile.reduce add serial(%k in 8) -> f32 {
        tile.fill %x_ring[%k]
        %xs = tile.acquire %x_ring[%k] : memref<2x32x8xf32, #tile.shared> -> memref<32x8xf32, #tile.shared>
        %v = tile.load %xs[%t, 0] : memref<32x8xf32, #tile.shared>
        tile.release %x_ring[%k]
        tile.yield %v : f32
      }
      tile.store %s, %y[%t] : memref<32xf32>
    }
  }
  func.return %y : tensor<32xf32>
}
