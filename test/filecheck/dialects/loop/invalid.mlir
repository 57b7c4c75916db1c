// RUN: dlc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

func.func @main(%x: tensor<4x8xf32>) -> tensor<4xf32> {
  %y = loop.kernel @k(%x: memref<4x8xf32> = %x) -> (%y: memref<4xf32>) {
    loop.for %i in 4 {
      %a = loop.load %x[%i] : memref<4x8xf32>
      loop.store %a, %y[%i] : memref<4xf32>
    }
  }
  func.return %y : tensor<4xf32>
}
// CHECK: expected 2 subscripts for memref<4x8xf32>, found 1

// -----

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = loop.kernel @k(%x: memref<4xf32> = %x) -> (%y: memref<4xf32>) {
    loop.for %i in 4 {
      %a = loop.load %x[%i] : memref<4xf32> -> i32
      loop.store %a, %y[%i] : memref<4xf32>, i32
    }
  }
  func.return %y : tensor<4xf32>
}
// CHECK: expected a result of the element type f32, found i32

// -----

func.func @main() -> () {
  %y = "loop.kernel"() <{sym_name = "k", alignments = array<i64>}> ({
  ^bb0(%y: memref<f32>):
    %a = arith.constant 0 : i32
    %d = "loop.load"(%y, %a) <{map = affine_map<() -> ()>, operandSegmentSizes = array<i32: 1, 0, 1>}> : (memref<f32>, i32) -> f32
  }) : () -> tensor<f32>
  func.return
}
// CHECK: expected a default of the element type f32, found i32

// -----

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = loop.kernel @k(%x: memref<4xf32> = %x) -> (%y: memref<4xf32>) {
    %z = arith.constant 0 : i32
    loop.for %i in 4 {
      loop.store %z, %y[%i] : memref<4xf32>, i32
    }
  }
  func.return %y : tensor<4xf32>
}
// CHECK: expected a value of the element type f32, found i32

// -----

func.func @main() -> () {
  %y = "loop.kernel"() <{sym_name = "k", alignments = array<i64>}> ({
  ^bb0(%y: memref<f32>):
    %a = arith.constant 0 : i32
    %b = arith.constant 0.0 : f32
    %c = arith.constant 0 : index
    %d = "loop.select"(%a, %b, %c) <{map = affine_map<(d0) -> ()>, conditions = affine_map<(d0) -> (d0)>}> : (i32, f32, index) -> f32
  }) : () -> tensor<f32>
  func.return
}
// CHECK: expected one type for both values and the result, found i32, f32 and f32

// -----

func.func @main() -> () {
  %y = "loop.kernel"() <{sym_name = "k", alignments = array<i64>}> ({
  ^bb0(%y: memref<f32>):
    %c = arith.constant 0 : index
    %d = "loop.index"(%c) <{map = affine_map<(d0, d1) -> (d0)>}> : (index) -> index
  }) : () -> tensor<f32>
  func.return
}
// CHECK: expected affine maps over the 1 index operands and no symbols, found 2 dimensions and 0 symbols

// -----

func.func @main() -> () {
  %y = "loop.kernel"() <{sym_name = "k", alignments = array<i64>}> ({
  ^bb0(%y: memref<f32>):
    %c = arith.constant 0 : index
    %d = "loop.index"(%c) <{map = affine_map<(d0) -> (d0)>, conditions = affine_map<(d0) -> (d0)>}> : (index) -> index
  }) : () -> tensor<f32>
  func.return
}
// CHECK: expected no conditions

// -----

func.func @main() -> () {
  %y = loop.kernel @k() -> (%y: memref<f32>) {
    %r = loop.reduce plus %k in 4 -> f32 {
      %z = arith.constant 0.0 : f32
      loop.yield %z : f32
    }
  }
  func.return
}
// CHECK: expected a monoid (add, mul, max, min, and, or, argmax, argmin, expsum, exp2sum, moments, argmax_last, argmin_last, logaddexp), found 'plus'

// -----

func.func @main() -> () {
  %y = loop.kernel @k() -> (%y: memref<f32>) {
    %r = loop.reduce argmax %k in 4 -> f32 {
      %z = arith.constant 0.0 : f32
      loop.yield %z : f32
    }
  }
  func.return
}
// CHECK: expected 2 results for the monoid 'argmax', found 1

// -----

func.func @main() -> () {
  %y = loop.kernel @k() -> (%y: memref<f32>) {
    loop.reduce add %k in 4 -> () {
      loop.yield
    }
  }
  func.return
}
// CHECK: expected at least one result for the monoid 'add', found none

