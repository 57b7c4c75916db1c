// RUN: dlc-opt %s | filecheck %s
// RUN: DLC_ROUNDTRIP

// CHECK: %s, %m = tile.sort %a, %b along %t * 2 + %kv {note} : i32, i64
// CHECK: tile.sort first 4 %s along %t * 2 + %kv : i32
// CHECK: tile.sort bitonic %s along %n_1 * 2 + %kv among(%r, %n_1) : i32
%x, %n = "test.op"() : () -> (tensor<4x32xi32>, tensor<32xi64>)
%y = tile.kernel @in_order(%x: memref<4x32xi32> = %x, %n: memref<32xi64> = %n)
    -> (%y: memref<4x32xi32>) {
  tile.launch thread(%row in 4, %t in 16) {
    %r = tile.index %row
    %n_1 = tile.index %t
    tile.for register(%kv in 2) {
      %a = tile.load %x[%row, %t * 2 + %kv] : memref<4x32xi32>
      %b = tile.load %n[%t * 2 + %kv] : memref<32xi64>
      %s, %m = tile.sort %a, %b along %t * 2 + %kv {note} : i32, i64
      %q = tile.sort first 4 %s along %t * 2 + %kv : i32
      %p = tile.sort bitonic %s along %n_1 * 2 + %kv among(%r, %n_1) : i32
      tile.store %p, %y[%row, %t * 2 + %kv] : memref<4x32xi32>
    }
  }
}
