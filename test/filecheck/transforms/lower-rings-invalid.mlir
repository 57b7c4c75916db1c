// RUN: dlc-opt %s -p bind-axes,lower-stages,lower-reduces,lower-registers --split-input-file --verify-diagnostics | filecheck %s

// CHECK: the tensor memory accelerator cannot fill this ring: expected strides of a multiple of 16 bytes below 2^40, found 36 bytes
func.func @main(%x: tensor<64x9xf32>) -> tensor<1xf32> {
  %y = tile.kernel @strides(%x: memref<64x9xf32> = %x) -> (%y: memref<1xf32>) {
    tile.launch thread(%t in 1) {
      %r = tile.ring tma %x(%n in 8)[%n * 8, 0] [8, 8] : memref<64x9xf32> -> memref<2x8x8xf32, #tile.shared>
      %s = tile.reduce add serial(%k in 8) -> f32 {
        tile.fill %r[%k]
        %a = tile.acquire %r[%k] : memref<2x8x8xf32, #tile.shared> -> memref<8x8xf32, #tile.shared>
        %v = tile.load %a[0, 0] : memref<8x8xf32, #tile.shared>
        tile.release %r[%k]
        tile.yield %v : f32
      }
      tile.store %s, %y[%t] : memref<1xf32>
    }
  }
  func.return %y : tensor<1xf32>
}

// -----

// CHECK: the tensor memory accelerator cannot fill this ring: its loop would be entered again at each serial point
func.func @main(%x: tensor<64xf32>) -> tensor<4xf32> {
  %y = tile.kernel @again(%x: memref<64xf32> = %x) -> (%y: memref<4xf32>) {
    tile.launch thread(%t in 1) serial(%e in 4) {
      %r = tile.ring tma %x(%n in 2)[%n * 32] [32] : memref<64xf32> -> memref<2x32xf32, #tile.shared>
      %s = tile.reduce add serial(%k in 2) -> f32 {
        tile.fill %r[%k]
        %a = tile.acquire %r[%k] : memref<2x32xf32, #tile.shared> -> memref<32xf32, #tile.shared>
        %v = tile.load %a[%e] : memref<32xf32, #tile.shared>
        tile.release %r[%k]
        tile.yield %v : f32
      }
      tile.store %s, %y[%e] : memref<4xf32>
    }
  }
  func.return %y : tensor<4xf32>
}

// -----

// CHECK: the tensor memory accelerator cannot fill this ring: other rings of its loop are not filled by it
func.func @main(%x: tensor<64xf32>) -> tensor<1xf32> {
  %y = tile.kernel @mixed(%x: memref<64xf32> = %x) -> (%y: memref<1xf32>) {
    tile.launch thread(%t in 1) {
      %r = tile.ring tma %x(%n in 2)[%n * 32] [32] : memref<64xf32> -> memref<2x32xf32, #tile.shared>
      %q = tile.ring async %x(%n in 2)[%n * 32] [32] : memref<64xf32> -> memref<2x32xf32, #tile.shared>
      %s = tile.reduce add serial(%k in 2) -> f32 {
        tile.fill %r[%k]
        tile.fill %q[%k]
        %a = tile.acquire %r[%k] : memref<2x32xf32, #tile.shared> -> memref<32xf32, #tile.shared>
        %b = tile.acquire %q[%k] : memref<2x32xf32, #tile.shared> -> memref<32xf32, #tile.shared>
        %v = tile.load %a[0] : memref<32xf32, #tile.shared>
        %w = tile.load %b[1] : memref<32xf32, #tile.shared>
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

// CHECK: expected the fills of a chunk to stand together, one for each ring of its loop
func.func @main(%x: tensor<64xf32>) -> tensor<1xf32> {
  %y = tile.kernel @apart(%x: memref<64xf32> = %x) -> (%y: memref<1xf32>) {
    tile.launch thread(%t in 1) {
      %r = tile.ring tma %x(%n in 2)[%n * 32] [32] : memref<64xf32> -> memref<2x32xf32, #tile.shared>
      %q = tile.ring tma %x(%n in 2)[%n * 32] [32] : memref<64xf32> -> memref<2x32xf32, #tile.shared>
      %s = tile.reduce add serial(%k in 2) -> f32 {
        tile.fill %r[%k]
        %a = tile.acquire %r[%k] : memref<2x32xf32, #tile.shared> -> memref<32xf32, #tile.shared>
        tile.fill %q[%k]
        %b = tile.acquire %q[%k] : memref<2x32xf32, #tile.shared> -> memref<32xf32, #tile.shared>
        %v = tile.load %a[0] : memref<32xf32, #tile.shared>
        %w = tile.load %b[1] : memref<32xf32, #tile.shared>
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

// CHECK: the tensor memory accelerator cannot fill this ring: expected slots a multiple of 128 bytes apart, found 32 bytes
func.func @main(%x: tensor<64xf32>) -> tensor<1xf32> {
  %y = tile.kernel @slots(%x: memref<64xf32> = %x) -> (%y: memref<1xf32>) {
    tile.launch thread(%t in 1) {
      %r = tile.ring tma %x(%n in 8)[%n * 8] [8] : memref<64xf32> -> memref<2x8xf32, #tile.shared>
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

// CHECK: kernel 'large' needs 240000 B of shared memory, and a block on sm_90 can have 232448 B
func.func @main(%x: tensor<60000xf32>) -> tensor<32xf32> {
  %y = tile.kernel @large(%x: memref<60000xf32> = %x) -> (%y: memref<32xf32>) {
    tile.launch thread(%t in 32) {
      %s = tile.stage %x[0] [60000] : memref<60000xf32> -> memref<60000xf32, #tile.shared>
      %v = tile.load %s[%t * 100] : memref<60000xf32, #tile.shared>
      tile.store %v, %y[%t] : memref<32xf32>
    }
  }
  func.return %y : tensor<32xf32>
}

// -----

// CHECK: expected a chunk that is filled before it is acquired
func.func @main(%x: tensor<64xf32>) -> tensor<1xf32> {
  %y = tile.kernel @late(%x: memref<64xf32> = %x) -> (%y: memref<1xf32>) {
    tile.launch thread(%t in 1) {
      %r = tile.ring async %x(%n in 8)[%n * 8] [8] : memref<64xf32> -> memref<2x8xf32, #tile.shared>
      tile.fill %r[0]
      %s = tile.reduce add serial(%k in 8) -> f32 {
        %a = tile.acquire %r[%k] : memref<2x8xf32, #tile.shared> -> memref<8xf32, #tile.shared>
        %v = tile.load %a[0] : memref<8xf32, #tile.shared>
        tile.release %r[%k]
        tile.fill %r[%k + 2]
        tile.yield %v : f32
      }
      tile.store %s, %y[%t] : memref<1xf32>
    }
  }
  func.return %y : tensor<1xf32>
}
