// RUN: dlc-opt %s -p lower-registers --split-input-file --verify-diagnostics | filecheck %s

// CHECK: expected no reduces, found 'tile.reduce'
// CHECK: run lower-reduces first
kernel.func @reduced(%x: memref<32xf32>) -> (%y: memref<1xf32>) grid 1 block 1 lockstep {
  tile.for {
    %s = tile.reduce add serial(%k in 32) -> f32 {
      %v = tile.load %x[%k] : memref<32xf32>
      tile.yield %v : f32
    }
    tile.store %s, %y[0] : memref<1xf32>
  }
}

// -----

// CHECK: expected no reduces, found 'tile.combine'
// CHECK: run lower-reduces first
kernel.func @combined(%x: memref<32xf32>) -> (%y: memref<1xf32>) grid 1 block 32 lockstep {
  %t = kernel.thread_id
  tile.for {
    %v = tile.load %x[%t] : memref<32xf32>
    %s = tile.combine add %v across(%t) among(%t) : f32
    tile.store %s, %y[0] where (%t < 1) : memref<1xf32>
  }
}

// -----

// CHECK: an accumulator begins with %a, which varies along %j, and has no element
// CHECK: name %j in `over(…)`
kernel.func @begun(%x: memref<4x8xf32>) -> (%y: memref<4x8xf32>) grid 1 block 1 lockstep {
  tile.for register(%i in 4, %j in 8) {
    %a = tile.load %x[%i, %j] : memref<4x8xf32>
    %u = tile.accumulator %a over(%i) : f32 -> memref<4xf32, #kernel.local>
    tile.each over(%i) {
      kernel.store %a, %u[%i] : memref<4xf32, #kernel.local>
    }
    tile.store %a, %y[%i, %j] : memref<4x8xf32>
  }
}
