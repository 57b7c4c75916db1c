// RUN: dlc-opt %s --split-input-file -p 'pack-operands{always=true}' -o %t.mlir
// RUN: filecheck %s --input-file=%t.mlir
// RUN: dlc-opt %t.mlir --split-input-file | filecheck %s
// RUN: dlc-opt %s --split-input-file -p pack-operands --remarks 2>&1 >/dev/null | filecheck %s --check-prefix=SAYS

// The weights of a convolution get rows last, in multiples of 16 bytes; the image, of which windows
// overlap, stays. So few results do not pay for another kernel.
// SAYS: pack-operands: conv: leaves %x, which is read in windows that overlap
// SAYS: pack-operands: conv: leaves %w: {{[0-9.]+}} us and {{[0-9.]+}} us to pack it, {{[0-9.]+}} us as it lies

// CHECK: %w_packed = loop.kernel @w_packed(%w: memref<6x16x3xf32> align 4 = %w) -> (%w_packed: memref<3x16x8xf32>) {
// CHECK-NEXT: %0 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT: loop.for %k in 3, %l in 16, %h in 8 {
// CHECK-NEXT:   %w_1 = loop.load %w[%h, %l, %k] where (%h < 6) else %0 : memref<6x16x3xf32>
// CHECK-NEXT:   loop.store %w_1, %w_packed[%k, %l, %h] : memref<3x16x8xf32>
// CHECK: } {ops = ["0 conv1d"]}
// CHECK: loop.kernel @conv(%x: memref<2x16x66xf32> = %x, %w: memref<3x16x8xf32> = %w_packed) -> (%y: memref<2x6x64xf32>)
// CHECK: loop.load %x[%b, %l, %j + %k] : memref<2x16x66xf32>
// CHECK: loop.load %w[%k, %l, %h] : memref<3x16x8xf32>
func.func @main(%x: tensor<2x16x66xf32>, %w: tensor<6x16x3xf32>) -> tensor<2x6x64xf32> {
  %y = loop.kernel @conv(%x: memref<2x16x66xf32> = %x, %w: memref<6x16x3xf32> align 4 = %w) -> (%y: memref<2x6x64xf32>) {
    loop.for %b in 2, %h in 6, %j in 64 {
      %s = loop.reduce add %k in 3, %l in 16 -> f32 {
        %x_1 = loop.load %x[%b, %l, %j + %k] : memref<2x16x66xf32>
        %w_1 = loop.load %w[%h, %l, %k] : memref<6x16x3xf32>
        %p = arith.mulf %x_1, %w_1 : f32
        loop.yield %p : f32
      }
      loop.store %s, %y[%b, %h, %j] : memref<2x6x64xf32>
    }
  } {ops = ["0 conv1d"], values = ["0"]}
  func.return %y : tensor<2x6x64xf32>
}

// -----

// What conditions leave out of the weights of a transposed convolution is stored as it is read; the
// fold keeps its own.

// CHECK: %w_packed = loop.kernel @w_packed(
// CHECK: %0 = arith.constant 2.000000e+00 : f32
// CHECK: loop.for %c in 2, %k in 3, %l in 16, %h in 8 {
// CHECK-NEXT: loop.load %w[%l, %h, %c + %k * 2] where (%c + %k * 2 < 5) else %0 : memref<16x8x5xf32>
// CHECK: loop.load %w[%c, %k, %l, %h] : memref<2x3x16x8xf32>
// CHECK: loop.yield %p where (%c + %k * 2 < 5) : f32
func.func @main(%x: tensor<16x34xf32>, %w: tensor<16x8x5xf32>) -> tensor<8x32x2xf32> {
  %y = loop.kernel @transposed(%x: memref<16x34xf32> = %x, %w: memref<16x8x5xf32> = %w) -> (%y: memref<8x32x2xf32>) {
    %two = arith.constant 2.000000e+00 : f32
    loop.for %h in 8, %j in 32, %c in 2 {
      %s = loop.reduce add %k in 3, %l in 16 -> f32 {
        %x_1 = loop.load %x[%l, %j - %k + 2] : memref<16x34xf32>
        %w_1 = loop.load %w[%l, %h, %c + %k * 2] where (%c + %k * 2 < 5) else %two : memref<16x8x5xf32>
        %p = arith.mulf %x_1, %w_1 : f32
        loop.yield %p where (%c + %k * 2 < 5) : f32
      }
      loop.store %s, %y[%h, %j, %c] : memref<8x32x2xf32>
    }
  }
  func.return %y : tensor<8x32x2xf32>
}

// -----

// Factors that lie across their dimensions are packed; those that a block fetches 16 bytes of at
// once are not, nor what is read elsewhere, too.
// SAYS: pack-operands: again: leaves %a, which is read elsewhere, too

// CHECK: %a_packed = loop.kernel @a_packed(%a: memref<32x16xf32, strided<[1, 32]>> = %a) -> (%a_packed: memref<16x32xf32>)
// CHECK-NOT: @b_packed
// CHECK: loop.kernel @product(%a: memref<16x32xf32> = %a_packed, %b: memref<16x32xf32> = %b)
// CHECK: loop.load %a[%k, %i] : memref<16x32xf32>
// CHECK-NOT: _packed
// CHECK: loop.kernel @again(%a: memref<32x16xf32, strided<[1, 32]>> = %a, %b: memref<16x32xf32> = %b)
func.func @main(%a: tensor<32x16xf32>, %b: tensor<16x32xf32>) -> (tensor<32x32xf32>, tensor<32x32xf32>) {
  %y = loop.kernel @product(%a: memref<32x16xf32, strided<[1, 32]>> = %a, %b: memref<16x32xf32> = %b) -> (%y: memref<32x32xf32>) {
    loop.for %i in 32, %j in 32 {
      %s = loop.reduce add %k in 16 -> f32 {
        %a_1 = loop.load %a[%i, %k] : memref<32x16xf32, strided<[1, 32]>>
        %b_1 = loop.load %b[%k, %j] : memref<16x32xf32>
        %p = arith.mulf %a_1, %b_1 : f32
        loop.yield %p : f32
      }
      loop.store %s, %y[%i, %j] : memref<32x32xf32>
    }
  }
  %z = loop.kernel @again(%a: memref<32x16xf32, strided<[1, 32]>> = %a, %b: memref<16x32xf32> = %b) -> (%z: memref<32x32xf32>) {
    loop.for %i in 32, %j in 32 {
      %first = loop.load %a[%i, 0] : memref<32x16xf32, strided<[1, 32]>>
      %s = loop.reduce add %k in 16 -> f32 {
        %a_1 = loop.load %a[%i, %k] : memref<32x16xf32, strided<[1, 32]>>
        %b_1 = loop.load %b[%k, %j] : memref<16x32xf32>
        %p = arith.mulf %a_1, %b_1 : f32
        loop.yield %p : f32
      }
      %t = arith.addf %s, %first : f32
      loop.store %t, %z[%i, %j] : memref<32x32xf32>
    }
  }
  func.return %y, %z : tensor<32x32xf32>, tensor<32x32xf32>
}
