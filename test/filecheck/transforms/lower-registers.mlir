// RUN: dlc-opt %s -p bind-axes,lower-stages,lower-reduces,lower-registers,place-barriers --split-input-file | filecheck %s

// A kernel still in the loop dialect is one thread.
// CHECK-LABEL: kernel.func @loops(%x: memref<4xf32>) -> (%y: memref<4xf32>) grid 1 block 1
// CHECK: scf.for %i = %{{.*}} to %{{.*}} step %{{.*}} {
// CHECK-NEXT: %a = kernel.load %x[%i]
// CHECK-NEXT: kernel.store %a, %y[%i]
// CHECK: kernel.launch @loops(%x) : (tensor<4xf32>) -> (tensor<4xf32>)
%x = "test.op"() : () -> tensor<4xf32>
%y = loop.kernel @loops(%x: memref<4xf32> = %x) -> (%y: memref<4xf32>) {
  loop.for %i in 4 {
    %a = loop.load %x[%i] : memref<4xf32>
    loop.store %a, %y[%i] : memref<4xf32>
  }
}

// -----

// Thread axes that nothing keeps together are dealt over blocks of 256; loads beyond the end
// read nothing, stores beyond it do nothing.
// CHECK-LABEL: kernel.func @dealt
// CHECK-SAME: grid 5 block 256
// CHECK: %point = kernel.index %bid * 256 + %tid
// CHECK: %i = kernel.index %point floordiv 11
// CHECK: %j = kernel.index %point mod 11
// CHECK: kernel.load %x[%i, %j] where (%i < 100) : memref<100x11xf32>
// CHECK: kernel.store %a, %y[%i, %j] where (%point < 1100) : memref<100x11xf32>
%x = "test.op"() : () -> tensor<100x11xf32>
%y = tile.kernel @dealt(%x: memref<100x11xf32> = %x) -> (%y: memref<100x11xf32>) {
  tile.launch thread(%i in 100, %j in 11) {
    %a = tile.load %x[%i, %j] : memref<100x11xf32>
    tile.store %a, %y[%i, %j] : memref<100x11xf32>
  }
}

// -----

// What mentions no serial axis stands before its loop; along a thread axis that a store does not
// mention, one thread stores.
// CHECK-LABEL: kernel.func @serial
// CHECK-SAME: grid 4 block 8
// CHECK: %a = kernel.load %x[%b]
// CHECK-NEXT: scf.for %s
// CHECK-NEXT: kernel.store %a, %y[%b, %s] where (%t < 1)
%x = "test.op"() : () -> tensor<4xf32>
%y = tile.kernel @serial(%x: memref<4xf32> = %x) -> (%y: memref<4x2xf32>) {
  tile.launch block(%b in 4) thread(%t in 8) serial(%s in 2) {
    %a = tile.load %x[%b] : memref<4xf32>
    tile.store %a, %y[%b, %s] : memref<4x2xf32>
  }
}

// -----

// An atomic add happens once per point of its subscripts and of the axes that it goes across: the
// first points of other block and thread axes execute it, and every point of a register axis.
// CHECK-LABEL: kernel.func @adds
// CHECK-SAME: (%x: memref<3x4x2xf32>) -> (%y: memref<4x2xf32> zeroed, %z: memref<4xf32>) grid 24 block 8
// CHECK: %ks = kernel.index %bid floordiv 8
// CHECK: %i = kernel.index (%bid floordiv 2) mod 4
// CHECK: %b = kernel.index %bid mod 2
// CHECK: kernel.store %c, %z[%i] where (%ks < 1, %b < 1, %t < 1) : memref<4xf32>
// CHECK-NEXT: scf.for %r
// CHECK: kernel.atomic_add %{{.*}}, %y[%i, %{{.*}}] where (%b < 1, %t < 1) : memref<4x2xf32>
%x = "test.op"() : () -> tensor<3x4x2xf32>
%y, %z = tile.kernel @adds(%x: memref<3x4x2xf32> = %x) -> (%y: memref<4x2xf32> zeroed, %z: memref<4xf32>) {
  tile.launch block(%ks in 3, %i in 4, %b in 2) thread(%t in 8) register(%r in 2) {
    %a = tile.load %x[%ks, %i, %r] : memref<3x4x2xf32>
    tile.atomic_add %a, %y[%i, %r] across(%ks) : memref<4x2xf32>
    %c = tile.load %x[0, %i, 0] : memref<3x4x2xf32>
    tile.store %c, %z[%i] : memref<4xf32>
  }
}

// -----

