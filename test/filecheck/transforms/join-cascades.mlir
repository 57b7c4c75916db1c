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

// -----

// Attention: the scores, which are a reduce of their own, are computed once a point of the sweep;
// what varies along more axes than the largest is folded with it at the points of all of them. A
// sum that is 0 where nothing is attended to is 0 times what is folded.
// CHECK-LABEL: loop.kernel @attention
// CHECK: loop.for %row in 8, %c in 4 {
// CHECK-NEXT: %max, %sum, %o = loop.reduce expsum %j in 64 -> (f32, f32, f32) {
// CHECK-NEXT: %s = loop.reduce add %d in 16 -> f32 {
// CHECK: %[[V:.*]] = loop.load %v[%j, %c] : memref<64x4xf32>
// CHECK-NEXT: loop.yield %s, %{{.*}}, %[[V]] : f32, f32, f32
// CHECK-NOT: loop.reduce
// CHECK: %[[QUOTIENT:.*]] = arith.divf
// CHECK: %[[ZERO:.*]] = arith.mulf %zero, %o : f32
// CHECK: arith.select %empty, %[[ZERO]], %[[QUOTIENT]] : f32
func.func @main(%q: tensor<8x16xf32>, %ks: tensor<64x16xf32>, %v: tensor<64x4xf32>) -> tensor<8x4xf32> {
  %y = loop.kernel @attention(%q: memref<8x16xf32> = %q, %ks: memref<64x16xf32> = %ks, %v: memref<64x4xf32> = %v) -> (%y: memref<8x4xf32>) {
    %zero = arith.constant 0.0 : f32
    %none = arith.constant 0xff800000 : f32
    loop.for %row in 8 {
      %max = loop.reduce max %j in 64 -> f32 {
        %s = loop.reduce add %d in 16 -> f32 {
          %a = loop.load %q[%row, %d] : memref<8x16xf32>
          %b = loop.load %ks[%j, %d] : memref<64x16xf32>
          %p = arith.mulf %a, %b : f32
          loop.yield %p : f32
        }
        loop.yield %s : f32
      }
      %sum = loop.reduce add %j in 64 -> f32 {
        %s = loop.reduce add %d in 16 -> f32 {
          %a = loop.load %q[%row, %d] : memref<8x16xf32>
          %b = loop.load %ks[%j, %d] : memref<64x16xf32>
          %p = arith.mulf %a, %b : f32
          loop.yield %p : f32
        }
        %t = arith.subf %s, %max : f32
        %e = math.exp %t : f32
        loop.yield %e : f32
      }
      %empty = arith.cmpf oeq, %max, %none : f32
      loop.for %c in 4 {
        %o = loop.reduce add %k in 64 -> f32 {
          %s = loop.reduce add %d in 16 -> f32 {
            %a = loop.load %q[%row, %d] : memref<8x16xf32>
            %b = loop.load %ks[%k, %d] : memref<64x16xf32>
            %p = arith.mulf %a, %b : f32
            loop.yield %p : f32
          }
          %t = arith.subf %s, %max : f32
          %e = math.exp %t : f32
          %n = arith.divf %e, %sum : f32
          %w = arith.select %empty, %zero, %n : f32
          %x = loop.load %v[%k, %c] : memref<64x4xf32>
          %z = arith.mulf %w, %x : f32
          loop.yield %z : f32
        }
        loop.store %o, %y[%row, %c] : memref<8x4xf32>
      }
    }
  }
  func.return %y : tensor<8x4xf32>
}

// -----

