// RUN: dlc-opt %s --split-input-file -p canonicalize | filecheck %s
// RUN: dlc-opt %s --split-input-file -p cse | filecheck %s --check-prefix CSE
// RUN: dlc-opt %s --split-input-file -p dce | filecheck %s --check-prefix DCE

// Axes, loads, selects, index values and casts as `canonicalize-loops` has them
// (transforms/canonicalize-loops.mlir); what is dead goes, stores stay.

// CHECK-LABEL: loop.kernel @k(%x: memref<1x8xbf16> = %x) -> (%y: memref<1x8xf32>) {
// CHECK-NEXT:  loop.for %j in 8 {
// CHECK-NEXT:    %a = loop.load %x[0, %j] : memref<1x8xbf16>
// CHECK-NEXT:    %b = arith.extf %a {storage} : bf16 to f32
// CHECK-NEXT:    %c = math.exp %b : f32
// CHECK-NEXT:    %f = loop.select %c where (%j < 5) else %b : f32
// CHECK-NEXT:    loop.store %f, %y[0, %j] : memref<1x8xf32>
// CHECK-NEXT:  }

// CSE-LABEL: loop.kernel @k
// DCE-LABEL: loop.kernel @k
// DCE:         loop.for %i in 1, %j in 8 {
// DCE-NOT:     loop.index
// DCE-NOT:     loop.reduce
// DCE:         loop.for %i_1 in 0 {
// DCE-NOT:     loop.for
func.func @main(%x: tensor<1x8xbf16>, %z: tensor<8xf32>) -> tensor<1x8xf32> {
  %y = loop.kernel @k(%x: memref<1x8xbf16> = %x, %z: memref<8xf32> = %z) -> (%y: memref<1x8xf32>) {
    loop.for %i in 1, %j in 8 {
      %a = loop.load %x[%i, %j] where (%j < 8) : memref<1x8xbf16>
      %b = arith.extf %a {storage} : bf16 to f32
      %c = math.exp %b : f32
      %d = arith.truncf %c {storage} : f32 to bf16
      %e = arith.extf %d {storage} : bf16 to f32
      %f = loop.select %e where (%j < 5, %i < 2) else %b : f32
      %g = loop.index %i + %j
      %h = loop.load %z[%g] : memref<8xf32>
      %r = loop.reduce add %k in 8 -> f32 {
        %l = loop.load %z[%k] : memref<8xf32>
        loop.yield %l : f32
      }
      loop.store %f, %y[%i, %j] : memref<1x8xf32>
      loop.store %f, %y[%i, %j] where (%j >= 8) : memref<1x8xf32>
    }
    loop.for %i in 8 {
      %h = loop.load %z[%i] : memref<8xf32>
    }
    loop.for %i in 0 {
      %h = loop.load %z[%i] : memref<8xf32>
      loop.store %h, %y[0, %i] : memref<1x8xf32>
    }
  }
  func.return %y : tensor<1x8xf32>
}

// -----

// CHECK-LABEL: loop.kernel @reads
// CHECK-NOT:   @unread

// Equal loads, and equal reduces, are one where no store lies between.
// CSE-LABEL: loop.kernel @reads
// CSE:         %a = loop.load %x[%i] : memref<8xf32>
// CSE-NEXT:    %r = loop.reduce add %k in 8 -> f32 {
// CSE-NEXT:      %l = loop.load %x[%k] : memref<8xf32>
// CSE-NEXT:      loop.yield %l : f32
// CSE-NEXT:    }
// CSE-NEXT:    %c = arith.addf %a, %a : f32
// CSE-NEXT:    %d = arith.addf %r, %r : f32
// CSE-NEXT:    loop.store %c, %y[%i] : memref<8xf32>
// CSE-NEXT:    %e = loop.load %y[%i] : memref<8xf32>
// CSE-NEXT:    loop.store %d, %y[%i] : memref<8xf32>
// CSE-NEXT:    %f = loop.load %y[%i] : memref<8xf32>

// A kernel that nobody reads goes, but not one that is launched again.
// DCE-LABEL: loop.kernel @reads
// DCE-NOT:   @unread
// DCE:       loop.kernel @again
// DCE:       kernel.launch @again
// DCE-NOT:   kernel.launch
func.func @main(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %y = loop.kernel @reads(%x: memref<8xf32> = %x) -> (%y: memref<8xf32>) {
    loop.for %i in 8 {
      %a = loop.load %x[%i] : memref<8xf32>
      %b = loop.load %x[%i] : memref<8xf32>
      %r = loop.reduce add %k in 8 -> f32 {
        %l = loop.load %x[%k] : memref<8xf32>
        loop.yield %l : f32
      }
      %s = loop.reduce add %k in 8 -> f32 {
        %l = loop.load %x[%k] : memref<8xf32>
        loop.yield %l : f32
      }
      %c = arith.addf %a, %b : f32
      %d = arith.addf %r, %s : f32
      loop.store %c, %y[%i] : memref<8xf32>
      %e = loop.load %y[%i] : memref<8xf32>
      loop.store %d, %y[%i] : memref<8xf32>
      %f = loop.load %y[%i] : memref<8xf32>
      %g = arith.addf %e, %f : f32
      loop.store %g, %y[%i] : memref<8xf32>
    }
  }
  %u = loop.kernel @unread(%x: memref<8xf32> = %x) -> (%y: memref<8xf32>) {
  }
  %v = loop.kernel @again(%x: memref<8xf32> = %x) -> (%y: memref<8xf32>) {
    loop.for %i in 8 {
      %a = loop.load %x[%i] : memref<8xf32>
      loop.store %a, %y[%i] : memref<8xf32>
    }
  }
  %w = kernel.launch @again(%y) : (tensor<8xf32>) -> (tensor<8xf32>)
  %t = kernel.launch @again(%w) : (tensor<8xf32>) -> (tensor<8xf32>)
  func.return %y, %w : tensor<8xf32>, tensor<8xf32>
}

