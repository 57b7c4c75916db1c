// RUN: dlc-opt %s -p 'double-buffer{depth=3}' --remarks 2>%t.remarks | filecheck %s
// RUN: filecheck %s --check-prefix=REMARK --input-file=%t.remarks
// RUN: dlc-opt %s -p 'double-buffer{depth=2}' | filecheck %s --check-prefix=TWO
// RUN: not dlc-opt %s -p 'double-buffer{depth=1}' 2>&1 | filecheck %s --check-prefix=LOW
// RUN: not dlc-opt %s -p 'double-buffer{depth=17}' 2>&1 | filecheck %s --check-prefix=HIGH
// RUN: sed 's/{depth=4}//' %s | not dlc-opt -p double-buffer 2>&1 | filecheck %s --check-prefix=BARE
// LOW: <pipeline>:1:15: error: double-buffer: depth must be 2 to 16, not 1
// HIGH: error: double-buffer: depth must be 2 to 16, not 17
// BARE: error: schedule of mm: double-buffer: option 'depth' is missing

// All rings of a loop are filled and acquired at its start, each is released after its last use.
// What is staged outside of the loop, or is the same in each iteration, stays a stage.
// CHECK-LABEL: tile.kernel @mm
// CHECK-SAME: schedule "double-buffer{depth=3}"
// CHECK: %row_smem = tile.stage %A[0, 0] [1, 8]
// CHECK-NEXT: %A_ring = tile.ring %A(%n in 13)[%b * 8, %n * 16] [8, 16] : memref<30x200xf32> -> memref<3x8x16xf32, #tile.shared>
// CHECK-NEXT: %B_ring = tile.ring %B(%n in 13)[%n * 16, 0] [16, 32] : memref<200x30xf32> -> memref<3x16x32xf32, #tile.shared>
// CHECK-NEXT: tile.reduce add serial(%ko in 13) -> f32 {
// CHECK-NEXT: %bias_smem = tile.stage %A[0, 0] [1, 4]
// CHECK-NEXT: tile.fill %A_ring[%ko]
// CHECK-NEXT: tile.fill %B_ring[%ko]
// CHECK-NEXT: %A_smem = tile.acquire %A_ring[%ko] : memref<3x8x16xf32, #tile.shared> -> memref<8x16xf32, #tile.shared>
// CHECK-NEXT: %B_smem = tile.acquire %B_ring[%ko] : memref<3x16x32xf32, #tile.shared> -> memref<16x32xf32, #tile.shared>
// CHECK-NEXT: tile.load %A_smem[0, 0]
// CHECK-NEXT: tile.reduce add serial(%ki in 16) -> f32 {
// CHECK-NEXT: tile.load %A_smem[%t floordiv 4, %ki]
// CHECK-NEXT: tile.load %B_smem[%ki, %t]
// CHECK: }
// CHECK-NEXT: tile.release %B_ring[%ko]
// CHECK-NEXT: tile.release %A_ring[%ko]
// CHECK-NEXT: arith.addf
// REMARK: double-buffer: mm: 2 rings of 3 slots, 7728 B of shared memory
// TWO: schedule "double-buffer{depth=2}"
// TWO: -> memref<2x8x16xf32, #tile.shared>
%A = "test.op"() : () -> tensor<30x200xf32>
%B = "test.op"() : () -> tensor<200x30xf32>
tile.kernel @mm(%A: memref<30x200xf32> = %A, %B: memref<200x30xf32> = %B) -> () schedule "double-buffer{depth=4}" {
  tile.launch block(%b in 4) thread(%t in 32) {
    %row_smem = tile.stage %A[0, 0] [1, 8] : memref<30x200xf32> -> memref<8xf32, #tile.shared>
    %acc = tile.reduce add serial(%ko in 13) -> f32 {
      %bias_smem = tile.stage %A[0, 0] [1, 4] : memref<30x200xf32> -> memref<4xf32, #tile.shared>
      %A_smem = tile.stage %A[%b * 8, %ko * 16] [8, 16] : memref<30x200xf32> -> memref<8x16xf32, #tile.shared>
      %B_smem = tile.stage %B[%ko * 16, 0] [16, 32] : memref<200x30xf32> -> memref<16x32xf32, #tile.shared>
      %first = tile.load %A_smem[0, 0] : memref<8x16xf32, #tile.shared>
      %part = tile.reduce add serial(%ki in 16) -> f32 {
        %a = tile.load %A_smem[%t floordiv 4, %ki] : memref<8x16xf32, #tile.shared>
        %c = tile.load %B_smem[%ki, %t] : memref<16x32xf32, #tile.shared>
        %p = arith.mulf %a, %c : f32
        tile.yield %p : f32
      }
      %sum = arith.addf %first, %part : f32
      tile.yield %sum : f32
    }
  }
}

// Slots have the padding, or the swizzle, of the stage.
// CHECK-LABEL: tile.kernel @padded
// CHECK: -> memref<3x8x16xf32, strided<[160, 20, 1]>, #tile.shared>
// CHECK-NEXT: -> memref<3x8x32xf32, #kernel.swizzle<128>, #tile.shared>
// CHECK: tile.acquire {{.*}} -> memref<8x16xf32, strided<[20, 1]>, #tile.shared>
// CHECK-NEXT: tile.acquire {{.*}} -> memref<8x32xf32, #kernel.swizzle<128>, #tile.shared>
// CHECK-NEXT: tile.load %p[0, %k] : memref<8x16xf32, strided<[20, 1]>, #tile.shared>
// REMARK: double-buffer: padded: 2 rings of 3 slots, 4976 B of shared memory
tile.kernel @padded(%A: memref<30x200xf32> = %A) -> () {
  tile.launch thread(%t in 32) {
    %acc = tile.reduce add serial(%k in 6) -> f32 {
      %p = tile.stage %A[0, %k * 32] [8, 16] : memref<30x200xf32> -> memref<8x16xf32, strided<[20, 1]>, #tile.shared>
      %s = tile.stage %A[0, %k * 32] [8, 32] : memref<30x200xf32> -> memref<8x32xf32, #kernel.swizzle<128>, #tile.shared>
      %v = tile.load %p[0, %k] : memref<8x16xf32, strided<[20, 1]>, #tile.shared>
      %w = tile.load %s[1, %k] : memref<8x32xf32, #kernel.swizzle<128>, #tile.shared>
      %m = arith.mulf %v, %w : f32
      tile.yield %m : f32
    }
  }
}

// REMARK: double-buffer: row: skipped, it has no loop over chunks that stages them
tile.kernel @row(%A: memref<30x200xf32> = %A) -> () {
  tile.launch block(%b in 30) thread(%t in 200) {
    %s = tile.stage %A[%b, 0] [1, 200] : memref<30x200xf32> -> memref<200xf32, #tile.shared>
    %acc = tile.reduce add serial(%k in 200) -> f32 {
      %v = tile.load %s[%k] : memref<200xf32, #tile.shared>
      tile.yield %v : f32
    }
  }
}

// Two loops around the stage, or two axes: no single number tells the chunk.
// REMARK: double-buffer: axes: skipped, it has no loop over chunks that stages them
tile.kernel @axes(%A: memref<30x200xf32> = %A) -> () {
  tile.launch thread(%t in 200) {
    %acc = tile.reduce add serial(%j in 3, %k in 20) -> f32 {
      %s = tile.stage %A[%j * 10, %k * 10] [10, 10] : memref<30x200xf32> -> memref<10x10xf32, #tile.shared>
      %v = tile.load %s[0, 0] : memref<10x10xf32, #tile.shared>
      tile.yield %v : f32
    }
  }
}
