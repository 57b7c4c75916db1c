// RUN: dlc-opt %s -p 'tileify,split-matmul-k{splits=3}' | filecheck %s
// RUN: not dlc-opt %s -p 'tileify,split-matmul-k{splits=3 combine=atomic}' 2>&1 | filecheck %s --check-prefix=ATOMIC

// The kernel that combines the parts updates the input; the one that makes them does not see it.
// CHECK: %sum_parts = tile.kernel @add(%x: memref<50xf32> = %x) -> (%sum_parts: memref<3xf32>)
// CHECK: tile.kernel @add_combine(%sum_parts: memref<3xf32> = %sum_parts, %s: memref<f32> = %s) -> (%y: memref<f32> updates %s)
// CHECK: %old = tile.load %s[]
// CHECK: tile.store %new, %y[]
// ATOMIC: error: kernel add: split-matmul-k: it updates its input in place, and blocks add to zeros
func.func @main(%s: tensor<f32>, %x: tensor<50xf32>) -> (tensor<f32> {dlc.mutates = 0 : i64}) {
  %y = loop.kernel @add(%s: memref<f32> = %s, %x: memref<50xf32> = %x)
      -> (%y: memref<f32> updates %s) {
    %sum = loop.reduce add %k in 50 -> f32 {
      %a = loop.load %x[%k] : memref<50xf32>
      loop.yield %a : f32
    }
    %old = loop.load %s[] : memref<f32>
    %new = arith.addf %old, %sum : f32
    loop.store %new, %y[] : memref<f32>
  }
  func.return %y : tensor<f32>
}
