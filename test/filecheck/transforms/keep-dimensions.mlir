// RUN: dlc-opt %s -p keep-dimensions --split-input-file | filecheck %s
// RUN: dlc-opt %s -p keep-dimensions --split-input-file --remarks 2>&1 >/dev/null | filecheck %s --check-prefix=SAYS

// CHECK: %c = loop.kernel @largest(%x: memref<4x8xf32> = %x) -> (%c: memref<4x1xf32>) {
// CHECK: loop.store %{{.*}}, %c[%i, 0] : memref<4x1xf32>
// CHECK-NEXT: }
// CHECK-NEXT: } {ops = ["0 amax.default"], values = ["0"]}
// CHECK-NOT: @copy
// CHECK: loop.kernel @less(%x: memref<4x8xf32> = %x, %m: memref<4x1xf32> = %c)
// CHECK: loop.load %m[%i, 0] : memref<4x1xf32>
// CHECK: func.return %c, %{{.*}} : tensor<4x1xf32>, tensor<4x8xf32>
// SAYS: keep-dimensions: largest: stores %c as the copy of it has it
func.func @main(%x: tensor<4x8xf32>) -> (tensor<4x1xf32>, tensor<4x8xf32>) {
  %m = loop.kernel @largest(%x: memref<4x8xf32> = %x) -> (%m: memref<4xf32>) {
    loop.for %i in 4 {
      %s = loop.reduce max %k in 8 -> f32 {
        %a = loop.load %x[%i, %k] : memref<4x8xf32>
        loop.yield %a : f32
      }
      loop.store %s, %m[%i] : memref<4xf32>
    }
  } {ops = ["0 amax.default"]}
  %c = loop.kernel @copy(%m: memref<4xf32> = %m) -> (%c: memref<4x1xf32>) {
    loop.for %i in 4 {
      %a = loop.load %m[%i] : memref<4xf32>
      loop.store %a, %c[%i, 0] : memref<4x1xf32>
    }
  } {ops = ["0 amax.default"], values = ["0"]}
  %y = loop.kernel @less(%x: memref<4x8xf32> = %x, %m: memref<4xf32> = %m) -> (%y: memref<4x8xf32>) {
    loop.for %i in 4, %j in 8 {
      %a = loop.load %x[%i, %j] : memref<4x8xf32>
      %b = loop.load %m[%i] : memref<4xf32>
      %d = arith.subf %a, %b : f32
      loop.store %d, %y[%i, %j] : memref<4x8xf32>
    }
  }
  func.return %c, %y : tensor<4x1xf32>, tensor<4x8xf32>
}

// -----

// What is returned without these dimensions, too, stays; and so does a copy that turns.
// CHECK: @same
// CHECK: @copy
// CHECK: @turned
func.func @main(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<1x4x8xf32>, tensor<8x4xf32>) {
  %m = loop.kernel @same(%x: memref<4x8xf32> = %x) -> (%m: memref<4x8xf32>) {
    loop.for %i in 4, %j in 8 {
      %a = loop.load %x[%i, %j] : memref<4x8xf32>
      loop.store %a, %m[%i, %j] : memref<4x8xf32>
    }
  }
  %c = loop.kernel @copy(%m: memref<4x8xf32> = %m) -> (%c: memref<1x4x8xf32>) {
    loop.for %i in 4, %j in 8 {
      %a = loop.load %m[%i, %j] : memref<4x8xf32>
      loop.store %a, %c[0, %i, %j] : memref<1x4x8xf32>
    }
  }
  %t = loop.kernel @turned(%c: memref<1x4x8xf32> = %c) -> (%t: memref<8x4xf32>) {
    loop.for %i in 4, %j in 8 {
      %a = loop.load %c[0, %i, %j] : memref<1x4x8xf32>
      loop.store %a, %t[%j, %i] : memref<8x4xf32>
    }
  }
  func.return %m, %c, %t : tensor<4x8xf32>, tensor<1x4x8xf32>, tensor<8x4xf32>
}
