// RUN: dlc-opt %s --split-input-file -p canonicalize-loops,hoist-invariants,join-reduces,nest-loops,sink-epilogues | filecheck %s

// A reduce needs the row only: the nest is split around it. Equal loads in a body are one.

func.func @main(%x: tensor<32x64xf32>) -> tensor<32x64xf32> {
  %y = loop.kernel @k(%x: memref<32x64xf32> = %x) -> (%y: memref<32x64xf32>) {
    loop.for %i in 32, %j in 64 {
      %s = loop.reduce add %k in 64 -> f32 {
        %a = loop.load %x[%i, %k] : memref<32x64xf32>
        %b = loop.load %x[%i, %k] : memref<32x64xf32>
        %sq = arith.mulf %a, %b : f32
        loop.yield %sq : f32
      }
      %c = loop.load %x[%i, %j] : memref<32x64xf32>
      %n = arith.constant 6.400000e+01 : f32
      %m = arith.divf %s, %n : f32
      %d = arith.subf %c, %m : f32
      loop.store %d, %y[%i, %j] : memref<32x64xf32>
    }
  }
  func.return %y : tensor<32x64xf32>
}

// CHECK:      %n = arith.constant 6.400000e+01 : f32
// CHECK-NEXT: loop.for %row in 32 {
// CHECK-NEXT:   %s = loop.reduce add %k in 64 -> f32 {
// CHECK-NEXT:     %a = loop.load %x[%row, %k] : memref<32x64xf32>
// CHECK-NEXT:     %sq = arith.mulf %a, %a : f32
// CHECK-NEXT:     loop.yield %sq : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   %m = arith.divf %s, %n : f32
// CHECK-NEXT:   loop.for %c in 64 {
// CHECK-NEXT:     %c_1 = loop.load %x[%row, %c] : memref<32x64xf32>
// CHECK-NEXT:     %d = arith.subf %c_1, %m : f32
// CHECK-NEXT:     loop.store %d, %y[%row, %c] : memref<32x64xf32>

// -----

// Axes of extent 1 vanish, also those of a reduce; a tensor passed twice is one input, what is not
// read is none; a reduce over no points is the identity.

func.func @main(%x: tensor<1x8xf32>, %z: tensor<8xf32>, %e: tensor<0xf32>) -> tensor<1x8xf32> {
  %y = loop.kernel @k(%x: memref<1x8xf32> = %x, %z: memref<8xf32> = %z, %x2: memref<1x8xf32> = %x, %e: memref<0xf32> = %e) -> (%y: memref<1x8xf32>) {
    loop.for %i in 1, %j in 8 {
      %s = loop.reduce add %k in 1 -> f32 {
        %a = loop.load %x[%k, %j] : memref<1x8xf32>
        loop.yield %a : f32
      }
      %m = loop.reduce max %k in 0 -> f32 {
        %a = loop.load %e[%k] : memref<0xf32>
        loop.yield %a : f32
      }
      %b = loop.load %x2[%i, %j] : memref<1x8xf32>
      %c = arith.addf %s, %b : f32
      %d = arith.maximumf %c, %m : f32
      loop.store %d, %y[%i, %j] : memref<1x8xf32>
    }
  }
  func.return %y : tensor<1x8xf32>
}

// CHECK:      loop.kernel @k(%x: memref<1x8xf32> = %x) -> (%y: memref<1x8xf32>) {
// CHECK-NEXT:   %m = arith.constant 0xff800000 : f32
// CHECK-NEXT:   loop.for %j in 8 {
// CHECK-NEXT:     %a = loop.load %x[0, %j] : memref<1x8xf32>
// CHECK-NEXT:     %c = arith.addf %a, %a : f32
// CHECK-NEXT:     %d = arith.maximumf %c, %m : f32
// CHECK-NEXT:     loop.store %d, %y[0, %j] : memref<1x8xf32>

// -----

// A guard of a reduce over one point is a select; equal reduces are one; inputs that lie
// differently are two; what the reduce does not need stands after it.

func.func @main(%x: tensor<8x8xf32>) -> tensor<8xf32> {
  %y = loop.kernel @k(%x: memref<8x8xf32> = %x, %z: memref<8x8xf32> align 4 = %x) -> (%y: memref<8xf32>) {
    loop.for %i in 8 {
      %g = loop.reduce add %k in 1 -> f32 {
        %a = loop.load %z[%i, 0] : memref<8x8xf32>
        loop.yield %a where (%i < 5) : f32
      }
      %s = loop.reduce add %k in 8 -> f32 {
        %a = loop.load %x[%i, %k] : memref<8x8xf32>
        loop.yield %a : f32
      }
      %t = loop.reduce add %k in 8 -> f32 {
        %a = loop.load %x[%i, %k] : memref<8x8xf32>
        loop.yield %a : f32
      }
      %p = arith.mulf %s, %t : f32
      %q = arith.addf %p, %g : f32
      loop.store %q, %y[%i] : memref<8xf32>
    }
  }
  func.return %y : tensor<8xf32>
}

