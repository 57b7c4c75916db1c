// RUN: dlc-opt %s -p tileify | filecheck %s
// RUN: dlc-opt %s -p tileify,tileify --remarks 2>&1 >/dev/null | filecheck %s --check-prefix=AGAIN
// AGAIN: tileify: mm: thread axes %i, %j
// AGAIN: tileify: mm: skipped, the kernel is tiled already

// CHECK-LABEL: tile.kernel @mm
// CHECK: tile.launch thread(%i in 100, %j in 257) {
// CHECK-NEXT: %acc = tile.reduce add serial(%k in 2040) -> f32 {
// CHECK-NEXT: tile.load %A[%i, %k]
// CHECK: tile.yield %p : f32
// CHECK: tile.store %acc, %C[%i, %j]
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

// A loop beside a reduce stays inside: a thread for each row.
// CHECK-LABEL: tile.kernel @normalize
// CHECK: tile.launch thread(%row in 30) {
// CHECK-NEXT: tile.reduce add serial(%k in 1000)
// CHECK: tile.for serial(%c in 1000) {
%x = "test.op"() : () -> tensor<30x1000xf32>
%y = loop.kernel @normalize(%x: memref<30x1000xf32> = %x) -> (%y: memref<30x1000xf32>) {
  loop.for %row in 30 {
    %s = loop.reduce add %k in 1000 -> f32 {
      %a = loop.load %x[%row, %k] : memref<30x1000xf32>
      loop.yield %a : f32
    }
    loop.for %c in 1000 {
      %a = loop.load %x[%row, %c] : memref<30x1000xf32>
      %q = arith.divf %a, %s : f32
      loop.store %q, %y[%row, %c] : memref<30x1000xf32>
    }
  }
}

// A loop beside which only loads stand is taken along.
// CHECK-LABEL: tile.kernel @scale
// CHECK: tile.launch thread(%i in 4, %j in 8) {
// CHECK-NEXT: tile.load %w[%i]
%w = "test.op"() : () -> tensor<4xf32>
%z = loop.kernel @scale(%w: memref<4xf32> = %w) -> (%z: memref<4x8xf32>) {
  loop.for %i in 4 {
    %a = loop.load %w[%i] : memref<4xf32>
    loop.for %j in 8 {
      loop.store %a, %z[%i, %j] : memref<4x8xf32>
    }
  }
}

// Without a loop around everything, one thread.
// CHECK-LABEL: tile.kernel @total
// CHECK: tile.launch {
%t = loop.kernel @total(%w: memref<4xf32> = %w) -> (%t: memref<f32>) {
  %s = loop.reduce add %k in 4 -> f32 {
    %a = loop.load %w[%k] : memref<4xf32>
    loop.yield %a : f32
  }
  loop.store %s, %t[] : memref<f32>
}
