// RUN: dlc-opt %s -p pipeline-k-outer --remarks 2>%t.remarks | filecheck %s
// RUN: filecheck %s --check-prefix=REMARK --input-file=%t.remarks
// RUN: dlc-opt %s -p pipeline-k-outer,bind-axes,lower-stages | filecheck %s --check-prefix=LOWERED

// The loop stays as it is: a warpgroup of its own will request its chunks.
%x = "test.op"() : () -> tensor<1024xf32>
// CHECK-LABEL: tile.kernel @producer
// CHECK: %r = tile.ring tma %x(%n in 8)[%n * 128] [128] {producer} : memref<1024xf32>
// CHECK-NEXT: %acc = tile.reduce add serial(%k in 8) -> f32 {
// CHECK-NEXT: tile.fill %r[%k]
// CHECK-NEXT: %s = tile.acquire %r[%k]
// REMARK: pipeline-k-outer: producer: chunks are requested by a warpgroup of their own

// LOWERED-LABEL: kernel.func @producer
// LOWERED-SAME: block 256
// LOWERED: %consumer = kernel.index %tid mod 128
// LOWERED: kernel.mbarrier_init %full[%slot], 1
// LOWERED-NEXT: kernel.mbarrier_init %empty[%slot], 4
// LOWERED: kernel.test where (%tid >= 128)
// LOWERED-NEXT: scf.if
// LOWERED: kernel.test where (%tid < 129)
// LOWERED: scf.for %chunk =
// LOWERED: kernel.mbarrier_wait %empty[%slot{{.*}}], parity (%chunk floordiv 3 + 1) mod 2
// LOWERED: kernel.tma_load
// LOWERED: } else {
// LOWERED: tile.reduce add serial(%k in 8)
// LOWERED: kernel.mbarrier_wait %full
// LOWERED: kernel.mbarrier_arrive %empty
tile.kernel @producer(%x: memref<1024xf32> = %x) -> (%y: memref<128xf32>)
    schedule "pipeline-k-outer{producer=1}" {
  tile.launch thread(%t in 128) {
    %r = tile.ring tma %x(%n in 8)[%n * 128] [128] : memref<1024xf32> -> memref<3x128xf32, #tile.shared>
    %acc = tile.reduce add serial(%k in 8) -> f32 {
      tile.fill %r[%k]
      %s = tile.acquire %r[%k] : memref<3x128xf32, #tile.shared> -> memref<128xf32, #tile.shared>
      %v = tile.load %s[%t] : memref<128xf32, #tile.shared>
      tile.release %r[%k]
      tile.yield %v : f32
    }
    tile.store %acc, %y[%t] : memref<128xf32>
  }
}
