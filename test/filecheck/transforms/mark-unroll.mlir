// RUN: dlc-opt %s -p 'tileify,chunk-matmul-k{bk=16},mark-unroll{limit=16}' | filecheck %s
// RUN: dlc-opt %s -p 'tileify,chunk-matmul-k{bk=16},mark-unroll{limit=8}' --remarks 2>&1 >/dev/null | filecheck %s --check-prefix=LIMIT
// LIMIT: mark-unroll: mm: skipped, it has no innermost serial loop of at most 8 points

// CHECK: tile.reduce add serial(%ko in 128) -> f32 {
// CHECK: tile.reduce add serial(%ki in 16) -> f32 {
// CHECK: } {unroll}
// CHECK-NEXT: tile.yield %acc_part
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
