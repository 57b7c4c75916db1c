// What is wrong with kernels, for each of them; the exit code is that of the worst.
// RUN: not dlc-opt %s --split-input-file --check-hazards > %t
// RUN: filecheck %s --input-file=%t

// CHECK: reversed: hazard, 2 x 64 threads
// CHECK-NEXT: check-hazards.mlir:{{[0-9]+}}:8: error: 'kernel.load': race: thread 0 of block 0 reads %s[63], written by thread 63, and nothing orders the two
// CHECK-NEXT: %v = kernel.load %s[63 - %t] where (%t < 60)
// CHECK-NEXT:      ^^^^^^^^^^^
// CHECK-NEXT:   block 0, thread 0: {{.*}}check-hazards.mlir:{{.*}}: %v = kernel.load
// CHECK-NEXT:   block 0, thread 63: {{.*}}check-hazards.mlir:{{.*}}: kernel.store %a, %s[%t]
// CHECK: error: 'kernel.func': unwritten: 8 of 128 elements of %y are never written, %y[0, 60] the first
// CHECK: exchanged: clean, 1 x 64 threads
// CHECK: odd: not checked, 1 x 1 threads
// CHECK-NEXT:   not checked: the interpreter does not know 'math.ctpop'

kernel.func @reversed(%x: memref<64xf32>) -> (%y: memref<2x64xf32>) grid 2 block 64 {
  %t = kernel.thread_id
  %b = kernel.block_id
  %s = kernel.alloc_shared : memref<64xf32, #kernel.shared>
  %a = kernel.load %x[%t] : memref<64xf32>
  kernel.store %a, %s[%t] : memref<64xf32, #kernel.shared>
  %v = kernel.load %s[63 - %t] where (%t < 60) : memref<64xf32, #kernel.shared>
  kernel.store %v, %y[%b, %t] where (%t < 60) : memref<2x64xf32>
}

// -----

kernel.func @exchanged(%x: memref<64xf32>) -> (%y: memref<64xf32>) grid 1 block 64 {
  %t = kernel.thread_id
  %b = kernel.block_id
  %s = kernel.alloc_shared : memref<64xf32, #kernel.shared>
  %a = kernel.load %x[%t] : memref<64xf32>
  kernel.store %a, %s[%t] : memref<64xf32, #kernel.shared>
  kernel.barrier
  %v = kernel.load %s[63 - %t] : memref<64xf32, #kernel.shared>
  kernel.store %v, %y[%t] : memref<64xf32>
}

// -----

kernel.func @odd(%n: memref<1xi32>) -> (%y: memref<1xi32>) grid 1 block 1 {
  %a = kernel.load %n[0] : memref<1xi32>
  %c = math.ctpop %a : i32
  kernel.store %c, %y[0] : memref<1xi32>
}
