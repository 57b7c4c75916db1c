// RUN: dlc-opt %s -p bind-axes,lower-stages,lower-reduces,lower-registers,place-barriers --split-input-file | filecheck %s

// How the threads themselves fill rings: see lower-tma.mlir for those that TMA fills.

// Copies by the threads themselves: a barrier orders them and the reads of a chunk. The slot's reads
// of three iterations before lie behind the barriers in between.
// CHECK-LABEL: kernel.func @sync(
// CHECK: %r = kernel.alloc_shared : memref<3x32xf32, #kernel.shared>
// CHECK: scf.for %k
// CHECK-NEXT: %slot = kernel.index %k mod 3
// CHECK-NEXT: scf.for %v
// CHECK-NEXT: kernel.load %x[%k * 32 + %t * 4 + %v] where (%t < 8, %k * 32 + %t * 4 + %v < 250)
// CHECK-NEXT: kernel.store %{{.*}}, %r[%slot, %t * 4 + %v] where (%t < 8)
// CHECK-NEXT: } {unroll}
// CHECK-NEXT: kernel.barrier
// CHECK-NEXT: kernel.load %r[%slot, -%t + 31]
// CHECK-NOT: kernel.barrier
%x = "test.op"() : () -> tensor<250xf32>
%y = tile.kernel @sync(%x: memref<250xf32> = %x) -> (%y: memref<4x32xf32>) {
  tile.launch block(%b in 4) thread(%t in 32) {
    %r = tile.ring %x(%n in 8)[%n * 32] [32] : memref<250xf32> -> memref<3x32xf32, #tile.shared>
    %acc = tile.reduce add serial(%k in 8) -> f32 {
      tile.fill %r[%k]
      %s = tile.acquire %r[%k] : memref<3x32xf32, #tile.shared> -> memref<32xf32, #tile.shared>
      %v = tile.load %s[31 - %t] : memref<32xf32, #tile.shared>
      tile.release %r[%k]
      tile.yield %v : f32
    }
    tile.store %acc, %y[%b, %t] : memref<4x32xf32>
  }
}

// -----

// Ahead of their use: one barrier an iteration, before the copy, shows that a chunk is there and
// that the last reads of the slot are done.
// CHECK-LABEL: kernel.func @sync_ahead(
// CHECK: kernel.store %{{.*}}, %r[0, %t * 4 + %v]
// CHECK: kernel.store %{{.*}}, %r[1, %t * 4 + %v_1]
// CHECK-NOT: kernel.barrier
// CHECK: scf.for %k
// CHECK-NEXT: %slot = kernel.index %k mod 3
// CHECK-NEXT: kernel.test where (%k < 6)
// CHECK-NEXT: kernel.barrier
// CHECK-NEXT: scf.if
// CHECK-NEXT: %[[next:.*]] = kernel.index (%k + 2) mod 3
// CHECK: kernel.load %x[%k * 32 + %t * 4 + %v_2 + 64] where (%t < 8, %k * 32 + %t * 4 + %v_2 < 186)
// CHECK-NEXT: kernel.store %{{.*}}, %r[%[[next]], %t * 4 + %v_2] where (%t < 8)
// CHECK: kernel.load %r[%slot, -%t + 31]
// CHECK-NOT: kernel.barrier
%x = "test.op"() : () -> tensor<250xf32>
%y = tile.kernel @sync_ahead(%x: memref<250xf32> = %x) -> (%y: memref<4x32xf32>) {
  tile.launch block(%b in 4) thread(%t in 32) {
    %r = tile.ring %x(%n in 8)[%n * 32] [32] : memref<250xf32> -> memref<3x32xf32, #tile.shared>
    tile.fill %r[0]
    tile.fill %r[1]
    %acc = tile.reduce add serial(%k in 8) -> f32 {
      %s = tile.acquire %r[%k] : memref<3x32xf32, #tile.shared> -> memref<32xf32, #tile.shared>
      tile.fill %r[%k + 2]
      %v = tile.load %s[31 - %t] : memref<32xf32, #tile.shared>
      tile.release %r[%k]
      tile.yield %v : f32
    }
    tile.store %acc, %y[%b, %t] : memref<4x32xf32>
  }
}

