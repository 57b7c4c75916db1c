// RUN: dlc-opt %s --split-input-file -p join-launches --remarks 2>%t.remarks -o %t.mlir
// RUN: filecheck %s --input-file %t.mlir
// RUN: filecheck %s --check-prefix REMARK --input-file %t.remarks
// What is joined parses back, and joining again changes nothing.
// RUN: dlc-opt %t.mlir --split-input-file -p join-launches | filecheck %s

// Of two kernels that read the same, the one with fewer threads leaves the others idle; its threads
// meet alone, and its shared memory lies where that of the other one does.
// REMARK: join-launches: double_beside_triple: launched together with @triple, blocks 4, 2:
// CHECK-LABEL: kernel.func @double_beside_triple(%x: memref<256xf32>, %w: memref<64xf32>) -> (%y: memref<256xf32>, %y_1: memref<64xf32>) grid 6 block 64 {
// CHECK: %block = kernel.block_id
// CHECK-NEXT: %[[FIRST:[0-9]+]] = kernel.test where (%block < 4)
// CHECK-NEXT: scf.if %[[FIRST]] {
// CHECK: %b = kernel.block_id from 0 of 4
// CHECK: kernel.barrier
// CHECK: kernel.store %{{.*}}, %y[%b * 64 + %t]
// CHECK: %[[SECOND:[0-9]+]] = kernel.test where (%block >= 4)
// CHECK-NEXT: scf.if %[[SECOND]] {
// CHECK: %[[THREADS:[0-9]+]] = kernel.test where (%thread < 32)
// CHECK-NEXT: scf.if %[[THREADS]] {
// CHECK: %b_1 = kernel.block_id from 4 of 2
// CHECK: kernel.barrier threads 32
// CHECK: kernel.store %{{.*}}, %y_1[%b_1 * 32 + %t_1]
// CHECK-NOT: kernel.func
// CHECK: func.func @main
// CHECK-NEXT: %y, %z = kernel.launch @double_beside_triple(%x, %w) {values = ["1", "2"]}
// CHECK-NEXT: func.return %y, %z
kernel.func @double(%x: memref<256xf32>) -> (%y: memref<256xf32>) grid 4 block 64 {
  %b = kernel.block_id
  %t = kernel.thread_id
  %s = kernel.alloc_shared : memref<64xf32, #kernel.shared>
  %v = kernel.load %x[%b * 64 + %t] : memref<256xf32>
  kernel.store %v, %s[%t] : memref<64xf32, #kernel.shared>
  kernel.barrier
  %u = kernel.load %s[63 - %t] : memref<64xf32, #kernel.shared>
  %d = arith.addf %u, %u : f32
  kernel.store %d, %y[%b * 64 + %t] : memref<256xf32>
}
kernel.func @triple(%x: memref<256xf32>, %w: memref<64xf32>) -> (%y: memref<64xf32>) grid 2 block 32 {
  %b = kernel.block_id
  %t = kernel.thread_id
  %s = kernel.alloc_shared : memref<32xf32, #kernel.shared>
  %v = kernel.load %x[%b * 32 + %t] : memref<256xf32>
  %f = kernel.load %w[%b * 32 + %t] : memref<64xf32>
  %d = arith.mulf %v, %f : f32
  kernel.store %d, %s[%t] : memref<32xf32, #kernel.shared>
  kernel.barrier
  %u = kernel.load %s[31 - %t] : memref<32xf32, #kernel.shared>
  kernel.store %u, %y[%b * 32 + %t] : memref<64xf32>
}
func.func @main(%x: tensor<256xf32>, %w: tensor<64xf32>) -> (tensor<256xf32>, tensor<64xf32>) {
  %y = kernel.launch @double(%x) {values = ["1"]} : (tensor<256xf32>) -> (tensor<256xf32>)
  %z = kernel.launch @triple(%x, %w) {values = ["2"]} : (tensor<256xf32>, tensor<64xf32>) -> (tensor<64xf32>)
  func.return %y, %z : tensor<256xf32>, tensor<64xf32>
}

// -----

