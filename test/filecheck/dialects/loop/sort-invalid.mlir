// RUN: dlc-opt %s --split-input-file --verify-diagnostics | filecheck %s

// CHECK: expected a sort along the axis of a loop.for that it stands in, which has no other
%x = "test.op"() : () -> tensor<4x8xi32>
%y = loop.kernel @two_axes(%x: memref<4x8xi32> = %x) -> (%y: memref<4x8xi32>) {
  loop.for %i in 4, %k in 8 {
    %a = loop.load %x[%i, %k] : memref<4x8xi32>
    %s = loop.sort %a along %k : i32
    loop.store %s, %y[%i, %k] : memref<4x8xi32>
  }
}

// -----

// CHECK: expected i32 or i64 to sort, found f32
%x = "test.op"() : () -> tensor<8xf32>
%y = loop.kernel @floats(%x: memref<8xf32> = %x) -> (%y: memref<8xf32>) {
  loop.for %k in 8 {
    %a = loop.load %x[%k] : memref<8xf32>
    %s = loop.sort %a along %k : f32
    loop.store %s, %y[%k] : memref<8xf32>
  }
}

// -----

// CHECK: expected a power of two of points to sort, found 12
%x = "test.op"() : () -> tensor<12xi32>
%y = loop.kernel @twelve(%x: memref<12xi32> = %x) -> (%y: memref<12xi32>) {
  loop.for %k in 12 {
    %a = loop.load %x[%k] : memref<12xi32>
    %s = loop.sort %a along %k : i32
    loop.store %s, %y[%k] : memref<12xi32>
  }
}

// -----

// CHECK: expected results of the values' types
%y = loop.kernel @types() -> (%y: memref<8xi64>) {
  %a = arith.constant 1 : i32
  loop.for %k in 8 {
    %s = "loop.sort"(%a, %k) <{map = affine_map<(d0) -> (d0)>, operandSegmentSizes = array<i32: 1, 1, 0>}> : (i32, index) -> i64
    loop.store %s, %y[%k] : memref<8xi64>
  }
}

// -----

// CHECK: expected the first 2^k points, found 3
%x = "test.op"() : () -> tensor<8xi32>
%y = loop.kernel @three(%x: memref<8xi32> = %x) -> (%y: memref<8xi32>) {
  loop.for %k in 8 {
    %a = loop.load %x[%k] : memref<8xi32>
    %s = loop.sort first 3 %a along %k : i32
    loop.store %s, %y[%k] : memref<8xi32>
  }
}

// -----

// CHECK: expected the first of 8 points, found 16
%x = "test.op"() : () -> tensor<8xi32>
%y = loop.kernel @sixteen(%x: memref<8xi32> = %x) -> (%y: memref<8xi32>) {
  loop.for %k in 8 {
    %a = loop.load %x[%k] : memref<8xi32>
    %s = loop.sort first 16 %a along %k : i32
    loop.store %s, %y[%k] : memref<8xi32>
  }
}

// -----

// CHECK: expected all of what is bitonic to be sorted
%x = "test.op"() : () -> tensor<8xi32>
%y = loop.kernel @both(%x: memref<8xi32> = %x) -> (%y: memref<8xi32>) {
  loop.for %k in 8 {
    %a = loop.load %x[%k] : memref<8xi32>
    %s = loop.sort bitonic first 2 %a along %k : i32
    loop.store %s, %y[%k] : memref<8xi32>
  }
}
