// RUN: dlc-opt %s -p tileify,chunk-matmul-k,blockify-launch,stage-inputs,register-tile,double-buffer,tma-copy,split-inner-for-swizzle,pipeline-k-outer | filecheck %s
// RUN: dlc-opt %s -p tileify,chunk-matmul-k,blockify-launch,stage-inputs,register-tile,double-buffer,tma-copy,split-inner-for-swizzle,pipeline-k-outer,bind-axes,lower-stages,lower-reduces,lower-registers,place-barriers | filecheck %s --check-prefix=KERNEL
// RUN: sed s/producer=1/"producer=1 turns=1"/ %s | dlc-opt -p tileify,chunk-matmul-k,blockify-launch,stage-inputs,register-tile,double-buffer,tma-copy,split-inner-for-swizzle,pipeline-k-outer,bind-axes,lower-stages,lower-reduces,lower-registers,place-barriers | filecheck %s --check-prefix=ALTERNATE
// RUN: sed -e s/producer=1/"producer=1 turns=1"/ -e "s/block=128,64 thread=2/block=64,64 thread=1/" %s | not dlc-opt -p tileify,chunk-matmul-k,blockify-launch,stage-inputs,register-tile,double-buffer,tma-copy,split-inner-for-swizzle,pipeline-k-outer 2>&1 | filecheck %s --check-prefix=ALONE
// RUN: sed s/producer=1/"producer=1 resident=1"/ %s | not dlc-opt -p tileify,chunk-matmul-k,blockify-launch,stage-inputs,register-tile,double-buffer,tma-copy,split-inner-for-swizzle,pipeline-k-outer 2>&1 | filecheck %s --check-prefix=TURNS

// Attention of bf16 by warpgroups: scores are sums of products of as many columns as there are keys.
// CHECK: tile.launch thread(%trow in 2, %quarter in 4, %group in 8, %member in 4) register(%rc in 8, %half in 2, %pair in 2) {
// What is staged once is swizzled, too.
// CHECK-NEXT: %q_smem = tile.stage %q[0, 0] [128, 64] : {{.*}} -> memref<128x64xbf16, #kernel.swizzle<128>, #tile.shared>
// CHECK-NEXT: %k_ring = tile.ring tma %k(%n in 4)[%n * 32, 0] [32, 64] {producer}
// CHECK: tile.reduce exp2sum rising serial(%ko in 4) -> (f32, f32, f32) {
// CHECK: %scores = tile.hold across(%member) register(%half_1 in 2, %rkey in 4, %pair_1 in 2) {
// CHECK-NEXT: tile.reduce add by <m64n32k16, bf16>(%quarter, %group, %member, %half_1, %pair_1) serial(%d in 4) fragment(%dv in 16) -> f32 {
// CHECK-NEXT: %a = tile.load %q_smem[%trow * 64 + %half_1 * 8 + %quarter * 16 + %group, %d * 16 + %dv]
// CHECK-NEXT: %b = tile.load %k_smem[%rkey * 8 + %member * 2 + %pair_1, %d * 16 + %dv]
// CHECK: %power_factor = tile.hold across(%member)
// CHECK: } : memref<2x32xbf16, #tile.held>
// CHECK: %out_part = tile.reduce add by <m64n64k16, bf16>(%quarter, %group, %member, %half, %pair) serial(%ki in 2) fragment(%kv in 16) -> f32 {
// CHECK: tile.load %power_factor[%half, %ki * 16 + %kv]

