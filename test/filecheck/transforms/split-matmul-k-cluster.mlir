// RUN: dlc-opt %s -p 'tileify,split-matmul-k{splits=3 combine=cluster}' --split-input-file | filecheck %s
// RUN: dlc-opt %s -p 'tileify,split-matmul-k{splits=3 combine=cluster}' --split-input-file --remarks 2>&1 >/dev/null | filecheck %s --check-prefix=SAYS
// RUN: dlc-opt %s -p 'tileify,split-matmul-k{splits=3 combine=cluster},blockify-launch{block=4,8 thread=2,4},register-tile{extents=2,2},bind-axes' --split-input-file | filecheck %s --check-prefix=SHARED
// RUN: dlc-opt %s -p 'tileify,split-matmul-k{splits=2 combine=cluster},blockify-launch{block=4,8 thread=1,4},register-tile{extents=4,2},bind-axes' --split-input-file | filecheck %s --check-prefix=SEVERAL
// RUN: dlc-opt %s -p 'tileify,split-matmul-k{splits=3 combine=cluster},cooperative-reduce{threads=32},bind-axes' --split-input-file | filecheck %s --check-prefix=ROWS
// RUN: dlc-opt %s -p 'tileify,split-matmul-k{splits=3 combine=cluster},blockify-launch{block=4,8 thread=2,4},bind-axes' --split-input-file | filecheck %s --check-prefix=LOOPS
// RUN: dlc-opt %s -p 'tileify,split-matmul-k{splits=3 combine=cluster},blockify-launch{block=4,8 thread=2,4},register-tile{extents=2,2},bind-axes,lower-stages,lower-reduces,lower-registers,place-barriers,vectorize-accesses' --split-input-file -t cuda | filecheck %s --check-prefix=CUDA
// RUN: not dlc-opt %s -p 'tileify,split-matmul-k{splits=16 combine=cluster}' --split-input-file 2>&1 | filecheck %s --check-prefix=MANY
// RUN: not dlc-opt %s -p 'tileify,split-matmul-k{splits=3 combine=cluster then="tileify"}' --split-input-file 2>&1 | filecheck %s --check-prefix=THEN
// MANY: error: kernel mm: split-matmul-k: a cluster has at most 8 blocks, found 16 parts
// THEN: error: split-matmul-k: combine=cluster makes no second kernel for then to schedule

// The blocks that share a point are a cluster.
// SAYS: split-matmul-k: mm: 3 parts of %k in 50, each of at most 17 points, folded by the blocks of a cluster
// CHECK: tile.launch block(%ks in 3) thread(%i in 10, %j in 7) {
// CHECK: %acc = tile.combine add %acc_part across(%ks) cluster : f32
// CHECK-NEXT: %bias = tile.load %c[%j]
// CHECK: tile.store {{.*}}, %C[%i, %j] : memref<10x7xf32>

// Each thread puts what it holds into the shared memory of its block; a block folds its share, here
// of the rows of a thread, of which the third block has none.
// SHARED: kernel.func @mm({{.*}}) -> (%C: memref<10x7xf32>) grid 9 block 8 cluster 3 lockstep
// SHARED: %ks = kernel.index %bid mod 3
// SHARED: %bi = kernel.index %bid floordiv 3
// SHARED: %acc_parts = kernel.alloc_shared : memref<2x8x2xf32, #kernel.shared>
// SHARED-NEXT: %all_acc_parts = kernel.map_cluster %acc_parts
// SHARED-NEXT: tile.store %acc_part, %acc_parts[%ri, %ti * 4 + %tj, %rj]
// SHARED-NEXT: kernel.cluster_barrier
// SHARED-NEXT: %acc = tile.reduce add serial(%ks_1 in 3) -> f32 {
// SHARED-NEXT: tile.load %all_acc_parts[%ks_1, %ks, %ti * 4 + %tj, %rj]
// SHARED: tile.store {{.*}}, %C[%bi * 4 + %ti * 2 + %ks, %tj * 2 + %rj] where (%bi * 4 + %ti * 2 + %ks < 10, %tj * 2 + %rj < 7, %ks < 2)
// SHARED-NEXT: kernel.cluster_barrier relaxed

// SEVERAL: tile.for register(%ri in 4, %rj in 2, %own_ri in 2) {
// SEVERAL: tile.load %all_acc_parts[%ks_1, %ks * 2 + %own_ri, %tj, %rj]
// SEVERAL: tile.store {{.*}}, %C[%bi * 4 + %ks * 2 + %own_ri, %tj * 2 + %rj]

// Where a thread holds one point, each block folds it, and one stores it.
// ROWS: tile.load %all_acc_parts[%ks_1, %t]
// ROWS: tile.store {{.*}}, %C[{{.*}}] where ({{.*}}%ks < 1

// What mentions serial axes has loops of its own before and after; blocks meet outside of them.
// LOOPS: tile.for serial(%ei in 2) {
// LOOPS: tile.store %acc_part, %acc_parts[%ei, %ej, %ti * 4 + %tj]
// LOOPS-NEXT: }
// LOOPS-NEXT: }
// LOOPS-NEXT: kernel.cluster_barrier
// LOOPS-NEXT: tile.for serial(%ej_1 in 2) {
// LOOPS: tile.load %all_acc_parts[%ks_1, %ks, %ej_1, %ti * 4 + %tj]
// LOOPS: tile.store
// LOOPS-NEXT: }
// LOOPS-NEXT: kernel.cluster_barrier relaxed

// CUDA: // grid 9, block 8, clusters of 3; schedule:
// CUDA: __cluster_dims__(3, 1, 1) __launch_bounds__(8)
// CUDA: store2(&acc_parts[ri * 16 + ti * 8 + tj * 2], load2(
// CUDA: cluster_barrier();
// CUDA: load2(&cluster_shared(acc_parts, ks_1)[ks * 16 + ti * 8 + tj * 2])
// CUDA: cluster_barrier_relaxed();
%A = "test.op"() : () -> tensor<10x50xf32>
%B = "test.op"() : () -> tensor<50x7xf32>
%c = "test.op"() : () -> tensor<7xf32>
%C = loop.kernel @mm(%A: memref<10x50xf32> = %A, %B: memref<50x7xf32> align 4 = %B, %c: memref<7xf32> = %c) -> (%C: memref<10x7xf32>) {
  loop.for %i in 10, %j in 7 {
    %acc = loop.reduce add %k in 50 -> f32 {
      %a = loop.load %A[%i, %k] : memref<10x50xf32>
      %b = loop.load %B[%k, %j] : memref<50x7xf32>
      %p = arith.mulf %a, %b : f32
      loop.yield %p : f32
    }
    %bias = loop.load %c[%j] : memref<7xf32>
    %s = arith.addf %acc, %bias : f32
    loop.store %s, %C[%i, %j] : memref<10x7xf32>
  }
}
