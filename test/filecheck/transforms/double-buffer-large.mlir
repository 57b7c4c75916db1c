// RUN: not dlc-opt %s -p 'double-buffer{depth=3}' 2>&1 | filecheck %s
// RUN: dlc-opt %s -p 'double-buffer{depth=2}' | filecheck %s --check-prefix=TWO

// The limit is the target's, by default that of sm_90, and the other buffers count as well.
// CHECK: error: kernel large: double-buffer: 245920 B > 232448 B of shared memory at depth 3
// CHECK-NEXT: {{^}}double-buffer{depth=3}
// CHECK-NEXT: {{^}}              ^^^^^
// CHECK-NEXT: hint: take fewer slots, or stage smaller slabs
// TWO-LABEL: tile.kernel @large
// TWO: tile.ring %X(%n in 50)[0, %n * 10] [2048, 10] : memref<2048x500xf32> -> memref<2x2048x10xf32, #tile.shared>
%X = "test.op"() : () -> tensor<2048x500xf32>
tile.kernel @large(%X: memref<2048x500xf32> = %X) -> () {
  tile.launch thread(%t in 200) {
    %row = tile.stage %X[0, 0] [1, 40] : memref<2048x500xf32> -> memref<40xf32, #tile.shared>
    %acc = tile.reduce add serial(%k in 50) -> f32 {
      %s = tile.stage %X[0, %k * 10] [2048, 10] : memref<2048x500xf32> -> memref<2048x10xf32, #tile.shared>
      %v = tile.load %s[%t, 0] : memref<2048x10xf32, #tile.shared>
      tile.yield %v : f32
    }
  }
}
