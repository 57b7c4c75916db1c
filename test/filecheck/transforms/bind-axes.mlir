// RUN: dlc-opt %s -p bind-axes --split-input-file > %t
// RUN: filecheck %s --input-file %t
// RUN: dlc-opt -f mlir %t --split-input-file | diff - %t
// RUN: dlc-opt %s -p bind-axes --split-input-file --remarks 2>&1 >/dev/null | filecheck %s --check-prefix=REMARK

// REMARK: bind-axes: loops: grid 1, block 1
// REMARK-NEXT: bind-axes: dealt: grid 5, block 256

// A kernel still in the loop dialect is one thread.
// CHECK-LABEL: kernel.func @loops(%x: memref<4xf32>) -> (%y: memref<4xf32>) grid 1 block 1 lockstep {
// CHECK-NEXT: tile.for {
// CHECK-NEXT: tile.for serial(%i in 4) {
// CHECK-NEXT: %a = tile.load %x[%i] : memref<4xf32>
// CHECK-NEXT: tile.store %a, %y[%i] : memref<4xf32>
// CHECK: kernel.launch @loops(%x) : (tensor<4xf32>) -> (tensor<4xf32>)
%x = "test.op"() : () -> tensor<4xf32>
%y = loop.kernel @loops(%x: memref<4xf32> = %x) -> (%y: memref<4xf32>) {
  loop.for %i in 4 {
    %a = loop.load %x[%i] : memref<4xf32>
    loop.store %a, %y[%i] : memref<4xf32>
  }
}

// -----

// Thread axes that nothing keeps together are dealt over blocks of 256; stores beyond the end do
// nothing.
// CHECK-LABEL: kernel.func @dealt
// CHECK-SAME: grid 5 block 256 lockstep {
// CHECK-NEXT: %bid = kernel.block_id
// CHECK-NEXT: %tid = kernel.thread_id
// CHECK-NEXT: %point = kernel.index %bid * 256 + %tid
// CHECK-NEXT: %i = kernel.index %point floordiv 11
// CHECK-NEXT: %j = kernel.index %point mod 11
// CHECK-NEXT: tile.for {
// CHECK-NEXT: tile.load %x[%i, %j] : memref<100x11xf32>
// CHECK-NEXT: tile.store %a, %y[%i, %j] where (%point < 1100) : memref<100x11xf32>
%x = "test.op"() : () -> tensor<100x11xf32>
%y = tile.kernel @dealt(%x: memref<100x11xf32> = %x) -> (%y: memref<100x11xf32>) {
  tile.launch thread(%i in 100, %j in 11) {
    %a = tile.load %x[%i, %j] : memref<100x11xf32>
    tile.store %a, %y[%i, %j] : memref<100x11xf32>
  }
}

// -----

// What mentions no serial axis stands before its loop; along a thread axis that a store does not
// mention, one thread stores. Constants stay beside what uses them, register axes as they are.
// CHECK-LABEL: kernel.func @serial
// CHECK-SAME: grid 4 block 8 lockstep {
// CHECK-NEXT: %b = kernel.block_id
// CHECK-NEXT: %t = kernel.thread_id
// CHECK-NEXT: tile.for register(%r in 3) {
// CHECK-NEXT: %two = arith.constant 2.000000e+00 : f32
// CHECK-NEXT: %a = tile.load %x[%b]
// CHECK-NEXT: %d = arith.mulf %a, %two : f32
// CHECK-NEXT: tile.for serial(%s in 2) {
// CHECK-NEXT: tile.store %d, %y[%b, %s, %r] where (%t < 1) : memref<4x2x3xf32>
%x = "test.op"() : () -> tensor<4xf32>
%y = tile.kernel @serial(%x: memref<4xf32> = %x) -> (%y: memref<4x2x3xf32>) {
  %two = arith.constant 2.0 : f32
  tile.launch block(%b in 4) thread(%t in 8) serial(%s in 2) register(%r in 3) {
    %a = tile.load %x[%b] : memref<4xf32>
    %d = arith.mulf %a, %two : f32
    tile.store %d, %y[%b, %s, %r] : memref<4x2x3xf32>
  }
}

// -----

