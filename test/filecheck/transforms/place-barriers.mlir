// RUN: dlc-opt %s -p place-barriers --split-input-file --verify-diagnostics | filecheck %s
// RUN: dlc-opt %s -p place-barriers --split-input-file --verify-diagnostics --remarks 2>&1 >/dev/null | filecheck %s --check-prefix=REMARK

// REMARK: place-barriers: straight: 1 barrier
// REMARK-NEXT: place-barriers: loop: 2 barriers
// REMARK-NEXT: place-barriers: apart: 0 barriers
// REMARK-NEXT: place-barriers: stated: 0 barriers
// REMARK-NOT: independent

// Between the write of an element and the read of it by another thread; none before and behind.
// CHECK-LABEL: kernel.func @straight
// CHECK-SAME: grid 1 block 64 {
// CHECK-NOT: kernel.barrier
// CHECK: kernel.store %v, %s[%t]
// CHECK-NEXT: kernel.barrier
// CHECK-NEXT: kernel.load %s[-%t + 63]
// CHECK-NOT: kernel.barrier
// CHECK: }
kernel.func @straight(%x: memref<64xf32>) -> (%y: memref<64xf32>) grid 1 block 64 lockstep {
  %t = kernel.thread_id
  %s = kernel.alloc_shared : memref<64xf32, #kernel.shared>
  %v = kernel.load %x[%t] : memref<64xf32>
  kernel.store %v, %s[%t] : memref<64xf32, #kernel.shared>
  %w = kernel.load %s[63 - %t] : memref<64xf32, #kernel.shared>
  kernel.store %w, %y[%t] : memref<64xf32>
}

// -----

// In a loop, another one between the read and the write of the next iteration.
// CHECK-LABEL: kernel.func @loop
// CHECK: scf.for
// CHECK-NEXT: kernel.barrier
// CHECK-NEXT: kernel.store
// CHECK-NEXT: kernel.barrier
// CHECK-NEXT: kernel.load
// CHECK-NEXT: kernel.store %w, %y
// CHECK-NEXT: }
kernel.func @loop(%x: memref<64xf32>) -> (%y: memref<64xf32>) grid 1 block 64 lockstep {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %t = kernel.thread_id
  %s = kernel.alloc_shared : memref<64xf32, #kernel.shared>
  %v = kernel.load %x[%t] : memref<64xf32>
  scf.for %k = %c0 to %c4 step %c1 {
    kernel.store %v, %s[%t] : memref<64xf32, #kernel.shared>
    %w = kernel.load %s[0] : memref<64xf32, #kernel.shared>
    kernel.store %w, %y[%t] : memref<64xf32>
  }
}

// -----

// No thread reads what another one writes.
// CHECK-LABEL: kernel.func @apart
// CHECK-NOT: kernel.barrier
// CHECK: }
kernel.func @apart(%x: memref<64xf32>) -> (%y: memref<64xf32>) grid 1 block 64 lockstep {
  %t = kernel.thread_id
  %s = kernel.alloc_shared : memref<64xf32, #kernel.shared>
  %v = kernel.load %x[%t] : memref<64xf32>
  kernel.store %v, %s[%t] : memref<64xf32, #kernel.shared>
  %w = kernel.load %s[%t] : memref<64xf32, #kernel.shared>
  kernel.store %w, %y[%t] : memref<64xf32>
}

// -----

// Barriers that are there count.
// CHECK-LABEL: kernel.func @stated
// CHECK: kernel.store
// CHECK-NEXT: kernel.barrier
// CHECK-NEXT: kernel.load
kernel.func @stated(%x: memref<64xf32>) -> (%y: memref<64xf32>) grid 1 block 64 lockstep {
  %t = kernel.thread_id
  %s = kernel.alloc_shared : memref<64xf32, #kernel.shared>
  %v = kernel.load %x[%t] : memref<64xf32>
  kernel.store %v, %s[%t] : memref<64xf32, #kernel.shared>
  kernel.barrier
  %w = kernel.load %s[0] : memref<64xf32, #kernel.shared>
  kernel.store %w, %y[%t] : memref<64xf32>
}

