// RUN: dlc-opt %s -p bind-axes,lower-stages,lower-reduces,lower-registers,place-barriers,vectorize-accesses --split-input-file | filecheck %s

// Runs of four elements, dealt over the threads: of one row, which are loaded and stored at
// once. A barrier after the copy and one after the computation also order the next iteration's.
// CHECK-LABEL: kernel.func @rows(
// CHECK: %h = kernel.alloc_shared : memref<16x32xf32, #kernel.shared>
// CHECK: scf.for %k
// CHECK: kernel.barrier
// CHECK: scf.for %[[round:.*]] =
// CHECK-NEXT: kernel.alloc_local : memref<4xf32, #kernel.local>
// CHECK-NEXT: kernel.load %s[%[[round]] * 8 + %t floordiv 8, %t mod 8 * 4] : memref<16x32xf32, #kernel.shared> -> vector<4xf32>
// CHECK: scf.for %q
// CHECK: math.exp
// CHECK: kernel.store %{{.*}}, %h[%[[round]] * 8 + %t floordiv 8, %t mod 8 * 4] : memref<16x32xf32, #kernel.shared>, vector<4xf32>
// CHECK: kernel.barrier
// CHECK: kernel.load %h[%t mod 16, 0]
// CHECK-NOT: kernel.barrier
%x = "test.op"() : () -> tensor<16x256xf32>
%y = tile.kernel @rows(%x: memref<16x256xf32> = %x) -> (%y: memref<64xf32>) {
  tile.launch thread(%t in 64) {
    %acc = tile.reduce add serial(%k in 8) -> f32 {
      %s = tile.stage %x[0, %k * 32] [16, 32] : memref<16x256xf32> -> memref<16x32xf32, #tile.shared>
      %h = tile.compute thread(%p in 16, %q in 32) {
        %a = tile.load %s[%p, %q] : memref<16x32xf32, #tile.shared>
        %e = math.exp %a : f32
        tile.yield %e : f32
      } : memref<16x32xf32, #tile.shared>
      %v = tile.load %h[%t mod 16, 0] : memref<16x32xf32, #tile.shared>
      tile.yield %v : f32
    }
    tile.store %acc, %y[%t] : memref<64xf32>
  }
}

// -----

// Fewer runs than threads, conditions, rows of no multiple of four, an input that is not staged: it
// is read only inside.
// CHECK-LABEL: kernel.func @few(
// CHECK: kernel.test where (%t < 15)
// CHECK-NEXT: scf.if
// CHECK-NEXT: %a = kernel.load %x[%b * 5 + %t floordiv 3, %t mod 3] where (%b * 5 + %t floordiv 3 < 9)
// CHECK-NEXT: %e = math.exp %a : f32
// CHECK: kernel.select %e where (%b * 5 + %t floordiv 3 < 9) else %{{.*}} : f32
// CHECK: kernel.store %{{.*}}, %h[%t floordiv 3, %t mod 3]
// CHECK: kernel.barrier
// CHECK: kernel.load %h[0, 2]
%x = "test.op"() : () -> tensor<9x3xf32>
%y = tile.kernel @few(%x: memref<9x3xf32> = %x) -> (%y: memref<2x32xf32>) {
  tile.launch block(%b in 2) thread(%t in 32) {
    %h = tile.compute thread(%p in 5, %q in 3) {
      %a = tile.load %x[%b * 5 + %p, %q] : memref<9x3xf32>
      %e = math.exp %a : f32
      tile.yield %e where (%b * 5 + %p < 9) : f32
    } : memref<5x3xf32, #tile.shared>
    %v = tile.load %h[0, 2] : memref<5x3xf32, #tile.shared>
    tile.store %v, %y[%b, %t] : memref<2x32xf32>
  }
}

// -----

// With conditions, and with a transposed input, stores are wide still: the loads of the transposed
// one are not. Padded rows stay aligned.
// CHECK-LABEL: kernel.func @wide(
// CHECK: kernel.load %s[%t mod 4 * 4 + %q, %{{.*}} * 8 + %t floordiv 4]
// CHECK: kernel.select
// CHECK: kernel.store %{{.*}}, %h[%{{.*}} * 8 + %t floordiv 4, %t mod 4 * 4] : memref<16x16xf32, strided<[20, 1]>, #kernel.shared>, vector<4xf32>
%x = "test.op"() : () -> tensor<16x14xf32>
%y = tile.kernel @wide(%x: memref<16x14xf32> = %x) -> (%y: memref<32xf32>) {
  tile.launch thread(%t in 32) {
    %s = tile.stage %x[0, 0] [16, 16] : memref<16x14xf32> -> memref<16x16xf32, #tile.shared>
    %h = tile.compute thread(%p in 16, %q in 16) {
      %a = tile.load %s[%q, %p] : memref<16x16xf32, #tile.shared>
      %e = math.exp %a : f32
      tile.yield %e where (%p < 14) : f32
    } : memref<16x16xf32, strided<[20, 1]>, #tile.shared>
    %v = tile.load %h[0, %t mod 16] : memref<16x16xf32, strided<[20, 1]>, #tile.shared>
    tile.store %v, %y[%t] : memref<32xf32>
  }
}
