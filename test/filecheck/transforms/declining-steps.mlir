// Steps whose precondition is missing leave the kernel as it is and say why.
// RUN: dlc-opt %s -p 'tileify,split-matmul-k{splits=1},chunk-reduce{bk=32},permute-register-tile,double-buffer{depth=3},tma-copy,split-inner-for-swizzle{bytes=128},async-copy,pad-smem,pipeline-k-outer' --remarks 2>&1 >/dev/null | filecheck %s
// CHECK: split-matmul-k: mm: skipped, it needs splits, at least 2 parts of a reduce
// CHECK: chunk-reduce: mm: skipped, it has no reduce but contractions and those in chunks already
// CHECK: permute-register-tile: mm: skipped, it has no register axis (register-tile makes them)
// CHECK: double-buffer: mm: skipped, it has no loop over chunks that stages them
// CHECK: tma-copy: mm: skipped, the kernel's schedule does not name it
// CHECK: split-inner-for-swizzle: mm: skipped, it has no TMA ring (tma-copy makes them)
// CHECK: async-copy: mm: skipped, it has no ring (double-buffer makes them)
// CHECK: pad-smem: mm: skipped, it has no buffer in shared memory (stage-inputs makes them)
// CHECK: pipeline-k-outer: mm: skipped, it has no ring (double-buffer makes them)

// Where the schedule names them, they say what is missing.
// RUN: dlc-opt %s -p 'tileify,permute-register-tile,tma-copy,async-copy,pad-smem,pipeline-k-outer' --remarks 2>&1 >/dev/null | filecheck %s --check-prefix=NAMED
// NAMED: permute-register-tile: copy: skipped, it has no register axis (register-tile makes them)
// NAMED: tma-copy: copy: skipped, it has no ring (double-buffer makes them)
// NAMED: async-copy: copy: skipped, it has no ring (double-buffer makes them)
// NAMED: pad-smem: copy: skipped, it has no buffer in shared memory (stage-inputs makes them)
// NAMED: pipeline-k-outer: copy: skipped, it has no ring (double-buffer makes them)
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

%D = loop.kernel @copy(%A: memref<100x2040xf32> = %A) -> (%D: memref<100x2040xf32>)
    schedule "tileify,permute-register-tile,tma-copy,async-copy,pad-smem,pipeline-k-outer" {
  loop.for %i in 100, %j in 2040 {
    %a = loop.load %A[%i, %j] : memref<100x2040xf32>
    loop.store %a, %D[%i, %j] : memref<100x2040xf32>
  }
}
