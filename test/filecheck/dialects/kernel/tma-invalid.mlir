// RUN: dlc-opt %s --split-input-file --verify-diagnostics | filecheck %s

// CHECK: expected an argument of the kernel in whose body the map stands
kernel.func @k(%x: memref<100x64xf32>) -> () grid 1 block 64 {
  %s = kernel.alloc_shared : memref<64xf32, #kernel.shared>
  %m = kernel.tensor_map %s box [16] : memref<64xf32, #kernel.shared>
}

// -----

// CHECK: expected a box size for each dimension of memref<100x64xf32>, found [16]
kernel.func @k(%x: memref<100x64xf32>) -> () grid 1 block 64 {
  %m = kernel.tensor_map %x box [16] : memref<100x64xf32>
}

// -----

// CHECK: expected a box size for each dimension of memref<f32>, found []
kernel.func @k(%x: memref<f32>) -> () grid 1 block 64 {
  %m = kernel.tensor_map %x box [] : memref<f32>
}

// -----

// CHECK: expected elements of one of the types f64, f32, {{.*}}, found f80
kernel.func @k(%x: memref<64xf80>) -> () grid 1 block 64 {
  %m = kernel.tensor_map %x box [16] : memref<64xf80>
}

// -----

// CHECK: expected no extent of 0, found memref<0x64xf32>
kernel.func @k(%x: memref<0x64xf32>) -> () grid 1 block 64 {
  %m = kernel.tensor_map %x box [16, 16] : memref<0x64xf32>
}

// -----

// CHECK: expected box sizes of 1 to 256, found [257, 16]
kernel.func @k(%x: memref<100x64xf32>) -> () grid 1 block 64 {
  %m = kernel.tensor_map %x box [257, 16] : memref<100x64xf32>
}

// -----

// CHECK: expected at most 5 dimensions that are not 1, found 6
kernel.func @k(%x: memref<2x2x2x2x2x64xf32>) -> () grid 1 block 64 {
  %m = kernel.tensor_map %x box [2, 2, 2, 2, 2, 16] : memref<2x2x2x2x2x64xf32>
}

// -----

// CHECK: expected rows of a box of a multiple of 16 bytes, found 12
kernel.func @k(%x: memref<100x64xf32>) -> () grid 1 block 64 {
  %m = kernel.tensor_map %x box [16, 3] : memref<100x64xf32>
}

// -----

// CHECK: expected a swizzle of 32, 64 or 128 bytes, the length of a box's row, found 16 for a row of 16 bytes
kernel.func @k(%x: memref<100x64xf32>) -> () grid 1 block 64 {
  %m = kernel.tensor_map %x box [8, 4] swizzle 16 : memref<100x64xf32>
}

// -----

// CHECK: expected a swizzle of 32, 64 or 128 bytes, the length of a box's row, found 64 for a row of 128 bytes
kernel.func @k(%x: memref<100x64xf32>) -> () grid 1 block 64 {
  %m = kernel.tensor_map %x box [8, 32] swizzle 64 : memref<100x64xf32>
}

// -----

// CHECK: expected at least one mbarrier, found 0
kernel.func @k(%x: memref<100x64xf32>) -> () grid 1 block 64 {
  %f = kernel.alloc_mbarriers 0
}

// -----

// CHECK: expected mbarriers of a kernel.alloc_mbarriers
kernel.func @k(%x: memref<100x64xf32>) -> () grid 1 block 64 {
  %f = "test.op"() : () -> !kernel.mbarriers
  kernel.mbarrier_arrive %f[0]
}

// -----

// CHECK: expected the number of one of 2 mbarriers, found one of 0 to 63
kernel.func @k(%x: memref<100x64xf32>) -> () grid 1 block 64 {
  %t = kernel.thread_id
  %f = kernel.alloc_mbarriers 2
  kernel.mbarrier_arrive %f[%t]
}

// -----

// CHECK: expected 1 subscripts for an mbarrier, found 0
kernel.func @k(%x: memref<100x64xf32>) -> () grid 1 block 64 {
  %f = kernel.alloc_mbarriers 2
  "kernel.mbarrier_arrive"(%f) <{map = affine_map<() -> ()>}> : (!kernel.mbarriers) -> ()
}

// -----

