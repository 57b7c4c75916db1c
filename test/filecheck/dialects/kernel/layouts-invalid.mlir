// RUN: dlc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

kernel.func @overlap() -> () grid 1 block 1 {
  %s = kernel.alloc_shared : memref<8x16xf32, strided<[15, 1]>, #kernel.shared>
}
// CHECK: expected strides under which no two elements share a place, found memref<8x16xf32, strided<[15, 1]>, #kernel.shared>

// -----

kernel.func @rank() -> () grid 1 block 1 {
  %s = kernel.alloc_shared : memref<8x16xf32, strided<[16]>, #kernel.shared>
}
// CHECK: expected a known stride for each dimension, found memref<8x16xf32, strided<[16]>, #kernel.shared>

// -----

kernel.func @offset() -> () grid 1 block 1 {
  %s = kernel.alloc_shared : memref<8x16xf32, strided<[16, 1], offset: 4>, #kernel.shared>
}
// CHECK: expected a layout strided<[…]> without an offset, #kernel.swizzle<…> or #kernel.padded_groups<…> in shared memory, found strided<[16, 1], offset: 4>

// -----

kernel.func @rows() -> () grid 1 block 1 {
  %s = kernel.alloc_shared : memref<12x32xf32, #kernel.swizzle<128>, #kernel.shared>
}
// CHECK: expected rows of a multiple of 128 bytes, a multiple of 8 of them, found memref<12x32xf32, #kernel.swizzle<128>, #kernel.shared>

// -----

kernel.func @columns() -> () grid 1 block 1 {
  %s = kernel.alloc_shared : memref<8x24xf32, #kernel.swizzle<64>, #kernel.shared>
}
// CHECK: expected rows of a multiple of 64 bytes, a multiple of 8 of them, found memref<8x24xf32, #kernel.swizzle<64>, #kernel.shared>

// -----

kernel.func @unknown() -> () grid 1 block 1 {
  %s = kernel.alloc_shared : memref<8x16xf32, strided<[?, 1]>, #kernel.shared>
}
// CHECK: expected a known stride for each dimension, found memref<8x16xf32, strided<[?, 1]>, #kernel.shared>

// -----

kernel.func @map() -> () grid 1 block 1 {
  %s = kernel.alloc_shared : memref<8x16xf32, affine_map<(d0, d1) -> (d1, d0)>, #kernel.shared>
}
// CHECK: expected a layout strided<[…]> without an offset, #kernel.swizzle<…> or #kernel.padded_groups<…> in shared memory, found affine_map<(d0, d1) -> (d1, d0)>

// -----

kernel.func @width() -> () grid 1 block 1 {
  %s = kernel.alloc_shared : memref<8x12xf32, #kernel.swizzle<48>, #kernel.shared>
}
// CHECK: expected a swizzle of 32, 64 or 128 bytes, found 48

// -----

kernel.func @groups() -> () grid 1 block 1 {
  %s = kernel.alloc_shared : memref<32x32xf32, #kernel.padded_groups<0, 4>, #kernel.shared>
}
// CHECK: expected groups of at least one row and a padding of at least 0 elements, found 0 and 4

// -----

kernel.func @rows_of_groups() -> () grid 1 block 1 {
  %s = kernel.alloc_shared : memref<14x16xf32, #kernel.padded_groups<4, 4>, #kernel.shared>
}
// CHECK: expected a multiple of 4 rows, found memref<14x16xf32, #kernel.padded_groups<4, 4>, #kernel.shared>

// -----

kernel.func @one_row() -> () grid 1 block 1 {
  %s = kernel.alloc_shared : memref<32xf32, #kernel.swizzle<128>, #kernel.shared>
}
// CHECK: expected rows of a multiple of 128 bytes, a multiple of 8 of them, found memref<32xf32, #kernel.swizzle<128>, #kernel.shared>

// -----

%x = "test.op"() : () -> tensor<32x16xf32>
%y = tile.kernel @stage(%x: memref<32x16xf32> = %x) -> (%y: memref<16xf32>) {
  tile.launch thread(%t in 16) {
    %s = tile.stage %x[0, 0] [8, 16] : memref<32x16xf32> -> memref<8x16xf32, strided<[8, 1]>, #tile.shared>
    %v = tile.load %s[0, %t] : memref<8x16xf32, strided<[8, 1]>, #tile.shared>
    tile.store %v, %y[%t] : memref<16xf32>
  }
}
// CHECK: expected strides under which no two elements share a place, found memref<8x16xf32, strided<[8, 1]>, #tile.shared>
