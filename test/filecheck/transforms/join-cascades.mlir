// RUN: dlc-opt %s --split-input-file -p join-cascades | filecheck %s

// CHECK-LABEL: loop.kernel @softmax
// CHECK: %max, %sum = loop.reduce expsum %k in 64 -> (f32, f32) {
// CHECK-NEXT: %a = loop.load %x[%row, %k] : memref<8x64xf32>
// CHECK-NEXT: loop.yield %a, %{{.*}} : f32, f32
func.func @main(%x: tensor<8x64xf32>) -> tensor<8x64xf32> {
  %y = loop.kernel @softmax(%x: memref<8x64xf32> = %x) -> (%y: memref<8x64xf32>) {
    loop.for %row in 8 {
      %max = loop.reduce max %k in 64 -> f32 {
        %a = loop.load %x[%row, %k] : memref<8x64xf32>
        loop.yield %a : f32
      }
      %sum = loop.reduce add %k in 64 -> f32 {
        %a = loop.load %x[%row, %k] : memref<8x64xf32>
        %d = arith.subf %a, %max : f32
        %e = math.exp %d : f32
        loop.yield %e : f32
      }
      loop.for %c in 64 {
        %a = loop.load %x[%row, %c] : memref<8x64xf32>
        %d = arith.subf %a, %max : f32
        %e = math.exp %d : f32
        %q = arith.divf %e, %sum : f32
        loop.store %q, %y[%row, %c] : memref<8x64xf32>
      }
    }
  }
  func.return %y : tensor<8x64xf32>
}

// -----

// Products with the probabilities, which were divided by their sum, are joined, too; the quotient
// is taken after the fold.
// CHECK-LABEL: loop.kernel @attend
// CHECK: %max, %sum, %o = loop.reduce expsum %k in 64 -> (f32, f32, f32) {
// CHECK-NEXT: %[[A:.*]] = loop.load %x[%row, %k] : memref<8x64xf32>
// CHECK-NEXT: %[[W:.*]] = loop.load %w[%k] : memref<64xf32>
// CHECK-NEXT: loop.yield %[[A]], %{{.*}}, %[[W]] : f32, f32, f32
// CHECK: arith.divf
func.func @main(%x: tensor<8x64xf32>, %w: tensor<64xf32>) -> tensor<8xf32> {
  %y = loop.kernel @attend(%x: memref<8x64xf32> = %x, %w: memref<64xf32> = %w) -> (%y: memref<8xf32>) {
    loop.for %row in 8 {
      %max = loop.reduce max %k in 64 -> f32 {
        %a = loop.load %x[%row, %k] : memref<8x64xf32>
        loop.yield %a : f32
      }
      %sum = loop.reduce add %k in 64 -> f32 {
        %a = loop.load %x[%row, %k] : memref<8x64xf32>
        %d = arith.subf %a, %max : f32
        %e = math.exp %d : f32
        loop.yield %e : f32
      }
      %o = loop.reduce add %k in 64 -> f32 {
        %a = loop.load %x[%row, %k] : memref<8x64xf32>
        %d = arith.subf %a, %max : f32
        %e = math.exp %d : f32
        %p = arith.divf %e, %sum : f32
        %b = loop.load %w[%k] : memref<64xf32>
        %q = arith.mulf %p, %b : f32
        loop.yield %q : f32
      }
      loop.store %o, %y[%row] : memref<8xf32>
    }
  }
  func.return %y : tensor<8xf32>
}

// -----

// The exponents are others than those of which the largest is known.
// CHECK-LABEL: loop.kernel @other
// CHECK: loop.reduce max
// CHECK: loop.reduce add
func.func @main(%x: tensor<8x64xf32>) -> tensor<8xf32> {
  %y = loop.kernel @other(%x: memref<8x64xf32> = %x) -> (%y: memref<8xf32>) {
    loop.for %row in 8 {
      %max = loop.reduce max %k in 64 -> f32 {
        %a = loop.load %x[%row, %k] : memref<8x64xf32>
        loop.yield %a : f32
      }
      %sum = loop.reduce add %k in 64 -> f32 {
        %a = loop.load %x[-%row + 7, %k] : memref<8x64xf32>
        %d = arith.subf %a, %max : f32
        %e = math.exp %d : f32
        loop.yield %e : f32
      }
      loop.store %sum, %y[%row] : memref<8xf32>
    }
  }
  func.return %y : tensor<8xf32>
}