// CHECK: expected no conditions: put the operation into an scf.if
kernel.func @k(%x: memref<100x64xf32>) -> () grid 1 block 64 {
  %f = kernel.alloc_mbarriers 2
  "kernel.mbarrier_arrive"(%f) <{map = affine_map<() -> (0)>, conditions = affine_map<() -> (0)>}> : (!kernel.mbarriers) -> ()
}

// -----

// CHECK: expected a count >= 1, found 0
kernel.func @k(%x: memref<100x64xf32>) -> () grid 1 block 64 {
  %f = kernel.alloc_mbarriers 2
  kernel.mbarrier_init %f[0], 0
}

// -----

// CHECK: expected 0 to 1048575 bytes, found 1048576
kernel.func @k(%x: memref<100x64xf32>) -> () grid 1 block 64 {
  %f = kernel.alloc_mbarriers 2
  kernel.mbarrier_expect_tx %f[0], 1048576
}

// -----

// CHECK: expected a parity of 0 or 1, found 0 to 63
kernel.func @k(%x: memref<100x64xf32>) -> () grid 1 block 64 {
  %t = kernel.thread_id
  %f = kernel.alloc_mbarriers 2
  kernel.mbarrier_wait %f[0], parity %t
}

// -----

// CHECK: expected 2 subscripts for an mbarrier and a parity, found 1
kernel.func @k(%x: memref<100x64xf32>) -> () grid 1 block 64 {
  %f = kernel.alloc_mbarriers 2
  "kernel.mbarrier_wait"(%f) <{map = affine_map<() -> (0)>}> : (!kernel.mbarriers) -> ()
}

// -----

// CHECK: expected the map of a kernel.tensor_map
kernel.func @k(%x: memref<100x64xf32>) -> () grid 1 block 64 {
  %m = "test.op"() : () -> !kernel.tensor_map
  %s = kernel.alloc_shared : memref<8x32xf32, #kernel.shared>
  %f = kernel.alloc_mbarriers 1
  kernel.tma_load %m[0, 0] -> %s[0, 0], %f[0] : memref<8x32xf32, #kernel.shared>
}

// -----

// CHECK: expected 5 subscripts for memref<100x64xf32>, memref<8x32xf32, #kernel.shared> and an mbarrier, found 4
kernel.func @k(%x: memref<100x64xf32>) -> () grid 1 block 64 {
  %m = kernel.tensor_map %x box [8, 32] : memref<100x64xf32>
  %s = kernel.alloc_shared : memref<8x32xf32, #kernel.shared>
  %f = kernel.alloc_mbarriers 1
  kernel.tma_load %m[0] -> %s[0, 0], %f[0] : memref<8x32xf32, #kernel.shared>
}

// -----

// CHECK: expected a target of f32 in shared memory, found memref<8x32xi32, #kernel.shared>
kernel.func @k(%x: memref<100x64xf32>) -> () grid 1 block 64 {
  %m = kernel.tensor_map %x box [8, 32] : memref<100x64xf32>
  %s = kernel.alloc_shared : memref<8x32xi32, #kernel.shared>
  %f = kernel.alloc_mbarriers 1
  kernel.tma_load %m[0, 0] -> %s[0, 0], %f[0] : memref<8x32xi32, #kernel.shared>
}

// -----

// CHECK: expected a target of f32 in shared memory, found memref<8x32xf32, #kernel.local>
kernel.func @k(%x: memref<100x64xf32>) -> () grid 1 block 64 {
  %m = kernel.tensor_map %x box [8, 32] : memref<100x64xf32>
  %s = kernel.alloc_local : memref<8x32xf32, #kernel.local>
  %f = kernel.alloc_mbarriers 1
  kernel.tma_load %m[0, 0] -> %s[0, 0], %f[0] : memref<8x32xf32, #kernel.local>
}

// -----

// CHECK: expected a target whose last dimensions are the box [8, 32], dense or with the map's swizzle, found memref<8x16xf32, #kernel.shared>
kernel.func @k(%x: memref<100x64xf32>) -> () grid 1 block 64 {
  %m = kernel.tensor_map %x box [8, 32] : memref<100x64xf32>
  %s = kernel.alloc_shared : memref<8x16xf32, #kernel.shared>
  %f = kernel.alloc_mbarriers 1
  kernel.tma_load %m[0, 0] -> %s[0, 0], %f[0] : memref<8x16xf32, #kernel.shared>
}

// -----

