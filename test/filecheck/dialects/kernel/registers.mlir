// RUN: dlc-opt %s | filecheck %s
// RUN: DLC_ROUNDTRIP
// RUN: dlc-opt %s -t cuda | filecheck %s --check-prefix=CUDA

// CUDA: void set_max_registers()
// CUDA: __launch_bounds__(384, 1)
// CHECK: kernel.func @roles()
kernel.func @roles() -> () grid 1 block 384 {
  %t = kernel.thread_id
  %asks = kernel.test where (%t < 128)
  scf.if %asks {
    // CHECK: kernel.set_max_registers 168 to 40
    // CUDA: set_max_registers<168, 40>();
    kernel.set_max_registers 168 to 40
  } else {
    // CHECK: kernel.set_max_registers 168 to 232
    // CUDA: set_max_registers<168, 232>();
    kernel.set_max_registers 168 to 232
  }
}