// -----

// A kernel whose threads run independently is left as it is, race and all.
// CHECK-LABEL: kernel.func @independent
// CHECK-NOT: kernel.barrier
// CHECK: }
kernel.func @independent(%x: memref<64xf32>) -> (%y: memref<64xf32>) grid 1 block 64 {
  %t = kernel.thread_id
  %s = kernel.alloc_shared : memref<64xf32, #kernel.shared>
  %v = kernel.load %x[%t] : memref<64xf32>
  kernel.store %v, %s[%t] : memref<64xf32, #kernel.shared>
  %w = kernel.load %s[0] : memref<64xf32, #kernel.shared>
  kernel.store %w, %y[%t] : memref<64xf32>
}

// -----

// CHECK: no barrier can be placed where all threads of a block come by: 'kernel.store' writes s before 'kernel.load' reads it, and whether they run depends on the thread
kernel.func @divergent(%x: memref<64xf32>) -> (%y: memref<64xf32>) grid 1 block 64 lockstep {
  %t = kernel.thread_id
  %s = kernel.alloc_shared : memref<64xf32, #kernel.shared>
  %v = kernel.load %x[%t] : memref<64xf32>
  %p = kernel.test where (%t < 5)
  scf.if %p {
    kernel.store %v, %s[%t] : memref<64xf32, #kernel.shared>
    %w = kernel.load %s[0] : memref<64xf32, #kernel.shared>
    kernel.store %w, %y[%t] : memref<64xf32>
  }
}

// -----

// CHECK: expected Kernel IR, found 'tile.for'
kernel.func @early(%x: memref<64xf32>) -> (%y: memref<64xf32>) grid 1 block 64 lockstep {
  %t = kernel.thread_id
  tile.for {
    %v = tile.load %x[%t] : memref<64xf32>
    tile.store %v, %y[%t] : memref<64xf32>
  }
}

// -----

// A product of a warpgroup reads through the asynchronous proxy: threads fence what they wrote, and
// only before the barrier that it waits at. What it reads is read until the wait.
// CHECK-LABEL: kernel.func @product
// CHECK: scf.for
// CHECK-NEXT: kernel.barrier
// CHECK-NEXT: kernel.store %v, %A[%t floordiv 64, %t mod 64]
// CHECK-NEXT: kernel.fence_proxy_async
// CHECK-NEXT: kernel.barrier
// CHECK-NEXT: kernel.wgmma_fence
// CHECK-NEXT: kernel.wgmma
// CHECK-NEXT: kernel.wgmma_commit
// CHECK-NEXT: kernel.wgmma_wait
// CHECK-NEXT: }
kernel.func @product(%x: memref<128xf16>) -> () grid 1 block 128 lockstep {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %t = kernel.thread_id
  %A = kernel.alloc_shared : memref<64x64xf16, #kernel.shared>
  %acc = kernel.alloc_local : memref<8x4xf32, #kernel.local>
  %v = kernel.load %x[%t] : memref<128xf16>
  %a = kernel.matrix_descriptor %A[0, 0] leading 16 stride 1024 swizzle 128 : memref<64x64xf16, #kernel.shared>
  scf.for %k = %c0 to %c4 step %c1 {
    kernel.store %v, %A[%t floordiv 64, %t mod 64] : memref<64x64xf16, #kernel.shared>
    kernel.wgmma_fence %acc : memref<8x4xf32, #kernel.local>
    kernel.wgmma <m64n64k16, f16> %acc[0, 0], %a, %a : memref<8x4xf32, #kernel.local>
    kernel.wgmma_commit
    kernel.wgmma_wait 0, %acc : memref<8x4xf32, #kernel.local>
  }
}
