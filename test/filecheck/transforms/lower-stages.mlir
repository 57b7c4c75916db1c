// RUN: dlc-opt %s -p bind-axes,lower-stages --split-input-file > %t
// RUN: filecheck %s --input-file %t
// RUN: dlc-opt -f mlir %t --split-input-file | diff - %t
// RUN: dlc-opt -f mlir %t -p lower-stages --split-input-file | diff - %t
// RUN: dlc-opt %s -p bind-axes,lower-stages,lower-reduces,lower-registers,place-barriers --split-input-file > %t.whole
// RUN: dlc-opt -f mlir %t -p lower-reduces,lower-registers,place-barriers --split-input-file | diff - %t.whole

// What of copies, waits and barriers is left at the end is in lower-rings.mlir.

// A stage is a buffer that all threads fill; where it stood, the copy stands.
// CHECK-LABEL: kernel.func @stage(
// CHECK: tile.for register(%g in 2) {
// CHECK: %two = arith.constant 2.000000e+00 : f32
// CHECK-NEXT: %s = kernel.alloc_shared : memref<4x8xf32, #kernel.shared>
// CHECK-NEXT: %x_1 = kernel.load %x[%b, %t floordiv 8, %t mod 8] where (%t floordiv 8 < 3) : memref<5x3x8xf32>
// CHECK-NEXT: kernel.store %x_1, %s[%t floordiv 8, %t mod 8] : memref<4x8xf32, #kernel.shared>
// CHECK-NEXT: %v = tile.load %s[%g, -%t mod 8 + 7] : memref<4x8xf32, #kernel.shared>
// CHECK-NEXT: %m = arith.mulf %v, %two : f32
// CHECK-NEXT: tile.store %m, %y[%b, %g, %t]
%x = "test.op"() : () -> tensor<5x3x8xf32>
%y = tile.kernel @stage(%x: memref<5x3x8xf32> align 4 = %x) -> (%y: memref<5x2x32xf32>) {
  %two = arith.constant 2.0 : f32
  tile.launch block(%b in 5) thread(%t in 32) register(%g in 2) {
    %s = tile.stage %x[%b, 0, 0] [1, 4, 8] : memref<5x3x8xf32> -> memref<4x8xf32, #tile.shared>
    %v = tile.load %s[%g, 7 - %t mod 8] : memref<4x8xf32, #tile.shared>
    %m = arith.mulf %v, %two : f32
    tile.store %m, %y[%b, %g, %t] : memref<5x2x32xf32>
  }
}

// -----

// Asynchronous stages beside each other are waited for once, behind the last of them.
// CHECK-LABEL: kernel.func @async_stages(
// CHECK: %s = kernel.alloc_shared
// CHECK: kernel.cp_async %x[%b, %t floordiv 8, %t mod 8], %s[%t floordiv 8, %t mod 8] elements 1 where (%t floordiv 8 < 3)
// CHECK-NEXT: %w = kernel.alloc_shared
// CHECK: kernel.cp_async %z[%t * 4], %w[%t * 4] elements 4
// CHECK: kernel.commit
// CHECK-NEXT: kernel.wait 0
// CHECK-NEXT: %v = tile.load %s
%x = "test.op"() : () -> tensor<5x3x8xf32>
%z = "test.op"() : () -> tensor<32xf32>
%y = tile.kernel @async_stages(%x: memref<5x3x8xf32> align 4 = %x, %z: memref<32xf32> = %z) -> (%y: memref<5x32xf32>) {
  tile.launch block(%b in 5) thread(%t in 32) {
    %s = tile.stage async %x[%b, 0, 0] [1, 4, 8] : memref<5x3x8xf32> -> memref<4x8xf32, #tile.shared>
    %w = tile.stage async %z[0] [32] : memref<32xf32> -> memref<32xf32, #tile.shared>
    %v = tile.load %s[%t mod 4, 7 - %t mod 8] : memref<4x8xf32, #tile.shared>
    %u = tile.load %w[31 - %t] : memref<32xf32, #tile.shared>
    %m = arith.mulf %v, %u : f32
    tile.store %m, %y[%b, %t] : memref<5x32xf32>
  }
}

// -----

// Fills are copies, closed as a group where they are asynchronous; acquires wait, and a slot is a
// subscript of its ring; nothing is left of a release. A chunk that its loop skips is not requested.
// CHECK-LABEL: kernel.func @async_ahead(
// CHECK: tile.for {
// CHECK-NEXT: %r = kernel.alloc_shared : memref<3x32xf32, #kernel.shared>
// CHECK-NEXT: %0 = kernel.test where (%t < 16)
// CHECK-NEXT: scf.if %0 {
// CHECK-NEXT: kernel.cp_async %x[%t * 2], %r[0, %t * 2] elements 2 :
// CHECK-NEXT: }
// CHECK-NEXT: kernel.commit
// CHECK-NEXT: %1 = kernel.test where (%b < 8)
// CHECK: kernel.commit
// CHECK-NEXT: %acc = tile.reduce add skipping serial(%k in 8) -> f32 {
// CHECK-NEXT: kernel.wait 1
// CHECK-NEXT: %slot = kernel.index %k mod 3
// CHECK-NEXT: %[[requested:.*]] = kernel.test where (%k < 6, %b + %k < 7)
// CHECK-NEXT: scf.if %[[requested]] {
// CHECK-NEXT: %[[next:.*]] = kernel.index (%k + 2) mod 3
// CHECK: kernel.cp_async %x[%k * 32 + %t * 2 + 64], %r[%[[next]], %t * 2] elements 2 where (%k * 32 + %t * 2 < 186)
// CHECK: kernel.commit
// CHECK-NEXT: %v = tile.load %r[%slot, -%t + 31] : memref<3x32xf32, #kernel.shared>
// CHECK-NEXT: tile.yield %v where (%b + %k < 9) : f32
%x = "test.op"() : () -> tensor<250xf32>
%y = tile.kernel @async_ahead(%x: memref<250xf32> = %x) -> (%y: memref<9x32xf32>) {
  tile.launch block(%b in 9) thread(%t in 32) {
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
    tile.store %acc, %y[%b, %t] : memref<9x32xf32>
  }
}