// All threads copy what is staged; then the producer parts from the others.
// KERNEL: kernel.store %{{.*}}, %q_smem
// KERNEL: kernel.fence_proxy_async
// KERNEL-NEXT: kernel.barrier
// KERNEL: kernel.mbarrier_wait %full
// KERNEL: kernel.wgmma_fence %dot
// KERNEL: %a_matrix = kernel.matrix_descriptor %q_smem[%trow * 64, %d * 16] leading 16 stride 1024 swizzle 128
// KERNEL: kernel.wgmma <m64n32k16, bf16> %dot[0, 0], %a_matrix, %b_matrix
// KERNEL: kernel.wgmma_commit
// KERNEL-NEXT: kernel.wgmma_wait 0, %dot
// Only the last chunk asks which of its keys there are.
// KERNEL: kernel.test where (%ko * 32 >= 69)
// KERNEL-NEXT: scf.if
// KERNEL: kernel.select {{.*}} where (%ko * 32 + %rkey_{{.*}} * 8 + %member * 2 + %pair_{{.*}} < 100)
// All of the factor is in its registers before the first product.
// KERNEL: kernel.store %{{.*}}, %power_part[%ki, 7]
// KERNEL-NOT: kernel.store
// KERNEL: kernel.wgmma_fence %out, %power_part
// KERNEL: kernel.wgmma_held <m64n64k16, bf16> %out[0, 0], %power_part[%ki_1, 0], %z_matrix n_major
// KERNEL: kernel.wgmma_commit
// KERNEL-NEXT: kernel.wgmma_wait 0, %out, %power_part
// KERNEL: kernel.mbarrier_arrive %empty

// Warpgroups take turns: the second waits for the first one's products of scores to be requested.
// ALTERNATE: %turn = kernel.alloc_mbarriers 2
// ALTERNATE: kernel.mbarrier_init %turn[%of], 4
// ALTERNATE: kernel.fence_mbarrier_init
// ALTERNATE: kernel.mbarrier_wait %turn[(%tid floordiv 128) mod 2], parity (((%tid floordiv 128) mod 2 + 1) floordiv 2 + 1) mod 2
// ALTERNATE: scf.for %ko
// ALTERNATE: kernel.wgmma_commit
// ALTERNATE-NEXT: kernel.sync_warp
// ALTERNATE-NEXT: kernel.test where (%tid mod 32 < 1)
// ALTERNATE-NEXT: scf.if
// ALTERNATE-NEXT: kernel.mbarrier_arrive %turn[((%tid floordiv 128) mod 2 + 1) mod 2]
// ALTERNATE: kernel.wgmma_wait 0, %dot
// ALTERNATE: kernel.mbarrier_wait %turn[(%tid floordiv 128) mod 2], parity (%ko + ((%tid floordiv 128) mod 2 + 1) floordiv 2) mod 2
// ALTERNATE-NEXT: kernel.wgmma_fence %out, %power_part
// ALTERNATE: kernel.mbarrier_arrive %empty
// ALTERNATE: kernel.mbarrier_arrive %turn
// ALTERNATE: kernel.store {{.*}}, %o

// ALONE: pipeline-k-outer: a block has one warpgroup that computes

// TURNS: pipeline-k-outer: all threads copy a slab before its loop, the producer's, too
%q = "test.op"() : () -> tensor<128x64xbf16>
%k = "test.op"() : () -> tensor<100x64xbf16>
%v = "test.op"() : () -> tensor<100x64xbf16>
%o = loop.kernel @attend(%q: memref<128x64xbf16> = %q, %k: memref<100x64xbf16> = %k, %v: memref<100x64xbf16> = %v) -> (%o: memref<128x64xf32>) schedule "tileify,chunk-matmul-k{bk=32 vector=16},blockify-launch{block=128,64 thread=2,1},stage-inputs{budget=99000 compute=true},register-tile{extents=64,64 mma=m64n64k16},double-buffer{depth=2},tma-copy,split-inner-for-swizzle{bytes=128},pipeline-k-outer{producer=1}" {
  %one = arith.constant 1.0 : f32
  %scale = arith.constant 0.125 : f32
  loop.for %row in 128, %c in 64 {
    %max, %sum, %out = loop.reduce expsum %k_1 in 100 -> (f32, f32, f32) {
      %dot = loop.reduce add %d in 64 -> f32 {
        %a = loop.load %q[%row, %d] : memref<128x64xbf16>
        %b = loop.load %k[%k_1, %d] : memref<100x64xbf16>
        %x = arith.extf %a : bf16 to f32
        %y = arith.extf %b : bf16 to f32
        %p = arith.mulf %x, %y : f32
        loop.yield %p : f32
      }
      %scores = arith.mulf %dot, %scale : f32
      %z = loop.load %v[%k_1, %c] : memref<100x64xbf16>
      %w = arith.extf %z : bf16 to f32
      loop.yield %scores, %one, %w : f32, f32, f32
    }
    %r = arith.divf %out, %sum : f32
    loop.store %r, %o[%row, %c] : memref<128x64xf32>
  }
}
