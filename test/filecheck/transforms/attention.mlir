// RUN: dlc-opt %s -p 'join-cascades,tileify,chunk-matmul-k{bk=16 vector=4},blockify-launch{block=16,8 thread=8,4},stage-inputs{budget=20000 compute=true points=2,4},register-tile{extents=2,2}' | filecheck %s
// RUN: dlc-opt %s -p 'join-cascades,tileify,chunk-matmul-k{bk=16 vector=4},blockify-launch{block=16,8 thread=8,4},stage-inputs{budget=20000 compute=true points=2,4},register-tile{extents=2,2}' --remarks 2>&1 >/dev/null | filecheck %s --check-prefix=REMARK
// RUN: dlc-opt %s -p 'join-cascades,tileify,chunk-matmul-k{bk=16 vector=4},blockify-launch{block=16,8 thread=8,4},stage-inputs{budget=20000 compute=true points=2,4},register-tile{extents=2,2},double-buffer{depth=2},bind-axes,lower-stages,lower-reduces' | filecheck %s --check-prefix=LOWERED
// RUN: dlc-opt %s -p 'join-cascades,tileify,chunk-matmul-k{bk=16 vector=4},blockify-launch{block=16,8 thread=8,4 lanes=2},stage-inputs{budget=20000 compute=true points=2,4},register-tile{extents=2,2 held=true}' | filecheck %s --check-prefix=HELD
// RUN: dlc-opt %s -p 'join-cascades,tileify,chunk-matmul-k{bk=16 vector=4},blockify-launch{block=2,64 thread=1,64},stage-inputs{budget=20000 compute=true points=1,1},register-tile{extents=2 held=true}' --remarks 2>&1 >/dev/null | filecheck %s --check-prefix=APART

// Attention in one kernel: keys in chunks, of which the block computes the scores once, a thread
// two rows and four keys of them at a time; then the largest of each row, the powers and their sums.
// Scores beyond the last key are -inf, their powers 0 and the values 0: what folds them asks nothing.
// CHECK: tile.launch block(%brow in 2) thread(%trow in 8, %tc in 4) register(%rrow in 2, %rc in 2) {
// CHECK-NEXT: %q_smem = tile.stage %q[%brow * 16, 0] [16, 8]
// CHECK-NEXT: %max, %sum, %o = tile.reduce expsum serial(%jo in 4) -> (f32, f32, f32) {
// CHECK: %s_smem = tile.compute points [2, 4] thread(%p in 16, %q_1 in 16) {
// CHECK-NEXT: tile.reduce add serial(%d in 2) register(%dv in 4) -> f32 {
// CHECK: %s_1 = tile.select %s where (%jo * 16 + %q_1 < 50) else %{{.*}} : f32
// CHECK-NEXT: tile.yield %s_1 : f32
// CHECK-NEXT: } : memref<16x16xf32, #tile.shared>
// CHECK-NEXT: %max_part_smem = tile.compute points [1] thread(%p_2 in 16) {
// CHECK-NEXT: tile.reduce max serial(%ji in 4) register(%jv in 4) -> f32 {
// CHECK-NEXT: tile.load %s_smem[%p_2, %ji * 4 + %jv]
// CHECK-NEXT: tile.yield %{{.*}} : f32
// CHECK: %power_smem = tile.compute thread(%p_3 in 16, %q_2 in 16) {
// CHECK: arith.cmpf oeq
// CHECK: arith.select
// CHECK-NEXT: arith.subf
// CHECK-NEXT: %power = math.exp_below
// CHECK: %sum_part_smem = tile.compute points [1] thread(%p_4 in 16) {
// CHECK-NEXT: tile.reduce add serial(%ji_1 in 4) register(%jv_1 in 4) -> f32 {
// CHECK-NEXT: tile.load %power_smem[%p_4, %ji_1 * 4 + %jv_1]
// CHECK: %o_part = tile.reduce add serial(%ji_2 in 4) register(%jv_2 in 4) -> f32 {
// CHECK: tile.load %power_smem[%trow * 2 + %rrow, %ji_2 * 4 + %jv_2]
// CHECK-NEXT: arith.mulf
// CHECK-NEXT: tile.yield %{{.*}} : f32
// CHECK: %sum_part_{{.*}} = tile.load %sum_part_smem[%trow * 2 + %rrow]
// CHECK: tile.yield %max_part_{{.*}}, %sum_part_{{.*}}, %o_part : f32, f32, f32

