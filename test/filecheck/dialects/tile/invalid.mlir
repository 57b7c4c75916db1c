// RUN: dlc-opt %s --split-input-file --verify-diagnostics | filecheck %s

tile.kernel @none() -> () {
}
// CHECK: expected one tile.launch, found 0

// -----

%y = tile.kernel @varies() -> (%y: memref<4xf32>) {
  tile.launch thread(%i in 4, %j in 8) {
    %i0 = tile.index %j
    %v = "test.op"(%i0) : (index) -> f32
    tile.store %v, %y[%i] : memref<4xf32>
  }
}
// CHECK: expected a stored value that varies only along axes of its subscripts, found one that also varies along %j

// -----

tile.kernel @combine() -> () {
  tile.launch block(%b in 4) thread(%t in 4) {
    %v = "test.op"(%b, %t) : (index, index) -> f32
    %r = tile.combine add %v across(%b, %t) : f32
  }
}
// CHECK: expected thread axes, or block axes, found %b, %t

// -----

tile.kernel @combine_register() -> () {
  tile.launch thread(%t in 4) register(%r in 4) {
    %v = "test.op"(%r) : (index) -> f32
    %s = tile.combine add %v across(%r) : f32
  }
}
// CHECK: expected thread axes, or block axes, found %r

// -----

%y = tile.kernel @varies_after() -> (%y: memref<4xf32>) {
  tile.launch block(%ks in 4) {
    %n = tile.index %ks
    %v = "test.op"(%n) : (index) -> f32
    %s = tile.combine add %v across(%ks) : f32
    tile.store %s, %y[%ks] : memref<4xf32>
  }
}
// CHECK: expected nothing after a fold of what blocks hold that varies along %ks, found 'tile.store'

// -----

%y = tile.kernel @two_folds() -> (%y: memref<f32>) {
  tile.launch block(%ks in 4) {
    %n = tile.index %ks
    %v = "test.op"(%n) : (index) -> f32
    %s = tile.combine add %v across(%ks) : f32
    %t = tile.combine max %s across(%ks) : f32
    tile.store %t, %y[] : memref<f32>
  }
}
// CHECK: expected one fold of what blocks hold, beside the loops of the launch, found 2

// -----

%y = tile.kernel @fold_in_a_loop() -> (%y: memref<8xf32>) {
  tile.launch block(%ks in 4) {
    tile.for serial(%i in 8) {
      %n = tile.index %ks * 8 + %i
      %v = "test.op"(%n) : (index) -> f32
      %s = tile.combine add %v across(%ks) : f32
      tile.store %s, %y[%i] : memref<8xf32>
    }
  }
}
// CHECK: expected one fold of what blocks hold, beside the loops of the launch, found 1 in a loop

// -----

%y = tile.kernel @dealt_blocks() -> (%y: memref<f32>) {
  tile.launch block(%ks in 4) {
    %n = tile.index %ks
    %v = "test.op"(%n) : (index) -> f32
    %s = tile.combine add %v across(%ks) dealt : f32
    tile.store %s, %y[] : memref<f32>
  }
}
// CHECK: expected thread axes of a launch, over which points are dealt

// -----

%y = tile.kernel @varies_after_dealt() -> (%y: memref<4xf32>) {
  tile.launch thread(%t in 4) {
    %n = tile.index %t
    %v = "test.op"(%n) : (index) -> f32
    %s = tile.combine add %v across(%t) dealt : f32
    tile.store %s, %y[%t] : memref<4xf32>
  }
}
// CHECK: expected nothing after a fold of what threads hold over which its points are dealt that varies along %t, found 'tile.store'

// -----

%y = tile.kernel @dealt_in_a_loop() -> (%y: memref<8xf32>) {
  tile.launch thread(%t in 4) {
    tile.for serial(%i in 8) {
      %n = tile.index %t * 8 + %i
      %v = "test.op"(%n) : (index) -> f32
      %s = tile.combine add %v across(%t) dealt : f32
      tile.store %s, %y[%i] : memref<8xf32>
    }
  }
}
// CHECK: expected one fold of what threads hold over which its points are dealt, beside the loops of the launch, found 1 in a loop

