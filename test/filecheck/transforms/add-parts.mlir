// RUN: dlc-opt %s -p 'add-parts{parts=3}' --split-input-file | filecheck %s
// RUN: dlc-opt %s -p add-parts --split-input-file | filecheck %s --check-prefix=LEFT
// RUN: dlc-opt %s -p 'add-parts{parts=3}' --split-input-file --remarks 2>&1 >/dev/null | filecheck %s --check-prefix=SAYS

// So few results are not split, so that no second kernel is saved.
// LEFT: loop.kernel @mm(
// LEFT: loop.kernel @norm(

// CHECK: %s_parts = loop.kernel @mm(%x: memref<7x12xf32> = %x, %w: memref<5x12xf32> = %w) -> (%s_parts: memref<3x7x5xf32>) {
// CHECK-NEXT: loop.for %p in 3, %i in 7, %j in 5 {
// CHECK-NEXT: %s = loop.reduce add %k in 4 -> f32 {
// CHECK: loop.load %x[%i, %p * 4 + %k] : memref<7x12xf32>
// CHECK: loop.load %w[%j, %p * 4 + %k] : memref<5x12xf32>
// CHECK: loop.store %s, %s_parts[%p, %i, %j] : memref<3x7x5xf32>

// What follows the product is done by the first fold that reads it, and stored for others.
// CHECK: %z, %y = loop.kernel @norm{{.*}}(%s_parts: memref<3x7x5xf32> = %s_parts) -> (%z: memref<7xf32>, %y: memref<7x5xf32>) {
// CHECK: loop.load %s_parts[0, %i, %j] : memref<3x7x5xf32>
// CHECK: loop.load %s_parts[1, %i, %j] : memref<3x7x5xf32>
// CHECK: loop.load %s_parts[2, %i, %j] : memref<3x7x5xf32>
// CHECK: func.return %z, %y
func.func @main(%x: tensor<7x12xf32>, %w: tensor<5x12xf32>) -> (tensor<7xf32>, tensor<7x5xf32>) {
  %y = loop.kernel @mm(%x: memref<7x12xf32> = %x, %w: memref<5x12xf32> = %w) -> (%y: memref<7x5xf32>) {
    loop.for %i in 7, %j in 5 {
      %s = loop.reduce add %k in 12 -> f32 {
        %a = loop.load %x[%i, %k] : memref<7x12xf32>
        %b = loop.load %w[%j, %k] : memref<5x12xf32>
        %p = arith.mulf %a, %b : f32
        loop.yield %p : f32
      }
      %n = arith.negf %s : f32
      loop.store %n, %y[%i, %j] : memref<7x5xf32>
    }
  }
  %z = loop.kernel @norm(%y: memref<7x5xf32> = %y) -> (%z: memref<7xf32>) {
    loop.for %i in 7 {
      %s = loop.reduce add %j in 5 -> f32 {
        %a = loop.load %y[%i, %j] : memref<7x5xf32>
        %b = arith.mulf %a, %a : f32
        loop.yield %b : f32
      }
      loop.for %j in 5 {
        %a = loop.load %y[%i, %j] : memref<7x5xf32>
      }
      loop.store %s, %z[%i] : memref<7xf32>
    }
  }
  func.return %z, %y : tensor<7xf32>, tensor<7x5xf32>
}

// -----

// SAYS: add-parts: mm: in 3 parts, which @norm{{.*}} adds up
// SAYS: add-parts: mm: not in parts: no fold that reads it can add them up
// SAYS: add-parts: ragged: not in 3 parts: 2, 4, 8 are possible
// SAYS: add-parts: mm: not in parts: the plan has @norm, which reads it, in another group

// K is no multiple of three, and what reads the second product folds nothing.
// CHECK: loop.kernel @ragged(
// CHECK-NOT: _parts
func.func @main(%x: tensor<7x8xf32>, %w: tensor<5x8xf32>, %v: tensor<5x12xf32>, %u: tensor<7x12xf32>) -> (tensor<7xf32>, tensor<7x5xf32>) {
  %y = loop.kernel @ragged(%x: memref<7x8xf32> = %x, %w: memref<5x8xf32> = %w) -> (%y: memref<7x5xf32>) {
    loop.for %i in 7, %j in 5 {
      %s = loop.reduce add %k in 8 -> f32 {
        %a = loop.load %x[%i, %k] : memref<7x8xf32>
        %b = loop.load %w[%j, %k] : memref<5x8xf32>
        %p = arith.mulf %a, %b : f32
        loop.yield %p : f32
      }
      loop.store %s, %y[%i, %j] : memref<7x5xf32>
    }
  }
  %z = loop.kernel @norm(%y: memref<7x5xf32> = %y) -> (%z: memref<7xf32>) {
    loop.for %i in 7 {
      %s = loop.reduce add %j in 5 -> f32 {
        %a = loop.load %y[%i, %j] : memref<7x5xf32>
        loop.yield %a : f32
      }
      loop.store %s, %z[%i] : memref<7xf32>
    }
  }
  %t = loop.kernel @mm(%u: memref<7x12xf32> = %u, %v: memref<5x12xf32> = %v) -> (%t: memref<7x5xf32>) {
    loop.for %i in 7, %j in 5 {
      %s = loop.reduce add %k in 12 -> f32 {
        %a = loop.load %u[%i, %k] : memref<7x12xf32>
        %b = loop.load %v[%j, %k] : memref<5x12xf32>
        %p = arith.mulf %a, %b : f32
        loop.yield %p : f32
      }
      loop.store %s, %t[%i, %j] : memref<7x5xf32>
    }
  }
  %q = loop.kernel @copied(%t: memref<7x5xf32> = %t) -> (%q: memref<7x5xf32>) {
    loop.for %i in 7, %j in 5 {
      %a = loop.load %t[%i, %j] : memref<7x5xf32>
      %b = arith.negf %a : f32
      loop.store %b, %q[%i, %j] : memref<7x5xf32>
    }
  }
  func.return %z, %q : tensor<7xf32>, tensor<7x5xf32>
}

// -----

// A plan keeps the product apart from what reads it.
// CHECK: loop.kernel @mm(
// CHECK-NOT: _parts
func.func @main(%x: tensor<7x12xf32>, %w: tensor<5x12xf32>) -> tensor<7xf32> {
  %y = loop.kernel @mm(%x: memref<7x12xf32> = %x, %w: memref<5x12xf32> = %w) -> (%y: memref<7x5xf32>) {
    loop.for %i in 7, %j in 5 {
      %s = loop.reduce add %k in 12 -> f32 {
        %a = loop.load %x[%i, %k] : memref<7x12xf32>
        %b = loop.load %w[%j, %k] : memref<5x12xf32>
        %p = arith.mulf %a, %b : f32
        loop.yield %p : f32
      }
      loop.store %s, %y[%i, %j] : memref<7x5xf32>
    }
  }
  %z = loop.kernel @norm(%y: memref<7x5xf32> = %y) -> (%z: memref<7xf32>) {
    loop.for %i in 7 {
      %s = loop.reduce add %j in 5 -> f32 {
        %a = loop.load %y[%i, %j] : memref<7x5xf32>
        loop.yield %a : f32
      }
      loop.store %s, %z[%i] : memref<7xf32>
    }
  } {groups = ["norm"]}
  func.return %z : tensor<7xf32>
}
