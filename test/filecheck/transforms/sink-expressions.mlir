// RUN: dlc-opt %s -p sink-expressions --split-input-file | filecheck %s

// What is used once moves to its use with all that it is computed of, in the order that it stood in.

// CHECK-LABEL: kernel.func @expressions
// CHECK:         %t = kernel.thread_id
// CHECK-NEXT:    %b = kernel.load %x[%t + 1] : memref<64xf32>
// CHECK-NEXT:    %u = math.exp %b : f32
// CHECK-NEXT:    kernel.store %u, %y[%t] : memref<64xf32>
// CHECK-NEXT:    %a = kernel.load %x[%t] : memref<64xf32>
// CHECK-NEXT:    %c = kernel.load %x[%t + 2] : memref<64xf32>
// CHECK-NEXT:    %v = math.exp %c : f32
// CHECK-NEXT:    %w = arith.subf %v, %a : f32
// CHECK-NEXT:    kernel.store %w, %y[%t + 1] : memref<64xf32>
kernel.func @expressions(%x: memref<64xf32>) -> (%y: memref<64xf32>) grid 1 block 32 {
  %t = kernel.thread_id
  %a = kernel.load %x[%t] : memref<64xf32>
  %b = kernel.load %x[%t + 1] : memref<64xf32>
  %c = kernel.load %x[%t + 2] : memref<64xf32>
  %u = math.exp %b : f32
  %v = math.exp %c : f32
  kernel.store %u, %y[%t] : memref<64xf32>
  %w = arith.subf %v, %a : f32
  kernel.store %w, %y[%t + 1] : memref<64xf32>
}

// -----

// A load stays before a store to the same buffer, and so does what it is a part of.

// CHECK-LABEL: kernel.func @stores
// CHECK:         %a = kernel.load %y[0] : memref<64xf32>
// CHECK-NEXT:    %u = math.exp %a : f32
// CHECK-NEXT:    kernel.store %z, %y[%t] : memref<64xf32>
// CHECK-NEXT:    kernel.store %z, %y2[%t] : memref<64xf32>
// CHECK-NEXT:    %b = kernel.load %x[%t] : memref<64xf32>
// CHECK-NEXT:    %v = arith.addf %u, %b : f32
// CHECK-NEXT:    kernel.store %v, %y[%t] : memref<64xf32>
// CHECK-NEXT:    %o = kernel.load %y[1] : memref<64xf32>
// CHECK-NEXT:    kernel.atomic_add %z, %y[%t] : memref<64xf32>
// CHECK-NEXT:    kernel.store %o, %y2[%t] : memref<64xf32>
kernel.func @stores(%x: memref<64xf32>) -> (%y: memref<64xf32>, %y2: memref<64xf32>)
    grid 1 block 32 {
  %z = arith.constant 0.0 : f32
  %t = kernel.thread_id
  %a = kernel.load %y[0] : memref<64xf32>
  %b = kernel.load %x[%t] : memref<64xf32>
  %u = math.exp %a : f32
  kernel.store %z, %y[%t] : memref<64xf32>
  kernel.store %z, %y2[%t] : memref<64xf32>
  %v = arith.addf %u, %b : f32
  kernel.store %v, %y[%t] : memref<64xf32>
  %o = kernel.load %y[1] : memref<64xf32>
  kernel.atomic_add %z, %y[%t] : memref<64xf32>
  kernel.store %o, %y2[%t] : memref<64xf32>
}

// -----

// A barrier makes visible what other threads stored, but not to inputs and a thread's own memory.

// CHECK-LABEL: kernel.func @barriers
// CHECK:         %c = kernel.load %s[0]
// CHECK-NEXT:    kernel.barrier
// CHECK-NEXT:    %a = kernel.load %x[%t]
// CHECK-NEXT:    %b = kernel.load %l[1]
// CHECK-NEXT:    %u = arith.addf %a, %b : f32
// CHECK-NEXT:    %v = arith.addf %u, %c : f32
// CHECK-NEXT:    kernel.store %v, %y[%t] : memref<32xf32>
kernel.func @barriers(%x: memref<32xf32>) -> (%y: memref<32xf32>) grid 1 block 32 {
  %t = kernel.thread_id
  %s = kernel.alloc_shared : memref<32xf32, #kernel.shared>
  %l = kernel.alloc_local : memref<2xf32, #kernel.local>
  %a = kernel.load %x[%t] : memref<32xf32>
  %b = kernel.load %l[1] : memref<2xf32, #kernel.local>
  %c = kernel.load %s[0] : memref<32xf32, #kernel.shared>
  kernel.barrier
  %u = arith.addf %a, %b : f32
  %v = arith.addf %u, %c : f32
  kernel.store %v, %y[%t] : memref<32xf32>
}