// Register axes are local arrays and unrolled loops; ops along the same axes share a loop, and a
// reduce that is only yielded accumulates in place, and a product by one multiply-add.
// CHECK-LABEL: kernel.func @registers
// CHECK: %acc = kernel.alloc_local : memref<2x4xf32, #kernel.local>
// CHECK: scf.for %ko
// CHECK-NEXT: scf.for %ki
// CHECK-NEXT: %b = kernel.alloc_local : memref<4xf32, #kernel.local>
// CHECK: kernel.load %B[%ko * 2 + %ki, %rj
// CHECK: %a = kernel.alloc_local : memref<2xf32, #kernel.local>
// CHECK: kernel.load %A[%tid * 2 + %ri
// CHECK-NOT: arith.mulf
// CHECK: %[[OLD:.*]] = kernel.load %acc[
// CHECK-NEXT: %[[NEW:.*]] = math.fma %{{.*}}, %{{.*}}, %[[OLD]]
// CHECK-NEXT: kernel.store %[[NEW]], %acc[
// CHECK-NOT: alloc_local : memref<2x4
// CHECK: kernel.store %{{.*}}, %C[
%A = "test.op"() : () -> tensor<16x6xf32>
%B = "test.op"() : () -> tensor<6x4xf32>
%C = tile.kernel @registers(%A: memref<16x6xf32> = %A, %B: memref<6x4xf32> = %B) -> (%C: memref<16x4xf32>) {
  tile.launch thread(%tid in 8) register(%ri in 2, %rj in 4) {
    %acc = tile.reduce add serial(%ko in 3) -> f32 {
      %part = tile.reduce add serial(%ki in 2) -> f32 {
        %a = tile.load %A[%tid * 2 + %ri, %ko * 2 + %ki] : memref<16x6xf32>
        %b = tile.load %B[%ko * 2 + %ki, %rj] : memref<6x4xf32>
        %p = arith.mulf %a, %b : f32
        tile.yield %p : f32
      }
      tile.yield %part : f32
    }
    tile.store %acc, %C[%tid * 2 + %ri, %rj] : memref<16x4xf32>
  }
}

// -----

// A condition that is the same for the whole block skips the point; another one selects the
// identity.
// CHECK-LABEL: kernel.func @conditions
// CHECK: kernel.test where (%k + %b < 9)
// CHECK-NEXT: scf.if
// CHECK: kernel.select %{{.*}} where (%t + %k_1 < 10) else
%x = "test.op"() : () -> tensor<8x10xf32>
%y = tile.kernel @conditions(%x: memref<8x10xf32> = %x) -> (%y: memref<4x8xf32>) {
  tile.launch block(%b in 4) thread(%t in 8) {
    %u = tile.reduce add serial(%k in 10) -> f32 {
      %a = tile.load %x[%t, %k] : memref<8x10xf32>
      tile.yield %a where (%k + %b < 9) : f32
    }
    %v = tile.reduce max serial(%k in 10) -> f32 {
      %a = tile.load %x[%t, %k] : memref<8x10xf32>
      tile.yield %a where (%t + %k < 10) : f32
    }
    %s = arith.addf %u, %v : f32
    tile.store %s, %y[%b, %t] : memref<4x8xf32>
  }
}

// -----

// All threads copy a slab, what lies beyond the input is 0, and barriers order copy and reads:
// one before the slab is refilled, one before it is read.
// CHECK-LABEL: kernel.func @stage
// CHECK: %x_smem = kernel.alloc_shared : memref<16x4xf32, #kernel.shared>
// CHECK: scf.for %ko
// CHECK-NEXT: kernel.barrier
// CHECK-NEXT: scf.for %round
// CHECK-NEXT: kernel.load %x[%ko * 16 + %round * 8 + %t floordiv 4, %t mod 4] where (%ko * 16 + %round * 8 + %t floordiv 4 < 30, %t mod 4 < 3)
// CHECK-NEXT: kernel.store %{{.*}}, %x_smem[%round * 8 + %t floordiv 4, %t mod 4]
// CHECK: kernel.barrier
// CHECK: kernel.load %x_smem[%ki, %t mod 4]
// CHECK-NOT: kernel.barrier
%x = "test.op"() : () -> tensor<30x3xf32>
%y = tile.kernel @stage(%x: memref<30x3xf32> = %x) -> (%y: memref<32xf32>) {
  tile.launch thread(%t in 32) {
    %s = tile.reduce add serial(%ko in 2) -> f32 {
      %x_smem = tile.stage %x[%ko * 16, 0] [16, 4] : memref<30x3xf32> -> memref<16x4xf32, #tile.shared>
      %p = tile.reduce add serial(%ki in 16) -> f32 {
        %a = tile.load %x_smem[%ki, %t mod 4] : memref<16x4xf32, #tile.shared>
        tile.yield %a : f32
      }
      tile.yield %p : f32
    }
    tile.store %s, %y[%t] : memref<32xf32>
  }
}