// -----

func.func @main() -> () {
  %y = loop.kernel @k() -> (%y: memref<f32>) {
    %r, %s = loop.reduce add %k in 4 -> (f32, f32) {
      %z = arith.constant 0.0 : f32
      loop.yield %z : f32
    }
  }
  func.return
}
// CHECK: expected a body that yields (f32, f32), found (f32)

// -----

func.func @main() -> () {
  %y = loop.kernel @k() -> (%y: memref<f32>) {
    %r = loop.reduce add %k in 4 -> f32 {
      %z = arith.constant 0 : i32
      loop.yield %z : i32
    }
  }
  func.return
}
// CHECK: expected a body that yields (f32), found (i32)

// -----

func.func @main() -> () {
  %y = loop.kernel @k() -> (%y: memref<f32>) {
    loop.for %k in 4 {
      %z = arith.constant 0.0 : f32
      loop.yield %z : f32
    }
  }
  func.return
}
// CHECK: expected a body that yields nothing

// -----

func.func @main() -> () {
  %y = loop.kernel @k() -> (%y: memref<f32>) {
    "loop.for"() <{extents = affine_map<() -> (4, 4)>}> ({
    ^bb0(%i: index):
      "loop.yield"() <{map = affine_map<() -> ()>, operandSegmentSizes = array<i32: 0, 0>}> : () -> ()
    }) : () -> ()
  }
  func.return
}
// CHECK: expected one extent per axis, found 2 extents for 1 axes

// -----

func.func @main() -> () {
  %y = loop.kernel @k() -> (%y: memref<f32>) {
    "loop.for"() <{extents = affine_map<(d0) -> (d0)>}> ({
    ^bb0(%i: index):
      "loop.yield"() <{map = affine_map<() -> ()>, operandSegmentSizes = array<i32: 0, 0>}> : () -> ()
    }) : () -> ()
  }
  func.return
}
// CHECK: expected extents that are integers, found (d0) -> (d0)

// -----

func.func @main() -> () {
  %y = loop.kernel @k() -> (%y: memref<f32>) {
    "loop.for"() <{extents = affine_map<() -> (4)>}> ({
    ^bb0(%i: i32):
      "loop.yield"() <{map = affine_map<() -> ()>, operandSegmentSizes = array<i32: 0, 0>}> : () -> ()
    }) : () -> ()
  }
  func.return
}
// CHECK: expected axes of type index, found i32

// -----

func.func @main() -> () {
  %y = loop.kernel @k() -> (%y: memref<f32>) {
    "loop.for"() <{extents = affine_map<() -> (-4)>}> ({
    ^bb0(%i: index):
      "loop.yield"() <{map = affine_map<() -> ()>, operandSegmentSizes = array<i32: 0, 0>}> : () -> ()
    }) : () -> ()
  }
  func.return
}
// CHECK: expected extents >= 0, found -4

// -----

func.func @main() -> () {
  %y = loop.kernel @k() -> (%y: memref<f32>) {
    "loop.for"() <{extents = affine_map<() -> (4)>, kinds = ["serial"]}> ({
    ^bb0(%i: index):
      "loop.yield"() <{map = affine_map<() -> ()>, operandSegmentSizes = array<i32: 0, 0>}> : () -> ()
    }) : () -> ()
  }
  func.return
}
// CHECK: expected axes without kinds

// -----

func.func @main(%x: tensor<4xf32>) -> () {
  %y = "loop.kernel"(%x) <{sym_name = "k", alignments = array<i64: 16>}> ({
  ^bb0(%y: memref<4xf32>):
  }) : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}
// CHECK: expected 2 memrefs inside for 1 inputs and 1 outputs, found 1

// -----

func.func @main(%x: tensor<4xf32>) -> () {
  %y = "loop.kernel"(%x) <{sym_name = "k", alignments = array<i64: 16>}> ({
  ^bb0(%a: memref<8xf32>, %y: memref<4xf32>):
  }) : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}
// CHECK: expected a memref of tensor<4xf32>, found memref<8xf32>

// -----

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = loop.kernel @k(%x: memref<4xf32> = %x) -> (%y: tensor<4xf32>) {
  }
  func.return %y : tensor<4xf32>
}
// CHECK: expected a memref, found tensor<4xf32>

// -----

