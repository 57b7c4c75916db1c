// RUN: dlc-opt %s -p pipeline-k-outer --remarks 2>%t.remarks | filecheck %s
// RUN: filecheck %s --check-prefix=REMARK --input-file=%t.remarks
// RUN: dlc-opt %s -p pipeline-k-outer,bind-axes,lower-stages | filecheck %s --check-prefix=LOWERED

// The producer gives registers up, and those that compute share them out.
%x = "test.op"() : () -> tensor<2048xf32>
// CHECK-LABEL: tile.kernel @registers
// CHECK: %r = tile.ring tma %x(%n in 8)[%n * 256] [256] {producer, registers = 40 : i64} : memref<2048xf32>
// REMARK: chunks are requested by a warpgroup of their own, as soon as slots are free, and keeps 40 registers a thread

// LOWERED-LABEL: kernel.func @registers
// LOWERED-SAME: block 384
// LOWERED: kernel.test where (%tid >= 256)
// LOWERED-NEXT: scf.if
// LOWERED-NEXT: kernel.set_max_registers 168 to 40
// LOWERED-NEXT: kernel.test where (%tid < 257)
// LOWERED: } else {
// LOWERED-NEXT: kernel.set_max_registers 168 to 232
tile.kernel @registers(%x: memref<2048xf32> = %x) -> (%y: memref<256xf32>)
    schedule "pipeline-k-outer{producer=1 registers=40}" {
  tile.launch thread(%t in 256) {
    %r = tile.ring tma %x(%n in 8)[%n * 256] [256] : memref<2048xf32> -> memref<3x256xf32, #tile.shared>
    %acc = tile.reduce add serial(%k in 8) -> f32 {
      tile.fill %r[%k]
      %s = tile.acquire %r[%k] : memref<3x256xf32, #tile.shared> -> memref<256xf32, #tile.shared>
      %v = tile.load %s[%t] : memref<256xf32, #tile.shared>
      tile.release %r[%k]
      tile.yield %v : f32
    }
    tile.store %acc, %y[%t] : memref<256xf32>
  }
}
