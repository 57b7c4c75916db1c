// RUN: dlc-opt %s -p 'tileify,chunk-matmul-k{bk=64 vector=16},blockify-launch{block=32,16 thread=2,1},stage-inputs{budget=99000},register-tile{extents=16,16 mma=m16n8k16 parts=2}' | filecheck %s
// RUN: dlc-opt %s -p 'tileify,chunk-matmul-k{bk=64 vector=16},blockify-launch{block=32,16 thread=2,1},stage-inputs{budget=99000},register-tile{extents=16,16 mma=m16n8k16 parts=2}' --remarks 2>&1 >/dev/null | filecheck %s --check-prefix=SAYS
// RUN: dlc-opt %s -p 'tileify,chunk-matmul-k{bk=64 vector=16},blockify-launch{block=32,16 thread=2,1},stage-inputs{budget=99000},register-tile{extents=16,16 mma=m16n8k16 parts=2},bind-axes' | filecheck %s --check-prefix=SHARED
// RUN: not dlc-opt %s -p 'tileify,chunk-matmul-k{bk=64 vector=16},blockify-launch{block=32,16 thread=2,1},stage-inputs{budget=99000},register-tile{extents=16,16 mma=m16n8k16 parts=8}' 2>&1 | filecheck %s --check-prefix=MANY
// RUN: not dlc-opt %s -p 'tileify,chunk-matmul-k{bk=512 vector=16},blockify-launch{block=32,16 thread=2,1},register-tile{extents=16,16 mma=m16n8k16 parts=2}' 2>&1 | filecheck %s --check-prefix=WHOLE
// MANY: error: kernel mm: register-tile: the runs of a chunk of K are no multiple of 8 parts
// WHOLE: error: kernel mm: register-tile: expected chunks of K, of which warps take parts

// Two warps have the same sums, each of half of a chunk; what they have is folded at the end.
// SAYS: register-tile: mm: 1 x 2 tiles of 16 x 8 points a warp, by #kernel.mma<m16n8k16, f16>; chunks of K in 2 parts, each of other warps
// CHECK: thread(%ti in 2, %part in 2, %group in 8, %member in 4)
// CHECK: %acc_part = tile.reduce add serial(%ko in 4) -> f32 {
// CHECK: tile.reduce add by <m16n8k16, f16>(%group, %member, %half, %pair) serial(%ki in 2) fragment(%kv in 16) -> f32 {
// CHECK: tile.load %A_smem[%ti * 16 + %half * 8 + %group, %part * 32 + %ki * 16 + %kv]
// CHECK: %acc = tile.combine add %acc_part across(%part) dealt : f32

// Each thread puts what it holds into shared memory, and folds its share, here one of two tiles.
// SHARED: %acc_parts = kernel.alloc_shared : memref<2x2x2x64x2xf32, #kernel.shared>
// SHARED-NEXT: tile.store %acc_part, %acc_parts[%part, %rj, %half, %ti * 32 + %group * 4 + %member, %pair]
// SHARED-NEXT: %acc = tile.reduce add serial(%part_1 in 2) -> f32 {
// SHARED-NEXT: tile.load %acc_parts[%part_1, %part, %half, %ti * 32 + %group * 4 + %member, %pair]
// SHARED: tile.store %acc, %C[%bi * 32 + %ti * 16 + %half * 8 + %group, %bj * 16 + %part * 8 + %member * 2 + %pair]
%A = "test.op"() : () -> tensor<64x256xf16>
%B = "test.op"() : () -> tensor<256x32xf16>
%C = loop.kernel @mm(%A: memref<64x256xf16> = %A, %B: memref<256x32xf16> = %B) -> (%C: memref<64x32xf32>) {
  loop.for %i in 64, %j in 32 {
    %acc = loop.reduce add %k in 256 -> f32 {
      %a = loop.load %A[%i, %k] : memref<64x256xf16>
      %b = loop.load %B[%k, %j] : memref<256x32xf16>
      %ae = arith.extf %a : f16 to f32
      %be = arith.extf %b : f16 to f32
      %p = arith.mulf %ae, %be : f32
      loop.yield %p : f32
    }
    loop.store %acc, %C[%i, %j] : memref<64x32xf32>
  }
}
