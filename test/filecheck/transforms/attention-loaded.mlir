// RUN: dlc-opt %s -p 'tileify,chunk-matmul-k{bk=16 vector=4},blockify-launch{block=16,8 thread=8,4},stage-inputs{budget=20000 compute=true}' --remarks 2>&1 | filecheck %s

// Scores that memory has: of a chunk the largest of each row, the powers and their sum are computed
// once for a block, as they are where the scores are computed.
// CHECK: %max, %sum, %o = tile.reduce expsum serial(%jo in 4) -> (f32, f32, f32) {
// CHECK: %s_smem = tile.stage %s
// CHECK: %max_part_smem = tile.compute points [1] thread(%p in 16) {
// CHECK-NEXT: tile.reduce max serial(%ji in 4) register(%jv in 4) -> f32 {
// CHECK: %power_smem = tile.compute thread(%p_1 in 16, %q in 16) {
// CHECK: %power = math.exp_below
// CHECK: %sum_part_smem = tile.compute points [1] thread(%p_2 in 16) {
// CHECK: %o_part = tile.reduce add serial
// CHECK-NOT: math.exp_below
// CHECK: tile.load %power_smem
// CHECK: tile.yield %max_part
// CHECK: stage-inputs: weighted: staged {{.*}}; computed max_part (64 B, read 8 times); computed power (1024 B, read 8 times); computed sum_part (64 B, read 8 times)
func.func @main(%s: tensor<32x64xf32>, %v: tensor<64x8xf32>) -> tensor<32x8xf32> {
  %y = loop.kernel @weighted(%s: memref<32x64xf32> = %s, %v: memref<64x8xf32> = %v) -> (%y: memref<32x8xf32>) {
    %one = arith.constant 1.0 : f32
    loop.for %row in 32, %c in 8 {
      %max, %sum, %o = loop.reduce expsum %j in 64 -> (f32, f32, f32) {
        %x = loop.load %s[%row, %j] : memref<32x64xf32>
        %w = loop.load %v[%j, %c] : memref<64x8xf32>
        loop.yield %x, %one, %w : f32, f32, f32
      }
      %q = arith.divf %o, %sum : f32
      loop.store %q, %y[%row, %c] : memref<32x8xf32>
    }
  }
  func.return %y : tensor<32x8xf32>
}
