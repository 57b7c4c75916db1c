// RUN: dlc-opt %s --split-input-file --verify-diagnostics -p 'bind-axes,lower-stages,lower-reduces' | filecheck %s

// CHECK: expected a scan along serial axes, then threads of a block, then register axes
%x = "test.op"() : () -> tensor<64xf32>
%y = tile.kernel @threads_first(%x: memref<64xf32> = %x) -> (%y: memref<64xf32>) {
  tile.launch thread(%t in 8) {
    tile.for serial(%ko in 8) {
      %a = tile.load %x[%t * 8 + %ko] : memref<64xf32>
      %s = tile.scan add %a along %t * 8 + %ko : f32
      tile.store %s, %y[%t * 8 + %ko] : memref<64xf32>
    }
  }
}

// -----

// CHECK: expected a scan that numbers points in the order of its axes
%x = "test.op"() : () -> tensor<64xf32>
%y = tile.kernel @places_twice(%x: memref<64xf32> = %x) -> (%y: memref<64xf32>) {
  tile.launch thread(%t in 8) {
    tile.for serial(%ko in 8) {
      %a = tile.load %x[%ko * 8 + %t] : memref<64xf32>
      %s = tile.scan add %a along %ko * 4 + %t : f32
      tile.store %s, %y[%ko * 8 + %t] : memref<64xf32>
    }
  }
}

// -----

// CHECK: expected a scan along serial axes, then threads of a block, then register axes
%x = "test.op"() : () -> tensor<64xf32>
%y = tile.kernel @blocks(%x: memref<64xf32> = %x) -> (%y: memref<64xf32>) {
  tile.launch block(%b in 8) {
    tile.for serial(%k in 8) {
      %a = tile.load %x[%b * 8 + %k] : memref<64xf32>
      %s = tile.scan add %a along %b * 8 + %k : f32
      tile.store %s, %y[%b * 8 + %k] : memref<64xf32>
    }
  }
}