// -----

// Lanes that are not there are not named.
// CHECK-LABEL: kernel.func @twelve
// CHECK-SAME: grid 1 block 12
// CHECK: kernel.shuffle xor %{{.*}}, 2 width 4 threads 12 : f32
// CHECK: kernel.shuffle xor %{{.*}}, 1 width 4 threads 12 : f32
%x = "test.op"() : () -> tensor<3x4xf32>
%y = tile.kernel @twelve(%x: memref<3x4xf32> = %x) -> (%y: memref<3xf32>) {
  tile.launch thread(%r in 3, %t in 4) {
    %a = tile.load %x[%r, %t] : memref<3x4xf32>
    %s = tile.combine add %a across(%t) : f32
    tile.store %s, %y[%r] : memref<3xf32>
  }
}

// -----

// Up to 32 neighbouring threads combine by shuffles alone.
// CHECK-LABEL: kernel.func @shuffles
// CHECK: kernel.shuffle xor %{{.*}}, 4 width 8 : f32
// CHECK: kernel.shuffle xor %{{.*}}, 2 width 8 : f32
// CHECK: kernel.shuffle xor %{{.*}}, 1 width 8 : f32
// CHECK-NOT: alloc_shared
// CHECK-NOT: kernel.barrier
// CHECK: kernel.store %{{.*}}, %y[%r] where (%t < 1)
%x = "test.op"() : () -> tensor<4x8xf32>
%y = tile.kernel @shuffles(%x: memref<4x8xf32> = %x) -> (%y: memref<4xf32>) {
  tile.launch thread(%r in 4, %t in 8) {
    %a = tile.load %x[%r, %t] : memref<4x8xf32>
    %s = tile.combine add %a across(%t) : f32
    tile.store %s, %y[%r] : memref<4xf32>
  }
}

// -----

// More threads combine within warps, then through shared memory.
// CHECK-LABEL: kernel.func @warps
// CHECK: %s_parts = kernel.alloc_shared : memref<2xf32, #kernel.shared>
// CHECK: kernel.shuffle xor %{{.*}}, 16 width 32 : f32
// CHECK: kernel.store %{{.*}}, %s_parts[%t floordiv 32] where (%t mod 32 < 1)
// CHECK: kernel.barrier
// CHECK: kernel.load %s_parts[%part]
%x = "test.op"() : () -> tensor<64xf32>
%y = tile.kernel @warps(%x: memref<64xf32> = %x) -> (%y: memref<f32>) {
  tile.launch thread(%t in 64) {
    %a = tile.load %x[%t] : memref<64xf32>
    %s = tile.combine add %a across(%t) : f32
    tile.store %s, %y[] : memref<f32>
  }
}

// -----

// Lanes of a warp that are apart combine by shuffles, too, the parts of warps side by side.
// CHECK-LABEL: kernel.func @columns
// CHECK: %s_parts = kernel.alloc_shared : memref<2x8xf32, #kernel.shared>
// CHECK: kernel.shuffle xor %{{.*}}, 16 width 32
// CHECK: kernel.shuffle xor %{{.*}}, 8 width 32
// CHECK-NOT: kernel.shuffle
// CHECK: kernel.store %{{.*}}, %s_parts[%t floordiv 4, %c] where (%t mod 4 < 1)
// CHECK: kernel.barrier
// CHECK: kernel.load %s_parts[%part, %c]
%x = "test.op"() : () -> tensor<8x8xf32>
%y = tile.kernel @columns(%x: memref<8x8xf32> = %x) -> (%y: memref<8xf32>) {
  tile.launch thread(%t in 8, %c in 8) {
    %a = tile.load %x[%t, %c] : memref<8x8xf32>
    %s = tile.combine add %a across(%t) : f32
    tile.store %s, %y[%c] : memref<8xf32>
  }
}

// -----

