// RUN: dlc-opt %s --split-input-file -p hoist-invariants | filecheck %s

// What does not vary along a loop moves out of it, as far as it can; equal loads and equal reduces
// are one, also in two loops around each other; the nest stays.

// CHECK-LABEL: loop.kernel @k(
// CHECK-NEXT:  %n = arith.constant 6.400000e+01 : f32
// CHECK-NEXT:  loop.for %i in 32 {
// CHECK-NEXT:    %a = loop.load %x[%i, 0] : memref<32x64xf32>
// CHECK-NEXT:    %c = arith.divf %a, %n : f32
// CHECK-NEXT:    %s = loop.reduce add %k in 64 -> f32 {
// CHECK-NEXT:      %d = loop.load %x[%i, %k] : memref<32x64xf32>
// CHECK-NEXT:      %e = arith.mulf %d, %d : f32
// CHECK-NEXT:      loop.yield %e : f32
// CHECK-NEXT:    }
// CHECK-NEXT:    %f = arith.addf %s, %s : f32
// CHECK-NEXT:    loop.for %j in 64 {
// CHECK-NEXT:      loop.store %f, %y[%i, %j] : memref<32x64xf32>
func.func @main(%x: tensor<32x64xf32>) -> tensor<32x64xf32> {
  %y = loop.kernel @k(%x: memref<32x64xf32> = %x) -> (%y: memref<32x64xf32>) {
    loop.for %i in 32 {
      %s = loop.reduce add %k in 64 -> f32 {
        %n = arith.constant 6.400000e+01 : f32
        %a = loop.load %x[%i, 0] : memref<32x64xf32>
        %c = arith.divf %a, %n : f32
        %d = loop.load %x[%i, %k] : memref<32x64xf32>
        %g = loop.load %x[%i, %k] : memref<32x64xf32>
        %e = arith.mulf %d, %g : f32
        loop.yield %e : f32
      }
      loop.for %j in 64 {
        %t = loop.reduce add %l in 64 -> f32 {
          %h = loop.load %x[%i, %l] : memref<32x64xf32>
          %o = arith.mulf %h, %h : f32
          loop.yield %o : f32
        }
        %f = arith.addf %s, %t : f32
        loop.store %f, %y[%i, %j] : memref<32x64xf32>
      }
    }
  }
  func.return %y : tensor<32x64xf32>
}

// -----

// What reads an output stays where it is, and two of these are two; so do stores. Loads in loops
// side by side are two, and so are casts that differ in what they are for.

// CHECK-LABEL: loop.kernel @stays(
// CHECK:       loop.for %i in 8 {
// CHECK-NEXT:    %a = loop.load %x[%i] : memref<8xbf16>
// CHECK-NEXT:    %b = arith.extf %a {storage} : bf16 to f32
// CHECK-NEXT:    %c = arith.extf %a : bf16 to f32
// CHECK-NEXT:    loop.store %b, %y[%i] : memref<8xf32>
// CHECK-NEXT:    %d = loop.load %y[%i] : memref<8xf32>
// CHECK-NEXT:    loop.store %c, %y[%i] : memref<8xf32>
// CHECK-NEXT:    %e = loop.load %y[%i] : memref<8xf32>
// CHECK-NEXT:    %f = arith.addf %d, %e : f32
// CHECK-NEXT:    loop.store %f, %y[%i] : memref<8xf32>
// CHECK-NEXT:  }
// CHECK-NEXT:  loop.for %i_1 in 8 {
// CHECK-NEXT:    %g = loop.load %x[%i_1] : memref<8xbf16>
func.func @main(%x: tensor<8xbf16>) -> (tensor<8xf32>, tensor<8xbf16>) {
  %y, %z = loop.kernel @stays(%x: memref<8xbf16> = %x) -> (%y: memref<8xf32>, %z: memref<8xbf16>) {
    loop.for %i in 8 {
      %a = loop.load %x[%i] : memref<8xbf16>
      %b = arith.extf %a {storage} : bf16 to f32
      %c = arith.extf %a : bf16 to f32
      loop.store %b, %y[%i] : memref<8xf32>
      %d = loop.load %y[%i] : memref<8xf32>
      loop.store %c, %y[%i] : memref<8xf32>
      %e = loop.load %y[%i] : memref<8xf32>
      %f = arith.addf %d, %e : f32
      loop.store %f, %y[%i] : memref<8xf32>
    }
    loop.for %i in 8 {
      %g = loop.load %x[%i] : memref<8xbf16>
      loop.store %g, %z[%i] : memref<8xbf16>
    }
  }
  func.return %y, %z : tensor<8xf32>, tensor<8xbf16>
}

// -----

// A reduce within another, which does not vary along its axes.

// CHECK-LABEL: loop.kernel @fold(
// CHECK:       loop.for %i in 8 {
// CHECK-NEXT:    %m = loop.reduce max %j in 4 -> f32 {
// CHECK:         %s = loop.reduce add %k in 4 -> f32 {
// CHECK-NEXT:      loop.load
// CHECK-NEXT:      arith.subf
func.func @main(%x: tensor<8x4xf32>) -> tensor<8xf32> {
  %y = loop.kernel @fold(%x: memref<8x4xf32> = %x) -> (%y: memref<8xf32>) {
    loop.for %i in 8 {
      %s = loop.reduce add %k in 4 -> f32 {
        %m = loop.reduce max %j in 4 -> f32 {
          %a = loop.load %x[%i, %j] : memref<8x4xf32>
          loop.yield %a : f32
        }
        %b = loop.load %x[%i, %k] : memref<8x4xf32>
        %d = arith.subf %b, %m : f32
        loop.yield %d : f32
      }
      loop.store %s, %y[%i] : memref<8xf32>
    }
  }
  func.return %y : tensor<8xf32>
}
