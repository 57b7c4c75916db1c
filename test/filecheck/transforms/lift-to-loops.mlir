// RUN: dlc-opt %s --split-input-file -p lift-to-loops | filecheck %s

// Every computed tensor becomes a kernel; the index map is a subscript of its reader.

func.func @main(%x: tensor<16x64xf32>, %w: tensor<64xf32>) -> tensor<16x64xf32> {
  %t = tensor_ir.index_map (d0, d1) -> %w[d1] : tensor<64xf32> -> tensor<16x64xf32>
  %y = tensor_ir.elementwise (%a = %x, %b = %t) : tensor<16x64xf32>, tensor<16x64xf32> -> tensor<16x64xf32> {
    %0 = arith.addf %a, %b : f32
    tensor_ir.yield %0 : f32
  }
  func.return %y : tensor<16x64xf32>
}

// CHECK:      %y = loop.kernel @y(%x: memref<16x64xf32> = %x, %w: memref<64xf32> = %w) -> (%y: memref<16x64xf32>) {
// CHECK-NEXT:   loop.for %i in 16, %j in 64 {
// CHECK-NEXT:     %x_1 = loop.load %x[%i, %j] : memref<16x64xf32>
// CHECK-NEXT:     %w_1 = loop.load %w[%j] : memref<64xf32>
// CHECK-NEXT:     %0 = arith.addf %x_1, %w_1 : f32
// CHECK-NEXT:     loop.store %0, %y[%i, %j] : memref<16x64xf32>
// CHECK-NEXT:   }
// CHECK-NEXT: }
// CHECK-NEXT: func.return %y : tensor<16x64xf32>

// -----

// The axes of a reduce, in place among the free ones; a 0-d result.

func.func @main(%x: tensor<4x5x6xf32>) -> (tensor<5xf32>, tensor<f32>) {
  %s = tensor_ir.reduce max over [0, 2] (%x) : tensor<4x5x6xf32> -> tensor<5xf32>
  %t = tensor_ir.reduce add over [0, 1, 2] (%x) : tensor<4x5x6xf32> -> tensor<f32>
  func.return %s, %t : tensor<5xf32>, tensor<f32>
}

// CHECK:      loop.for %i in 5 {
// CHECK-NEXT:   %s_1 = loop.reduce max %k in 4, %l in 6 -> f32 {
// CHECK-NEXT:     %x_1 = loop.load %x[%k, %i, %l] : memref<4x5x6xf32>
// CHECK-NEXT:     loop.yield %x_1 : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   loop.store %s_1, %s[%i] : memref<5xf32>
// CHECK:      %t = loop.kernel @t(%x: memref<4x5x6xf32> = %x) -> (%t: memref<f32>) {
// CHECK-NEXT:   %t_1 = loop.reduce add %k in 4, %l in 5, %m in 6 -> f32 {
// CHECK:        loop.store %t_1, %t[] : memref<f32>

// -----

// The first source whose condition holds wins; the last one is guarded by its bounds. A returned
// index map is a copy.

func.func @main(%x: tensor<3xf32>, %w: tensor<2xf32>) -> (tensor<5xf32>, tensor<7xf32>) {
  %cat = tensor_ir.index_map (d0) -> %x[d0] where (d0 < 3), %w[d0 - 3] : tensor<3xf32>, tensor<2xf32> -> tensor<5xf32>
  %pad = tensor_ir.index_map (d0) -> %cat[d0 - 1] where (d0 >= 1, d0 < 6) else 2.0 : f32 : tensor<5xf32> -> tensor<7xf32>
  func.return %cat, %pad : tensor<5xf32>, tensor<7xf32>
}