// -----

// Axes of one point before and behind others, in subscripts that name the one, the other or both:
// the others stay in them.

// CHECK-LABEL: loop.kernel @units
// CHECK-NEXT:    loop.for %h in 3, %i in 5 {
// CHECK-NEXT:      %a = loop.load %at[%h, %i] : memref<3x5xi64>
// CHECK-NEXT:      %k = arith.index_cast %a : i64 to index
// CHECK-NEXT:      %v = loop.load %x[%k, %h + %i, 0] where (%h + %i < 6) : memref<2x7x1xf32>
// CHECK-NEXT:      loop.store %v, %y[0, %h, %i, 0] : memref<1x3x5x1xf32>
// CHECK-NEXT:    }
func.func @main(%at: tensor<3x5xi64>, %x: tensor<2x7x1xf32>) -> tensor<1x3x5x1xf32> {
  %y = loop.kernel @units(%at: memref<3x5xi64> = %at, %x: memref<2x7x1xf32> = %x)
      -> (%y: memref<1x3x5x1xf32>) {
    loop.for %b in 1, %h in 3, %i in 5, %j in 1 {
      %a = loop.load %at[%h, %i] : memref<3x5xi64>
      %k = arith.index_cast %a : i64 to index
      %v = loop.load %x[%k, %h + %i + %j, %j] where (%h + %i < 6 - %j)
          : memref<2x7x1xf32>
      loop.store %v, %y[%b, %h, %i, %b + %j] : memref<1x3x5x1xf32>
    }
  }
  func.return %y : tensor<1x3x5x1xf32>
}

// -----

// What is computed of constants is one, where an axis of one point is among them as well.

// CHECK-LABEL: loop.kernel @constants
// CHECK-NEXT:    loop.for %i in 8 {
// CHECK-NEXT:      %c = arith.constant 7.3890562{{\d*}} : f32
// CHECK-NEXT:      loop.store %c, %y[%i] : memref<8xf32>
// CHECK-NEXT:    }
func.func @main() -> tensor<8xf32> {
  %y = loop.kernel @constants() -> (%y: memref<8xf32>) {
    loop.for %i in 8, %j in 1 {
      %a = loop.index %j + 2
      %b = arith.index_cast %a : index to i64
      %f = arith.sitofp %b : i64 to f32
      %c = math.exp %f : f32
      loop.store %c, %y[%i] : memref<8xf32>
    }
  }
  func.return %y : tensor<8xf32>
}

// -----

// A sum of products folds only where both factors can be something else than 0.

// CHECK-LABEL: loop.kernel @zeros
// CHECK:           %p = arith.mulf %a, %b : f32
// CHECK-NEXT:      loop.yield %p where (%i * 2 + %k < 5) : f32
// CHECK:           %q = arith.mulf %c, %d : f32
// CHECK-NEXT:      loop.yield %q : f32
func.func @main(%x: tensor<5xf32>, %w: tensor<5xf32>) -> tensor<3xf32> {
  %y = loop.kernel @zeros(%x: memref<5xf32> = %x, %w: memref<5xf32> = %w) -> (%y: memref<3xf32>) {
    %zero = arith.constant 0.0 : f32
    %one = arith.constant 1.0 : f32
    loop.for %i in 3 {
      %s = loop.reduce add %k in 2 -> f32 {
        %a = loop.load %x[%i * 2 + %k] where (%i * 2 + %k < 5, %k >= %i) else %zero : memref<5xf32>
        %b = loop.load %w[%i * 2 + %k] where (%i * 2 + %k < 5) else %zero : memref<5xf32>
        %p = arith.mulf %a, %b : f32
        loop.yield %p : f32
      }
      %t = loop.reduce add %k in 2 -> f32 {
        %c = loop.load %x[%i * 2 + %k] where (%i * 2 + %k < 5) else %zero : memref<5xf32>
        %d = loop.load %w[%i * 2 + %k] where (%i * 2 + %k < 5) else %one : memref<5xf32>
        %q = arith.mulf %c, %d : f32
        loop.yield %q : f32
      }
      %r = arith.addf %s, %t : f32
      loop.store %r, %y[%i] : memref<3xf32>
    }
  }
  func.return %y : tensor<3xf32>
}
