// RUN: dlc-opt %s -p pipeline-k-outer --remarks 2>%t.remarks | filecheck %s
// RUN: filecheck %s --check-prefix=REMARK --input-file=%t.remarks

// The first depth - 1 chunks before the loop, then in each iteration the one that far ahead, behind
// the acquires.
%x = "test.op"() : () -> tensor<64xf32>
// CHECK-LABEL: tile.kernel @three
// CHECK: %r = tile.ring
// CHECK-NEXT: tile.fill %r[0]
// CHECK-NEXT: tile.fill %r[1]
// CHECK-NEXT: %acc = tile.reduce add serial(%k in 8) -> f32 {
// CHECK-NEXT: %s = tile.acquire %r[%k]
// CHECK-NEXT: tile.fill %r[%k + 2]
// CHECK-NEXT: %v = tile.load
// CHECK-NEXT: tile.release %r[%k]
// REMARK: pipeline-k-outer: three: chunks are requested 2 ahead
tile.kernel @three(%x: memref<64xf32> = %x) -> () schedule "pipeline-k-outer" {
  tile.launch thread(%t in 8) {
    %r = tile.ring %x(%n in 8)[%n * 8] [8] : memref<64xf32> -> memref<3x8xf32, #tile.shared>
    %acc = tile.reduce add serial(%k in 8) -> f32 {
      tile.fill %r[%k]
      %s = tile.acquire %r[%k] : memref<3x8xf32, #tile.shared> -> memref<8xf32, #tile.shared>
      %v = tile.load %s[%t] : memref<8xf32, #tile.shared>
      tile.release %r[%k]
      tile.yield %v : f32
    }
  }
}

// The rings of a loop are filled together, each as far ahead as it has slots.
// CHECK-LABEL: tile.kernel @two
// CHECK: tile.fill %r[0]
// CHECK-NEXT: tile.fill %q[0]
// CHECK-NEXT: tile.fill %r[1]
// CHECK-NEXT: tile.fill %r[2]
// CHECK: %z = tile.acquire %q[%k]
// CHECK-NEXT: tile.fill %r[%k + 3]
// CHECK-NEXT: tile.fill %q[%k + 1]
// REMARK: pipeline-k-outer: two: chunks are requested 1 or 3 ahead
tile.kernel @two(%x: memref<64xf32> = %x) -> () schedule "pipeline-k-outer" {
  tile.launch thread(%t in 8) {
    %r = tile.ring %x(%n in 8)[%n * 8] [8] : memref<64xf32> -> memref<4x8xf32, #tile.shared>
    %q = tile.ring %x(%n in 8)[%n * 8] [8] : memref<64xf32> -> memref<2x8xf32, #tile.shared>
    %acc = tile.reduce add serial(%k in 8) -> f32 {
      tile.fill %r[%k]
      tile.fill %q[%k]
      %s = tile.acquire %r[%k] : memref<4x8xf32, #tile.shared> -> memref<8xf32, #tile.shared>
      %z = tile.acquire %q[%k] : memref<2x8xf32, #tile.shared> -> memref<8xf32, #tile.shared>
      %v = tile.load %s[%t] : memref<8xf32, #tile.shared>
      tile.release %r[%k]
      tile.release %q[%k]
      tile.yield %v : f32
    }
  }
}

// No more chunks than there are, and none in the loop where all have been requested before it.
// CHECK-LABEL: tile.kernel @short
// CHECK: tile.fill %r[0]
// CHECK-NEXT: tile.fill %r[1]
// CHECK-NEXT: %acc = tile.reduce add serial(%k in 2)
// CHECK-NEXT: %s = tile.acquire
// CHECK-NEXT: %v = tile.load
// REMARK: pipeline-k-outer: short: chunks are requested 3 ahead
tile.kernel @short(%x: memref<64xf32> = %x) -> () schedule "pipeline-k-outer" {
  tile.launch thread(%t in 8) {
    %r = tile.ring %x(%n in 2)[%n * 8] [8] : memref<64xf32> -> memref<4x8xf32, #tile.shared>
    %acc = tile.reduce add serial(%k in 2) -> f32 {
      tile.fill %r[%k]
      %s = tile.acquire %r[%k] : memref<4x8xf32, #tile.shared> -> memref<8xf32, #tile.shared>
      %v = tile.load %s[%t] : memref<8xf32, #tile.shared>
      tile.release %r[%k]
      tile.yield %v : f32
    }
  }
}

