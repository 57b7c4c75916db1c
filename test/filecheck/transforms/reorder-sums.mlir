// RUN: dlc-opt %s --split-input-file -p 'reorder-sums{always=true}' -o %t.mlir
// RUN: filecheck %s --input-file=%t.mlir
// RUN: dlc-opt %t.mlir --split-input-file | filecheck %s
// RUN: dlc-opt %s --split-input-file -p reorder-sums --remarks 2>&1 >/dev/null | filecheck %s --check-prefix=SAYS

// Pairs of what a convolution gives are summed: pairs of the image are, at each point of the window,
// with the zeros beside it; the bias is there as often. So few do not pay for another kernel.
// SAYS: reorder-sums: total: leaves the order of its sums: {{[0-9.]+}} us, {{[0-9.]+}} us as they were

// CHECK: %x_summed = loop.kernel @x_summed(%x: memref<2x8x6xf32> = %x) -> (%x_summed: memref<2x8x3x3xf32>) {
// CHECK: loop.for %a in 2, %l in 8, %k in 3, %j in 3 {
// CHECK-NEXT: loop.reduce add %h in 2 -> f32 {
// CHECK-NEXT: loop.load %x[%a, %l, %j * 2 + %h + %k - 1] where (%j * 2 + %h + %k >= 1, %j * 2 + %h + %k < 7) else %zero : memref<2x8x6xf32>
// CHECK: loop.store %x_summed_1, %x_summed[%a, %l, %k, %j] : memref<2x8x3x3xf32>
// CHECK: } {ops = ["0 conv", "1 pool"]}
// CHECK-NOT: loop.kernel @products
// CHECK: loop.kernel @total(
// CHECK: loop.for %a in 2, %i in 4, %j in 3 {
// CHECK-NEXT: loop.reduce add %k in 3, %l in 8 -> f32 {
// CHECK-DAG: loop.load %x[%a, %l, %k, %j] : memref<2x8x3x3xf32>
// CHECK-DAG: loop.load %w[%i, %l, %k] : memref<4x8x3xf32>
// CHECK: loop.load %b[%i] : memref<4xf32>
// CHECK: arith.constant 2.000000e+00 : f32
// CHECK: arith.mulf
// CHECK: arith.addf
// CHECK: loop.store {{.*}}, %t[%a, %i, %j] : memref<2x4x3xf32>
// CHECK: } {ops = ["0 conv", "1 pool"], values = ["1"]}
func.func @main(%x: tensor<2x8x6xf32>, %w: tensor<4x8x3xf32> {dlc.name = "w", dlc.kind = "parameter"}, %b: tensor<4xf32>) -> tensor<2x4x3xf32> {
  %p = loop.kernel @products(%x: memref<2x8x6xf32> = %x, %w: memref<4x8x3xf32> = %w) -> (%p: memref<2x4x6x3x8xf32>) {
    %zero = arith.constant 0.000000e+00 : f32
    loop.for %a in 2, %i in 4, %j in 6, %k in 3, %l in 8 {
      %x_1 = loop.load %x[%a, %l, %j + %k - 1] where (%j + %k >= 1, %j + %k <= 6) else %zero : memref<2x8x6xf32>
      %w_1 = loop.load %w[%i, %l, %k] : memref<4x8x3xf32>
      %q = arith.mulf %x_1, %w_1 : f32
      loop.store %q, %p[%a, %i, %j, %k, %l] : memref<2x4x6x3x8xf32>
    }
  } {ops = ["0 conv"]}
  %s = loop.kernel @sums(%p: memref<2x4x6x3x8xf32> = %p) -> (%s: memref<2x4x6xf32>) {
    loop.for %a in 2, %i in 4, %j in 6 {
      %r = loop.reduce add %k in 3, %l in 8 -> f32 {
        %q = loop.load %p[%a, %i, %j, %k, %l] : memref<2x4x6x3x8xf32>
        loop.yield %q : f32
      }
      loop.store %r, %s[%a, %i, %j] : memref<2x4x6xf32>
    }
  } {ops = ["0 conv"]}
  %y = loop.kernel @biased(%s: memref<2x4x6xf32> = %s, %b: memref<4xf32> = %b) -> (%y: memref<2x4x6xf32>) {
    loop.for %a in 2, %i in 4, %j in 6 {
      %r = loop.load %s[%a, %i, %j] : memref<2x4x6xf32>
      %b_1 = loop.load %b[%i] : memref<4xf32>
      %v = arith.addf %r, %b_1 : f32
      loop.store %v, %y[%a, %i, %j] : memref<2x4x6xf32>
    }
  } {ops = ["0 conv"], values = ["0"]}
  %t = loop.kernel @total(%y: memref<2x4x6xf32> = %y) -> (%t: memref<2x4x3xf32>) {
    loop.for %a in 2, %i in 4, %j in 3 {
      %r = loop.reduce add %h in 2 -> f32 {
        %v = loop.load %y[%a, %i, %j * 2 + %h] : memref<2x4x6xf32>
        loop.yield %v : f32
      }
      loop.store %r, %t[%a, %i, %j] : memref<2x4x3xf32>
    }
  } {ops = ["1 pool"], values = ["1"]}
  func.return %t : tensor<2x4x3xf32>
}

