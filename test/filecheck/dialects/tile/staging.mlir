// RUN: dlc-opt %s | filecheck %s
// RUN: DLC_ROUNDTRIP
// RUN: DLC_GENERIC_ROUNDTRIP

// CHECK-LABEL: tile.kernel @stages
%x = "test.op"() : () -> tensor<100x2040xf32>
tile.kernel @stages(%x: memref<100x2040xf32> = %x) -> () {
  tile.launch block(%b in 7) thread(%t in 32) {
    // CHECK: %row = tile.stage %x[%b, 0] [1, 2048] {note} : memref<100x2040xf32> -> memref<2048xf32, #tile.shared>
    // CHECK-GENERIC: %row = "tile.stage"(%x_1, %b) <{map = affine_map<(d0) -> (d0, 0)>, sizes = array<i64: 1, 2048>}> {note} : (memref<100x2040xf32>, index) -> memref<2048xf32, #tile.shared>
    %row = tile.stage %x[%b, 0] [1, 2048] {note} : memref<100x2040xf32> -> memref<2048xf32, #tile.shared>
    // CHECK-NEXT: %element = tile.stage %x[%b * 16 - 1, %b + 3] [1, 1] : memref<100x2040xf32> -> memref<f32, #tile.shared>
    %element = tile.stage %x[%b * 16 - 1, %b + 3] [1, 1] : memref<100x2040xf32> -> memref<f32, #tile.shared>
    // CHECK-NEXT: %padded = tile.stage %x[0, %b * 16] [128, 16] : memref<100x2040xf32> -> memref<128x16xf32, strided<[20, 1]>, #tile.shared>
    %padded = tile.stage %x[0, %b * 16] [128, 16] : memref<100x2040xf32> -> memref<128x16xf32, strided<[20, 1]>, #tile.shared>
    // CHECK-NEXT: %swizzled = tile.stage %x[0, %b * 16] [128, 16] : memref<100x2040xf32> -> memref<128x16xf32, #kernel.swizzle<64>, #tile.shared>
    %swizzled = tile.stage %x[0, %b * 16] [128, 16] : memref<100x2040xf32> -> memref<128x16xf32, #kernel.swizzle<64>, #tile.shared>
    // CHECK-NEXT: tile.load %swizzled[%t, 3] : memref<128x16xf32, #kernel.swizzle<64>, #tile.shared>
    %v = tile.load %swizzled[%t, 3] : memref<128x16xf32, #kernel.swizzle<64>, #tile.shared>
  }
}

