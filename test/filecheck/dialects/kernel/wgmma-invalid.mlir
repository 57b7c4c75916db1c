// RUN: dlc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

kernel.func @threads() -> () grid 1 block 192 {
  kernel.wgmma_commit
}
// CHECK: expected a block of whole warpgroups of 128 threads, all of which meet, found one of 192 threads

// -----

builtin.module attributes {dlc.target = "sm_100"} {
  kernel.func @chip() -> () grid 1 block 128 {
    kernel.wgmma_commit
  }
}
// CHECK: expected a chip with wgmma: sm_100 has no wgmma

// -----

kernel.func @stride() -> () grid 1 block 128 {
  %A = kernel.alloc_shared : memref<64x64xf16, #kernel.shared>
  %a = kernel.matrix_descriptor %A[0, 0] leading 16 stride 1000 swizzle 128 : memref<64x64xf16, #kernel.shared>
}
// CHECK: expected a stride offset of a multiple of 16 bytes below 262144, found 1000

// -----

kernel.func @swizzle() -> () grid 1 block 128 {
  %A = kernel.alloc_shared : memref<64x64xf16, #kernel.shared>
  %a = kernel.matrix_descriptor %A[0, 0] leading 16 stride 1024 swizzle 16 : memref<64x64xf16, #kernel.shared>
}
// CHECK: expected a swizzle of 32, 64 or 128 bytes, or 0 for none, found 16

// -----

kernel.func @global(%x: memref<64x64xf16>) -> () grid 1 block 128 {
  %a = kernel.matrix_descriptor %x[0, 0] leading 16 stride 1024 swizzle 128 : memref<64x64xf16>
}
// CHECK: expected a buffer in shared memory, found memref<64x64xf16>

// -----

kernel.func @f32() -> () grid 1 block 128 {
  %A = kernel.alloc_shared : memref<64x64xi32, #kernel.shared>
  %a = kernel.matrix_descriptor %A[0, 0] leading 16 stride 1024 swizzle 128 : memref<64x64xi32, #kernel.shared>
}
// CHECK: expected elements of one of f8E4M3FN, f8E5M2, f16, bf16, i8, f32, found i32

// -----

kernel.func @warp() -> () grid 1 block 128 {
  %A = kernel.alloc_shared : memref<64x64xf16, #kernel.shared>
  %acc = kernel.alloc_local : memref<8x4xf32, #kernel.local>
  %a = kernel.matrix_descriptor %A[0, 0] leading 16 stride 1024 swizzle 128 : memref<64x64xf16, #kernel.shared>
  kernel.wgmma <m16n8k16, f16> %acc[0, 0], %a, %a : memref<8x4xf32, #kernel.local>
}
// CHECK: expected a product of a warpgroup, found #kernel.mma<m16n8k16, f16>

// -----

kernel.func @type() -> () grid 1 block 128 {
  %A = kernel.alloc_shared : memref<64x64xf16, #kernel.shared>
  %acc = kernel.alloc_local : memref<8x4xf32, #kernel.local>
  %a = kernel.matrix_descriptor %A[0, 0] leading 16 stride 1024 swizzle 128 : memref<64x64xf16, #kernel.shared>
  kernel.wgmma <m64n64k16, bf16> %acc[0, 0], %a, %a : memref<8x4xf32, #kernel.local>
}
// CHECK: expected elements of bf16 for A, found f16

// -----

kernel.func @sums() -> () grid 1 block 128 {
  %A = kernel.alloc_shared : memref<64x64xf16, #kernel.shared>
  %acc = kernel.alloc_local : memref<4x4xf32, #kernel.local>
  %a = kernel.matrix_descriptor %A[0, 0] leading 16 stride 1024 swizzle 128 : memref<64x64xf16, #kernel.shared>
  kernel.wgmma <m64n64k16, f16> %acc[0, 0], %a, %a : memref<4x4xf32, #kernel.local>
}
// CHECK: expected local memory of 8 x 4 sums in f32 or more, found memref<4x4xf32, #kernel.local>

// -----

kernel.func @place() -> () grid 1 block 128 {
  %A = kernel.alloc_shared : memref<64x64xf16, #kernel.shared>
  %acc = kernel.alloc_local : memref<16x4xf32, #kernel.local>
  %a = kernel.matrix_descriptor %A[0, 0] leading 16 stride 1024 swizzle 128 : memref<64x64xf16, #kernel.shared>
  kernel.wgmma <m64n64k16, f16> %acc[9, 0], %a, %a : memref<16x4xf32, #kernel.local>
}
// CHECK: expected sums from [0, 0] to [8, 0] on, found [9 to 9, 0]

// -----

kernel.func @told(%d: memref<1xi64>) -> () grid 1 block 128 {
  %acc = kernel.alloc_local : memref<8x4xf32, #kernel.local>
  %a = kernel.load %d[0] : memref<1xi64>
  kernel.wgmma <m64n64k16, f16> %acc[0, 0], %a, %a : memref<8x4xf32, #kernel.local>
}
// CHECK: expected the result of a kernel.matrix_descriptor for A

// -----

kernel.func @count() -> () grid 1 block 128 {
  %acc = kernel.alloc_local : memref<8x4xf32, #kernel.local>
  kernel.wgmma_wait 8, %acc : memref<8x4xf32, #kernel.local>
}
// CHECK: expected a count of 0 to 7, found 8

// -----

kernel.func @shared() -> () grid 1 block 128 {
  %A = kernel.alloc_shared : memref<64x64xf16, #kernel.shared>
  kernel.wgmma_fence %A : memref<64x64xf16, #kernel.shared>
}
// CHECK: expected local memory, found memref<64x64xf16, #kernel.shared>

// -----

kernel.func @mma(%x: memref<8xbf16>, %z: memref<64xf32>) -> () grid 1 block 128 {
  %a = kernel.load %x[0] : memref<8xbf16> -> vector<8xbf16>
  %b = kernel.load %x[0] : memref<8xbf16> -> vector<4xbf16>
  %c = kernel.load %z[0] : memref<64xf32> -> vector<4xf32>
  %d = kernel.mma <m64n8k16, bf16> %a, %b, %c : vector<8xbf16>, vector<4xbf16>, vector<4xf32>
}
// CHECK: expected a product of a warp, found #kernel.mma<m64n8k16, bf16>: kernel.wgmma

// -----

kernel.func @across() -> () grid 1 block 128 {
  %A = kernel.alloc_shared : memref<64x32xf32, #kernel.shared>
  %acc = kernel.alloc_local : memref<8x4xf32, #kernel.local>
  %a = kernel.matrix_descriptor %A[0, 0] leading 16 stride 1024 swizzle 128 : memref<64x32xf32, #kernel.shared>
  kernel.wgmma <m64n64k8, tf32> %acc[0, 0], %a, %a n_major : memref<8x4xf32, #kernel.local>
}
// CHECK: expected factors of tf32 whose rows lie along K

// -----

kernel.func @held() -> () grid 1 block 128 {
  %A = kernel.alloc_shared : memref<64x32xf32, #kernel.shared>
  %acc = kernel.alloc_local : memref<8x4xf32, #kernel.local>
  %p = kernel.alloc_local : memref<8xf32, #kernel.local>
  %a = kernel.matrix_descriptor %A[0, 0] leading 16 stride 1024 swizzle 128 : memref<64x32xf32, #kernel.shared>
  kernel.wgmma_held <m64n64k8, tf32> %acc[0, 0], %p[0], %a : memref<8x4xf32, #kernel.local>, memref<8xf32, #kernel.local>
}
// CHECK: expected a product of halves, found #kernel.mma<m64n64k8, tf32>