// Weights are taken to be 0 before and after: no number times the sum is what it would be.
// CHECK-LABEL: loop.kernel @twice
// CHECK: loop.reduce max
// CHECK: loop.reduce add
func.func @main(%x: tensor<8x64xf32>, %w: tensor<64xf32>) -> tensor<8xf32> {
  %y = loop.kernel @twice(%x: memref<8x64xf32> = %x, %w: memref<64xf32> = %w) -> (%y: memref<8xf32>) {
    %zero = arith.constant 0.0 : f32
    loop.for %row in 8 {
      %max = loop.reduce max %k in 64 -> f32 {
        %a = loop.load %x[%row, %k] : memref<8x64xf32>
        loop.yield %a : f32
      }
      %empty = arith.cmpf oeq, %max, %zero : f32
      %sum = loop.reduce add %k in 64 -> f32 {
        %a = loop.load %x[%row, %k] : memref<8x64xf32>
        %d = arith.subf %a, %max : f32
        %e = math.exp %d : f32
        %b = loop.load %w[%k] : memref<64xf32>
        %f = arith.mulf %e, %b : f32
        %s = arith.select %empty, %zero, %f : f32
        loop.yield %s : f32
      }
      loop.store %sum, %y[%row] : memref<8xf32>
    }
  }
  func.return %y : tensor<8xf32>
}

// -----

// Squares of distances from what is computed of the sum are folded with it, relative to the first.
// CHECK-LABEL: loop.kernel @deviations
// CHECK: %[[FIRST:.*]] = loop.load %x[%row, 0] : memref<8x64xf32>
// CHECK: %pivot = arith.select %{{.*}}, %[[FIRST]], %{{.*}} : f32
// CHECK-NEXT: %n, %mean, %squares, %sum = loop.reduce moments %k in 64 -> (f32, f32, f32, f32) {
// CHECK-NEXT: %[[X:.*]] = loop.load %x[%row, %k] : memref<8x64xf32>
// CHECK-NEXT: %[[D:.*]] = arith.subf %[[X]], %pivot : f32
// CHECK-NEXT: loop.yield %{{.*}}, %[[D]], %{{.*}}, %[[X]] : f32, f32, f32, f32
// CHECK-NOT: loop.reduce
func.func @main(%x: tensor<8x64xf32>) -> tensor<8xf32> {
  %y = loop.kernel @deviations(%x: memref<8x64xf32> = %x) -> (%y: memref<8xf32>) {
    %count = arith.constant 64.0 : f32
    loop.for %row in 8 {
      %sum = loop.reduce add %k in 64 -> f32 {
        %a = loop.load %x[%row, %k] : memref<8x64xf32>
        loop.yield %a : f32
      }
      %center = arith.divf %sum, %count : f32
      %squares = loop.reduce add %k in 64 -> f32 {
        %a = loop.load %x[%row, %k] : memref<8x64xf32>
        %d = arith.subf %a, %center : f32
        %q = arith.mulf %d, %d : f32
        loop.yield %q : f32
      }
      loop.store %squares, %y[%row] : memref<8xf32>
    }
  }
  func.return %y : tensor<8xf32>
}

// -----

// Distances from the mean of other numbers, and products of two distances, are swept apart.
// CHECK-LABEL: loop.kernel @others
// CHECK: loop.reduce add
// CHECK: loop.reduce add
// CHECK: loop.reduce add
func.func @main(%x: tensor<8x64xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %y, %z = loop.kernel @others(%x: memref<8x64xf32> = %x) -> (%y: memref<8xf32>, %z: memref<8xf32>) {
    %count = arith.constant 64.0 : f32
    loop.for %row in 8 {
      %sum = loop.reduce add %k in 64 -> f32 {
        %a = loop.load %x[%row, %k] : memref<8x64xf32>
        loop.yield %a : f32
      }
      %center = arith.divf %sum, %count : f32
      %squares = loop.reduce add %k in 64 -> f32 {
        %a = loop.load %x[-%row + 7, %k] : memref<8x64xf32>
        %d = arith.subf %a, %center : f32
        %q = arith.mulf %d, %d : f32
        loop.yield %q : f32
      }
      %products = loop.reduce add %k in 64 -> f32 {
        %a = loop.load %x[%row, %k] : memref<8x64xf32>
        %d = arith.subf %a, %center : f32
        %q = arith.mulf %d, %a : f32
        loop.yield %q : f32
      }
      loop.store %squares, %y[%row] : memref<8xf32>
      loop.store %products, %z[%row] : memref<8xf32>
    }
  }
  func.return %y, %z : tensor<8xf32>, tensor<8xf32>
}
