// RUN: dlc-opt %s -p 'tileify,chunk-matmul-k{bk=16}' | filecheck %s
// RUN: dlc-opt %s -p 'tileify,chunk-matmul-k{bk=4096}' --remarks 2>&1 >/dev/null | filecheck %s --check-prefix=SHORT
// RUN: dlc-opt %s -p 'chunk-matmul-k{bk=16}' --remarks 2>&1 >/dev/null | filecheck %s --check-prefix=EARLY
// SHORT: chunk-matmul-k: mm: skipped, no K is longer than a chunk of 4096
// SHORT: chunk-matmul-k: row_sum: skipped, it has no contraction
// EARLY: chunk-matmul-k: mm: skipped, tileify has not run

// A ragged last chunk folds the identity.
// CHECK-LABEL: tile.kernel @mm
// CHECK: %acc = tile.reduce add serial(%ko in 128) -> f32 {
// CHECK-NEXT: %acc_part = tile.reduce add serial(%ki in 16) -> f32 {
// CHECK-NEXT: tile.load %A[%i, %ko * 16 + %ki]
// CHECK-NEXT: tile.load %B[%ko * 16 + %ki, %j]
// CHECK: tile.yield %p where (%ko * 16 + %ki < 2040) : f32
// CHECK: tile.yield %acc_part : f32
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

// CHECK-LABEL: tile.kernel @row_sum
// CHECK: serial(%k in 1000)
%x = "test.op"() : () -> tensor<30x1000xf32>
%y = loop.kernel @row_sum(%x: memref<30x1000xf32> = %x) -> (%y: memref<30xf32>) {
  loop.for %row in 30 {
    %s = loop.reduce add %k in 1000 -> f32 {
      %a = loop.load %x[%row, %k] : memref<30x1000xf32>
      loop.yield %a : f32
    }
    loop.store %s, %y[%row] : memref<30xf32>
  }
}
