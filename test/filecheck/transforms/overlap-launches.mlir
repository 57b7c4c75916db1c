// RUN: dlc-opt %s --split-input-file -p overlap-launches -o %t.mlir
// RUN: filecheck %s --input-file %t.mlir
// What waits parses back, and waits once.
// RUN: dlc-opt %t.mlir --split-input-file -p overlap-launches | filecheck %s
// RUN: dlc-opt %t.mlir --split-input-file -t cuda | filecheck %s --check-prefix CUDA
// RUN: dlc-opt %s --split-input-file -p overlap-launches --remarks 2>&1 >%t.older | filecheck %s --check-prefix REMARK

// It waits where it first touches what it is given, though that be within a loop; its shared memory
// is its own.
// CHECK-LABEL: kernel.func @reversed(
// CHECK: kernel.store %0, %s[%t]
// CHECK-NEXT: kernel.barrier
// CHECK-NEXT: kernel.prefetch %x bytes 256 : memref<256xf32>
// CHECK-NEXT: kernel.grid_wait
// CHECK-NEXT: kernel.grid_release
// CHECK-NEXT: scf.for
// CHECK-NEXT: kernel.load %x
// What others store is not loaded before it has waited: nvcc is not told that nobody stores it.
// CUDA-LABEL: reversed(const float* x, float* __restrict__ y) {
// CUDA: __syncthreads();
// CUDA-NEXT: prefetch_share<1024, 4, 256>(x);
// CUDA-NEXT: grid_wait();
// CUDA-NEXT: grid_release();
module attributes {dlc.target = "sm_90"} {
  kernel.func @reversed(%x: memref<256xf32>) -> (%y: memref<256xf32>) grid 4 block 32 {
    %b = kernel.block_id
    %t = kernel.thread_id
    %0 = arith.constant 0.0 : f32
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %s = kernel.alloc_shared : memref<32xf32, #kernel.shared>
    kernel.store %0, %s[%t] : memref<32xf32, #kernel.shared>
    kernel.barrier
    scf.for %i = %c0 to %c2 step %c1 {
      %v = kernel.load %x[%b * 64 + %i * 32 + 31 - %t] : memref<256xf32>
      kernel.store %v, %y[%b * 64 + %i * 32 + %t] : memref<256xf32>
    }
  }
  func.func @main(%x: tensor<256xf32>) -> tensor<256xf32> {
    %y = kernel.launch @reversed(%x) : (tensor<256xf32>) -> (tensor<256xf32>)
    func.return %y : tensor<256xf32>
  }
}

// -----

// What is added to may be read, and a kernel that touches nothing waits at its end.
// CUDA-LABEL: add(const float* x, float* y) {
// CHECK-LABEL: kernel.func @add(
// CHECK-NEXT: %t = kernel.thread_id
// CHECK-NEXT: kernel.grid_wait
// CHECK-LABEL: kernel.func @nothing(
// CHECK-NEXT: kernel.grid_wait
// CHECK-NEXT: kernel.grid_release
// CHECK-NEXT: }
module attributes {dlc.target = "sm_120"} {
  kernel.func @add(%x: memref<32xf32>) -> (%y: memref<1xf32> zeroed) grid 1 block 32 {
    %t = kernel.thread_id
    %v = kernel.load %x[%t] : memref<32xf32>
    kernel.atomic_add %v, %y[0] : memref<1xf32>
  }
  kernel.func @nothing(%x: memref<0xf32>) -> (%y: memref<0xf32>) grid 0 block 32 {
  }
}

// -----

// REMARK: overlap-launches: older: sm_80 has no griddepcontrol (PTX ISA: sm_90 or later)
// CHECK-LABEL: kernel.func @older(
// CHECK-NOT: kernel.grid_
module attributes {dlc.target = "sm_80"} {
  kernel.func @older(%x: memref<32xf32>) -> (%y: memref<32xf32>) grid 1 block 32 {
    %t = kernel.thread_id
    %v = kernel.load %x[%t] : memref<32xf32>
    kernel.store %v, %y[%t] : memref<32xf32>
  }
}
