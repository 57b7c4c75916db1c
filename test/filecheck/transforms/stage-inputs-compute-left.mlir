// What depends on a value that only a thread holds is left to the threads, as is what a place in the
// slab does not tell: here a subscript of half the points of another.
// RUN: dlc-opt %s -p 'stage-inputs{budget=65536 compute=true}' | filecheck %s --check-prefix=LEFT
// LEFT-LABEL: tile.kernel @held
// LEFT: tile.stage %x
// LEFT-NOT: tile.compute
// LEFT-LABEL: tile.kernel @halves
// LEFT: tile.stage %z
// LEFT-NOT: tile.compute
// LEFT-LABEL: tile.kernel @once
// LEFT: tile.stage %z
// LEFT-NOT: tile.compute
// LEFT-LABEL: tile.kernel @computed
%x3 = "test.op"() : () -> tensor<8x32xf32>
%z3 = "test.op"() : () -> tensor<32xf32>
tile.kernel @held(%x: memref<8x32xf32> = %x3) -> () {
  tile.launch thread(%t in 64) {
    %m = tile.reduce add serial(%k in 32) -> f32 {
      %a = tile.load %x[%t floordiv 8, %k] : memref<8x32xf32>
      tile.yield %a : f32
    }
    %acc = tile.reduce add serial(%k in 32) -> f32 {
      %a = tile.load %x[%t floordiv 8, %k] : memref<8x32xf32>
      %d = arith.subf %a, %m : f32
      tile.yield %d : f32
    }
  }
}
tile.kernel @halves(%x: memref<8x32xf32> = %x3, %z: memref<32xf32> = %z3) -> () {
  tile.launch thread(%t in 64) {
    %acc = tile.reduce add serial(%k in 32) -> f32 {
      %a = tile.load %x[%t floordiv 8, %k] : memref<8x32xf32>
      %b = tile.load %z[%k floordiv 2] : memref<32xf32>
      %d = arith.subf %a, %b : f32
      tile.yield %d : f32
    }
  }
}
// Each thread computes elements that no other reads, of inputs of which one is read by all.
tile.kernel @once(%x: memref<8x32xf32> = %x3, %z: memref<32xf32> = %z3) -> () {
  tile.launch thread(%t in 8) {
    %acc = tile.reduce add serial(%k in 32) -> f32 {
      %a = tile.load %x[%t, %k] : memref<8x32xf32>
      %b = tile.load %z[%k] : memref<32xf32>
      %d = arith.subf %a, %b : f32
      tile.yield %d : f32
    }
  }
}

// Steps that deal threads anew come before a slab is computed by those that there are.
// RUN: not dlc-opt %s -p 'cooperative-reduce{threads=32}' 2>&1 | filecheck %s --check-prefix=ROWS
// ROWS: error: kernel computed: cooperative-reduce: slabs are computed already for the threads that there are
// ROWS: hint: run cooperative-reduce before stage-inputs
// RUN: not dlc-opt %s -p 'blockify-launch{block=8 thread=8}' 2>&1 | filecheck %s --check-prefix=BLOCKS
// BLOCKS: error: kernel computed: blockify-launch: slabs are staged already for the blocks that there are
// BLOCKS: hint: run blockify-launch before stage-inputs
%cx = "test.op"() : () -> tensor<64xf32>
%cy = tile.kernel @computed(%x: memref<64xf32> = %cx) -> (%y: memref<64xf32>) {
  tile.launch thread(%t in 64) {
    %h = tile.compute thread(%p in 64) {
      %a = tile.load %x[%p] : memref<64xf32>
      tile.yield %a : f32
    } : memref<64xf32, #tile.shared>
    %s = tile.reduce add serial(%k in 64) -> f32 {
      %v = tile.load %h[%k] : memref<64xf32, #tile.shared>
      tile.yield %v : f32
    }
    tile.store %s, %y[%t] : memref<64xf32>
  }
}