// The chunk's number is a name of the ring's own: %n may be another value outside.
// CHECK-LABEL: tile.kernel @rings
%A = "test.op"() : () -> tensor<100x2040xf32>
tile.kernel @rings(%A: memref<100x2040xf32> = %A) -> () {
  tile.launch block(%n in 7) thread(%t in 32) {
    // CHECK: %plain = tile.ring %A(%n_1 in 128)[0, %n_1 * 16] [128, 16] : memref<100x2040xf32> -> memref<2x128x16xf32, #tile.shared>
    // CHECK-GENERIC: %plain = "tile.ring"() <{count = affine_map<() -> (128)>}> ({
    // CHECK-GENERIC-NEXT: ^bb0(%n_1: index):
    // CHECK-GENERIC-NEXT: "tile.slab"(%A_1, %n_1) <{map = affine_map<(d0) -> (0, (d0 * 16))>, sizes = array<i64: 128, 16>}> : (memref<100x2040xf32>, index) -> ()
    // CHECK-GENERIC-NEXT: }) : () -> memref<2x128x16xf32, #tile.shared>
    %plain = tile.ring %A(%n in 128)[0, %n * 16] [128, 16] : memref<100x2040xf32> -> memref<2x128x16xf32, #tile.shared>
    // CHECK-NEXT: %padded = tile.ring async %A(%m in 128)[%n * 128, %m * 16] [128, 16] {note} : memref<100x2040xf32> -> memref<3x128x16xf32, strided<[2560, 20, 1]>, #tile.shared>
    // CHECK-GENERIC: %padded = "tile.ring"() <{count = affine_map<() -> (128)>, kind = "async"}> ({
    %padded = tile.ring async %A(%m in 128)[%n * 128, %m * 16] [128, 16] {note} : memref<100x2040xf32> -> memref<3x128x16xf32, strided<[2560, 20, 1]>, #tile.shared>
    // CHECK-NEXT: %swizzled = tile.ring tma %A(%{{.*}} in 64)[0, %{{.*}} * 32] [128, 32] : memref<100x2040xf32> -> memref<4x128x32xf32, #kernel.swizzle<128>, #tile.shared>
    %swizzled = tile.ring tma %A(%m in 64)[0, %m * 32] [128, 32] : memref<100x2040xf32> -> memref<4x128x32xf32, #kernel.swizzle<128>, #tile.shared>
    // CHECK-NEXT: %apart = tile.ring tma %A(%{{.*}} in 8)[%{{.*}}, 0] [1, 8] : memref<100x2040xf32> -> memref<2x8xf32, strided<[32, 1]>, #tile.shared>
    %apart = tile.ring tma %A(%m in 8)[%m, 0] [1, 8] : memref<100x2040xf32> -> memref<2x8xf32, strided<[32, 1]>, #tile.shared>
    // CHECK-NEXT: tile.fill %padded[0] {note}
    // CHECK-GENERIC: "tile.fill"(%padded) <{map = affine_map<() -> (0)>}> {note}
    tile.fill %padded[0] {note}
    // CHECK-NEXT: tile.for serial(%ko in 64) {
    tile.for serial(%ko in 64) {
      // CHECK-NEXT: tile.fill %padded[%ko + 2]
      // CHECK-GENERIC: "tile.fill"(%padded, %ko) <{map = affine_map<(d0) -> ((d0 + 2))>}>
      tile.fill %padded[%ko + 2]
      // A layout goes on without the ring's own stride.
      // CHECK-NEXT: %p = tile.acquire %padded[%ko] {note} : memref<3x128x16xf32, strided<[2560, 20, 1]>, #tile.shared> -> memref<128x16xf32, strided<[20, 1]>, #tile.shared>
      // CHECK-GENERIC: %p = "tile.acquire"(%padded, %ko) <{map = affine_map<(d0) -> (d0)>}> {note} : (memref<3x128x16xf32, strided<[2560, 20, 1]>, #tile.shared>, index) -> memref<128x16xf32, strided<[20, 1]>, #tile.shared>
      %p = tile.acquire %padded[%ko] {note} : memref<3x128x16xf32, strided<[2560, 20, 1]>, #tile.shared> -> memref<128x16xf32, strided<[20, 1]>, #tile.shared>
      // CHECK-NEXT: %s = tile.acquire %swizzled[%ko] : memref<4x128x32xf32, #kernel.swizzle<128>, #tile.shared> -> memref<128x32xf32, #kernel.swizzle<128>, #tile.shared>
      %s = tile.acquire %swizzled[%ko] : memref<4x128x32xf32, #kernel.swizzle<128>, #tile.shared> -> memref<128x32xf32, #kernel.swizzle<128>, #tile.shared>
      // CHECK-NEXT: tile.load %p[%t, 0] : memref<128x16xf32, strided<[20, 1]>, #tile.shared>
      %v = tile.load %p[%t, 0] : memref<128x16xf32, strided<[20, 1]>, #tile.shared>
      // CHECK-NEXT: tile.release %padded[%ko]
      // CHECK-GENERIC: "tile.release"(%padded, %ko) <{map = affine_map<(d0) -> (d0)>}>
      tile.release %padded[%ko]
      // CHECK-NEXT: tile.release %swizzled[%ko] {note}
      tile.release %swizzled[%ko] {note}
    }
  }
}
