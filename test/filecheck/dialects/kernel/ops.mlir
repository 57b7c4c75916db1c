// RUN: dlc-opt %s | filecheck %s
// RUN: DLC_ROUNDTRIP

// CHECK: kernel.func @k(%x: memref<32x2048xf32>, %w: memref<2048xf32> align 4) -> (%y: memref<32x2048xf32>) grid 32 block 256 schedule "tileify" {
kernel.func @k(%x: memref<32x2048xf32>, %w: memref<2048xf32> align 4) -> (%y: memref<32x2048xf32>)
    grid 32 block 256 schedule "tileify" {
  // CHECK-NEXT: %b = kernel.block_id
  %b = kernel.block_id
  // CHECK-NEXT: %t = kernel.thread_id
  %t = kernel.thread_id
  // CHECK-NEXT: %s = kernel.alloc_shared : memref<8x4xf32, #kernel.shared>
  %s = kernel.alloc_shared : memref<8x4xf32, #kernel.shared>
  // CHECK-NEXT: %acc = kernel.alloc_local : memref<f32, #kernel.local>
  %acc = kernel.alloc_local : memref<f32, #kernel.local>
  // CHECK-NEXT: %i = kernel.index %b * 8 + %t floordiv 32 - 1
  %i = kernel.index %b * 8 + %t floordiv 32 - 1
  // CHECK-NEXT: %v = kernel.load %x[%b, %t * 4 + 2] where (%t < 100, %t - %b >= 0) : memref<32x2048xf32>
  %v = kernel.load %x[%b, %t * 4 + 2] where (%t < 100, %t - %b >= 0) : memref<32x2048xf32>
  // CHECK-NEXT: %d = kernel.load %w[%t] where (%t < 9) else %v : memref<2048xf32>
  %d = kernel.load %w[%t] where (%t < 9) else %v : memref<2048xf32>
  // CHECK-NEXT: %q = kernel.load %x[%b, %t * 4] : memref<32x2048xf32> -> vector<4xf32>
  %q = kernel.load %x[%b, %t * 4] : memref<32x2048xf32> -> vector<4xf32>
  // CHECK-NEXT: kernel.store %v, %acc[] : memref<f32, #kernel.local>
  kernel.store %v, %acc[] : memref<f32, #kernel.local>
  // CHECK-NEXT: kernel.store %q, %y[%b, %t * 4] where (%t < 100) : memref<32x2048xf32>, vector<4xf32>
  kernel.store %q, %y[%b, %t * 4] where (%t < 100) : memref<32x2048xf32>, vector<4xf32>
  // CHECK-NEXT: %e = kernel.select %v where (%t >= 3) else %d : f32
  %e = kernel.select %v where (%t >= 3) else %d : f32
  // CHECK-NEXT: %p = kernel.test where (%t < 3)
  %p = kernel.test where (%t < 3)
  // CHECK-NEXT: kernel.barrier
  kernel.barrier
  // CHECK-NEXT: %o = kernel.shuffle xor %e, 16 width 32 : f32
  %o = kernel.shuffle xor %e, 16 width 32 : f32
  // CHECK-NEXT: %o_1 = kernel.shuffle xor %e, 4 width 8 threads 40 : f32
  %o_1 = kernel.shuffle xor %e, 4 width 8 threads 40 : f32
  // CHECK-NEXT: kernel.cp_async %x[%b, %t * 4], %s[%t mod 8, 0] elements 4 where (%t < 8) : memref<32x2048xf32>, memref<8x4xf32, #kernel.shared>
  kernel.cp_async %x[%b, %t * 4], %s[%t mod 8, 0] elements 4 where (%t < 8)
    : memref<32x2048xf32>, memref<8x4xf32, #kernel.shared>
  // CHECK-NEXT: kernel.commit
  kernel.commit
  // CHECK-NEXT: kernel.wait 1
  kernel.wait 1
  // CHECK-NEXT: kernel.atomic_add %o, %y[0, %t] where (%t < 5) : memref<32x2048xf32>
  kernel.atomic_add %o, %y[0, %t] where (%t < 5) : memref<32x2048xf32>
}

