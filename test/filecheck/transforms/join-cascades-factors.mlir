// RUN: dlc-opt %s --split-input-file -p join-cascades --remarks 2>&1 >/dev/null | filecheck %s
// RUN: dlc-opt %s --split-input-file -p join-cascades | filecheck %s --check-prefix=IR

// A product of rows and their norm: one sweep, and the norm behind it.
// CHECK: join-cascades: product: %p is folded with %s, of which a factor is multiplied behind
// IR-LABEL: loop.kernel @product
// IR: loop.for %i in 8, %j in 24 {
// IR-NEXT: %s, %[[P:.*]] = loop.reduce add %k in 64 -> (f32, f32) {
// IR-NOT: %r
// IR: loop.yield %{{.*}}, %{{.*}} : f32, f32
// IR: %[[R:.*]] = math.rsqrt %s : f32
// IR: arith.mulf %[[P]], %[[R]] : f32
func.func @main(%x: tensor<8x64xbf16>, %w: tensor<24x64xbf16>) -> tensor<8x24xf32> {
  %y = loop.kernel @product(%x: memref<8x64xbf16> = %x, %w: memref<24x64xbf16> = %w) -> (%y: memref<8x24xf32>) {
    loop.for %i in 8 {
      %s = loop.reduce add %k in 64 -> f32 {
        %a = loop.load %x[%i, %k] : memref<8x64xbf16>
        %b = arith.extf %a : bf16 to f32
        %c = arith.mulf %b, %b : f32
        loop.yield %c : f32
      }
      %r = math.rsqrt %s : f32
      loop.for %j in 24 {
        %p = loop.reduce add %k in 64 -> f32 {
          %a = loop.load %x[%i, %k] : memref<8x64xbf16>
          %b = arith.extf %a : bf16 to f32
          %c = arith.mulf %b, %r : f32
          %d = arith.truncf %c : f32 to bf16
          %e = arith.extf %d : bf16 to f32
          %f = loop.load %w[%j, %k] : memref<24x64xbf16>
          %g = arith.extf %f : bf16 to f32
          %h = arith.mulf %e, %g : f32
          loop.yield %h : f32
        }
        loop.store %p, %y[%i, %j] : memref<8x24xf32>
      }
    }
  }
  func.return %y : tensor<8x24xf32>
}

// -----

// A quotient by what is computed of the sum.
// CHECK: join-cascades: quotient: %p is folded with %s, of which a factor is multiplied behind
// IR-LABEL: loop.kernel @quotient
// IR: loop.reduce add %k in 64 -> (f32, f32)
// IR: arith.divf %{{.*}}, %s : f32
func.func @main(%x: tensor<8x64xf32>, %w: tensor<64xf32>) -> tensor<8xf32> {
  %y = loop.kernel @quotient(%x: memref<8x64xf32> = %x, %w: memref<64xf32> = %w) -> (%y: memref<8xf32>) {
    loop.for %i in 8 {
      %s = loop.reduce add %k in 64 -> f32 {
        %a = loop.load %x[%i, %k] : memref<8x64xf32>
        %q = arith.mulf %a, %a : f32
        loop.yield %q : f32
      }
      %p = loop.reduce add %k in 64 -> f32 {
        %a = loop.load %x[%i, %k] : memref<8x64xf32>
        %b = arith.divf %a, %s : f32
        %c = loop.load %w[%k] : memref<64xf32>
        %d = arith.mulf %b, %c : f32
        loop.yield %d : f32
      }
      loop.store %p, %y[%i] : memref<8xf32>
    }
  }
  func.return %y : tensor<8xf32>
}

// -----

// What a sum of other numbers divides may be of any size.
// CHECK: join-cascades: share: %p is swept after %s: {{.*}}, and without the factor, which is of no sum of its squares, it may be infinite
// IR-LABEL: loop.kernel @share
// IR: loop.reduce add %k{{.*}} in 64 -> f32
// IR: loop.reduce add %k{{.*}} in 64 -> f32
func.func @main(%x: tensor<8x64xf32>, %w: tensor<64xf32>) -> tensor<8xf32> {
  %y = loop.kernel @share(%x: memref<8x64xf32> = %x, %w: memref<64xf32> = %w) -> (%y: memref<8xf32>) {
    loop.for %i in 8 {
      %s = loop.reduce add %k in 64 -> f32 {
        %a = loop.load %x[%i, %k] : memref<8x64xf32>
        loop.yield %a : f32
      }
      %p = loop.reduce add %k in 64 -> f32 {
        %a = loop.load %x[%i, %k] : memref<8x64xf32>
        %b = arith.divf %a, %s : f32
        %c = loop.load %w[%k] : memref<64xf32>
        %d = arith.mulf %b, %c : f32
        loop.yield %d : f32
      }
      loop.store %p, %y[%i] : memref<8xf32>
    }
  }
  func.return %y : tensor<8xf32>
}

// -----

// CHECK: join-cascades: halves: %p is swept after %s: {{.*}}, and a product with it is rounded to f16, which has not the range of f32
// IR-LABEL: loop.kernel @halves
// IR: loop.reduce add %k{{.*}} in 64 -> f32
// IR: loop.reduce add %k{{.*}} in 64 -> f32
func.func @main(%x: tensor<8x64xf32>, %w: tensor<64xf32>) -> tensor<8xf32> {
  %y = loop.kernel @halves(%x: memref<8x64xf32> = %x, %w: memref<64xf32> = %w) -> (%y: memref<8xf32>) {
    loop.for %i in 8 {
      %s = loop.reduce add %k in 64 -> f32 {
        %a = loop.load %x[%i, %k] : memref<8x64xf32>
        loop.yield %a : f32
      }
      %p = loop.reduce add %k in 64 -> f32 {
        %a = loop.load %x[%i, %k] : memref<8x64xf32>
        %b = arith.mulf %a, %s : f32
        %c = arith.truncf %b : f32 to f16
        %d = arith.extf %c : f16 to f32
        loop.yield %d : f32
      }
      loop.store %p, %y[%i] : memref<8xf32>
    }
  }
  func.return %y : tensor<8xf32>
}

// -----

// CHECK: join-cascades: distance: %p is swept after %s: {{.*}}, and it is not linear in what is computed of that
// IR-LABEL: loop.kernel @distance
// IR: loop.reduce add %k{{.*}} in 64 -> f32
// IR: loop.reduce add %k{{.*}} in 64 -> f32
func.func @main(%x: tensor<8x64xf32>, %w: tensor<64xf32>) -> tensor<8xf32> {
  %y = loop.kernel @distance(%x: memref<8x64xf32> = %x, %w: memref<64xf32> = %w) -> (%y: memref<8xf32>) {
    loop.for %i in 8 {
      %s = loop.reduce add %k in 64 -> f32 {
        %a = loop.load %x[%i, %k] : memref<8x64xf32>
        loop.yield %a : f32
      }
      %p = loop.reduce add %k in 64 -> f32 {
        %a = loop.load %x[%i, %k] : memref<8x64xf32>
        %b = arith.addf %a, %s : f32
        loop.yield %b : f32
      }
      loop.store %p, %y[%i] : memref<8xf32>
    }
  }
  func.return %y : tensor<8xf32>
}
