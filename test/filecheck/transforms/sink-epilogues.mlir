// RUN: dlc-opt %s --split-input-file -p sink-epilogues | filecheck %s

// What no reduce needs stands after the last one, in the order in which it was; what one needs, and
// what reads an output, stays before it.

// CHECK-LABEL: loop.kernel @k(
// CHECK:       loop.for %i in 4, %j in 8 {
// CHECK-NEXT:    %o = loop.load %y[%i, %j] : memref<4x8xf32>
// CHECK-NEXT:    %n = loop.load %x[%i, 0] : memref<4x16xf32>
// CHECK-NEXT:    %s = loop.reduce add %k in 16 -> f32 {
// CHECK:         }
// CHECK-NEXT:    %b = loop.load %w[%j] : memref<8xf32>
// CHECK-NEXT:    %c = math.exp %b : f32
// CHECK-NEXT:    %d = arith.addf %s, %c : f32
func.func @main(%x: tensor<4x16xf32>, %w: tensor<8xf32>) -> tensor<4x8xf32> {
  %y = loop.kernel @k(%x: memref<4x16xf32> = %x, %w: memref<8xf32> = %w) -> (%y: memref<4x8xf32>) {
    loop.for %i in 4, %j in 8 {
      %b = loop.load %w[%j] : memref<8xf32>
      %o = loop.load %y[%i, %j] : memref<4x8xf32>
      %n = loop.load %x[%i, 0] : memref<4x16xf32>
      %c = math.exp %b : f32
      %s = loop.reduce add %k in 16 -> f32 {
        %a = loop.load %x[%i, %k] : memref<4x16xf32>
        %m = arith.mulf %a, %n : f32
        loop.yield %m : f32
      }
      %d = arith.addf %s, %c : f32
      %e = arith.addf %d, %o : f32
      loop.store %e, %y[%i, %j] : memref<4x8xf32>
    }
  }
  func.return %y : tensor<4x8xf32>
}
