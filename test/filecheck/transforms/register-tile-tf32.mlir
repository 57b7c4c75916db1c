// RUN: dlc-opt %s -p 'tileify,chunk-matmul-k{bk=32 vector=8},blockify-launch{block=64,64 thread=2,2},stage-inputs{budget=32768},register-tile{extents=32,32 mma=m16n8k8 precision=3xtf32}' | filecheck %s
// RUN: dlc-opt %s -p 'tileify,chunk-matmul-k{bk=32 vector=8},blockify-launch{block=64,64 thread=2,2},stage-inputs{budget=32768},register-tile{extents=32,32 mma=m16n8k8 precision=tf32}' | filecheck %s --check-prefix=ONCE
// RUN: dlc-opt %s -p 'tileify,chunk-matmul-k{bk=32 vector=8},blockify-launch{block=64,64 thread=2,2},stage-inputs{budget=32768},register-tile{extents=32,32 mma=m16n8k8 precision=3xtf32},bind-axes,lower-stages,lower-reduces,lower-registers' | filecheck %s --check-prefix=KERNEL
// RUN: dlc-opt %s -p 'tileify,chunk-matmul-k{bk=32 vector=8},blockify-launch{block=64,64 thread=1,1},stage-inputs{budget=32768},register-tile{extents=64,64 mma=m64n64k8 precision=tf32 apart=true}' | filecheck %s --check-prefix=APART

// CHECK: tile.reduce add by <m16n8k8, tf32>(%group, %member, %half, %pair) split serial(%ki in 4) fragment(%kv in 8) -> f32 {
// ONCE: tile.reduce add by <m16n8k8, tf32>(%group, %member, %half, %pair) serial(%ki in 4) fragment(%kv in 8) -> f32 {
// APART: tile.reduce add by <m64n64k8, tf32>(%quarter, %group, %member, %half, %pair) apart serial(%ki in 4) fragment(%kv in 8) -> f32 {

// The sums of a chunk are the warp's own, and are added to those of all chunks.
// KERNEL: %acc = kernel.alloc_local : memref<2x4x2x2xf32, #kernel.local>
// KERNEL: scf.for %ko
// KERNEL: %acc_part = kernel.alloc_local : memref<2x4x4xf32, #kernel.local>
// A row of 16 bytes has 4 elements along K.
// KERNEL: kernel.ldmatrix %A_smem[%ti * 32 + %ri{{.*}} * 16 + (%lane floordiv 8) mod 2 * 8 + %lane mod 8, %ki * 8 + %lane floordiv 16 * 4] : {{.*}} -> vector<4xf32>
// KERNEL-NOT: kernel.ldmatrix
// Each element is taken apart once.
// KERNEL: %[[BITS:.*]] = arith.bitcast %{{.*}} : f32 to i32
// KERNEL-NEXT: %[[KEPT:.*]] = arith.andi %[[BITS]], %{{.*}} : i32
// KERNEL-NEXT: %big = arith.bitcast %[[KEPT]] : i32 to f32
// KERNEL-NEXT: %rest = arith.subf %{{.*}}, %big : f32
// KERNEL-COUNT-3: kernel.mma <m16n8k8, tf32>
// KERNEL-NOT: kernel.mma
// KERNEL: arith.addf
%A = "test.op"() : () -> tensor<128x128xf32>
%B = "test.op"() : () -> tensor<128x128xf32>
%C = loop.kernel @mm(%A: memref<128x128xf32> = %A, %B: memref<128x128xf32> = %B) -> (%C: memref<128x128xf32>) {
  loop.for %i in 128, %j in 128 {
    %acc = loop.reduce add %k in 128 -> f32 {
      %a = loop.load %A[%i, %k] : memref<128x128xf32>
      %b = loop.load %B[%k, %j] : memref<128x128xf32>
      %p = arith.mulf %a, %b : f32
      loop.yield %p : f32
    }
    loop.store %acc, %C[%i, %j] : memref<128x128xf32>
  }
}
