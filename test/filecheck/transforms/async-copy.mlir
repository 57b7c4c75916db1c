// RUN: dlc-opt %s -p async-copy --remarks 2>%t.remarks | filecheck %s
// RUN: filecheck %s --check-prefix=REMARK --input-file=%t.remarks

// 16 bytes at once where rows, strides and addresses allow, else 8 or 4.
// CHECK-LABEL: tile.kernel @widths
// CHECK-NEXT: tile.launch
// CHECK-NEXT: %wide = tile.ring async %A(%n in 4)[%n * 8, 0] [8, 16]
// CHECK-NEXT: %rows = tile.ring async %A(%n in 4)[%n * 8, 0] [8, 6]
// CHECK-NEXT: %strides = tile.ring async %B(%n in 4)[%n * 8, 0] [8, 8]
// CHECK-NEXT: %address = tile.ring async %C(%n in 4)[%n * 8] [8]
// REMARK: async-copy: widths: A: 16 B at once, A: 8 B at once, B: 4 B at once, C: 4 B at once
%A = "test.op"() : () -> tensor<32x16xf32>
%B = "test.op"() : () -> tensor<32x9xf32>
%C = "test.op"() : () -> tensor<32xf32>
tile.kernel @widths(%A: memref<32x16xf32> = %A, %B: memref<32x9xf32> = %B, %C: memref<32xf32> align 4 = %C) -> () schedule "async-copy" {
  tile.launch thread(%t in 32) {
    %wide = tile.ring %A(%n in 4)[%n * 8, 0] [8, 16] : memref<32x16xf32> -> memref<2x8x16xf32, #tile.shared>
    %rows = tile.ring %A(%n in 4)[%n * 8, 0] [8, 6] : memref<32x16xf32> -> memref<2x8x6xf32, #tile.shared>
    %strides = tile.ring %B(%n in 4)[%n * 8, 0] [8, 8] : memref<32x9xf32> -> memref<2x8x8xf32, #tile.shared>
    %address = tile.ring %C(%n in 4)[%n * 8] [8] : memref<32xf32> -> memref<2x8xf32, #tile.shared>
  }
}

// A copy of 16 bytes lies inside of the source or beyond it as a whole.
// REMARK: async-copy: ragged: x: 8 B at once
%x = "test.op"() : () -> tensor<30xf32>
tile.kernel @ragged(%x: memref<30xf32> = %x) -> () schedule "async-copy" {
  tile.launch thread(%t in 32) {
    %r = tile.ring %x(%n in 4)[%n * 8] [8] : memref<30xf32> -> memref<2x8xf32, #tile.shared>
  }
}

// Less than 4 bytes: such a ring is left to the threads.
// CHECK-LABEL: tile.kernel @some
// CHECK: tile.ring %h
// CHECK-NEXT: tile.ring async %g
// REMARK: async-copy: some: h: left, 2 B at once, g: 4 B at once
%h = "test.op"() : () -> tensor<32x9xf16>
%g = "test.op"() : () -> tensor<32x10xf16>
tile.kernel @some(%h: memref<32x9xf16> = %h, %g: memref<32x10xf16> = %g) -> () schedule "async-copy" {
  tile.launch thread(%t in 32) {
    %r = tile.ring %h(%n in 4)[%n * 8, 0] [8, 8] : memref<32x9xf16> -> memref<2x8x8xf16, #tile.shared>
    %s = tile.ring %g(%n in 4)[%n * 8, 0] [8, 8] : memref<32x10xf16> -> memref<2x8x8xf16, #tile.shared>
  }
}

// CHECK-LABEL: tile.kernel @narrow
// CHECK: tile.ring %h
// REMARK: async-copy: narrow: skipped, cp.async copies 4 bytes at least, and of h fewer lie together
tile.kernel @narrow(%h: memref<32x9xf16> = %h) -> () schedule "async-copy" {
  tile.launch thread(%t in 32) {
    %r = tile.ring %h(%n in 4)[%n * 8, 0] [8, 8] : memref<32x9xf16> -> memref<2x8x8xf16, #tile.shared>
  }
}

// Rings that TMA fills stay so.
// CHECK-LABEL: tile.kernel @done
// CHECK: tile.ring tma %A
// CHECK-NEXT: tile.ring async %A
// REMARK: async-copy: done: skipped, its rings are filled asynchronously already
tile.kernel @done(%A: memref<32x16xf32> = %A) -> () schedule "async-copy" {
  tile.launch thread(%t in 32) {
    %r = tile.ring tma %A(%n in 4)[%n * 8, 0] [8, 16] : memref<32x16xf32> -> memref<2x8x16xf32, #tile.shared>
    %s = tile.ring async %A(%n in 4)[%n * 8, 0] [8, 16] : memref<32x16xf32> -> memref<2x8x16xf32, #tile.shared>
  }
}

// Without rings stages are copied so, too; beside rings a wait for them would be one for chunks that
// are asked for ahead.
// CHECK-LABEL: tile.kernel @stages
// CHECK: tile.stage async %A[0, 0] [8, 16]
// CHECK-NEXT: tile.stage %h[0, 0] [8, 8]
// REMARK: async-copy: stages: A: 16 B at once, h: left, 2 B at once
tile.kernel @stages(%A: memref<32x16xf32> = %A, %h: memref<32x9xf16> = %h) -> () schedule "async-copy" {
  tile.launch thread(%t in 32) {
    %r = tile.stage %A[0, 0] [8, 16] : memref<32x16xf32> -> memref<8x16xf32, #tile.shared>
    %s = tile.stage %h[0, 0] [8, 8] : memref<32x9xf16> -> memref<8x8xf16, #tile.shared>
  }
}

// CHECK-LABEL: tile.kernel @beside
// CHECK: tile.ring async %A
// CHECK-NEXT: tile.stage %A
tile.kernel @beside(%A: memref<32x16xf32> = %A) -> () schedule "async-copy" {
  tile.launch thread(%t in 32) {
    %r = tile.ring %A(%n in 4)[%n * 8, 0] [8, 16] : memref<32x16xf32> -> memref<2x8x16xf32, #tile.shared>
    %s = tile.stage %A[0, 0] [8, 16] : memref<32x16xf32> -> memref<8x16xf32, #tile.shared>
  }
}

// REMARK: async-copy: again: skipped, its stages are copied asynchronously already
tile.kernel @again(%A: memref<32x16xf32> = %A) -> () schedule "async-copy" {
  tile.launch thread(%t in 32) {
    %r = tile.stage async %A[0, 0] [8, 16] : memref<32x16xf32> -> memref<8x16xf32, #tile.shared>
  }
}
