// RUN: dlc-opt %s --split-input-file -p sink-expressions -t cuda | filecheck %s

// Only the prelude functions that are used, with what they need, before all kernels.
// CHECK-NOT: cp_async
// CHECK: T shuffle_xor(T value, int lane_mask, int width)
// CHECK-NOT: atomic_add
// CHECK: // grid 32, block 64; schedule: tileify,blockify-launch
// CHECK-NEXT: extern "C" __global__ void __launch_bounds__(64)
// CHECK-NEXT: rms_norm(const float* __restrict__ x, float* __restrict__ y) {
// CHECK-NEXT:   const int row = blockIdx.x;
// CHECK-NEXT:   const int t = threadIdx.x;
// CHECK-NEXT:   __shared__ alignas(16) float parts[2];
// CHECK-NEXT:   float ss = 0.0f;
// CHECK-NEXT:   #pragma unroll
// CHECK-NEXT:   for (int o = 0; o < 4; ++o) {
// CHECK-NEXT:     const float a = x[row * 256 + o * 64 + t];
// CHECK-NEXT:     ss += a * a;
// CHECK-NEXT:   }
// CHECK-NEXT:   const float s = ss + shuffle_xor(ss, 16, 32);
// CHECK-NEXT:   if (t % 32 == 0) parts[t / 32] = s;
// CHECK-NEXT:   __syncthreads();
// CHECK-NEXT:   const float v = (parts[0] + parts[1]) / 256.0f + 1e-06f;
// CHECK-NEXT:   y[row * 256 + t] = x[row * 256 + t] * rsqrtf(v);
// CHECK-NEXT: }
// CHECK-EMPTY:
// CHECK-NEXT: // grid 1, block 8
// CHECK-NEXT: extern "C" __global__ void __launch_bounds__(8)
// CHECK-NEXT: eight(float* __restrict__ y) {
// CHECK-NEXT:   y[0] = 1.0f + shuffle_xor_among(1.0f, 4, 8, 0xffu);
// CHECK-NEXT: }
// CHECK-EMPTY:
// CHECK-NEXT: // grid 1, block 40
// CHECK-NEXT: extern "C" __global__ void __launch_bounds__(40)
// CHECK-NEXT: forty(float* __restrict__ y) {
// CHECK-NEXT:   y[0] = 1.0f + shuffle_xor_among(1.0f, 4, 8, lanes_below(40));
// CHECK-NEXT: }
// CHECK-EMPTY:
// CHECK-NEXT: // grid 1, block 1
// CHECK-NEXT: extern "C" __global__ void __launch_bounds__(1)
// CHECK-NEXT: one(long long* __restrict__ y) {
// CHECK-NEXT:   y[0] = 1ll;
// CHECK-NEXT: }
kernel.func @rms_norm(%x: memref<32x256xf32>) -> (%y: memref<32x256xf32>) grid 32 block 64 schedule "tileify,blockify-launch" {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %zero = arith.constant 0.0 : f32
  %n = arith.constant 256.0 : f32
  %eps = arith.constant 1.0e-06 : f32
  %row = kernel.block_id
  %t = kernel.thread_id
  %parts = kernel.alloc_shared : memref<2xf32, #kernel.shared>
  %ss = kernel.alloc_local : memref<f32, #kernel.local>
  kernel.store %zero, %ss[] : memref<f32, #kernel.local>
  scf.for %o = %c0 to %c4 step %c1 {
    %a = kernel.load %x[%row, %o * 64 + %t] : memref<32x256xf32>
    %sq = arith.mulf %a, %a : f32
    %old = kernel.load %ss[] : memref<f32, #kernel.local>
    %new = arith.addf %old, %sq : f32
    kernel.store %new, %ss[] : memref<f32, #kernel.local>
  } {unroll}
  %part = kernel.load %ss[] : memref<f32, #kernel.local>
  %other = kernel.shuffle xor %part, 16 width 32 : f32
  %s = arith.addf %part, %other : f32
  kernel.store %s, %parts[%t floordiv 32] where (%t mod 32 == 0) : memref<2xf32, #kernel.shared>
  kernel.barrier
  %p0 = kernel.load %parts[0] : memref<2xf32, #kernel.shared>
  %p1 = kernel.load %parts[1] : memref<2xf32, #kernel.shared>
  %sum = arith.addf %p0, %p1 : f32
  %mean = arith.divf %sum, %n : f32
  %v = arith.addf %mean, %eps : f32
  %r = math.rsqrt %v : f32
  %a = kernel.load %x[%row, %t] : memref<32x256xf32>
  %u = arith.mulf %a, %r : f32
  kernel.store %u, %y[%row, %t] : memref<32x256xf32>
}