// Threads of as many warps combine through shared memory only.
// CHECK-LABEL: kernel.func @warps_apart
// CHECK: %s_parts = kernel.alloc_shared : memref<4x32xf32, #kernel.shared>
// CHECK-NOT: kernel.shuffle
// CHECK: kernel.store %{{.*}}, %s_parts[%t, %c]
// CHECK: kernel.barrier
// CHECK: kernel.load %s_parts[%part, %c]
%x = "test.op"() : () -> tensor<4x32xf32>
%y = tile.kernel @warps_apart(%x: memref<4x32xf32> = %x) -> (%y: memref<32xf32>) {
  tile.launch thread(%t in 4, %c in 32) {
    %a = tile.load %x[%t, %c] : memref<4x32xf32>
    %s = tile.combine add %a across(%t) : f32
    tile.store %s, %y[%c] : memref<32xf32>
  }
}

// -----

// No points: nothing is launched.
// CHECK-LABEL: kernel.func @empty
// CHECK-SAME: grid 0 block 1
%y = tile.kernel @empty() -> (%y: memref<0xf32>) {
  %zero = arith.constant 0.0 : f32
  tile.launch thread(%i in 0) {
    tile.store %zero, %y[%i] : memref<0xf32>
  }
}

// -----

// What is done at each point last of all shares the loops of the operations before it; else it has
// loops of its own. Memory is defined, and accumulators are set, before what uses them first.
// CHECK-LABEL: kernel.func @each
// CHECK: %kept = kernel.alloc_local : memref<4xf32, #kernel.local>
// CHECK-NEXT: scf.for
// CHECK-NEXT: %[[a:.*]] = kernel.load %a
// CHECK-NEXT: kernel.store %[[a]], %kept
// CHECK: scf.for %{{.*}} {
// CHECK-NEXT: %b = kernel.load %kept
// CHECK-NEXT: %{{.*}} = math.exp %b : f32
// CHECK: %acc = kernel.alloc_local : memref<4xf32, #kernel.local>
// CHECK-NEXT: scf.for
// CHECK-NEXT: kernel.store %{{.*}}, %acc
// CHECK: scf.for %k
// CHECK-NEXT: scf.for
// CHECK: %m = arith.mulf
// CHECK-NEXT: %old = kernel.load %acc
// CHECK-NEXT: %new = arith.addf %old, %m : f32
// CHECK-NEXT: kernel.store %new, %acc
kernel.func @each(%x: memref<4xf32>) -> (%y: memref<4xf32>) grid 1 block 1 lockstep {
  tile.for register(%i in 4) {
    %zero = arith.constant 0.0 : f32
    %a = tile.load %x[%i] : memref<4xf32>
    %kept = kernel.alloc_local : memref<4xf32, #kernel.local>
    tile.each over(%i) {
      kernel.store %a, %kept[%i] : memref<4xf32, #kernel.local>
    }
    %b = tile.load %kept[%i] : memref<4xf32, #kernel.local>
    %e = math.exp %b : f32
    %acc = tile.accumulator %zero over(%i) : f32 -> memref<4xf32, #kernel.local>
    tile.for serial(%k in 8) {
      %m = arith.mulf %e, %a : f32
      tile.each over(%i) {
        %old = kernel.load %acc[%i] : memref<4xf32, #kernel.local>
        %new = arith.addf %old, %m : f32
        kernel.store %new, %acc[%i] : memref<4xf32, #kernel.local>
      }
    }
    %s = tile.load %acc[%i] : memref<4xf32, #kernel.local>
    tile.store %s, %y[%i] : memref<4xf32>
  }
}

// -----

// A load of memory that is written afterwards is a copy, made before.
// CHECK-LABEL: kernel.func @copied
// CHECK: %b = kernel.alloc_local : memref<4xf32, #kernel.local>
// CHECK-NEXT: scf.for %[[i:.*]] =
// CHECK-NEXT: %[[old:.*]] = kernel.load %m[%[[i]]]
// CHECK-NEXT: kernel.store %[[old]], %b[%[[i]]]
// CHECK: kernel.store %{{.*}}, %m
// CHECK: %[[b:.*]] = kernel.load %b
// CHECK-NEXT: kernel.store %[[b]], %y
kernel.func @copied(%x: memref<4xf32>) -> (%y: memref<4xf32>) grid 1 block 1 lockstep {
  tile.for register(%i in 4) {
    %one = arith.constant 1.0 : f32
    %two = arith.constant 2.0 : f32
    %m = tile.accumulator %one over(%i) : f32 -> memref<4xf32, #kernel.local>
    %b = tile.load %m[%i] : memref<4xf32, #kernel.local>
    tile.each over(%i) {
      kernel.store %two, %m[%i] : memref<4xf32, #kernel.local>
    }
    tile.store %b, %y[%i] : memref<4xf32>
  }
}