// -----

// An asynchronous copy changes its target.

// CHECK-LABEL: kernel.func @copies
// CHECK:         %a = kernel.load %s[%t]
// CHECK-NEXT:    kernel.cp_async
// CHECK-NEXT:    %b = kernel.load %r[%t]
// CHECK-NEXT:    %u = arith.addf %a, %b : f32
kernel.func @copies(%x: memref<32xf32>) -> (%y: memref<32xf32>) grid 1 block 32 {
  %t = kernel.thread_id
  %s = kernel.alloc_shared : memref<32xf32, #kernel.shared>
  %r = kernel.alloc_shared : memref<32xf32, #kernel.shared>
  %a = kernel.load %s[%t] : memref<32xf32, #kernel.shared>
  %b = kernel.load %r[%t] : memref<32xf32, #kernel.shared>
  kernel.cp_async %x[%t], %s[%t] elements 1 : memref<32xf32>, memref<32xf32, #kernel.shared>
  %u = arith.addf %a, %b : f32
  kernel.store %u, %y[%t] : memref<32xf32>
}

// -----

// Shuffles, and sums of them, keep their order among each other and among stores.

// CHECK-LABEL: kernel.func @shuffles
// CHECK:         %a = kernel.load %x[%t]
// CHECK-NEXT:    %b = kernel.shuffle xor %a, 1 width 32 : f32
// CHECK-NEXT:    %e = math.exp %a : f32
// CHECK-NEXT:    %c = kernel.shuffle xor %a, 2 width 32 : f32
// CHECK-NEXT:    %d = arith.addf %c, %e : f32
// CHECK-NEXT:    kernel.store %a, %y[%t] : memref<32xf32>
// CHECK-NEXT:    %u = arith.addf %b, %d : f32
// CHECK-NEXT:    kernel.store %u, %y[%t] : memref<32xf32>
kernel.func @shuffles(%x: memref<32xf32>) -> (%y: memref<32xf32>) grid 1 block 32 {
  %t = kernel.thread_id
  %a = kernel.load %x[%t] : memref<32xf32>
  %e = math.exp %a : f32
  %b = kernel.shuffle xor %a, 1 width 32 : f32
  %c = kernel.shuffle xor %a, 2 width 32 : f32
  %d = arith.addf %c, %e : f32
  kernel.store %a, %y[%t] : memref<32xf32>
  %u = arith.addf %b, %d : f32
  kernel.store %u, %y[%t] : memref<32xf32>
}

// -----

// Nothing moves into a loop or an if, nor what can change over one; what cannot change does.

// CHECK-LABEL: kernel.func @regions
// CHECK:         %a = kernel.load %x[%t]
// CHECK-NEXT:    %c = kernel.load %l[0]
// CHECK-NEXT:    scf.for %k = %c0 to %c4 step %c1 {
// CHECK-NEXT:      kernel.store %a, %y[%k]
// CHECK-NEXT:    }
// CHECK-NEXT:    %p = kernel.test where (%t < 7)
// CHECK-NEXT:    scf.if %p {
// CHECK-NEXT:      kernel.store %a, %y[%t]
// CHECK-NEXT:    }
// CHECK-NEXT:    %b = kernel.load %x[%t + 1]
// CHECK-NEXT:    %u = arith.addf %b, %c : f32
kernel.func @regions(%x: memref<64xf32>) -> (%y: memref<64xf32>) grid 1 block 32 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %t = kernel.thread_id
  %l = kernel.alloc_local : memref<2xf32, #kernel.local>
  %p = kernel.test where (%t < 7)
  %a = kernel.load %x[%t] : memref<64xf32>
  %b = kernel.load %x[%t + 1] : memref<64xf32>
  %c = kernel.load %l[0] : memref<2xf32, #kernel.local>
  scf.for %k = %c0 to %c4 step %c1 {
    kernel.store %a, %y[%k] : memref<64xf32>
  }
  scf.if %p {
    kernel.store %a, %y[%t] : memref<64xf32>
  }
  %u = arith.addf %b, %c : f32
  kernel.store %u, %y[%t] : memref<64xf32>
}