// CHECK: expected a target whose last dimensions are the box [8, 32], dense or with the map's swizzle, found memref<32xf32, #kernel.shared>
kernel.func @k(%x: memref<100x64xf32>) -> () grid 1 block 64 {
  %m = kernel.tensor_map %x box [8, 32] : memref<100x64xf32>
  %s = kernel.alloc_shared : memref<32xf32, #kernel.shared>
  %f = kernel.alloc_mbarriers 1
  kernel.tma_load %m[0, 0] -> %s[0], %f[0] : memref<32xf32, #kernel.shared>
}

// -----

// CHECK: expected a target whose last dimensions are the box [8, 32], dense or with the map's swizzle, found memref<8x32xf32, strided<[36, 1]>, #kernel.shared>
kernel.func @k(%x: memref<100x64xf32>) -> () grid 1 block 64 {
  %m = kernel.tensor_map %x box [8, 32] : memref<100x64xf32>
  %s = kernel.alloc_shared : memref<8x32xf32, strided<[36, 1]>, #kernel.shared>
  %f = kernel.alloc_mbarriers 1
  kernel.tma_load %m[0, 0] -> %s[0, 0], %f[0] : memref<8x32xf32, strided<[36, 1]>, #kernel.shared>
}

// -----

// CHECK: expected a target whose last dimensions are the box [8, 32], dense or with the map's swizzle, found memref<8x32xf32, #kernel.swizzle<128>, #kernel.shared>
kernel.func @k(%x: memref<100x64xf32>) -> () grid 1 block 64 {
  %m = kernel.tensor_map %x box [8, 32] : memref<100x64xf32>
  %s = kernel.alloc_shared : memref<8x32xf32, #kernel.swizzle<128>, #kernel.shared>
  %f = kernel.alloc_mbarriers 1
  kernel.tma_load %m[0, 0] -> %s[0, 0], %f[0] : memref<8x32xf32, #kernel.swizzle<128>, #kernel.shared>
}

// -----

// CHECK: expected a target whose last dimensions are the box [8, 32], dense or with the map's swizzle, found memref<8x32xf32, #kernel.shared>
kernel.func @k(%x: memref<100x64xf32>) -> () grid 1 block 64 {
  %m = kernel.tensor_map %x box [8, 32] swizzle 128 : memref<100x64xf32>
  %s = kernel.alloc_shared : memref<8x32xf32, #kernel.shared>
  %f = kernel.alloc_mbarriers 1
  kernel.tma_load %m[0, 0] -> %s[0, 0], %f[0] : memref<8x32xf32, #kernel.shared>
}

// -----

// CHECK: expected a target whose last dimensions are the box [8, 32], dense or with the map's swizzle, found memref<8x32xf32, #kernel.padded_groups<4, 4>, #kernel.shared>
kernel.func @k(%x: memref<100x64xf32>) -> () grid 1 block 64 {
  %m = kernel.tensor_map %x box [8, 32] : memref<100x64xf32>
  %s = kernel.alloc_shared : memref<8x32xf32, #kernel.padded_groups<4, 4>, #kernel.shared>
  %f = kernel.alloc_mbarriers 1
  kernel.tma_load %m[0, 0] -> %s[0, 0], %f[0] : memref<8x32xf32, #kernel.padded_groups<4, 4>, #kernel.shared>
}

// -----

// CHECK: expected a target whose last dimensions are the box [8, 32], dense or with the map's swizzle, found memref<8x32xf32, #kernel.swizzle<64>, #kernel.shared>
kernel.func @k(%x: memref<100x64xf32>) -> () grid 1 block 64 {
  %m = kernel.tensor_map %x box [8, 32] swizzle 128 : memref<100x64xf32>
  %s = kernel.alloc_shared : memref<8x32xf32, #kernel.swizzle<64>, #kernel.shared>
  %f = kernel.alloc_mbarriers 1
  kernel.tma_load %m[0, 0] -> %s[0, 0], %f[0] : memref<8x32xf32, #kernel.swizzle<64>, #kernel.shared>
}

// -----

// CHECK: expected 0 along dimension 0, which is no dimension of the map, found 0 to 63
kernel.func @k(%x: memref<1x64xf32>) -> () grid 1 block 64 {
  %t = kernel.thread_id
  %m = kernel.tensor_map %x box [1, 32] : memref<1x64xf32>
  %s = kernel.alloc_shared : memref<32xf32, #kernel.shared>
  %f = kernel.alloc_mbarriers 1
  kernel.tma_load %m[%t, 0] -> %s[0], %f[0] : memref<32xf32, #kernel.shared>
}

