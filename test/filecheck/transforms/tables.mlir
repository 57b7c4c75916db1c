// RUN: dlc-opt %s -p tileify --split-input-file | filecheck %s --check-prefix=TILE
// RUN: dlc-opt %s -p 'tileify,blockify-launch{block=16 thread=8 tables=true}' --split-input-file | filecheck %s
// RUN: dlc-opt %s -p 'tileify,blockify-launch{block=16 thread=8 tables=true},bind-axes,lower-stages,lower-reduces,lower-registers,place-barriers' --split-input-file | filecheck %s --check-prefix=KERNEL

// What points add at places that are data, a block adds up in shared memory: zeros first, the sums
// to the output at last. A number of 64 bits that stays below 2^31 has sums of 32 bits.
// TILE: tile.launch thread(%i in 50) {
// TILE: tile.atomic_add %one, %y[%q] where (%q >= 0) across(%i) : memref<10xi64>
// CHECK: tile.launch block(%bi in 4) thread(%ti in 8) serial(%ei in 2) {
// CHECK: tile.atomic_add %one, %y[%q] where (%q >= 0, %bi * 16 + %ti * 2 + %ei < 50) across(%bi * 16 + %ti * 2 + %ei) in_block i32 : memref<10xi64>
// KERNEL: %y_table = kernel.alloc_shared : memref<10xi32, #kernel.shared>
// KERNEL: kernel.store %{{.*}}, %y_table[%round * 8 + %ti] where (%round * 8 + %ti < 10) : memref<10xi32, #kernel.shared>
// KERNEL: kernel.barrier
// KERNEL-NEXT: scf.for %ei
// KERNEL: kernel.atomic_add %{{.*}}, %y_table[%q] where (%q >= 0, %bi * 16 + %ti * 2 + %ei < 50) : memref<10xi32, #kernel.shared>
// KERNEL-NEXT: }
// KERNEL-NEXT: kernel.barrier
// KERNEL-NEXT: scf.for %round
// KERNEL-NEXT: %sum = kernel.load %y_table
// KERNEL-NEXT: %{{.*}} = arith.extsi %sum : i32 to i64
// KERNEL-NEXT: kernel.atomic_add %{{.*}}, %y[
%x = "test.op"() : () -> tensor<50xi64>
%y = loop.kernel @count(%x: memref<50xi64> = %x) -> (%y: memref<10xi64> zeroed) {
  %one = arith.constant 1 : i64
  loop.for %i in 50 {
    %p = loop.load %x[%i] : memref<50xi64>
    %q = arith.index_cast %p : i64 to index
    loop.atomic_add %one, %y[%q] where (%q >= 0) : memref<10xi64>
  }
}
