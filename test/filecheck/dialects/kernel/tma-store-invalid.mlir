// RUN: dlc-opt %s --split-input-file --verify-diagnostics | filecheck %s

// CHECK: expected the map of an output of the kernel
kernel.func @k(%x: memref<100x64xf32>) -> (%y: memref<100x64xf32>) grid 1 block 64 {
  %m = kernel.tensor_map %x box [16, 32] swizzle 128 : memref<100x64xf32>
  %s = kernel.alloc_shared : memref<16x32xf32, #kernel.swizzle<128>, #kernel.shared>
  kernel.tma_store %s[0, 0] -> %m[0, 0] : memref<16x32xf32, #kernel.swizzle<128>, #kernel.shared>
}

// -----

// CHECK: expected 4 subscripts for memref<16x32xf32, #kernel.swizzle<128>, #kernel.shared> and memref<100x64xf32>, found 3
kernel.func @k(%x: memref<100x64xf32>) -> (%y: memref<100x64xf32>) grid 1 block 64 {
  %m = kernel.tensor_map %y box [16, 32] swizzle 128 : memref<100x64xf32>
  %s = kernel.alloc_shared : memref<16x32xf32, #kernel.swizzle<128>, #kernel.shared>
  kernel.tma_store %s[0, 0] -> %m[0] : memref<16x32xf32, #kernel.swizzle<128>, #kernel.shared>
}

// -----

// CHECK: expected a source of f32 in shared memory, found memref<16x32xf32, #kernel.local>
kernel.func @k(%x: memref<100x64xf32>) -> (%y: memref<100x64xf32>) grid 1 block 64 {
  %m = kernel.tensor_map %y box [16, 32] : memref<100x64xf32>
  %s = kernel.alloc_local : memref<16x32xf32, #kernel.local>
  kernel.tma_store %s[0, 0] -> %m[0, 0] : memref<16x32xf32, #kernel.local>
}

// -----

// CHECK: expected a source of f32 in shared memory, found memref<16x32xi32, #kernel.shared>
kernel.func @k(%x: memref<100x64xf32>) -> (%y: memref<100x64xf32>) grid 1 block 64 {
  %m = kernel.tensor_map %y box [16, 32] : memref<100x64xf32>
  %s = kernel.alloc_shared : memref<16x32xi32, #kernel.shared>
  kernel.tma_store %s[0, 0] -> %m[0, 0] : memref<16x32xi32, #kernel.shared>
}

// -----

// CHECK: expected a source whose last dimensions are the box [16, 32], dense or with the map's swizzle, found memref<16x32xf32, #kernel.shared>
kernel.func @k(%x: memref<100x64xf32>) -> (%y: memref<100x64xf32>) grid 1 block 64 {
  %m = kernel.tensor_map %y box [16, 32] swizzle 128 : memref<100x64xf32>
  %s = kernel.alloc_shared : memref<16x32xf32, #kernel.shared>
  kernel.tma_store %s[0, 0] -> %m[0, 0] : memref<16x32xf32, #kernel.shared>
}

// -----

// CHECK: expected 0 along dimension 0, which is no dimension of the map, found 1 to 1
kernel.func @k(%x: memref<100x64xf32>) -> (%y: memref<1x64xf32>) grid 1 block 64 {
  %m = kernel.tensor_map %y box [1, 32] : memref<1x64xf32>
  %s = kernel.alloc_shared : memref<32xf32, #kernel.shared>
  kernel.tma_store %s[0] -> %m[1, 0] : memref<32xf32, #kernel.shared>
}

// -----

// CHECK: expected a count >= 0, found -1
kernel.func @k(%x: memref<100x64xf32>) -> (%y: memref<100x64xf32>) grid 1 block 64 {
  kernel.tma_wait -1 read
}
