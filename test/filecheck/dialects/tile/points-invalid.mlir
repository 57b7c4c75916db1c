// RUN: dlc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

kernel.func @serial(%x: memref<4xf32>) -> () grid 1 block 1 lockstep {
  tile.for serial(%i in 4) {
    tile.each over(%i) {
      %c = arith.constant 0 : i1
    }
  }
}
// CHECK: expected register axes, found %i

// -----

kernel.func @value(%x: memref<4xf32>) -> () grid 1 block 32 lockstep {
  %t = kernel.thread_id
  tile.for {
    tile.each over(%t) {
      %c = arith.constant 0 : i1
    }
  }
}
// CHECK: expected register axes, found %t

// -----

kernel.func @none(%x: memref<4xf32>) -> () grid 1 block 1 lockstep {
  tile.for {
    "tile.each"() ({
      %c = arith.constant 0 : i1
    }) : () -> ()
  }
}
// CHECK: expected register axes, found none

// -----

kernel.func @argument(%x: memref<4xf32>) -> () grid 1 block 1 lockstep {
  tile.for register(%i in 4) {
    "tile.each"(%i) ({
    ^bb0(%j: index):
    }) : (index) -> ()
  }
}
// CHECK: expected a body without arguments, found 1

// -----

kernel.func @tiles(%x: memref<4xf32>) -> () grid 1 block 1 lockstep {
  tile.for register(%i in 4) {
    tile.each over(%i) {
      %a = tile.load %x[%i] : memref<4xf32>
    }
  }
}
// CHECK: expected a body of Kernel IR, found 'tile.load'

// -----

kernel.func @shape(%x: memref<4xf32>) -> () grid 1 block 1 lockstep {
  tile.for register(%i in 4) {
    %a = tile.load %x[%i] : memref<4xf32>
    %acc = tile.accumulator %a over(%i) : f32 -> memref<8xf32, #kernel.local>
  }
}
// CHECK: expected memory of type memref<4xf32, #kernel.local>, found memref<8xf32, #kernel.local>

// -----

kernel.func @space(%x: memref<4xf32>) -> () grid 1 block 1 lockstep {
  tile.for serial(%i in 4) {
    %a = tile.load %x[%i] : memref<4xf32>
    %acc = tile.accumulator %a : f32 -> memref<f32>
  }
}
// CHECK: expected memory of type memref<f32, #kernel.local>, found memref<f32>

// -----

kernel.func @axis(%x: memref<4xf32>) -> () grid 1 block 1 lockstep {
  tile.for serial(%i in 4) {
    %a = tile.load %x[%i] : memref<4xf32>
    %acc = tile.accumulator %a over(%i) : f32 -> memref<4xf32, #kernel.local>
  }
}
// CHECK: expected register axes, found %i