// -----

// Neighbouring fills are one group of copies, which neighbouring acquires wait for once; a barrier
// then shows it to the other threads.
// CHECK-LABEL: kernel.func @two(
// CHECK: scf.for %k
// CHECK: kernel.cp_async %x[%k * 32 + %t * 4], %r[%slot, %t * 4] elements 4 :
// CHECK: kernel.cp_async %z[%k * 8 + %t * 4], %q[%slot, %t * 4] elements 4 :
// CHECK: kernel.commit
// CHECK-NEXT: kernel.wait 0
// CHECK-NEXT: kernel.barrier
// CHECK-NEXT: kernel.load %r[%slot, -%t + 31]
// CHECK-NOT: kernel.wait
// CHECK-NOT: kernel.barrier
%x = "test.op"() : () -> tensor<256xf32>
%z = "test.op"() : () -> tensor<64xf32>
%y = tile.kernel @two(%x: memref<256xf32> = %x, %z: memref<64xf32> = %z) -> (%y: memref<32xf32>) {
  tile.launch thread(%t in 32) {
    %r = tile.ring async %x(%n in 8)[%n * 32] [32] : memref<256xf32> -> memref<2x32xf32, #tile.shared>
    %q = tile.ring async %z(%n in 8)[%n * 8] [8] : memref<64xf32> -> memref<2x8xf32, #tile.shared>
    %acc = tile.reduce add serial(%k in 8) -> f32 {
      tile.fill %r[%k]
      tile.fill %q[%k]
      %s = tile.acquire %r[%k] : memref<2x32xf32, #tile.shared> -> memref<32xf32, #tile.shared>
      %u = tile.acquire %q[%k] : memref<2x8xf32, #tile.shared> -> memref<8xf32, #tile.shared>
      %v = tile.load %s[31 - %t] : memref<32xf32, #tile.shared>
      %w = tile.load %u[%t mod 8] : memref<8xf32, #tile.shared>
      %m = arith.mulf %v, %w : f32
      tile.release %r[%k]
      tile.release %q[%k]
      tile.yield %m : f32
    }
    tile.store %acc, %y[%t] : memref<32xf32>
  }
}

// -----

// Ahead of their use: the newest group, that of the next chunk, may be in flight. A chunk beyond the
// last is an empty group, so that the count holds to the end.
// CHECK-LABEL: kernel.func @async_ahead(
// CHECK: kernel.cp_async %x[%t * 2], %r[0, %t * 2] elements 2 :
// CHECK: kernel.commit
// CHECK: kernel.cp_async %x[%t * 2 + 32], %r[1, %t * 2] elements 2 :
// CHECK: kernel.commit
// CHECK-NOT: kernel.barrier
// CHECK: scf.for %k
// CHECK-NEXT: kernel.wait 1
// CHECK: kernel.test where (%k < 6)
// CHECK-NEXT: kernel.barrier
// CHECK-NEXT: scf.if
// CHECK: kernel.cp_async %x[%k * 32 + %t * 2 + 64], %r[%{{.*}}, %t * 2] elements 2 where (%k * 32 + %t * 2 < 186)
// CHECK-NEXT: }
// CHECK-NEXT: }
// CHECK-NEXT: kernel.commit
// CHECK-NEXT: kernel.load %r[%slot, -%t + 31]
// CHECK-NOT: kernel.barrier
%x = "test.op"() : () -> tensor<250xf32>
%y = tile.kernel @async_ahead(%x: memref<250xf32> = %x) -> (%y: memref<4x32xf32>) {
  tile.launch block(%b in 4) thread(%t in 32) {
    %r = tile.ring async %x(%n in 8)[%n * 32] [32] : memref<250xf32> -> memref<3x32xf32, #tile.shared>
    tile.fill %r[0]
    tile.fill %r[1]
    %acc = tile.reduce add serial(%k in 8) -> f32 {
      %s = tile.acquire %r[%k] : memref<3x32xf32, #tile.shared> -> memref<32xf32, #tile.shared>
      tile.fill %r[%k + 2]
      %v = tile.load %s[31 - %t] : memref<32xf32, #tile.shared>
      tile.release %r[%k]
      tile.yield %v : f32
    }
    tile.store %acc, %y[%b, %t] : memref<4x32xf32>
  }
}

