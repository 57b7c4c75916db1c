// RUN: dlc-opt %s --split-input-file --verify-diagnostics | filecheck %s

// CHECK: expected a kernel whose blocks run in clusters
kernel.func @k(%x: memref<64x32xf32>) -> () grid 8 block 64 {
  %b = kernel.block_id
  %m = kernel.tensor_map %x box [8, 32] : memref<64x32xf32>
  %s = kernel.alloc_shared : memref<8x32xf32, #kernel.shared>
  %f = kernel.alloc_mbarriers 1
  kernel.tma_multicast %m[0, 0] -> %s[0, 0], %f[0] from [0] to [0, 1] : memref<8x32xf32, #kernel.shared>
}

// -----

// CHECK: expected blocks of a cluster of 2, found 0 to 2
kernel.func @k(%x: memref<64x32xf32>) -> () grid 8 block 64 cluster 2 {
  %b = kernel.block_id
  %m = kernel.tensor_map %x box [8, 32] : memref<64x32xf32>
  %s = kernel.alloc_shared : memref<8x32xf32, #kernel.shared>
  %f = kernel.alloc_mbarriers 1
  kernel.tma_multicast %m[0, 0] -> %s[0, 0], %f[0] from [%b mod 2] to [0, 1] : memref<8x32xf32, #kernel.shared>
}

// -----

// CHECK: expected ascending blocks from 0 on, found [1, 0]
kernel.func @k(%x: memref<64x32xf32>) -> () grid 8 block 64 cluster 2 {
  %b = kernel.block_id
  %m = kernel.tensor_map %x box [8, 32] : memref<64x32xf32>
  %s = kernel.alloc_shared : memref<8x32xf32, #kernel.shared>
  %f = kernel.alloc_mbarriers 1
  kernel.tma_multicast %m[0, 0] -> %s[0, 0], %f[0] from [0] to [1, 0] : memref<8x32xf32, #kernel.shared>
}

// -----

// CHECK: expected ascending blocks from 0 on, found []
kernel.func @k(%x: memref<64x32xf32>) -> () grid 8 block 64 cluster 2 {
  %b = kernel.block_id
  %m = kernel.tensor_map %x box [8, 32] : memref<64x32xf32>
  %s = kernel.alloc_shared : memref<8x32xf32, #kernel.shared>
  %f = kernel.alloc_mbarriers 1
  kernel.tma_multicast %m[0, 0] -> %s[0, 0], %f[0] from [0] to [] : memref<8x32xf32, #kernel.shared>
}

// -----

// CHECK: expected blocks of a cluster of 2, found 0 to 7
kernel.func @k(%x: memref<64x32xf32>) -> () grid 8 block 64 cluster 2 {
  %b = kernel.block_id
  %m = kernel.tensor_map %x box [8, 32] : memref<64x32xf32>
  %s = kernel.alloc_shared : memref<8x32xf32, #kernel.shared>
  %f = kernel.alloc_mbarriers 1
  kernel.mbarrier_arrive_at %f[0], block %b
}

// -----

// CHECK: expected a kernel whose blocks run in clusters
kernel.func @k(%x: memref<64x32xf32>) -> () grid 8 block 64 {
  %b = kernel.block_id
  %m = kernel.tensor_map %x box [8, 32] : memref<64x32xf32>
  %s = kernel.alloc_shared : memref<8x32xf32, #kernel.shared>
  %f = kernel.alloc_mbarriers 1
  kernel.mbarrier_arrive_at %f[0], block 0
}

// -----

// CHECK: expected the number of one of 1 mbarriers, found one of 1 to 1
kernel.func @k(%x: memref<64x32xf32>) -> () grid 8 block 64 cluster 2 {
  %b = kernel.block_id
  %m = kernel.tensor_map %x box [8, 32] : memref<64x32xf32>
  %s = kernel.alloc_shared : memref<8x32xf32, #kernel.shared>
  %f = kernel.alloc_mbarriers 1
  kernel.mbarrier_arrive_at %f[1], block 0
}

// -----

// CHECK: expected a target whose last dimensions are the box [64, 32], dense or with the map's swizzle, found memref<96x32xf32, #kernel.shared>
kernel.func @k(%x: memref<64x32xf32>) -> () grid 8 block 64 cluster 2 {
  %b = kernel.block_id
  %m = kernel.tensor_map %x box [64, 32] : memref<64x32xf32>
  %s = kernel.alloc_shared : memref<96x32xf32, #kernel.shared>
  %f = kernel.alloc_mbarriers 1
  kernel.tma_multicast %m[0, 0] -> %s[0, 0], %f[0] from [0] to [0, 1] : memref<96x32xf32, #kernel.shared>
}

// -----

// CHECK: expected whole clusters of 2 blocks that are resident, found 3
kernel.func @k() -> () grid 8 block 64 cluster 2 resident 3 {
}

// -----

// CHECK: expected a chip with multicast: sm_120 has no copies by its tensor memory accelerator to several blocks of a cluster
module attributes {dlc.target = "sm_120"} {
kernel.func @k(%x: memref<64x32xf32>) -> () grid 8 block 64 cluster 2 {
  %b = kernel.block_id
  %m = kernel.tensor_map %x box [8, 32] : memref<64x32xf32>
  %s = kernel.alloc_shared : memref<8x32xf32, #kernel.shared>
  %f = kernel.alloc_mbarriers 1
  kernel.tma_multicast %m[0, 0] -> %s[0, 0], %f[0] from [0] to [0, 1] : memref<8x32xf32, #kernel.shared>
}
}
