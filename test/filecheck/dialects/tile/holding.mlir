// RUN: dlc-opt %s | dlc-opt | filecheck %s

// Four lanes hold a row of 64 elements: each 8 times 2 neighbours.
// CHECK: %s = tile.hold across(%member) register(%h in 2, %keys in 8, %pair in 2) {
// CHECK-NEXT: %a = tile.load %x[%h * 8 + %group, %keys * 8 + %member * 2 + %pair] : memref<16x64xf32>
// CHECK-NEXT: tile.yield %a where (%keys * 8 + %member * 2 + %pair < 60) : f32
// CHECK-NEXT: } : memref<2x64xf32, #tile.held>
// CHECK-NEXT: %m = tile.hold register(%h_1 in 2) {
// CHECK: tile.combine max %p across(%member) : f32
// CHECK: } : memref<2xf32, #tile.held>
// CHECK-NEXT: tile.load %m[%half] : memref<2xf32, #tile.held>
%x = "test.op"() : () -> tensor<16x64xf32>
%y = tile.kernel @k(%x: memref<16x64xf32> = %x) -> (%y: memref<16xf32>) {
  tile.launch thread(%group in 8, %member in 4) register(%half in 2) {
    %s = tile.hold across(%member) register(%h in 2, %keys in 8, %pair in 2) {
      %a = tile.load %x[%h * 8 + %group, %keys * 8 + %member * 2 + %pair] : memref<16x64xf32>
      tile.yield %a where (%keys * 8 + %member * 2 + %pair < 60) : f32
    } : memref<2x64xf32, #tile.held>
    %m = tile.hold register(%h in 2) {
      %p = tile.reduce max register(%keys in 8, %pair in 2) -> f32 {
        %b = tile.load %s[%h, %keys * 8 + %member * 2 + %pair] : memref<2x64xf32, #tile.held>
        tile.yield %b : f32
      }
      %all = tile.combine max %p across(%member) : f32
      tile.yield %all : f32
    } : memref<2xf32, #tile.held>
    %r = tile.load %m[%half] : memref<2xf32, #tile.held>
    tile.store %r, %y[%half * 8 + %group] : memref<16xf32>
  }
}

// Rows of 8 threads, of which 4 have a part each, are those of a slab.
// CHECK: %all = tile.share %own[%row * 2] : memref<2x16xf32, #tile.held> -> memref<16x16xf32, #tile.shared>
%z = tile.kernel @share(%x: memref<16x64xf32> = %x) -> (%z: memref<16xf32>) {
  tile.launch thread(%row in 8, %member in 4) {
    %own = tile.hold across(%member) register(%r in 2, %keys in 4, %one in 1) {
      %a = tile.load %x[%row * 2 + %r, %keys * 4 + %member + %one] : memref<16x64xf32>
      tile.yield %a : f32
    } : memref<2x16xf32, #tile.held>
    %all = tile.share %own[%row * 2] : memref<2x16xf32, #tile.held> -> memref<16x16xf32, #tile.shared>
    %b = tile.load %all[15 - %row, %row] : memref<16x16xf32, #tile.shared>
    tile.store %b, %z[%row] : memref<16xf32>
  }
}
