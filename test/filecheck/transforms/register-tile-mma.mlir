// RUN: dlc-opt %s -p 'tileify,chunk-matmul-k{bk=32 vector=16},blockify-launch{block=64,64 thread=2,2},register-tile{extents=32,32 mma=m16n8k16}' | filecheck %s
// RUN: dlc-opt %s -p 'tileify,chunk-matmul-k{bk=32 vector=16},blockify-launch{block=64,64 thread=2,2},stage-inputs{budget=32768},register-tile{extents=32,32 mma=m16n8k16},bind-axes,lower-stages,lower-reduces,lower-registers' | filecheck %s --check-prefix=KERNEL

// Threads become warps; rows and columns are dealt to their lanes, K to lanes and registers.
// CHECK: tile.launch block(%bi in 2, %bj in 2) thread(%ti in 2, %tj in 2, %group in 8, %member in 4) register(%ri in 2, %rj in 4, %half in 2, %pair in 2) {
// CHECK-NEXT: %acc = tile.reduce add serial(%ko in 4) -> f32 {
// CHECK-NEXT: %acc_part = tile.reduce add by <m16n8k16, bf16>(%group, %member, %half, %pair) serial(%ki in 2) fragment(%kv in 16) -> f32 {
// CHECK-NEXT: %a = tile.load %A[%bi * 64 + %ti * 32 + %ri * 16 + %half * 8 + %group, %ko * 32 + %ki * 16 + %kv]
// CHECK-NEXT: %b = tile.load %B[%ko * 32 + %ki * 16 + %kv, %bj * 64 + %tj * 32 + %rj * 8 + %member * 2 + %pair]
// CHECK: tile.store %acc, %C[%bi * 64 + %ti * 32 + %ri * 16 + %half * 8 + %group, %bj * 64 + %tj * 32 + %rj * 8 + %member * 2 + %pair]

// KERNEL: %acc = kernel.alloc_local : memref<2x4x4xf32, #kernel.local>
// KERNEL: %a = kernel.ldmatrix %A_smem[%ti * 32 + %ri_1 * 16 + (%lane floordiv 8) mod 2 * 8 + %lane mod 8, %ki * 16 + %lane floordiv 16 * 8] : {{.*}} -> vector<8xbf16>
// Two tiles of columns are loaded at once.
// KERNEL: scf.for %rj_1 = %{{.*}} to %{{.*}} step
// KERNEL-NEXT: %b = kernel.ldmatrix %B_smem[%ki * 16 + (%lane floordiv 8) mod 2 * 8 + %lane mod 8, %tj * 32 + %rj_1 * 16 + %lane floordiv 16 * 8] transposed : {{.*}} -> vector<8xbf16>
// KERNEL: kernel.mma <m16n8k16, bf16>
%A = "test.op"() : () -> tensor<128x128xbf16>
%B = "test.op"() : () -> tensor<128x128xbf16>
%C = loop.kernel @mm(%A: memref<128x128xbf16> = %A, %B: memref<128x128xbf16> = %B) -> (%C: memref<128x128xf32>) {
  loop.for %i in 128, %j in 128 {
    %acc = loop.reduce add %k in 128 -> f32 {
      %a = loop.load %A[%i, %k] : memref<128x128xbf16>
      %b = loop.load %B[%k, %j] : memref<128x128xbf16>
      %x = arith.extf %a : bf16 to f32
      %y = arith.extf %b : bf16 to f32
      %p = arith.mulf %x, %y : f32
      loop.yield %p : f32
    }
    loop.store %acc, %C[%i, %j] : memref<128x128xf32>
  }
}
