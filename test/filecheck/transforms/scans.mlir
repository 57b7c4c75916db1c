// RUN: dlc-opt %s -p 'tileify,cooperative-reduce{threads=64 rows=2 vector=4}' | filecheck %s
// RUN: dlc-opt %s -p 'tileify,cooperative-reduce{threads=64 rows=2 vector=4},bind-axes' | filecheck %s --check-prefix=BOUND
// RUN: dlc-opt %s -p 'tileify,cooperative-reduce{threads=64 rows=2 vector=4},bind-axes,lower-stages,lower-reduces' | filecheck %s --check-prefix=LOWERED
// RUN: dlc-opt %s -p 'tileify,cooperative-reduce{threads=64 rows=2 vector=4},bind-axes,lower-stages,lower-reduces,lower-registers,place-barriers' --remarks 2>&1 >/dev/null | filecheck %s --check-prefix=BARRIERS
// RUN: dlc-opt %s -p 'tileify,bind-axes,lower-stages,lower-reduces' | filecheck %s --check-prefix=SERIAL
// RUN: dlc-opt %s -p 'canonicalize-loops' | filecheck %s --check-prefix=SIMPLE
// RUN: dlc-opt %s -p 'fuse-loops' --remarks 2>&1 >/dev/null | filecheck %s --check-prefix=APART
// RUN: not dlc-opt %s -p 'tileify,cooperative-reduce{threads=64 rows=2 vector=4},bind-axes,lower-stages,lower-registers' 2>&1 | filecheck %s --check-prefix=EARLY
// RUN: dlc-opt %s -p 'fuse-loops' | filecheck %s --check-prefix=FUSED
// EARLY: error: pass lower-registers: expected no reduces, found 'tile.scan'
// APART: fuse-loops: running: kept apart: it scans, and what reads it does not follow it point by point
// BARRIERS: place-barriers: running: 2 barriers

// The axis of a scan is no thread axis, but threads may share it: their runs are in its order.
// CHECK-LABEL: tile.kernel @running
// CHECK: tile.launch block(%bi in 3) thread(%ti in 2, %t in 64) {
// CHECK-NEXT: tile.for serial(%ko in 4) register(%kv in 4) {
// CHECK: %s = tile.scan add %a along %ko * 256 + %t * 4 + %kv : f32
// CHECK-NEXT: tile.store %s, %y{{.*}} where (%bi * 2 + %ti < 5, %ko * 256 + %t * 4 + %kv < 1000)

// BOUND-LABEL: kernel.func @running
// BOUND: tile.scan add %a along %ko * 256 + %t * 4 + %kv among(%ti, %t) : f32

// What a thread carries is set before the loop; a thread is told by its warp what lanes before it
// have, then by the block what warps before its own have.
// LOWERED-LABEL: kernel.func @running
// LOWERED: %s_carry = tile.accumulator %{{.*}} : f32 -> memref<f32, #kernel.local>
// LOWERED-NEXT: tile.for serial(%ko in 4) register(%kv in 4) {
// LOWERED: tile.each over(%kv) {
// LOWERED: arith.addf
// LOWERED: kernel.shuffle xor %{{.*}}, 1 width 32 : f32
// LOWERED: kernel.select {{.*}} where (%t mod 2 >= 1) else
// LOWERED: kernel.shuffle xor %{{.*}}, 16 width 32 : f32
// LOWERED: %s_parts = kernel.alloc_shared : memref<2x2xf32, #kernel.shared>
// LOWERED: kernel.store {{.*}}, %s_parts[%ti, %t floordiv 32] where (%t mod 32 < 1)
// LOWERED: scf.for %part
// LOWERED: kernel.store {{.*}}, %s_carry[]

// One thread takes all points of a row, and holds nothing but the carry.
// SERIAL-LABEL: kernel.func @running
// SERIAL: %s_carry = tile.accumulator
// SERIAL-NEXT: tile.for serial(%k in 1000) {
// SERIAL-NOT: kernel.shuffle
// SERIAL-NOT: kernel.alloc_shared
// SERIAL-LABEL: kernel.func @following
%x = "test.op"() : () -> tensor<5x1000xf32>
%y = loop.kernel @running(%x: memref<5x1000xf32> = %x) -> (%y: memref<5x1000xf32>) {
  loop.for %i in 5 {
    loop.for %k in 1000 {
      %a = loop.load %x[%i, %k] : memref<5x1000xf32>
      %s = loop.scan add %a along %k : f32
      loop.store %s, %y[%i, %k] : memref<5x1000xf32>
    }
  }
}
%z = loop.kernel @following(%y: memref<5x1000xf32> = %y) -> (%z: memref<5x500xf32>) {
  loop.for %i in 5, %j in 500 {
    %a = loop.load %y[%i, %j * 2] : memref<5x1000xf32>
    loop.store %a, %z[%i, %j] : memref<5x500xf32>
  }
}

// A scan of one point is what it folds.
// SIMPLE-LABEL: loop.kernel @one
// SIMPLE-NOT: loop.scan
// SIMPLE: loop.store %a, %w[%i, 0]
%w = loop.kernel @one(%x: memref<5x1000xf32> = %x) -> (%w: memref<5x1xf32>) {
  loop.for %i in 5 {
    loop.for %k in 1 {
      %a = loop.load %x[%i, %k] : memref<5x1000xf32>
      %s = loop.scan add %a along %k : f32
      loop.store %s, %w[%i, %k] : memref<5x1xf32>
    }
  }
}

// What follows a scan point by point, backwards or from another start, is done where it is stored.
// FUSED-LABEL: loop.kernel @scan_reversed
// FUSED: loop.for %i in 5 {
// FUSED-NEXT: loop.for %k in 1000 {
// FUSED: %s = loop.scan max %a along %k : f32
// FUSED-NEXT: %f = loop.load %v[-%k + 999] where (%k >= 300)
// FUSED-NEXT: %p = arith.mulf %s, %f : f32
// FUSED-NEXT: loop.store %p, %r[%i, -%k + 999] where (%k >= 300)
%v = "test.op"() : () -> tensor<700xf32>
%q = loop.kernel @scan(%x: memref<5x1000xf32> = %x) -> (%q: memref<5x1000xf32>) {
  loop.for %i in 5 {
    loop.for %k in 1000 {
      %a = loop.load %x[%i, %k] : memref<5x1000xf32>
      %s = loop.scan max %a along %k : f32
      loop.store %s, %q[%i, %k] : memref<5x1000xf32>
    }
  }
}
%r = loop.kernel @reversed(%q: memref<5x1000xf32> = %q, %v: memref<700xf32> = %v)
    -> (%r: memref<5x700xf32>) {
  loop.for %i in 5, %j in 700 {
    %a = loop.load %q[%i, 999 - %j] : memref<5x1000xf32>
    %f = loop.load %v[%j] : memref<700xf32>
    %p = arith.mulf %a, %f : f32
    loop.store %p, %r[%i, %j] : memref<5x700xf32>
  }
}
"test.op"(%z, %w, %r) : (tensor<5x500xf32>, tensor<5x1xf32>, tensor<5x700xf32>) -> ()
