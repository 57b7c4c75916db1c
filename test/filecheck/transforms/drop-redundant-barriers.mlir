// RUN: dlc-opt %s -p drop-redundant-barriers | filecheck %s
// RUN: dlc-opt %s -p drop-redundant-barriers --remarks 2>&1 >/dev/null | filecheck %s --check-prefix=REMARK

// REMARK: drop-redundant-barriers: straight: dropped 3, kept 1
// REMARK-NEXT: drop-redundant-barriers: loop: dropped 1, kept 2
// REMARK-NOT: needed

// CHECK-LABEL: kernel.func @straight
// CHECK-NOT: kernel.barrier
// CHECK: kernel.store %v, %s[%t]
// CHECK-NEXT: kernel.barrier
// CHECK-NEXT: kernel.load %s[0]
// CHECK-NOT: kernel.barrier
// CHECK: }
kernel.func @straight(%x: memref<64xf32>) -> (%y: memref<64xf32>) grid 1 block 64 {
  %t = kernel.thread_id
  %s = kernel.alloc_shared : memref<64xf32, #kernel.shared>
  %v = kernel.load %x[%t] : memref<64xf32>
  kernel.barrier
  kernel.store %v, %s[%t] : memref<64xf32, #kernel.shared>
  kernel.barrier
  kernel.barrier
  %w = kernel.load %s[0] : memref<64xf32, #kernel.shared>
  kernel.barrier
  kernel.store %w, %y[%t] : memref<64xf32>
}

// The barrier at the end of the body separates the load from the store of the next iteration.
// CHECK-LABEL: kernel.func @loop
// CHECK: scf.for
// CHECK-NEXT: kernel.store
// CHECK-NEXT: kernel.barrier
// CHECK-NEXT: kernel.load
// CHECK-NEXT: kernel.store %w, %y
// CHECK-NEXT: kernel.barrier
// CHECK-NEXT: }
kernel.func @loop(%x: memref<64xf32>) -> (%y: memref<64xf32>) grid 1 block 64 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %t = kernel.thread_id
  %s = kernel.alloc_shared : memref<64xf32, #kernel.shared>
  %v = kernel.load %x[%t] : memref<64xf32>
  scf.for %k = %c0 to %c4 step %c1 {
    kernel.barrier
    kernel.store %v, %s[%t] : memref<64xf32, #kernel.shared>
    kernel.barrier
    %w = kernel.load %s[0] : memref<64xf32, #kernel.shared>
    kernel.store %w, %y[%t] : memref<64xf32>
    kernel.barrier
  }
}

// CHECK-LABEL: kernel.func @needed
// CHECK: kernel.barrier
kernel.func @needed(%x: memref<64xf32>) -> (%y: memref<64xf32>) grid 1 block 64 {
  %t = kernel.thread_id
  %s = kernel.alloc_shared : memref<64xf32, #kernel.shared>
  %v = kernel.load %x[%t] : memref<64xf32>
  kernel.store %v, %s[%t] : memref<64xf32, #kernel.shared>
  kernel.barrier
  %w = kernel.load %s[0] : memref<64xf32, #kernel.shared>
  kernel.store %w, %y[%t] : memref<64xf32>
}
