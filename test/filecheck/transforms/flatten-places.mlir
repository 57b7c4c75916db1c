// RUN: dlc-opt %s --split-input-file -p 'flatten-places{always=true}' -o %t.mlir
// RUN: filecheck %s --input-file=%t.mlir
// RUN: dlc-opt %t.mlir --split-input-file | filecheck %s
// RUN: dlc-opt %s --split-input-file -p 'flatten-places{always=true}' --remarks 2>&1 >/dev/null | filecheck %s --check-prefix=SAYS

// Images and their rows follow each other, a zero between two rows, of both; what an epilogue reads
// stays inside.
// SAYS: flatten-places: conv: makes its places one axis: {{[0-9.]+}} us and {{[0-9.]+}} us to lay %x out, {{[0-9.]+}} us by rows

// CHECK: %x_flat = loop.kernel @x_flat(%x: memref<8x64x30xf32> = %x) -> (%x_flat: memref<64x260xf32>) {
// CHECK: loop.for %d1 in 64, %place in 260 {
// CHECK-NEXT: loop.load %x[%place floordiv 31, %d1, %place mod 31 - 1] where (%place floordiv 31 < 8, %place mod 31 >= 1) else %0 : memref<8x64x30xf32>
// CHECK-NEXT: loop.store %x_1, %x_flat[%d1, %place] : memref<64x260xf32>
// CHECK: loop.kernel @conv(%x: memref<64x260xf32> = %x_flat, %w: memref<3x64x16xf32> = %w, %z: memref<16x8xf32> = %z) -> (%y: memref<8x16x30xf32>) {
// CHECK: loop.for %run in 8, %i in 16, %place in 32 {
// CHECK: loop.load %x[%l, %run * 32 + %place + %k] : memref<64x260xf32>
// CHECK: loop.load %w[%k, %l, %i] : memref<3x64x16xf32>
// CHECK: loop.load %z[%i, (%run * 32 + %place) floordiv 31] where ((%run * 32 + %place) floordiv 31 < 8) else %0 : memref<16x8xf32>
// CHECK: loop.store %t, %y[(%run * 32 + %place) floordiv 31, %i, (%run * 32 + %place) mod 31] where ((%run * 32 + %place) floordiv 31 < 8, (%run * 32 + %place) mod 31 < 30) : memref<8x16x30xf32>
func.func @main(%x: tensor<8x64x30xf32>, %w: tensor<3x64x16xf32>, %z: tensor<16x8xf32>) -> tensor<8x16x30xf32> {
  %y = loop.kernel @conv(%x: memref<8x64x30xf32> = %x, %w: memref<3x64x16xf32> = %w, %z: memref<16x8xf32> = %z) -> (%y: memref<8x16x30xf32>) {
    %zero = arith.constant 0.000000e+00 : f32
    loop.for %a in 8, %i in 16, %j in 30 {
      %s = loop.reduce add %k in 3, %l in 64 -> f32 {
        %x_1 = loop.load %x[%a, %l, %j + %k - 1] where (%j + %k >= 1, %j + %k <= 30) else %zero : memref<8x64x30xf32>
        %w_1 = loop.load %w[%k, %l, %i] : memref<3x64x16xf32>
        %p = arith.mulf %x_1, %w_1 : f32
        loop.yield %p : f32
      }
      %z_1 = loop.load %z[%i, %a] : memref<16x8xf32>
      %t = arith.addf %s, %z_1 : f32
      loop.store %t, %y[%a, %i, %j] : memref<8x16x30xf32>
    }
  } {ops = ["0 conv1d"], values = ["0"]}
  func.return %y : tensor<8x16x30xf32>
}

// -----

// Behind a row is what stands there, not a number of one's own.
// SAYS: flatten-places: other: leaves %x, which is another value than 0 where it is not read
// CHECK: loop.kernel @other(%x: memref<8x64x30xf32> = %x,
func.func @main(%x: tensor<8x64x30xf32>, %w: tensor<3x64x16xf32>) -> tensor<8x16x30xf32> {
  %y = loop.kernel @other(%x: memref<8x64x30xf32> = %x, %w: memref<3x64x16xf32> = %w) -> (%y: memref<8x16x30xf32>) {
    %one = arith.constant 1.000000e+00 : f32
    loop.for %a in 8, %i in 16, %j in 30 {
      %s = loop.reduce add %k in 3, %l in 64 -> f32 {
        %x_1 = loop.load %x[%a, %l, %j + %k - 1] where (%j + %k >= 1, %j + %k <= 30) else %one : memref<8x64x30xf32>
        %w_1 = loop.load %w[%k, %l, %i] : memref<3x64x16xf32>
        %p = arith.mulf %x_1, %w_1 : f32
        loop.yield %p : f32
      }
      loop.store %s, %y[%a, %i, %j] : memref<8x16x30xf32>
    }
  }
  func.return %y : tensor<8x16x30xf32>
}

// -----

// SAYS: flatten-places: guarded: leaves %x, which is read, or summed, where conditions of a place hold
// CHECK: loop.kernel @guarded(%x: memref<8x64x30xf32> = %x,
func.func @main(%x: tensor<8x64x30xf32>, %w: tensor<3x64x16xf32>) -> tensor<8x16x30xf32> {
  %y = loop.kernel @guarded(%x: memref<8x64x30xf32> = %x, %w: memref<3x64x16xf32> = %w) -> (%y: memref<8x16x30xf32>) {
    loop.for %a in 8, %i in 16, %j in 30 {
      %s = loop.reduce add %k in 3, %l in 64 -> f32 {
        %zero = arith.constant 0.000000e+00 : f32
        %x_1 = loop.load %x[%a, %l, %j + %k - 1] where (%j + %k >= 1, %j + %k <= 30) else %zero : memref<8x64x30xf32>
        %w_1 = loop.load %w[%k, %l, %i] : memref<3x64x16xf32>
        %p = arith.mulf %x_1, %w_1 : f32
        loop.yield %p where (%j >= %k) : f32
      }
      loop.store %s, %y[%a, %i, %j] : memref<8x16x30xf32>
    }
  }
  func.return %y : tensor<8x16x30xf32>
}
