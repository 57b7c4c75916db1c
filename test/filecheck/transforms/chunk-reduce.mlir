// RUN: dlc-opt %s -p 'tileify,cooperative-reduce{threads=64 vector=4},chunk-reduce{bk=8}' | filecheck %s
// RUN: dlc-opt %s -p 'tileify,chunk-reduce{bk=512}' | filecheck %s --check-prefix=PLAIN
// RUN: dlc-opt %s -p 'tileify,chunk-reduce{bk=512},chunk-reduce{bk=16}' --remarks 2>&1 >/dev/null | filecheck %s --check-prefix=SAYS
// RUN: not dlc-opt %s -p 'tileify,chunk-reduce{bk=0}' 2>&1 | filecheck %s --check-prefix=NEEDS
// RUN: dlc-opt %s -p 'tileify,chunk-reduce{bk=4096}' --remarks 2>&1 >/dev/null | filecheck %s --check-prefix=SHORT
// RUN: not dlc-opt %s -p 'chunk-reduce{bk=16}' 2>&1 | filecheck %s --check-prefix=EARLY
// RUN: not dlc-opt %s -p 'tileify,blockify-launch{block=8 thread=8},stage-inputs{budget=49152},chunk-reduce{bk=16}' 2>&1 | filecheck %s --check-prefix=STAGED
// RUN: dlc-opt %s -p 'tileify,blockify-launch{block=8 thread=8},chunk-reduce{bk=16},stage-inputs{budget=1024}' | filecheck %s --check-prefix=CHUNK
// SAYS: chunk-reduce: row_norm: 2 loops in chunks of 512
// SAYS: chunk-reduce: mm: skipped, it has no reduce but contractions and those in chunks already
// SAYS: chunk-reduce: row_norm: skipped, it has no reduce but contractions and those in chunks already
// NEEDS: <pipeline>:1:22: error: chunk-reduce: bk must be at least 1, not 0
// SHORT: chunk-reduce: row_norm: skipped, no reduce or loop of it is longer than a chunk of 4096
// EARLY: error: kernel row_norm: chunk-reduce: tileify has not run
// STAGED: error: kernel {{.*}}: chunk-reduce: slabs are staged already for the loops that there are
// STAGED: hint: run chunk-reduce before stage-inputs

// What a thread takes in a run stays together; the runs are chunked.
// CHECK-LABEL: tile.kernel @row_norm
// CHECK: %m_part = tile.reduce max serial(%ko in 2) -> f32 {
// CHECK-NEXT: %m_chunk = tile.reduce max serial(%ki in 8) register(%kv in 4) -> f32 {
// CHECK-NEXT: tile.load %x[%row, %ko * 2048 + %ki * 256 + %t * 4 + %kv]
// CHECK-NEXT: tile.yield %a where (%ko * 8 + %ki < 9) : f32
// CHECK-NEXT: }
// CHECK-NEXT: tile.yield %m_chunk : f32
// CHECK: %m = tile.combine max %m_part across(%t) : f32
// CHECK: tile.for serial(%co in 2) {
// CHECK-NEXT: tile.for serial(%ci in 8) register(%cv in 4) {
// CHECK: tile.store %q, %y[%row, %co * 2048 + %ci * 256 + %t * 4 + %cv] where (%co * 8 + %ci < 9)

// PLAIN-LABEL: tile.kernel @row_norm
// PLAIN: %m = tile.reduce max serial(%ko in 5) -> f32 {
// PLAIN-NEXT: %m_part = tile.reduce max serial(%ki in 512) -> f32 {
// PLAIN: tile.yield %a where (%ko * 512 + %ki < 2304) : f32
// PLAIN: tile.yield %m_part : f32
// PLAIN: tile.for serial(%co in 5) {
// PLAIN-NEXT: tile.for serial(%ci in 512) {
%x = "test.op"() : () -> tensor<30x2304xf32>
%y = loop.kernel @row_norm(%x: memref<30x2304xf32> = %x) -> (%y: memref<30x2304xf32>) {
  loop.for %row in 30 {
    %m = loop.reduce max %k in 2304 -> f32 {
      %a = loop.load %x[%row, %k] : memref<30x2304xf32>
      loop.yield %a : f32
    }
    loop.for %c in 2304 {
      %a = loop.load %x[%row, %c] : memref<30x2304xf32>
      %q = arith.divf %a, %m : f32
      loop.store %q, %y[%row, %c] : memref<30x2304xf32>
    }
  }
}

// The chunk of the vector that all rows of a block read is staged, not all of it.
// CHUNK-LABEL: tile.kernel @matvec
// CHUNK: tile.reduce add serial(%ko in 144) -> f32 {
// CHUNK-NEXT: %v_smem = tile.stage %v[%ko * 16] [16] : memref<2304xf32> -> memref<16xf32, #tile.shared>
// CHUNK-NEXT: tile.reduce add serial(%ki in 16) -> f32 {
// CHUNK: tile.load %v_smem[%ki]
%v = "test.op"() : () -> tensor<2304xf32>
%z = loop.kernel @matvec(%x: memref<30x2304xf32> = %x, %v: memref<2304xf32> = %v) -> (%z: memref<30xf32>) {
  loop.for %row in 30 {
    %s = loop.reduce add %k in 2304 -> f32 {
      %a = loop.load %x[%row, %k] : memref<30x2304xf32>
      %b = loop.load %v[%k] : memref<2304xf32>
      %p = arith.mulf %a, %b : f32
      loop.yield %p : f32
    }
    loop.store %s, %z[%row] : memref<30xf32>
  }
}

// A contraction is for chunk-matmul-k.
// PLAIN-LABEL: tile.kernel @mm
// PLAIN: serial(%k in 2304)
%w = "test.op"() : () -> tensor<2304x20xf32>
%o = loop.kernel @mm(%x: memref<30x2304xf32> = %x, %w: memref<2304x20xf32> = %w) -> (%o: memref<30x20xf32>) {
  loop.for %i in 30, %j in 20 {
    %acc = loop.reduce add %k in 2304 -> f32 {
      %a = loop.load %x[%i, %k] : memref<30x2304xf32>
      %b = loop.load %w[%k, %j] : memref<2304x20xf32>
      %p = arith.mulf %a, %b : f32
      loop.yield %p : f32
    }
    loop.store %acc, %o[%i, %j] : memref<30x20xf32>
  }
}
