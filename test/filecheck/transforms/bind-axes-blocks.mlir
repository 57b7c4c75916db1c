// RUN: dlc-opt %s -p bind-axes --split-input-file | filecheck %s

// Threads that are dealt over blocks: each of these has a count of its own. What is loaded before
// and used after the fold is loaded again by the last block where it varies along a serial axis.
// CHECK: kernel.func @flat(%x: memref<3x1000x2xf32>, %c: memref<1000x2xf32>) -> (%y: memref<1000x2xf32>, %p_parts: memref<3x2x1000x2xf32>, %arrived: memref<8xi32> zeroed) grid 24 block 256 lockstep
// CHECK: %bid = kernel.block_id
// CHECK: %ks = kernel.index %bid floordiv 8
// CHECK: tile.load %c[
// CHECK: tile.store %p, %p_parts[%ks, %s, %i, %j] where (%point < 2000)
// CHECK: kernel.last_block %arrived[%bid mod 8] of 3 : memref<8xi32>
// CHECK: tile.load %c[
// CHECK: tile.reduce add serial(%ks_1 in 3)
// CHECK: tile.store {{.*}}, %y[%i, %s_1] where (%point < 2000, %j < 1)
%x = "test.op"() : () -> tensor<3x1000x2xf32>
%c = "test.op"() : () -> tensor<1000x2xf32>
%y = tile.kernel @flat(%x: memref<3x1000x2xf32> = %x, %c: memref<1000x2xf32> = %c) -> (%y: memref<1000x2xf32>) {
  tile.launch block(%ks in 3) thread(%i in 1000, %j in 2) serial(%s in 2) {
    %b = tile.load %c[%i, %s] : memref<1000x2xf32>
    %p = tile.load %x[%ks, %i, %s] : memref<3x1000x2xf32>
    %t = tile.combine add %p across(%ks) : f32
    %u = arith.addf %t, %b : f32
    tile.store %u, %y[%i, %s] : memref<1000x2xf32>
  }
}

// -----

// One launch more gets the same outputs more. Several values are stored each along what it varies.
// CHECK: kernel.func @again(%x: memref<4x8xf32>) -> (%y: memref<f32>, %p_parts: memref<4x8xf32>, %n_parts: memref<4xf32>, %arrived: memref<1xi32> zeroed) grid 4 block 8 lockstep
// CHECK: tile.store %p, %p_parts[%ks, %t]
// CHECK: tile.store %n, %n_parts[%ks] where (%t < 1)
// CHECK: kernel.last_block %arrived[0] of 4 : memref<1xi32>
// CHECK: tile.store {{.*}}, %y[] where (%t < 1)
// CHECK: %y, %p_parts, %n_parts, %arrived = kernel.launch @again(%x)
// CHECK: %z, %p_parts_1, %n_parts_1, %arrived_1 = kernel.launch @again(%w)
%x = "test.op"() : () -> tensor<4x8xf32>
%w = "test.op"() : () -> tensor<4x8xf32>
%y = tile.kernel @again(%x: memref<4x8xf32> = %x) -> (%y: memref<f32>) {
  tile.launch block(%ks in 4) thread(%t in 8) {
    %p = tile.load %x[%ks, %t] : memref<4x8xf32>
    %n = tile.load %x[%ks, 0] : memref<4x8xf32>
    %m, %e = tile.combine expsum %p, %n across(%ks) : f32, f32
    %r = tile.combine max %m across(%t) : f32
    tile.store %r, %y[] : memref<f32>
  }
}
%z = kernel.launch @again(%w) : (tensor<4x8xf32>) -> (tensor<f32>)
