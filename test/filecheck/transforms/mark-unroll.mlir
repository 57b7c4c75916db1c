// RUN: dlc-opt %s -p 'tileify,chunk-matmul-k{bk=16},mark-unroll{limit=16}' | filecheck %s
// RUN: dlc-opt %s -p 'tileify,chunk-matmul-k{bk=16},mark-unroll{limit=8}' --remarks 2>&1 >/dev/null | filecheck %s --check-prefix=LIMIT
// RUN: sed 's/ll{limit=4}/ll/' %s | not dlc-opt -p 'tileify,chunk-matmul-k{bk=16},mark-unroll' 2>&1 | filecheck %s --check-prefix=BARE
// BARE: error: schedule of loops: mark-unroll: option 'limit' is missing
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

// Only what is innermost, counts its points over all serial axes, and neither stages nor works
// through a ring. A loop over register axes alone is unrolled anyway.
// RUN: dlc-opt %s -p 'tileify,mark-unroll{limit=16}' --remarks 2>%t.remarks | filecheck %s --check-prefix=LOOPS
// RUN: filecheck %s --check-prefix=REMARK --input-file=%t.remarks
// REMARK: mark-unroll: loops: 2 loops
// LOOPS-LABEL: tile.kernel @loops
// LOOPS: tile.for serial(%i in 2, %j in 8) {
// LOOPS: } {unroll}
// LOOPS: tile.for serial(%{{.*}} in 3, %{{.*}} in 8) {
// LOOPS: }{{$}}
// LOOPS-NEXT: tile.for register(%{{.*}} in 4) {
// LOOPS: }{{$}}
// LOOPS-NEXT: tile.for serial(%{{.*}} in 4) {
// LOOPS-NEXT: %s = tile.stage
// LOOPS: }{{$}}
// LOOPS-NEXT: tile.for serial(%{{.*}} in 4) {
// LOOPS-NEXT: tile.fill
// LOOPS: }{{$}}
// LOOPS-NEXT: tile.for serial(%{{.*}} in 4) {
// LOOPS-NEXT: tile.for serial(%{{.*}} in 4) {
// LOOPS: } {unroll}
// LOOPS-NEXT: }{{$}}
%x = "test.op"() : () -> tensor<64xf32>
%y = tile.kernel @loops(%x: memref<64xf32> = %x) -> (%y: memref<64xf32>) schedule "mark-unroll{limit=4}" {
  tile.launch thread(%t in 8) {
    %r = tile.ring %x(%n in 4)[%n * 8] [8] : memref<64xf32> -> memref<2x8xf32, #tile.shared>
    tile.for serial(%i in 2, %j in 8) {
      %v = tile.load %x[%i * 8 + %j] : memref<64xf32>
    }
    tile.for serial(%i in 3, %j in 8) {
      %v = tile.load %x[%i * 8 + %j] : memref<64xf32>
    }
    tile.for register(%i in 4) {
      %v = tile.load %x[%i] : memref<64xf32>
    }
    tile.for serial(%i in 4) {
      %s = tile.stage %x[%i * 8] [8] : memref<64xf32> -> memref<8xf32, #tile.shared>
    }
    tile.for serial(%i in 4) {
      tile.fill %r[%i]
    }
    tile.for serial(%i in 4) {
      tile.for serial(%j in 4) {
        %v = tile.load %x[%i * 4 + %j] : memref<64xf32>
      }
    }
  }
}