// CHECK:      loop.kernel @k(%x: memref<8x8xf32> = %x, %z: memref<8x8xf32> align 4 = %x)
// CHECK:      %[[ZERO:.*]] = arith.constant 0.000000e+00 : f32
// CHECK-NEXT: loop.for %i in 8 {
// CHECK-NEXT:   %s = loop.reduce add
// CHECK-NOT:    loop.reduce
// CHECK:        %[[A:.*]] = loop.load %z[%i, 0] : memref<8x8xf32>
// CHECK-NEXT:   loop.select %[[A]] where (%i < 5) else %[[ZERO]] : f32
// CHECK-NEXT:   arith.mulf %s, %s : f32

// -----

// A load is free of conditions where it stays in bounds anyway, and only there.

func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %y = loop.kernel @k(%x: memref<8x8xf32> = %x) -> (%y: memref<8x8xf32>) {
    %zero = arith.constant 0.000000e+00 : f32
    loop.for %i in 8, %j in 8 {
      %a = loop.load %x[%i, %j] where (%i >= %j) else %zero : memref<8x8xf32>
      %b = loop.load %x[%i, %j + 1] where (%j < 7) else %zero : memref<8x8xf32>
      %s = arith.addf %a, %b : f32
      loop.store %s, %y[%i, %j] : memref<8x8xf32>
    }
  }
  func.return %y : tensor<8x8xf32>
}

// CHECK:      %a = loop.load %x[%i, %j] : memref<8x8xf32>
// CHECK-NEXT: %a_1 = loop.select %a where (%i - %j >= 0) else %zero : f32
// CHECK-NEXT: %b = loop.load %x[%i, %j + 1] where (%j < 7) else %zero : memref<8x8xf32>

// -----

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

// A kernel over no points does nothing; a kernel that nobody reads goes.

func.func @main(%x: tensor<0x8xf32>) -> tensor<0x8xf32> {
  %u = loop.kernel @unread(%x: memref<0x8xf32> = %x) -> (%y: memref<0x8xf32>) {
  }
  %y = loop.kernel @k(%x: memref<0x8xf32> = %x) -> (%y: memref<0x8xf32>) {
    loop.for %i in 0, %j in 8 {
      %a = loop.load %x[%i, %j] : memref<0x8xf32>
      loop.store %a, %y[%i, %j] : memref<0x8xf32>
    }
  }
  func.return %y : tensor<0x8xf32>
}

// CHECK-NOT:  @unread
// CHECK:      loop.kernel @k() -> (%y: memref<0x8xf32>) {
// CHECK-NEXT: }

// -----

// What is known of conditions: a default that is never read, one that is always read.

func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = loop.kernel @k(%x: memref<8xf32> = %x) -> (%y: memref<8xf32>) {
    %zero = arith.constant 0.000000e+00 : f32
    loop.for %i in 8 {
      %a = loop.load %x[%i] where (%i < 9) else %zero : memref<8xf32>
      %b = loop.load %x[%i - 8] where (%i >= 8) else %a : memref<8xf32>
      %c = loop.select %zero where (%i - 9 >= 0) else %b : f32
      loop.store %c, %y[%i] : memref<8xf32>
    }
  }
  func.return %y : tensor<8xf32>
}

// CHECK:      loop.for %i in 8 {
// CHECK-NEXT:   %a = loop.load %x[%i] : memref<8xf32>
// CHECK-NEXT:   loop.store %a, %y[%i] : memref<8xf32>

// -----

// A value that memory does not lie between is not rounded; casts of the program round.

// CHECK-LABEL: loop.kernel @rounding
// CHECK:       %a = loop.load %x[%i] : memref<8xbf16>
// CHECK-NEXT:  %b = arith.extf %a {storage} : bf16 to f32
// CHECK-NEXT:  %c = math.exp %b : f32
// CHECK-NEXT:  %d = arith.truncf %c {storage} : f32 to bf16
// CHECK-NEXT:  loop.store %d, %y[%i] : memref<8xbf16>
// CHECK-NEXT:  %f = arith.addf %c, %c : f32
// CHECK-NEXT:  %g = arith.truncf %f : f32 to bf16
// CHECK-NEXT:  %h = arith.extf %g {storage} : bf16 to f32
// CHECK-NEXT:  %k = arith.extf %d : bf16 to f32
// CHECK-NEXT:  %l = arith.addf %h, %k : f32
func.func @main(%x: tensor<8xbf16>) -> (tensor<8xbf16>, tensor<8xf32>) {
  %y, %z = loop.kernel @rounding(%x: memref<8xbf16> = %x) -> (%y: memref<8xbf16>, %z: memref<8xf32>) {
    loop.for %i in 8 {
      %a = loop.load %x[%i] : memref<8xbf16>
      %b = arith.extf %a {storage} : bf16 to f32
      %c = math.exp %b : f32
      %d = arith.truncf %c {storage} : f32 to bf16
      loop.store %d, %y[%i] : memref<8xbf16>
      %e = arith.extf %d {storage} : bf16 to f32
      %f = arith.addf %e, %e : f32
      %g = arith.truncf %f : f32 to bf16
      %h = arith.extf %g {storage} : bf16 to f32
      %k = arith.extf %d : bf16 to f32
      %l = arith.addf %h, %k : f32
      loop.store %l, %z[%i] : memref<8xf32>
    }
  }
  func.return %y, %z : tensor<8xbf16>, tensor<8xf32>
}

