// A step that its kernel's schedule names and whose precondition is missing says what is missing,
// and leaves the kernel as it is. What each step declines otherwise is tested in its own file.
// RUN: dlc-opt %s -p 'tileify,chunk-matmul-k,split-matmul-k,cooperative-reduce,blockify-launch,chunk-reduce,stage-inputs,register-tile,permute-register-tile,double-buffer,tma-copy,split-inner-for-swizzle,async-copy,pad-smem,pipeline-k-outer,mark-unroll' --remarks 2>%t.remarks | filecheck %s
// RUN: filecheck %s --check-prefix=REMARK --input-file=%t.remarks
// REMARK: tileify: copy: thread axes %i, %j
// REMARK-NEXT: chunk-matmul-k: copy: skipped, it has no contraction
// REMARK-NEXT: split-matmul-k: copy: skipped, it has 0 reduces beside each other, not one
// REMARK-NEXT: cooperative-reduce: copy: skipped, it has no reduce or scan
// REMARK-NEXT: blockify-launch: copy: skipped, the kernel's schedule does not name it
// REMARK-NEXT: chunk-reduce: copy: skipped, it has no reduce but contractions and those in chunks already
// REMARK-NEXT: stage-inputs: copy: skipped, no block reads an input more than once in a loop
// REMARK-NEXT: register-tile: copy: skipped, it has no serial axis
// REMARK-NEXT: permute-register-tile: copy: skipped, it has no register axis (register-tile makes them)
// REMARK-NEXT: double-buffer: copy: skipped, it has no loop over chunks that stages them
// REMARK-NEXT: tma-copy: copy: skipped, it has no ring (double-buffer makes them)
// REMARK-NEXT: split-inner-for-swizzle: copy: skipped, it has no TMA ring (tma-copy makes them)
// REMARK-NEXT: async-copy: copy: skipped, it has no ring or stage (stage-inputs makes stages)
// REMARK-NEXT: pad-smem: copy: skipped, it has no buffer in shared memory (stage-inputs makes them)
// REMARK-NEXT: pipeline-k-outer: copy: skipped, it has no ring (double-buffer makes them)
// REMARK-NEXT: mark-unroll: copy: skipped, it has no innermost serial loop of at most 16 points

// CHECK: tile.launch thread(%i in 10, %j in 20) {
// CHECK-NEXT: %a = tile.load %A[%i, %j] : memref<10x20xf32>
// CHECK-NEXT: tile.store %a, %D[%i, %j] : memref<10x20xf32>
// CHECK-NEXT: }
%A = "test.op"() : () -> tensor<10x20xf32>
%D = loop.kernel @copy(%A: memref<10x20xf32> = %A) -> (%D: memref<10x20xf32>)
    schedule "tileify,chunk-matmul-k{bk=16},split-matmul-k{splits=2 then=\"tileify\"},cooperative-reduce{threads=32 rows=1 vector=4},chunk-reduce{bk=32},stage-inputs{budget=49152},register-tile{extents=1},permute-register-tile,double-buffer{depth=3},tma-copy,split-inner-for-swizzle{bytes=128},async-copy,pad-smem,pipeline-k-outer,mark-unroll{limit=16}" {
  loop.for %i in 10, %j in 20 {
    %a = loop.load %A[%i, %j] : memref<10x20xf32>
    loop.store %a, %D[%i, %j] : memref<10x20xf32>
  }
}
