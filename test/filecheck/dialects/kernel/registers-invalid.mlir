// RUN: dlc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

kernel.func @threads() -> () grid 1 block 192 {
  kernel.set_max_registers 168 to 40
}
// CHECK: expected a block of whole warpgroups of 128 threads, all of which meet, found one of 192 threads

// -----

builtin.module attributes {dlc.target = "sm_80"} {
  kernel.func @chip() -> () grid 1 block 384 {
    kernel.set_max_registers 168 to 40
  }
}
// CHECK: expected a chip with setmaxnreg: sm_80 has no setmaxnreg

// -----

kernel.func @step() -> () grid 1 block 384 {
  kernel.set_max_registers 168 to 44
}
// CHECK: expected a multiple of 8 registers, from 24 to 256, found 44

// -----

kernel.func @few() -> () grid 1 block 384 {
  kernel.set_max_registers 168 to 16
}
// CHECK: expected a multiple of 8 registers, from 24 to 256, found 16

// -----

kernel.func @same() -> () grid 1 block 384 {
  kernel.set_max_registers 168 to 168
}
// CHECK: expected another number of registers than 168

// -----

kernel.func @entry() -> () grid 1 block 512 {
  kernel.set_max_registers 168 to 40
}
// CHECK: expected the 128 registers that each of 512 threads has at the entry on sm_90, found 168

// -----

// With 256 threads, each has as many as a thread can.
kernel.func @enough() -> () grid 1 block 256 {
  kernel.set_max_registers 248 to 40
}
// CHECK: expected the 255 registers that each of 256 threads has at the entry on sm_90, found 248

// -----

kernel.func @loop() -> () grid 1 block 384 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %i = %c0 to %c1 step %c1 {
    kernel.set_max_registers 168 to 40
  }
}
// CHECK: expected to stand in no loop: it is executed once

// -----

kernel.func @resident() -> () grid 8 block 128 resident 8 {
}
// CHECK: expected fewer resident blocks than the 8 of the grid, and one at least, found 8

// -----

%in = "test.op"() : () -> tensor<8xf32>
tile.kernel @resident(%y: memref<8xf32> = %in) -> (%z: memref<8xf32>) {
  tile.launch resident 2 block(%b in 8) {
    %v = tile.load %y[%b] : memref<8xf32>
    tile.store %v, %z[%b] : memref<8xf32>
  }
}
// CHECK: expected a ring with a producer, which requests what comes next of resident blocks
