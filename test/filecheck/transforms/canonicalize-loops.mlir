// RUN: dlc-opt %s --split-input-file -p canonicalize-loops | filecheck %s

// Axes of extent 1 vanish, also those of a reduce, whose guard becomes a select; a reduce over no
// points is the identity.

// CHECK-LABEL: loop.kernel @axes
// CHECK-NEXT:  loop.for %j in 8 {
// CHECK-NEXT:    %a = loop.load %x[0, %j] : memref<1x8xf32>
// CHECK-NEXT:    %[[ZERO:.*]] = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:    %s = loop.select %a where (%j < 5) else %[[ZERO]] : f32
// CHECK-NEXT:    %m = arith.constant 0xff800000 : f32
// CHECK-NEXT:    %d = arith.maximumf %s, %m : f32
// CHECK-NEXT:    loop.store %d, %y[0, %j] : memref<1x8xf32>
func.func @main(%x: tensor<1x8xf32>, %e: tensor<0xf32>) -> tensor<1x8xf32> {
  %y = loop.kernel @axes(%x: memref<1x8xf32> = %x, %e: memref<0xf32> = %e) -> (%y: memref<1x8xf32>) {
    loop.for %i in 1, %j in 8 {
      %s = loop.reduce add %k in 1 -> f32 {
        %a = loop.load %x[%k, %j] : memref<1x8xf32>
        loop.yield %a where (%j < 5) : f32
      }
      %m = loop.reduce max %k in 0 -> f32 {
        %a = loop.load %e[%k] : memref<0xf32>
        loop.yield %a : f32
      }
      %d = arith.maximumf %s, %m : f32
      loop.store %d, %y[%i, %j] : memref<1x8xf32>
    }
  }
  func.return %y : tensor<1x8xf32>
}

// -----

// What needs be right only where conditions hold that are of other axes is free of them.

// CHECK-LABEL: loop.kernel @leaves
// CHECK:       %w_1 = loop.load %w[%i] : memref<8xf32>
// CHECK-NEXT:  %v = loop.load %x[%i, %k] where (%i + %k >= 3) : memref<8x8xf32>
// CHECK-NEXT:  %p = arith.mulf %w_1, %v : f32
// CHECK-NEXT:  %s = loop.select %p where (%k >= 3) else %zero : f32
func.func @main(%x: tensor<8x8xf32>, %w: tensor<8xf32>) -> tensor<8xf32> {
  %y = loop.kernel @leaves(%x: memref<8x8xf32> = %x, %w: memref<8xf32> = %w) -> (%y: memref<8xf32>) {
    %zero = arith.constant 0.000000e+00 : f32
    loop.for %i in 8 {
      %r = loop.reduce add %k in 8 -> f32 {
        %w_1 = loop.load %w[%i] where (%k >= 3) : memref<8xf32>
        %v = loop.load %x[%i, %k] where (%i + %k >= 3) : memref<8x8xf32>
        %p = arith.mulf %w_1, %v : f32
        %s = loop.select %p where (%k >= 3) else %zero : f32
        loop.yield %s : f32
      }
      loop.store %r, %y[%i] : memref<8xf32>
    }
  }
  func.return %y : tensor<8xf32>
}

// -----

// A load that stays in bounds anyway is free of its conditions; the select of one whose conditions
// it implies is a load; sides that are known are taken. Invariant and equal loads stay.

// CHECK-LABEL: loop.kernel @loads
// CHECK:       %a = loop.load %x[%i] : memref<8xf32>
// CHECK-NEXT:  %a_1 = loop.select %a where (%i < 5) else %zero : f32
// CHECK-NEXT:  %b = loop.load %x[%i + 1] where (%i < 7, %i >= 2) else %one : memref<8xf32>
// CHECK-NEXT:  %d = loop.load %x[%i] : memref<8xf32>
// CHECK-NEXT:  %e = loop.load %x[0] : memref<8xf32>
// CHECK-NEXT:  %f = loop.load %x[0] : memref<8xf32>
// CHECK-NEXT:  %0 = arith.addf %a_1, %b : f32
// CHECK-NEXT:  %1 = arith.addf %one, %d : f32
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = loop.kernel @loads(%x: memref<8xf32> = %x) -> (%y: memref<8xf32>) {
    %zero = arith.constant 0.000000e+00 : f32
    %one = arith.constant 1.000000e+00 : f32
    loop.for %i in 8 {
      %a = loop.load %x[%i] where (%i < 5) else %zero : memref<8xf32>
      %b = loop.load %x[%i + 1] where (%i < 7) else %zero : memref<8xf32>
      %b2 = loop.select %b where (%i < 7, %i >= 2) else %one : f32
      %c = loop.load %x[%i - 8] where (%i >= 8) else %one : memref<8xf32>
      %d = loop.load %x[%i] where (%i < 9) else %zero : memref<8xf32>
      %e = loop.load %x[%i - %i] : memref<8xf32>
      %f = loop.load %x[0] : memref<8xf32>
      %unused = loop.load %x[%i] : memref<8xf32>
      %0 = arith.addf %a, %b2 : f32
      %1 = arith.addf %c, %d : f32
      %2 = arith.addf %e, %f : f32
      %3 = arith.addf %0, %1 : f32
      %4 = arith.addf %2, %3 : f32
      loop.store %4, %y[%i] : memref<8xf32>
      loop.store %4, %y[%i] where (%i >= 8) : memref<8xf32>
    }
  }
  func.return %y : tensor<8xf32>
}
// CHECK:       loop.store %4, %y[%i] : memref<8xf32>
// CHECK-NOT:   loop.store

