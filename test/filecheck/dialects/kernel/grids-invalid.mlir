// RUN: dlc-opt %s --split-input-file --verify-diagnostics | filecheck %s

// CHECK: expected no 'kernel.load' of the kernel's arguments before it: launches before may still use their memory
module attributes {dlc.target = "sm_90"} {
  kernel.func @early(%x: memref<32xf32>) -> (%y: memref<32xf32>) grid 1 block 32 {
    %t = kernel.thread_id
    %v = kernel.load %x[%t] : memref<32xf32>
    kernel.grid_wait
    kernel.store %v, %y[%t] : memref<32xf32>
  }
}

// -----

// CHECK: expected no 'scf.if' of the kernel's arguments before it: launches before may still use their memory
module attributes {dlc.target = "sm_90"} {
  kernel.func @within() -> (%y: memref<32xf32>) grid 1 block 32 {
    %t = kernel.thread_id
    %0 = arith.constant 0.0 : f32
    %1 = kernel.test where (%t < 16)
    scf.if %1 {
      kernel.store %0, %y[%t] : memref<32xf32>
    }
    kernel.grid_wait
  }
}

// -----

// CHECK: expected to stand in no loop and no branch of a kernel
module attributes {dlc.target = "sm_90"} {
  kernel.func @branch() -> (%y: memref<32xf32>) grid 1 block 32 {
    %t = kernel.thread_id
    %1 = kernel.test where (%t < 16)
    scf.if %1 {
      kernel.grid_release
    }
  }
}

// -----

// CHECK: expected one 'kernel.grid_wait' in a kernel
module attributes {dlc.target = "sm_90"} {
  kernel.func @twice() -> (%y: memref<32xf32>) grid 1 block 32 {
    kernel.grid_wait
    kernel.grid_wait
  }
}

// -----

// CHECK: expected a chip with griddepcontrol: sm_80 has no griddepcontrol (PTX ISA: sm_90 or later)
module attributes {dlc.target = "sm_80"} {
  kernel.func @older() -> (%y: memref<32xf32>) grid 1 block 32 {
    kernel.grid_wait
  }
}

// -----

// CHECK: expected a multiple of 128 bytes, found 100
module attributes {dlc.target = "sm_90"} {
  kernel.func @lines(%x: memref<32xf32>) -> (%y: memref<32xf32>) grid 1 block 32 {
    kernel.prefetch %x bytes 100 : memref<32xf32>
  }
}

// -----

// CHECK: expected an input of the kernel
module attributes {dlc.target = "sm_90"} {
  kernel.func @output() -> (%y: memref<32xf32>) grid 1 block 32 {
    kernel.prefetch %y bytes 128 : memref<32xf32>
  }
}