// An output is uninitialized memory, or zeroed.
// CHECK: kernel.func @zeroed(%x: memref<4xi32>) -> (%y: memref<4xi32>, %z: memref<i32> zeroed) grid 1 block 4 {
kernel.func @zeroed(%x: memref<4xi32>) -> (%y: memref<4xi32>, %z: memref<i32> zeroed) grid 1 block 4 {
  %t = kernel.thread_id
  %v = kernel.load %x[%t] : memref<4xi32>
  kernel.store %v, %y[%t] : memref<4xi32>
  // CHECK: kernel.atomic_add %v, %z[] : memref<i32>
  kernel.atomic_add %v, %z[] : memref<i32>
}

// The last of some blocks goes on.
// CHECK: kernel.func @last(%x: memref<12xf32>) -> (%y: memref<12xf32>, %arrived: memref<2x2xi32> zeroed) grid 12 block 4 {
kernel.func @last(%x: memref<12xf32>) -> (%y: memref<12xf32>, %arrived: memref<2x2xi32> zeroed) grid 12 block 4 {
  %b = kernel.block_id
  %g = kernel.index %b mod 4
  // CHECK: kernel.last_block %arrived[%g floordiv 2, %b mod 2] of 3 {note} : memref<2x2xi32>
  kernel.last_block %arrived[%g floordiv 2, %b mod 2] of 3 {note} : memref<2x2xi32>
}

// Blocks of a cluster read each other's shared memory.
// CHECK: kernel.func @cluster(%x: memref<128xf32>) -> (%y: memref<128xf32>) grid 8 block 16 cluster 4 {
kernel.func @cluster(%x: memref<128xf32>) -> (%y: memref<128xf32>) grid 8 block 16 cluster 4 {
  %b = kernel.block_id
  %t = kernel.thread_id
  %s = kernel.alloc_shared : memref<16xf32, #kernel.shared>
  // CHECK: %all = kernel.map_cluster %s {note} : memref<16xf32, #kernel.shared> -> memref<4x16xf32, #kernel.cluster>
  %all = kernel.map_cluster %s {note} : memref<16xf32, #kernel.shared> -> memref<4x16xf32, #kernel.cluster>
  %v = kernel.load %x[%b * 16 + %t] : memref<128xf32>
  kernel.store %v, %s[%t] : memref<16xf32, #kernel.shared>
  // CHECK: kernel.cluster_barrier {note}
  kernel.cluster_barrier {note}
  // CHECK-NEXT: %w = kernel.load %all[%t mod 4, %t] : memref<4x16xf32, #kernel.cluster>
  %w = kernel.load %all[%t mod 4, %t] : memref<4x16xf32, #kernel.cluster>
  // CHECK-NEXT: kernel.cluster_barrier threads 32
  kernel.cluster_barrier threads 32
  // CHECK-NEXT: kernel.cluster_barrier relaxed threads 32
  kernel.cluster_barrier relaxed threads 32
  kernel.store %w, %y[%b * 16 + %t] : memref<128xf32>
}

// CHECK: func.func @main
func.func @main(%x: tensor<32x2048xf32>, %w: tensor<2048xf32>) -> tensor<32x2048xf32> {
  // CHECK-NEXT: %y = kernel.launch @k(%x, %w) : (tensor<32x2048xf32>, tensor<2048xf32>) -> (tensor<32x2048xf32>)
  %y = kernel.launch @k(%x, %w) : (tensor<32x2048xf32>, tensor<2048xf32>) -> (tensor<32x2048xf32>)
  func.return %y : tensor<32x2048xf32>
}

// CHECK: kernel.func @nothing(%x: memref<0xf32>) -> (%y: memref<0xf32>) grid 0 block 1 {
// CHECK-NEXT: }
kernel.func @nothing(%x: memref<0xf32>) -> (%y: memref<0xf32>) grid 0 block 1 {
}

// CHECK: kernel.func @together() -> (%y: memref<4xf32>) grid 1 block 32 lockstep schedule "tileify" {
kernel.func @together() -> (%y: memref<4xf32>) grid 1 block 32 lockstep schedule "tileify" {}