// -----

tile.kernel @combine_type() -> () {
  tile.launch thread(%t in 4) {
    %v = "test.op"(%t) : (index) -> f32
    %r = "tile.combine"(%v, %t) <{monoid = "add", operandSegmentSizes = array<i32: 1, 1, 0>}> : (f32, index) -> i32
  }
}
// CHECK: expected results of the values' types

// -----

tile.kernel @combine_monoid() -> () {
  tile.launch thread(%t in 4) {
    %v = "test.op"(%t) : (index) -> f32
    %r = tile.combine sum %v across(%t) : f32
  }
}
// CHECK: expected a monoid (add, mul, max, min, and, or, argmax, argmin, expsum, exp2sum, moments, argmax_last, argmin_last, logaddexp), found 'sum'

// -----

%x = "test.op"() : () -> tensor<8x8xf32>
tile.kernel @stage_sizes(%x: memref<8x8xf32> = %x) -> () {
  tile.launch block(%b in 4) {
    %s = tile.stage %x[%b, 0] [8] : memref<8x8xf32> -> memref<8xf32, #tile.shared>
  }
}
// CHECK: expected a positive size for each dimension of memref<8x8xf32>, found [8]

// -----

%x = "test.op"() : () -> tensor<8x8xf32>
tile.kernel @stage_type(%x: memref<8x8xf32> = %x) -> () {
  tile.launch block(%b in 4) {
    %s = tile.stage %x[%b, 0] [1, 8] : memref<8x8xf32> -> memref<4xf32, #tile.shared>
  }
}
// CHECK: expected a result of type memref<8xf32, #tile.shared>, found memref<4xf32, #tile.shared>

// -----

%x = "test.op"() : () -> tensor<8x8xf32>
tile.kernel @stage_condition(%x: memref<8x8xf32> = %x) -> () {
  tile.launch block(%b in 4) {
    %s = tile.stage %x[%b, 0] where (%b < 3) [1, 8] : memref<8x8xf32> -> memref<8xf32, #tile.shared>
  }
}
// CHECK: expected no conditions: elements beyond the source are 0

// -----

%x = "test.op"() : () -> tensor<8x8xf32>
tile.kernel @subscripts(%x: memref<8x8xf32> = %x) -> () {
  tile.launch block(%b in 4) {
    %v = tile.load %x[%b] : memref<8x8xf32>
  }
}
// CHECK: expected 2 subscripts for memref<8x8xf32>, found 1

// -----

tile.kernel @yields() -> () {
  tile.launch block(%b in 4) {
    %r = tile.reduce add serial(%k in 4) -> f32 {
      tile.yield
    }
  }
}
// CHECK: expected a body that yields (f32), found ()

// -----

"tile.for"() <{extents = affine_map<() -> (4)>, kinds = ["thread"]}> ({
^bb0(%i: index):
  tile.yield
}) : () -> ()
// CHECK: expected for each of 1 axes one of the kinds serial, register; found thread

// -----

"tile.for"() <{extents = affine_map<() -> (4, 5)>, kinds = ["serial"]}> ({
^bb0(%i: index):
  tile.yield
}) : () -> ()
// CHECK: expected one extent per axis, found 2 extents for 1 axes

// -----

%x = "test.op"() : () -> tensor<4xf32>
%y = tile.kernel @value(%x: memref<4xf32> = %x) -> (%y: memref<4xf32>) {
  tile.launch thread(%t in 4) {
    %i = arith.index_cast %t : index to i32
    %v = arith.sitofp %i : i32 to f32
    tile.store %v, %y[%t] : memref<4xf32>
  }
}
// CHECK: expected axes in subscripts and conditions only, found %t, which 'arith.index_cast' uses as a value (an index operation makes a value of it)

// -----

