// RUN: dlc-opt %s -p 'register-tile{extents=2}' | filecheck %s

// The order of blocks is that of the same axis, however many before it have one point and go.
// CHECK: tile.launch last_first [0, 2] block(%bi in 8, %bj in 4) thread(%tj in 4) register(%rj in 2)
func.func @main(%x: tensor<1x8x32xf32>) -> tensor<1x8x32xf32> {
  %y = tile.kernel @k(%x: memref<1x8x32xf32> = %x) -> (%y: memref<1x8x32xf32>) schedule "tileify,blockify-launch{block=1,1,8 thread=1,1,4},register-tile{extents=2}" {
    tile.launch last_first [1, 2] block(%bb in 1, %bi in 8, %bj in 4) thread(%tj in 4) serial(%ej in 2) {
      %a = tile.load %x[%bb, %bi, %bj * 8 + %tj * 2 + %ej] : memref<1x8x32xf32>
      tile.store %a, %y[%bb, %bi, %bj * 8 + %tj * 2 + %ej] : memref<1x8x32xf32>
    }
  }
  func.return %y : tensor<1x8x32xf32>
}