// REMARK: chunk-matmul-k: attention: keys in chunks of 16, of which the largest is found first
// REMARK: stage-inputs: attention: staged {{.*}}; computed s (1024 B, read 8 times); computed max_part (64 B, read 8 times); computed power (1024 B, read 8 times); computed sum_part (64 B, read 8 times)

// What varies along rows alone has no columns: two accumulators are of one kind, the third not.
// LOWERED: %max, %sum = tile.accumulator %{{.*}}, %{{.*}} over(%rrow) : f32, f32 -> memref<2xf32, #kernel.local>, memref<2xf32, #kernel.local>
// LOWERED: %o = tile.accumulator %{{.*}} over(%rrow, %rc)
// LOWERED: tile.each over(%rrow) {
// LOWERED-NEXT: kernel.store %{{.*}}, %max[%rrow]
// LOWERED-NEXT: kernel.store %{{.*}}, %sum[%rrow]
// LOWERED-NEXT: }
// LOWERED-NEXT: tile.each over(%rrow, %rc) {
// LOWERED-NEXT: kernel.store %{{.*}}, %o[%rrow, %rc]

// Threads of a row hold its scores and powers, of which others read the powers.
// HELD: thread(%trowo in 4, %tc in 4, %trowi in 2) register(%rrow in 2, %rc in 2)
// HELD: tile.reduce expsum rising
// HELD: %s = tile.hold across(%tc) register(%r in 2, %rkeyo in 1, %rkeyi in 4) {
// HELD: tile.load %q_smem[%trowo * 4 + %trowi * 2 + %r, %d * 4 + %dv]
// HELD-NEXT: tile.load %ks_smem[%rkeyo * 16 + %tc * 4 + %rkeyi, %d * 4 + %dv]
// HELD: } : memref<2x16xf32, #tile.held>
// HELD-NEXT: %max_part = tile.hold register(%r_1 in 2) {
// HELD-NEXT: tile.reduce max register(%rkeyi_1 in 4) -> f32 {
// HELD-NEXT: tile.load %s[%r_1, %tc * 4 + %rkeyi_1] : memref<2x16xf32, #tile.held>
// HELD: tile.combine max %{{.*}} across(%tc) : f32
// HELD-NEXT: tile.so_far [%r_1] : f32
// HELD: %power = tile.hold across(%tc) register(%r_2 in 2, %rkeyo_1 in 1, %rkeyi_2 in 4) {
// HELD: tile.load %max_part[%r_2]
// HELD: %power_smem = tile.share %power[%trowo * 4 + %trowi * 2] : memref<2x16xf32, #tile.held> -> memref<16x16xf32, #tile.shared>
// HELD-NEXT: %sum_part = tile.hold register(%r_3 in 2) {
// HELD: tile.combine add %{{.*}} across(%tc) : f32
// HELD-NOT: tile.compute
// APART: register-tile: attention: 2 points in registers; slabs of rows stay in shared memory: the 64 threads that share a row are not in one warp
%q = "test.op"() : () -> tensor<20x8xf32>
%ks = "test.op"() : () -> tensor<50x8xf32>
%v = "test.op"() : () -> tensor<50x8xf32>
%y = loop.kernel @attention(%q: memref<20x8xf32> = %q, %ks: memref<50x8xf32> = %ks, %v: memref<50x8xf32> = %v) -> (%y: memref<20x8xf32>) {
  loop.for %row in 20, %c in 8 {
    %max = loop.reduce max %j in 50 -> f32 {
      %s = loop.reduce add %d in 8 -> f32 {
        %a = loop.load %q[%row, %d] : memref<20x8xf32>
        %b = loop.load %ks[%j, %d] : memref<50x8xf32>
        %p = arith.mulf %a, %b : f32
        loop.yield %p : f32
      }
      loop.yield %s : f32
    }
    %sum, %o = loop.reduce add %j in 50 -> (f32, f32) {
      %s = loop.reduce add %d in 8 -> f32 {
        %a = loop.load %q[%row, %d] : memref<20x8xf32>
        %b = loop.load %ks[%j, %d] : memref<50x8xf32>
        %p = arith.mulf %a, %b : f32
        loop.yield %p : f32
      }
      %t = arith.subf %s, %max : f32
      %e = math.exp %t : f32
      %x = loop.load %v[%j, %c] : memref<50x8xf32>
      %z = arith.mulf %e, %x : f32
      loop.yield %e, %z : f32, f32
    }
    %r = arith.divf %o, %sum : f32
    loop.store %r, %y[%row, %c] : memref<20x8xf32>
  }
}