// CHECK:      loop.kernel @cat
// CHECK:        %w_1 = loop.load %w[%i - 3] where (%i >= 3) : memref<2xf32>
// CHECK-NEXT:   %x_1 = loop.load %x[%i] where (%i < 3) else %w_1 : memref<3xf32>
// CHECK-NEXT:   loop.store %x_1, %cat[%i] : memref<5xf32>
// CHECK:      loop.kernel @pad(%cat: memref<5xf32> = %cat)
// CHECK:        %0 = arith.constant 2.000000e+00 : f32
// CHECK-NEXT:   %cat_1 = loop.load %cat[%i - 1] where (%i >= 1, %i < 6) else %0 : memref<5xf32>

// -----

// Elements of index tensors are subscripts.

func.func @main(%x: tensor<9x4xf32>, %ix: tensor<3xi64>) -> tensor<3x4xf32> {
  %rows = tensor_ir.index_map (d0, d1) -> %ix[d0] : tensor<3xi64> -> tensor<3x4xi64>
  %y = tensor_ir.gather (%rows) (d0, d1) -> %x[i0, d1] : (tensor<3x4xi64>), tensor<9x4xf32> -> tensor<3x4xf32>
  func.return %y : tensor<3x4xf32>
}

// CHECK:      %ix_1 = loop.load %ix[%i] : memref<3xi64>
// CHECK-NEXT: %rows = arith.index_cast %ix_1 : i64 to index
// CHECK-NEXT: %x_1 = loop.load %x[%rows, %j] : memref<9x4xf32>

// -----

// Layouts and alignments of @main reach the memrefs.

func.func @main(%x: tensor<4x8xf32> {dlc.strides = array<i64: 1, 4>}, %y: tensor<4x8xf32> {dlc.align = 4 : i64}) -> (tensor<4x8xf32> {dlc.strides = array<i64: 1, 4>}) {
  %s = tensor_ir.elementwise (%a = %x, %b = %y) : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x8xf32> {
    %0 = arith.addf %a, %b : f32
    tensor_ir.yield %0 : f32
  }
  func.return %s : tensor<4x8xf32>
}

// CHECK: loop.kernel @s(%x: memref<4x8xf32, strided<[1, 4]>> = %x, %y: memref<4x8xf32> align 4 = %y) -> (%s: memref<4x8xf32, strided<[1, 4]>>) {

// -----

// What is returned expanded is written once, not at each point that lies there.

func.func @main(%x: tensor<8xf32>) -> (tensor<4x8xf32> {dlc.strides = array<i64: 0, 1>}) {
  %s = tensor_ir.index_map (d0, d1) -> %x[d1] : tensor<8xf32> -> tensor<4x8xf32>
  func.return %s : tensor<4x8xf32>
}

// CHECK:       loop.kernel @s(%x: memref<8xf32>
// CHECK-NEXT:    loop.for %j in 8 {
// CHECK-NEXT:      %x_1 = loop.load %x[%j] : memref<8xf32>
// CHECK-NEXT:      loop.store %x_1, %s[0, %j] : memref<4x8xf32, strided<[0, 1]>>

// -----

// What is joined of several tensors before a loop that reads it is joined once.

// CHECK-LABEL: @joined_before_a_loop
// CHECK:      %w = loop.kernel @w(%b: memref<4xf32> = %b, %a: memref<4xf32> = %a) -> (%w: memref<2x4xf32>)
// CHECK:      flow.for 3 carry
// CHECK-NEXT:   %v = loop.kernel @v(%w: memref<2x4xf32> = %w)
func.func @joined_before_a_loop(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<3x4x2xf32> {
  %w = tensor_ir.index_map (d0, d1) -> %a[d1] where (d0 < 1), %b[d1] : tensor<4xf32>, tensor<4xf32> -> tensor<2x4xf32>
  %p = flow.for 3 carry () scan () : (), () -> (), (tensor<3x4x2xf32>) {
    %v = tensor_ir.index_map (d0, d1) -> %w[d1, d0] : tensor<2x4xf32> -> tensor<4x2xf32>
    flow.yield %v : tensor<4x2xf32>
  }
  func.return %p : tensor<3x4x2xf32>
}
