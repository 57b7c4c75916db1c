// RUN: dlc-opt %s -p 'tileify,split-matmul-k{splits=3 combine=last}' --split-input-file | filecheck %s
// RUN: dlc-opt %s -p 'tileify,split-matmul-k{splits=3 combine=last},blockify-launch{block=4,8 thread=2,4},register-tile{extents=2,2}' --split-input-file | filecheck %s --check-prefix=LATER
// RUN: dlc-opt %s -p 'tileify,split-matmul-k{splits=3 combine=last},blockify-launch{block=4,8 thread=2,4},bind-axes' --split-input-file | filecheck %s --check-prefix=BOUND
// RUN: dlc-opt %s -p 'tileify,split-matmul-k{splits=3 combine=last},cooperative-reduce{threads=32}' --split-input-file | filecheck %s --check-prefix=ROWS
// RUN: dlc-opt %s -p 'tileify,split-matmul-k{splits=3 combine=last}' --split-input-file --remarks 2>&1 >/dev/null | filecheck %s --check-prefix=SAYS
// RUN: dlc-opt %s -p 'tileify,split-matmul-k{splits=3 combine=last},blockify-launch{block=4,8 thread=2,4},register-tile{extents=2,2},bind-axes,lower-stages,lower-reduces,lower-registers,place-barriers,vectorize-accesses' --split-input-file -t cuda | filecheck %s --check-prefix=CUDA
// RUN: not dlc-opt %s -p 'tileify,split-matmul-k{splits=3 combine=last then="tileify"}' --split-input-file 2>&1 | filecheck %s --check-prefix=THEN
// THEN: error: split-matmul-k: combine=last makes no second kernel for then to schedule

// The last of the blocks that share a point folds what they hold, and does what depends on it.
// SAYS: split-matmul-k: mm: 3 parts of %k in 50, each of at most 17 points, folded by the last block
// CHECK: %C = tile.kernel @mm(%A: memref<10x50xf32> = %A, %B: memref<50x7xf32> align 4 = %B, %c: memref<7xf32> = %c) -> (%C: memref<10x7xf32>)
// CHECK-NEXT: tile.launch block(%ks in 3) thread(%i in 10, %j in 7) {
// CHECK-NEXT: %acc_part = tile.reduce add serial(%k in 17) -> f32 {
// CHECK-NEXT: tile.load %A[%i, %ks * 17 + %k]
// CHECK: tile.yield %p where (%ks * 17 + %k < 50) : f32
// CHECK-NEXT: }
// CHECK-NEXT: %acc = tile.combine add %acc_part across(%ks) : f32
// CHECK-NEXT: %bias = tile.load %c[%j]
// CHECK-NEXT: arith.addf %acc, %bias
// CHECK-NEXT: tile.store {{.*}}, %C[%i, %j] : memref<10x7xf32>
// CHECK-NOT: tile.kernel @mm_combine

// LATER: tile.launch block(%ks in 3, %bi in 3) thread(%ti in 2, %tj in 4) register(%ri in 2, %rj in 2)
// LATER: %acc = tile.combine add %acc_part across(%ks) : f32
// LATER: tile.store {{.*}}, %C[%bi * 4 + %ti * 2 + %ri, %tj * 2 + %rj]

// All blocks store what they hold, whatever the order of the launch's axes, and one goes on. What
// mentions serial axes has loops of its own before and after.
// BOUND: kernel.func @mm(%A: memref<10x50xf32>, %B: memref<50x7xf32> align 4, %c: memref<7xf32>) -> (%C: memref<10x7xf32>, %acc_parts: memref<3x3x2x2x2x4xf32>, %arrived: memref<3xi32> zeroed) grid 9 block 8 lockstep
// BOUND: tile.for serial(%ei in 2) {
// BOUND-NEXT: tile.for serial(%ej in 2) {
// BOUND: tile.store %acc_part, %acc_parts[%ks, %bi, %ei, %ej, %ti, %tj] : memref<3x3x2x2x2x4xf32>
// BOUND-NEXT: }
// BOUND-NEXT: }
// BOUND-NEXT: kernel.last_block %arrived[%bi] of 3 : memref<3xi32>
// BOUND-NEXT: tile.for serial(%ei_1 in 2) {
// BOUND-NEXT: tile.for serial(%ej_1 in 2) {
// BOUND-NEXT: %acc = tile.reduce add serial(%ks_1 in 3) -> f32 {
// BOUND-NEXT: %acc_part_1 = tile.load %acc_parts[%ks_1, %bi, %ei_1, %ej_1, %ti, %tj]
// BOUND-NEXT: tile.yield %acc_part_1 : f32
// BOUND-NEXT: } {unroll}
// BOUND: tile.load %c[%tj * 2 + %ej_1]
// BOUND: tile.store {{.*}}, %C[%bi * 4 + %ti * 2 + %ei_1, %tj * 2 + %ej_1] where

// What the threads of a block hold is combined before.
// ROWS: tile.launch block(%ks in 3, %i in 10, %j in 7) thread(%t in 32)
// ROWS: %acc_part = tile.combine add %acc_part_part across(%t) : f32
// ROWS-NEXT: %acc = tile.combine add %acc_part across(%ks) : f32

// Neighbouring threads store runs of neighbours.
// CUDA: bool last_block(int* count, int blocks)
// CUDA: // grid 9, block 8; zeroed before: arrived; schedule:
// CUDA: store2(&acc_parts[{{.*}} + ti * 8 + tj * 2], load2(
// CUDA: if (!last_block(&arrived[bi], 3)) return;
// CUDA: load2(&acc_parts[
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
