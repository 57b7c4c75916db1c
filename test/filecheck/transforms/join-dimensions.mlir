// RUN: dlc-opt %s -p join-dimensions --split-input-file | filecheck %s
// RUN: dlc-opt %s -p join-dimensions --split-input-file --remarks 2>&1 >/dev/null | filecheck %s --check-prefix=SAYS

// CHECK: %y = loop.kernel @heads(%x: memref<2x4x8xf32> = %x) -> (%y: memref<4x16xf32>) {
// CHECK: loop.store %{{.*}}, %y[%i, %h * 8 + %j] : memref<4x16xf32>
// CHECK: %z = loop.kernel @rows(%y: memref<4x16xf32> = %y) -> (%z: memref<4xf32>) {
// CHECK: loop.load %y[%i, %k] : memref<4x16xf32>
// SAYS: join-dimensions: heads: stores %y as it is read: 2 x 4 x 8 is 4 x 16
func.func @main(%x: tensor<2x4x8xf32>) -> tensor<4xf32> {
  %y = loop.kernel @heads(%x: memref<2x4x8xf32> = %x) -> (%y: memref<2x4x8xf32>) {
    loop.for %h in 2, %i in 4, %j in 8 {
      %a = loop.load %x[%h, %i, %j] : memref<2x4x8xf32>
      loop.store %a, %y[%h, %i, %j] : memref<2x4x8xf32>
    }
  }
  %z = loop.kernel @rows(%y: memref<2x4x8xf32> = %y) -> (%z: memref<4xf32>) {
    loop.for %i in 4 {
      %s = loop.reduce add %k in 16 -> f32 {
        %a = loop.load %y[%k floordiv 8, %i, %k mod 8] : memref<2x4x8xf32>
        loop.yield %a : f32
      }
      loop.store %s, %z[%i] : memref<4xf32>
    }
  }
  func.return %z : tensor<4xf32>
}

// -----

// A tensor that is returned keeps its shape, and so does one that is read in another way, too.
// CHECK: loop.kernel @returned(%x: memref<2x8xf32> = %x) -> (%y: memref<2x8xf32>) {
// CHECK: loop.kernel @read(%x: memref<2x8xf32> = %x) -> (%y: memref<2x8xf32>) {
func.func @main(%x: tensor<2x8xf32>) -> (tensor<2x8xf32>, tensor<16xf32>, tensor<16xf32>) {
  %y = loop.kernel @returned(%x: memref<2x8xf32> = %x) -> (%y: memref<2x8xf32>) {
    loop.for %i in 2, %j in 8 {
      %a = loop.load %x[%i, %j] : memref<2x8xf32>
      loop.store %a, %y[%i, %j] : memref<2x8xf32>
    }
  }
  %r = loop.kernel @read(%x: memref<2x8xf32> = %x) -> (%y: memref<2x8xf32>) {
    loop.for %i in 2, %j in 8 {
      %a = loop.load %x[%i, %j] : memref<2x8xf32>
      loop.store %a, %y[%i, %j] : memref<2x8xf32>
    }
  }
  %z = loop.kernel @one(%y: memref<2x8xf32> = %y) -> (%z: memref<16xf32>) {
    loop.for %k in 16 {
      %a = loop.load %y[%k floordiv 8, %k mod 8] : memref<2x8xf32>
      loop.store %a, %z[%k] : memref<16xf32>
    }
  }
  %v = loop.kernel @both(%y: memref<2x8xf32> = %r) -> (%z: memref<16xf32>) {
    loop.for %k in 16 {
      %a = loop.load %y[%k floordiv 8, %k mod 8] : memref<2x8xf32>
      %b = loop.load %y[0, %k mod 8] : memref<2x8xf32>
      %c = arith.addf %a, %b : f32
      loop.store %c, %z[%k] : memref<16xf32>
    }
  }
  func.return %y, %z, %v : tensor<2x8xf32>, tensor<16xf32>, tensor<16xf32>
}