// -----

// What a sum is multiplied with may be infinite, unless it is a parameter.
// SAYS: reorder-sums: total: leaves the order of its sums: %w is no parameter, and may be infinite where it meets sums
// CHECK: loop.kernel @products
func.func @main(%x: tensor<16x8xf32>, %w: tensor<8x4xf32>) -> tensor<4xf32> {
  %p = loop.kernel @products(%x: memref<16x8xf32> = %x, %w: memref<8x4xf32> = %w) -> (%p: memref<16x4x8xf32>) {
    loop.for %i in 16, %j in 4, %k in 8 {
      %x_1 = loop.load %x[%i, %k] : memref<16x8xf32>
      %w_1 = loop.load %w[%k, %j] : memref<8x4xf32>
      %q = arith.mulf %x_1, %w_1 : f32
      loop.store %q, %p[%i, %j, %k] : memref<16x4x8xf32>
    }
  }
  %s = loop.kernel @sums(%p: memref<16x4x8xf32> = %p) -> (%s: memref<16x4xf32>) {
    loop.for %i in 16, %j in 4 {
      %r = loop.reduce add %k in 8 -> f32 {
        %q = loop.load %p[%i, %j, %k] : memref<16x4x8xf32>
        loop.yield %q : f32
      }
      loop.store %r, %s[%i, %j] : memref<16x4xf32>
    }
  }
  %t = loop.kernel @total(%s: memref<16x4xf32> = %s) -> (%t: memref<4xf32>) {
    loop.for %j in 4 {
      %r = loop.reduce add %i in 16 -> f32 {
        %v = loop.load %s[%i, %j] : memref<16x4xf32>
        loop.yield %v : f32
      }
      loop.store %r, %t[%j] : memref<4xf32>
    }
  }
  func.return %t : tensor<4xf32>
}

// -----

// The weight that a sum meets is another one for each summand.
// SAYS: reorder-sums: total: leaves the order of its sums: both factors vary along what is summed over
// CHECK: loop.kernel @products
func.func @main(%x: tensor<16x8xf32>, %w: tensor<8x16xf32> {dlc.name = "w", dlc.kind = "parameter"}) -> tensor<4xf32> {
  %p = loop.kernel @products(%x: memref<16x8xf32> = %x, %w: memref<8x16xf32> = %w) -> (%p: memref<16x8xf32>) {
    loop.for %i in 16, %k in 8 {
      %x_1 = loop.load %x[%i, %k] : memref<16x8xf32>
      %w_1 = loop.load %w[%k, %i] : memref<8x16xf32>
      %q = arith.mulf %x_1, %w_1 : f32
      loop.store %q, %p[%i, %k] : memref<16x8xf32>
    }
  }
  %s = loop.kernel @sums(%p: memref<16x8xf32> = %p) -> (%s: memref<16xf32>) {
    loop.for %i in 16 {
      %r = loop.reduce add %k in 8 -> f32 {
        %q = loop.load %p[%i, %k] : memref<16x8xf32>
        loop.yield %q : f32
      }
      loop.store %r, %s[%i] : memref<16xf32>
    }
  }
  %t = loop.kernel @total(%s: memref<16xf32> = %s) -> (%t: memref<4xf32>) {
    loop.for %j in 4 {
      %r = loop.reduce add %i in 4 -> f32 {
        %v = loop.load %s[%j * 4 + %i] : memref<16xf32>
        loop.yield %v : f32
      }
      loop.store %r, %t[%j] : memref<4xf32>
    }
  }
  func.return %t : tensor<4xf32>
}

// -----