// How a ring is filled makes no difference.
// CHECK-LABEL: tile.kernel @kinds
// CHECK: tile.fill %r[1]
// CHECK: tile.fill %r[%k + 2]
// REMARK: pipeline-k-outer: kinds: chunks are requested 2 ahead
tile.kernel @kinds(%x: memref<64xf32> = %x) -> () schedule "pipeline-k-outer" {
  tile.launch thread(%t in 8) {
    %r = tile.ring tma %x(%n in 8)[%n * 8] [8] : memref<64xf32> -> memref<3x8xf32, #tile.shared>
    %acc = tile.reduce add serial(%k in 8) -> f32 {
      tile.fill %r[%k]
      %s = tile.acquire %r[%k] : memref<3x8xf32, #tile.shared> -> memref<8xf32, #tile.shared>
      %v = tile.load %s[%t] : memref<8xf32, #tile.shared>
      tile.release %r[%k]
      tile.yield %v : f32
    }
  }
}

// CHECK-LABEL: tile.kernel @ahead
// CHECK-NOT: tile.fill %r[0]
// REMARK: pipeline-k-outer: ahead: skipped, no loop requests the chunk that it is about to use
tile.kernel @ahead(%x: memref<64xf32> = %x) -> () schedule "pipeline-k-outer" {
  tile.launch thread(%t in 8) {
    %r = tile.ring %x(%n in 8)[%n * 8] [8] : memref<64xf32> -> memref<3x8xf32, #tile.shared>
    %acc = tile.reduce add serial(%k in 8) -> f32 {
      tile.fill %r[%k + 1]
      %s = tile.acquire %r[%k] : memref<3x8xf32, #tile.shared> -> memref<8xf32, #tile.shared>
      %v = tile.load %s[%t] : memref<8xf32, #tile.shared>
      tile.release %r[%k]
      tile.yield %v : f32
    }
  }
}

// REMARK: pipeline-k-outer: single: skipped, a ring of one slot holds no second chunk
tile.kernel @single(%x: memref<64xf32> = %x) -> () schedule "pipeline-k-outer" {
  tile.launch thread(%t in 8) {
    %r = tile.ring %x(%n in 8)[%n * 8] [8] : memref<64xf32> -> memref<1x8xf32, #tile.shared>
    %acc = tile.reduce add serial(%k in 8) -> f32 {
      tile.fill %r[%k]
      %s = tile.acquire %r[%k] : memref<1x8xf32, #tile.shared> -> memref<8xf32, #tile.shared>
      %v = tile.load %s[%t] : memref<8xf32, #tile.shared>
      tile.release %r[%k]
      tile.yield %v : f32
    }
  }
}

// REMARK: pipeline-k-outer: again: skipped, its loops start again at each serial point (register-tile first)
tile.kernel @again(%x: memref<64xf32> = %x) -> () schedule "pipeline-k-outer" {
  tile.launch thread(%t in 8) serial(%e in 2) {
    %r = tile.ring %x(%n in 8)[%n * 8] [8] : memref<64xf32> -> memref<3x8xf32, #tile.shared>
    %acc = tile.reduce add serial(%k in 8) -> f32 {
      tile.fill %r[%k]
      %s = tile.acquire %r[%k] : memref<3x8xf32, #tile.shared> -> memref<8xf32, #tile.shared>
      %v = tile.load %s[%t] : memref<8xf32, #tile.shared>
      tile.release %r[%k]
      tile.yield %v : f32
    }
  }
}

// REMARK: pipeline-k-outer: inside: skipped, its ring stands inside of its loop
tile.kernel @inside(%x: memref<64xf32> = %x) -> () schedule "pipeline-k-outer" {
  tile.launch thread(%t in 8) {
    %acc = tile.reduce add serial(%k in 8) -> f32 {
      %r = tile.ring %x(%n in 8)[%n * 8] [8] : memref<64xf32> -> memref<3x8xf32, #tile.shared>
      tile.fill %r[%k]
      %s = tile.acquire %r[%k] : memref<3x8xf32, #tile.shared> -> memref<8xf32, #tile.shared>
      %v = tile.load %s[%t] : memref<8xf32, #tile.shared>
      tile.release %r[%k]
      tile.yield %v : f32
    }
  }
}

// REMARK: pipeline-k-outer: stages: skipped, it has no ring (double-buffer makes them)
tile.kernel @stages(%x: memref<64xf32> = %x) -> () schedule "pipeline-k-outer" {
  tile.launch thread(%t in 8) {
    %s = tile.stage %x[0] [64] : memref<64xf32> -> memref<64xf32, #tile.shared>
  }
}

// REMARK: pipeline-k-outer: other: skipped, the kernel's schedule does not name it
tile.kernel @other(%x: memref<64xf32> = %x) -> () {
  tile.launch thread(%t in 8) {
    %r = tile.ring %x(%n in 8)[%n * 8] [8] : memref<64xf32> -> memref<3x8xf32, #tile.shared>
    %acc = tile.reduce add serial(%k in 8) -> f32 {
      tile.fill %r[%k]
      %s = tile.acquire %r[%k] : memref<3x8xf32, #tile.shared> -> memref<8xf32, #tile.shared>
      %v = tile.load %s[%t] : memref<8xf32, #tile.shared>
      tile.release %r[%k]
      tile.yield %v : f32
    }
  }
}
