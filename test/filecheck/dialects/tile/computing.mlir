// RUN: dlc-opt %s | filecheck %s
// RUN: DLC_ROUNDTRIP
// RUN: DLC_GENERIC_ROUNDTRIP

// CHECK-LABEL: tile.kernel @computes
%x = "test.op"() : () -> tensor<100x2040xf32>
tile.kernel @computes(%x: memref<100x2040xf32> = %x) -> () {
  tile.launch block(%b in 7) thread(%t in 32) {
    tile.for serial(%ko in 128) {
      %s = tile.stage %x[%b * 16, %ko * 16] [16, 16] : memref<100x2040xf32> -> memref<16x16xf32, #tile.shared>
      // A serial axis around may be mentioned, and several buffers.
      // CHECK: %h_smem = tile.compute thread(%p in 16, %q in 16) {
      // CHECK-NEXT: %a = tile.load %s[%p, %q] : memref<16x16xf32, #tile.shared>
      // CHECK-NEXT: %r = tile.load %x[%b * 16 + %p, 0] : memref<100x2040xf32>
      // CHECK-NEXT: %h = arith.mulf %a, %r : f32
      // CHECK-NEXT: tile.yield %h where (%ko * 16 + %q < 2040) : f32
      // CHECK-NEXT: } {note} : memref<16x16xf32, #tile.shared>
      // CHECK-GENERIC: %h_smem = "tile.compute"() <{extents = affine_map<() -> (16, 16)>, kinds = ["thread", "thread"]}> ({
      // CHECK-GENERIC-NEXT: ^bb{{.*}}(%p: index, %q: index):
      // CHECK-GENERIC: "tile.yield"(%h, %ko, %q) <{
      // CHECK-GENERIC-NEXT: }) {note} : () -> memref<16x16xf32, #tile.shared>
      %h_smem = tile.compute thread(%p in 16, %q in 16) {
        %a = tile.load %s[%p, %q] : memref<16x16xf32, #tile.shared>
        %r = tile.load %x[%b * 16 + %p, 0] : memref<100x2040xf32>
        %h = arith.mulf %a, %r : f32
        tile.yield %h where (%ko * 16 + %q < 2040) : f32
      } {note} : memref<16x16xf32, #tile.shared>
      // CHECK-NEXT: tile.load %h_smem[%t mod 16, 3] : memref<16x16xf32, #tile.shared>
      %v = tile.load %h_smem[%t mod 16, 3] : memref<16x16xf32, #tile.shared>
      // Of a single element, and padded.
      // CHECK-NEXT: %one = tile.compute {
      // CHECK: } : memref<f32, #tile.shared>
      %one = tile.compute {
        %a = tile.load %s[0, 0] : memref<16x16xf32, #tile.shared>
        tile.yield %a : f32
      } : memref<f32, #tile.shared>
      // CHECK: } : memref<16x16xf32, strided<[20, 1]>, #tile.shared>
      %padded = tile.compute thread(%p in 16, %q in 16) {
        %a = tile.load %s[%q, %p] : memref<16x16xf32, #tile.shared>
        tile.yield %a : f32
      } : memref<16x16xf32, strided<[20, 1]>, #tile.shared>
      // Of sums, of which a thread holds four at once.
      // CHECK: %sums = tile.compute points [2, 2] thread(%p_2 in 16, %q_2 in 16) {
      // CHECK-NEXT: %d = tile.reduce add serial(%k in 4) -> f32 {
      %sums = tile.compute points [2, 2] thread(%p in 16, %q in 16) {
        %d = tile.reduce add serial(%k in 4) -> f32 {
          %a = tile.load %s[%p, %k] : memref<16x16xf32, #tile.shared>
          %bb = tile.load %s[%q, %k] : memref<16x16xf32, #tile.shared>
          %m = arith.mulf %a, %bb : f32
          tile.yield %m : f32
        }
        tile.yield %d : f32
      } : memref<16x16xf32, #tile.shared>
    }
  }
}
