// RUN: dlc-opt %s -p eliminate-dead-code --split-input-file | filecheck %s

// Stores that nothing reads go, and with them the buffer, the loop and what is stored.

// CHECK-LABEL: kernel.func @unread
// CHECK-NEXT:    %t = kernel.thread_id
// CHECK-NEXT:    %v = kernel.load %x[%t] : memref<32xf32>
// CHECK-NEXT:    kernel.store %v, %y[%t] : memref<32xf32>
// CHECK-NEXT:  }
kernel.func @unread(%x: memref<32xf32>) -> (%y: memref<32xf32>) grid 1 block 32 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %t = kernel.thread_id
  %s = kernel.alloc_shared : memref<8xf32, #kernel.shared>
  %v = kernel.load %x[%t] : memref<32xf32>
  scf.for %k = %c0 to %c1 step %c1 {
    kernel.store %v, %s[%k] : memref<8xf32, #kernel.shared>
  }
  %u = arith.addf %v, %v : f32
  kernel.store %v, %y[%t] : memref<32xf32>
}

// -----

// What is read in a later iteration is not dead, nor is a barrier.

// CHECK-LABEL: kernel.func @carried
// CHECK:         %s = kernel.alloc_shared
// CHECK:         scf.for
// CHECK-NEXT:      %e = kernel.load %s[%t]
// CHECK-NEXT:      kernel.store %e, %y[%t]
// CHECK-NEXT:      kernel.store %v, %s[%t]
// CHECK:         kernel.barrier
kernel.func @carried(%x: memref<32xf32>) -> (%y: memref<32xf32>) grid 1 block 32 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %t = kernel.thread_id
  %s = kernel.alloc_shared : memref<32xf32, #kernel.shared>
  %v = kernel.load %x[%t] : memref<32xf32>
  kernel.store %v, %s[%t] : memref<32xf32, #kernel.shared>
  scf.for %k = %c0 to %c4 step %c1 {
    %e = kernel.load %s[%t] : memref<32xf32, #kernel.shared>
    kernel.store %e, %y[%t] : memref<32xf32>
    kernel.store %v, %s[%t] : memref<32xf32, #kernel.shared>
  }
  kernel.barrier
}

// -----

// A value that only feeds itself from iteration to iteration is dead, one that is stored is not.

// CHECK-LABEL: kernel.func @sums
// CHECK:         %sum = scf.for
// CHECK-NOT:     scf.for
kernel.func @sums(%x: memref<32xf32>) -> (%y: memref<32xf32>) grid 1 block 32 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %z = arith.constant 0.0 : f32
  %t = kernel.thread_id
  %v = kernel.load %x[%t] : memref<32xf32>
  %sum = scf.for %k = %c0 to %c4 step %c1 iter_args(%acc = %z) -> (f32) {
    %next = arith.addf %acc, %v : f32
    scf.yield %next : f32
  }
  %lost = scf.for %l = %c0 to %c4 step %c1 iter_args(%bcc = %z) -> (f32) {
    %more = arith.mulf %bcc, %v : f32
    scf.yield %more : f32
  }
  kernel.store %sum, %y[%t] : memref<32xf32>
}

// -----

// Conditions that are sure go, and what they choose; what never happens goes.

// CHECK-LABEL: kernel.func @conditions
// CHECK-NEXT:    %t = kernel.thread_id
// CHECK-NEXT:    %v = kernel.load %x[%t] : memref<32xf32>
// CHECK-NEXT:    %w = kernel.load %x[%t] where (%t < 16) else %v : memref<32xf32>
// CHECK-NEXT:    kernel.store %w, %y[%t] : memref<32xf32>
// CHECK-NEXT:  }
kernel.func @conditions(%x: memref<32xf32>) -> (%y: memref<32xf32>) grid 1 block 32 {
  %t = kernel.thread_id
  %b = kernel.block_id
  %z = arith.constant 0.0 : f32
  %v = kernel.load %x[%t] where (%t >= 0, %t < 32) else %z : memref<32xf32>
  %w = kernel.load %x[%t] where (%t < 16, %b < 7) else %v : memref<32xf32>
  %s = kernel.select %w where (%t < 99) else %z : f32
  kernel.store %s, %y[%t] : memref<32xf32>
  kernel.store %v, %y[%t] where (%t >= 32, %t < 5) : memref<32xf32>
}

// -----

// An atomic add is seen by others; a shuffle whose result nobody needs is not.

// CHECK-LABEL: kernel.func @effects
// CHECK-NOT:     kernel.shuffle
// CHECK:         kernel.atomic_add
kernel.func @effects(%x: memref<32xf32>) -> (%y: memref<1xf32> zeroed) grid 1 block 32 {
  %t = kernel.thread_id
  %v = kernel.load %x[%t] : memref<32xf32>
  %w = kernel.shuffle xor %v, 1 width 32 : f32
  kernel.atomic_add %v, %y[0] : memref<1xf32>
}
