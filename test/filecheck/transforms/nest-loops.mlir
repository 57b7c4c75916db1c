// RUN: dlc-opt %s --split-input-file -p nest-loops | filecheck %s

// Three levels: one reduce needs the batch, one the row.

func.func @main(%x: tensor<2x3x4xf32>) -> tensor<2x3x4xf32> {
  %y = loop.kernel @k(%x: memref<2x3x4xf32> = %x) -> (%y: memref<2x3x4xf32>) {
    loop.for %p in 2, %q in 3, %r in 4 {
      %s = loop.reduce add %k in 4 -> f32 {
        %a = loop.load %x[%p, %q, %k] : memref<2x3x4xf32>
        loop.yield %a : f32
      }
      %t = loop.reduce max %k in 3, %l in 4 -> f32 {
        %a = loop.load %x[%p, %k, %l] : memref<2x3x4xf32>
        loop.yield %a : f32
      }
      %d = arith.subf %s, %t : f32
      loop.store %d, %y[%p, %q, %r] : memref<2x3x4xf32>
    }
  }
  func.return %y : tensor<2x3x4xf32>
}

// CHECK:      loop.for %p in 2 {
// CHECK-NEXT:   %t = loop.reduce max
// CHECK:        loop.for %q in 3 {
// CHECK-NEXT:     %s = loop.reduce add
// CHECK:          %d = arith.subf %s, %t : f32
// CHECK-NEXT:     loop.for %r in 4 {
// CHECK-NEXT:       loop.store %d, %y[%p, %q, %r] : memref<2x3x4xf32>

// -----

// What needs no reduce stands as far out as its operands do; stores stay inside. A nest of rows and
// columns gets their names. A loop with a store beside the inner one stays.

// CHECK-LABEL: loop.kernel @rows(
// CHECK-NEXT:  loop.for %row in 32 {
// CHECK-NEXT:    %s = loop.reduce add %k in 64 -> f32 {
// CHECK:         %m = arith.negf %s : f32
// CHECK-NEXT:    loop.for %c in 64 {
// CHECK-NEXT:      %b = loop.load %x[%row, %c] : memref<32x64xf32>
// CHECK-NEXT:      %d = arith.subf %b, %m : f32
// CHECK-NEXT:      loop.store %d, %y[%row, %c] : memref<32x64xf32>
// CHECK:       loop.for %p in 32 {
// CHECK-NEXT:    %z_1 = loop.load %x[%p, 0] : memref<32x64xf32>
// CHECK-NEXT:    loop.store %z_1, %z[%p] : memref<32xf32>
// CHECK-NEXT:    loop.for %q in 64 {
func.func @main(%x: tensor<32x64xf32>) -> (tensor<32x64xf32>, tensor<32xf32>) {
  %y, %z = loop.kernel @rows(%x: memref<32x64xf32> = %x) -> (%y: memref<32x64xf32>, %z: memref<32xf32>) {
    loop.for %i in 32, %j in 64 {
      %s = loop.reduce add %k in 64 -> f32 {
        %a = loop.load %x[%i, %k] : memref<32x64xf32>
        loop.yield %a : f32
      }
      %b = loop.load %x[%i, %j] : memref<32x64xf32>
      %m = arith.negf %s : f32
      %d = arith.subf %b, %m : f32
      loop.store %d, %y[%i, %j] : memref<32x64xf32>
    }
    loop.for %p in 32 {
      %z_1 = loop.load %x[%p, 0] : memref<32x64xf32>
      loop.store %z_1, %z[%p] : memref<32xf32>
      loop.for %q in 64 {
        %t = loop.reduce max %k in 64 -> f32 {
          %a = loop.load %x[%p, %k] : memref<32x64xf32>
          loop.yield %a : f32
        }
        loop.store %t, %y[%p, %q] : memref<32x64xf32>
      }
    }
  }
  func.return %y, %z : tensor<32x64xf32>, tensor<32xf32>
}
