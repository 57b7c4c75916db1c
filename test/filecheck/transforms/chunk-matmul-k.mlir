// RUN: dlc-opt %s -p 'tileify,chunk-matmul-k{bk=16}' | filecheck %s
// RUN: dlc-opt %s -p 'tileify,chunk-matmul-k{bk=4096}' --remarks 2>&1 >/dev/null | filecheck %s --check-prefix=SHORT
// RUN: dlc-opt %s -p 'tileify,chunk-matmul-k{bk=16 vector=4}' --remarks 2>%t.remarks | filecheck %s --check-prefix=VECTOR
// RUN: filecheck %s --check-prefix=REMARK --input-file=%t.remarks
// RUN: dlc-opt %s -p 'tileify,chunk-matmul-k{bk=4096 vector=8}' --remarks 2>%t.wide | filecheck %s --check-prefix=WIDE
// RUN: filecheck %s --check-prefix=WIDE-REMARK --input-file=%t.wide
// RUN: not dlc-opt %s -p 'tileify,chunk-matmul-k{bk=16 vector=5}' 2>&1 | filecheck %s --check-prefix=DIVIDE
// RUN: not dlc-opt %s -p 'tileify,chunk-matmul-k{bk=16 vector=0}' 2>&1 | filecheck %s --check-prefix=ZERO
// RUN: not dlc-opt %s -p 'tileify,chunk-matmul-k{vector=4}' 2>&1 | filecheck %s --check-prefix=BK
// RUN: not dlc-opt %s -p 'tileify,chunk-matmul-k{bk=-32}' 2>&1 | filecheck %s --check-prefix=LESS
// RUN: not dlc-opt %s -p 'chunk-matmul-k{bk=16}' 2>&1 | filecheck %s --check-prefix=EARLY
// SHORT: chunk-matmul-k: mm: skipped, no K is longer than a chunk of 4096
// SHORT: chunk-matmul-k: row_sum: skipped, it has no contraction
// REMARK: chunk-matmul-k: mm: K in chunks of 16, runs of 4
// WIDE-REMARK: chunk-matmul-k: mm: K in runs of 8
// DIVIDE: error: chunk-matmul-k: a vector of 5 points does not divide a chunk of 16
// DIVIDE: hint: 1, 2, 4, 8 or 16 divides 16
// ZERO: error: chunk-matmul-k: vector must be at least 1, not 0
// BK: error: kernel mm: chunk-matmul-k: option 'bk' is missing
// LESS: <pipeline>:1:24: error: chunk-matmul-k: bk must be at least 1, not -32
// EARLY: error: kernel mm: chunk-matmul-k: tileify has not run
// EARLY: hint: run tileify first

// A ragged last chunk folds the identity.
// CHECK-LABEL: tile.kernel @mm
// CHECK: %acc = tile.reduce add serial(%ko in 128) -> f32 {
// CHECK-NEXT: %acc_part = tile.reduce add serial(%ki in 16) -> f32 {
// CHECK-NEXT: tile.load %A[%i, %ko * 16 + %ki]
// CHECK-NEXT: tile.load %B[%ko * 16 + %ki, %j]
// CHECK: tile.yield %p where (%ko * 16 + %ki < 2040) : f32
// CHECK: tile.yield %acc_part : f32

// With `vector`, the points of a run are a register axis; K shorter than a chunk has runs alone.
// VECTOR-LABEL: tile.kernel @mm
// VECTOR-SAME: schedule "tileify,chunk-matmul-k{bk=16 vector=4}"
// VECTOR: %acc = tile.reduce add serial(%ko in 128) -> f32 {
// VECTOR-NEXT: %acc_part = tile.reduce add serial(%ki in 4) register(%kv in 4) -> f32 {
// VECTOR-NEXT: tile.load %A[%i, %ko * 16 + %ki * 4 + %kv]
// VECTOR: tile.yield %p where (%ko * 16 + %ki * 4 + %kv < 2040) : f32
// WIDE-LABEL: tile.kernel @mm
// WIDE: %acc = tile.reduce add serial(%k in 255) register(%kv in 8) -> f32 {
// WIDE-NEXT: tile.load %A[%i, %k * 8 + %kv]
%A = "test.op"() : () -> tensor<100x2040xf32>
%B = "test.op"() : () -> tensor<2040x257xf32>
%C = loop.kernel @mm(%A: memref<100x2040xf32> = %A, %B: memref<2040x257xf32> = %B) -> (%C: memref<100x257xf32>) schedule "tileify" {
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


// Conditions of a fold that do not depend on the points of a chunk are those of the outer reduce.
// CHECK-LABEL: tile.kernel @taps
// CHECK: %acc = tile.reduce add serial(%l in 2, %ko in 2) -> f32 {
// CHECK: tile.yield %p where (%ko * 16 + %ki < 30) : f32
// CHECK: tile.yield %acc_part where (%i + %l < 8) : f32
%u = "test.op"() : () -> tensor<9x30xf32>
%w = "test.op"() : () -> tensor<16x2x30xf32>
%z = loop.kernel @taps(%u: memref<9x30xf32> = %u, %w: memref<16x2x30xf32> = %w) -> (%z: memref<8x16xf32>) {
  loop.for %i in 8, %j in 16 {
    %acc = loop.reduce add %l in 2, %k in 30 -> f32 {
      %a = loop.load %u[%i + %l, %k] : memref<9x30xf32>
      %b = loop.load %w[%j, %l, %k] : memref<16x2x30xf32>
      %p = arith.mulf %a, %b : f32
      loop.yield %p where (%i + %l < 8) : f32
    }
    loop.store %acc, %z[%i, %j] : memref<8x16xf32>
  }
}

// Without such conditions, chunks and the points of other axes are one axis.
// CHECK-LABEL: tile.kernel @joined
// CHECK: %acc = tile.reduce add serial(%ko in 4) -> f32 {
// CHECK: %acc_part = tile.reduce add serial(%ki in 16) -> f32 {
// CHECK: tile.load %u[%i + %ko mod 2, %ko floordiv 2 * 16 + %ki]
// CHECK: tile.yield %p where (%ko floordiv 2 * 16 + %ki < 30) : f32
%v = loop.kernel @joined(%u: memref<9x30xf32> = %u, %w: memref<16x2x30xf32> = %w) -> (%v: memref<8x16xf32>) {
  loop.for %i in 8, %j in 16 {
    %acc = loop.reduce add %l in 2, %k in 30 -> f32 {
      %a = loop.load %u[%i + %l, %k] : memref<9x30xf32>
      %b = loop.load %w[%j, %l, %k] : memref<16x2x30xf32>
      %p = arith.mulf %a, %b : f32
      loop.yield %p : f32
    }
    loop.store %acc, %v[%i, %j] : memref<8x16xf32>
  }
}