// -----

// One thread asks the tensor memory accelerator; the map and the mbarriers stand beside the ring.
// CHECK-LABEL: kernel.func @tma(
// CHECK: %r = kernel.alloc_shared : memref<2x32xf32, #kernel.shared>
// CHECK-NEXT: %x_map = kernel.tensor_map %x box {{.*}} : memref<256xf32>
// CHECK-NEXT: %full = kernel.alloc_mbarriers 2
// CHECK-NEXT: %empty = kernel.alloc_mbarriers 2
// CHECK: kernel.fence_mbarrier_init
// CHECK: %acc = tile.reduce add serial(%k in 8) -> f32 {
// CHECK: kernel.tma_load %x_map[%k * 32] -> %r[%slot_1, 0], %full[%slot_1]
// CHECK: kernel.mbarrier_wait %full[%slot_2], parity (%k floordiv 2) mod 2
// CHECK-NEXT: %v = tile.load %r[%slot_2, -%t + 31]
// CHECK-NEXT: kernel.sync_warp
// CHECK: kernel.mbarrier_arrive %empty[%slot_2]
%x = "test.op"() : () -> tensor<256xf32>
%y = tile.kernel @tma(%x: memref<256xf32> = %x) -> (%y: memref<32xf32>) {
  tile.launch thread(%t in 32) {
    %r = tile.ring tma %x(%n in 8)[%n * 32] [32] : memref<256xf32> -> memref<2x32xf32, #tile.shared>
    %acc = tile.reduce add serial(%k in 8) -> f32 {
      tile.fill %r[%k]
      %s = tile.acquire %r[%k] : memref<2x32xf32, #tile.shared> -> memref<32xf32, #tile.shared>
      %v = tile.load %s[31 - %t] : memref<32xf32, #tile.shared>
      tile.release %r[%k]
      tile.yield %v : f32
    }
    tile.store %acc, %y[%t] : memref<32xf32>
  }
}

// -----

// A slab that is computed of a stage is a buffer, too, which all threads fill: a thread computes
// runs of four elements, a register axis; where a condition fails, it keeps 0.
// CHECK-LABEL: kernel.func @computed(
// CHECK: %s = kernel.alloc_shared : memref<32xf32, #kernel.shared>
// CHECK: %h = kernel.alloc_shared : memref<32xf32, #kernel.shared>
// CHECK-NEXT: %[[inside:.*]] = kernel.test where (%t < 8)
// CHECK-NEXT: scf.if %[[inside]] {
// CHECK-NEXT: tile.for register(%p in 4) {
// CHECK-NEXT: %a = tile.load %s[%t * 4 + %p] : memref<32xf32, #kernel.shared>
// CHECK-NEXT: %e = math.exp %a : f32
// CHECK-NEXT: %[[kept:.*]] = kernel.alloc_local : memref<4xf32, #kernel.local>
// CHECK-NEXT: tile.each over(%p) {
// CHECK-NEXT: %[[zero:.*]] = arith.constant 0.000000e+00 : f32
// CHECK-NEXT: %[[chosen:.*]] = kernel.select %e where (%t * 4 + %p < 31) else %[[zero]] : f32
// CHECK-NEXT: kernel.store %[[chosen]], %[[kept]][%p] : memref<4xf32, #kernel.local>
// CHECK-NEXT: }
// CHECK-NEXT: %[[element:.*]] = tile.load %[[kept]][%p] : memref<4xf32, #kernel.local>
// CHECK-NEXT: tile.store %[[element]], %h[%t * 4 + %p] : memref<32xf32, #kernel.shared>
// CHECK: %v_1 = tile.load %h[-%t + 31] : memref<32xf32, #kernel.shared>
%x = "test.op"() : () -> tensor<32xf32>
%y = tile.kernel @computed(%x: memref<32xf32> = %x) -> (%y: memref<32xf32>) {
  tile.launch thread(%t in 32) {
    %s = tile.stage %x[0] [32] : memref<32xf32> -> memref<32xf32, #tile.shared>
    %h = tile.compute thread(%p in 32) {
      %a = tile.load %s[%p] : memref<32xf32, #tile.shared>
      %e = math.exp %a : f32
      tile.yield %e where (%p < 31) : f32
    } : memref<32xf32, #tile.shared>
    %v = tile.load %h[31 - %t] : memref<32xf32, #tile.shared>
    tile.store %v, %y[%t] : memref<32xf32>
  }
}
