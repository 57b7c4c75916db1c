// RUN: dlc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

%x = "test.op"() : () -> tensor<8x8xf32>
tile.kernel @k(%x: memref<8x8xf32> = %x) -> () {
  tile.launch block(%b in 8) thread(%t in 32) {
    %s = tile.stage %x[%b] [1, 8] : memref<8x8xf32> -> memref<8xf32, #tile.shared>
  }
}
// CHECK: expected 2 subscripts for memref<8x8xf32>, found 1

// -----

%x = "test.op"() : () -> tensor<8x8xf32>
tile.kernel @k(%x: memref<8x8xf32> = %x) -> () {
  tile.launch block(%b in 8) thread(%t in 32) {
    %s = tile.stage %x[%b, 0] [0, 8] : memref<8x8xf32> -> memref<0x8xf32, #tile.shared>
  }
}
// CHECK: expected a positive size for each dimension of memref<8x8xf32>, found [0, 8]

// -----

%x = "test.op"() : () -> tensor<64xf32>
tile.kernel @k(%x: memref<64xf32> = %x) -> () {
  tile.launch block(%b in 8) thread(%t in 32) {
    %s = tile.stage %x[%b * 8] [8] : memref<64xf32> -> memref<8xf32>
  }
}
// CHECK: expected a result of type memref<8xf32, #tile.shared>, found memref<8xf32>

// -----

%x = "test.op"() : () -> tensor<64xf32>
tile.kernel @k(%x: memref<64xf32> = %x) -> () {
  tile.launch block(%b in 8) thread(%t in 32) {
    %s = tile.stage %x[%b * 8] [8] : memref<64xf32> -> f32
  }
}
// CHECK: expected a memref type, found f32

// -----

%x = "test.op"() : () -> tensor<64xf32>
tile.kernel @k(%x: memref<64xf32> = %x) -> () {
  tile.launch block(%b in 8) thread(%t in 32) {
    %s = tile.stage %x[%b * 8] [8] : memref<64xf32> -> memref<8xf32, #kernel.swizzle<32>, #tile.shared>
  }
}
// CHECK: expected rows of a multiple of 32 bytes, a multiple of 8 of them, found memref<8xf32, #kernel.swizzle<32>, #tile.shared>

// -----

%x = "test.op"() : () -> tensor<64xf32>
tile.kernel @k(%x: memref<64xf32> = %x) -> () {
  tile.launch block(%b in 8) thread(%t in 32) {
    %r = tile.ring %x(%n in 8)[%n * 8] [8] : memref<64xf32> -> memref<2x8xf32, #kernel.padded_groups<2, 4>, #tile.shared>
  }
}
// CHECK: expected a multiple of 2 rows, found memref<8xf32, #kernel.padded_groups<2, 4>, #tile.shared>

// -----

%x = "test.op"() : () -> tensor<64xf32>
tile.kernel @k(%x: memref<64xf32> = %x) -> () {
  tile.launch block(%b in 8) thread(%t in 32) {
    "tile.slab"(%x, %b) <{map = affine_map<(d0) -> (d0 * 8)>, sizes = array<i64: 8>}> : (memref<64xf32>, index) -> ()
  }
}
// CHECK: 'tile.slab' expects parent op 'tile.ring'

// -----

%x = "test.op"() : () -> tensor<64xf32>
tile.kernel @k(%x: memref<64xf32> = %x) -> () {
  tile.launch block(%b in 8) thread(%t in 32) {
    %r = tile.ring %x(%n in 8)[%n, 0] [8] : memref<64xf32> -> memref<3x8xf32, #tile.shared>
  }
}
// CHECK: expected 1 subscripts for memref<64xf32>, found 2

// -----

%x = "test.op"() : () -> tensor<64xf32>
tile.kernel @k(%x: memref<64xf32> = %x) -> () {
  tile.launch block(%b in 8) thread(%t in 32) {
    %r = tile.ring %x(%n in 8)[%n * 8] [4, 8] : memref<64xf32> -> memref<3x8xf32, #tile.shared>
  }
}
// CHECK: expected a positive size for each dimension of memref<64xf32>, found [4, 8]

// -----

%x = "test.op"() : () -> tensor<64xf32>
tile.kernel @k(%x: memref<64xf32> = %x) -> () {
  tile.launch block(%b in 8) thread(%t in 32) {
    %r = tile.ring %x(%n in 8)[%n * 8] where (%n < 4) [8] : memref<64xf32> -> memref<3x8xf32, #tile.shared>
  }
}
// CHECK: expected no conditions: elements beyond the source are 0

// -----