// What reads the result of another one, or updates what that reads, is not joined with it.
// CHECK: func.func @main
// CHECK-NEXT: %y = kernel.launch @copy(%x, %c)
// CHECK-NEXT: %z, %d = kernel.launch @copy_beside_update(%x, %y, %c)
kernel.func @copy(%x: memref<64xf32>, %w: memref<64xf32>) -> (%y: memref<64xf32>) grid 2 block 32 {
  %b = kernel.block_id
  %t = kernel.thread_id
  %v = kernel.load %w[%b * 32 + %t] : memref<64xf32>
  kernel.store %v, %y[%b * 32 + %t] : memref<64xf32>
}
kernel.func @update(%x: memref<64xf32>, %c: memref<64xf32>) -> (%y: memref<64xf32> updates %c) grid 2 block 32 {
  %b = kernel.block_id
  %t = kernel.thread_id
  %v = kernel.load %x[%b * 32 + %t] : memref<64xf32>
  kernel.store %v, %y[%b * 32 + %t] : memref<64xf32>
}
func.func @main(%x: tensor<64xf32>, %c: tensor<64xf32>) -> (tensor<64xf32>, tensor<64xf32> {dlc.mutates = 1 : i64}) {
  %y = kernel.launch @copy(%x, %c) : (tensor<64xf32>, tensor<64xf32>) -> (tensor<64xf32>)
  %z = kernel.launch @copy(%x, %y) : (tensor<64xf32>, tensor<64xf32>) -> (tensor<64xf32>)
  %d = kernel.launch @update(%x, %c) : (tensor<64xf32>, tensor<64xf32>) -> (tensor<64xf32>)
  func.return %z, %d : tensor<64xf32>, tensor<64xf32>
}

// -----

// Kernels that do nothing.
// CHECK-LABEL: kernel.func @one_beside_wide
kernel.func @one(%x: memref<60xf32>) -> (%y: memref<60xf32>) grid 1 block 32 {
}
kernel.func @wide(%x: memref<60xf32>) -> (%y: memref<320xf32>) grid 1 block 64 {
}
func.func @main(%x: tensor<60xf32> {dlc.name = "x"}) -> (tensor<60xf32>, tensor<320xf32>) {
  %a = kernel.launch @one(%x) : (tensor<60xf32>) -> (tensor<60xf32>)
  %b = kernel.launch @wide(%x) : (tensor<60xf32>) -> (tensor<320xf32>)
  func.return %a, %b : tensor<60xf32>, tensor<320xf32>
}

// -----

// What reads the results of launches that have become one is joined as well; a launch of several
// kernels is not joined again.
// CHECK-LABEL: kernel.func @copy_beside_copy(
// CHECK: func.func @main
// CHECK-NEXT: %y, %z = kernel.launch @copy_beside_copy(%x)
// CHECK-NEXT: %u, %v = kernel.launch @flip_beside_flip(%y, %z)
// CHECK-NEXT: func.return %u, %v
kernel.func @copy(%x: memref<64xf32>) -> (%y: memref<64xf32>) grid 2 block 32 {
  %b = kernel.block_id
  %t = kernel.thread_id
  %v = kernel.load %x[%b * 32 + %t] : memref<64xf32>
  kernel.store %v, %y[%b * 32 + %t] : memref<64xf32>
}
kernel.func @flip(%x: memref<64xf32>) -> (%y: memref<64xf32>) grid 2 block 32 {
  %b = kernel.block_id
  %t = kernel.thread_id
  %v = kernel.load %x[63 - %b * 32 - %t] : memref<64xf32>
  kernel.store %v, %y[%b * 32 + %t] : memref<64xf32>
}
func.func @main(%x: tensor<64xf32>) -> (tensor<64xf32>, tensor<64xf32>) {
  %y = kernel.launch @copy(%x) : (tensor<64xf32>) -> (tensor<64xf32>)
  %z = kernel.launch @copy(%x) : (tensor<64xf32>) -> (tensor<64xf32>)
  %u = kernel.launch @flip(%y) : (tensor<64xf32>) -> (tensor<64xf32>)
  %v = kernel.launch @flip(%z) : (tensor<64xf32>) -> (tensor<64xf32>)
  func.return %u, %v : tensor<64xf32>, tensor<64xf32>
}

// -----

// A part of a kernel does not wait for the grids of other launches, which all of its threads do.
// CHECK-LABEL: kernel.func @waits(
// CHECK: func.func @main
// CHECK-NEXT: kernel.launch @waits(%x)
// CHECK-NEXT: kernel.launch @waits(%x)
module attributes {dlc.target = "sm_90"} {
  kernel.func @waits(%x: memref<64xf32>) -> (%y: memref<64xf32>) grid 2 block 32 {
    %b = kernel.block_id
    %t = kernel.thread_id
    kernel.grid_wait
    kernel.grid_release
    %v = kernel.load %x[%b * 32 + %t] : memref<64xf32>
    kernel.store %v, %y[%b * 32 + %t] : memref<64xf32>
  }
  func.func @main(%x: tensor<64xf32>) -> (tensor<64xf32>, tensor<64xf32>) {
    %y = kernel.launch @waits(%x) : (tensor<64xf32>) -> (tensor<64xf32>)
    %z = kernel.launch @waits(%x) : (tensor<64xf32>) -> (tensor<64xf32>)
    func.return %y, %z : tensor<64xf32>, tensor<64xf32>
  }
}

