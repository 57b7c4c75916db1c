// RUN: dlc-opt %s -p 'tileify,cooperative-reduce{threads=64 vector=4},chunk-reduce{bk=5 apart=true}' | filecheck %s
// RUN: dlc-opt %s -p 'tileify,chunk-reduce{bk=3 apart=true}' | filecheck %s --check-prefix=PLAIN
// RUN: dlc-opt %s -p 'tileify,chunk-reduce{bk=3 apart=true},bind-axes,lower-stages,lower-reduces' | filecheck %s --check-prefix=KERNEL
// RUN: dlc-opt %s -p 'tileify,chunk-reduce{bk=4000 apart=true}' --remarks 2>&1 >/dev/null | filecheck %s --check-prefix=SAYS
// SAYS: chunk-reduce: row_sum: skipped, no serial axis of a sum has 4000 points
// SAYS: chunk-reduce: matmul: skipped, it has no sum of floats but contractions and those in chunks already
// SAYS: chunk-reduce: largest: skipped, it has no sum of floats but contractions and those in chunks already

// Runs of a thread stay together; points of a ragged last chunk fold nothing.
// CHECK-LABEL: tile.kernel @row_sum
// CHECK: %m_part = tile.reduce add register(%ks in 5) -> f32 {
// CHECK-NEXT: %m_chunk = tile.reduce add serial(%i in 2, %ki in 2) register(%kv in 4) -> f32 {
// CHECK-NEXT: tile.load %x[%row, %i, %ki * 1280 + %ks * 256 + %t * 4 + %kv]
// CHECK-NEXT: tile.yield %a where (%ki * 5 + %ks < 9) : f32
// CHECK-NEXT: }
// CHECK-NEXT: tile.yield %m_chunk : f32
// CHECK: %m = tile.combine add %m_part across(%t) : f32

// The last axis that has so many points is taken apart.
// PLAIN-LABEL: tile.kernel @row_sum
// PLAIN: %m = tile.reduce add register(%ks in 3) -> f32 {
// PLAIN-NEXT: %m_part = tile.reduce add serial(%i in 2, %ki in 768) -> f32 {
// PLAIN-NEXT: tile.load %x[%row, %i, %ki * 3 + %ks]
// PLAIN-LABEL: tile.kernel @matmul
// PLAIN: tile.reduce add serial(%k in 32) -> f32 {
// PLAIN-LABEL: tile.kernel @largest
// PLAIN: tile.reduce max serial(%k in 2304) -> f32 {

// Each point has an accumulator, and these are added after the loop.
// KERNEL-LABEL: kernel.func @row_sum
// KERNEL: %m = tile.accumulator %{{.*}} : f32 -> memref<f32, #kernel.local>
// KERNEL: %m_part = tile.accumulator %{{.*}} over(%ks) : f32 -> memref<3xf32, #kernel.local>
// KERNEL: tile.for serial(%i in 2, %ki in 768) {
// KERNEL: tile.each over(%ks) {
// KERNEL: kernel.store %{{.*}}, %m_part[%ks] : memref<3xf32, #kernel.local>
%x = "test.op"() : () -> tensor<30x2x2304xf32>
%y = loop.kernel @row_sum(%x: memref<30x2x2304xf32> = %x) -> (%y: memref<30xf32>) {
  loop.for %row in 30 {
    %m = loop.reduce add %i in 2, %k in 2304 -> f32 {
      %a = loop.load %x[%row, %i, %k] : memref<30x2x2304xf32>
      loop.yield %a : f32
    }
    loop.store %m, %y[%row] : memref<30xf32>
  }
}
%a = "test.op"() : () -> tensor<32x32xf32>
%c = loop.kernel @matmul(%a: memref<32x32xf32> = %a) -> (%c: memref<32x32xf32>) {
  loop.for %i in 32, %j in 32 {
    %m = loop.reduce add %k in 32 -> f32 {
      %u = loop.load %a[%i, %k] : memref<32x32xf32>
      %v = loop.load %a[%k, %j] : memref<32x32xf32>
      %p = arith.mulf %u, %v : f32
      loop.yield %p : f32
    }
    loop.store %m, %c[%i, %j] : memref<32x32xf32>
  }
}
%b = "test.op"() : () -> tensor<30x2304xf32>
%z = loop.kernel @largest(%x: memref<30x2304xf32> = %b) -> (%y: memref<30xf32>) {
  loop.for %row in 30 {
    %m = loop.reduce max %k in 2304 -> f32 {
      %a = loop.load %x[%row, %k] : memref<30x2304xf32>
      loop.yield %a : f32
    }
    loop.store %m, %y[%row] : memref<30xf32>
  }
}