// -----

// What is used by two operations, or twice by one, is a part of neither.

// CHECK-LABEL: kernel.func @several_uses
// CHECK:         %a = kernel.load %x[%t]
// CHECK-NEXT:    %b = kernel.load %x[%t + 1]
// CHECK-NEXT:    kernel.store %a, %y[%t]
// CHECK-NEXT:    %u = arith.mulf %b, %b : f32
// CHECK-NEXT:    %v = arith.addf %u, %a : f32
// CHECK-NEXT:    kernel.store %v, %y[%t]
kernel.func @several_uses(%x: memref<64xf32>) -> (%y: memref<64xf32>) grid 1 block 32 {
  %t = kernel.thread_id
  %a = kernel.load %x[%t] : memref<64xf32>
  %b = kernel.load %x[%t + 1] : memref<64xf32>
  %u = arith.mulf %b, %b : f32
  kernel.store %a, %y[%t] : memref<64xf32>
  %v = arith.addf %u, %a : f32
  kernel.store %v, %y[%t] : memref<64xf32>
}

// -----

// A load of a thread's own memory is repeated for each user, if all of them come before a store.

// CHECK-LABEL: kernel.func @names
// CHECK:         %c = kernel.load %l[1]
// CHECK-NEXT:    kernel.store %z, %y[%t]
// CHECK-NEXT:    [[A:%\S+]] = kernel.load %l[0]
// CHECK-NEXT:    [[B:%\S+]] = kernel.load %l[0]
// CHECK-NEXT:    %u = arith.mulf [[A]], [[A]] : f32
// CHECK-NEXT:    %v = arith.addf %u, [[B]] : f32
// CHECK-NEXT:    kernel.store %v, %y[%t]
// CHECK-NEXT:    kernel.store %c, %y[%t]
// CHECK-NEXT:    kernel.store %z, %l[1]
// CHECK-NEXT:    kernel.store %c, %y[%t]
kernel.func @names(%x: memref<64xf32>) -> (%y: memref<64xf32>) grid 1 block 32 {
  %z = arith.constant 0.0 : f32
  %t = kernel.thread_id
  %l = kernel.alloc_local : memref<2xf32, #kernel.local>
  %a = kernel.load %l[0] : memref<2xf32, #kernel.local>
  %c = kernel.load %l[1] : memref<2xf32, #kernel.local>
  kernel.store %z, %y[%t] : memref<64xf32>
  %u = arith.mulf %a, %a : f32
  %v = arith.addf %u, %a : f32
  kernel.store %v, %y[%t] : memref<64xf32>
  kernel.store %c, %y[%t] : memref<64xf32>
  kernel.store %z, %l[1] : memref<2xf32, #kernel.local>
  kernel.store %c, %y[%t] : memref<64xf32>
}

// -----

// A scalar that nothing is stored to any more is read where it is needed, in loops, too.

// CHECK-LABEL: kernel.func @settled
// CHECK:         kernel.store %v, %s[]
// CHECK-NEXT:    scf.for %k = %c0 to %c4 step %c1 {
// CHECK-NEXT:      [[A:%\S+]] = kernel.load %s[]
// CHECK-NEXT:      kernel.store [[A]], %y[%k]
// CHECK-NEXT:    }
// CHECK-NEXT:    [[B:%\S+]] = kernel.load %s[]
// CHECK-NEXT:    kernel.store [[B]], %y[%t]
kernel.func @settled(%x: memref<64xf32>) -> (%y: memref<64xf32>) grid 1 block 32 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %t = kernel.thread_id
  %s = kernel.alloc_local : memref<f32, #kernel.local>
  %v = kernel.load %x[%t] : memref<64xf32>
  kernel.store %v, %s[] : memref<f32, #kernel.local>
  %a = kernel.load %s[] : memref<f32, #kernel.local>
  scf.for %k = %c0 to %c4 step %c1 {
    kernel.store %a, %y[%k] : memref<64xf32>
  }
  kernel.store %a, %y[%t] : memref<64xf32>
}