// -----

// Chunks that the whole block skips are not requested either.
// CHECK-LABEL: kernel.func @skipped(
// CHECK: scf.for %k
// CHECK-NEXT: kernel.test where (%b + %k < 9)
// CHECK-NEXT: scf.if
// CHECK-NEXT: kernel.wait 1
// CHECK: kernel.test where (%k < 6, %b + %k < 7)
// CHECK-NEXT: kernel.barrier
// CHECK-NEXT: scf.if
// CHECK: kernel.cp_async
// CHECK-NOT: kernel.select
%x = "test.op"() : () -> tensor<250xf32>
%y = tile.kernel @skipped(%x: memref<250xf32> = %x) -> (%y: memref<4x32xf32>) {
  tile.launch block(%b in 4) thread(%t in 32) {
    %r = tile.ring async %x(%n in 8)[%n * 32] [32] : memref<250xf32> -> memref<3x32xf32, #tile.shared>
    tile.fill %r[0]
    tile.fill %r[1]
    %acc = tile.reduce add serial(%k in 8) -> f32 {
      %s = tile.acquire %r[%k] : memref<3x32xf32, #tile.shared> -> memref<32xf32, #tile.shared>
      tile.fill %r[%k + 2]
      %v = tile.load %s[31 - %t] : memref<32xf32, #tile.shared>
      tile.release %r[%k]
      tile.yield %v where (%b + %k < 9) : f32
    }
    tile.store %acc, %y[%b, %t] : memref<4x32xf32>
  }
}

// -----

// What only some threads skip is worked through by all.
// CHECK-LABEL: kernel.func @not_by_all(
// CHECK: scf.for %k
// CHECK-NEXT: kernel.wait 1
// CHECK: kernel.test where (%k < 6)
// CHECK: kernel.select %v where (%t + %k < 9) else
%x = "test.op"() : () -> tensor<250xf32>
%y = tile.kernel @not_by_all(%x: memref<250xf32> = %x) -> (%y: memref<4x32xf32>) {
  tile.launch block(%b in 4) thread(%t in 32) {
    %r = tile.ring async %x(%n in 8)[%n * 32] [32] : memref<250xf32> -> memref<3x32xf32, #tile.shared>
    tile.fill %r[0]
    tile.fill %r[1]
    %acc = tile.reduce add serial(%k in 8) -> f32 {
      %s = tile.acquire %r[%k] : memref<3x32xf32, #tile.shared> -> memref<32xf32, #tile.shared>
      tile.fill %r[%k + 2]
      %v = tile.load %s[31 - %t] : memref<32xf32, #tile.shared>
      tile.release %r[%k]
      tile.yield %v where (%t + %k < 9) : f32
    }
    tile.store %acc, %y[%b, %t] : memref<4x32xf32>
  }
}

// -----