// -----

// The conditions of a load that a select does not imply stay, and so does a load that others use.

// CHECK-LABEL: loop.kernel @selects
// CHECK:       %a = loop.load %x[%i + 1] where (%i < 7) else %zero : memref<8xf32>
// CHECK-NEXT:  %b = loop.select %a where (%i >= 2) else %one : f32
// CHECK-NEXT:  %c = loop.load %x[%i + 2] where (%i < 6) else %zero : memref<8xf32>
// CHECK-NEXT:  %d = loop.select %c where (%i < 6, %i >= 2) else %one : f32
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = loop.kernel @selects(%x: memref<8xf32> = %x) -> (%y: memref<8xf32>) {
    %zero = arith.constant 0.000000e+00 : f32
    %one = arith.constant 1.000000e+00 : f32
    loop.for %i in 8 {
      %a = loop.load %x[%i + 1] where (%i < 7) else %zero : memref<8xf32>
      %b = loop.select %a where (%i >= 2) else %one : f32
      %c = loop.load %x[%i + 2] where (%i < 6) else %zero : memref<8xf32>
      %d = loop.select %c where (%i < 6, %i >= 2) else %one : f32
      %0 = arith.addf %b, %c : f32
      %1 = arith.addf %0, %d : f32
      loop.store %1, %y[%i] : memref<8xf32>
    }
  }
  func.return %y : tensor<8xf32>
}

// -----

// A tensor that is passed twice is one input, but not in two layouts; what is not read is none, and
// a kernel that nobody reads goes.

// CHECK-NOT:   @unread
// CHECK-LABEL: loop.kernel @inputs(%x: memref<8xf32> = %x, %v: memref<8xf32> align 4 = %x) ->
// CHECK:       %b = loop.load %x[%i] : memref<8xf32>
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %u = loop.kernel @unread(%x: memref<8xf32> = %x) -> (%y: memref<8xf32>) {
  }
  %y = loop.kernel @inputs(%x: memref<8xf32> = %x, %z: memref<8xf32> = %x, %v: memref<8xf32> align 4 = %x, %w: memref<8xf32> = %u) -> (%y: memref<8xf32>) {
    loop.for %i in 8 {
      %a = loop.load %x[%i] : memref<8xf32>
      %b = loop.load %z[%i] : memref<8xf32>
      %c = loop.load %v[%i] : memref<8xf32>
      %0 = arith.addf %a, %b : f32
      %1 = arith.addf %0, %c : f32
      loop.store %1, %y[%i] : memref<8xf32>
    }
  }
  func.return %y : tensor<8xf32>
}

// -----

// A value that memory does not lie between is not rounded; casts of the program round.

// CHECK-LABEL: loop.kernel @rounding
// CHECK:       %c = math.exp %b : f32
// CHECK-NEXT:  %e = arith.truncf %c : f32 to bf16
// CHECK-NEXT:  %f = arith.extf %e {storage} : bf16 to f32
// CHECK-NEXT:  %g = arith.addf %c, %f : f32
func.func @main(%x: tensor<8xbf16>) -> tensor<8xf32> {
  %y = loop.kernel @rounding(%x: memref<8xbf16> = %x) -> (%y: memref<8xf32>) {
    loop.for %i in 8 {
      %a = loop.load %x[%i] : memref<8xbf16>
      %b = arith.extf %a {storage} : bf16 to f32
      %c = math.exp %b : f32
      %s = arith.truncf %c {storage} : f32 to bf16
      %d = arith.extf %s {storage} : bf16 to f32
      %e = arith.truncf %c : f32 to bf16
      %f = arith.extf %e {storage} : bf16 to f32
      %g = arith.addf %d, %f : f32
      loop.store %g, %y[%i] : memref<8xf32>
    }
  }
  func.return %y : tensor<8xf32>
}
