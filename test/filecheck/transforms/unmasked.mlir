// RUN: dlc-opt %s -p bind-axes,lower-stages --split-input-file | filecheck %s
// RUN: dlc-opt %s -p bind-axes,lower-stages,lower-reduces,lower-registers,place-barriers --split-input-file | filecheck %s --check-prefix=KERNEL

// Sums that are masked from the diagonal on: where no element of the chunk is, nothing asks. The
// slab that is computed of them element by element takes their place.
// CHECK-LABEL: kernel.func @chunks
// CHECK: %s = kernel.alloc_shared : memref<8x8xf32, #kernel.shared>
// CHECK: %sum = tile.reduce add
// CHECK: %[[whole:.*]] = kernel.test where (%b * 8 - %ko * 8 >= 7)
// CHECK-NEXT: scf.if %[[whole]] {
// CHECK-NEXT: %h = arith.mulf %sum, %half : f32
// CHECK-NEXT: tile.store %h, %s[
// CHECK-NEXT: } else {
// CHECK-NEXT: %h_1 = arith.mulf %sum, %half : f32
// CHECK-NEXT: %m = tile.select %h_1 where (%b * 8 - %ko * 8 + %p * 4 + {{.*}} >= 0) else %low : f32
// CHECK-NEXT: tile.store %m, %s[
// CHECK: tile.load %s[
// CHECK: math.exp
// CHECK-NEXT: tile.store %e, %s[

// Two barriers follow: before the sums of other threads are read, and before their powers are.
// KERNEL-LABEL: kernel.func @chunks
// KERNEL: scf.if
// KERNEL: } else {
// KERNEL: kernel.select
// KERNEL-COUNT-2: kernel.barrier
// KERNEL-NOT: kernel.barrier
// KERNEL: kernel.launch @chunks
%x = "test.op"() : () -> tensor<64x4xf32>
%y = tile.kernel @chunks(%x: memref<64x4xf32> = %x) -> (%y: memref<64xf32>) {
  %half = arith.constant 0.5 : f32
  %low = arith.constant -1.0 : f32
  tile.launch block(%b in 8) thread(%t in 8) {
    %r = tile.reduce add serial(%ko in 8) -> f32 {
      %a = tile.stage %x[%b * 8, 0] [8, 4] : memref<64x4xf32> -> memref<8x4xf32, #tile.shared>
      %c = tile.stage %x[%ko * 8, 0] [8, 4] : memref<64x4xf32> -> memref<8x4xf32, #tile.shared>
      %s = tile.compute points [2, 4] thread(%p in 8, %q in 8) {
        %sum = tile.reduce add serial(%k in 4) -> f32 {
          %u = tile.load %a[%p, %k] : memref<8x4xf32, #tile.shared>
          %v = tile.load %c[%q, %k] : memref<8x4xf32, #tile.shared>
          %w = arith.mulf %u, %v : f32
          tile.yield %w : f32
        }
        %h = arith.mulf %sum, %half : f32
        %m = tile.select %h where (%b * 8 - %ko * 8 + %p - %q >= 0) else %low : f32
        tile.yield %m : f32
      } : memref<8x8xf32, #tile.shared>
      %e_smem = tile.compute thread(%p in 8, %q in 8) {
        %m = tile.load %s[%p, %q] : memref<8x8xf32, #tile.shared>
        %e = math.exp %m : f32
        tile.yield %e : f32
      } : memref<8x8xf32, #tile.shared>
      %part = tile.reduce add serial(%q in 8) -> f32 {
        %e = tile.load %e_smem[%t, %q] : memref<8x8xf32, #tile.shared>
        tile.yield %e : f32
      }
      tile.yield %part : f32
    }
    tile.store %r, %y[%b * 8 + %t] : memref<64xf32>
  }
}

// -----

// Not where somebody reads the sums later, and not where another element is read.
// CHECK-LABEL: kernel.func @read_later
// CHECK: kernel.alloc_shared : memref<8x8xf32, #kernel.shared>
// CHECK: kernel.alloc_shared : memref<8x8xf32, #kernel.shared>
// CHECK: kernel.alloc_shared : memref<8x8xf32, #kernel.shared>
%x = "test.op"() : () -> tensor<8x8xf32>
%y = tile.kernel @read_later(%x: memref<8x8xf32> = %x) -> (%y: memref<8xf32>) {
  tile.launch thread(%t in 8) {
    %a = tile.stage %x[0, 0] [8, 8] : memref<8x8xf32> -> memref<8x8xf32, #tile.shared>
    %s = tile.compute thread(%p in 8, %q in 8) {
      %m = tile.load %a[%q, %p] : memref<8x8xf32, #tile.shared>
      tile.yield %m : f32
    } : memref<8x8xf32, #tile.shared>
    %e_smem = tile.compute thread(%p in 8, %q in 8) {
      %m = tile.load %s[%p, %q] : memref<8x8xf32, #tile.shared>
      %e = math.exp %m : f32
      tile.yield %e : f32
    } : memref<8x8xf32, #tile.shared>
    %u = tile.load %s[%t, 0] : memref<8x8xf32, #tile.shared>
    %v = tile.load %e_smem[%t, 1] : memref<8x8xf32, #tile.shared>
    %w = arith.addf %u, %v : f32
    tile.store %w, %y[%t] : memref<8xf32>
  }
}
