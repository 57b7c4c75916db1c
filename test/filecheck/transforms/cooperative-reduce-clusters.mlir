// RUN: dlc-opt %s -p 'tileify,cooperative-reduce{threads=32 vector=4 blocks=3},stage-inputs{budget=8192}' | filecheck %s
// RUN: dlc-opt %s -p 'tileify,cooperative-reduce{threads=32 vector=4 blocks=3}' --remarks 2>&1 >/dev/null | filecheck %s --check-prefix=SAYS
// RUN: dlc-opt %s -p 'tileify,cooperative-reduce{threads=32 vector=4 blocks=3},stage-inputs{budget=8192},bind-axes' | filecheck %s --check-prefix=BOUND
// RUN: dlc-opt %s -p 'tileify,cooperative-reduce{threads=256 vector=4 blocks=4}' --remarks 2>&1 >/dev/null | filecheck %s --check-prefix=SHORT
// RUN: dlc-opt %s -p 'tileify,split-matmul-k{splits=3 combine=cluster},cooperative-reduce{threads=32 blocks=2}' --remarks 2>&1 >/dev/null | filecheck %s --check-prefix=SHARED
// RUN: not dlc-opt %s -p 'tileify,cooperative-reduce{threads=32 blocks=16}' 2>&1 | filecheck %s --check-prefix=MANY
// RUN: sed s/sm_90/sm_80/ %s | not dlc-opt -p 'tileify,cooperative-reduce{threads=32 blocks=2}' 2>&1 | filecheck %s --check-prefix=OLDER

// SAYS: cooperative-reduce: softmax: 32 threads for a row, 1 row in a cluster of 3 blocks, runs of 4
// SAYS: cooperative-reduce: running: skipped, it scans or sorts along a row, which a block has whole
// SAYS: cooperative-reduce: center: skipped, it reads what other blocks may have stored
// SHORT: cooperative-reduce: softmax: skipped, no axis of a row has a round for each of 4: 1 round
// SHARED: cooperative-reduce: total: skipped, blocks share its reduce already, and fold what they hold once
// MANY: error: cooperative-reduce: a cluster has at most 8 blocks, found 16
// OLDER: error: kernel softmax: cooperative-reduce: sm_80 has no thread block clusters (PTX ISA: sm_90 or later)
// OLDER: hint: blocks=1 takes any chip

// Each block has a run of the rounds, the same in all loops: what it stages is its share.
// CHECK-LABEL: tile.kernel @softmax
// CHECK: tile.launch block(%i in 3, %share in 3) thread(%t in 32) {
// CHECK-NEXT: %x_smem = tile.stage %x[%i, %share * 384] [1, 384]
// CHECK-NEXT: %max_part = tile.reduce max serial(%ko in 3) register(%kv in 4) -> f32 {
// CHECK-NEXT: tile.load %x_smem[%ko * 128 + %t * 4 + %kv]
// CHECK-NEXT: tile.yield %a where (%share * 384 + %ko * 128 + %t * 4 + %kv < 1000) : f32
// CHECK: %max_part_1 = tile.combine max %max_part across(%t) : f32
// CHECK-NEXT: %max = tile.combine max %max_part_1 across(%share) cluster whole : f32
// CHECK: %sum = tile.combine add %sum_part_1 across(%share) cluster whole : f32
// CHECK-NEXT: tile.store %max, %m[%i] : memref<3xf32>
// CHECK: tile.load %x_smem[%co * 128 + %t * 4 + %cv]
// CHECK: tile.store {{.*}}, %y[%i, %share * 384 + %co * 128 + %t * 4 + %cv]

// They meet for each reduce, and before any of them ends; a thread reads what the others have, and
// one stores what all have.
// BOUND-LABEL: kernel.func @softmax
// BOUND-SAME: grid 9 block 32 cluster 3
// BOUND: %share = kernel.index %bid mod 3
// BOUND: %max_parts = kernel.alloc_shared : memref<1xf32, #kernel.shared>
// BOUND-NEXT: %all_max_parts = kernel.map_cluster %max_parts
// BOUND: tile.store %max_part_1, %max_parts[0] where (%t < 1)
// BOUND-NEXT: kernel.cluster_barrier
// BOUND-NEXT: %max = tile.reduce max serial(%share_1 in 3) -> f32 {
// BOUND-NEXT: tile.load %all_max_parts[%share_1, 0] where (%t < 1) else
// BOUND: tile.store %max, %max_whole[0] where (%t < 1)
// BOUND-NEXT: %max_1 = tile.load %max_whole[0]
// BOUND: kernel.cluster_barrier
// BOUND: tile.load %all_sum_parts
// BOUND: tile.store %max_1, %m[%i] where (%share < 1, %t < 1)
// BOUND: tile.store {{.*}}, %y
// BOUND-NEXT: }
// BOUND-NEXT: kernel.cluster_barrier
builtin.module attributes {dlc.target = "sm_90"} {
  %x = "test.op"() : () -> tensor<3x1000xf32>
  %y, %m = loop.kernel @softmax(%x: memref<3x1000xf32> = %x) -> (%y: memref<3x1000xf32>, %m: memref<3xf32>) {
    loop.for %i in 3 {
      %max = loop.reduce max %k in 1000 -> f32 {
        %a = loop.load %x[%i, %k] : memref<3x1000xf32>
        loop.yield %a : f32
      }
      %sum = loop.reduce add %k in 1000 -> f32 {
        %a = loop.load %x[%i, %k] : memref<3x1000xf32>
        %b = arith.subf %a, %max : f32
        %e = math.exp %b : f32
        loop.yield %e : f32
      }
      loop.store %max, %m[%i] : memref<3xf32>
      loop.for %c in 1000 {
        %a = loop.load %x[%i, %c] : memref<3x1000xf32>
        %b = arith.subf %a, %max : f32
        %e = math.exp %b : f32
        %d = arith.divf %e, %sum : f32
        loop.store %d, %y[%i, %c] : memref<3x1000xf32>
      }
    }
  }
  %t = loop.kernel @total(%x: memref<3x1000xf32> = %x) -> (%t: memref<f32>) {
    %s = loop.reduce add %i in 3, %k in 1000 -> f32 {
      %a = loop.load %x[%i, %k] : memref<3x1000xf32>
      loop.yield %a : f32
    }
    loop.store %s, %t[] : memref<f32>
  }
  %r = loop.kernel @running(%x: memref<3x1000xf32> = %x) -> (%r: memref<3x1000xf32>) {
    loop.for %i in 3 {
      loop.for %k in 1000 {
        %a = loop.load %x[%i, %k] : memref<3x1000xf32>
        %p = loop.scan add %a along %k : f32
        loop.store %p, %r[%i, %k] : memref<3x1000xf32>
      }
    }
  }
  %u = loop.kernel @center(%x: memref<3x1000xf32> = %x) -> (%u: memref<3x1000xf32> updates %x) {
    loop.for %i in 3 {
      %s = loop.reduce add %k in 1000 -> f32 {
        %a = loop.load %u[%i, %k] : memref<3x1000xf32>
        loop.yield %a : f32
      }
      loop.for %j in 1000 {
        %a = loop.load %u[%i, %j] : memref<3x1000xf32>
        %d = arith.subf %a, %s : f32
        loop.store %d, %u[%i, %j] : memref<3x1000xf32>
      }
    }
  }
}
