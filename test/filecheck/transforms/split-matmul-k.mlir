// RUN: dlc-opt %s -p 'tileify,chunk-matmul-k{bk=16},split-matmul-k{splits=3 then="tileify,blockify-launch{block=4,64 thread=4,64}"}' | filecheck %s
// RUN: dlc-opt %s -p 'tileify,chunk-matmul-k{bk=16},split-matmul-k{splits=3 then="tileify,blockify-launch{block=64 thread=64}"}' | dlc-opt -p blockify-launch | filecheck %s --check-prefix=LATER
// RUN: dlc-opt %s -p 'tileify,chunk-matmul-k{bk=16},split-matmul-k{splits=4}' | filecheck %s --check-prefix=EVEN
// RUN: dlc-opt %s -p 'tileify,chunk-matmul-k{bk=16},split-matmul-k{splits=3 combine=workspace}' --remarks 2>&1 >/dev/null | filecheck %s --check-prefix=SAYS
// RUN: not dlc-opt %s -p 'tileify,split-matmul-k{then="tileify"}' 2>&1 | filecheck %s --check-prefix=NEEDS
// RUN: not dlc-opt %s -p 'tileify,split-matmul-k{splits=0}' 2>&1 | filecheck %s --check-prefix=ONE-PART
// RUN: not dlc-opt %s -p 'tileify,split-matmul-k{splits=3 combine=tree}' 2>&1 | filecheck %s --check-prefix=OTHER
// RUN: not dlc-opt %s -p 'tileify,blockify-launch{block=8 thread=8},split-matmul-k{splits=3}' 2>&1 | filecheck %s --check-prefix=LATE
// RUN: not dlc-opt %s -p 'tileify,cooperative-reduce{threads=32},split-matmul-k{splits=3}' 2>&1 | filecheck %s --check-prefix=COMBINED
// RUN: not dlc-opt %s -p 'split-matmul-k{splits=3}' 2>&1 | filecheck %s --check-prefix=EARLY
// RUN: not dlc-opt %s -p 'tileify,split-matmul-k{splits=3 then="tile,ify"}' 2>&1 | filecheck %s --check-prefix=THEN
// SAYS: split-matmul-k: mm: 3 parts of %ko in 128, each of at most 43 points
// SAYS: split-matmul-k: total: 3 parts of %k in 2048, each of at most 683 points
// SAYS: split-matmul-k: softmax: skipped, it has 2 reduces beside each other, not one
// SAYS: split-matmul-k: inside: skipped, a reduce of it stands in a loop
// SAYS: split-matmul-k: copy: skipped, it has 0 reduces beside each other, not one
// SAYS: split-matmul-k: one: skipped, its reduce has no serial axis of at least 2 points
// SAYS: split-matmul-k: reads: skipped, it reads what it stores
// NEEDS: error: kernel mm: split-matmul-k: option 'splits' is missing
// ONE-PART: error: split-matmul-k: splits must be at least 1, not 0
// OTHER: error: option 'combine' of 'split-matmul-k' expects one of workspace, last, cluster, atomic, found tree
// LATE: error: kernel mm: split-matmul-k: the launch is partitioned already
// LATE: hint: run split-matmul-k before
// COMBINED: error: kernel mm: split-matmul-k: the launch is partitioned already
// EARLY: error: kernel mm: split-matmul-k: tileify has not run
// THEN: unknown step 'tile'

