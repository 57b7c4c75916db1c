// RUN: dlc-opt %s -p 'tileify,cooperative-reduce{threads=4 rows=2 vector=2}' | filecheck %s --check-prefix=TILE
// RUN: dlc-opt %s -p 'tileify,cooperative-reduce{threads=4 rows=2 vector=2},bind-axes,lower-stages,lower-reduces,lower-registers,place-barriers' | filecheck %s --check-prefix=SHARED
// RUN: dlc-opt %s -p 'tileify,bind-axes,lower-stages,lower-reduces' | filecheck %s --check-prefix=ALONE

// A row of 8 is sorted by 4 threads, 2 points each: these are compared in registers, and exchanged
// in shared memory between two such steps, where each thread writes what it has read.

// TILE: %s = tile.sort %a along %t * 2 + %kv : i32

// SHARED: kernel.alloc_shared : memref<2x8xi32
// SHARED: arith.minsi
// SHARED: kernel.store %{{.*}}, %s_row[%trow, %t * 2]
// SHARED-NEXT: kernel.store %{{.*}}, %s_row[%trow, %t * 2 + 1]
// SHARED-NEXT: kernel.barrier
// SHARED-NEXT: %{{.*}} = kernel.load %s_row[%trow, %t floordiv 2 * 4 + %t mod 2]
// SHARED-NEXT: %{{.*}} = kernel.load %s_row[%trow, %t floordiv 2 * 4 - %t mod 2 + 3]
// SHARED-NEXT: %{{.*}} = arith.minsi

// A thread alone computes what it sorts before the loop, and has memory of its own for it.

// ALONE: kernel.alloc_local : memref<8xi32
// ALONE: tile.for serial(%k in 8)
// ALONE: arith.muli
// ALONE: scf.for %pair
// ALONE: arith.minsi
// ALONE: tile.for serial(%[[K:k.*]] in 8)
// ALONE: tile.load %s_row[%[[K]]]
%x = "test.op"() : () -> tensor<6x8xi32>
%y = loop.kernel @sorts(%x: memref<6x8xi32> = %x) -> (%y: memref<6x8xi32>) {
  loop.for %row in 6 {
    loop.for %k in 8 {
      %v = loop.load %x[%row, %k] : memref<6x8xi32>
      %a = arith.muli %v, %v : i32
      %s = loop.sort %a along %k : i32
      loop.store %s, %y[%row, %k] : memref<6x8xi32>
    }
  }
}

// What rises and then falls is compared half a row apart first: 4 points, then 2, then side by side.

// TILE: %m = tile.sort bitonic %v along %t * 2 + %kv : i32

// SHARED: @merges
// SHARED: kernel.barrier
// SHARED-NEXT: %{{.*}} = kernel.load %m_row[%trow, %t]
// SHARED-NEXT: %{{.*}} = kernel.load %m_row[%trow, %t + 4]
// SHARED-NEXT: %{{.*}} = arith.minsi
// SHARED-NEXT: %{{.*}} = arith.maxsi
// SHARED-NEXT: kernel.store %{{.*}}, %m_row[%trow, %t]
// SHARED: kernel.barrier
// SHARED: kernel.barrier
// SHARED-NOT: kernel.barrier

// ALONE: @merges
// ALONE: kernel.alloc_local : memref<8xi32
// ALONE: scf.for %pair
// ALONE: kernel.load %m_row[%pair + 4]
%z = loop.kernel @merges(%x: memref<6x8xi32> = %x) -> (%z: memref<6x8xi32>) {
  loop.for %row in 6 {
    loop.for %k in 8 {
      %v = loop.load %x[%row, %k] : memref<6x8xi32>
      %m = loop.sort bitonic %v along %k : i32
      loop.store %m, %z[%row, %k] : memref<6x8xi32>
    }
  }
}

// Where the first 2 of 8 are asked for, of each two that are compared across runs of 2 one is kept:
// half as many threads go on, 2 and then one; at last all read what comes first.

// TILE: %f = tile.sort first 2 %v along %t * 2 + %kv : i32

// SHARED: @first
// SHARED: kernel.store %{{.*}}, %f_row[%trow, %t * 2 + 1]
// SHARED-NEXT: kernel.barrier
// SHARED: kernel.store %{{.*}}, %f_row[%trow, %t floordiv 2 * 4 + %t mod 2]
// SHARED-NEXT: %{{.*}} = kernel.test where (%t < 2)
// SHARED-NEXT: kernel.barrier
// SHARED-NEXT: scf.if
// SHARED: kernel.test where (%t < 1)
// SHARED-NEXT: kernel.barrier
// SHARED: kernel.load %f_row[%trow, 0]
// SHARED-NEXT: kernel.load %f_row[%trow, 1]

// ALONE: @first
// ALONE: tile.load %f_row[%{{.*}} mod 2]
%f = loop.kernel @first(%x: memref<6x8xi32> = %x) -> (%z: memref<6x2xi32>) {
  loop.for %row in 6 {
    loop.for %k in 8 {
      %v = loop.load %x[%row, %k] : memref<6x8xi32>
      %f = loop.sort first 2 %v along %k : i32
      loop.store %f, %z[%row, %k] where (%k < 2) : memref<6x2xi32>
    }
  }
}
