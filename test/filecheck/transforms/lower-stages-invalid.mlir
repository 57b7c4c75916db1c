// RUN: dlc-opt %s -p bind-axes,lower-reduces,lower-registers --split-input-file --verify-diagnostics | filecheck %s

// CHECK: expected no stages and rings, found 'tile.stage'
// CHECK: run lower-stages first
%x = "test.op"() : () -> tensor<32xf32>
%y = tile.kernel @staged(%x: memref<32xf32> = %x) -> (%y: memref<32xf32>) {
  tile.launch thread(%t in 32) {
    %s = tile.stage %x[0] [32] : memref<32xf32> -> memref<32xf32, #tile.shared>
    %v = tile.load %s[31 - %t] : memref<32xf32, #tile.shared>
    tile.store %v, %y[%t] : memref<32xf32>
  }
}

// -----

// CHECK: expected no stages and rings, found 'tile.ring'
// CHECK: run lower-stages first
%x = "test.op"() : () -> tensor<64xf32>
%y = tile.kernel @ring(%x: memref<64xf32> = %x) -> (%y: memref<1xf32>) {
  tile.launch thread(%t in 1) {
    %r = tile.ring async %x(%n in 2)[%n * 32] [32] : memref<64xf32> -> memref<2x32xf32, #tile.shared>
    %s = tile.reduce add serial(%k in 2) -> f32 {
      tile.fill %r[%k]
      %a = tile.acquire %r[%k] : memref<2x32xf32, #tile.shared> -> memref<32xf32, #tile.shared>
      %v = tile.load %a[0] : memref<32xf32, #tile.shared>
      tile.release %r[%k]
      tile.yield %v : f32
    }
    tile.store %s, %y[%t] : memref<1xf32>
  }
}
