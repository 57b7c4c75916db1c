// RUN: dlc-opt %s -p 'tileify,chunk-matmul-k{bk=16},blockify-launch{block=128,128 thread=16,16},stage-inputs{budget=65536 compute=true}' | filecheck %s
// RUN: dlc-opt %s -p 'tileify,chunk-matmul-k{bk=16},blockify-launch{block=128,128 thread=16,16},stage-inputs{budget=65536 compute=true}' --remarks 2>&1 >/dev/null | filecheck %s --check-prefix=REMARK
// RUN: dlc-opt %s -p 'tileify,chunk-matmul-k{bk=16},blockify-launch{block=128,128 thread=16,16},stage-inputs{budget=65536}' | filecheck %s --check-prefix=PLAIN
// RUN: dlc-opt %s -p 'tileify,chunk-matmul-k{bk=16},blockify-launch{block=128,128 thread=16,16},stage-inputs{budget=30000 compute=true}' --remarks 2>&1 >/dev/null | filecheck %s --check-prefix=ROOM
// RUN: dlc-opt %s -p 'tileify,chunk-matmul-k{bk=16},blockify-launch{block=128,128 thread=16,16},stage-inputs{budget=65536 compute=true},register-tile{extents=8,8},double-buffer{depth=3},async-copy,pipeline-k-outer' | filecheck %s --check-prefix=RINGS

// What is computed of two slabs, once for each element, after all stages. Beyond K it is 0, as w_smem is,
// so that the sum needs no guard.
// CHECK-LABEL: tile.kernel @gated
// CHECK: %g_smem = tile.stage %g[0, %ko * 16] [128, 16]
// CHECK-NEXT: %u_smem = tile.stage %u[0, %ko * 16] [128, 16]
// CHECK-NEXT: %w_smem = tile.stage
// CHECK-NEXT: %h_smem = tile.compute thread(%p in 128, %q in 16) {
// CHECK-NEXT: %a = tile.load %g_smem[%p, %q]
// CHECK-NEXT: %e = math.exp %a : f32
// CHECK-NEXT: %b = tile.load %u_smem[%p, %q]
// CHECK-NEXT: %h = arith.addf %e, %b : f32
// CHECK-NEXT: tile.yield %h where (%ko * 16 + %q < 2040) : f32
// CHECK-NEXT: } : memref<128x16xf32, #tile.shared>
// CHECK-NEXT: tile.reduce add serial(%ki in 16) -> f32 {
// CHECK-NEXT: %h_1 = tile.load %h_smem[%ti * 8 + %ei, %ki] : memref<128x16xf32, #tile.shared>
// CHECK-NEXT: %c = tile.load %w_smem[%ki, %tj * 8 + %ej]
// CHECK-NEXT: %p_1 = arith.mulf %h_1, %c : f32
// CHECK-NEXT: tile.yield %p_1 : f32

// REMARK: stage-inputs: gated: staged g (8192 B, read 128 times), u (8192 B, read 128 times), w (8192 B, read 128 times); computed h (8192 B, read 128 times)
// ROOM: stage-inputs: gated: staged g (8192 B, read 128 times), u (8192 B, read 128 times), w (8192 B, read 128 times); 8192 B for h > 5424 B left

// Unless it is asked for, threads compute, and what they fold has a guard.
// PLAIN-LABEL: tile.kernel @gated
// PLAIN-NOT: tile.compute
// PLAIN: math.exp
// PLAIN: tile.yield %p where (%ko * 16 + %ki < 2040) : f32