// What threads hold is combined before; what blocks hold is added across them.
%y = tile.kernel @adds_threads() -> (%y: memref<4xf32> zeroed) {
  tile.launch block(%ks in 3, %i in 4) thread(%t in 8) {
    %n = tile.index %ks * 8 + %t
    %p = "test.op"(%n) : (index) -> f32
    tile.atomic_add %p, %y[%i] across(%ks) : memref<4xf32>
  }
}
// CHECK: expected a stored value that varies only along axes of its subscripts or those that it adds across, found one that also varies along %t

// -----

%y = tile.kernel @adds_registers() -> (%y: memref<4xf32> zeroed) {
  tile.launch block(%ks in 3, %i in 4) register(%r in 8) {
    %n = tile.index %ks * 8 + %r
    %p = "test.op"(%n) : (index) -> f32
    tile.atomic_add %p, %y[%i] across(%ks) : memref<4xf32>
  }
}
// CHECK: expected a stored value that varies only along axes of its subscripts or those that it adds across, found one that also varies along %r

// -----

%y = tile.kernel @adds_unsaid() -> (%y: memref<4xf32> zeroed) {
  tile.launch block(%ks in 3, %i in 4) {
    %n = tile.index %ks
    %p = "test.op"(%n) : (index) -> f32
    tile.atomic_add %p, %y[%i] : memref<4xf32>
  }
}
// CHECK: expected a stored value that varies only along axes of its subscripts or those that it adds across, found one that also varies along %ks

// -----

%y = tile.kernel @adds_type() -> (%y: memref<i16> zeroed) {
  tile.launch block(%ks in 3) {
    %n = tile.index %ks
    %p = "test.op"(%n) : (index) -> i16
    tile.atomic_add %p, %y[] across(%ks) : memref<i16>
  }
}
// CHECK: expected a value of type f32, f64, i32 or i64, found i16

// -----

%p = "test.op"() : () -> tensor<f32>
%y = tile.kernel @floats_in_block(%p: memref<f32> = %p) -> (%y: memref<f32> zeroed) {
  tile.launch block(%ks in 3) {
    %v = tile.load %p[] : memref<f32>
    tile.atomic_add %v, %y[] across(%ks) in_block i32 : memref<f32>
  }
}
// CHECK: expected i32 or i64 to add at places that are data, found f32: blocks add in any order, in which sums of floats are rounded

// -----

%p = "test.op"() : () -> tensor<i64>
%y = tile.kernel @wide_table(%p: memref<i64> = %p) -> (%y: memref<i64> zeroed) {
  tile.launch block(%ks in 3) {
    %v = tile.load %p[] : memref<i64>
    tile.atomic_add %v, %y[] across(%ks) in_block i64 : memref<i64>
  }
}
// CHECK: expected i32 to add in shared memory, which adds 32 bits at once, found i64

// -----

%p = "test.op"() : () -> tensor<i64>
%y = tile.kernel @wide_sum(%p: memref<i64> = %p) -> (%y: memref<i64> zeroed) {
  tile.launch block(%ks in 3) thread(%t in 32) {
    %v = tile.load %p[] : memref<i64>
    tile.atomic_add %v, %y[] across(%ks, %t) in_block i32 : memref<i64>
  }
}
// CHECK: expected a sum in a block that fits into i32, found i64 of 32 points

// -----

%y = tile.kernel @large_sum() -> (%y: memref<i64> zeroed) {
  %v = arith.constant 67108864 : i64
  tile.launch block(%ks in 3) thread(%t in 32) {
    tile.atomic_add %v, %y[] across(%ks, %t) in_block i32 : memref<i64>
  }
}
// CHECK: expected a sum in a block that fits into i32, found i64 of 32 points

// -----

%y = tile.kernel @adds_to_anything() -> (%y: memref<f32>) {
  tile.launch block(%ks in 3) {
    %n = tile.index %ks
    %p = "test.op"(%n) : (index) -> f32
    tile.atomic_add %p, %y[] across(%ks) : memref<f32>
  }
}
// CHECK: expected 'tile.atomic_add' to add to a zeroed output, found %y

// -----

%y = tile.kernel @reads() -> (%y: memref<4xf32> zeroed) {
  tile.launch block(%i in 4) {
    %p = tile.load %y[3 - %i] : memref<4xf32>
    tile.atomic_add %p, %y[%i] : memref<4xf32>
  }
}
// CHECK: expected a zeroed output that atomic adds alone use, found %y, which 'tile.load' uses