// -----

// Contractions of the same rows and columns that share an operand are one reduce, which stands
// where the first did and loads the operand once. One over another range stays, and so do sums
// that are no contractions.

// CHECK-LABEL: loop.kernel @siblings
// CHECK:       %a, %b = loop.reduce add %k in 16 -> (f32, f32) {
// CHECK-NEXT:    %xa = loop.load %x[%i, %k] : memref<4x16xf32>
// CHECK-NEXT:    %ua = loop.load %u[%k, %j] : memref<16x8xf32>
// CHECK-NEXT:    %pa = arith.mulf %xa, %ua : f32
// CHECK-NEXT:    %vb = loop.load %v[%k, %j] : memref<16x8xf32>
// CHECK-NEXT:    %pb = arith.mulf %vb, %xa : f32
// CHECK-NEXT:    loop.yield %pa, %pb : f32, f32
// CHECK-NEXT:  }
// CHECK-NEXT:  %c = loop.reduce add %m in 15 -> f32 {
// CHECK-NOT:   loop.reduce
// CHECK:       %s = arith.subf %a, %b : f32
func.func @main(%x: tensor<4x16xf32>, %u: tensor<16x8xf32>, %v: tensor<16x8xf32>) -> tensor<4x8xf32> {
  %y = loop.kernel @siblings(%x: memref<4x16xf32> = %x, %u: memref<16x8xf32> = %u, %v: memref<16x8xf32> = %v) -> (%y: memref<4x8xf32>) {
    loop.for %i in 4, %j in 8 {
      %a = loop.reduce add %k in 16 -> f32 {
        %xa = loop.load %x[%i, %k] : memref<4x16xf32>
        %ua = loop.load %u[%k, %j] : memref<16x8xf32>
        %pa = arith.mulf %xa, %ua : f32
        loop.yield %pa : f32
      }
      %c = loop.reduce add %m in 15 -> f32 {
        %xc = loop.load %x[%i, %m] : memref<4x16xf32>
        %vc = loop.load %v[%m, %j] : memref<16x8xf32>
        %pc = arith.mulf %vc, %xc : f32
        loop.yield %pc : f32
      }
      %b = loop.reduce add %l in 16 -> f32 {
        %xb = loop.load %x[%i, %l] : memref<4x16xf32>
        %vb = loop.load %v[%l, %j] : memref<16x8xf32>
        %pb = arith.mulf %vb, %xb : f32
        loop.yield %pb : f32
      }
      %s = arith.subf %a, %b : f32
      %t = arith.addf %s, %c : f32
      loop.store %t, %y[%i, %j] : memref<4x8xf32>
    }
  }
  func.return %y : tensor<4x8xf32>
}

// -----

// A contraction of what the first gives, or of other elements of the operand, is no sibling of it.

// CHECK-LABEL: loop.kernel @others
// CHECK:       loop.reduce add %k in 16 -> f32 {
// CHECK:       loop.reduce add %l in 16 -> f32 {
// CHECK:       loop.reduce add %m in 16 -> f32 {
func.func @main(%x: tensor<4x17xf32>, %u: tensor<16x8xf32>, %v: tensor<16x8xf32>) -> tensor<4x8xf32> {
  %y = loop.kernel @others(%x: memref<4x17xf32> = %x, %u: memref<16x8xf32> = %u, %v: memref<16x8xf32> = %v) -> (%y: memref<4x8xf32>) {
    loop.for %i in 4, %j in 8 {
      %a = loop.reduce add %k in 16 -> f32 {
        %xa = loop.load %x[%i, %k] : memref<4x17xf32>
        %ua = loop.load %u[%k, %j] : memref<16x8xf32>
        %pa = arith.mulf %xa, %ua : f32
        loop.yield %pa : f32
      }
      %b = loop.reduce add %l in 16 -> f32 {
        %xb = loop.load %x[%i, %l + 1] : memref<4x17xf32>
        %vb = loop.load %v[%l, %j] : memref<16x8xf32>
        %pb = arith.mulf %vb, %xb : f32
        loop.yield %pb : f32
      }
      %c = loop.reduce add %m in 16 -> f32 {
        %xc = loop.load %x[%i, %m] : memref<4x17xf32>
        %vc = loop.load %u[%m, %j] : memref<16x8xf32>
        %pc = arith.mulf %vc, %xc : f32
        %qc = arith.mulf %pc, %a : f32
        loop.yield %qc : f32
      }
      %s = arith.subf %a, %b : f32
      %t = arith.addf %s, %c : f32
      loop.store %t, %y[%i, %j] : memref<4x8xf32>
    }
  }
  func.return %y : tensor<4x8xf32>
}
