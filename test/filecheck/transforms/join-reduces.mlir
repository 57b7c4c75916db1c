// RUN: dlc-opt %s --split-input-file -p join-reduces | filecheck %s

// Contractions of the same rows and columns that share an operand are one reduce, which stands
// where the first did and loads the operand once. One over another range stays.

// CHECK-LABEL: loop.kernel @siblings
// CHECK:       %a, %b = loop.reduce add %k in 16 -> (f32, f32) {
// CHECK-NEXT:    %xa = loop.load %x[%i, %k] : memref<4x16xf32>
// CHECK-NEXT:    %ua = loop.load %u[%k, %j] : memref<16x8xf32>
// CHECK-NEXT:    %pa = arith.mulf %xa, %ua : f32
// CHECK-NEXT:    %vb = loop.load %v[%k, %j] : memref<16x8xf32>
// CHECK-NEXT:    %pb = arith.mulf %vb, %xa : f32
// CHECK-NEXT:    loop.yield %pa, %pb : f32, f32
// CHECK-NEXT:  }
// CHECK-NEXT:  %c = loop.reduce add %m in 15 -> f32 {
// CHECK-NOT:   loop.reduce
// CHECK:       %s = arith.subf %a, %b : f32
func.func @main(%x: tensor<4x16xf32>, %u: tensor<16x8xf32>, %v: tensor<16x8xf32>) -> tensor<4x8xf32> {
  %y = loop.kernel @siblings(%x: memref<4x16xf32> = %x, %u: memref<16x8xf32> = %u, %v: memref<16x8xf32> = %v) -> (%y: memref<4x8xf32>) {
    loop.for %i in 4, %j in 8 {
      %a = loop.reduce add %k in 16 -> f32 {
        %xa = loop.load %x[%i, %k] : memref<4x16xf32>
        %ua = loop.load %u[%k, %j] : memref<16x8xf32>
        %pa = arith.mulf %xa, %ua : f32
        loop.yield %pa : f32
      }
      %c = loop.reduce add %m in 15 -> f32 {
        %xc = loop.load %x[%i, %m] : memref<4x16xf32>
        %vc = loop.load %v[%m, %j] : memref<16x8xf32>
        %pc = arith.mulf %vc, %xc : f32
        loop.yield %pc : f32
      }
      %b = loop.reduce add %l in 16 -> f32 {
        %xb = loop.load %x[%i, %l] : memref<4x16xf32>
        %vb = loop.load %v[%l, %j] : memref<16x8xf32>
        %pb = arith.mulf %vb, %xb : f32
        loop.yield %pb : f32
      }
      %s = arith.subf %a, %b : f32
      %t = arith.addf %s, %c : f32
      loop.store %t, %y[%i, %j] : memref<4x8xf32>
    }
  }
  func.return %y : tensor<4x8xf32>
}

// -----

// A contraction of what the first gives, or of other elements of the operand, is no sibling of it.

// CHECK-LABEL: loop.kernel @others
// CHECK:       loop.reduce add %k in 16 -> f32 {
// CHECK:       loop.reduce add %l in 16 -> f32 {
// CHECK:       loop.reduce add %m in 16 -> f32 {
func.func @main(%x: tensor<4x17xf32>, %u: tensor<16x8xf32>, %v: tensor<16x8xf32>) -> tensor<4x8xf32> {
  %y = loop.kernel @others(%x: memref<4x17xf32> = %x, %u: memref<16x8xf32> = %u, %v: memref<16x8xf32> = %v) -> (%y: memref<4x8xf32>) {
    loop.for %i in 4, %j in 8 {
      %a = loop.reduce add %k in 16 -> f32 {
        %xa = loop.load %x[%i, %k] : memref<4x17xf32>
        %ua = loop.load %u[%k, %j] : memref<16x8xf32>
        %pa = arith.mulf %xa, %ua : f32
        loop.yield %pa : f32
      }
      %b = loop.reduce add %l in 16 -> f32 {
        %xb = loop.load %x[%i, %l + 1] : memref<4x17xf32>
        %vb = loop.load %v[%l, %j] : memref<16x8xf32>
        %pb = arith.mulf %vb, %xb : f32
        loop.yield %pb : f32
      }
      %c = loop.reduce add %m in 16 -> f32 {
        %xc = loop.load %x[%i, %m] : memref<4x17xf32>
        %vc = loop.load %u[%m, %j] : memref<16x8xf32>
        %pc = arith.mulf %vc, %xc : f32
        %qc = arith.mulf %pc, %a : f32
        loop.yield %qc : f32
      }
      %s = arith.subf %a, %b : f32
      %t = arith.addf %s, %c : f32
      loop.store %t, %y[%i, %j] : memref<4x8xf32>
    }
  }
  func.return %y : tensor<4x8xf32>
}

// -----

// Sums that load the same elements are found in one sweep; one by another monoid, or of what the
// others give, is not.

// CHECK-LABEL: loop.kernel @sums
// CHECK:       %a, %b = loop.reduce add %k in 16 -> (f32, f32) {
// CHECK:         loop.yield %xa, %pb : f32, f32
// CHECK:       %c = loop.reduce max %m in 16 -> f32 {
// CHECK:       %d = loop.reduce add %n in 16 -> f32 {
func.func @main(%x: tensor<4x16xf32>) -> tensor<4xf32> {
  %y = loop.kernel @sums(%x: memref<4x16xf32> = %x) -> (%y: memref<4xf32>) {
    loop.for %i in 4 {
      %a = loop.reduce add %k in 16 -> f32 {
        %xa = loop.load %x[%i, %k] : memref<4x16xf32>
        loop.yield %xa : f32
      }
      %c = loop.reduce max %m in 16 -> f32 {
        %xc = loop.load %x[%i, %m] : memref<4x16xf32>
        loop.yield %xc : f32
      }
      %b = loop.reduce add %l in 16 -> f32 {
        %xb = loop.load %x[%i, %l] : memref<4x16xf32>
        %pb = arith.mulf %xb, %xb : f32
        loop.yield %pb : f32
      }
      %d = loop.reduce add %n in 16 -> f32 {
        %xd = loop.load %x[%i, %n] : memref<4x16xf32>
        %pd = arith.mulf %xd, %a : f32
        loop.yield %pd : f32
      }
      %s = arith.addf %a, %b : f32
      %t = arith.addf %s, %c : f32
      %u = arith.addf %t, %d : f32
      loop.store %u, %y[%i] : memref<4xf32>
    }
  }
  func.return %y : tensor<4xf32>
}
