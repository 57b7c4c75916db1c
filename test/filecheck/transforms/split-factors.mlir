// RUN: dlc-opt %s -p 'split-factors{always=true}' -o %t.mlir
// RUN: filecheck %s --input-file=%t.mlir
// RUN: dlc-opt %t.mlir | filecheck %s
// RUN: dlc-opt %s -p split-factors --remarks 2>&1 >/dev/null | filecheck %s --check-prefix=SAYS

// So few results do not pay for two kernels more.
// SAYS: split-factors: mm: leaves its factors: {{[0-9.]+}} us by parts of 0.0125 MB, and {{[0-9.]+}} us to lay these out, {{[0-9.]+}} us without

// K is a multiple of 16 bytes in each part; the rest of rows meets what tf32 keeps of columns first.
// CHECK: %x_parts = loop.kernel @x_parts(%x: memref<17x37xf32> = %x) -> (%x_parts: memref<17x120xf32>) {
// CHECK: loop.for %i in 17, %k in 40 {
// CHECK-NEXT: %a = loop.load %x[%i, %k] where (%k < 37) else
// CHECK: %[[KEPT:.*]] = arith.select %endless, %{{.*}}, %big : f32
// CHECK-NEXT: %[[REST:.*]] = arith.select %endless, %{{.*}}, %rest : f32
// CHECK-NEXT: loop.store %[[REST]], %x_parts[%i, %k] :
// CHECK-NEXT: loop.store %[[KEPT]], %x_parts[%i, %k + 40] :
// CHECK-NEXT: loop.store %big, %x_parts[%i, %k + 80] :
// CHECK: %w_parts = loop.kernel @w_parts(%w: memref<37x9xf32> = %w) -> (%w_parts: memref<9x120xf32>) {
// CHECK: loop.store %[[KEPT:.*]], %w_parts[%j, %k] :
// CHECK-NEXT: loop.store %[[REST:.*]], %w_parts[%j, %k + 40] :
// CHECK: loop.kernel @mm(%x: memref<17x120xf32> = %x_parts, %w: memref<9x120xf32> = %w_parts)
// CHECK: loop.reduce add %k in 120 -> f32 {
// CHECK: loop.load %x[%i, %k] : memref<17x120xf32>
// CHECK: loop.load %w[%j, %k] : memref<9x120xf32>
// CHECK: } {parts}
builtin.module attributes {dlc.target = "sm_90", dlc.precision = "3xtf32"} {
  func.func @main(%x: tensor<17x37xf32>, %w: tensor<37x9xf32>) -> tensor<17x9xf32> {
    %y = loop.kernel @mm(%x: memref<17x37xf32> = %x, %w: memref<37x9xf32> = %w) -> (%y: memref<17x9xf32>) {
      loop.for %i in 17, %j in 9 {
        %s = loop.reduce add %k in 37 -> f32 {
          %a = loop.load %x[%i, %k] : memref<17x37xf32>
          %b = loop.load %w[%k, %j] : memref<37x9xf32>
          %p = arith.mulf %a, %b : f32
          loop.yield %p : f32
        }
        loop.store %s, %y[%i, %j] : memref<17x9xf32>
      }
    }
    func.return %y : tensor<17x9xf32>
  }
}
