// RUN: dlc-opt %s -p 'tileify,chunk-matmul-k{bk=64 vector=16},blockify-launch{block=128,128 thread=2,1},register-tile{extents=64,128 mma=m64n128k16}' | filecheck %s
// RUN: dlc-opt %s -p 'tileify,chunk-matmul-k{bk=64 vector=16},blockify-launch{block=128,128 thread=2,1},stage-inputs{budget=65536},register-tile{extents=64,128 mma=m64n128k16},double-buffer{depth=3},split-inner-for-swizzle{bytes=128},bind-axes,lower-stages,lower-reduces,lower-registers' | filecheck %s --check-prefix=KERNEL
// RUN: dlc-opt %s -p 'tileify,chunk-matmul-k{bk=64 vector=16},blockify-launch{block=128,128 thread=2,1},stage-inputs{budget=65536},register-tile{extents=64,128 mma=m64n128k16},bind-axes,lower-stages,lower-reduces' --remarks 2>&1 >/dev/null | filecheck %s --check-prefix=REMARK
// RUN: dlc-opt %s -p 'tileify,chunk-matmul-k{bk=64 vector=16},blockify-launch{block=128,128 thread=2,1},stage-inputs{budget=65536},register-tile{extents=64,128 mma=m64n128k16},double-buffer{depth=4},split-inner-for-swizzle{bytes=128},async-copy,pipeline-k-outer{products=1}' | filecheck %s --check-prefix=AHEAD
// RUN: dlc-opt %s -p 'tileify,chunk-matmul-k{bk=64 vector=16},blockify-launch{block=128,128 thread=2,1},stage-inputs{budget=65536},register-tile{extents=64,128 mma=m64n128k16},double-buffer{depth=4},split-inner-for-swizzle{bytes=128},async-copy,pipeline-k-outer{products=1},mark-unroll,bind-axes,lower-stages,lower-reduces,lower-registers,place-barriers' | filecheck %s --check-prefix=FLIGHT

// Threads become warpgroups, each of whose four warps has rows of its own.
// CHECK: tile.launch block(%bi in 2, %bj in 2) thread(%ti in 2, %quarter in 4, %group in 8, %member in 4) register(%rj in 16, %half in 2, %pair in 2) {
// CHECK: %acc_part = tile.reduce add by <m64n128k16, bf16>(%quarter, %group, %member, %half, %pair) serial(%ki in 4) fragment(%kv in 16) -> f32 {
// CHECK-NEXT: %a = tile.load %A[%bi * 128 + %ti * 64 + %quarter * 16 + %half * 8 + %group, %ko * 64 + %ki * 16 + %kv]
// CHECK-NEXT: %b = tile.load %B[%ko * 64 + %ki * 16 + %kv, %bj * 128 + %rj * 8 + %member * 2 + %pair]

// Descriptors tell where the factors lie; B has its columns in two panels of 64.
// KERNEL: %acc = kernel.alloc_local : memref<16x4xf32, #kernel.local>
// KERNEL: kernel.wgmma_fence %acc : memref<16x4xf32, #kernel.local>
// KERNEL-NEXT: scf.for %ki
// KERNEL: %a_matrix = kernel.matrix_descriptor %A_ring[%slot, %ti * 64, %ki * 16] leading 16 stride 1024 swizzle 128 : memref<3x128x64xbf16, #kernel.swizzle<128>, #kernel.shared>
// KERNEL-NEXT: %b_matrix = kernel.matrix_descriptor %B_ring[%slot, %ki * 16, 0] leading 8192 stride 1024 swizzle 128 : memref<3x64x128xbf16, #kernel.swizzle<128>, #kernel.shared>
// KERNEL-NEXT: kernel.wgmma <m64n128k16, bf16> %acc[0, 0], %a_matrix, %b_matrix n_major : memref<16x4xf32, #kernel.local>
// KERNEL-NEXT: }
// KERNEL-NEXT: kernel.wgmma_commit
// KERNEL-NEXT: kernel.wgmma_wait 0, %acc : memref<16x4xf32, #kernel.local>

// Products of a chunk may be in flight while those of the next one are requested: a slot is in use
// longer, so that chunks are requested one less ahead, and one barrier still is enough.
// AHEAD: tile.fill %A_ring[1]
// AHEAD-NOT: tile.fill %A_ring[2]
// AHEAD: tile.fill %A_ring[%ko + 2]
// AHEAD: tile.reduce add by <m64n128k16, bf16>(%quarter, %group, %member, %half, %pair) pending 1 serial(%ki in 4)
// FLIGHT: kernel.wait 1
// FLIGHT: kernel.fence_proxy_async
// FLIGHT-NEXT: kernel.barrier
// FLIGHT-NOT: kernel.barrier
// FLIGHT: kernel.wgmma_commit
// FLIGHT-NEXT: kernel.wgmma_wait 1, %acc
// FLIGHT-NEXT: }
// FLIGHT-NEXT: kernel.wgmma_wait 0, %acc

// What lies otherwise is left to each warp.
// REMARK: lower-reduces: mm: by #kernel.mma<m16n8k16, bf16> of each warp, not by #kernel.mma<m64n128k16, bf16>: A_smem is not swizzled (split-inner-for-swizzle)
%A = "test.op"() : () -> tensor<256x256xbf16>
%B = "test.op"() : () -> tensor<256x256xbf16>
%C = loop.kernel @mm(%A: memref<256x256xbf16> = %A, %B: memref<256x256xbf16> = %B) -> (%C: memref<256x256xf32>)
    schedule "tileify,async-copy,mark-unroll{limit=4}" {
  loop.for %i in 256, %j in 256 {
    %acc = loop.reduce add %k in 256 -> f32 {
      %a = loop.load %A[%i, %k] : memref<256x256xbf16>
      %b = loop.load %B[%k, %j] : memref<256x256xbf16>
      %x = arith.extf %a : bf16 to f32
      %y = arith.extf %b : bf16 to f32
      %p = arith.mulf %x, %y : f32
      loop.yield %p : f32
    }
    loop.store %acc, %C[%i, %j] : memref<256x256xf32>
  }
}
