// RUN: dlc-opt %s -p 'tileify,chunk-matmul-k{bk=16},blockify-launch{block=128,128 thread=16,16},stage-inputs{budget=49152}' | filecheck %s
// RUN: dlc-opt %s -p 'tileify,chunk-matmul-k{bk=16},blockify-launch{block=128,128 thread=16,16},stage-inputs{budget=49152 buffers="B"}' | filecheck %s --check-prefix=ONLY
// RUN: dlc-opt %s -p 'tileify,chunk-matmul-k{bk=16},blockify-launch{block=128,128 thread=16,16},stage-inputs{budget=10000}' --remarks 2>&1 >/dev/null | filecheck %s --check-prefix=ONE
// RUN: dlc-opt %s -p 'tileify,chunk-matmul-k{bk=16},blockify-launch{block=128,128 thread=16,16},stage-inputs{budget=100}' --remarks 2>&1 >/dev/null | filecheck %s --check-prefix=NONE
// RUN: not dlc-opt %s -p 'tileify,chunk-matmul-k{bk=16},stage-inputs{budget=49152}' 2>&1 | filecheck %s --check-prefix=EARLY
// RUN: not dlc-opt %s -p 'tileify,chunk-matmul-k{bk=16},stage-inputs{buffers="B"}' 2>&1 | filecheck %s --check-prefix=BARE
// BARE: error: kernel mm: stage-inputs: option 'budget' is missing
// RUN: not dlc-opt %s -p 'tileify,blockify-launch{block=128,128 thread=16,16},stage-inputs{budget=49152 buffers="B","bias"}' 2>&1 | filecheck %s --check-prefix=NAMES
// NAMES: error: kernel mm: stage-inputs: it has no input bias
// NAMES: hint: its inputs are A, B
// ONE: stage-inputs: mm: staged A (8192 B, read 128 times)
// NONE: stage-inputs: mm: skipped, 8192 B > 100 B of shared memory
// EARLY: error: kernel mm: stage-inputs: its threads are not partitioned into blocks yet
// EARLY: hint: run blockify-launch or cooperative-reduce first

// CHECK: tile.reduce add serial(%ko in 128) -> f32 {
// CHECK-NEXT: %A_smem = tile.stage %A[0, %ko * 16] [128, 16] : memref<100x2040xf32> -> memref<128x16xf32, #tile.shared>
// CHECK-NEXT: %B_smem = tile.stage %B[%ko * 16, %bj * 128] [16, 128] : memref<2040x257xf32> -> memref<16x128xf32, #tile.shared>
// CHECK-NEXT: tile.reduce add serial(%ki in 16) -> f32 {
// CHECK-NEXT: tile.load %A_smem[%ti * 8 + %ei, %ki]
// CHECK-NEXT: tile.load %B_smem[%ki, %tj * 8 + %ej]
// Beyond K both factors are 0, and so is what they add: the sum needs no guard.
// CHECK: tile.yield %p : f32
// ONLY-NOT: tile.stage %A
// ONLY: tile.stage %B
// A that is not staged may be anything there.
// ONLY: tile.yield %p where (%ko * 16 + %ki < 2040) : f32
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

// RUN: dlc-opt %s -p 'tileify,blockify-launch{block=256 thread=256},stage-inputs{budget=49152}' --remarks 2>&1 >/dev/null | filecheck %s --check-prefix=REUSE
// REUSE: stage-inputs: copy: skipped, no block reads an input more than once in a loop
%D = loop.kernel @copy(%B: memref<100x2040xf32> = %A) -> (%D: memref<100x2040xf32>) {
  loop.for %i in 100, %j in 2040 {
    %a = loop.load %B[%i, %j] : memref<100x2040xf32>
    loop.store %a, %D[%i, %j] : memref<100x2040xf32>
  }
}