// Of a transposed convolution by 2, places of one class meet two points of the window of three, the
// others one: pairs of places meet each of them once, wherever it is.
// CHECK-LABEL: func.func @main(%x: tensor<2x8x6xf32>, %w: tensor<8x4x3xf32>
// CHECK-NOT: loop.kernel @products
// CHECK: loop.for %a in 2, %i in 4, %j in 5 {
// CHECK-NEXT: loop.reduce add %k in 3, %l in 8 -> f32 {
// CHECK-NEXT: loop.load %x[%a, %l, %j - (%k + 1) floordiv 2 + 1] : memref<2x8x6xf32>
// CHECK-NEXT: loop.load %w[%l, %i, %k] : memref<8x4x3xf32>
// CHECK-NEXT: arith.mulf
// CHECK-NEXT: loop.yield %{{[a-z0-9_]*}} : f32
func.func @main(%x: tensor<2x8x6xf32>, %w: tensor<8x4x3xf32>) -> tensor<2x4x5xf32> {
  %p = loop.kernel @products(%x: memref<2x8x6xf32> = %x, %w: memref<8x4x3xf32> = %w) -> (%p: memref<2x4x6x2x2x8xf32>) {
    %zero = arith.constant 0.000000e+00 : f32
    loop.for %a in 2, %i in 4, %j in 6, %h in 2, %k in 2, %l in 8 {
      %x_1 = loop.load %x[%a, %l, %j + (%h + 1) floordiv 2 - %k] where (%j + (%h + 1) floordiv 2 - %k >= 0, -%j - (%h + 1) floordiv 2 + %k >= -5, (%h + 1) mod 2 + %k * 2 < 3) else %zero : memref<2x8x6xf32>
      %w_1 = loop.load %w[%l, %i, (%h + 1) mod 2 + %k * 2] where ((%h + 1) mod 2 + %k * 2 < 3) else %zero : memref<8x4x3xf32>
      %q = arith.mulf %x_1, %w_1 : f32
      loop.store %q, %p[%a, %i, %j, %h, %k, %l] : memref<2x4x6x2x2x8xf32>
    }
  }
  %s = loop.kernel @sums(%p: memref<2x4x6x2x2x8xf32> = %p) -> (%s: memref<2x4x6x2xf32>) {
    loop.for %a in 2, %i in 4, %j in 6, %h in 2 {
      %r = loop.reduce add %k in 2, %l in 8 -> f32 {
        %q = loop.load %p[%a, %i, %j, %h, %k, %l] : memref<2x4x6x2x2x8xf32>
        loop.yield %q : f32
      }
      loop.store %r, %s[%a, %i, %j, %h] : memref<2x4x6x2xf32>
    }
  }
  %t = loop.kernel @total(%s: memref<2x4x6x2xf32> = %s) -> (%t: memref<2x4x5xf32>) {
    loop.for %a in 2, %i in 4, %j in 5 {
      %r = loop.reduce add %h in 2 -> f32 {
        %v = loop.load %s[%a, %i, %j, %h] : memref<2x4x6x2xf32>
        loop.yield %v : f32
      }
      loop.store %r, %t[%a, %i, %j] : memref<2x4x5xf32>
    }
  }
  func.return %t : tensor<2x4x5xf32>
}

// -----

// Of three places in two classes, the fourth would meet ones, not zeros, beside the image.
// SAYS: reorder-sums: total: leaves the order of its sums: both factors vary along what is summed over
// CHECK: loop.kernel @products
func.func @main(%x: tensor<6xf32>, %w: tensor<3xf32> {dlc.name = "w", dlc.kind = "parameter"}) -> tensor<4xf32> {
  %p = loop.kernel @products(%x: memref<6xf32> = %x, %w: memref<3xf32> = %w) -> (%p: memref<4x3x2xf32>) {
    %zero = arith.constant 0.0 : f32
    %one = arith.constant 1.0 : f32
    loop.for %j in 4, %h in 3, %k in 2 {
      %x_1 = loop.load %x[%j + (%h + 1) floordiv 2 - %k] where (%j + (%h + 1) floordiv 2 - %k >= 0, -%j - (%h + 1) floordiv 2 + %k >= -5) else %one : memref<6xf32>
      %w_1 = loop.load %w[(%h + 1) mod 2 + %k * 2] where ((%h + 1) mod 2 + %k * 2 < 3) else %zero : memref<3xf32>
      %q = arith.mulf %x_1, %w_1 : f32
      loop.store %q, %p[%j, %h, %k] : memref<4x3x2xf32>
    }
  }
  %s = loop.kernel @sums(%p: memref<4x3x2xf32> = %p) -> (%s: memref<4x3xf32>) {
    loop.for %j in 4, %h in 3 {
      %r = loop.reduce add %k in 2 -> f32 {
        %q = loop.load %p[%j, %h, %k] : memref<4x3x2xf32>
        loop.yield %q : f32
      }
      loop.store %r, %s[%j, %h] : memref<4x3xf32>
    }
  }
  %t = loop.kernel @total(%s: memref<4x3xf32> = %s) -> (%t: memref<4xf32>) {
    loop.for %j in 4 {
      %r = loop.reduce add %h in 3 -> f32 {
        %v = loop.load %s[%j, %h] : memref<4x3xf32>
        loop.yield %v : f32
      }
      loop.store %r, %t[%j] : memref<4xf32>
    }
  }
  func.return %t : tensor<4xf32>
}
