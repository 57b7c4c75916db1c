// RUN: dlc-opt %s --split-input-file --verify-diagnostics | filecheck %s

// CHECK: expected a scan along the axis of a loop.for that it stands in, which has no other
%x = "test.op"() : () -> tensor<4x8xf32>
%y = loop.kernel @two_axes(%x: memref<4x8xf32> = %x) -> (%y: memref<4x8xf32>) {
  loop.for %i in 4, %k in 8 {
    %a = loop.load %x[%i, %k] : memref<4x8xf32>
    %s = loop.scan add %a along %k : f32
    loop.store %s, %y[%i, %k] : memref<4x8xf32>
  }
}

// -----

// CHECK: expected a scan along the axis of a loop.for that it stands in, which has no other
%x = "test.op"() : () -> tensor<8xf32>
%y = loop.kernel @backwards(%x: memref<8xf32> = %x) -> (%y: memref<8xf32>) {
  loop.for %k in 8 {
    %a = loop.load %x[%k] : memref<8xf32>
    %s = loop.scan add %a along 7 - %k : f32
    loop.store %s, %y[%k] : memref<8xf32>
  }
}

// -----

// CHECK: expected a scan along the axis of a loop.for that it stands in, which has no other
%x = "test.op"() : () -> tensor<8xf32>
%y = loop.kernel @in_a_reduce(%x: memref<8xf32> = %x) -> (%y: memref<f32>) {
  %r = loop.reduce add %k in 8 -> f32 {
    %a = loop.load %x[%k] : memref<8xf32>
    %s = loop.scan add %a along %k : f32
    loop.yield %s : f32
  }
  loop.store %r, %y[] : memref<f32>
}

// -----

// CHECK: expected 2 results for the monoid 'argmax', found 1
%x = "test.op"() : () -> tensor<8xf32>
%y = loop.kernel @one_value(%x: memref<8xf32> = %x) -> (%y: memref<8xf32>) {
  loop.for %k in 8 {
    %a = loop.load %x[%k] : memref<8xf32>
    %s = loop.scan argmax %a along %k : f32
    loop.store %s, %y[%k] : memref<8xf32>
  }
}

// -----

// CHECK: expected results of the values' types
%y = loop.kernel @types() -> (%y: memref<8xf32>) {
  %a = arith.constant 1 : i32
  loop.for %k in 8 {
    %s = "loop.scan"(%a, %k) <{monoid = "add", map = affine_map<(d0) -> (d0)>, operandSegmentSizes = array<i32: 1, 1, 0>}> : (i32, index) -> f32
    loop.store %s, %y[%k] : memref<8xf32>
  }
}
