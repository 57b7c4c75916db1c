// RUN: dlc-opt %s --split-input-file -p canonicalize | filecheck %s
// RUN: dlc-opt %s --split-input-file -p cse | filecheck %s --check-prefix CSE
// RUN: dlc-opt %s --split-input-file -p dce | filecheck %s --check-prefix DCE

// Serial and register axes of one point vanish, those of a launch stay; conditions that are sure
// go, and stores that never happen; inputs that are not read, slabs that nobody needs.

// CHECK-LABEL: tile.kernel @k(%x: memref<8x64xf32> = %x) -> (%y: memref<8x64xf32>) {
// CHECK-NEXT:    tile.launch block(%b in 8) thread(%t in 64) serial(%one in 1) {
// CHECK-NEXT:      %s = tile.stage %x[%b, 0] [1, 64] : memref<8x64xf32> -> memref<64xf32, #tile.shared>
// CHECK-NEXT:      %a = tile.load %s[%t] : memref<64xf32, #tile.shared>
// CHECK-NEXT:      %[[ZERO:.*]] = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:      %r = tile.select %a where (%t < 5) else %[[ZERO]] : f32
// CHECK-NEXT:      tile.store %r, %y[%b, %t] : memref<8x64xf32>
// CHECK-NEXT:    }

// DCE-LABEL: tile.kernel @k
// DCE:         tile.stage
// DCE-NOT:     tile.stage
// DCE-NOT:     tile.ring
// DCE:         tile.store
// DCE-NEXT:    tile.store
func.func @main(%x: tensor<8x64xf32>, %z: tensor<64xf32>) -> tensor<8x64xf32> {
  %y = tile.kernel @k(%x: memref<8x64xf32> = %x, %z: memref<64xf32> = %z) -> (%y: memref<8x64xf32>) {
    tile.launch block(%b in 8) thread(%t in 64) serial(%one in 1) {
      %s = tile.stage %x[%b, 0] [1, 64] : memref<8x64xf32> -> memref<64xf32, #tile.shared>
      %u = tile.stage %z[0] [64] : memref<64xf32> -> memref<64xf32, #tile.shared>
      %g = tile.ring %x(%n in 4)[%b, %n * 16] [1, 16] : memref<8x64xf32> -> memref<2x16xf32, #tile.shared>
      %zero = arith.constant 0.0 : f32
      %r = tile.reduce add serial(%o in 1) register(%v in 1) -> f32 {
        %a = tile.load %s[%t + %o] where (%t < 64) else %zero : memref<64xf32, #tile.shared>
        tile.yield %a where (%t + %v < 5) : f32
      }
      tile.store %r, %y[%b, %t + %one] : memref<8x64xf32>
      tile.store %r, %y[%b, %t] where (%t >= 64) : memref<8x64xf32>
    }
  }
  func.return %y : tensor<8x64xf32>
}

// -----

// Equal stages are one slab, as nobody writes to it. Rings are two, and what is filled, acquired
// and released is, as often as it is said. A slot acquired again may hold another chunk.

// CSE-LABEL: tile.kernel @rings
// CSE:         tile.stage
// CSE-NOT:     tile.stage
// CSE:         %g = tile.ring
// CSE-NEXT:    %h = tile.ring
// CSE:           tile.fill %g[%o]
// CSE-NEXT:      tile.fill %h[%o]
// CSE-NEXT:      %c = tile.acquire %g[%o]
// CSE-NEXT:      %a = tile.load %c[%t]
// CSE-NEXT:      tile.release %g[%o]
// CSE-NEXT:      tile.acquire %h[%o]
// CSE-NEXT:      tile.release %h[%o]
// CSE-NEXT:      tile.fill %g[%o]
// CSE-NEXT:      %d = tile.acquire %g[%o]
// CSE-NEXT:      %e = tile.load %d[%t]
// CSE-NEXT:      tile.release %g[%o]
// CSE-NEXT:      %f = tile.load %s[%t]
// CSE-NEXT:      %0 = arith.addf %a, %e : f32
// CSE-NEXT:      %1 = arith.addf %f, %f : f32

