// RUN: dlc-opt %s -p 'tileify,blockify-launch{block=128,128 thread=16,16}' | filecheck %s
// RUN: dlc-opt %s -p 'tileify,blockify-launch{block=32 thread=32}' | filecheck %s --check-prefix=RIGHT
// RUN: not dlc-opt %s -p 'tileify,blockify-launch{block=10 thread=3}' 2>&1 | filecheck %s --check-prefix=DIVIDE
// RUN: not dlc-opt %s -p 'tileify,blockify-launch{block=64,64 thread=64,64}' 2>&1 | filecheck %s --check-prefix=MANY
// RUN: not dlc-opt %s -p 'tileify,blockify-launch{block=64}' 2>&1 | filecheck %s --check-prefix=NEEDS
// RUN: not dlc-opt %s -p 'tileify,chunk-matmul-k{bk=16},blockify-launch{block=32,32 thread=8,8},stage-inputs{budget=49152},blockify-launch{block=4 thread=4}' 2>&1 | filecheck %s --check-prefix=STAGED
// STAGED: blockify-launch.mlir:{{[0-9]+}}:6: error: kernel mm: blockify-launch: slabs are staged already for the blocks that there are
// STAGED-NEXT: {{^}}blockify-launch{block=4 thread=4}
// STAGED-NEXT: {{^}}^^^^^^^^^^^^^^^
// STAGED-NEXT: hint: run blockify-launch before stage-inputs
// RUN: dlc-opt %s -p 'tileify,blockify-launch{block=16,32 thread=16,8 group=3}' | filecheck %s --check-prefix=PANELS
// RUN: dlc-opt %s -p 'tileify,blockify-launch{block=16,32 thread=16,8 group=4}' --remarks 2>&1 >/dev/null | filecheck %s --check-prefix=RAGGED
// RUN: dlc-opt %s -p 'tileify,blockify-launch{block=16,32 thread=8,8 lanes=2}' | filecheck %s --check-prefix=LANES
// RUN: dlc-opt %s -p 'tileify,blockify-launch{block=1,32 thread=1,8 lanes=2}' | filecheck %s --check-prefix=ALONE
// RUN: not dlc-opt %s -p 'tileify,blockify-launch{block=12,32 thread=3,8 lanes=2}' 2>&1 | filecheck %s --check-prefix=ODD
// ODD: error: kernel mm: blockify-launch: 2 neighbours do not divide 3 threads
// ODD: hint: 1 or 3 divides 3
// RUN: dlc-opt %s -p 'tileify,blockify-launch{block=16,32 thread=16,8 group=9}' | filecheck %s --check-prefix=WIDE
// RUN: dlc-opt %s -p 'tileify,blockify-launch{block=128,32 thread=16,8 group=3}' | filecheck %s --check-prefix=ROW
// RUN: not dlc-opt %s -p 'tileify,blockify-launch{block=16,32 thread=16,8 group=-1}' 2>&1 | filecheck %s --check-prefix=GROUP
// RAGGED: blockify-launch: mm: blocks of 16 x 32 points, 16 x 8 threads, in panels of 4 block columns, of which the last 3 have no points
// GROUP: <pipeline>:1:49: error: blockify-launch: group must be at least 0, not -1
// DIVIDE: <pipeline>:1:34: error: blockify-launch: 3 threads do not divide a block of 10 points
// DIVIDE: hint: 1, 2, 5 or 10 divides 10
// RUN: not dlc-opt %s -p 'tileify,blockify-launch{block=8,8 thread=8,8,8}' 2>&1 | filecheck %s --check-prefix=THREADS
// THREADS: <pipeline>:1:35: error: blockify-launch: thread=8,8,8 has 3 sizes, and block=8,8 has 2
// THREADS: hint: sizes are aligned from the right: leave out the first
// MANY: <pipeline>:1:37: error: blockify-launch: 4096 threads are more than the 1024 that a block can have
// NEEDS: error: kernel mm: blockify-launch: option 'thread' is missing
// NEEDS: hint: write blockify-launch{thread=...}
// RUN: not dlc-opt %s -p 'tileify,blockify-launch{block=8,8,8 thread=8,8,8}' 2>&1 | filecheck %s --check-prefix=SURPLUS
// SURPLUS: blockify-launch.mlir:{{[0-9]+}}:6: error: kernel mm: blockify-launch: block=8,8,8 has 3 sizes, and the axes are %i, %j
// SURPLUS-NEXT: {{^}}blockify-launch{block=8,8,8 thread=8,8,8}
// SURPLUS-NEXT: {{^}}                ^^^^^
// SURPLUS-NEXT: hint: sizes are aligned from the right: leave out the first
// RUN: not dlc-opt %s -p 'tileify,blockify-launch{block=8,0 thread=8,1}' 2>&1 | filecheck %s --check-prefix=ZERO
// ZERO: <pipeline>:1:25: error: blockify-launch: block must be at least 1, not 0

