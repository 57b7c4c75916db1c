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

// `never` keeps a kernel apart from its readers; a result of @main stays.

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
// CHECK: loop.kernel @second
// CHECK: loop.kernel @third

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
