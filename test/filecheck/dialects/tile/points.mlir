// RUN: dlc-opt %s | filecheck %s
// RUN: DLC_ROUNDTRIP
// RUN: DLC_GENERIC_ROUNDTRIP

// CHECK-LABEL: kernel.func @points
kernel.func @points(%x: memref<4x8xf32>) -> (%y: memref<4x8xf32>) grid 1 block 1 lockstep {
  tile.for register(%i in 4, %j in 8) {
    %a = tile.load %x[%i, %j] : memref<4x8xf32>
    %kept = kernel.alloc_local : memref<8x4xf32, #kernel.local>
    // CHECK: tile.each over(%j, %i) {
    // CHECK-NEXT: kernel.store %a, %kept[%j, %i] : memref<8x4xf32, #kernel.local>
    // CHECK-NEXT: } {note}
    // CHECK-GENERIC: "tile.each"(%j, %i) ({
    // CHECK-GENERIC-NEXT: "kernel.store"(%a, %kept, %j, %i)
    // CHECK-GENERIC-NEXT: }) {note} : (index, index) -> ()
    tile.each over(%j, %i) {
      kernel.store %a, %kept[%j, %i] : memref<8x4xf32, #kernel.local>
    } {note}
    %b = tile.load %kept[%j, %i] : memref<8x4xf32, #kernel.local>
    // CHECK: %u = tile.accumulator %b over(%i) {note} : f32 -> memref<4xf32, #kernel.local>
    // CHECK-GENERIC: %u = "tile.accumulator"(%b, %i) <{operandSegmentSizes = array<i32: 1, 1>}> {note} : (f32, index) -> memref<4xf32, #kernel.local>
    %u = tile.accumulator %b over(%i) {note} : f32 -> memref<4xf32, #kernel.local>
    // CHECK: %v, %w = tile.accumulator %a, %b : f32, f32 -> memref<f32, #kernel.local>, memref<f32, #kernel.local>
    %v, %w = tile.accumulator %a, %b : f32, f32 -> memref<f32, #kernel.local>, memref<f32, #kernel.local>
    tile.store %b, %y[%i, %j] : memref<4x8xf32>
  }
}
