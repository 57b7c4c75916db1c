// A step takes its options from the kernel's schedule, and says which one it misses there.
// RUN: dlc-opt %s -p 'tileify,chunk-matmul-k,cooperative-reduce,blockify-launch,stage-inputs,register-tile,mark-unroll' --remarks 2>&1 >/dev/null | filecheck %s
// CHECK: tileify: mm: thread axes %i, %j
// CHECK: chunk-matmul-k: mm: skipped, it needs bk, the points of K in a chunk
// CHECK: cooperative-reduce: mm: skipped, the kernel's schedule does not name it
// CHECK: blockify-launch: mm: blocks of 32 x 32 points, 8 x 8 threads
// CHECK: stage-inputs: mm: skipped, it needs budget, the bytes of shared memory for slabs
// CHECK: register-tile: mm: skipped, it needs extents, the points of each serial axis held at once
// CHECK: mark-unroll: mm: skipped, it needs limit, the most points of a loop that is unrolled
%A = "test.op"() : () -> tensor<100x2040xf32>
%B = "test.op"() : () -> tensor<2040x257xf32>
%C = loop.kernel @mm(%A: memref<100x2040xf32> = %A, %B: memref<2040x257xf32> = %B) -> (%C: memref<100x257xf32>)
    schedule "tileify,chunk-matmul-k,blockify-launch{block=32,32 thread=8,8},stage-inputs,register-tile,mark-unroll" {
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
