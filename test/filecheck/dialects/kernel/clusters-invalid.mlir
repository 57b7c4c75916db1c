// RUN: dlc-opt %s --split-input-file --verify-diagnostics | filecheck %s

// CHECK: expected a cluster of 2 to 8 blocks, found 16
kernel.func @large(%x: memref<32xf32>) -> (%y: memref<32xf32>) grid 32 block 32 cluster 16 {
}

// -----

// CHECK: expected a grid of whole clusters of 4 blocks, found 6
kernel.func @ragged(%x: memref<32xf32>) -> (%y: memref<32xf32>) grid 6 block 32 cluster 4 {
}

// -----

// CHECK: expected a chip with cluster: sm_80 has no thread block clusters (PTX ISA: sm_90 or later)
module attributes {dlc.target = "sm_80"} {
  kernel.func @older(%x: memref<32xf32>) -> (%y: memref<32xf32>) grid 8 block 32 cluster 4 {
  }
}

// -----

// CHECK: expected a kernel whose blocks run in clusters
kernel.func @none(%x: memref<32xf32>) -> (%y: memref<32xf32>) grid 8 block 32 {
  kernel.cluster_barrier
}

// -----

// CHECK: expected memref<2x16xf32, #kernel.cluster> of 2 blocks, found memref<4x16xf32, #kernel.cluster>
kernel.func @shape(%x: memref<32xf32>) -> (%y: memref<32xf32>) grid 8 block 32 cluster 2 {
  %s = kernel.alloc_shared : memref<16xf32, #kernel.shared>
  %all = kernel.map_cluster %s : memref<16xf32, #kernel.shared> -> memref<4x16xf32, #kernel.cluster>
}

// -----

// CHECK: expected a shared buffer that lies row by row, found memref<32xf32>
kernel.func @global(%x: memref<32xf32>) -> (%y: memref<32xf32>) grid 8 block 32 cluster 2 {
  %all = kernel.map_cluster %x : memref<32xf32> -> memref<2x32xf32, #kernel.cluster>
}

// -----

// CHECK: expected what others hold to be read only, found 'kernel.store'
kernel.func @written(%x: memref<32xf32>) -> (%y: memref<32xf32>) grid 8 block 32 cluster 2 {
  %0 = arith.constant 0.0 : f32
  %s = kernel.alloc_shared : memref<16xf32, #kernel.shared>
  %all = kernel.map_cluster %s : memref<16xf32, #kernel.shared> -> memref<2x16xf32, #kernel.cluster>
  kernel.store %0, %all[1, 0] : memref<2x16xf32, #kernel.cluster>
}

// -----

// CHECK: expected a buffer that threads load and store themselves, found 'kernel.cp_async'
kernel.func @copied(%x: memref<32xf32>) -> (%y: memref<32xf32>) grid 8 block 32 cluster 2 {
  %s = kernel.alloc_shared : memref<16xf32, #kernel.shared>
  %all = kernel.map_cluster %s : memref<16xf32, #kernel.shared> -> memref<2x16xf32, #kernel.cluster>
  kernel.cp_async %x[0], %s[0] elements 4 : memref<32xf32>, memref<16xf32, #kernel.shared>
}

// -----

// CHECK: expected whole clusters of 4 blocks, found 6 blocks from 2 on
kernel.func @part(%x: memref<32xf32>) -> (%y: memref<32xf32>) grid 8 block 32 cluster 4 {
  %b = kernel.block_id from 2 of 6
}

// -----

// CHECK: expected whole clusters of 4 blocks, found 6 blocks from 0 on
kernel.func @part(%x: memref<32xf32>) -> (%y: memref<32xf32>) grid 8 block 32 cluster 4 {
  %b = kernel.block_id from 0 of 6
  kernel.cluster_barrier
}

// -----

// CHECK: expected whole clusters of 4 blocks, found 6 blocks from 0 on
kernel.func @nested(%x: memref<32xf32>) -> (%y: memref<32xf32>) grid 8 block 32 cluster 4 {
  %block = kernel.block_id
  %first = kernel.test where (%block < 6)
  scf.if %first {
    %t = kernel.thread_id
    %some = kernel.test where (%t < 4)
    scf.if %some {
      %b = kernel.block_id from 0 of 6
    }
    kernel.cluster_barrier
  }
}
