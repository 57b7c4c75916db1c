// RUN: dlc-opt %s -p pipeline-k-outer --remarks 2>%t.remarks | filecheck %s
// RUN: filecheck %s --check-prefix=REMARK --input-file=%t.remarks
// RUN: dlc-opt %s -p pipeline-k-outer,bind-axes | filecheck %s --check-prefix=BOUND
// RUN: dlc-opt %s -p pipeline-k-outer,bind-axes,lower-stages | filecheck %s --check-prefix=LOWERED

// A block for each of 132 SMs does the work of up to three of 300; chunks are numbered through.
%x = "test.op"() : () -> tensor<300x1024xf32>
// CHECK-LABEL: tile.kernel @resident
// CHECK: tile.launch resident 132 block(%b in 300) thread(%t in 128)
// REMARK: as soon as slots are free; 132 blocks do the work of 300
// BOUND: kernel.func @resident
// BOUND-SAME: grid 300 block 256 resident 132 lockstep

// LOWERED-LABEL: kernel.func @resident
// LOWERED-SAME: grid 132 block 256 lockstep
// LOWERED: kernel.test where (%tid < 129)
// LOWERED: scf.for %turn =
// LOWERED-NEXT: %work = kernel.index %turn * 132 + %b
// LOWERED-NEXT: kernel.test where (%work < 300)
// LOWERED-NEXT: scf.if
// LOWERED-NEXT: scf.for %chunk =
// LOWERED-NEXT: %slot_1 = kernel.index (%turn * 8 + %chunk) mod 3
// LOWERED-NEXT: kernel.mbarrier_wait %empty[%slot_1], parity ((%turn * 8 + %chunk) floordiv 3 + 1) mod 2
// LOWERED: kernel.tma_load %x_map[%work, %chunk * 128]
// LOWERED: } else {
// LOWERED-NEXT: scf.for %turn_1 =
// LOWERED-NEXT: %work_1 = kernel.index %turn_1 * 132 + %b
// LOWERED: tile.reduce add serial(%k in 8)
// LOWERED: kernel.mbarrier_wait %full[%slot_2], parity ((%turn_1 * 8 + %k) floordiv 3) mod 2
// LOWERED: kernel.mbarrier_arrive %empty[%slot_2]
// LOWERED: tile.store %acc, %y[%work_1, %consumer]
tile.kernel @resident(%x: memref<300x1024xf32> = %x) -> (%y: memref<300x128xf32>)
    schedule "pipeline-k-outer{producer=1 resident=1}" {
  tile.launch block(%b in 300) thread(%t in 128) {
    %r = tile.ring tma %x(%n in 8)[%b, %n * 128] [1, 128] : memref<300x1024xf32> -> memref<3x128xf32, #tile.shared>
    %acc = tile.reduce add serial(%k in 8) -> f32 {
      tile.fill %r[%k]
      %s = tile.acquire %r[%k] : memref<3x128xf32, #tile.shared> -> memref<128xf32, #tile.shared>
      %v = tile.load %s[%t] : memref<128xf32, #tile.shared>
      tile.release %r[%k]
      tile.yield %v : f32
    }
    tile.store %acc, %y[%b, %t] : memref<300x128xf32>
  }
}
