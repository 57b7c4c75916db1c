// RUN: dlc-opt %s --split-input-file -p take-reciprocals | filecheck %s

// A sum of powers of e of differences from the largest is at least 1: it is inverted once a row.
// CHECK-LABEL: loop.kernel @softmax
// CHECK: %sum = loop.reduce add
// CHECK: %[[ONE:.*]] = arith.constant 1.000000e+00 : f32
// CHECK-NEXT: %sum_reciprocal = arith.divf %[[ONE]], %sum : f32
// CHECK: %q = arith.mulf %e_1, %sum_reciprocal : f32
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

// The largest of something else is none of these, nor is that of a part: the sum may be tiny.
// CHECK-LABEL: loop.kernel @other
// CHECK: arith.divf %e_1, %sum : f32
func.func @main(%x: tensor<8x64xf32>, %z: tensor<8x64xf32>) -> tensor<8x64xf32> {
  %y = loop.kernel @other(%x: memref<8x64xf32> = %x, %z: memref<8x64xf32> = %z) -> (%y: memref<8x64xf32>) {
    loop.for %row in 8 {
      %max = loop.reduce max %k in 64 -> f32 {
        %a = loop.load %z[%row, %k] : memref<8x64xf32>
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
        %e = math.exp %a : f32
        %q = arith.divf %e, %sum : f32
        loop.store %q, %y[%row, %c] : memref<8x64xf32>
      }
    }
  }
  func.return %y : tensor<8x64xf32>
}

// -----

// A norm that is clamped is inverted; what is rounded to an integer is divided.
// CHECK-LABEL: loop.kernel @normalize
// CHECK: %norm_reciprocal = arith.divf %{{.*}}, %norm : f32
// CHECK: %q = arith.mulf %b, %norm_reciprocal : f32
// CHECK: %r = arith.divf %b, %norm : f32
func.func @main(%x: tensor<8x64xf32>) -> (tensor<8x64xf32>, tensor<8x64xf32>) {
  %y, %z = loop.kernel @normalize(%x: memref<8x64xf32> = %x) -> (%y: memref<8x64xf32>, %z: memref<8x64xf32>) {
    loop.for %row in 8 {
      %s = loop.reduce add %k in 64 -> f32 {
        %a = loop.load %x[%row, %k] : memref<8x64xf32>
        %p = arith.mulf %a, %a : f32
        loop.yield %p : f32
      }
      %t = math.sqrt %s : f32
      %eps = arith.constant 9.99999996E-13 : f32
      %norm = arith.maximumf %t, %eps : f32
      loop.for %c in 64 {
        %b = loop.load %x[%row, %c] : memref<8x64xf32>
        %q = arith.divf %b, %norm : f32
        loop.store %q, %y[%row, %c] : memref<8x64xf32>
        %r = arith.divf %b, %norm : f32
        %f = math.floor %r : f32
        loop.store %f, %z[%row, %c] : memref<8x64xf32>
      }
    }
  }
  func.return %y, %z : tensor<8x64xf32>, tensor<8x64xf32>
}

// -----

// Of two quotients that differ by a rounding, another one may be the largest: what finds its place,
// or rounds a sum of them, divides.
// CHECK-LABEL: loop.kernel @best
// CHECK: %q = arith.mulf %b, %norm_reciprocal : f32
// CHECK: %r = arith.divf %b_1, %norm : f32
// CHECK: %t = arith.divf %b_2, %norm : f32
func.func @main(%x: tensor<8x64xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xi64>, tensor<8xf32>) {
  %y:4 = loop.kernel @best(%x: memref<8x64xf32> = %x) -> (%y: memref<8xf32>, %z: memref<8xf32>, %w: memref<8xi64>, %v: memref<8xf32>) {
    loop.for %row in 8 {
      %s = loop.reduce add %k in 64 -> f32 {
        %a = loop.load %x[%row, %k] : memref<8x64xf32>
        %p = arith.mulf %a, %a : f32
        loop.yield %p : f32
      }
      %root = math.sqrt %s : f32
      %eps = arith.constant 9.99999996E-13 : f32
      %norm = arith.maximumf %root, %eps : f32
      %largest = loop.reduce max %k in 64 -> f32 {
        %b = loop.load %x[%row, %k] : memref<8x64xf32>
        %q = arith.divf %b, %norm : f32
        loop.yield %q : f32
      }
      loop.store %largest, %y[%row] : memref<8xf32>
      %best, %place = loop.reduce argmax %k in 64 -> (f32, i64) {
        %b = loop.load %x[%row, %k] : memref<8x64xf32>
        %r = arith.divf %b, %norm : f32
        %i = loop.index %k
        %n = arith.index_cast %i : index to i64
        loop.yield %r, %n : f32, i64
      }
      loop.store %best, %z[%row] : memref<8xf32>
      loop.store %place, %w[%row] : memref<8xi64>
      %sum = loop.reduce add %k in 64 -> f32 {
        %b = loop.load %x[%row, %k] : memref<8x64xf32>
        %t = arith.divf %b, %norm : f32
        loop.yield %t : f32
      }
      %f = math.floor %sum : f32
      loop.store %f, %v[%row] : memref<8xf32>
    }
  }
  func.return %y#0, %y#1, %y#2, %y#3 : tensor<8xf32>, tensor<8xf32>, tensor<8xi64>, tensor<8xf32>
}

// -----

// What is 1 or NaN, and a factor of the divisor, is left out of the dividend.
// CHECK-LABEL: loop.kernel @ones
// CHECK: %d = arith.mulf %sum, %one : f32
// CHECK: arith.divf %a, %d : f32
// CHECK: %i = arith.divf %c, %d : f32
// CHECK: arith.mulf %a, %i : f32
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = loop.kernel @ones(%x: memref<8xf32> = %x) -> (%y: memref<8xf32>) {
    %c = arith.constant 1.0 : f32
    loop.for %n in 8 {
      %a = loop.load %x[%n] : memref<8xf32>
      %max, %sum = loop.reduce expsum %k in 8 -> (f32, f32) {
        %b = loop.load %x[%k] : memref<8xf32>
        loop.yield %b, %c : f32, f32
      }
      %z = arith.subf %max, %max : f32
      %one = math.exp %z : f32
      %d = arith.mulf %sum, %one : f32
      %p = arith.mulf %a, %one : f32
      %q = arith.divf %p, %d : f32
      %i = arith.divf %c, %d : f32
      %o = arith.mulf %one, %a : f32
      %r = arith.mulf %o, %i : f32
      %s = arith.addf %q, %r : f32
      loop.store %s, %y[%n] : memref<8xf32>
    }
  }
  func.return %y : tensor<8xf32>
}
