// RUN: dlc-opt %s -p 'tileify,chunk-matmul-k{bk=8 vector=4},split-matmul-k{splits=2},blockify-launch{block=16,32 thread=8,8},stage-inputs{budget=8192},register-tile{extents=2,4},double-buffer{depth=3},async-copy,pipeline-k-outer' | filecheck %s
// RUN: dlc-opt %s -p schedule-kernels | filecheck %s --check-prefix=SCHEDULE
// RUN: not dlc-opt %s -p 'tileify,chunk-matmul-k{bk=8},split-matmul-k{splits=2 combine=atomic}' 2>&1 | filecheck %s --check-prefix=ATOMIC

// Two sums of one reduce go through all steps together: the shared operand is staged once, parts
// of both accumulate in place, and a split stores and combines both.

// CHECK-LABEL:   tile.kernel @two(
// CHECK-SAME:      -> (%a_parts: memref<2x64x64xf32>, %b_parts: memref<2x64x64xf32>)
// CHECK:         %x_ring = tile.ring async %x
// CHECK-NEXT:    %w_ring = tile.ring async %w(%n in 4)[%ks * 32 + %n * 8, %bj * 32]
// CHECK-NEXT:    %w_ring_1 = tile.ring async %w(%n in 4)[%ks * 32 + %n * 8, %bj * 32 + 64]
// CHECK:         %a, %b = tile.reduce add serial(%ko in 4) -> (f32, f32) {
// CHECK:           %a_part, %b_part = tile.reduce add serial(%ki in 2) register(%kv in 4) -> (f32, f32) {
// CHECK:             tile.yield %p, %q : f32, f32
// CHECK:           tile.yield %a_part, %b_part : f32, f32
// CHECK:         tile.store %a, %a_parts
// CHECK-NEXT:    tile.store %b, %b_parts
// CHECK-LABEL:   tile.kernel @two_combine
// CHECK:         %a, %b = tile.reduce add serial(%ks in 2) -> (f32, f32) {
// CHECK-NEXT:      %a_part = tile.load %a_parts
// CHECK-NEXT:      %b_part = tile.load %b_parts
// CHECK-NEXT:      tile.yield %a_part, %b_part : f32, f32

// ATOMIC: error: kernel two: split-matmul-k: it has 2 sums, and atomic adds are of one
// ATOMIC: hint: combine=workspace takes any reduce

func.func @main(%x: tensor<64x64xf32>, %w: tensor<64x128xf32>) -> tensor<64x128xf32> {
  %y = loop.kernel @two(%x: memref<64x64xf32> = %x, %w: memref<64x128xf32> = %w) -> (%y: memref<64x128xf32>) {
    loop.for %i in 64, %j in 64 {
      %a, %b = loop.reduce add %k in 64 -> (f32, f32) {
        %xk = loop.load %x[%i, %k] : memref<64x64xf32>
        %u = loop.load %w[%k, %j] : memref<64x128xf32>
        %v = loop.load %w[%k, %j + 64] : memref<64x128xf32>
        %p = arith.mulf %xk, %u : f32
        %q = arith.mulf %xk, %v : f32
        loop.yield %p, %q : f32, f32
      }
      %s = arith.addf %a, %b : f32
      loop.store %s, %y[%i, %j] : memref<64x128xf32>
      %t = arith.subf %a, %b : f32
      loop.store %t, %y[%i, %j + 64] : memref<64x128xf32>
    }
  }
  func.return %y : tensor<64x128xf32>
}

// A thread holds 8 x 8 points of both sums, as much as 8 x 16 of one. Of columns, the axis is tiled
// whose points lie beside each other, not a head apart, though there are more heads.

// SCHEDULE-LABEL: loop.kernel @heads
// SCHEDULE-SAME:  blockify-launch{block=256,1,32 thread=32,1,4}
// SCHEDULE-SAME:  register-tile{extents=8,8}

func.func @heads(%x: tensor<512x2048xf32>, %w: tensor<4096x2048xf32>) -> tensor<512x64x64xf32> {
  %y = loop.kernel @heads(%x: memref<512x2048xf32> = %x, %w: memref<4096x2048xf32> = %w) -> (%y: memref<512x64x64xf32>) {
    loop.for %i in 512, %h in 64, %j in 32 {
      %a, %b = loop.reduce add %k in 2048 -> (f32, f32) {
        %xk = loop.load %x[%i, %k] : memref<512x2048xf32>
        %u = loop.load %w[%h * 64 + %j, %k] : memref<4096x2048xf32>
        %v = loop.load %w[%h * 64 + %j + 32, %k] : memref<4096x2048xf32>
        %p = arith.mulf %xk, %u : f32
        %q = arith.mulf %xk, %v : f32
        loop.yield %p, %q : f32, f32
      }
      loop.store %b, %y[%i, %h, %j] : memref<512x64x64xf32>
      loop.store %a, %y[%i, %h, %j + 32] : memref<512x64x64xf32>
    }
  }
  func.return %y : tensor<512x64x64xf32>
}