// The first kernel keeps what the reduce needs, the second gets the rest, with its inputs and
// what is known of them. 128 chunks in 3 splits of 43: the last split has one less.
// CHECK: %acc_parts = tile.kernel @mm(%A: memref<100x2048xf32> = %A, %B: memref<2048x257xf32> align 4 = %B) -> (%acc_parts: memref<3x100x257xf32>) schedule
// CHECK-NOT: arith.constant
// CHECK: tile.launch block(%ks in 3) thread(%i in 100, %j in 257) {
// CHECK-NEXT: %acc = tile.reduce add serial(%ko in 43) -> f32 {
// CHECK-NEXT: %acc_part = tile.reduce add serial(%ki in 16) -> f32 {
// CHECK-NEXT: tile.load %A[%i, %ks * 688 + %ko * 16 + %ki]
// CHECK-NEXT: tile.load %B[%ks * 688 + %ko * 16 + %ki, %j]
// CHECK: tile.yield %p : f32
// CHECK: tile.yield %acc_part where (%ks * 43 + %ko < 128) : f32
// CHECK: tile.store %acc, %acc_parts[%ks, %i, %j] : memref<3x100x257xf32>
// CHECK-NEXT: }
// CHECK: %C, %D = tile.kernel @mm_combine_2(%acc_parts: memref<3x100x257xf32> = %acc_parts, %bias: memref<257xf32> align 4 = %bias) -> (%C: memref<100x257xf32>, %D: memref<100x257xf32>) schedule "tileify,blockify-launch{block=4,64 thread=4,64}" {
// CHECK-NEXT: %zero = arith.constant
// CHECK-NEXT: tile.launch thread(%i in 100, %j in 257) {
// CHECK-NEXT: %acc = tile.reduce add serial(%ks in 3) -> f32 {
// CHECK-NEXT: %acc_part = tile.load %acc_parts[%ks, %i, %j] : memref<3x100x257xf32>
// CHECK-NEXT: tile.yield %acc_part : f32
// CHECK-NEXT: }
// CHECK-NEXT: %c = tile.load %bias[%j]
// CHECK-NEXT: %s = arith.addf %acc, %c
// CHECK-NEXT: %r = arith.maximumf %s, %zero
// CHECK-NEXT: tile.store %s, %C[%i, %j]
// CHECK-NEXT: tile.store %r, %D[%i, %j]

// EVEN: tile.launch block(%ks in 4)
// EVEN-NEXT: tile.reduce add serial(%ko in 32)
// EVEN: tile.yield %acc_part : f32
// EVEN: tile.kernel @mm_combine_2
// EVEN-SAME: schedule "tileify" {

// A later bare step does to the second kernel what its schedule says.
// LATER-LABEL: @mm_combine_2
// LATER: tile.launch block(%bi in 100, %bj in 5) thread(%tj in 64)
%A = "test.op"() : () -> tensor<100x2048xf32>
%B = "test.op"() : () -> tensor<2048x257xf32>
%bias = "test.op"() : () -> tensor<257xf32>
%C, %D = loop.kernel @mm(%A: memref<100x2048xf32> = %A, %B: memref<2048x257xf32> align 4 = %B, %bias: memref<257xf32> align 4 = %bias) -> (%C: memref<100x257xf32>, %D: memref<100x257xf32>) {
  %zero = arith.constant 0.0 : f32
  loop.for %i in 100, %j in 257 {
    %acc = loop.reduce add %k in 2048 -> f32 {
      %a = loop.load %A[%i, %k] : memref<100x2048xf32>
      %b = loop.load %B[%k, %j] : memref<2048x257xf32>
      %p = arith.mulf %a, %b : f32
      loop.yield %p : f32
    }
    %c = loop.load %bias[%j] : memref<257xf32>
    %s = arith.addf %acc, %c : f32
    %r = arith.maximumf %s, %zero : f32
    loop.store %s, %C[%i, %j] : memref<100x257xf32>
    loop.store %r, %D[%i, %j] : memref<100x257xf32>
  }
}

// A reduce of several values, without free axes, guarded where it is ragged.
// CHECK: %m_parts, %at_parts = tile.kernel @total(%A: memref<100x2048xf32> = %A) -> (%m_parts: memref<3xf32>, %at_parts: memref<3xi64>)
// CHECK: tile.launch block(%ks in 3) {
// CHECK-NEXT: %m, %at = tile.reduce argmax serial(%k in 683) -> (f32, i64) {
// CHECK: tile.index %ks * 683 + %k
// CHECK: tile.yield %a, %n where (%ks * 683 + %k < 2048) : f32, i64
// CHECK: tile.store %m, %m_parts[%ks] : memref<3xf32>
// CHECK-NEXT: tile.store %at, %at_parts[%ks] : memref<3xi64>
// CHECK: %M = tile.kernel @total_combine(%m_parts: memref<3xf32> = %m_parts, %at_parts: memref<3xi64> = %at_parts) -> (%M: memref<f32>)
// CHECK: tile.launch {
// CHECK-NEXT: %m, %at = tile.reduce argmax serial(%ks in 3) -> (f32, i64) {
// CHECK: tile.yield %m_part, %at_part : f32, i64
// CHECK: tile.store %m, %M[] : memref<f32>
%M = loop.kernel @total(%A: memref<100x2048xf32> = %A) -> (%M: memref<f32>) {
  %m, %at = loop.reduce argmax %k in 2048 -> (f32, i64) {
    %a = loop.load %A[7, %k] : memref<100x2048xf32>
    %k0 = loop.index %k
    %n = arith.index_cast %k0 : index to i64
    loop.yield %a, %n : f32, i64
  }
  loop.store %m, %M[] : memref<f32>
}

