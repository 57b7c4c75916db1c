// RUN: dlc-opt %s --split-input-file -p fuse-loops | filecheck %s

// A chain is one kernel, in which the load of the first result is the program that computes it.

func.func @main(%x: tensor<64x8xf32>) -> tensor<64x6xf32> {
  %a = loop.kernel @exp(%x: memref<64x8xf32> = %x) -> (%a: memref<64x8xf32>) {
    loop.for %i in 64, %j in 8 {
      %v = loop.load %x[%i, %j] : memref<64x8xf32>
      %e = math.exp %v : f32
      loop.store %e, %a[%i, %j] : memref<64x8xf32>
    }
  }
  %b = loop.kernel @neg(%a: memref<64x8xf32> = %a) -> (%b: memref<64x6xf32>) {
    %zero = arith.constant 0.000000e+00 : f32
    loop.for %i in 64, %j in 6 {
      %v = loop.load %a[%i, %j + 4] where (%j < 4) else %zero : memref<64x8xf32>
      %n = arith.negf %v : f32
      loop.store %n, %b[%i, %j] : memref<64x6xf32>
    }
  }
  func.return %b : tensor<64x6xf32>
}

// CHECK:      %b = loop.kernel @exp_neg(%x: memref<64x8xf32> = %x) -> (%b: memref<64x6xf32>) {
// CHECK-NEXT:   %zero = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:   loop.for %i in 64, %j in 6 {
// CHECK-NEXT:     %v = loop.load %x[%i, %j + 4] where (%j < 4) : memref<64x8xf32>
// CHECK-NEXT:     %e = math.exp %v : f32
// CHECK-NEXT:     %e_1 = loop.select %e where (%j < 4) else %zero : f32
// CHECK-NEXT:     %n = arith.negf %e_1 : f32
// CHECK-NEXT:     loop.store %n, %b[%i, %j] : memref<64x6xf32>
// CHECK-NEXT:   }
// CHECK-NEXT: }
// CHECK-NEXT: func.return %b

// -----

// `never` keeps a kernel apart from its readers; a result of @main is stored by what reads it, too.

func.func @main(%x: tensor<64xf32>) -> (tensor<64xf32>, tensor<64xf32>) {
  %a = loop.kernel @first(%x: memref<64xf32> = %x) -> (%a: memref<64xf32>) {
    loop.for %i in 64 {
      %v = loop.load %x[%i] : memref<64xf32>
      %e = math.exp %v : f32
      loop.store %e, %a[%i] : memref<64xf32>
    }
  } {fuse = "never"}
  %b = loop.kernel @second(%a: memref<64xf32> = %a) -> (%b: memref<64xf32>) {
    loop.for %i in 64 {
      %v = loop.load %a[%i] : memref<64xf32>
      %e = math.exp %v : f32
      loop.store %e, %b[%i] : memref<64xf32>
    }
  }
  %c = loop.kernel @third(%b: memref<64xf32> = %b) -> (%c: memref<64xf32>) {
    loop.for %i in 64 {
      %v = loop.load %b[%i] : memref<64xf32>
      %e = math.exp %v : f32
      loop.store %e, %c[%i] : memref<64xf32>
    }
  }
  func.return %b, %c : tensor<64xf32>, tensor<64xf32>
}

// CHECK: loop.kernel @first
// CHECK: %c, %b = loop.kernel @second_third(%a: memref<64xf32> = %a)
// CHECK-SAME: -> (%c: memref<64xf32>, %b: memref<64xf32>) {
// CHECK: loop.store %{{.*}}, %b[%i] : memref<64xf32>
// CHECK: loop.store %{{.*}}, %c[%i] : memref<64xf32>
// CHECK: func.return %b, %c

// -----

// A contraction is not repeated for its readers' tiles; `always` overrules the estimate.

func.func @main(%x: tensor<512x512xf32>, %w: tensor<512x512xf32>) -> tensor<512x512xf32> {
  %a = loop.kernel @one(%x: memref<512x512xf32> = %x, %w: memref<512x512xf32> = %w) -> (%a: memref<512x512xf32>) {
    loop.for %i in 512, %j in 512 {
      %s = loop.reduce add %k in 512 -> f32 {
        %p = loop.load %x[%i, %k] : memref<512x512xf32>
        %q = loop.load %w[%k, %j] : memref<512x512xf32>
        %m = arith.mulf %p, %q : f32
        loop.yield %m : f32
      }
      loop.store %s, %a[%i, %j] : memref<512x512xf32>
    }
  }
  %b = loop.kernel @two(%a: memref<512x512xf32> = %a, %w: memref<512x512xf32> = %w) -> (%b: memref<512x512xf32>) {
    loop.for %i in 512, %j in 512 {
      %s = loop.reduce add %k in 512 -> f32 {
        %p = loop.load %a[%i, %k] : memref<512x512xf32>
        %q = loop.load %w[%k, %j] : memref<512x512xf32>
        %m = arith.mulf %p, %q : f32
        loop.yield %m : f32
      }
      loop.store %s, %b[%i, %j] : memref<512x512xf32>
    }
  } {fuse = "always"}
  %c = loop.kernel @three(%b: memref<512x512xf32> = %b, %w: memref<512x512xf32> = %w) -> (%c: memref<512x512xf32>) {
    loop.for %i in 512, %j in 512 {
      %s = loop.reduce add %k in 512 -> f32 {
        %p = loop.load %b[%i, %k] : memref<512x512xf32>
        %q = loop.load %w[%k, %j] : memref<512x512xf32>
        %m = arith.mulf %p, %q : f32
        loop.yield %m : f32
      }
      loop.store %s, %c[%i, %j] : memref<512x512xf32>
    }
  }
  func.return %c : tensor<512x512xf32>
}