func.func @main(%x: tensor<4xf32>) -> () {
  %y = "loop.kernel"(%x) <{sym_name = "k", alignments = array<i64>}> ({
  ^bb0(%a: memref<4xf32>, %y: memref<4xf32>):
  }) : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}
// CHECK: expected an alignment for each of 1 inputs, found 0

// -----

func.func @main() -> () {
  %y = loop.kernel @k() -> (%y: memref<f32>) {
    loop.yield
  }
  func.return
}
// CHECK: 'loop.yield' expects parent op to be one of 'loop.for', 'loop.reduce'

// -----

%x = "test.op"() : () -> memref<4xf32>
%i = arith.constant 1 : index
%a = loop.load %x[%i * %i] : memref<4xf32>
// CHECK: one side of `*` must be an integer

// -----

%x = "test.op"() : () -> memref<4xf32>
%i = arith.constant 1 : index
%a = loop.load %x[%i mod 0] : memref<4xf32>
// CHECK: `mod` needs a positive integer

// -----

%x = "test.op"() : () -> memref<4xf32>
%a = loop.load %x[i] : memref<4xf32>
// CHECK: expected an index: a value such as %i, or an integer

// -----

%x = "test.op"() : () -> memref<4xf32>
%a = loop.load %x[0] : f32
// CHECK: expected a memref type, found f32

// -----

%y = loop.kernel @stored() -> (%y: memref<4xf32> zeroed) {
  %zero = arith.constant 0.0 : f32
  loop.for %i in 4 {
    loop.store %zero, %y[%i] : memref<4xf32>
  }
}
// CHECK: expected a zeroed output that atomic adds alone use, found %y, which 'loop.store' uses

// -----

%y = loop.kernel @value() -> (%y: memref<4xi32>) {
  loop.for %i in 4 {
    %v = arith.index_cast %i : index to i32
    loop.store %v, %y[%i] : memref<4xi32>
  }
}
// CHECK: expected axes in subscripts and conditions only, found %i, which 'arith.index_cast' uses as a value (an index operation makes a value of it)

// -----

// A number that an attribute cannot hold.

%n = arith.constant 1.0e+64 : f32
// CHECK: expected a number in the range of its type

// -----

func.func @main() -> () {
  %y = loop.kernel @k() -> (%y: memref<f32>) {
    %r = loop.reduce moments %k in 4 -> f32 {
      %z = arith.constant 0.0 : f32
      loop.yield %z : f32
    }
  }
  func.return
}
// CHECK: expected at least 3 results for the monoid 'moments', found 1

// -----

// A tensor of which a part is stored is no result.

func.func @main() -> tensor<4xf32> {
  %y = loop.kernel @half() -> (%y: memref<4xf32> partial) {
    %z = arith.constant 0.0 : f32
    loop.for %i in 2 {
      loop.store %z, %y[%i] : memref<4xf32>
    }
  }
  func.return %y : tensor<4xf32>
}
// CHECK: expected %y, of which a part is stored, to be updated, found 'func.return', which uses it

// -----

// Of a tensor of which a part is stored, that part may be read.

func.func @main() -> tensor<3xf32> {
  %y = loop.kernel @half() -> (%y: memref<4xf32> partial) {
    %z = arith.constant 0.0 : f32
    loop.for %i in 2 {
      loop.store %z, %y[%i] : memref<4xf32>
    }
  }
  %w = loop.kernel @reads(%y: memref<4xf32> = %y) -> (%w: memref<3xf32>) {
    loop.for %i in 3 {
      %v = loop.load %y[%i] : memref<4xf32>
      loop.store %v, %w[%i] : memref<3xf32>
    }
  }
  func.return %w : tensor<3xf32>
}
// CHECK: expected to load of %y, of which a part is stored, what is there, found an element that may not be

// -----

%x = "test.op"() : () -> tensor<4xf32>
%y = loop.kernel @adds_floats(%x: memref<4xf32> = %x) -> (%y: memref<4xf32> zeroed) {
  loop.for %i in 4 {
    %v = loop.load %x[%i] : memref<4xf32>
    loop.atomic_add %v, %y[%i] : memref<4xf32>
  }
}
// CHECK: expected i32 or i64 to add at places that are data, found f32: blocks add in any order, in which sums of floats are rounded

// -----

%y = loop.kernel @adds_to_anything() -> (%y: memref<4xi32>) {
  %v = arith.constant 1 : i32
  loop.for %i in 4 {
    loop.atomic_add %v, %y[%i] : memref<4xi32>
  }
}
// CHECK: expected 'loop.atomic_add' to add to a zeroed output, found %y