// The slabs that it is computed of become rings, released where it has read them; it stays single.
// RINGS-LABEL: tile.kernel @gated
// RINGS: tile.ring async %g(
// RINGS: tile.ring async %u(
// RINGS: tile.ring async %w(
// RINGS: tile.reduce add serial(%ko in 128)
// RINGS-NEXT: %g_smem = tile.acquire
// RINGS-NEXT: %u_smem = tile.acquire
// RINGS-NEXT: %w_smem = tile.acquire
// RINGS-NEXT: tile.fill %g_ring[%ko + 2]
// RINGS-NEXT: tile.fill %u_ring[%ko + 2]
// RINGS-NEXT: tile.fill %w_ring[%ko + 2]
// RINGS-NEXT: %h_smem = tile.compute
// RINGS: } : memref<128x16xf32, #tile.shared>
// RINGS-NEXT: tile.release %u_ring[%ko]
// RINGS-NEXT: tile.release %g_ring[%ko]
// RINGS-NEXT: tile.reduce add
// RINGS: tile.release %w_ring[%ko]
%g = "test.op"() : () -> tensor<100x2040xf32>
%u = "test.op"() : () -> tensor<100x2040xf32>
%w = "test.op"() : () -> tensor<2040x256xf32>
%y = loop.kernel @gated(%g: memref<100x2040xf32> = %g, %u: memref<100x2040xf32> = %u, %w: memref<2040x256xf32> = %w) -> (%y: memref<100x256xf32>) {
  loop.for %i in 100, %j in 256 {
    %acc = loop.reduce add %k in 2040 -> f32 {
      %a = loop.load %g[%i, %k] : memref<100x2040xf32>
      %e = math.exp %a : f32
      %b = loop.load %u[%i, %k] : memref<100x2040xf32>
      %h = arith.addf %e, %b : f32
      %c = loop.load %w[%k, %j] : memref<2040x256xf32>
      %p = arith.mulf %h, %c : f32
      loop.yield %p : f32
    }
    loop.store %acc, %y[%i, %j] : memref<100x256xf32>
  }
}

// Operands on both sides; an input outside of the loops is read where the element is computed, one
// along K has a slab of its own, and conditions are those of the place.
// CHECK-LABEL: tile.kernel @both
// CHECK: %s_smem = tile.stage %s[%ko * 16] [16]
// CHECK: %xf_smem = tile.compute thread(%p in 128, %q in 16) {
// CHECK-NEXT: %a = tile.load %x_smem[%p, %q]
// CHECK-NEXT: %f0 = tile.load %f[%bi * 128 + %p] : memref<1000xf32>
// CHECK-NEXT: %xf = arith.mulf %a, %f0 : f32
// CHECK: %vs_smem = tile.compute thread(%p_1 in 16, %q_1 in 128) {
// CHECK-NEXT: %c = tile.load %w_smem[%p_1, %q_1]
// CHECK-NEXT: %s0 = tile.load %s_smem[%p_1]
// CHECK-NEXT: %cs = arith.addf %c, %s0 : f32
// CHECK-NEXT: %vs = tile.select %cs where (%bj * 128 - %ko * 16 - %p_1 + %q_1 >= 0) else %zero : f32
// CHECK-NEXT: tile.yield
// CHECK: arith.mulf %xf_1, %vs_1 : f32
%x = "test.op"() : () -> tensor<1000x2048xf32>
%f = "test.op"() : () -> tensor<1000xf32>
%s = "test.op"() : () -> tensor<2048xf32>
%w2 = "test.op"() : () -> tensor<2048x256xf32>
%y2 = loop.kernel @both(%x: memref<1000x2048xf32> = %x, %f: memref<1000xf32> = %f, %s: memref<2048xf32> = %s, %w: memref<2048x256xf32> = %w2) -> (%y: memref<1000x256xf32>) {
  %zero = arith.constant 0.0 : f32
  loop.for %i in 1000, %j in 256 {
    %f0 = loop.load %f[%i] : memref<1000xf32>
    %acc = loop.reduce add %k in 2048 -> f32 {
      %a = loop.load %x[%i, %k] : memref<1000x2048xf32>
      %xf = arith.mulf %a, %f0 : f32
      %c = loop.load %w[%k, %j] : memref<2048x256xf32>
      %s0 = loop.load %s[%k] : memref<2048xf32>
      %cs = arith.addf %c, %s0 : f32
      %vs = loop.select %cs where (%j >= %k) else %zero : f32
      %p = arith.mulf %xf, %vs : f32
      loop.yield %p : f32
    }
    loop.store %acc, %y[%i, %j] : memref<1000x256xf32>
  }
}
