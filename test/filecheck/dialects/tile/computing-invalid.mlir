// RUN: dlc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

%x = "test.op"() : () -> tensor<8x8xf32>
tile.kernel @k(%x: memref<8x8xf32> = %x) -> () {
  tile.launch block(%b in 8) thread(%t in 32) {
    %h = tile.compute thread(%p in 4, %q in 8) {
      %a = tile.load %x[%p, %q] : memref<8x8xf32>
      tile.yield %a : f32
    } : memref<8x8xf32, #tile.shared>
  }
}
// CHECK: expected a result of type memref<4x8xf32, #tile.shared>, found memref<8x8xf32, #tile.shared>

// -----

%x = "test.op"() : () -> tensor<8x8xf32>
tile.kernel @k(%x: memref<8x8xf32> = %x) -> () {
  tile.launch block(%b in 8) thread(%t in 32) {
    %h = tile.compute thread(%p in 8) {
      %a = tile.load %x[%b, %p] : memref<8x8xf32>
      tile.yield %a : f32
    } : memref<8xf32>
  }
}
// CHECK: expected a result of type memref<8xf32, #tile.shared>, found memref<8xf32>

// -----

%x = "test.op"() : () -> tensor<8x8xf32>
tile.kernel @k(%x: memref<8x8xf32> = %x) -> () {
  tile.launch block(%b in 8) thread(%t in 32) {
    %h = tile.compute thread(%p in 8) {
      %a = tile.load %x[%b, %p] : memref<8x8xf32>
      tile.yield %a : f32
    } : memref<8xf32, #kernel.swizzle<32>, #tile.shared>
  }
}
// CHECK: expected rows of a multiple of 32 bytes, a multiple of 8 of them

// -----

tile.kernel @k() -> () {
  tile.launch block(%b in 8) thread(%t in 32) {
    %c = arith.constant 1.0 : f32
    %h = tile.compute thread(%p in 0) {
      tile.yield %c : f32
    } : memref<0xf32, #tile.shared>
  }
}
// CHECK: expected extents of at least 1, found [0]

// -----

tile.kernel @k() -> () {
  tile.launch block(%b in 8) thread(%t in 32) {
    %h = "tile.compute"() <{extents = affine_map<() -> (8)>, kinds = ["serial"]}> ({
    ^bb0(%p: index):
      %c = arith.constant 1.0 : f32
      tile.yield %c : f32
    }) : () -> memref<8xf32, #tile.shared>
  }
}
// CHECK: expected for each of 1 axes one of the kinds thread; found serial

// -----

tile.kernel @k() -> () {
  tile.launch block(%b in 8) thread(%t in 32) {
    %h = tile.compute thread(%p in 8) {
      %c = arith.constant 1 : i32
      tile.yield %c : i32
    } : memref<8xf32, #tile.shared>
  }
}
// CHECK: expected a body that yields (f32), found (i32)

// -----

tile.kernel @k() -> () {
  tile.launch block(%b in 8) thread(%t in 32) {
    %h = tile.compute thread(%p in 8) {
      tile.yield
    } : memref<8xf32, #tile.shared>
  }
}
// CHECK: expected a body that yields (f32), found ()

// -----

%y = tile.kernel @k() -> (%y: memref<8xf32>) {
  tile.launch block(%b in 8) thread(%t in 32) {
    %c = arith.constant 1.0 : f32
    %h = tile.compute thread(%p in 8) {
      tile.store %c, %y[%p] : memref<8xf32>
      tile.yield %c : f32
    } : memref<8xf32, #tile.shared>
  }
}
// CHECK: expected a body of loads, arithmetic and reduces, found 'tile.store'

// -----

tile.kernel @k() -> () {
  tile.launch block(%b in 8) thread(%t in 32) {
    %c = arith.constant 1.0 : f32
    %h = tile.compute thread(%p in 8) {
      %s = tile.reduce add serial(%k in 4) -> f32 {
        tile.yield %c : f32
      }
      tile.yield %s : f32
    } : memref<8xf32, #tile.shared>
  }
}
// CHECK: expected `points` of a slab whose elements are reduces

// -----

tile.kernel @k() -> () {
  tile.launch block(%b in 8) thread(%t in 32) {
    %c = arith.constant 1.0 : f32
    %h = tile.compute points [3] thread(%p in 8) {
      tile.yield %c : f32
    } : memref<8xf32, #tile.shared>
  }
}
// CHECK: expected points that divide the extents [8], found [3]

// -----

tile.kernel @k() -> () {
  tile.launch block(%b in 8) thread(%t in 32) {
    %c = arith.constant 1.0 : f32
    %h = tile.compute points [2, 2] thread(%p in 8) {
      tile.yield %c : f32
    } : memref<8xf32, #tile.shared>
  }
}
// CHECK: expected points that divide the extents [8], found [2, 2]

// -----

%x = "test.op"() : () -> tensor<8x8xf32>
tile.kernel @k(%x: memref<8x8xf32> = %x) -> () {
  tile.launch block(%b in 8) thread(%t in 32) register(%r in 2) {
    %h = tile.compute thread(%p in 8) {
      %a = tile.load %x[%t mod 8, %p] : memref<8x8xf32>
      tile.yield %a : f32
    } : memref<8xf32, #tile.shared>
  }
}
// CHECK: expected a computed slab that is the same for all threads of a block, found one that varies along %t

// -----

%x = "test.op"() : () -> tensor<8x8xf32>
tile.kernel @k(%x: memref<8x8xf32> = %x) -> () {
  tile.launch block(%b in 8) thread(%t in 32) {
    tile.for register(%r in 2) {
      %h = tile.compute thread(%p in 8) {
        %a = tile.load %x[%b, %p] : memref<8x8xf32>
        tile.yield %a where (%p > %r) : f32
      } : memref<8xf32, #tile.shared>
    }
  }
}
// CHECK: expected a computed slab that is the same for all threads of a block, found one that varies along %r