// The first points of the axes that an atomic add does not go across add; an axis of one point is 0.
// CHECK-LABEL: kernel.func @adds
// CHECK-SAME: (%x: memref<3x4xf32>) -> (%y: memref<4xf32> zeroed) grid 24 block 8 lockstep {
// CHECK-NEXT: arith.constant 0 : index
// CHECK-NEXT: %bid = kernel.block_id
// CHECK-NEXT: %t = kernel.thread_id
// CHECK-NEXT: %ks = kernel.index %bid floordiv 8
// CHECK-NEXT: %i = kernel.index (%bid floordiv 2) mod 4
// CHECK-NEXT: %b = kernel.index %bid mod 2
// CHECK-NEXT: tile.for {
// CHECK-NEXT: %a = tile.load %x[%ks, %i]
// CHECK-NEXT: tile.atomic_add %a, %y[%i] where (%b < 1, %t < 1) across(%ks) : memref<4xf32>
%x = "test.op"() : () -> tensor<3x4xf32>
%y = tile.kernel @adds(%x: memref<3x4xf32> = %x) -> (%y: memref<4xf32> zeroed) {
  tile.launch block(%ks in 3, %i in 4, %b in 2, %one in 1) thread(%t in 8) {
    %a = tile.load %x[%ks, %i + %one] : memref<3x4xf32>
    tile.atomic_add %a, %y[%i] across(%ks) : memref<4xf32>
  }
}

// -----

// A combine says which parts of the thread's number it goes across.
// CHECK-LABEL: kernel.func @combine
// CHECK: %r = kernel.index %tid floordiv 8
// CHECK-NEXT: %t = kernel.index %tid mod 8
// CHECK: %s = tile.combine add %a across(%t) among(%r, %t) : f32
// CHECK-NEXT: tile.store %s, %y[%r] where (%t < 1)
%x = "test.op"() : () -> tensor<4x8xf32>
%y = tile.kernel @combine(%x: memref<4x8xf32> = %x) -> (%y: memref<4xf32>) {
  tile.launch thread(%r in 4, %t in 8) {
    %a = tile.load %x[%r, %t] : memref<4x8xf32>
    %s = tile.combine add %a across(%t) : f32
    tile.store %s, %y[%r] : memref<4xf32>
  }
}

// -----

// No points: nothing is launched.
// CHECK-LABEL: kernel.func @empty
// CHECK-SAME: grid 0 block 1 lockstep {
%y = tile.kernel @empty() -> (%y: memref<0xf32>) {
  %zero = arith.constant 0.0 : f32
  tile.launch thread(%i in 0) {
    tile.store %zero, %y[%i] : memref<0xf32>
  }
}

// -----

// A reduce skips the iterations that no thread of the block needs, and only those.
// CHECK-LABEL: kernel.func @skips
// CHECK: tile.reduce add skipping serial(%k in 8) -> f32 {
// CHECK: tile.reduce add serial(%j in 8) -> f32 {
%x = "test.op"() : () -> tensor<8xf32>
%y = tile.kernel @skips(%x: memref<8xf32> = %x) -> (%y: memref<4x32xf32>) {
  tile.launch block(%b in 4) thread(%t in 32) {
    %u = tile.reduce add serial(%k in 8) -> f32 {
      %a = tile.load %x[%k] : memref<8xf32>
      tile.yield %a where (%b + %k < 9) : f32
    }
    %v = tile.reduce add serial(%j in 8) -> f32 {
      %a = tile.load %x[%j] : memref<8xf32>
      tile.yield %a where (%t + %j < 9) : f32
    }
    %s = arith.addf %u, %v : f32
    tile.store %s, %y[%b, %t] : memref<4x32xf32>
  }
}

// -----

// One thread of a row stores what it makes of an element that it updates: the others do not read it.
// What a fold takes is read by all.
// CHECK-LABEL: kernel.func @updates
// CHECK: tile.reduce
// CHECK-NEXT: tile.load %s[%b] : memref<4xf32>
// CHECK: %old = tile.load %s[%b] where (%t < 1) : memref<4xf32>
// CHECK: tile.store %new, %y[%b] where (%t < 1) : memref<4xf32>
// CHECK-LABEL: kernel.func @reads
// CHECK: %old = tile.load %s[%b] : memref<4xf32>
%s = "test.op"() : () -> tensor<4xf32>
%y = tile.kernel @updates(%s: memref<4xf32> = %s) -> (%y: memref<4xf32> updates %s) {
  tile.launch block(%b in 4) thread(%t in 32) {
    %part = tile.reduce add serial(%k in 8) -> f32 {
      %a = tile.load %s[%b] : memref<4xf32>
      tile.yield %a : f32
    }
    %sum = tile.combine add %part across(%t) : f32
    %old = tile.load %s[%b] : memref<4xf32>
    %new = arith.addf %old, %sum : f32
    tile.store %new, %y[%b] : memref<4xf32>
  }
}
%u = "test.op"() : () -> tensor<4xf32>
%z = tile.kernel @reads(%s: memref<4xf32> = %u) -> (%y: memref<4xf32>) {
  tile.launch block(%b in 4) thread(%t in 32) {
    %old = tile.load %s[%b] : memref<4xf32>
    tile.store %old, %y[%b] : memref<4xf32>
  }
}
