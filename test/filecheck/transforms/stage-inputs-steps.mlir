// RUN: dlc-opt %s -p 'tileify,chunk-matmul-k{bk=16},blockify-launch{block=8,32 thread=8,16},stage-inputs{budget=2560}' | filecheck %s
// RUN: dlc-opt %s -p 'tileify,chunk-matmul-k{bk=16},blockify-launch{block=8,32 thread=8,16},stage-inputs{budget=2560},double-buffer{depth=2}' | dlc-opt | filecheck %s --check-prefix=RING
// Of a chunk's rows, every second element is read: no others are copied.
// CHECK: %x_smem = tile.stage %x[%mo floordiv 3 * 16, %bi * 64 + %mo mod 3] [16, 32] step [1, 2] : memref<48x131xf32> -> memref<16x32xf32, #tile.shared>
// CHECK: tile.load %x_smem[%mi, %ti * 2 + %ei]
// RING: tile.ring %x(%n in 9)[{{.*}}] [16, 32] step [1, 2] : memref<48x131xf32> -> memref<2x16x32xf32, #tile.shared>
%x = "test.op"() : () -> tensor<48x131xf32>
%w = "test.op"() : () -> tensor<3x48x8xf32>
%y = loop.kernel @conv(%x: memref<48x131xf32> = %x, %w: memref<3x48x8xf32> = %w) -> (%y: memref<8x65xf32>) {
  loop.for %h in 8, %i in 65 {
    %acc = loop.reduce add %k in 3, %m in 48 -> f32 {
      %a = loop.load %x[%m, %i * 2 + %k] : memref<48x131xf32>
      %b = loop.load %w[%k, %m, %h] : memref<3x48x8xf32>
      %p = arith.mulf %a, %b : f32
      loop.yield %p : f32
    }
    loop.store %acc, %y[%h, %i] : memref<8x65xf32>
  }
}
