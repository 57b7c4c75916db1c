// RUN: dlc-opt %s -p 'tileify,chunk-matmul-k{bk=64 vector=16},blockify-launch{block=64,64 thread=4,1},stage-inputs{budget=99000 compute=true},register-tile{extents=16,64 mma=m16n8k16}' | filecheck %s
// RUN: dlc-opt %s -p 'tileify,chunk-matmul-k{bk=64 vector=16},blockify-launch{block=64,64 thread=4,1},stage-inputs{budget=99000 compute=true},register-tile{extents=16,64 mma=m16n8k16},bind-axes,lower-stages,lower-reduces,lower-registers' | filecheck %s --check-prefix=KERNEL

// Attention of bf16: the lanes of a warp hold the scores of its rows as sums of products, the
// largest of each row, and the powers, which are rounded as a factor of products with v. These are
// powers of 2, as the number that scores are scaled with is divided by ln 2.
// CHECK: tile.reduce exp2sum rising serial(%ko in 2) -> (f32, f32, f32) {
// CHECK: %scores = tile.hold across(%member) register(%half_1 in 2, %rkey in 8, %pair_1 in 2) {
// CHECK-NEXT: tile.reduce add by <m16n8k16, bf16>(%group, %member, %half_1, %pair_1) serial(%d in 4) fragment(%dv in 16) -> f32 {
// CHECK-NEXT: %a = tile.load %q_smem[%trow * 16 + %half_1 * 8 + %group, %d * 16 + %dv]
// CHECK-NEXT: %b = tile.load %k_smem[%rkey * 8 + %member * 2 + %pair_1, %d * 16 + %dv]
// CHECK: %[[SCALE:.*]] = arith.constant 0.180336878 : f32
// CHECK-NEXT: arith.mulf %dot, %[[SCALE]] : f32
// Beyond the last key a score is -inf, its power 0, and v is.
// CHECK: tile.select %{{.*}} where (%ko * 64 + %rkey * 8 + %member * 2 + %pair_1 < 100) else
// CHECK-NEXT: tile.yield
// CHECK-NEXT: } : memref<2x64xf32, #tile.held>
// CHECK-NEXT: %max_part = tile.hold register(%half_2 in 2) {
// CHECK-NEXT: tile.reduce max register(%rkey_1 in 8, %pair_2 in 2) -> f32 {
// CHECK-NEXT: tile.load %scores[%half_2, %rkey_1 * 8 + %member * 2 + %pair_2]
// CHECK: %[[OWN:.*]] = tile.combine max %{{.*}} across(%member) : f32
// The largest of all chunks so far: what is summed of these is multiplied once, and the chunk added.
// CHECK-NEXT: %before = tile.so_far [%half_2] : f32
// CHECK-NEXT: %[[ALL:.*]] = arith.maximumf %before, %[[OWN]] : f32
// CHECK-NEXT: tile.yield %[[ALL]] : f32
// CHECK-NEXT: } : memref<2xf32, #tile.held>
// CHECK-NEXT: %power = tile.hold across(%member)
// CHECK: math.exp2_below
// CHECK: } : memref<2x64xf32, #tile.held>
// CHECK-NEXT: %power_factor = tile.hold across(%member)
// CHECK-NEXT: tile.load %power[
// CHECK-NEXT: arith.truncf %{{.*}} : f32 to bf16
// CHECK-NEXT: tile.yield %{{.*}} : bf16
// CHECK-NEXT: } : memref<2x64xbf16, #tile.held>
// CHECK-NEXT: %sum_part = tile.hold register
// CHECK-NEXT: tile.reduce add register(%rkey_4 in 8, %pair_5 in 2)
// CHECK-NEXT: tile.load %power[
// CHECK: tile.yield %{{[^ ]*}} : f32
// CHECK: %out_part = tile.reduce add by <m16n8k16, bf16>(%group, %member, %half, %pair) serial(%ki in 4) fragment(%kv in 16) -> f32 {
// CHECK: tile.load %v_smem[%ki * 16 + %kv, %rc * 8 + %member * 2 + %pair]
// CHECK: tile.load %power_factor[%half, %ki * 16 + %kv]
// CHECK: tile.yield %{{[^ ]*}} : f32

// A lane's part of a factor is what it holds.
// KERNEL: math.exp2_below
// KERNEL: arith.mulf %out_{{[0-9]+}}, %{{[0-9]+}} : f32
// KERNEL: %power_part = kernel.alloc_local : memref<8xbf16, #kernel.local>
// KERNEL: kernel.load %power_factor[0, %ki * 2, 0] : memref<2x8x2xbf16, #kernel.local>
// KERNEL: kernel.load %power_factor[0, %ki * 2, 1]
// KERNEL: kernel.load %power_factor[1, %ki * 2, 0]
// KERNEL: kernel.load %power_factor[1, %ki * 2, 1]
// KERNEL: kernel.load %power_factor[0, %ki * 2 + 1, 0]
// KERNEL: kernel.ldmatrix %v_smem{{.*}} transposed
// KERNEL: kernel.load %out{{.*}} : memref<8x4xf32, #kernel.local> -> vector<4xf32>
// KERNEL: kernel.mma <m16n8k16, bf16>
%q = "test.op"() : () -> tensor<128x64xbf16>
%k = "test.op"() : () -> tensor<100x64xbf16>
%v = "test.op"() : () -> tensor<100x64xbf16>
%o = loop.kernel @attend(%q: memref<128x64xbf16> = %q, %k: memref<100x64xbf16> = %k, %v: memref<100x64xbf16> = %v) -> (%o: memref<128x64xf32>) {
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