// CHECK: tile.launch block(%bj in 3) thread(%ti in 16, %tj in 16) serial(%ei in 8, %ej in 8) {
// CHECK: tile.load %A[%ti * 8 + %ei, %k]
// CHECK: tile.store %acc, %C[%ti * 8 + %ei, %bj * 128 + %tj * 8 + %ej] where (%ti * 8 + %ei < 100, %bj * 128 + %tj * 8 + %ej < 257)

// Lists align from the right; an axis further left is walked by blocks alone.
// RIGHT: tile.launch block(%bi in 100, %bj in 9) thread(%tj in 32) {
// RIGHT: tile.store %acc, %C[%bi, %bj * 32 + %tj] where (%bj * 32 + %tj < 257)

// 9 block columns in panels of 3, each walked row by row.
// PANELS: tile.launch block(%bjo in 3, %bi in 7, %bji in 3) thread(%ti in 16, %tj in 8) serial(%ej in 4) {
// PANELS: tile.load %B[%k, %bjo * 96 + %bji * 32 + %tj * 4 + %ej]
// PANELS: tile.store %acc, %C[%bi * 16 + %ti, %bjo * 96 + %bji * 32 + %tj * 4 + %ej] where (%bi * 16 + %ti < 100, %bjo * 96 + %bji * 32 + %tj * 4 + %ej < 257)

// Two threads along %i are neighbours, before the warp goes on along %j.
// LANES: tile.launch block(%bi in 7, %bj in 9) thread(%tio in 4, %tj in 8, %tii in 2) serial(%ei in 2, %ej in 4) {
// LANES: tile.load %A[%bi * 16 + %tio * 4 + %tii * 2 + %ei, %k]
// ALONE: thread(%tj in 8) serial(%ej in 4)

// One panel, or one row of blocks, is walked as it would be without.
// WIDE: tile.launch block(%bi in 7, %bj in 9) thread
// ROW: tile.launch block(%bj in 9) thread
%A = "test.op"() : () -> tensor<100x2040xf32>
%B = "test.op"() : () -> tensor<2040x257xf32>
%C = loop.kernel @mm(%A: memref<100x2040xf32> = %A, %B: memref<2040x257xf32> = %B) -> (%C: memref<100x257xf32>) {
  loop.for %i in 100, %j in 257 {
    %acc = loop.reduce add %k in 2040 -> f32 {
      %a = loop.load %A[%i, %k] : memref<100x2040xf32>
      %b = loop.load %B[%k, %j] : memref<2040x257xf32>
      %p = arith.mulf %a, %b : f32
      loop.yield %p : f32
    }
    loop.store %acc, %C[%i, %j] : memref<100x257xf32>
  }
}

// RUN: dlc-opt %s -p 'tileify,blockify-launch{block=4 thread=4}' --remarks 2>&1 >/dev/null | filecheck %s --check-prefix=FREE
// FREE: blockify-launch: total: skipped, it has no free thread axis
%t = loop.kernel @total(%A: memref<100x2040xf32> = %A) -> (%t: memref<f32>) {
  %s = loop.reduce add %k in 100 -> f32 {
    %a = loop.load %A[%k, 0] : memref<100x2040xf32>
    loop.yield %a : f32
  }
  loop.store %s, %t[] : memref<f32>
}
