// RUN: dlc-opt %s -p 'tileify,blockify-launch{block=128,128 thread=16,16},register-tile{extents=8,4}' | filecheck %s
// RUN: not dlc-opt %s -p 'tileify,register-tile{extents=8,8}' 2>&1 | filecheck %s --check-prefix=EARLY
// RUN: not dlc-opt %s -p 'tileify,blockify-launch{block=128,128 thread=16,16},register-tile{extents=3}' 2>&1 | filecheck %s --check-prefix=DIVIDE
// RUN: dlc-opt %s -p 'tileify,blockify-launch{block=128,128 thread=16,16},register-tile{extents=4}' | filecheck %s --check-prefix=RIGHT
// RUN: sed 's/e{extents=4}/e/' %s | not dlc-opt -p 'tileify,blockify-launch{block=128,128 thread=16,16},register-tile' 2>&1 | filecheck %s --check-prefix=BARE
// BARE: error: schedule of mm: register-tile: option 'extents' is missing
// BARE: hint: write register-tile{extents=...}
// EARLY: error: kernel mm: register-tile: it has no serial axis
// EARLY-NEXT: {{^}}register-tile{extents=8,8}
// EARLY-NEXT: {{^}}^^^^^^^^^^^^^
// EARLY-NEXT: hint: blockify-launch makes them where a thread has several points
// RUN: dlc-opt %s -p 'tileify,register-tile{extents=1,1}' --remarks 2>&1 >/dev/null | filecheck %s --check-prefix=ONE
// ONE: register-tile: mm: skipped, it has no serial axis
// RUN: not dlc-opt %s -p 'tileify,blockify-launch{block=128,128 thread=16,16},register-tile{extents=2,2,2}' 2>&1 | filecheck %s --check-prefix=SURPLUS
// SURPLUS: error: kernel mm: register-tile: extents=2,2,2 has 3 sizes, and the axes are %ei, %ej
// DIVIDE: error: kernel mm: register-tile: 3 does not divide the 8 points of a thread along %ej
// DIVIDE: hint: 1, 2, 4 or 8 divides 8

// CHECK: tile.launch block(%bj in 3) thread(%ti in 16, %tj in 16) serial(%ej in 2) register(%ri in 8, %rj in 4) {
// CHECK: tile.store %acc, %C[%ti * 8 + %ri, %bj * 128 + %tj * 8 + %ej * 4 + %rj]

// Sizes align from the right; the axes further left stay serial.
// RIGHT: serial(%ei in 8, %ej in 2) register(%rj in 4) {
// RUN: not dlc-opt %s -p 'tileify,chunk-matmul-k{bk=32 vector=16},blockify-launch{block=64,64 thread=2,2},register-tile{extents=32,32 mma=m16n8k16}' 2>&1 | filecheck %s --check-prefix=MMA
// MMA: error: kernel mm: register-tile: expected factors of f16 or bf16, found f32
// RUN: not dlc-opt %s -p 'register-tile{extents=32,32 mma=m16n8k4}' 2>&1 | filecheck %s --check-prefix=SHAPE
// SHAPE: expected m16n8k16, m16n8k8, m16n8k32, or m64nNk16, m64nNk8 or m64nNk32 with an N of 8, 16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 256, found m16n8k4
%A = "test.op"() : () -> tensor<100x2040xf32>
%B = "test.op"() : () -> tensor<2040x257xf32>
%C = loop.kernel @mm(%A: memref<100x2040xf32> = %A, %B: memref<2040x257xf32> = %B) -> (%C: memref<100x257xf32>) schedule "tileify,register-tile{extents=4}" {
  loop.for %i in 100, %j in 257 {
    %acc = loop.reduce add %k in 2040 -> f32 {
      %a = loop.load %A[%i, %k] : memref<100x2040xf32>
      %b = loop.load %B[%k, %j] : memref<2040x257xf32>
      %p = arith.mulf %a, %b : f32
      loop.yield %p : f32
    }
    loop.store %acc, %C[%i, %j] : memref<100x257xf32>
  }
}
