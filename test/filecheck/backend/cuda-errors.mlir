// RUN: not dlc-opt %s -t cuda 2>&1 | filecheck %s
// RUN: not dlc-opt %s -p bind-axes,lower-stages,lower-reduces,lower-registers -t cuda 2>&1 | filecheck %s --check-prefix=LOCKSTEP
// LOCKSTEP: error: 'kernel.func': @k runs in lockstep, as no GPU does
// LOCKSTEP: hint: `dlc compile` goes on from here, by the passes that are left
// CHECK: error: {{.*}}the CUDA printer expects kernel.func, found loop.kernel
// CHECK: hint: `dlc compile` goes on from here, by the passes that are left
%y = loop.kernel @k() -> (%y: memref<f32>) {
  %c = arith.constant 1.0 : f32
  loop.store %c, %y[] : memref<f32>
}
