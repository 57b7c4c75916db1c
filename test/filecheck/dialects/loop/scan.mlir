// RUN: dlc-opt %s | filecheck %s
// RUN: DLC_ROUNDTRIP
// RUN: DLC_GENERIC_ROUNDTRIP

// CHECK-GENERIC: "loop.scan"(%a, %b, %k) <{monoid = "max", map = affine_map<(d0) -> (d0)>, operandSegmentSizes = array<i32: 2, 1, 0>}>

// CHECK-LABEL: loop.kernel @running
// CHECK: loop.for %k in 8 {
// CHECK: %s, %m = loop.scan max %a, %b along %k : f32, i64
%x, %n = "test.op"() : () -> (tensor<4x8xf32>, tensor<8xi64>)
%y, %z = loop.kernel @running(%x: memref<4x8xf32> = %x, %n: memref<8xi64> = %n)
    -> (%y: memref<4x8xf32>, %z: memref<4x8xi64>) {
  loop.for %i in 4 {
    loop.for %k in 8 {
      %a = loop.load %x[%i, %k] : memref<4x8xf32>
      %b = loop.load %n[%k] : memref<8xi64>
      %s, %m = loop.scan max %a, %b along %k : f32, i64
      loop.store %s, %y[%i, %k] : memref<4x8xf32>
      loop.store %m, %z[%i, %k] : memref<4x8xi64>
    }
  }
}
