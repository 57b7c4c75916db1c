// RUN: dlc-opt %s -p 'tileify,split-matmul-k{splits=3 combine=atomic}' --split-input-file | filecheck %s
// RUN: dlc-opt %s -p 'tileify,split-matmul-k{splits=3 combine=atomic},blockify-launch{block=4,8 thread=2,4},register-tile{extents=2,2}' --split-input-file --verify-diagnostics | filecheck %s --check-prefix=LATER
// RUN: dlc-opt %s -p 'tileify,split-matmul-k{splits=3 combine=atomic},cooperative-reduce{threads=32}' --split-input-file | filecheck %s --check-prefix=ROWS
// RUN: dlc-opt %s -p 'tileify,split-matmul-k{splits=3 combine=atomic}' --split-input-file --remarks 2>&1 >/dev/null | filecheck %s --check-prefix=SAYS
// RUN: dlc-opt %s -p 'tileify,split-matmul-k{splits=3 combine=atomic},bind-axes,lower-stages,lower-reduces,lower-registers,place-barriers' --split-input-file -t cuda | filecheck %s --check-prefix=CUDA
// RUN: not dlc-opt %s -p 'tileify,split-matmul-k{splits=3 combine=atomic then="tileify"}' --split-input-file 2>&1 | filecheck %s --check-prefix=THEN
// THEN: error: split-matmul-k: combine=atomic makes no second kernel for then to schedule

// Blocks add their parts of a sum to an output that holds zeros when the kernel begins. No second
// kernel is made.
// SAYS: split-matmul-k: mm: 3 parts of %k in 50, each of at most 17 points, added up atomically
// CHECK: %C = tile.kernel @mm(%A: memref<10x50xf32> = %A, %B: memref<50x7xf32> align 4 = %B) -> (%C: memref<10x7xf32> zeroed)
// CHECK-NEXT: tile.launch block(%ks in 3) thread(%i in 10, %j in 7) {
// CHECK-NEXT: %acc = tile.reduce add serial(%k in 17) -> f32 {
// CHECK-NEXT: tile.load %A[%i, %ks * 17 + %k]
// CHECK: tile.yield %p where (%ks * 17 + %k < 50) : f32
// CHECK-NEXT: }
// CHECK-NEXT: tile.atomic_add %acc, %C[%i, %j] across(%ks) : memref<10x7xf32>
// CHECK-NEXT: }
// CHECK-NEXT: }
// CHECK-NEXT: }

// CUDA: // grid 3, block 70; zeroed before: C; schedule:
// CUDA: atomic_add(&C[{{.*}}], acc);

// Blocks beyond a ragged edge of the output add nothing.
// LATER: tile.launch block(%ks in 3, %bi in 3) thread(%ti in 2, %tj in 4) register(%ri in 2, %rj in 2)
// LATER: tile.atomic_add %acc, %C[%bi * 4 + %ti * 2 + %ri, %tj * 2 + %rj]
// LATER-SAME: where (%bi * 4 + %ti * 2 + %ri < 10, %tj * 2 + %rj < 7) across(%ks) : memref<10x7xf32>

// Of threads that share a row, one adds what all of them hold.
// ROWS: tile.launch block(%ks in 3, %i in 10, %j in 7) thread(%t in 32)
// ROWS: %acc = tile.combine add %acc_part across(%t) : f32
// ROWS-NEXT: tile.atomic_add %acc, %C[%i, %j] across(%ks) : memref<10x7xf32>
%A = "test.op"() : () -> tensor<10x50xf32>
%B = "test.op"() : () -> tensor<50x7xf32>
%C = loop.kernel @mm(%A: memref<10x50xf32> = %A, %B: memref<50x7xf32> align 4 = %B) -> (%C: memref<10x7xf32>) {
  loop.for %i in 10, %j in 7 {
    %acc = loop.reduce add %k in 50 -> f32 {
      %a = loop.load %A[%i, %k] : memref<10x50xf32>
      %b = loop.load %B[%k, %j] : memref<50x7xf32>
      %p = arith.mulf %a, %b : f32
      loop.yield %p : f32
    }
    loop.store %acc, %C[%i, %j] : memref<10x7xf32>
  }
}

// -----

// Sums of i32 and f64, without free axes.
// SAYS: split-matmul-k: count: 3 parts
// SAYS: split-matmul-k: wide: 3 parts
// CHECK: tile.atomic_add %s, %N[] across(%ks) : memref<i32>
// CHECK: tile.atomic_add %s, %W[] across(%ks) : memref<f64>
%x = "test.op"() : () -> tensor<50xi32>
%w = "test.op"() : () -> tensor<50xf64>
%N = loop.kernel @count(%x: memref<50xi32> = %x) -> (%N: memref<i32>) {
  %s = loop.reduce add %k in 50 -> i32 {
    %a = loop.load %x[%k] : memref<50xi32>
    loop.yield %a : i32
  }
  loop.store %s, %N[] : memref<i32>
}
%W = loop.kernel @wide(%w: memref<50xf64> = %w) -> (%W: memref<f64>) {
  %s = loop.reduce add %k in 50 -> f64 {
    %a = loop.load %w[%k] : memref<50xf64>
    loop.yield %a : f64
  }
  loop.store %s, %W[] : memref<f64>
}

// -----

// SAYS: split-matmul-k: added: skipped, it adds to its output atomically already
%x = "test.op"() : () -> tensor<4x50xf32>
%Y = tile.kernel @added(%x: memref<4x50xf32> = %x) -> (%Y: memref<4xf32> zeroed) schedule "tileify" {
  tile.launch thread(%i in 4) {
    %s = tile.reduce add serial(%k in 50) -> f32 {
      %a = tile.load %x[%i, %k] : memref<4x50xf32>
      tile.yield %a : f32
    }
    tile.atomic_add %s, %Y[%i] : memref<4xf32>
  }
}