// -----

// Blocks without a cluster run beside clusters, which begin at whole ones: one does nothing.
// CHECK-LABEL: kernel.func @few_beside_shared(
// CHECK-SAME: grid 12 block 32 cluster 4 {
// CHECK: kernel.test where (%block < 3)
// CHECK: kernel.block_id from 0 of 3
// CHECK: kernel.test where (%block >= 4)
// CHECK: kernel.block_id from 4 of 8
// CHECK: kernel.cluster_barrier
module attributes {dlc.target = "sm_90"} {
  kernel.func @few(%x: memref<96xf32>) -> (%y: memref<96xf32>) grid 3 block 32 {
    %b = kernel.block_id
    %t = kernel.thread_id
    %v = kernel.load %x[%b * 32 + %t] : memref<96xf32>
    kernel.store %v, %y[%b * 32 + %t] : memref<96xf32>
  }
  kernel.func @shared(%x: memref<96xf32>) -> (%y: memref<256xf32>) grid 8 block 32 cluster 4 {
    %b = kernel.block_id
    %t = kernel.thread_id
    %s = kernel.alloc_shared : memref<32xf32, #kernel.shared>
    %all = kernel.map_cluster %s : memref<32xf32, #kernel.shared> -> memref<4x32xf32, #kernel.cluster>
    %v = kernel.load %x[%t] : memref<96xf32>
    kernel.store %v, %s[%t] : memref<32xf32, #kernel.shared>
    kernel.cluster_barrier
    %w = kernel.load %all[3, %t] : memref<4x32xf32, #kernel.cluster>
    kernel.cluster_barrier
    kernel.store %w, %y[%b * 32 + %t] : memref<256xf32>
  }
  func.func @main(%x: tensor<96xf32>) -> (tensor<96xf32>, tensor<256xf32>) {
    %y = kernel.launch @few(%x) : (tensor<96xf32>) -> (tensor<96xf32>)
    %z = kernel.launch @shared(%x) : (tensor<96xf32>) -> (tensor<256xf32>)
    func.return %y, %z : tensor<96xf32>, tensor<256xf32>
  }
}

// -----

// Of three, those two run in one launch that this pays for: the many blocks of the third would run
// one at a time, as each would have the shared memory of the largest.
// REMARK: join-launches: large_beside_large: launched together with @large, blocks 2, 2:
// CHECK-LABEL: kernel.func @large_beside_large(
// CHECK: func.func @main
// CHECK-NEXT: %u, %v = kernel.launch @large_beside_large(%x)
// CHECK-NEXT: %w = kernel.launch @many(%x)
// CHECK-NEXT: func.return %u, %w, %v
module attributes {dlc.target = "sm_90"} {
  kernel.func @large(%x: memref<65536xf32>) -> (%y: memref<64xf32>) grid 2 block 32 {
    %b = kernel.block_id
    %t = kernel.thread_id
    %s = kernel.alloc_shared : memref<49152xf32, #kernel.shared>
    %v = kernel.load %x[%t] : memref<65536xf32>
    kernel.store %v, %s[%t] : memref<49152xf32, #kernel.shared>
    kernel.barrier
    %u = kernel.load %s[31 - %t] : memref<49152xf32, #kernel.shared>
    kernel.store %u, %y[%b * 32 + %t] : memref<64xf32>
  }
  kernel.func @many(%x: memref<65536xf32>) -> (%y: memref<65536xf32>) grid 2048 block 32 {
    %b = kernel.block_id
    %t = kernel.thread_id
    %v = kernel.load %x[%b * 32 + %t] : memref<65536xf32>
    kernel.store %v, %y[%b * 32 + %t] : memref<65536xf32>
  }
  func.func @main(%x: tensor<65536xf32>) -> (tensor<64xf32>, tensor<65536xf32>, tensor<64xf32>) {
    %u = kernel.launch @large(%x) : (tensor<65536xf32>) -> (tensor<64xf32>)
    %w = kernel.launch @many(%x) : (tensor<65536xf32>) -> (tensor<65536xf32>)
    %v = kernel.launch @large(%x) : (tensor<65536xf32>) -> (tensor<64xf32>)
    func.return %u, %w, %v : tensor<64xf32>, tensor<65536xf32>, tensor<64xf32>
  }
}