// -----

%y = "tile.kernel"() <{sym_name = "position", alignments = array<i64>, zeroed = array<i64: 1>}> ({
^bb0(%y: memref<4xf32>):
  tile.launch {
  }
}) : () -> tensor<4xf32>
// CHECK: expected rising positions of zeroed outputs below 1, found [1]

// -----

// CHECK: expected values from 0 up to a known bound, found %n
kernel.func @unbounded(%x: memref<1xi64>) -> (%y: memref<1xf32>) grid 1 block 8 lockstep {
  %one = arith.constant 1.0 : f32
  %v = kernel.load %x[0] : memref<1xi64>
  %n = arith.index_cast %v : i64 to index
  %s = tile.combine add %one across(%n) among(%n) : f32
}

// -----

// CHECK: expected the number of one of 1 block axes and of waves, found [1, 1]
%y = tile.kernel @no_such_axis() -> (%y: memref<8xf32>) {
  %one = arith.constant 1.0 : f32
  tile.launch last_first [1, 1] block(%i in 8) {
    tile.store %one, %y[%i] : memref<8xf32>
  }
}

// -----

// CHECK: expected 1 wave, or waves of a power of 2 of the 12 points of %i, found 2
%y = tile.kernel @six_each() -> (%y: memref<12xf32>) {
  %one = arith.constant 1.0 : f32
  tile.launch last_first [0, 2] block(%i in 12) {
    tile.store %one, %y[%i] : memref<12xf32>
  }
}

// -----

// CHECK: expected points that are boxes of rows of a warp, as sums of tensor cores lie (`register-tile{mma=…}`): neighbours along a row of sums are no neighbours in memory
%y = tile.kernel @no_boxes() -> (%y: memref<8xf32>) {
  %one = arith.constant 1.0 : f32
  tile.launch thread(%i in 8) {
    tile.store %one, %y[%i] boxes 1 : memref<8xf32>
  }
}

// -----

// CHECK: expected a store by boxes in the launch, found it in a loop
%y = tile.kernel @in_a_loop() -> (%y: memref<4x8xf32>) {
  %one = arith.constant 1.0 : f32
  tile.launch thread(%i in 8) {
    tile.for serial(%k in 4) {
      tile.store %one, %y[%k, %i] boxes 1 : memref<4x8xf32>
    }
  }
}

// -----

tile.kernel @whole_of_no_cluster() -> () {
  tile.launch block(%share in 4) {
    %n = tile.index %share
    %v = "test.op"(%n) : (index) -> f32
    %s = tile.combine add %v across(%share) whole : f32
  }
}
// CHECK: expected a cluster, of which each block goes on with the whole

// -----

%y = tile.kernel @whole_and_shares() -> (%y: memref<f32>) {
  tile.launch block(%share in 4) {
    %n = tile.index %share
    %v = "test.op"(%n) : (index) -> f32
    %s = tile.combine add %v across(%share) cluster whole : f32
    %t = tile.combine max %v across(%share) cluster : f32
    tile.store %t, %y[] : memref<f32>
  }
}
// CHECK: expected folds of a cluster's blocks that all go on with the whole

// -----

tile.kernel @two_clusters() -> () {
  tile.launch block(%a in 4, %b in 2) {
    %n = tile.index %a + %b
    %v = "test.op"(%n) : (index) -> f32
    %s = tile.combine add %v across(%a) cluster whole : f32
    %t = tile.combine max %v across(%b) cluster whole : f32
  }
}
// CHECK: expected folds of a cluster's blocks across the same axes

// -----

tile.kernel @whole_in_serial() -> () {
  tile.launch block(%share in 4) serial(%i in 2) {
    %n = tile.index %share + %i
    %v = "test.op"(%n) : (index) -> f32
    %s = tile.combine add %v across(%share) cluster whole : f32
  }
}
// CHECK: expected no serial axes of a launch whose blocks meet in clusters