// -----

// CHECK: expected 0 to 1048575 bytes, found -1
kernel.func @k(%x: memref<100x64xf32>) -> () grid 1 block 64 {
  %f = kernel.alloc_mbarriers 2
  kernel.mbarrier_expect_tx %f[0], -1
}

// -----

// CHECK: expected the number of one of 2 mbarriers, found one of 2 to 2
kernel.func @k(%x: memref<100x64xf32>) -> () grid 1 block 64 {
  %f = kernel.alloc_mbarriers 2
  kernel.mbarrier_wait %f[2], parity 0
}

// -----

// CHECK: expected no conditions: put the operation into an scf.if
kernel.func @k(%x: memref<100x64xf32>) -> () grid 1 block 64 {
  %f = kernel.alloc_mbarriers 2
  "kernel.mbarrier_wait"(%f) <{map = affine_map<() -> (0, 0)>, conditions = affine_map<() -> (0)>}> : (!kernel.mbarriers) -> ()
}

// -----

// CHECK: expected the number of one of 1 mbarriers, found one of -1 to -1
kernel.func @k(%x: memref<100x64xf32>) -> () grid 1 block 64 {
  %m = kernel.tensor_map %x box [8, 32] : memref<100x64xf32>
  %s = kernel.alloc_shared : memref<8x32xf32, #kernel.shared>
  %f = kernel.alloc_mbarriers 1
  kernel.tma_load %m[0, 0] -> %s[0, 0], %f[-1] : memref<8x32xf32, #kernel.shared>
}

// -----

// CHECK: expected no conditions: put the operation into an scf.if
kernel.func @k(%x: memref<100x64xf32>) -> () grid 1 block 64 {
  %m = kernel.tensor_map %x box [8, 32] : memref<100x64xf32>
  %s = kernel.alloc_shared : memref<8x32xf32, #kernel.shared>
  %f = kernel.alloc_mbarriers 1
  "kernel.tma_load"(%m, %s, %f) <{map = affine_map<() -> (0, 0, 0, 0, 0)>, conditions = affine_map<() -> (0)>}> : (!kernel.tensor_map, memref<8x32xf32, #kernel.shared>, !kernel.mbarriers) -> ()
}

// -----

// A box of more than two dimensions is one panel.
// CHECK: expected a target whose last dimensions are the box [2, 8, 32], dense or with the map's swizzle, found memref<2x8x64xf32, #kernel.swizzle<128>, #kernel.shared>
kernel.func @k(%x: memref<4x100x64xf32>) -> () grid 1 block 64 {
  %m = kernel.tensor_map %x box [2, 8, 32] swizzle 128 : memref<4x100x64xf32>
  %s = kernel.alloc_shared : memref<2x8x64xf32, #kernel.swizzle<128>, #kernel.shared>
  %f = kernel.alloc_mbarriers 1
  kernel.tma_load %m[0, 0, 0] -> %s[0, 0, 0], %f[0] : memref<2x8x64xf32, #kernel.swizzle<128>, #kernel.shared>
}

// -----

// CHECK: expected no conditions: put the operation into an scf.if
kernel.func @k(%x: memref<100x64xf32>) -> () grid 1 block 64 {
  %t = kernel.thread_id
  %f = kernel.alloc_mbarriers 1
  kernel.mbarrier_arrive %f[0] where (%t < 3)
}

// -----

// CHECK: expected an argument of the kernel in whose body the map stands
kernel.func @k(%x: memref<100x64xf32>) -> () grid 1 block 64 {
  %c = arith.constant true
  scf.if %c {
    %m = kernel.tensor_map %x box [16, 32] : memref<100x64xf32>
  }
}

// -----

// CHECK: expected boxes that begin at a multiple of 16 bytes of a row, 4 elements
kernel.func @k(%x: memref<100x64xf32>) -> () grid 9 block 64 {
  %b = kernel.block_id
  %m = kernel.tensor_map %x box [8, 32] : memref<100x64xf32>
  %s = kernel.alloc_shared : memref<8x32xf32, #kernel.shared>
  %f = kernel.alloc_mbarriers 1
  kernel.tma_load %m[%b, %b * 4 + 2] -> %s[0, 0], %f[0] : memref<8x32xf32, #kernel.shared>
}
