// RUN: dlc-opt %s -p 'fold-in-parts{points=3}' --split-input-file | filecheck %s
// RUN: dlc-opt %s -p fold-in-parts --split-input-file | filecheck %s --check-prefix=LEFT
// RUN: dlc-opt %s -p 'fold-in-parts{points=3}' --split-input-file --remarks 2>&1 >/dev/null | filecheck %s --check-prefix=SAYS

// So little is not worth a second kernel.
// LEFT: loop.kernel @mm(
// LEFT: loop.kernel @largest(%y

// The sums of three columns are one reduce, whose epilogue folds them.
// CHECK: %m_runs = loop.kernel @{{.*}}(%x: memref<7x8xf32> = %x, %w: memref<12x8xf32> = %w) -> (%m_runs: memref<7x4xf32>) {
// CHECK-NEXT: loop.for %i in 7, %j in 4 {
// CHECK-NEXT: %{{.*}}, %{{.*}}, %{{.*}} = loop.reduce add %k in 8 -> (f32, f32, f32) {
// CHECK-DAG: loop.load %w[%j * 3, %k] : memref<12x8xf32>
// CHECK-DAG: loop.load %w[%j * 3 + 1, %k] : memref<12x8xf32>
// CHECK-DAG: loop.load %w[%j * 3 + 2, %k] : memref<12x8xf32>
// CHECK: arith.negf
// CHECK: arith.maximumf
// CHECK: arith.maximumf
// CHECK: loop.store %{{.*}}, %m_runs[%i, %j] : memref<7x4xf32>

// What follows the fold is done by what folds the rest.
// CHECK: %z = loop.kernel @{{.*}}(%m_runs: memref<7x4xf32> = %m_runs) -> (%z: memref<7xf32>) {
// CHECK-NEXT: loop.for %i in 7 {
// CHECK-NEXT: %m = loop.reduce max %j in 4 -> f32 {
// CHECK-NEXT: %{{.*}} = loop.load %m_runs[%i, %j] : memref<7x4xf32>
// CHECK: math.tanh %m
// CHECK: func.return %z
// SAYS: runs of 3 along dimension 1 of it are folded, and @{{.*}} folds what that gives
func.func @main(%x: tensor<7x8xf32>, %w: tensor<12x8xf32>) -> tensor<7xf32> {
  %y = loop.kernel @mm(%x: memref<7x8xf32> = %x, %w: memref<12x8xf32> = %w) -> (%y: memref<7x12xf32>) {
    loop.for %i in 7, %j in 12 {
      %s = loop.reduce add %k in 8 -> f32 {
        %a = loop.load %x[%i, %k] : memref<7x8xf32>
        %b = loop.load %w[%j, %k] : memref<12x8xf32>
        %p = arith.mulf %a, %b : f32
        loop.yield %p : f32
      }
      %n = arith.negf %s : f32
      loop.store %n, %y[%i, %j] : memref<7x12xf32>
    }
  }
  %z = loop.kernel @largest(%y: memref<7x12xf32> = %y) -> (%z: memref<7xf32>) {
    loop.for %i in 7 {
      %m = loop.reduce max %j in 12 -> f32 {
        %a = loop.load %y[%i, %j] : memref<7x12xf32>
        loop.yield %a : f32
      }
      %t = math.tanh %m : f32
      loop.store %t, %z[%i] : memref<7xf32>
    }
  }
  func.return %z : tensor<7xf32>
}

// -----

// What is read twice, or by two, or forbidden stays; 14 columns have no runs of three.
// CHECK-NOT: _runs
// SAYS: fold-in-parts: forbidden: no runs of it are folded: the attribute `fuse` forbids it
func.func @main(%x: tensor<7x8xf32>, %w: tensor<12x8xf32>, %v: tensor<14x8xf32>) -> (tensor<7xf32>, tensor<7xf32>, tensor<7xf32>) {
  %y = loop.kernel @twice(%x: memref<7x8xf32> = %x, %w: memref<12x8xf32> = %w) -> (%y: memref<7x12xf32>) {
    loop.for %i in 7, %j in 12 {
      %s = loop.reduce add %k in 8 -> f32 {
        %a = loop.load %x[%i, %k] : memref<7x8xf32>
        %b = loop.load %w[%j, %k] : memref<12x8xf32>
        %p = arith.mulf %a, %b : f32
        loop.yield %p : f32
      }
      loop.store %s, %y[%i, %j] : memref<7x12xf32>
    }
  }
  %z = loop.kernel @first_and_largest(%y: memref<7x12xf32> = %y) -> (%z: memref<7xf32>) {
    loop.for %i in 7 {
      %m = loop.reduce max %j in 12 -> f32 {
        %a = loop.load %y[%i, %j] : memref<7x12xf32>
        loop.yield %a : f32
      }
      %b = loop.load %y[%i, 0] : memref<7x12xf32>
      %t = arith.subf %m, %b : f32
      loop.store %t, %z[%i] : memref<7xf32>
    }
  }
  %u = loop.kernel @ragged(%x: memref<7x8xf32> = %x, %v: memref<14x8xf32> = %v) -> (%u: memref<7x14xf32>) {
    loop.for %i in 7, %j in 14 {
      %s = loop.reduce add %k in 8 -> f32 {
        %a = loop.load %x[%i, %k] : memref<7x8xf32>
        %b = loop.load %v[%j, %k] : memref<14x8xf32>
        %p = arith.mulf %a, %b : f32
        loop.yield %p : f32
      }
      loop.store %s, %u[%i, %j] : memref<7x14xf32>
    }
  }
  %q = loop.kernel @largest(%u: memref<7x14xf32> = %u) -> (%q: memref<7xf32>) {
    loop.for %i in 7 {
      %m = loop.reduce max %j in 14 -> f32 {
        %a = loop.load %u[%i, %j] : memref<7x14xf32>
        loop.yield %a : f32
      }
      loop.store %m, %q[%i] : memref<7xf32>
    }
  }
  %f = loop.kernel @forbidden(%x: memref<7x8xf32> = %x, %w: memref<12x8xf32> = %w) -> (%f: memref<7x12xf32>) {
    loop.for %i in 7, %j in 12 {
      %s = loop.reduce add %k in 8 -> f32 {
        %a = loop.load %x[%i, %k] : memref<7x8xf32>
        %b = loop.load %w[%j, %k] : memref<12x8xf32>
        %p = arith.mulf %a, %b : f32
        loop.yield %p : f32
      }
      loop.store %s, %f[%i, %j] : memref<7x12xf32>
    }
  } {fuse = "never"}
  %g = loop.kernel @least(%f: memref<7x12xf32> = %f) -> (%g: memref<7xf32>) {
    loop.for %i in 7 {
      %m = loop.reduce min %j in 12 -> f32 {
        %a = loop.load %f[%i, %j] : memref<7x12xf32>
        loop.yield %a : f32
      }
      loop.store %m, %g[%i] : memref<7xf32>
    }
  }
  func.return %z, %q, %g : tensor<7xf32>, tensor<7xf32>, tensor<7xf32>
}
