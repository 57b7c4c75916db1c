// RUN: dlc-opt %s | filecheck %s
// RUN: DLC_ROUNDTRIP

kernel.func @layouts() -> () grid 1 block 32 {
  // CHECK: kernel.alloc_shared : memref<3x128x16xf32, strided<[2560, 20, 1]>, #kernel.shared>
  %padded = kernel.alloc_shared : memref<3x128x16xf32, strided<[2560, 20, 1]>, #kernel.shared>
  // CHECK-NEXT: kernel.alloc_shared : memref<3x128x64xf32, #kernel.swizzle<128>, #kernel.shared>
  %swizzled = kernel.alloc_shared : memref<3x128x64xf32, #kernel.swizzle<128>, #kernel.shared>
  // CHECK-NEXT: kernel.alloc_shared : memref<8x8xf32, #kernel.swizzle<32>, #kernel.shared>
  %narrow = kernel.alloc_shared : memref<8x8xf32, #kernel.swizzle<32>, #kernel.shared>
  // CHECK-NEXT: kernel.alloc_shared : memref<3x32x16xf32, #kernel.padded_groups<4, 4>, #kernel.shared>
  %groups = kernel.alloc_shared : memref<3x32x16xf32, #kernel.padded_groups<4, 4>, #kernel.shared>
  // CHECK-NEXT: kernel.load %swizzled[2, 127, 60] : memref<3x128x64xf32, #kernel.swizzle<128>, #kernel.shared> -> vector<4xf32>
  %v = kernel.load %swizzled[2, 127, 60] : memref<3x128x64xf32, #kernel.swizzle<128>, #kernel.shared> -> vector<4xf32>
}
