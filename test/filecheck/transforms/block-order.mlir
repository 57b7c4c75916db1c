// RUN: dlc-opt %s -p 'tileify,blockify-launch{block=8,4 thread=4,2 last=2 waves=2},bind-axes' | filecheck %s --check-prefix=BOUND
// RUN: dlc-opt %s -p 'tileify,blockify-launch{block=8,4 thread=4,2 last=2 waves=2}' | filecheck %s
// RUN: dlc-opt %s -p 'tileify,blockify-launch{block=8,4 thread=4,2 last=2 waves=2}' --remarks 2>&1 >/dev/null | filecheck %s --check-prefix=REMARK
// RUN: dlc-opt %s -p 'tileify,blockify-launch{block=8,4 thread=4,2 last=1},bind-axes' | filecheck %s --check-prefix=ONE
// RUN: dlc-opt %s -p 'tileify,blockify-launch{block=64,4 thread=4,2 last=2 waves=2}' | filecheck %s --check-prefix=SOLE
// RUN: not dlc-opt %s -p 'tileify,blockify-launch{block=8,4 thread=4,2 last=2 waves=3}' 2>&1 | filecheck %s --check-prefix=WAVES
// RUN: not dlc-opt %s -p 'tileify,blockify-launch{block=8,4 thread=4,2 last=3}' 2>&1 | filecheck %s --check-prefix=AXIS
// RUN: not dlc-opt %s -p 'tileify,blockify-launch{block=8,4 thread=4,2 last=2 group=2}' 2>&1 | filecheck %s --check-prefix=PANELS

// The blocks of the last rows come first, of all columns; the second wave runs the other way round.
// CHECK: tile.launch last_first [0, 2] block(%bi in 8, %bj in 5) thread(%ti in 4, %tj in 2) serial(%ei in 2, %ej in 2) {
// REMARK: blockify-launch: k: blocks of 8 x 4 points, 4 x 2 threads, the last along %i first, in 2 waves
// BOUND: %bid = kernel.block_id
// BOUND: %bj = kernel.index %bid mod 5
// BOUND-NEXT: %rank = kernel.index %bid floordiv 5
// BOUND-NEXT: %bi = kernel.index -%rank floordiv 4 * 4 - (%rank mod 4 + %rank floordiv 4) mod 2 - ((%rank mod 4) floordiv 2 + %rank floordiv 4) mod 2 * 2 + 7

// ONE: %bi = kernel.index %bid mod 8
// ONE-NEXT: %bj = kernel.index -%bid floordiv 8 + 4

// An axis of one block has no order.
// SOLE: tile.launch block(%bj in 5)

// WAVES: error: kernel k: blockify-launch: 8 blocks do not come in 3 waves
// WAVES: hint: take one of 1, 2, 4, 8
// AXIS: error: kernel k: blockify-launch: there are 2 free axes, and none is number 3
// AXIS: hint: count from the right
// PANELS: error: kernel k: blockify-launch: panels have an order of their own
// PANELS: hint: take either last or group
%x = "test.op"() : () -> tensor<64x20xf32>
%y = loop.kernel @k(%x: memref<64x20xf32> = %x) -> (%y: memref<64x20xf32>) {
  loop.for %i in 64, %j in 20 {
    %a = loop.load %x[%i, %j] : memref<64x20xf32>
    loop.store %a, %y[%i, %j] : memref<64x20xf32>
  }
}
