// A step takes its options from the kernel's schedule, and says which one it misses there.
// RUN: dlc-opt %s -p 'tileify,chunk-matmul-k,cooperative-reduce,blockify-launch,stage-inputs,register-tile,mark-unroll' --remarks 2>&1 >/dev/null | filecheck %s
// RUN: sed 's/{bk=16}//' %s | not dlc-opt -p tileify 2>&1 | filecheck %s --check-prefix=BK
// RUN: sed 's/{budget=49152}//' %s | not dlc-opt -p mark-unroll 2>&1 | filecheck %s --check-prefix=BUDGET
// RUN: sed 's/{extents=2,2}//' %s | not dlc-opt -p tileify 2>&1 | filecheck %s --check-prefix=EXTENTS
// RUN: sed 's/{limit=4}//' %s | not dlc-opt -p tileify 2>&1 | filecheck %s --check-prefix=LIMIT
// CHECK: tileify: mm: thread axes %i, %j
// CHECK: chunk-matmul-k: mm: K in chunks of 16
// BK: <stdin>:{{[0-9]+}}:23: error: schedule of mm: chunk-matmul-k: option 'bk' is missing
// BK: hint: write chunk-matmul-k{bk=...}
// CHECK: cooperative-reduce: mm: skipped, the kernel's schedule does not name it
// CHECK: blockify-launch: mm: blocks of 32 x 32 points, 8 x 8 threads
// CHECK: stage-inputs: mm: staged
// BUDGET: error: schedule of mm: stage-inputs: option 'budget' is missing
// CHECK: register-tile: mm: 2 x 2 points in registers
// EXTENTS: error: schedule of mm: register-tile: option 'extents' is missing
// CHECK: mark-unroll: mm: skipped, it has no innermost serial loop of at most 4 points
// LIMIT: error: schedule of mm: mark-unroll: option 'limit' is missing
%A = "test.op"() : () -> tensor<100x2040xf32>
%B = "test.op"() : () -> tensor<2040x257xf32>
%C = loop.kernel @mm(%A: memref<100x2040xf32> = %A, %B: memref<2040x257xf32> = %B) -> (%C: memref<100x257xf32>)
    schedule "tileify,chunk-matmul-k{bk=16},blockify-launch{block=32,32 thread=8,8},stage-inputs{budget=49152},register-tile{extents=2,2},mark-unroll{limit=4}" {
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