kernel.func @eight() -> (%y: memref<1xf32>) grid 1 block 8 {
  %one = arith.constant 1.0 : f32
  %o = kernel.shuffle xor %one, 4 width 8 threads 8 : f32
  %s = arith.addf %one, %o : f32
  kernel.store %s, %y[0] : memref<1xf32>
}
kernel.func @forty() -> (%y: memref<1xf32>) grid 1 block 40 {
  %one = arith.constant 1.0 : f32
  %o = kernel.shuffle xor %one, 4 width 8 threads 40 : f32
  %s = arith.addf %one, %o : f32
  kernel.store %s, %y[0] : memref<1xf32>
}
kernel.func @one() -> (%y: memref<i64>) grid 1 block 1 {
  %one = arith.constant 1 : i64
  kernel.store %one, %y[] : memref<i64>
}

// -----

// More than 48 KB of shared memory is one dynamic buffer.
// CHECK: char* dynamic_shared()
// CHECK: char* smem = dynamic_shared();  // 73760 bytes
// CHECK-NEXT: float* a = reinterpret_cast<float*>(smem);  // [2][24]
// CHECK-NEXT: int* b = reinterpret_cast<int*>(smem + 256);  // [18376]
kernel.func @large(%x: memref<64xf32>) -> (%y: memref<64xf32>, %z: memref<64xi32>) grid 1 block 64 {
  %a = kernel.alloc_shared : memref<2x24xf32, #kernel.shared>
  %b = kernel.alloc_shared : memref<18376xi32, #kernel.shared>
  %t = kernel.thread_id
  %v = kernel.load %a[1, %t] : memref<2x24xf32, #kernel.shared>
  %w = kernel.load %b[%t] : memref<18376xi32, #kernel.shared>
  kernel.store %v, %y[%t] : memref<64xf32>
  kernel.store %w, %z[%t] : memref<64xi32>
}

// -----

// Strides and the offset of a layout; padding of shared memory is one, too.
// CHECK: strided(const int* __restrict__ x, int* __restrict__ y) {
// CHECK: __shared__ alignas(16) int s[131];  // [2][64]
// CHECK: s[t + 67] = x[t * 10 + 5];
// CHECK: const int w = t >= 3 ? s[t + 64] : 0;
// CHECK-NEXT: if (t < 10) y[63 - t] = w;
kernel.func @strided(%x: memref<64xi32, strided<[10], offset: 5>>) -> (%y: memref<64xi32>) grid 1 block 64 {
  %s = kernel.alloc_shared : memref<2x64xi32, strided<[67, 1]>, #kernel.shared>
  %t = kernel.thread_id
  %v = kernel.load %x[%t] : memref<64xi32, strided<[10], offset: 5>>
  kernel.store %v, %s[1, %t] : memref<2x64xi32, strided<[67, 1]>, #kernel.shared>
  kernel.barrier
  %w = kernel.load %s[1, %t - 3] where (%t >= 3) : memref<2x64xi32, strided<[67, 1]>, #kernel.shared>
  kernel.store %w, %y[63 - %t] where (%t < 10) : memref<64xi32>
}
