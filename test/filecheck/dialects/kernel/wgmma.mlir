// RUN: dlc-opt %s | filecheck %s
// RUN: DLC_ROUNDTRIP
// RUN: dlc-opt %s -t cuda | filecheck %s --check-prefix=CUDA

// CHECK: kernel.func @product(
kernel.func @product(%z: memref<128x64xf32>) -> () grid 1 block 256 {
  %t = kernel.thread_id
  %A = kernel.alloc_shared : memref<3x128x64xbf16, #kernel.swizzle<128>, #kernel.shared>
  %B = kernel.alloc_shared : memref<3x64x128xbf16, #kernel.swizzle<128>, #kernel.shared>
  %acc = kernel.alloc_local : memref<2x32x4xf32, #kernel.local>
  %p = kernel.alloc_local : memref<4x8xbf16, #kernel.local>
  // CHECK: kernel.wgmma_fence %acc, %p : memref<2x32x4xf32, #kernel.local>, memref<4x8xbf16, #kernel.local>
  kernel.wgmma_fence %acc, %p : memref<2x32x4xf32, #kernel.local>, memref<4x8xbf16, #kernel.local>
  // CHECK-NEXT: kernel.wgmma_fence %acc : memref<2x32x4xf32, #kernel.local>
  kernel.wgmma_fence %acc : memref<2x32x4xf32, #kernel.local>
  // CHECK-NEXT: %a = kernel.matrix_descriptor %A[1, %t floordiv 128 * 64, 16] leading 16 stride 1024 swizzle 128 : memref<3x128x64xbf16, #kernel.swizzle<128>, #kernel.shared>
  %a = kernel.matrix_descriptor %A[1, %t floordiv 128 * 64, 16] leading 16 stride 1024 swizzle 128 : memref<3x128x64xbf16, #kernel.swizzle<128>, #kernel.shared>
  // CHECK-NEXT: %b = kernel.matrix_descriptor %B[1, 16, 0] leading 8192 stride 1024 swizzle 128 : memref<3x64x128xbf16, #kernel.swizzle<128>, #kernel.shared>
  %b = kernel.matrix_descriptor %B[1, 16, 0] leading 8192 stride 1024 swizzle 128 : memref<3x64x128xbf16, #kernel.swizzle<128>, #kernel.shared>
  // CHECK-NEXT: kernel.wgmma <m64n128k16, bf16> %acc[1, 16, 0], %a, %b n_major : memref<2x32x4xf32, #kernel.local>
  kernel.wgmma <m64n128k16, bf16> %acc[1, 16, 0], %a, %b n_major : memref<2x32x4xf32, #kernel.local>
  // CHECK-NEXT: kernel.wgmma <m64n64k16, bf16> %acc[0, 0, 0], %a m_major, %b : memref<2x32x4xf32, #kernel.local>
  kernel.wgmma <m64n64k16, bf16> %acc[0, 0, 0], %a m_major, %b : memref<2x32x4xf32, #kernel.local>
  // CHECK-NEXT: kernel.wgmma_held <m64n128k16, bf16> %acc[1, 0, 0], %p[3, 0], %b n_major : memref<2x32x4xf32, #kernel.local>, memref<4x8xbf16, #kernel.local>
  kernel.wgmma_held <m64n128k16, bf16> %acc[1, 0, 0], %p[3, 0], %b n_major : memref<2x32x4xf32, #kernel.local>, memref<4x8xbf16, #kernel.local>
  // CHECK-NEXT: kernel.wgmma_commit
  kernel.wgmma_commit
  // CHECK-NEXT: kernel.wgmma_wait 1, %acc : memref<2x32x4xf32, #kernel.local>
  kernel.wgmma_wait 1, %acc : memref<2x32x4xf32, #kernel.local>
}

// What compilers must not move across stands behind waits, and before fences.
// CUDA: hold_factor<32>(&p[0][0]);
// CUDA-NEXT: hold<256>(&acc[0][0][0]);
// CUDA-NEXT: wgmma_fence();
// CUDA: matrix_descriptor<16, 1024, 128>(&A[
// CUDA: matrix_descriptor<8192, 1024, 128>(&B[
// CUDA: wgmma_m64n128k16_f32_bf16<false, true>(&acc[1][16][0], a, b);
// CUDA-NEXT: wgmma_m64n64k16_f32_bf16<true, false>(&acc[0][0][0], a, b);
// CUDA-NEXT: wgmma_held_m64n128k16_f32_bf16<true>(&acc[1][0][0], &p[3][0], b);
// CUDA-NEXT: wgmma_commit();
// CUDA-NEXT: wgmma_wait<1>();
// CUDA-NEXT: hold<256>(&acc[0][0][0]);