// The first axis with a point for each split is split.
// CHECK-LABEL: tile.kernel @several
// CHECK: tile.reduce add serial(%c in 2, %k in 683)
// CHECK-NEXT: tile.load %A[%i * 2 + %c, %ks * 683 + %k]
%S = loop.kernel @several(%A: memref<100x2048xf32> = %A) -> (%S: memref<50xf32>) {
  loop.for %i in 50 {
    %s = loop.reduce add %c in 2, %k in 2048 -> f32 {
      %a = loop.load %A[%i * 2 + %c, %k] : memref<100x2048xf32>
      loop.yield %a : f32
    }
    loop.store %s, %S[%i] : memref<50xf32>
  }
}

// CHECK-LABEL: tile.kernel @softmax
// CHECK-NOT: block(
// CHECK-LABEL: tile.kernel @inside
%P = loop.kernel @softmax(%A: memref<100x2048xf32> = %A) -> (%P: memref<100xf32>) {
  loop.for %i in 100 {
    %m = loop.reduce max %k in 2048 -> f32 {
      %a = loop.load %A[%i, %k] : memref<100x2048xf32>
      loop.yield %a : f32
    }
    %s = loop.reduce add %k in 2048 -> f32 {
      %a = loop.load %A[%i, %k] : memref<100x2048xf32>
      %d = arith.subf %a, %m : f32
      loop.yield %d : f32
    }
    loop.store %s, %P[%i] : memref<100xf32>
  }
}
%I, %J = loop.kernel @inside(%A: memref<100x2048xf32> = %A) -> (%I: memref<100x4xf32>, %J: memref<100xf32>) {
  loop.for %i in 100 {
    %c = loop.load %A[%i, 0] : memref<100x2048xf32>
    loop.store %c, %J[%i] : memref<100xf32>
    loop.for %j in 4 {
      %s = loop.reduce add %k in 512 -> f32 {
        %a = loop.load %A[%i, %j * 512 + %k] : memref<100x2048xf32>
        loop.yield %a : f32
      }
      loop.store %s, %I[%i, %j] : memref<100x4xf32>
    }
  }
}
%Y = loop.kernel @copy(%bias: memref<257xf32> = %bias) -> (%Y: memref<257xf32>) {
  loop.for %i in 257 {
    %a = loop.load %bias[%i] : memref<257xf32>
    loop.store %a, %Y[%i] : memref<257xf32>
  }
}
%Z = loop.kernel @one(%bias: memref<257xf32> = %bias) -> (%Z: memref<257xf32>) {
  loop.for %i in 257 {
    %s = loop.reduce add %k in 1 -> f32 {
      %a = loop.load %bias[%i] : memref<257xf32>
      loop.yield %a : f32
    }
    loop.store %s, %Z[%i] : memref<257xf32>
  }
}
%R = loop.kernel @reads(%bias: memref<257xf32> = %bias) -> (%R: memref<257xf32>) {
  loop.for %i in 257 {
    %s = loop.reduce add %k in 9 -> f32 {
      %a = loop.load %bias[%i] : memref<257xf32>
      loop.yield %a : f32
    }
    loop.store %s, %R[%i] : memref<257xf32>
    %b = loop.load %R[%i] : memref<257xf32>
    %c = arith.addf %b, %s : f32
    loop.store %c, %R[%i] : memref<257xf32>
  }
}

// A name that is taken is numbered.
%N = loop.kernel @mm_combine(%bias: memref<257xf32> = %bias) -> (%N: memref<257xf32>) {
  loop.for %i in 257 {
    %a = loop.load %bias[%i] : memref<257xf32>
    loop.store %a, %N[%i] : memref<257xf32>
  }
}