%x = "test.op"() : () -> tensor<64xf32>
tile.kernel @k(%x: memref<64xf32> = %x) -> () {
  tile.launch block(%b in 8) thread(%t in 32) {
    %r = "tile.ring"() <{count = affine_map<() -> (8)>}> ({
    ^bb0(%n: index, %m: index):
      "tile.slab"(%x, %n) <{map = affine_map<(d0) -> (d0 * 8)>, sizes = array<i64: 8>}> : (memref<64xf32>, index) -> ()
    }) : () -> memref<3x8xf32, #tile.shared>
  }
}
// CHECK: expected one argument of type index, the chunk's number

// -----

%x = "test.op"() : () -> tensor<64xf32>
tile.kernel @k(%x: memref<64xf32> = %x) -> () {
  tile.launch block(%b in 8) thread(%t in 32) {
    %r = "tile.ring"() <{count = affine_map<() -> (8)>}> ({
    ^bb0(%n: i32):
      "tile.slab"(%x, %b) <{map = affine_map<(d0) -> (d0 * 8)>, sizes = array<i64: 8>}> : (memref<64xf32>, index) -> ()
    }) : () -> memref<3x8xf32, #tile.shared>
  }
}
// CHECK: expected one argument of type index, the chunk's number

// -----

%x = "test.op"() : () -> tensor<64xf32>
tile.kernel @k(%x: memref<64xf32> = %x) -> () {
  tile.launch block(%b in 8) thread(%t in 32) {
    %r = "tile.ring"() <{count = affine_map<() -> (8)>}> ({
    ^bb0(%n: index):
      "test.termop"() : () -> ()
    }) : () -> memref<3x8xf32, #tile.shared>
  }
}
// CHECK: expected a body that is one tile.slab

// -----

%x = "test.op"() : () -> tensor<64xf32>
tile.kernel @k(%x: memref<64xf32> = %x) -> () {
  tile.launch block(%b in 8) thread(%t in 32) {
    %r = "tile.ring"() <{count = affine_map<() -> (8)>}> ({
    ^bb0(%n: index):
      %v = tile.load %x[%n] : memref<64xf32>
      "tile.slab"(%x, %n) <{map = affine_map<(d0) -> (d0 * 8)>, sizes = array<i64: 8>}> : (memref<64xf32>, index) -> ()
    }) : () -> memref<3x8xf32, #tile.shared>
  }
}
// CHECK: expected a body that is one tile.slab

// -----

%x = "test.op"() : () -> tensor<64xf32>
tile.kernel @k(%x: memref<64xf32> = %x) -> () {
  tile.launch block(%b in 8) thread(%t in 32) {
    %r = tile.ring %x(%n in 0)[%n * 8] [8] : memref<64xf32> -> memref<3x8xf32, #tile.shared>
  }
}
// CHECK: expected at least one chunk, found 0

// -----

%x = "test.op"() : () -> tensor<64xf32>
tile.kernel @k(%x: memref<64xf32> = %x) -> () {
  tile.launch block(%b in 8) thread(%t in 32) {
    %r = "tile.ring"() <{count = affine_map<() -> (8)>, kind = "sync"}> ({
    ^bb0(%n: index):
      "tile.slab"(%x, %n) <{map = affine_map<(d0) -> (d0 * 8)>, sizes = array<i64: 8>}> : (memref<64xf32>, index) -> ()
    }) : () -> memref<3x8xf32, #tile.shared>
  }
}
// CHECK: expected the kind async or tma, found sync

// -----

%x = "test.op"() : () -> tensor<64xf32>
tile.kernel @k(%x: memref<64xf32> = %x) -> () {
  tile.launch block(%b in 8) thread(%t in 32) {
    %r = tile.ring %x(%n in 8)[%n] [1] : memref<64xf32> -> memref<f32, #tile.shared>
  }
}
// CHECK: expected a number of slots in front, found memref<f32, #tile.shared>

// -----

%x = "test.op"() : () -> tensor<64xf32>
tile.kernel @k(%x: memref<64xf32> = %x) -> () {
  tile.launch block(%b in 8) thread(%t in 32) {
    %r = tile.ring %x(%n in 8)[%n * 8] [8] : memref<64xf32> -> memref<0x8xf32, #tile.shared>
  }
}
// CHECK: expected a number of slots in front, found memref<0x8xf32, #tile.shared>

// -----

%x = "test.op"() : () -> tensor<64xf32>
tile.kernel @k(%x: memref<64xf32> = %x) -> () {
  tile.launch block(%b in 8) thread(%t in 32) {
    %r = tile.ring %x(%n in 8)[%n * 8] [8] : memref<64xf32> -> memref<3x4xf32, #tile.shared>
  }
}
// CHECK: expected a result of type memref<3x8xf32, #tile.shared>, found memref<3x4xf32, #tile.shared>

// -----