// -----

// A choice moves to where it is stored, a load under the conditions of the store as well.

// CHECK-LABEL: kernel.func @choices
// CHECK:         %c = kernel.load %x[%t] where (%t < 9)
// CHECK-NEXT:    kernel.store %z, %y[%t]
// CHECK-NEXT:    %a = kernel.load %x[%t] where (%t < 7)
// CHECK-NEXT:    kernel.store %a, %y[%t] : memref<64xf32>
// CHECK-NEXT:    %b = kernel.load %x[%t] where (%t < 8)
// CHECK-NEXT:    kernel.store %b, %y[%t] where (%t < 8)
// CHECK-NEXT:    %u = math.exp %c : f32
// CHECK-NEXT:    kernel.store %u, %y[%t]
kernel.func @choices(%x: memref<64xf32>) -> (%y: memref<64xf32>) grid 1 block 32 {
  %z = arith.constant 0.0 : f32
  %t = kernel.thread_id
  %a = kernel.load %x[%t] where (%t < 7) : memref<64xf32>
  %b = kernel.load %x[%t] where (%t < 8) : memref<64xf32>
  %c = kernel.load %x[%t] where (%t < 9) : memref<64xf32>
  kernel.store %z, %y[%t] : memref<64xf32>
  kernel.store %a, %y[%t] : memref<64xf32>
  kernel.store %b, %y[%t] where (%t < 8) : memref<64xf32>
  %u = math.exp %c : f32
  kernel.store %u, %y[%t] : memref<64xf32>
}

// -----

// A scalar is allocated directly before its first store, behind what the store is computed of; but
// where it is allocated if it is first stored to under a condition, in a loop, or if it is read.

// CHECK-LABEL: kernel.func @scalars
// CHECK:         %t = kernel.thread_id
// CHECK-NEXT:    %b = kernel.alloc_local : memref<f32, #kernel.local>
// CHECK-NEXT:    %c = kernel.alloc_local : memref<f32, #kernel.local>
// CHECK-NEXT:    %d = kernel.alloc_local : memref<1xf32, #kernel.local>
// CHECK-NEXT:    kernel.store %z, %d[0]
// CHECK-NEXT:    %v = kernel.load %x[%t] : memref<64xf32>
// CHECK-NEXT:    %u = math.exp %v : f32
// CHECK-NEXT:    %a = kernel.alloc_local : memref<f32, #kernel.local>
// CHECK-NEXT:    kernel.store %u, %a[] : memref<f32, #kernel.local>
// CHECK-NEXT:    kernel.store %z, %b[] where (%t < 7)
// CHECK-NEXT:    scf.for %k = %c0 to %c4 step %c1 {
// CHECK-NEXT:      kernel.store %z, %c[]
// CHECK-NEXT:      %e = kernel.alloc_local : memref<f32, #kernel.local>
// CHECK-NEXT:      kernel.store %z, %e[]
kernel.func @scalars(%x: memref<64xf32>) -> (%y: memref<64xf32>) grid 1 block 32 {
  %z = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %t = kernel.thread_id
  %a = kernel.alloc_local : memref<f32, #kernel.local>
  %b = kernel.alloc_local : memref<f32, #kernel.local>
  %c = kernel.alloc_local : memref<f32, #kernel.local>
  %d = kernel.alloc_local : memref<1xf32, #kernel.local>
  %v = kernel.load %x[%t] : memref<64xf32>
  kernel.store %z, %d[0] : memref<1xf32, #kernel.local>
  %u = math.exp %v : f32
  kernel.store %u, %a[] : memref<f32, #kernel.local>
  kernel.store %z, %b[] where (%t < 7) : memref<f32, #kernel.local>
  scf.for %k = %c0 to %c4 step %c1 {
    %e = kernel.alloc_local : memref<f32, #kernel.local>
    kernel.store %z, %c[] : memref<f32, #kernel.local>
    kernel.store %z, %e[] : memref<f32, #kernel.local>
  }
  kernel.store %z, %y[%t] : memref<64xf32>
}