// CHECK:     loop.kernel @one
// CHECK:     loop.kernel @two_three
// CHECK-NOT: loop.kernel

// -----

// Halves of a row change places: the reader runs over one half and does what both do, so that each
// sum is computed once; the sums share %x and are one reduce.

// CHECK-LABEL: loop.kernel @product_swap
// CHECK:       loop.for %i in 128, %j in 64 {
// CHECK-NEXT:    %[[A:.*]], %[[B:.*]] = loop.reduce add %k in 512 -> (f32, f32) {
// CHECK-NEXT:      %xk = loop.load %x[%i, %k] : memref<128x512xf32>
// CHECK-NEXT:      %wk = loop.load %w[%k, %j] : memref<512x128xf32>
// CHECK-NEXT:      %[[P:.*]] = arith.mulf %xk, %wk : f32
// CHECK-NEXT:      %[[W:.*]] = loop.load %w[%k, %j + 64] : memref<512x128xf32>
// CHECK-NEXT:      %[[Q:.*]] = arith.mulf %xk, %[[W]] : f32
// CHECK-NEXT:      loop.yield %[[P]], %[[Q]] : f32, f32
// CHECK-NEXT:    }
// CHECK-NEXT:    %[[N:.*]] = arith.negf %[[B]] : f32
// CHECK-NEXT:    %[[R:.*]] = arith.mulf %[[A]], %[[N]] : f32
// CHECK-NEXT:    loop.store %[[R]], %b[%i, %j] : memref<128x128xf32>
// CHECK-NEXT:    %[[S:.*]] = arith.mulf %[[B]], %[[A]] : f32
// CHECK-NEXT:    loop.store %[[S]], %b[%i, %j + 64] : memref<128x128xf32>
func.func @main(%x: tensor<128x512xf32>, %w: tensor<512x128xf32>) -> tensor<128x128xf32> {
  %a = loop.kernel @product(%x: memref<128x512xf32> = %x, %w: memref<512x128xf32> = %w) -> (%a: memref<128x128xf32>) {
    loop.for %i in 128, %j in 128 {
      %s = loop.reduce add %k in 512 -> f32 {
        %xk = loop.load %x[%i, %k] : memref<128x512xf32>
        %wk = loop.load %w[%k, %j] : memref<512x128xf32>
        %p = arith.mulf %xk, %wk : f32
        loop.yield %p : f32
      }
      loop.store %s, %a[%i, %j] : memref<128x128xf32>
    }
  }
  %b = loop.kernel @swap(%a: memref<128x128xf32> = %a) -> (%b: memref<128x128xf32>) {
    loop.for %i in 128, %j in 128 {
      %v = loop.load %a[%i, %j] : memref<128x128xf32>
      %u = loop.load %a[%i, %j + 64] where (%j < 64) : memref<128x128xf32>
      %n = arith.negf %u : f32
      %l = loop.load %a[%i, %j - 64] where (%j >= 64) : memref<128x128xf32>
      %o = loop.select %n where (%j < 64) else %l : f32
      %r = arith.mulf %v, %o : f32
      loop.store %r, %b[%i, %j] : memref<128x128xf32>
    }
  }
  func.return %b : tensor<128x128xf32>
}

// -----

// Of a product that is read at one place no axis is split, though conditions tell its halves apart.

// CHECK-LABEL: loop.kernel @product_half
// CHECK:       loop.for %i in 128, %j in 128 {
// CHECK-NEXT:    loop.reduce add %k in 512 -> f32 {
func.func @main(%x: tensor<128x512xf32>, %w: tensor<512x128xf32>) -> tensor<128x128xf32> {
  %a = loop.kernel @product(%x: memref<128x512xf32> = %x, %w: memref<512x128xf32> = %w) -> (%a: memref<128x128xf32>) {
    loop.for %i in 128, %j in 128 {
      %s = loop.reduce add %k in 512 -> f32 {
        %xk = loop.load %x[%i, %k] : memref<128x512xf32>
        %wk = loop.load %w[%k, %j] : memref<512x128xf32>
        %p = arith.mulf %xk, %wk : f32
        loop.yield %p : f32
      }
      loop.store %s, %a[%i, %j] : memref<128x128xf32>
    }
  }
  %b = loop.kernel @half(%a: memref<128x128xf32> = %a) -> (%b: memref<128x128xf32>) {
    loop.for %i in 128, %j in 128 {
      %v = loop.load %a[%i, %j] : memref<128x128xf32>
      %n = arith.negf %v : f32
      %o = loop.select %n where (%j < 64) else %v : f32
      loop.store %o, %b[%i, %j] : memref<128x128xf32>
    }
  }
  func.return %b : tensor<128x128xf32>
}