%x = "test.op"() : () -> tensor<64xf32>
tile.kernel @k(%x: memref<64xf32> = %x) -> () {
  tile.launch block(%b in 8) thread(%t in 32) {
    %r = tile.ring %x(%n in 8)[%n * 8] [8] : memref<64xf32> -> memref<3x8xf32, strided<[4, 1]>, #tile.shared>
  }
}
// CHECK: expected strides under which no two elements share a place, found memref<3x8xf32, strided<[4, 1]>, #tile.shared>

// -----

%x = "test.op"() : () -> tensor<64xf32>
tile.kernel @k(%x: memref<64xf32> = %x) -> () {
  tile.launch block(%b in 8) thread(%t in 32) {
    %s = tile.stage %x[%b * 8] [8] : memref<64xf32> -> memref<8xf32, #tile.shared>
    tile.fill %s[0]
  }
}
// CHECK: expected the result of a tile.ring

// -----

%x = "test.op"() : () -> tensor<64xf32>
tile.kernel @k(%x: memref<64xf32> = %x) -> () {
  tile.launch block(%b in 8) thread(%t in 32) {
    tile.fill %r[0]
    %r = tile.ring %x(%n in 8)[%n * 8] [8] : memref<64xf32> -> memref<3x8xf32, #tile.shared>
  }
}
// CHECK: expected a ring that is defined above, found %r

// -----

%x = "test.op"() : () -> tensor<64xf32>
tile.kernel @k(%x: memref<64xf32> = %x) -> () {
  tile.launch block(%b in 8) thread(%t in 32) {
    %r = tile.ring %x(%n in 8)[%n * 8] [8] : memref<64xf32> -> memref<3x8xf32, #tile.shared>
    tile.release %r[0, 0]
  }
}
// CHECK: expected 1 subscripts for a chunk, found 2

// -----

%x = "test.op"() : () -> tensor<64xf32>
tile.kernel @k(%x: memref<64xf32> = %x) -> () {
  tile.launch block(%b in 8) thread(%t in 32) {
    %r = tile.ring %x(%n in 8)[%n * 8] [8] : memref<64xf32> -> memref<3x8xf32, #tile.shared>
    tile.fill %r[%b] where (%b < 4)
  }
}
// CHECK: expected no conditions

// -----

%x = "test.op"() : () -> tensor<64xf32>
tile.kernel @k(%x: memref<64xf32> = %x) -> () {
  tile.launch block(%b in 8) thread(%t in 32) {
    %r = tile.ring %x(%n in 8)[%n * 8] [8] : memref<64xf32> -> memref<3x8xf32, #tile.shared>
    %s = tile.acquire %r[%b] : memref<3x8xf32, #tile.shared> -> memref<3x8xf32, #tile.shared>
  }
}
// CHECK: expected a slot of type memref<8xf32, #tile.shared>, found memref<3x8xf32, #tile.shared>

// -----

%x = "test.op"() : () -> tensor<64xf32>
tile.kernel @k(%x: memref<64xf32> = %x) -> () {
  tile.launch block(%b in 8) thread(%t in 32) {
    %r = tile.ring %x(%n in 8)[%n * 8] [8] : memref<64xf32> -> memref<3x8xf32, strided<[32, 1]>, #tile.shared>
    %s = tile.acquire %r[%b] : memref<3x8xf32, strided<[32, 1]>, #tile.shared> -> memref<8xf32, #tile.shared>
  }
}
// CHECK: expected a slot of type memref<8xf32, strided<[1]>, #tile.shared>, found memref<8xf32, #tile.shared>

// -----

%x = "test.op"() : () -> tensor<64xf32>
tile.kernel @k(%x: memref<64xf32> = %x) -> () {
  tile.launch block(%b in 8) thread(%t in 32) {
    %r = tile.ring %x(%n in 8)[%n * 8] [8] : memref<64xf32> -> memref<3x8xf32, #tile.shared>
    %s = tile.acquire %r[%b + 1] : memref<3x8xf32, #tile.shared> -> memref<8xf32, #tile.shared>
  }
}
// CHECK: expected a chunk from 0 up to 8, found one that can be 8

// -----

%x = "test.op"() : () -> tensor<64xf32>
tile.kernel @k(%x: memref<64xf32> = %x) -> () {
  tile.launch block(%b in 8) thread(%t in 32) {
    %r = tile.ring %x(%n in 8)[%n * 8] [8] : memref<64xf32> -> memref<3x8xf32, #tile.shared>
    tile.release %r[%b + 1]
  }
}
// CHECK: expected a chunk from 0 up to 8, found one that can be 8

// -----

%x = "test.op"() : () -> tensor<64xf32>
tile.kernel @k(%x: memref<64xf32> = %x) -> () {
  tile.launch block(%b in 8) thread(%t in 32) {
    %r = tile.ring %x(%n in 8)[%n * 8] [8] : memref<64xf32> -> memref<3x8xf32, #tile.shared>
    tile.fill %r[%b - 1]
  }
}
// CHECK: expected a chunk from 0 up to inf, found one that can be -1
