// RUN: dlc-opt %s | filecheck %s
// RUN: DLC_ROUNDTRIP

// CHECK: kernel.func @mma(
kernel.func @mma(%x: memref<32x4xf32>) -> () grid 1 block 64 {
  %t = kernel.thread_id
  %A = kernel.alloc_shared : memref<3x16x32xbf16, #kernel.swizzle<64>, #kernel.shared>
  %B = kernel.alloc_shared : memref<16x8xbf16, strided<[16, 1]>, #kernel.shared>
  %H = kernel.alloc_shared : memref<16x16xf16, #kernel.shared>
  %F = kernel.alloc_shared : memref<16x8xf32, #kernel.shared>
  %c = kernel.load %x[%t mod 32, 0] : memref<32x4xf32> -> vector<4xf32>
  // CHECK: %a = kernel.ldmatrix %A[%t mod 3, %t mod 16, (%t mod 32) floordiv 16 * 8] : memref<3x16x32xbf16, #kernel.swizzle<64>, #kernel.shared> -> vector<8xbf16>
  %a = kernel.ldmatrix %A[%t mod 3, %t mod 16, (%t mod 32) floordiv 16 * 8] : memref<3x16x32xbf16, #kernel.swizzle<64>, #kernel.shared> -> vector<8xbf16>
  // CHECK-NEXT: %b = kernel.ldmatrix %B[%t mod 16, 0] transposed : memref<16x8xbf16, strided<[16, 1]>, #kernel.shared> -> vector<4xbf16>
  %b = kernel.ldmatrix %B[%t mod 16, 0] transposed : memref<16x8xbf16, strided<[16, 1]>, #kernel.shared> -> vector<4xbf16>
  // CHECK-NEXT: %d = kernel.mma <m16n8k16, bf16> %a, %b, %c : vector<8xbf16>, vector<4xbf16>, vector<4xf32>
  %d = kernel.mma <m16n8k16, bf16> %a, %b, %c : vector<8xbf16>, vector<4xbf16>, vector<4xf32>
  %e = kernel.ldmatrix %H[%t mod 16, 0] : memref<16x16xf16, #kernel.shared> -> vector<8xf16>
  %f = kernel.ldmatrix %H[%t mod 16, 8] transposed : memref<16x16xf16, #kernel.shared> -> vector<4xf16>
  // CHECK: %g = kernel.mma <m16n8k16, f16> %e, %f, %f : vector<8xf16>, vector<4xf16>, vector<4xf16>
  %g = kernel.mma <m16n8k16, f16> %e, %f, %f : vector<8xf16>, vector<4xf16>, vector<4xf16>
  // CHECK-NEXT: %h = kernel.mma <m16n8k16, f16> %e, %f, %d : vector<8xf16>, vector<4xf16>, vector<4xf32>
  %h = kernel.mma <m16n8k16, f16> %e, %f, %d : vector<8xf16>, vector<4xf16>, vector<4xf32>
  // CHECK-NEXT: kernel.stmatrix %g, %H[%t mod 8, 8] : memref<16x16xf16, #kernel.shared>, vector<4xf16>
  kernel.stmatrix %g, %H[%t mod 8, 8] : memref<16x16xf16, #kernel.shared>, vector<4xf16>
  // CHECK-NEXT: kernel.stmatrix %e, %H[%t mod 16, 0] transposed : memref<16x16xf16, #kernel.shared>, vector<8xf16>
  kernel.stmatrix %e, %H[%t mod 16, 0] transposed : memref<16x16xf16, #kernel.shared>, vector<8xf16>
  // CHECK-NEXT: %p = kernel.ldmatrix %F[%t mod 16, (%t mod 32) floordiv 16 * 4] : memref<16x8xf32, #kernel.shared> -> vector<4xf32>
  %p = kernel.ldmatrix %F[%t mod 16, (%t mod 32) floordiv 16 * 4] : memref<16x8xf32, #kernel.shared> -> vector<4xf32>
  // CHECK-NEXT: %q = kernel.ldmatrix %F[%t mod 8, 0] : memref<16x8xf32, #kernel.shared> -> vector<2xf32>
  %q = kernel.ldmatrix %F[%t mod 8, 0] : memref<16x8xf32, #kernel.shared> -> vector<2xf32>
  // CHECK-NEXT: %r = kernel.mma <m16n8k8, tf32> %p, %q, %h : vector<4xf32>, vector<2xf32>, vector<4xf32>
  %r = kernel.mma <m16n8k8, tf32> %p, %q, %h : vector<4xf32>, vector<2xf32>, vector<4xf32>
}
