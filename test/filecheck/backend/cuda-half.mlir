// RUN: dlc-opt %s -p vectorize-accesses -t cuda | filecheck %s

// CUDA's own headers declare the types; eight of them are one access of 16 bytes.
// CHECK:      #ifdef __CUDACC__
// CHECK-NEXT: #include <cuda_fp16.h>
// CHECK-NEXT: #endif
// CHECK:      #include <cuda_bf16.h>
// CHECK:      struct alignas(N * sizeof(T)) packed { T lane[N]; };
// CHECK:      halves(const __half* __restrict__ x, __nv_bfloat16* __restrict__ y) {
// CHECK-NEXT:   const int t = threadIdx.x;
// CHECK-NEXT:   alignas(16) __half a[8];
// CHECK-NEXT:   store_packed(&a[0], t * 8 < 96 ? load_packed<8>(&x[t * 8])
// CHECK-NEXT:       : fill_packed<8>(__float2half_rn(0.099975586f)));
// CHECK-NEXT:   alignas(16) __nv_bfloat16 b[8];
// CHECK-NEXT:   #pragma unroll
// CHECK-NEXT:   for (int v = 0; v < 8; ++v) {
// CHECK-NEXT:     const float e = __half2float(a[v]);
// CHECK-NEXT:     b[v] = to_bf16(e * e);
// CHECK-NEXT:   }
// CHECK-NEXT:   if (t * 8 < 96) store_packed(&y[t * 8], load_packed<8>(&b[0]));
// CHECK-NEXT: }
kernel.func @halves(%x: memref<96xf16>) -> (%y: memref<96xbf16>) grid 1 block 32 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %tenth = arith.constant 1.000000e-01 : f16
  %t = kernel.thread_id
  %a = kernel.alloc_local : memref<8xf16, #kernel.local>
  scf.for %v = %c0 to %c8 step %c1 {
    %e = kernel.load %x[%t * 8 + %v] where (%t * 8 + %v < 96) else %tenth : memref<96xf16>
    kernel.store %e, %a[%v] : memref<8xf16, #kernel.local>
  } {unroll}
  %b = kernel.alloc_local : memref<8xbf16, #kernel.local>
  scf.for %v = %c0 to %c8 step %c1 {
    %h = kernel.load %a[%v] : memref<8xf16, #kernel.local>
    %e = arith.extf %h {storage} : f16 to f32
    %s = arith.mulf %e, %e : f32
    %n = arith.truncf %s {storage} : f32 to bf16
    kernel.store %n, %b[%v] : memref<8xbf16, #kernel.local>
  } {unroll}
  scf.for %v = %c0 to %c8 step %c1 {
    %e = kernel.load %b[%v] : memref<8xbf16, #kernel.local>
    kernel.store %e, %y[%t * 8 + %v] where (%t * 8 + %v < 96) : memref<96xbf16>
  } {unroll}
}