// In iterations that skip chunks before the first that is used, those to come are requested and
// waited for.
// CHECK-LABEL: kernel.func @not_first(
// CHECK: scf.for %k
// CHECK-NEXT: kernel.wait 1
// CHECK: kernel.test where (%k < 6, %k - %b >= -2)
// CHECK: kernel.commit
// CHECK-NEXT: %[[used:.*]] = kernel.test where (%k - %b >= 0)
// CHECK-NEXT: scf.if %[[used]] {
// CHECK-NEXT: %v = kernel.load %r[%slot, -%t + 31]
%x = "test.op"() : () -> tensor<250xf32>
%y = tile.kernel @not_first(%x: memref<250xf32> = %x) -> (%y: memref<4x32xf32>) {
  tile.launch block(%b in 4) thread(%t in 32) {
    %r = tile.ring async %x(%n in 8)[%n * 32] [32] : memref<250xf32> -> memref<3x32xf32, #tile.shared>
    tile.fill %r[0]
    tile.fill %r[1]
    %acc = tile.reduce add serial(%k in 8) -> f32 {
      %s = tile.acquire %r[%k] : memref<3x32xf32, #tile.shared> -> memref<32xf32, #tile.shared>
      tile.fill %r[%k + 2]
      %v = tile.load %s[31 - %t] : memref<32xf32, #tile.shared>
      tile.release %r[%k]
      tile.yield %v where (%k - %b >= 0) : f32
    }
    tile.store %acc, %y[%b, %t] : memref<4x32xf32>
  }
}

// -----

// What is read of a slot, at every point of a register axis, is read before the slot is filled again.
// CHECK-LABEL: kernel.func @refilled(
// CHECK: kernel.barrier
// CHECK-NEXT: scf.for %g
// CHECK-NEXT: kernel.load %r[0, %t + %g * 32]
// CHECK: kernel.barrier
// CHECK-NEXT: scf.for
// CHECK-NEXT: kernel.load %x[%t * 4 + %{{.*}} + 128] where (%t < 16)
// CHECK-NEXT: kernel.store %{{.*}}, %r[0, %t * 4 + %{{.*}}] where (%t < 16)
// CHECK: kernel.barrier
// CHECK-NEXT: scf.for %[[g:.*]] =
// CHECK-NEXT: kernel.load %r[0, -%t - %[[g]] * 32 + 63]
%x = "test.op"() : () -> tensor<192xf32>
%y = tile.kernel @refilled(%x: memref<192xf32> = %x) -> (%y: memref<2x32xf32>) {
  tile.launch thread(%t in 32) register(%g in 2) {
    %r = tile.ring %x(%n in 3)[%n * 64] [64] : memref<192xf32> -> memref<2x64xf32, #tile.shared>
    tile.fill %r[0]
    %s = tile.acquire %r[0] : memref<2x64xf32, #tile.shared> -> memref<64xf32, #tile.shared>
    %v = tile.load %s[%t + %g * 32] : memref<64xf32, #tile.shared>
    tile.release %r[0]
    tile.fill %r[2]
    %u = tile.acquire %r[2] : memref<2x64xf32, #tile.shared> -> memref<64xf32, #tile.shared>
    %w = tile.load %u[63 - %t - %g * 32] : memref<64xf32, #tile.shared>
    tile.release %r[2]
    %m = arith.addf %v, %w : f32
    tile.store %m, %y[%g, %t] : memref<2x32xf32>
  }
}

// -----

// A loop that is never executed waits for nothing: a fold over no chunk is the fold's start.
// CHECK-LABEL: kernel.func @no_chunk(
// CHECK: kernel.wait 0
// CHECK: kernel.store %{{.*}}, %y[0]
%x = "test.op"() : () -> tensor<64xf32>
%y = tile.kernel @no_chunk(%x: memref<64xf32> = %x) -> (%y: memref<1xf32>) {
  tile.launch thread(%t in 1) {
    %r = tile.ring async %x(%n in 2)[%n * 32] [32] : memref<64xf32> -> memref<2x32xf32, #tile.shared>
    %s = tile.reduce add serial(%k in 0) -> f32 {
      tile.fill %r[%k]
      %a = tile.acquire %r[%k] : memref<2x32xf32, #tile.shared> -> memref<32xf32, #tile.shared>
      %v = tile.load %a[0] : memref<32xf32, #tile.shared>
      tile.release %r[%k]
      tile.yield %v : f32
    }
    tile.store %s, %y[%t] : memref<1xf32>
  }
}
