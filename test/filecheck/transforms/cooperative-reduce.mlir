// RUN: dlc-opt %s -p 'tileify,cooperative-reduce{threads=64 rows=4 vector=4}' | filecheck %s
// RUN: dlc-opt %s -p 'tileify,cooperative-reduce{threads=16 rows=4 order=rows}' | filecheck %s --check-prefix=ROWS
// RUN: not dlc-opt %s -p 'tileify,cooperative-reduce{threads=48 order=row}' 2>&1 | filecheck %s --check-prefix=ORDER
// ORDER: error: option 'order' of 'cooperative-reduce' expects one of threads, rows, found row
// RUN: not dlc-opt %s -p 'tileify,cooperative-reduce{threads=48}' 2>&1 | filecheck %s --check-prefix=POWER
// RUN: not dlc-opt %s -p 'tileify,cooperative-reduce{threads=512 rows=4}' 2>&1 | filecheck %s --check-prefix=MANY
// RUN: not dlc-opt %s -p 'tileify,cooperative-reduce{rows=4}' 2>&1 | filecheck %s --check-prefix=NEEDS
// RUN: not dlc-opt %s -p 'tileify,blockify-launch{block=4 thread=4},cooperative-reduce{threads=32}' 2>&1 | filecheck %s --check-prefix=LATE
// LATE: error: kernel row_sum: cooperative-reduce: the launch is partitioned already
// LATE: hint: run cooperative-reduce before
// RUN: dlc-opt %s -p 'tileify,cooperative-reduce{threads=32}' --remarks 2>&1 >/dev/null | filecheck %s --check-prefix=OTHER
// OTHER: cooperative-reduce: nested: skipped, a loop of it holds another loop
// OTHER: cooperative-reduce: copy: skipped, it has no reduce or scan
// RUN: not dlc-opt %s -p 'tileify,cooperative-reduce{threads=32 vector=0}' 2>&1 | filecheck %s --check-prefix=VECTOR
// VECTOR: error: cooperative-reduce: vector must be at least 1, not 0
// OTHER: cooperative-reduce: one: skipped, a loop of it has one point
// POWER: error: cooperative-reduce: threads must be 2, 4, 8, 16 or a multiple of 32, not 48
// MANY: error: cooperative-reduce: 4 rows of 512 threads are not a block of at most 1024
// MANY: hint: it holds 2 rows of 512
// NEEDS: error: kernel row_sum: cooperative-reduce: option 'threads' is missing

// CHECK-LABEL: tile.kernel @row_sum
// CHECK: tile.launch block(%brow in 8) thread(%trow in 4, %t in 64) {
// CHECK-NEXT: %s_part = tile.reduce add serial(%ko in 4) register(%kv in 4) -> f32 {
// CHECK-NEXT: tile.load %x[%brow * 4 + %trow, %ko * 256 + %t * 4 + %kv]
// CHECK-NEXT: tile.yield %a where (%ko * 256 + %t * 4 + %kv < 1000) : f32
// CHECK: %s = tile.combine add %s_part across(%t) : f32
// CHECK-NEXT: tile.store %s, %y[%brow * 4 + %trow] where (%brow * 4 + %trow < 30)
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

// Where neighbouring rows are neighbours in memory, neighbouring threads may take them.
// CHECK-LABEL: tile.kernel @column_sum
// CHECK: tile.launch block(%brow in 8) thread(%trow in 4, %t in 64) {
// ROWS-LABEL: tile.kernel @column_sum
// ROWS: tile.launch block(%brow in 8) thread(%t in 16, %trow in 4) {
%z = loop.kernel @column_sum(%x: memref<30x1000xf32> = %x) -> (%z: memref<30xf32>) {
  loop.for %row in 30 {
    %s = loop.reduce add %k in 30 -> f32 {
      %a = loop.load %x[%k, %row] : memref<30x1000xf32>
      loop.yield %a : f32
    }
    loop.store %s, %z[%row] : memref<30xf32>
  }
}

%u = loop.kernel @nested(%x: memref<30x1000xf32> = %x) -> (%u: memref<f32>) {
  %s = loop.reduce max %row in 30 -> f32 {
    %r = loop.reduce add %k in 1000 -> f32 {
      %a = loop.load %x[%row, %k] : memref<30x1000xf32>
      loop.yield %a : f32
    }
    loop.yield %r : f32
  }
  loop.store %s, %u[] : memref<f32>
}

%v = loop.kernel @copy(%x: memref<30x1000xf32> = %x) -> (%v: memref<30x1000xf32>) {
  loop.for %i in 30, %j in 1000 {
    %a = loop.load %x[%i, %j] : memref<30x1000xf32>
    loop.store %a, %v[%i, %j] : memref<30x1000xf32>
  }
}

%w = tile.kernel @one(%x: memref<30x1000xf32> = %x) -> (%w: memref<30xf32>) {
  tile.launch thread(%row in 30) {
    %s = tile.reduce add -> f32 {
      %a = tile.load %x[%row, 0] : memref<30x1000xf32>
      tile.yield %a : f32
    }
    tile.store %s, %w[%row] : memref<30xf32>
  }
}
