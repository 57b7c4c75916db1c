// RUN: dlc-opt %s --split-input-file --verify-diagnostics -p 'bind-axes,lower-stages,lower-reduces' | filecheck %s

// CHECK: expected a sort along threads and register axes or one serial axis
%x = "test.op"() : () -> tensor<64xi32>
%y = tile.kernel @in_rounds(%x: memref<64xi32> = %x) -> (%y: memref<64xi32>) {
  tile.launch thread(%t in 8) {
    tile.for serial(%ko in 8) {
      %a = tile.load %x[%ko * 8 + %t] : memref<64xi32>
      %s = tile.sort %a along %ko * 8 + %t : i32
      tile.store %s, %y[%ko * 8 + %t] : memref<64xi32>
    }
  }
}

// -----

// CHECK: expected a sort of one row for each thread, found several at register axes
%x = "test.op"() : () -> tensor<2x64xi32>
%y = tile.kernel @rows(%x: memref<2x64xi32> = %x) -> (%y: memref<2x64xi32>) {
  tile.launch thread(%t in 32) {
    tile.for register(%r in 2, %kv in 2) {
      %a = tile.load %x[%r, %t * 2 + %kv] : memref<2x64xi32>
      %s = tile.sort %a along %t * 2 + %kv : i32
      tile.store %s, %y[%r, %t * 2 + %kv] : memref<2x64xi32>
    }
  }
}
