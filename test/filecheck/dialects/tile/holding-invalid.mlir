// RUN: dlc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

%x = "test.op"() : () -> tensor<8x8xf32>
tile.kernel @k(%x: memref<8x8xf32> = %x) -> () {
  tile.launch thread(%t in 4) {
    %h = tile.hold across(%t) register(%p in 2) {
      %a = tile.load %x[%p, %t] : memref<8x8xf32>
      tile.yield %a : f32
    } : memref<8xf32, #tile.held>
  }
}
// CHECK: expected one thread axis beside at least 2 register axes, found 1 beside 1

// -----

%x = "test.op"() : () -> tensor<8x8xf32>
tile.kernel @k(%x: memref<8x8xf32> = %x) -> () {
  tile.launch thread(%t in 4) {
    %h = tile.hold across(%t) register(%p in 2, %q in 2) {
      %a = tile.load %x[%p, %t * 2 + %q] : memref<8x8xf32>
      tile.yield %a : f32
    } : memref<2x2xf32, #tile.held>
  }
}
// CHECK: expected a result of type memref<16xf32, #tile.held>, found memref<2x2xf32, #tile.held>

// -----

%x = "test.op"() : () -> tensor<8x8xf32>
tile.kernel @k(%x: memref<8x8xf32> = %x) -> () {
  tile.launch thread(%t in 4) {
    %h = tile.hold register(%p in 2) {
      %a = tile.load %x[%p, %t] : memref<8x8xf32>
      tile.yield %a : f32
    } : memref<2xf16, #tile.held>
  }
}
// CHECK: expected a body that yields (f16), found (f32)

// -----

%x = "test.op"() : () -> tensor<8x8xf32>
tile.kernel @k(%x: memref<8x8xf32> = %x) -> () {
  tile.launch thread(%t in 4) {
    %h = tile.hold register(%p in 2) {
      %a = tile.load %x[%p, %t] : memref<8x8xf32>
      tile.yield %a : f32
    } : memref<2xf32, #tile.shared>
  }
}
// CHECK: expected a result of type memref<2xf32, #tile.held>, found memref<2xf32, #tile.shared>

// -----

%x = "test.op"() : () -> tensor<8xf32>
tile.kernel @k(%x: memref<8xf32> = %x) -> () {
  tile.launch thread(%t in 8) {
    %m = tile.so_far [] : f32
  }
}
// CHECK: expected a reduce around that is rising

// -----

%x = "test.op"() : () -> tensor<8xf32>
tile.kernel @k(%x: memref<8xf32> = %x) -> () {
  tile.launch thread(%t in 8) {
    %m = tile.reduce add rising serial(%k in 8) -> f32 {
      %a = tile.load %x[%k] : memref<8xf32>
      tile.yield %a : f32
    }
  }
}
// CHECK: expected a rising expsum or exp2sum, found add

// -----

%x = "test.op"() : () -> tensor<8x8xf32>
tile.kernel @k(%x: memref<8x8xf32> = %x) -> () {
  tile.launch thread(%t in 8) {
    %own = tile.hold register(%r in 2) {
      %a = tile.load %x[%t, %r] : memref<8x8xf32>
      tile.yield %a : f32
    } : memref<2xf32, #tile.held>
    %all = tile.share %own[%t * 2 + 1] : memref<2xf32, #tile.held> -> memref<16xf32, #tile.shared>
  }
}
// CHECK: expected rows of a slab of 16, found 1 to 16

// -----

%x = "test.op"() : () -> tensor<8x8xf32>
tile.kernel @k(%x: memref<8x8xf32> = %x) -> () {
  tile.launch thread(%t in 8) {
    %own = tile.hold register(%r in 2) {
      %a = tile.load %x[%t, %r] : memref<8x8xf32>
      tile.yield %a : f32
    } : memref<2xf32, #tile.held>
    %all = tile.share %own[%t * 2] : memref<2xf32, #tile.held> -> memref<16x1xf32, #tile.shared>
  }
}
// CHECK: expected a result of type memref<16xf32, #tile.shared>, found memref<16x1xf32, #tile.shared>

// -----

%x = "test.op"() : () -> tensor<8x8xf32>
tile.kernel @k(%x: memref<8x8xf32> = %x) -> () {
  tile.launch thread(%t in 8) {
    %own = tile.hold register(%r in 2) {
      %a = tile.load %x[%t, %r] : memref<8x8xf32>
      tile.yield %a : f32
    } : memref<2xf32, #tile.held>
    %all = tile.share %x[%t] : memref<8x8xf32> -> memref<8x8xf32, #tile.shared>
  }
}
// CHECK: expected what threads hold, found memref<8x8xf32>
