// RUN: dlc-opt %s | filecheck %s
// RUN: DLC_ROUNDTRIP

// CHECK: %s, %m = tile.scan max %a, %b along %ko * 32 + %t * 2 + %kv {note} : f32, i64
// CHECK: tile.scan add %s along %ko * 32 + %n_1 * 2 + %kv among(%r, %n_1) : f32
%x, %n = "test.op"() : () -> (tensor<4x64xf32>, tensor<64xi64>)
%y = tile.kernel @running(%x: memref<4x64xf32> = %x, %n: memref<64xi64> = %n)
    -> (%y: memref<4x64xf32>) {
  tile.launch thread(%row in 4, %t in 16) {
    %r = tile.index %row
    %n_1 = tile.index %t
    tile.for serial(%ko in 2) register(%kv in 2) {
      %a = tile.load %x[%row, %ko * 32 + %t * 2 + %kv] : memref<4x64xf32>
      %b = tile.load %n[%ko * 32 + %t * 2 + %kv] : memref<64xi64>
      %s, %m = tile.scan max %a, %b along %ko * 32 + %t * 2 + %kv {note} : f32, i64
      %p = tile.scan add %s along %ko * 32 + %n_1 * 2 + %kv among(%r, %n_1) : f32
      tile.store %p, %y[%row, %ko * 32 + %t * 2 + %kv] : memref<4x64xf32>
    }
  }
}
