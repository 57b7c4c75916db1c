// RUN: dlc-opt %s -p lift-to-loops,canonicalize | filecheck %s --check-prefix=LOOP
// RUN: dlc-opt %s -p 'lift-to-loops,tileify,blockify-launch{block=4,8 thread=4,4},register-tile{extents=2},bind-axes,lower-stages,lower-reduces' | filecheck %s --check-prefix=ENDS
// RUN: dlc-opt %s -p 'lift-to-loops,tileify,cooperative-reduce{threads=4 rows=2 vector=1},bind-axes,lower-stages,lower-reduces' | filecheck %s --check-prefix=SHARED
// RUN: dlc-opt %s -p 'lift-to-loops,tileify,blockify-launch{block=4,8 thread=2,8},register-tile{extents=2},bind-axes,lower-stages,lower-reduces' | filecheck %s --check-prefix=DIFFER

// Beyond its end, a run loads nothing and folds nothing.
// LOOP: loop.reduce add about 2 %k in 9 -> f32 {
// LOOP-NEXT: %[[x:.*]] = loop.load %x[%first + %k, %j] where (%points - %k >= 1) : memref<9x8xf32>
// LOOP-NEXT: loop.yield %[[x]] where (%points - %k >= 1) : f32

// The loop ends where memory says, and what holds in all of it is asked no more.
// ENDS: scf.for %k = %{{.*}} to %points step
// ENDS-NEXT: tile.load %x[%first + %k, %tj * 2 + %rj] : memref<9x8xf32>
// ENDS-NOT: where
// ENDS: about = 2

// Of threads that share a run, each ends at its own last place.
// SHARED: kernel.index (%points - %t + 3) floordiv 4
// SHARED: kernel.index (-%t) floordiv 4 + 3
// SHARED: %end = arith.index_cast
// SHARED: scf.for %ko = %{{.*}} to %end step

// Points of a thread whose runs end at different places have no end in common.
// DIFFER: tile.for serial(%k in 9)
// DIFFER: where (%points - %k >= 1)
func.func @main(%x: tensor<9x8xf32>, %o: tensor<5xi64>) -> tensor<4x8xf32> {
  %a = tensor_ir.index_map (d0, d1) -> %o[d0] : tensor<5xi64> -> tensor<4x8xi64>
  %b = tensor_ir.index_map (d0, d1) -> %o[d0 + 1] : tensor<5xi64> -> tensor<4x8xi64>
  %y = tensor_ir.fold add about 2 (%a, %b) (d0, d1) -> %x[i0, d1] : (tensor<4x8xi64>, tensor<4x8xi64>), tensor<9x8xf32> -> tensor<4x8xf32>
  func.return %y : tensor<4x8xf32>
}