// What keeps the order of a ring stays, also where no element is read.
// DCE-LABEL: tile.kernel @rings
// DCE:         tile.acquire %h[%o]
// DCE-NEXT:    tile.release %h[%o]

// CHECK-LABEL: tile.kernel @rings
// CHECK:       tile.acquire %h[%o]
func.func @main(%x: tensor<8x64xf32>) -> tensor<8x16xf32> {
  %y = tile.kernel @rings(%x: memref<8x64xf32> = %x) -> (%y: memref<8x16xf32>) {
    tile.launch block(%b in 8) thread(%t in 16) {
      %s = tile.stage %x[%b, 0] [1, 16] : memref<8x64xf32> -> memref<16xf32, #tile.shared>
      %u = tile.stage %x[%b, 0] [1, 16] : memref<8x64xf32> -> memref<16xf32, #tile.shared>
      %g = tile.ring %x(%n in 4)[%b, %n * 16] [1, 16] : memref<8x64xf32> -> memref<2x16xf32, #tile.shared>
      %h = tile.ring %x(%n in 4)[%b, %n * 16] [1, 16] : memref<8x64xf32> -> memref<2x16xf32, #tile.shared>
      %r = tile.reduce add serial(%o in 4) -> f32 {
        tile.fill %g[%o]
        tile.fill %h[%o]
        %c = tile.acquire %g[%o] : memref<2x16xf32, #tile.shared> -> memref<16xf32, #tile.shared>
        %a = tile.load %c[%t] : memref<16xf32, #tile.shared>
        tile.release %g[%o]
        %k = tile.acquire %h[%o] : memref<2x16xf32, #tile.shared> -> memref<16xf32, #tile.shared>
        tile.release %h[%o]
        tile.fill %g[%o]
        %d = tile.acquire %g[%o] : memref<2x16xf32, #tile.shared> -> memref<16xf32, #tile.shared>
        %e = tile.load %d[%t] : memref<16xf32, #tile.shared>
        tile.release %g[%o]
        %f = tile.load %s[%t] : memref<16xf32, #tile.shared>
        %i = tile.load %u[%t] : memref<16xf32, #tile.shared>
        %0 = arith.addf %a, %e : f32
        %1 = arith.addf %f, %i : f32
        %2 = arith.addf %0, %1 : f32
        tile.yield %2 : f32
      }
      tile.store %r, %y[%b, %t] : memref<8x16xf32>
    }
  }
  func.return %y : tensor<8x16xf32>
}

// -----

// A launch stays, even if it does nothing: a kernel has one.

// DCE-LABEL: tile.kernel @nothing
// DCE-NEXT:  tile.launch
// CHECK-LABEL: tile.kernel @nothing
// CHECK-NEXT: tile.launch
// CSE-LABEL: tile.kernel @nothing
func.func @main(%x: tensor<0xf32>) -> tensor<0xf32> {
  %y = tile.kernel @nothing(%x: memref<0xf32> = %x) -> (%y: memref<0xf32>) {
    tile.launch block(%b in 0) {
      %a = tile.load %x[%b] : memref<0xf32>
    }
  }
  func.return %y : tensor<0xf32>
}

// -----

// What is computed of constants is one.

// CHECK-LABEL: tile.kernel @constants
// CHECK:           %c = arith.constant 7.3890562{{\d*}} : f32
// CHECK-NEXT:      tile.store %c, %y[%b] : memref<8xf32>
func.func @main() -> tensor<8xf32> {
  %y = tile.kernel @constants() -> (%y: memref<8xf32>) {
    tile.launch block(%b in 8) {
      %a = arith.constant 2.0 : f32
      %c = math.exp %a : f32
      tile.store %c, %y[%b] : memref<8xf32>
    }
  }
  func.return %y : tensor<8xf32>
}
