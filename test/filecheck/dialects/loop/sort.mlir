// RUN: dlc-opt %s | filecheck %s
// RUN: DLC_ROUNDTRIP
// RUN: DLC_GENERIC_ROUNDTRIP

// CHECK-GENERIC: "loop.sort"(%a, %b, %k) <{map = affine_map<(d0) -> (d0)>, operandSegmentSizes = array<i32: 2, 1, 0>}>

// CHECK-LABEL: loop.kernel @in_order
// CHECK: loop.for %k in 8 {
// CHECK: %s, %m = loop.sort %a, %b along %k : i64, i32
// CHECK: loop.sort bitonic %s along %k : i64
// CHECK: loop.sort first 2 %s along %k : i64
%x, %n = "test.op"() : () -> (tensor<4x8xi64>, tensor<8xi32>)
%y, %z = loop.kernel @in_order(%x: memref<4x8xi64> = %x, %n: memref<8xi32> = %n)
    -> (%y: memref<4x8xi64>, %z: memref<4x8xi32>) {
  loop.for %i in 4 {
    loop.for %k in 8 {
      %a = loop.load %x[%i, %k] : memref<4x8xi64>
      %b = loop.load %n[%k] : memref<8xi32>
      %s, %m = loop.sort %a, %b along %k : i64, i32
      %p = loop.sort bitonic %s along %k : i64
      %q = loop.sort first 2 %s along %k : i64
      loop.store %p, %y[%i, %k] : memref<4x8xi64>
      loop.store %m, %z[%i, %k] : memref<4x8xi32>
    }
  }
}
